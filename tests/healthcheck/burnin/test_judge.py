"""Judging made-up burn-ins: only the guilty is named, and what was not measured is never a pass."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from healthcheck.burnin import faults
from healthcheck.burnin.counters import CounterGrowth
from healthcheck.burnin.floors import Floors, LearnedFloor
from healthcheck.burnin.judge import judge
from healthcheck.burnin.judgement import BurnInOutcome, Judgement
from healthcheck.burnin.model import (
    Accusation,
    BurnInStage,
    Object,
    Participant,
    RankEnd,
    Seat,
    TaskKind,
    TaskResult,
)
from healthcheck.burnin.published import BUSBW, GIB, Setting
from tests.healthcheck.burnin.made import (
    ASKED,
    FLOORS,
    GLOO,
    H100,
    PAIRED,
    RULES,
    burnt,
    changed,
    collective,
    died,
    pair,
    place,
    places,
    result,
    sound,
    spread,
    task,
)

EIGHT = places(8)
ONE_UNKNOWN = {BurnInOutcome.PASS: 7, BurnInOutcome.UNKNOWN: 1}
ONE_FAILS = {BurnInOutcome.PASS: 7, BurnInOutcome.FAIL: 1}
ALL_UNKNOWN = {BurnInOutcome.UNKNOWN: 8}


def judged(results: Sequence[TaskResult], there: Sequence[Participant] = EIGHT, floors: Floors = FLOORS,
           **more: Any) -> Judgement:
    return judge(burnt(there, results, **more), floors)


def accused(of: Judgement) -> dict[str, str]:
    return {one.name: one.fault for one in of.accusations}


def outcome(of: Judgement, node: str) -> BurnInOutcome:
    return next(one.outcome for one in of.outcomes if one.node == node)


def why(of: Judgement, node: str) -> str:
    return "; ".join(next(one.why for one in of.outcomes if one.node == node))


def counted(of: Judgement) -> dict[BurnInOutcome, int]:
    return {kind: sum(one.outcome is kind for one in of.outcomes) for kind in BurnInOutcome
            if any(one.outcome is kind for one in of.outcomes)}


def test_sound_machines_pass_and_no_one_is_accused() -> None:
    of = judged(sound(EIGHT))
    assert of.verdict is BurnInOutcome.PASS and not of.accusations and counted(of) == {BurnInOutcome.PASS: 8}
    assert all(stage.done for one in of.outcomes for stage in one.stages)


def test_nothing_measured_is_no_pass() -> None:
    assert judged([]).verdict is BurnInOutcome.UNKNOWN and "node: not run" in why(judged([]), "gpu001")
    assert judge(burnt((), []), FLOORS).verdict is BurnInOutcome.UNKNOWN
    # Nor is it where nothing was asked for.
    assert judged(sound(EIGHT), asked=()).verdict is BurnInOutcome.UNKNOWN


@pytest.mark.parametrize("kind", [kind for _, kind in ASKED])
def test_a_kind_of_work_that_was_not_run_leaves_the_nodes_unknown(kind: TaskKind) -> None:
    of = judged([one for one in sound(EIGHT) if one.task.stage is not BurnInStage.NODE
                 or one.task.kind is not kind])
    assert counted(of) == ALL_UNKNOWN and f"node: {kind.value} was not run" in why(of, "gpu003")


def test_a_stage_that_was_called_off_says_why() -> None:
    of = judged([one for one in sound(EIGHT) if one.task.stage is not BurnInStage.ALL],
                missing={BurnInStage.ALL: "two nodes had failed"})
    assert counted(of) == ALL_UNKNOWN and why(of, "gpu001") == "all: not run: two nodes had failed"


def test_a_node_with_fewer_gpus_measured_than_it_has_is_unknown() -> None:
    seven = result(task("node-random-gpu003", BurnInStage.NODE, TaskKind.RANDOM, ["gpu003"], gpus=7), {})
    of = judged([seven if one.task.id == seven.task.id else one for one in sound(EIGHT)])
    assert counted(of) == ONE_UNKNOWN and "measured on 7 of 8 GPUs" in why(of, "gpu003")


@pytest.mark.parametrize(("work", "change", "said"), [
    # done without a figure, or in no time at all
    ("node-known-gpu003", {"figures": {"verified": 0}}, "known was measured on 7 of 8 GPUs"),
    ("node-copy-gpu003", {"figures": {"copy_to_gb_s": 0.0}}, "copy was measured on 7 of 8 GPUs"),
    ("node-copy-gpu003", {"figures": {"copy_from_gb_s": 0.0}}, "copy was measured on 7 of 8 GPUs"),
    ("node-memory-gpu003", {"figures": {"memory_gb_s": 0.0}}, "memory was measured on 7 of 8 GPUs"),
    ("node-rate-gpu003", {"figures": {"tflops_bf16": 0.0, "tflops_fp8": 0.0}},
     "rate was measured on 7 of 8 GPUs"),
    ("node-known-gpu003", {"facts": {"backend": "gloo"}}, "gpu003:2 worked on a CPU"),
    ("node-memory-gpu003", {"figures": {"memory_share": 0.5}}, "50% of the memory of gpu003:2 was tested"),
    ("all-1", {"figures": {"verified": 0}}, "all: allreduce reported no figure"),
    # more than the data sheet allows
    ("node-rate-gpu003", {"figures": {"tflops_bf16": 5000}}, "data sheet"),
])
def test_a_rank_that_has_measured_nothing_or_what_cannot_be_leaves_its_node_unknown(
    work: str, change: dict[str, Any], said: str,
) -> None:
    of = judged(changed(sound(EIGHT), work, "gpu003:2", **change))
    assert not of.accusations and counted(of) == ONE_UNKNOWN and said in why(of, "gpu003")


@pytest.mark.parametrize(("work", "rank", "change", "name", "fault", "said"), [
    ("node-memory-gpu003", "gpu003:5", {"wrong_total": 3}, "gpu003:5", faults.WRONG_DATA,
     "memory: 3 wrong elements"),
    ("node-random-gpu003", "gpu003:5", {"checksums": {"random_bf16_4096": "ee:ff"}}, "gpu003:5",
     faults.WRONG_DATA, "differs from that of 63 equals"),
    ("node-allreduce-gpu003", "*", {"figures": {"seconds_often": 1.0}}, "gpu003", faults.JITTER,
     "times the median, allowed 1.5"),
])
def test_who_is_wrong_by_itself_differs_from_its_equals_or_jitters_is_accused(
    work: str, rank: str, change: dict[str, Any], name: str, fault: str, said: str,
) -> None:
    of = judged(changed(sound(EIGHT), work, rank, **change))
    assert accused(of) == {name: fault} and said in of.accusations[0].why
def test_a_slow_gpu_is_named_with_what_its_clock_says() -> None:
    of = judged(changed(sound(EIGHT), "node-rate-gpu003", "gpu003:5",
                        figures={"tflops_bf16": 600.0, "tflops_fp8": 1050, "clock_mhz": 1400,
                                 "throttle_bits": float(0x80 | 0x08)}))
    (one,) = of.accusations
    assert ((one.object, one.name, one.fault) == (Object.GPU, "gpu003:5", faults.SLOW)
            and one.tests_for == ("node-rate-gpu003",))
    assert "83% of the median of 64 equals" in one.why
    assert "cause: SM clock 1400 MHz, equals 1755" in one.why and "hardware power brake" in one.why
    assert counted(of) == ONE_FAILS
def test_eight_per_cent_in_a_node_of_eight_gpus_are_seen_where_three_sigma_cannot_fire() -> None:
    there = places(1)
    of = judged(changed(sound(there, pairs=False), "node-rate-gpu001", "gpu001:5",
                        figures={"tflops_bf16": 660.0}), there, asked=ASKED)
    assert accused(of) == {"gpu001:5": faults.SLOW}


def test_less_than_three_per_cent_are_no_ones_fault() -> None:
    assert not judged(changed(sound(EIGHT), "node-rate-gpu003", "gpu003:5",
                              figures={"tflops_bf16": 701.0})).accusations


def test_where_most_are_slow_the_floor_tells() -> None:
    results = sound(EIGHT)
    for node in range(1, 7):
        results = changed(results, f"node-allreduce-gpu00{node}", "*", figures={BUSBW: 365.0})
    of = judged(results)
    assert (accused(of) == {f"gpu00{node}": faults.SLOW for node in range(1, 7)}
            and "floor 437.9" in of.accusations[0].why)


def test_a_learned_floor_is_what_counts() -> None:
    ours = LearnedFloor(Setting(BUSBW, "node", H100, 8, 1, 0, 0, 8 * GIB, "auto"), (1, 1), 480, 1, 64, 471.5,
                        by="the operator")
    of = judged(sound(EIGHT), floors=Floors(RULES, (ours,)))
    assert of.accusations and all("learned" in one.why and "the operator" in one.why
                                  for one in of.accusations)


def test_without_a_floor_it_is_reported_that_equals_alone_judged() -> None:
    other = {"device": "NVIDIA L40S"}
    results = [replace(one, reports=tuple(replace(report, facts={**report.facts, **other})
                                          for report in one.reports)) for one in sound(EIGHT)]
    of = judged(results)
    assert ("tflops_bf16 in node: no floor was learned or published for it, judged by equals "
            "alone" in of.remarks)
    # what its NICs allow is known
    assert not any("busbw" in one and "leaf-pairs" in one for one in of.remarks)
    assert (accused(judged(changed(results, "node-rate-gpu003", "gpu003:5", figures={"tflops_bf16": 600.0})))
            == {"gpu003:5": faults.SLOW})


@pytest.mark.parametrize(("n", "accuses"), [(8192, True), (1024, False)])
def test_a_rate_of_other_matrices_is_not_held_against_what_is_published_for_the_usual_ones(
    n: int, accuses: bool,
) -> None:
    results = [replace(one, task=replace(one.task, params={**one.task.params, "n": n}))
               if one.task.kind is TaskKind.RATE else one for one in sound(EIGHT)]
    for node in (one.node for one in EIGHT):
        results = changed(results, f"node-rate-{node}", "*", figures={"tflops_bf16": 300.0})
    assert bool(accused(judged(results))) is accuses


def test_where_equals_are_not_compared_no_one_says_that_they_were() -> None:
    alone = Floors(replace(RULES, relative={"nccl": None}))
    of = judged(changed(sound(EIGHT), "node-copy-gpu003", "*", figures={"copy_to_gb_s": 1.0}), floors=alone)
    assert not of.accusations and not any(one.equals for one in of.held)
    assert ("copy_to_gb_s in node: no floor was learned or published for it, and it was not compared with "
            "equals: not judged" in of.remarks)


def test_boards_under_another_power_limit_are_no_equals() -> None:
    results = sound(EIGHT)
    for node in ("gpu001", "gpu002"):
        results = changed(results, f"node-rate-{node}", "*",
                          figures={"tflops_bf16": 600.0, "tflops_fp8": 1000.0},
                          facts={"power_limit_w": "500"})
    assert not judged(results).accusations


def test_a_slow_rail_is_named_as_a_rail() -> None:
    rails = []
    for node in EIGHT:
        for rail in range(2):
            rate = 20.0 if (node.node, rail) == ("gpu004", 1) else 47.0
            rails.append(result(task(f"rail-{rail}-{node.node}", BurnInStage.RAIL, TaskKind.ALLREDUCE,
                                     [node.node], gpus=2, rail=rail), collective(rate, ranks=2, size=GIB)))
    of = judged([*sound(EIGHT), *rails])
    (one,) = of.accusations
    assert (one.object, one.name, one.fault) == (Object.RAIL, "gpu004/rail1", faults.SLOW_LINK)
    assert counted(of) == ONE_FAILS


def test_a_pair_below_the_floor_keeps_both_nodes_from_passing_and_accuses_neither() -> None:
    of = judged(changed(sound(EIGHT), "leaf1-gpu003-gpu004", "*", figures={BUSBW: 180.0}))
    (one,) = of.accusations
    assert (one.object, one.name) == (Object.PAIR, "gpu003 - gpu004")
    assert (counted(of) == {BurnInOutcome.PASS: 6, BurnInOutcome.UNKNOWN: 2}
            and "which of them is unknown" in why(of, "gpu003"))
    assert of.verdict is BurnInOutcome.FAIL


def test_a_pair_that_was_slow_in_one_of_three_tests_is_not_accused_in_one_of_two_it_is() -> None:
    again = [result(pair(f"again-{number}", "gpu003", "gpu004"), collective(370, ranks=16))
             for number in (1, 2)]
    results = changed(sound(EIGHT), "leaf1-gpu003-gpu004", "*", figures={BUSBW: 180.0})
    assert judged([*results, *again]).verdict is BurnInOutcome.PASS
    (one,) = judged([*results, again[0]]).accusations
    assert "in 1 of 2 tests" in one.why and one.tests_against == ("again-1",)


def test_a_node_that_isolation_named_answers_for_its_pairs() -> None:
    found = (Accusation(Object.NODE, "gpu003", faults.SLOW_LINK, "slow with two partners",
                        ("leaf1-gpu003-gpu004", "leaf2-gpu002-gpu003")),)
    results = changed(changed(sound(EIGHT), "leaf1-gpu003-gpu004", "*", figures={BUSBW: 180.0}),
                      "leaf2-gpu002-gpu003", "*", figures={BUSBW: 180.0})
    of = judged(results, found=found)
    assert accused(of) == {"gpu003": faults.SLOW_LINK} and counted(of) == ONE_FAILS


def test_all_together_below_the_floor_is_unexplained_and_no_one_passes() -> None:
    of = judged(changed(sound(EIGHT), "all-1", "*", figures={BUSBW: 300.0}))
    (one,) = of.accusations
    assert (one.object is Object.UNEXPLAINED and counted(of) == ALL_UNKNOWN
            and of.verdict is BurnInOutcome.FAIL)


def test_a_leaf_that_is_accused_keeps_what_is_behind_it_from_passing() -> None:
    there = places(8, per_leaf=4)
    of = judged(sound(there), there,
                found=(Accusation(Object.LEAF, "leaf02", faults.SLOW_LINK, "slow to two leaves", ("x",)),))
    assert (counted(of) == {BurnInOutcome.PASS: 4, BurnInOutcome.UNKNOWN: 4}
            and "behind leaf02" in why(of, "gpu005"))


def test_who_died_is_accused_and_the_partner_that_was_measured_in_another_round_passes() -> None:
    dead = Accusation(Object.GPU, "gpu003:1", faults.DEAD, "signal 9", ("leaf1-gpu003-gpu004",))
    results = [one for one in sound(EIGHT) if "gpu003" not in one.task.nodes
               or one.task.stage is BurnInStage.NODE]
    gone = pair("leaf1-gpu003-gpu004", "gpu003", "gpu004")
    results.append(result(gone, collective(370, ranks=16), change={"gpu003:1": died(Seat("gpu003", 1))},
                          accusations=(dead,)))
    results.append(result(task("all-2", BurnInStage.ALL, TaskKind.ALLREDUCE,
                               [at.node for at in EIGHT if at.node != "gpu003"]), collective(385, ranks=56)))
    of = judged(results)
    assert accused(of) == {"gpu003:1": faults.DEAD} and counted(of) == ONE_FAILS


@pytest.mark.parametrize(("partner", "done"), [("gpu002", {BurnInStage.LEAF_PAIRS}),
                                               ("gpu005", {BurnInStage.LEAF_PAIRS, BurnInStage.CROSS_PAIRS})])
def test_a_pair_with_a_proven_node_stands_in_for_a_pair_across_leaves_only_where_it_is_one(
    partner: str, done: set[BurnInStage],
) -> None:
    there = places(8, per_leaf=4)
    asked = ((BurnInStage.LEAF_PAIRS, TaskKind.ALLREDUCE), (BurnInStage.CROSS_PAIRS, TaskKind.ALLREDUCE))
    of = judged([result(pair("confirm", "gpu001", partner, stage=BurnInStage.LEAF_CONFIRM),
                        collective(370, ranks=16))], there, asked=asked)
    assert {stage.stage for stage in of.outcomes[0].stages if stage.done} == done


def test_a_task_that_was_not_whole_and_for_which_no_one_is_named_is_unexplained() -> None:
    of = judged(changed(sound(EIGHT), "leaf1-gpu003-gpu004", "gpu003:1", end=RankEnd.RAISED))
    (one,) = of.accusations
    assert (one.object, one.name) == (Object.UNEXPLAINED, "leaf1-gpu003-gpu004")
    assert {node.node for node in of.outcomes if node.outcome is not BurnInOutcome.PASS} == {
        "gpu003", "gpu004"}


def test_wrong_data_that_no_one_is_named_for_is_unexplained_and_not_forgotten() -> None:
    of = judged(changed(sound(EIGHT), "all-1", "gpu003:5", wrong_total=3))
    (one,) = of.accusations
    assert (one.object, one.fault) == (Object.UNEXPLAINED, faults.WRONG_DATA) and counted(of) == ALL_UNKNOWN
def test_another_driver_makes_another_product_and_is_no_fault() -> None:
    results = changed(sound(EIGHT), "node-random-gpu003", "*", checksums={"random_bf16_4096": "ee:ff"},
                      facts={"driver": "580.1"})
    assert not judged(results).accusations
    # A known answer is the same on every chip.
    assert accused(
        judged(changed(sound(EIGHT), "node-known-gpu003", "gpu003:0", checksums={"known_bf16_8192": "ee:ff"},
                       facts={"device": "NVIDIA A100-SXM4-80GB"}))) == {"gpu003:0": faults.WRONG_DATA}


def test_two_against_two_is_unexplained() -> None:
    there = (place("gpu001", gpus=4),)
    results = sound(there, pairs=False)
    for gpu in (0, 1):
        results = changed(results, "node-random-gpu001", f"gpu001:{gpu}",
                          checksums={"random_bf16_4096": "ee:ff"})
    of = judged(results, there, asked=ASKED)
    (one,) = of.accusations
    assert (one.object is Object.UNEXPLAINED and one.fault == faults.WRONG_DATA
            and outcome(of, "gpu001") is BurnInOutcome.UNKNOWN)


def test_whose_known_product_is_wrong_leaves_no_doubt_on_the_only_other_node() -> None:
    two = places(2, gpus=1)
    results = changed(sound(two, pairs=False), "node-known-gpu002", "gpu002:0",
                      checksums={"known_bf16_8192": "ee:ff"}, wrong_total=3)
    assert accused(judged(results, two, asked=ASKED)) == {"gpu002:0": faults.WRONG_DATA}


def test_a_tie_leaves_in_doubt_only_those_that_are_of_it() -> None:
    # One task on all nodes, two of which have other GPUs, one board each of which computes something else.
    there = (*places(6), *(place(f"old{number}", gpus=1) for number in (1, 2)))
    of_all = task("random-all", BurnInStage.NODE, TaskKind.RANDOM, [at.node for at in there], gpus=1)
    whole = result(of_all, {}, checksums=lambda seat: {"r": {"old1": "b", "old2": "c"}.get(seat.node, "a")})
    whole = replace(whole,
                    reports=tuple(replace(one, facts={**one.facts, "device": "NVIDIA V100"})
                                  if one.seat.node.startswith("old") else one for one in whole.reports))
    of = judged([whole], [replace(at, gpus=1) for at in there], asked=((BurnInStage.NODE, TaskKind.RANDOM),))
    assert (counted(of) == {BurnInOutcome.PASS: 6, BurnInOutcome.UNKNOWN: 2}
            and "unexplained" in why(of, "old1"))


def test_one_gpu_alone_has_nothing_to_be_compared_with_and_that_is_reported() -> None:
    there = (place("gpu001", gpus=1),)
    of = judged(sound(there, pairs=False), there,
                asked=[each for each in ASKED if each[1] is not TaskKind.ALLREDUCE])
    assert of.verdict is BurnInOutcome.UNKNOWN and any("had no equal to compare with" in one
                                                       for one in of.remarks)
    assert any("it was not compared with equals: not judged" in one for one in of.remarks)
    assert "a training had no equal" in why(of, "gpu001")
    assert ("a random product had no equal" in why(of, "gpu001")
            and "memory_gb_s in node was not judged" in why(of, "gpu001"))


def test_what_the_site_s_policy_accepts_by_name_may_go_unjudged_and_nothing_else() -> None:
    there = (place("gpu001", gpus=1),)
    asked = [each for each in ASKED if each[1] is not TaskKind.ALLREDUCE]
    names = ("tflops_bf16 in node", "tflops_fp8 in node", "memory_gb_s in node", "copy_to_gb_s in node",
             "copy_from_gb_s in node", "host_gb_s in node", "train_steps_s in node", "checksums in node")
    of = judged(sound(there, pairs=False), there, asked=asked,
                floors=Floors(replace(RULES, accept={"nccl": names})))
    assert of.verdict is BurnInOutcome.PASS and any("not judged, which the site's policy accepts" in one
                                                    for one in of.remarks)
    for at in range(len(names)):
        less = Floors(replace(RULES, accept={"nccl": names[:at] + names[at + 1:], "gloo": names}))
        verdict = judged(sound(there, pairs=False), there, asked=asked, floors=less).verdict
        # What a published floor judges needs no one's acceptance.
        assert verdict is (BurnInOutcome.PASS
                           if names[at].startswith("tflops") else BurnInOutcome.UNKNOWN), names[at]


def test_a_few_pairs_without_a_floor_and_all_nodes_without_one_leave_every_node_unknown() -> None:
    for count in (4, 6):
        there = places(count)
        slower = [replace(one, reports=tuple(replace(report, figures={**report.figures, "size_bytes": GIB})
                                             for report in one.reports))
                  if one.task.kind is TaskKind.ALLREDUCE else one for one in sound(there)]
        of = judged(slower, there)
        assert counted(of) == {BurnInOutcome.UNKNOWN: count} and not of.accusations
        assert "busbw_gb_s in all was not judged" in why(of, "gpu001")
        assert ("busbw_gb_s in leaf-pairs was not judged" in why(of, "gpu001")) == (count == 4)


def test_a_confirmation_of_one_pair_is_compared_with_the_pairs_of_its_stage() -> None:
    one = result(pair("leaf-confirm-3-0", "gpu001", "gpu003", stage=BurnInStage.LEAF_CONFIRM),
                 collective(370, ranks=16, size=GIB))
    small = [replace(each, reports=tuple(replace(report, figures={**report.figures, "size_bytes": GIB})
                                         for report in each.reports))
             if each.task.stage is BurnInStage.LEAF_PAIRS else each for each in sound(EIGHT)]
    assert judged([*small, one]).verdict is BurnInOutcome.PASS


def test_one_rank_s_all_reduce_waits_for_no_one_and_has_no_jitter() -> None:
    # Of one H200: 63 microseconds, and 107 of every twentieth.
    alone = result(task("node-allreduce-gpu001", BurnInStage.NODE, TaskKind.ALLREDUCE, ["gpu001"], gpus=1),
                   {"verified": 64, "iterations": 64, "seconds_p50": 62.5e-6, "seconds_often": 107.3e-6})
    assert faults.JITTER not in accused(judged([alone], places(1))).values()


@pytest.mark.parametrize("id_", ["node-allreduce-gpu003", "leaf1-gpu003-gpu004", "all-1"])
def test_one_long_iteration_of_fifty_is_no_one_s_jitter(id_: str) -> None:
    # The 99th percentile of fifty is the longest.
    of = judged(changed(sound(EIGHT), id_, "*", figures={"seconds_p99": 1.0, "seconds_max": 1.0}))
    assert of.verdict is BurnInOutcome.PASS and not of.accusations


def test_on_cpus_jitter_is_not_judged_and_that_is_reported() -> None:
    of = judged(changed(sound(EIGHT, facts=GLOO), "node-allreduce-gpu003", "*",
                        figures={"seconds_often": 1.0}))
    assert not of.accusations and "jitter of gloo is not judged" in of.remarks


def test_what_cpus_do_within_a_node_is_not_compared_and_that_is_reported() -> None:
    of = judged(changed(sound(EIGHT, facts=GLOO), "node-rate-gpu003", "*", figures={"tflops_bf16": 1.0}))
    assert not of.accusations and "not compared with equals" in next(one for one in of.remarks
                                                                     if one.startswith("tflops_bf16 in node"))
    assert any(one.equals for one in of.held if one.setting.stage == "leaf-pairs")


@pytest.mark.parametrize(("subject", "name", "before", "after", "expected"), [
    ("gpu5", "ecc_uncorrected", 0, 1, "gpu003:5"), ("rail2", "link_error_recovery", 7, 9, "gpu003/rail2"),
    ("nvswitch", "link_downed", 0, 1, "gpu003"),
    ("gpu5", "pcie_replays", 0, 100, None), ("gpu5", "ecc_uncorrected", 4, 4, None),
    ("rail2", "symbol_error", 0, 10**6, None),
])
def test_a_counter_that_rose_too_far_accuses_its_part(subject: str, name: str, before: int, after: int,
                                                      expected: str | None) -> None:
    of = judged(sound(EIGHT), counters=(CounterGrowth("gpu003", subject, name, before, after, 3600),))
    assert accused(of) == ({expected: faults.COUNTED} if expected else {})
    assert outcome(of, "gpu003") is (BurnInOutcome.FAIL if expected else BurnInOutcome.PASS)


def test_symbol_errors_count_on_links_that_have_none_by_nature() -> None:
    from healthcheck.burnin.setting import SkuHardware

    whole = burnt(EIGHT, sound(EIGHT),
                  counters=(CounterGrowth("gpu003", "rail2", "symbol_error", 0, 10**6, 3600),))
    slower = replace(whole, hardware={"hgx-h100": SkuHardware("H100", 200)})
    assert "gpu003/rail2" in accused(judge(slower, FLOORS))


@pytest.mark.parametrize(("before", "after", "said"),
                         [(None, 3, "not read before"), (3, None, "not read after"),
                          (9, 3, "went back from 9 to 3"), (255, 255, "its maximum")])
def test_a_counter_that_says_nothing_is_unknown(before: int | None, after: int | None, said: str) -> None:
    of = judged(sound(EIGHT), counters=(CounterGrowth("gpu003", "rail5", "link_downed", before, after),))
    assert not of.accusations and outcome(of, "gpu003") is BurnInOutcome.UNKNOWN and said in why(of, "gpu003")


def test_every_counter_of_a_port_whose_growth_is_a_fault_has_a_limit() -> None:
    from healthcheck.facts.counter import TABLE, GrowthMeaning

    assert not [one.name for one in TABLE if one.meaning in (GrowthMeaning.FATAL, GrowthMeaning.RATE)
                and RULES.limit(one.name) is None]


def test_a_counter_that_no_one_has_a_limit_for_is_reported_of() -> None:
    of = judged(sound(EIGHT), counters=(CounterGrowth("gpu003", "gpu5", "bananas", 0, 9),))
    assert of.verdict is BurnInOutcome.PASS and any("bananas" in one for one in of.remarks)


def test_isolation_and_watching_are_heard_as_they_are() -> None:
    assert PAIRED[-1] == (BurnInStage.ALL, TaskKind.ALLREDUCE)
    late = Accusation(Object.GPU, "gpu003:1", faults.SLOW_COMPUTE, "the others wait", ("all-1",))
    results = [replace(one, accusations=(late,)) if one.task.id == "all-1" else one for one in sound(EIGHT)]
    of = judged(changed(results, "all-1", "*", figures={BUSBW: 300.0}))
    # The bandwidth of all is explained by who was late.
    assert accused(of) == {"gpu003:1": faults.SLOW_COMPUTE} and counted(of) == ONE_FAILS


def test_where_only_the_timed_all_reduce_was_verified_is_remarked_with_the_reason() -> None:
    results = sound(EIGHT)
    assert not any("other collectives" in remark for remark in judged(results).remarks)
    results = changed(results, "node-allreduce-gpu003", "*", figures={"checks": 0.0},
                      facts={"arithmetic_not": "checks is 0"})
    results = changed(results, "all-1", "*", figures={"checks": 0.0})
    found = [remark for remark in judged(results).remarks if "other collectives" in remark]
    assert found == ["sums and paths of other collectives were not tested in node: checks is 0",
                     "sums and paths of other collectives were not tested in all: only the timed all-reduce "
                     "was verified"]


def test_host_copies_of_ranks_that_are_not_bound_to_their_socket_accuse_no_gpu() -> None:
    far = {"numa": "not bound: the kernel reports no NUMA node of 0000:41:00.0 (-1)"}
    slow = changed(sound(EIGHT), "node-copy-gpu003", "gpu003:2", figures={"copy_to_gb_s": 20.0})
    assert accused(judged(slow)) == {"gpu003:2": faults.SLOW}
    of = judged(changed(slow, "node-copy-gpu003", "*", facts=far))
    assert not of.accusations and counted(of) == ONE_UNKNOWN
    assert ("host copies of gpu003:0 were not judged: not bound: the kernel reports no NUMA "
            "node" in why(of, "gpu003"))
    accepts = Floors(replace(RULES, accept={"nccl": ("copy_to_gb_s in node", "copy_from_gb_s in node",
                                                     "busbw_by_size_gb_s in node")}))
    assert judged(changed(slow, "node-copy-gpu003", "*",
                          facts=far), floors=accepts).verdict is BurnInOutcome.PASS
    bound = judged(changed(slow, "node-copy-gpu003", "*",
                           facts={"numa": "node 1, by its cores only: Operation not permitted"}))
    assert accused(bound) == {"gpu003:2": faults.SLOW}


def scaled(results: Sequence[TaskResult], nodes: Sequence[str], kind: TaskKind, **shares: float
           ) -> list[TaskResult]:
    """The same results, but for these nodes' figures in this kind of work."""
    return [one if one.task.kind is not kind or not set(one.task.nodes) <= set(nodes) else replace(
        one, reports=tuple(replace(report, figures={name: value * shares.get(name, 1)
                                                    for name, value in report.figures.items()})
                           for report in one.reports)) for one in results]


