"""A made-up burn-in with a fault of every kind, for tests of its pages and documents."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from healthcheck.burnin import faults
from healthcheck.burnin.counters import CounterGrowth
from healthcheck.burnin.document import Burnin
from healthcheck.burnin.model import (
    Accusation,
    BurnInStage,
    Object,
    RankEnd,
    RankProgress,
    RankReport,
    Seat,
    TaskResult,
    WrongData,
)
from healthcheck.burnin.stagecounters import StageCounters
from tests.healthcheck.burnin.made import (
    NCCL,
    PAIRED,
    burnin,
    changed,
    collective,
    pair,
    places,
    result,
    sound,
)

PLACES = places(12, per_leaf=4)


def faulty() -> Burnin:
    """Twelve nodes on three leaves: one computes wrongly, one is slow for its heat, one died, one has a bad
    rail, and a pair is slow.
    """
    results: Iterable[TaskResult] = [one for one in sound(PLACES) if one.task.id != "all-1"]
    results = changed(results, "node-random-gpu002", "gpu002:6", checksums={"random_bf16_4096": "ee:ff"},
                      wrong=(WrongData(3, 17, (6,), True),), wrong_total=17)
    results = changed(results, "node-rate-gpu004", "gpu004:1",
                      figures={"tflops_bf16": 540.0, "tflops_fp8": 900.0, "clock_mhz": 1305.0,
                               "temperature_c": 88.0, "throttle_bits": float(0x40 | 0x08 | 0x04)})
    results = changed(results, "leaf1-gpu009-gpu010", "*", figures={"busbw_gb_s": 190.0})
    dead = Accusation(Object.GPU, "gpu006:3", faults.DEAD,
                      "its process was ended by signal 9 in iteration 15", ("cross-gpu006-gpu010",),
                      ("leaf1-gpu005-gpu006", "leaf2-gpu006-gpu007"), confirmed=True)
    gone = RankReport(Seat("gpu006", 3), RankEnd.SIGNAL, code=9, facts=NCCL, error="Killed",
                      last=RankProgress(15, "compute", moved=1042.5, alive=1043.0, state="R"))
    others = {str(seat): RankReport(seat, RankEnd.RAISED, facts=NCCL,
                                    error="connection closed by peer [10.1.0.6]:39211")
              for seat in pair("x", "gpu006", "gpu010").seats if str(seat) != "gpu006:3"}
    results.append(result(pair("cross-gpu006-gpu010", "gpu006", "gpu010", stage=BurnInStage.CROSS_PAIRS),
                          collective(370, ranks=16), change={**others, "gpu006:3": gone}, accusations=(dead,),
                          named_after=0.4))
    counters = (CounterGrowth("gpu008", "rail5", "link_downed", 1, 3, 600.0),
                CounterGrowth("gpu011", "gpu0", "ecc_uncorrected", 0, None, 600.0))
    stages = (
        StageCounters(BurnInStage.NODE, "gpu004", {"gpu0": 11, "gpu1": 10, "rail0": 9},
                      (("gpu1", "pcie_replays", 412), ("gpu1", "slowdown_hw_thermal_ns", 41_300_000_000)),
                      (("gpu1", "ecc_corrected", "not read after"),)),
        StageCounters(BurnInStage.LEAF_PAIRS, "gpu009", {"gpu0": 11, "rail0": 9, "rail1": 9}),
        StageCounters(BurnInStage.LEAF_PAIRS, "gpu010", {}, why="connect: no route to host"))
    whole = burnin(PLACES, results, counters=counters, stage_counters=stages,
                   missing={BurnInStage.ALL: "four nodes had failed before it"}, asked=PAIRED)
    return replace(whole, options={"nodes": "gpu[001-012]", "max_kw": 100, "token": "0123456789abcdef"},
                   environment={"NCCL_DEBUG": "WARN", "NCCL_IB_HCA": "=mlx5_0,mlx5_1",
                                "HF_TOKEN": "hf_secret", "AWS_SECRET_ACCESS_KEY": "x"})
