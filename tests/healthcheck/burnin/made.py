"""Made-up places, reports, results and whole burn-ins, from plain parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from healthcheck.burnin.document import Burnin
from healthcheck.burnin.floors import Floors
from healthcheck.burnin.judge import BurnInResults, judge
from healthcheck.burnin.model import (
    BurnInStage,
    Participant,
    Rail,
    RankEnd,
    RankReport,
    Seat,
    Task,
    TaskKind,
    TaskResult,
)
from healthcheck.burnin.params import ladder
from healthcheck.burnin.publishedload import load_burnin
from healthcheck.burnin.setting import SkuHardware
from healthcheck.config.rulesfolder import packaged

GIB = 1024**3
H100 = "NVIDIA H100 80GB HBM3"
HARDWARE = MappingProxyType({"hgx-h100": SkuHardware("H100", 400)})
NCCL = {"backend": "nccl", "device": H100, "driver": "570.86", "cuda": "12.8", "torch": "2.9.0",
        "nccl": "2.27.3"}
GLOO = {"backend": "gloo", "device": "cpu", "torch": "2.13.0"}
RULES = load_burnin([packaged()])
FLOORS = Floors(RULES, (), "0" * 64)
ASKED = tuple((BurnInStage.NODE, kind) for kind in TaskKind if kind not in (TaskKind.STORAGE, TaskKind.WRITE))
PAIRED = (*ASKED, (BurnInStage.LEAF_PAIRS, TaskKind.ALLREDUCE), (BurnInStage.ALL, TaskKind.ALLREDUCE))


def place(node: str, *, gpus: int = 8, leaf: str | None = "leaf01", rails: int = 8,
          sku: str | None = "hgx-h100", **more: Any) -> Participant:
    return Participant(node, gpus, sku, leaf,
                       rails=tuple(Rail(at, f"0000:{0x18 + at:02x}:00.0", leaf) for at in range(rails)),
                       **more)


def places(count: int, *, per_leaf: int = 16, **more: Any) -> tuple[Participant, ...]:
    return tuple(place(f"gpu{number + 1:03}", leaf=f"leaf{number // per_leaf + 1:02}", **more)
                 for number in range(count))


def task(
    id_: str, stage: BurnInStage, kind: TaskKind, nodes: Iterable[str], *, gpus: int = 8,
    environment: Mapping[str, str] = MappingProxyType({}),
    **params: int | float | str,
) -> Task:
    seats = tuple(Seat(node, gpu) for node in nodes for gpu in range(gpus))
    return Task(id_, stage, kind, seats, 300.0, params, environment)


def result(
    of: Task, figures: Mapping[str, float] | Callable[[Seat], Mapping[str, float]], *,
    facts: Mapping[str, str] = MappingProxyType(NCCL),
    checksums: Mapping[str, str] | Callable[[Seat], Mapping[str, str]] = MappingProxyType({}),
    change: Mapping[str, RankReport] | None = None,
    **more: Any,
) -> TaskResult:
    """A result in which every rank is done; `figures` may depend on the seat, and `change` replaces reports
    by seat.
    """
    reports = tuple(
        (change or {}).get(str(seat)) or RankReport(
            seat, RankEnd.DONE, {"verified": 50.0, **(figures(seat) if callable(figures) else figures)},
            checksums(seat) if callable(checksums) else checksums, facts={**facts, "uuid": f"GPU-{seat}"})
        for seat in of.seats)
    return TaskResult(of, reports, began=1000.0, ended=1060.0, **more)


def died(seat: Seat, end: RankEnd = RankEnd.SIGNAL, **more: Any) -> RankReport:
    return RankReport(seat, end, code=9, facts=NCCL, **more)


def collective(busbw: float, *, ranks: int, size: int = 8 * GIB, p99: float = 1.02,
               compute: float = 0.002) -> dict[str, float]:
    """The figures of a rank of an all-reduce that reached this bandwidth; one rank alone has none."""
    seconds = 2 * (ranks - 1) / ranks * size / busbw / 1e9 if ranks > 1 else 0.001
    busbw = busbw if ranks > 1 else 0.0
    return {"busbw_gb_s": busbw, "algbw_gb_s": size / seconds / 1e9, "size_bytes": size,
            "seconds_p50": seconds, "seconds_p99": p99 * seconds, "seconds_max": p99 * seconds,
            "seconds_often": 1.01 * seconds, "compute_p50": compute, "iterations": 50, "checks": 87.0,
            "check_share": 0.034}


def swept(share: float = 1.0, *, size: int = 2**20) -> dict[str, float]:
    """The figures of a rank of a sweep over sizes."""
    return ({f"latency_us_{each}": (18 + each / 1e5) / share for each in ladder(size, 64)}
            | {"size_bytes": float(size)})


TRAINED = MappingProxyType({"train_weights_150": "aa", "train_grads_150": "bb", "train_sum_150": "0",
                            "train_weights_300": "cc", "train_grads_300": "dd", "train_sum_300": "0"})


def trained(steps_s: float) -> dict[str, float]:
    """The figures of a rank of a training whose own work is as fast as that."""
    own, waited = 1 / steps_s, 0.002
    return {"train_steps_s": steps_s, "train_loss_first": 7.1, "train_loss": 0.9, "compute_p50": own,
            "seconds_p50": waited, "step_p50": own + waited, "step_often": 1.01 * (own + waited),
            "iterations": 295.0, "check_share": 0.071}


def spread(number: int) -> float:
    """Sound machines differ a little, and always so."""
    return 1 + ((number * 7919) % 11 - 5) / 1000


def sound(places_: Sequence[Participant], *, pairs: bool = True,
          facts: Mapping[str, str] = MappingProxyType(NCCL)) -> list[TaskResult]:
    """The results of machines without a fault: each node alone, pairs of neighbours in two rounds, all."""
    found = []
    for number, at in enumerate(places_):
        def of(kind: TaskKind, figures: Any, at: Participant = at, checksums: Any = MappingProxyType({}),
               numa: bool = False) -> TaskResult:
            made = result(task(f"node-{kind.value}-{at.node}", BurnInStage.NODE, kind, [at.node],
                               gpus=at.gpus), figures, facts=facts, checksums=checksums)
            half = {str(seat): {"numa": f"node {seat.gpu * 2 // max(2, at.gpus)}"}
                    for seat in made.task.seats} if numa else {}
            return replace(made,
                           reports=tuple(replace(one, facts={**one.facts, **half.get(str(one.seat), {})})
                                         for one in made.reports))

        def rates(seat: Seat, number: int = number) -> dict[str, float]:
            share = spread(8 * number + seat.gpu)
            return {"tflops_bf16": 720 * share, "tflops_fp8": 1250 * share, "clock_mhz": 1755.0,
                    "power_w": 698.0, "temperature_c": 61.0, "throttle_bits": 4.0}

        found += [of(TaskKind.KNOWN, {}, checksums={"known_bf16_8192": "aa:bb"}),
                  of(TaskKind.RANDOM, {}, checksums={"random_bf16_4096": "cc:dd"}),
                  of(TaskKind.MEMORY, {"memory_gb_s": 1500 * spread(number), "memory_share": 0.93}),
                  of(TaskKind.RATE, rates),
                  of(TaskKind.COPY,
                     {"copy_to_gb_s": 54 * spread(number), "copy_from_gb_s": 52 * spread(number)}),
                  of(TaskKind.HOST, {"host_gb_s": 45 * spread(number)}, numa=True),
                  of(TaskKind.ALLREDUCE, collective(472 * spread(number), ranks=at.gpus)),
                  result(task(f"node-sizes-{at.node}", BurnInStage.NODE, TaskKind.SIZES, [at.node],
                              gpus=at.gpus, factor=64), swept(spread(number)),
                         facts={**facts, "nccl_chose": "8:RING/LL 32768:RING/LL128 1048576:RING/SIMPLE"}),
                  of(TaskKind.TRAIN, trained(32 * spread(number)), checksums=TRAINED)]
    names = [at.node for at in places_]
    if pairs and len(names) > 1:
        for turn in (1, 2):
            turned = names[turn - 1:] + names[:turn - 1]
            for left, right in zip(turned[::2], turned[1::2], strict=False):
                found.append(result(pair(f"leaf{turn}-{left}-{right}", left, right, places_[0].gpus),
                                    collective(370 * spread(turn), ranks=2 * places_[0].gpus), facts=facts))
        found.append(result(task("all-1", BurnInStage.ALL, TaskKind.ALLREDUCE, names, gpus=places_[0].gpus),
                            collective(385, ranks=len(names) * places_[0].gpus), facts=facts))
    return found


def pair(id_: str, left: str, right: str, gpus: int = 8, stage: BurnInStage = BurnInStage.LEAF_PAIRS) -> Task:
    return task(id_, stage, TaskKind.ALLREDUCE, [left, right], gpus=gpus, environment={"NCCL_ALGO": "RING"})


def changed(results: Iterable[TaskResult], id_: str, seat: str, **changes: Any) -> list[TaskResult]:
    """The same results, but for one rank's report in one task; a change of figures, facts or checksums is
    laid over those that it has.
    """
    found = []
    for one in results:
        if one.task.id == id_:
            reports = tuple(
                replace(report, **{key: {**getattr(report, key), **value}
                                   if isinstance(value, dict) else value for key, value in changes.items()})
                if seat in ("*", str(report.seat)) else report for report in one.reports)
            one = replace(one, reports=reports)
        found.append(one)
    return found


def burnt(places_: Sequence[Participant], results: Iterable[TaskResult], *, asked: Any = PAIRED,
          **more: Any) -> BurnInResults:
    return BurnInResults(tuple(places_), tuple(results), asked, hardware=HARDWARE, **more)


def burnin(places_: Sequence[Participant] | None = None, results: Iterable[TaskResult] | None = None, *,
           floors: Floors = FLOORS, run: str = "20261122T030000-1", began: float = 1795316400.0,
           **more: Any) -> Burnin:
    there = places(8) if places_ is None else places_
    whole = burnt(there, sound(there) if results is None else results, **more)
    return Burnin(run, "quick", began, began + 600, "0.1.0", whole, judge(whole, floors), floors.digest,
                  {"nodes": "gpu[001-008]", "max_kw": 80, "head": "10.0.0.1"}, {"NCCL_ALGO": "RING"})