@pytest.mark.parametrize("slow", [3, 4, 6])
def test_where_a_large_part_of_the_nodes_is_far_slower_and_no_floor_judges_these_do_not_pass(
    slow: int,
) -> None:
    nodes = [f"gpu{number + 1:03}" for number in range(slow)]
    of = judged(scaled(sound(EIGHT), nodes, TaskKind.MEMORY, memory_gb_s=0.6))
    assert {name.partition(":")[0] for name in accused(of)} == set(nodes if slow == 3 else ())
    assert {one.node for one in of.outcomes if one.outcome is not BurnInOutcome.PASS} == set(nodes)
    assert slow == 3 or "was not judged: the best quarter of 64 equals reach 1" in why(of, "gpu001")


def test_a_node_far_behind_a_few_that_scatter_is_not_accused_and_does_not_pass() -> None:
    results: Sequence[TaskResult] = sound(EIGHT)
    for number, share in enumerate((1.04, 0.96, 0.4, 1.03, 0.97, 1.02, 0.98, 1.05)):
        results = scaled(results, [f"gpu{number + 1:03}"], TaskKind.HOST, host_gb_s=share)
    of = judged(results)
    assert not of.accusations and counted(of) == ONE_UNKNOWN
    unjudged = "host memory 144.6 GB/s of gpu003 in node was not judged: the best quarter of 8"
    assert unjudged in why(of, "gpu003")
    # A floor says what scatter does not.
    [setting] = {one.setting for one in of.held if one.setting.figure == "host_gb_s"}
    low = (LearnedFloor(setting, (1, 1), 360, 1, 32, 130.0, by="site", at="2026-11-01T00:00:00Z"),)
    assert unjudged not in why(judged(results, floors=Floors(RULES, low)), "gpu003")


