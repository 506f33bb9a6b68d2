"""What a finished burn-in accuses its nodes of, how surely, and what ends an accusation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from healthcheck.burnin import faults
from healthcheck.burnin.consequences import consequences
from healthcheck.burnin.document import Burnin
from healthcheck.burnin.judge import BurnInResults
from healthcheck.burnin.judgement import BurnInOutcome, Judgement, NodeOutcome, StageDone
from healthcheck.burnin.model import (
    Accusation,
    BurnInStage,
    Object,
    Participant,
    Rail,
    RankEnd,
    RankReport,
    Seat,
    Task,
    TaskKind,
    TaskResult,
)
from healthcheck.model.outcome import Severity
from healthcheck.store.accused import (
    DEAD,
    ERRORS,
    LINK,
    SHARED,
    SLOW,
    WRONG_DATA,
    BurnInAccusation,
    FinishedBurnIn,
)

NODES = tuple(f"n{at}" for at in range(1, 9))
PLACES = tuple(Participant(name, 8, leaf=f"leaf{at // 4}", rails=(Rail(2, "0000:3b:00.0", f"leaf{at // 4}"),))
               for at, name in enumerate(NODES))
ASKED = ((BurnInStage.NODE, TaskKind.KNOWN), (BurnInStage.LEAF_PAIRS, TaskKind.ALLREDUCE),
         (BurnInStage.ALL, TaskKind.ALLREDUCE))


def result(id_: str, stage: BurnInStage, kind: TaskKind, *nodes: str, gpus: int = 1,
           facts: dict[str, str] | None = None) -> TaskResult:
    seats = tuple(Seat(node, gpu) for node in nodes for gpu in range(gpus))
    return TaskResult(Task(id_, stage, kind, seats, 60.0),
                      tuple(RankReport(seat, RankEnd.DONE, facts=facts or {}) for seat in seats))


RESULTS = (*(result(f"known-{node}", BurnInStage.NODE, TaskKind.KNOWN, node, gpus=8,
                    facts={"serial": f"S-{node}", "uuid": f"GPU-{node}"}) for node in NODES),
           *(result(f"random-{node}", BurnInStage.NODE, TaskKind.RANDOM, node, gpus=8) for node in NODES),
           result("pair-1", BurnInStage.LEAF_PAIRS, TaskKind.ALLREDUCE, "n1", "n2"),
           result("confirm-1", BurnInStage.LEAF_CONFIRM, TaskKind.ALLREDUCE, "n1", "n3"),
           result("all-1", BurnInStage.ALL, TaskKind.ALLREDUCE, *NODES),
           result("bisect-1", BurnInStage.BISECT, TaskKind.ALLREDUCE, *NODES[:4]))


def burnin(*accusations: Accusation, results: tuple[TaskResult, ...] = RESULTS,
           **outcomes: BurnInOutcome) -> Burnin:
    stages = (StageDone(BurnInStage.NODE, True), StageDone(BurnInStage.LEAF_PAIRS, True))
    failing = {one.name.partition(":")[0].partition("/")[0] for one in accusations}
    found = tuple(NodeOutcome(node, outcomes.get(node, BurnInOutcome.FAIL if node in failing
                                                 else BurnInOutcome.PASS), (), stages) for node in NODES)
    return Burnin("run1", "standard", 1000.0, 2000.0, "0", BurnInResults(PLACES, results, ASKED),
                  Judgement(found, accusations))


def accused(*accusations: Accusation, doubted: tuple[str, ...] = (),
            **outcomes: BurnInOutcome) -> list[BurnInAccusation]:
    return list(consequences(burnin(*accusations, **outcomes), doubted).accused)


def one(object_: Object, name: str, fault: str, *tests: str, why: str = "why",
        confirmed: bool = False) -> Accusation:
    return Accusation(object_, name, fault, why, tests, (), confirmed)


@pytest.mark.parametrize(("accusation", "rule", "sure"), [
    (one(Object.GPU, "n1:3", faults.WRONG_DATA, "known-n1"), WRONG_DATA, True),
    (one(Object.GPU, "n1:3", faults.WRONG_DATA, "all-1", why="its own elements were wrong"), WRONG_DATA,
     True),
    (one(Object.NODE, "n1", faults.WRONG_DATA, "known-n1"), WRONG_DATA, True),
    (one(Object.NODE, "n1", faults.WRONG_DATA, "pair-1"), WRONG_DATA, False),
    (one(Object.NODE, "n1", faults.WRONG_DATA, "pair-1", confirmed=True), WRONG_DATA, True),
    (one(Object.GPU, "n1:3", faults.SLOW, "known-n1"), SLOW, True),
    (one(Object.GPU, "n1:3", faults.SLOW_COMPUTE, "all-1"), SLOW, False),
    (one(Object.NODE, "n1", faults.SLOW_LINK, "pair-1"), LINK, False),
    (one(Object.NODE, "n1", faults.SLOW_LINK, "pair-1: n1 - n2 slow", "confirm-1", confirmed=True), LINK,
     True),
    (one(Object.GPU, "n1:3", faults.DEAD, "known-n1"), DEAD, True),
    (one(Object.GPU, "n1:3", faults.HUNG, "all-1"), DEAD, False),
    (one(Object.GPU, "n1:3", faults.RAISED, "known-n1", "all-1"), DEAD, False),
    (one(Object.NODE, "n1", faults.LOST, "known-n1"), DEAD, False),
    (one(Object.NODE, "n1", faults.ABSENT, "known-n1"), DEAD, False),
    (one(Object.GPU, "n1:3", faults.LATE, "known-n1"), SLOW, False),
    (one(Object.NODE, "n1", faults.JITTER, "known-n1"), SLOW, False),
    (one(Object.GPU, "n1:3", faults.COUNTED, "counters"), ERRORS, True),
    (one(Object.RAIL, "n1/rail2", faults.SLOW_LINK, "pair-1", confirmed=True), LINK, False),
    (one(Object.RAIL, "n1/rail2", faults.COUNTED, "counters"), LINK, False),
    (one(Object.GPU, "n1:3", "a fault of a newer muster", "known-n1"), DEAD, True),
])
def test_what_nothing_else_explains_is_critical_and_the_rest_a_warning(
    accusation: Accusation, rule: str, sure: bool,
) -> None:
    (found,) = accused(accusation)
    assert (found.node, found.rule, found.severity) == ("n1", rule,
                                                        Severity.CRITICAL if sure else Severity.WARNING)


def test_a_gpu_a_port_and_a_node_have_the_names_of_other_rules_and_a_gpu_its_serial_number() -> None:
    gpu, port, node = accused(one(Object.GPU, "n1:3", faults.WRONG_DATA, "known-n1"),
                              one(Object.RAIL, "n2/rail2", faults.SLOW_LINK, "pair-1"),
                              one(Object.NODE, "n3", faults.DEAD, "confirm-1"))
    assert (gpu.subject, gpu.gpu, gpu.gpus, gpu.serials) == ("GPU 3", 3, 8, ("S-n1", "GPU-n1"))
    assert (port.subject, port.gpu, port.serials) == ("port at PCI 0000:3b:00.0, rail 2", None, ())
    assert (node.subject, node.gpu, node.serials) == ("", None, ())


def test_what_most_gpus_have_is_of_what_they_share_unless_it_is_wrong_data() -> None:
    dead = [one(Object.GPU, f"{node}:{gpu}", faults.RAISED, f"known-{node}") for node in NODES[:5]
            for gpu in range(8)]
    assert {each.severity for each in accused(*dead)} == {Severity.WARNING}
    assert {each.severity for each in accused(*dead[:32])} == {Severity.CRITICAL}
    whole = [one(Object.NODE, node, faults.RAISED, f"known-{node}") for node in NODES[:5]]
    assert {each.severity for each in accused(*whole)} == {Severity.WARNING}
    wrong = [one(Object.GPU, f"{node}:{gpu}", faults.WRONG_DATA, f"known-{node}") for node in NODES
             for gpu in range(8)]
    assert {each.severity for each in accused(*wrong)} == {Severity.CRITICAL} and len(accused(*wrong)) == 64


def test_what_is_shared_is_a_warning_on_each_of_those_that_share_it() -> None:
    found = accused(one(Object.PAIR, "n1 - n2", faults.SLOW_LINK, "pair-1", confirmed=True),
                    n1=BurnInOutcome.UNKNOWN, n2=BurnInOutcome.UNKNOWN)
    assert [(each.node, each.rule, each.subject, each.severity) for each in found] == [
        ("n1", SHARED, "n1 - n2", Severity.WARNING), ("n2", SHARED, "n1 - n2", Severity.WARNING)]
    assert [each.node for each in accused(one(Object.LEAF, "leaf1", faults.SLOW_LINK, confirmed=True))] == [
        "n5", "n6", "n7", "n8"]
    assert [each.node for each in accused(one(Object.PAIR, "leaf0 - leaf1", faults.SLOW_LINK))] == list(NODES)
    assert [each.node for each in accused(one(Object.UNEXPLAINED, "pair-1", faults.RAISED, "pair-1"))] == [
        "n1", "n2"]
    assert accused(one(Object.UNEXPLAINED, "all-1", faults.WRONG_DATA, "all-1")) == []


def test_of_who_is_doubted_or_did_not_fail_nothing_is_reported_and_who_did_not_pass_ends_nothing() -> None:
    wrong = one(Object.GPU, "n1:3", faults.WRONG_DATA, "known-n1")
    assert accused(wrong, doubted=("n1",)) == [] and accused(wrong, n1=BurnInOutcome.UNKNOWN) == []
    assert accused(one(Object.PAIR, "n1 - n2", faults.SLOW_LINK, "pair-1"), doubted=("n2",)) == []
    passed = consequences(burnin(wrong, n4=BurnInOutcome.UNKNOWN), ("n5",)).passed
    assert sorted(passed) == ["n2", "n3", "n6", "n7", "n8"] and passed["n2"] == ("node", "leaf-pairs")


def test_a_node_of_which_not_all_was_done_ends_nothing() -> None:
    whole = burnin()
    half = replace(whole.judgement.outcomes[0], stages=(StageDone(BurnInStage.NODE, True),
                                                        StageDone(BurnInStage.LEAF_PAIRS, False, "cut")))
    none = replace(whole.judgement.outcomes[1], stages=())
    judged = replace(whole.judgement, outcomes=(half, none, *whole.judgement.outcomes[2:]))
    assert sorted(consequences(replace(whole, judgement=judged)).passed) == list(NODES[2:])


@pytest.mark.parametrize(("tests", "stages"), [
    (("known-n1",), ("node",)), (("pair-1: n1 - n2 slow", "known-n1"), ("node", "leaf-pairs")),
    (("confirm-1",), ("leaf-pairs",)),
    (("bisect-1", "all-1"), ("all",)), (("counters",), ("node", "leaf-pairs", "all")),
    ((), ("node", "leaf-pairs", "all")),
])
def test_it_is_to_pass_the_stages_in_which_it_failed(tests: tuple[str, ...], stages: tuple[str, ...]) -> None:
    (found,) = accused(one(Object.GPU, "n1:3", faults.WRONG_DATA, *tests))
    assert found.stages == stages


def test_hostile_words_of_a_rank_are_bounded_and_cannot_move_the_cursor() -> None:
    (found,) = accused(one(Object.GPU, "n1:3", faults.RAISED, "known-n1", why="\x1b[2J" + "x" * 10_000))
    assert "\x1b" not in found.observed and len(found.observed) <= 310


def test_what_is_found_names_its_run_and_its_time() -> None:
    found = consequences(burnin())
    assert found == FinishedBurnIn("run1", "standard", 2000.0, (), found.passed)


def test_a_screening_accuses_as_a_burn_in_does_and_ends_nothing() -> None:
    bad = one(Object.GPU, "n1:3", faults.WRONG_DATA, "known-n1")
    found = consequences(replace(burnin(bad), length="screen"))
    assert found.passed == {} and consequences(burnin(bad)).passed.keys() == set(NODES) - {"n1"}
    assert [(each.node, each.rule, each.severity) for each in found.accused] == [
        ("n1", WRONG_DATA, Severity.CRITICAL)]
    # It is as long as what must pass to end what it found.
    assert found.length == "quick" and found.accused[0].remedy.endswith("muster burnin run n1 --length quick")