def test_slow_pairs_that_the_scatter_of_equals_hides_leave_unknown_only_nodes_with_no_better_pair() -> None:
    there = places(12, sku=None)
    nodes = [one.node for one in there]
    others = [one for one in sound(there) if one.task.stage is not BurnInStage.LEAF_PAIRS]
    pairs = [(left, right) for turn in (1, 2) for left, right in zip(nodes, nodes[turn:], strict=False)]
    low = set(nodes[:7])
    of = judged([*others, *(result(pair(f"p-{left}-{right}", left, right),
                                   collective(370 * (0.6 if {left, right} <= low else 1), ranks=16))
                            for left, right in pairs)], there)
    hidden = {one.node for one in of.outcomes if "in leaf-pairs was not judged" in "; ".join(one.why)}
    assert hidden == set(nodes[:5])


@pytest.mark.parametrize(("tasks", "nodes"), [
    (["node-allreduce-gpu003"], {"gpu003"}), (["leaf1-gpu003-gpu004", "leaf2-gpu002-gpu003"], {"gpu003"}),
    (["all-1"], {one.node for one in EIGHT})])
def test_an_all_reduce_that_reports_no_bandwidth_was_not_measured(tasks: list[str], nodes: set[str]) -> None:
    results: Sequence[TaskResult] = sound(EIGHT)
    for name in tasks:
        results = changed(results, name, "*", figures={"busbw_gb_s": 0.0})
    of = judged(results)
    assert {one.node for one in of.outcomes if one.outcome is BurnInOutcome.UNKNOWN} == nodes
    assert not of.accusations and "allreduce reported no figure" in why(of, "gpu003")


@pytest.mark.parametrize(("id_", "busbw", "sku"), [
    ("leaf1-gpu003-gpu004", 697.0, "hgx-h100"), ("node-allreduce-gpu003", 1100.0, "hgx-h100"),
    ("leaf1-gpu003-gpu004", 697.0, None)])
def test_a_bandwidth_that_ports_or_nvlink_cannot_carry_is_no_pass_where_their_rate_is_known(
    id_: str, busbw: float, sku: str | None,
) -> None:
    """Pairs over an NVLink domain that the inventory does not have, or algbw taken for busbw."""
    there = places(8, sku=sku)
    far = changed(sound(there), id_, "*", figures={"busbw_gb_s": busbw})
    before, of = judged(sound(there), there), judged(far, there)
    new = {one.node for one in of.outcomes if one.why} - {one.node for one in before.outcomes if one.why}
    nodes = {"gpu003", *({"gpu004"} if "leaf" in id_ else ())}
    assert new == (nodes if sku else set())
    assert not sku or f"is {busbw:g}, more than its {'ports' if 'leaf' in id_ else 'data sheet'}" in why(
        of, "gpu003")


def test_a_figure_that_equals_have_and_one_rank_lacks_leaves_its_node_unknown() -> None:
    of = judged(changed(sound(EIGHT), "node-rate-gpu003", "gpu003:2", figures={"tflops_fp8": 0.0}))
    assert counted(of) == ONE_UNKNOWN
    assert why(of, "gpu003") == "tflops_fp8 of gpu003:2 was not measured, as it was of equals"
    of = judged(changed(sound(EIGHT), "node-sizes-gpu003", "*", figures={"latency_us_512": 0.0}))
    assert counted(of) == ONE_UNKNOWN and "latency_us_512 of gpu003:0, gpu003:1" in why(of, "gpu003")
    # Another driver may have no fp8, and one node of it no equals.
    other = changed(sound(EIGHT), "node-rate-gpu003", "*", figures={"tflops_fp8": 0.0},
                    facts={"torch": "2.1"})
    assert counted(judged(other)) == {BurnInOutcome.PASS: 8}


def of_rails(busbw: float, low: Mapping[str, float] = MappingProxyType({})) -> list[TaskResult]:
    """The test of each rail of eight nodes by itself; `low` are shares by rail."""
    return [result(task(f"rail-{rail}-{one.node}", BurnInStage.RAIL, TaskKind.ALLREDUCE, [one.node], gpus=2,
                        environment={"NCCL_ALGO": "RING"}, rail=rail, tests=8),
                   collective(busbw * spread(8 * number + rail) * low.get(f"{one.node}/rail{rail}", 1),
                              ranks=2, size=GIB)) for number, one in enumerate(EIGHT) for rail in range(8)]


@pytest.mark.parametrize(("busbw", "passes"), [(24, True), (13, True), (12, False), (2.4, False)])
def test_rails_that_are_all_far_slower_than_their_ports_do_not_pass_by_being_equal(
    busbw: float, passes: bool,
) -> None:
    asked = (*PAIRED, (BurnInStage.RAIL, TaskKind.ALLREDUCE))
    of = judged([*sound(EIGHT), *of_rails(busbw)], asked=asked)
    assert not of.accusations and counted(of) == {
        BurnInOutcome.PASS if passes else BurnInOutcome.UNKNOWN: 8}
    assert passes or "less than a quarter of what its ports carry" in why(of, "gpu001")
    # Where the rate of the ports is not known, equals judge alone.
    there = places(8, sku=None)
    unknown = judged([*sound(there), *of_rails(busbw)], there, asked=asked)
    assert "quarter of what" not in why(unknown, "gpu001")
    accepting = Floors(replace(RULES, accept={"nccl": (*RULES.accept["nccl"], "busbw_gb_s in rail")}))
    assert counted(judged([*sound(EIGHT), *of_rails(busbw)], floors=accepting, asked=asked)) == {
        BurnInOutcome.PASS: 8}


def test_a_rail_slow_by_8_per_cent_is_accused_where_rails_are_alike_and_not_where_they_scatter() -> None:
    asked = (*PAIRED, (BurnInStage.RAIL, TaskKind.ALLREDUCE))
    low = {"gpu003/rail5": 0.92}
    alike = judged([*sound(EIGHT), *of_rails(24, low)], asked=asked)
    assert accused(alike) == {"gpu003/rail5": faults.SLOW_LINK}
    noise = random.Random(1)
    scattered = {f"{one.node}/rail{rail}": noise.gauss(1, 0.04) for one in EIGHT for rail in range(8)} | low
    of = judged([*sound(EIGHT), *of_rails(24, scattered)], asked=asked)
    assert not of.accusations and counted(of) == {BurnInOutcome.PASS: 8}
