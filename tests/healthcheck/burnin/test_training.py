"""Ranks of a training that disagree: made-up reports name the guilty, and no one where two may be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from healthcheck.burnin import faults
from healthcheck.burnin.judge import judge
from healthcheck.burnin.judgement import BurnInOutcome
from healthcheck.burnin.late import late
from healthcheck.burnin.model import Accusation, BurnInStage, Object, TaskKind, TaskResult, WrongData
from healthcheck.burnin.taskrun import TaskRun
from healthcheck.burnin.training import odd_nodes, unequal
from healthcheck.burnin.watch import Patience
from tests.healthcheck.burnin.made import (
    ASKED,
    FLOORS,
    NCCL,
    TRAINED,
    burnt,
    changed,
    places,
    result,
    sound,
    task,
    trained,
)

BOTH = ["gpu001", "gpu002"]
WHOLE = (*ASKED, (BurnInStage.TRAIN, TaskKind.TRAIN))


def training(changes: Mapping[str, Mapping[str, str]], nodes: list[str], gpus: int = 4,
             **facts: Mapping[str, str]) -> TaskResult:
    """A training whose ranks have these checksums by seat, over those of all; `facts` by node."""
    made = result(task("t", BurnInStage.TRAIN, TaskKind.TRAIN, nodes, gpus=gpus), trained(30),
                  checksums=lambda seat: {**TRAINED, **changes.get(str(seat), {})})
    return replace(made, reports=tuple(
        replace(one, facts={**one.facts, **facts.get(one.seat.node, {})}) for one in made.reports))


def names(of: TaskResult) -> list[tuple[Object, str]]:
    found = unequal(of.task, of.reports)
    assert all(one.fault == faults.WRONG_DATA and one.tests_for == ("t",) for one in found)
    return [(one.object, one.name) for one in found]


GRADS, LATER = {"train_grads_150": "x"}, {"train_weights_300": "x", "train_grads_300": "x"}
SUM = {"train_sum_150": "1", "train_weights_150": "x", "train_weights_300": "x", "train_grads_300": "x"}


@pytest.mark.parametrize(("changes", "found"), [
    ({}, []),
    ({"gpu001:2": GRADS}, [(Object.GPU, "gpu001:2")]),
    ({"gpu001:2": LATER}, [(Object.GPU, "gpu001:2")]),
    ({"gpu001:2": SUM}, [(Object.GPU, "gpu001:2")]),
    # Gradients with the weights of the others are each GPU's own; weights may have come from outside.
    ({"gpu001:2": GRADS, "gpu002:0": {"train_grads_150": "y"}},
     [(Object.GPU, "gpu001:2"), (Object.GPU, "gpu002:0")]),
    ({"gpu001:2": GRADS, "gpu002:0": LATER}, [(Object.GPU, "gpu001:2"), (Object.GPU, "gpu002:0")]),
    ({"gpu001:2": LATER, "gpu001:3": LATER}, [(Object.NODE, "gpu001")]),
    ({"gpu001:2": LATER, "gpu002:3": LATER}, [(Object.UNEXPLAINED, "t")]),
    ({"gpu001:0": GRADS, "gpu001:2": LATER, "gpu002:3": LATER},
     [(Object.GPU, "gpu001:0"), (Object.UNEXPLAINED, "t, the rest")]),
    # Its own later differences follow from the first one.
    ({"gpu001:2": {**GRADS, **LATER}}, [(Object.GPU, "gpu001:2")]),
    ({f"gpu001:{gpu}": GRADS for gpu in range(4)}, [(Object.UNEXPLAINED, "t")]),
    ({f"gpu001:{gpu}": LATER for gpu in range(4)}, [(Object.UNEXPLAINED, "t")]),
    ({f"gpu00{node}:{gpu}": {"train_sum_150": "3"} for node in (1, 2) for gpu in range(4)},
     [(Object.UNEXPLAINED, "t")]),
], ids=str)
def test_each_is_judged_where_it_first_differs_and_a_tie_names_no_one(
    changes: Mapping[str, Mapping[str, str]], found: list[tuple[Object, str]],
) -> None:
    assert names(training(changes, BOTH)) == found


def test_sums_that_are_wrong_on_all_gpus_of_one_node_are_that_node_s() -> None:
    changes = {f"gpu001:{gpu}": {"train_sum_150": "3"} for gpu in range(4)}
    assert names(training(changes, ["gpu001"])) == [(Object.NODE, "gpu001")]
    assert names(training({"gpu001:0": LATER}, ["gpu001"], gpus=2)) == [(Object.NODE, "gpu001")]
    # Of two the one whose sum was wrong, where the other's was right.
    assert names(training({"gpu001:0": SUM}, ["gpu001"], gpus=2)) == [(Object.GPU, "gpu001:0")]


def test_other_gpus_and_libraries_are_no_equals() -> None:
    other = {f"gpu002:{gpu}": {"train_grads_150": "y", "train_weights_300": "y", "train_grads_300": "z",
                               "train_sum_150": "7"} for gpu in range(4)}
    assert names(training(other, BOTH)) == [(Object.UNEXPLAINED, "t")]
    for fact in ("device", "driver", "cuda", "cublas", "torch", "capability"):
        assert names(training(other, BOTH, gpu002={fact: "another"})) == []
    assert names(training({**other, "gpu001:1": GRADS}, BOTH,
                          gpu002={"driver": "another"})) == [(Object.GPU, "gpu001:1")]


@pytest.mark.parametrize(("seats", "found"), [
    (["gpu001:2"], [(Object.GPU, "gpu001:2")]),
    (["gpu001:2", "gpu002:1"], [(Object.GPU, "gpu001:2"), (Object.GPU, "gpu002:1")]),
    ([f"gpu00{node}:{gpu}" for node in (1, 2) for gpu in range(3)], [(Object.UNEXPLAINED, "t")]),
])
def test_a_loss_that_is_no_number_is_the_gpu_s_unless_most_have_one(
    seats: list[str], found: list[tuple[Object, str]],
) -> None:
    [whole] = [training({}, BOTH)]
    for seat in seats:
        [whole] = changed([whole], "t", seat, wrong=(WrongData(7, 1, own_input=False),), wrong_total=1)
    assert names(whole) == found


def test_a_rank_that_ended_early_is_compared_as_far_as_it_came() -> None:
    [whole] = changed([training({"gpu001:2": GRADS}, BOTH)], "t", "gpu002:1")
    short = replace(whole, reports=tuple(
        replace(one, checksums={"train_weights_150": "aa", "train_grads_150": "bb", "train_sum_150": "0"})
        if str(one.seat) == "gpu002:1" else one for one in whole.reports))
    assert names(short) == [(Object.GPU, "gpu001:2")]


def alone(checksums: Mapping[str, Mapping[str, str]], gpus: int = 2, **more: Any) -> list[TaskResult]:
    return [result(task(f"t-{node}", BurnInStage.NODE, TaskKind.TRAIN, [node], gpus=gpus), trained(30),
                   checksums={**TRAINED, **given}, **more) for node, given in checksums.items()]


def test_a_node_whose_gpus_agree_and_equal_nodes_do_not_is_named() -> None:
    [accusation] = odd_nodes(alone({"a": {}, "b": LATER, "c": {}})).accusations
    assert (accusation.object, accusation.name, accusation.tests_for) == (Object.NODE, "b", ("t-b",))
    assert "differ by step 300 from those of 2 equals" in accusation.why
    [accusation] = odd_nodes(alone({"a": {}, "b": LATER, "c": {}}, gpus=1)).accusations
    assert (accusation.object, accusation.name) == (Object.GPU, "b:0")
    tied = odd_nodes(alone({"a": {}, "b": LATER}))
    assert ([one.object for one in tied.accusations] == [Object.UNEXPLAINED]
            and set().union(*tied.doubtful.values()) == {"a", "b"})


def test_of_a_node_in_which_a_gpu_was_named_nothing_more_is_reported() -> None:
    named = Accusation(Object.GPU, "b:1", faults.WRONG_DATA, "", ("t-b",))
    a, b, c = alone({"a": {}, "b": LATER, "c": {}})
    assert not odd_nodes([a, replace(b, accusations=(named,)), c]).accusations
    assert odd_nodes([a]).alone == {} and odd_nodes(alone({"a": {}}, gpus=1)).alone == {"a": "nccl"}


def test_the_odd_node_fails_and_a_planned_training_without_a_result_passes_no_one() -> None:
    there = places(6)
    whole = [*sound(there), result(task("train-1", BurnInStage.TRAIN, TaskKind.TRAIN,
                                        [at.node for at in there]), trained(31), checksums=TRAINED)]
    assert judge(burnt(there, whole, asked=WHOLE), FLOORS).verdict is BurnInOutcome.PASS
    odd = judge(burnt(there, changed(whole, "node-train-gpu003", "*", checksums=LATER), asked=WHOLE), FLOORS)
    assert ({one.node for one in odd.outcomes if one.outcome is BurnInOutcome.FAIL} == {"gpu003"}
            and odd.verdict is BurnInOutcome.FAIL)
    without = judge(burnt(there, whole[:-1], asked=WHOLE, missing={BurnInStage.TRAIN: "the time was up"}),
                    FLOORS)
    assert {one.outcome for one in without.outcomes} == {BurnInOutcome.UNKNOWN}
    assert without.outcomes[0].why == ("train: not run: the time was up",)


def test_a_loss_that_does_not_fall_was_no_training() -> None:
    there = places(6)
    for figures, said in (({"train_loss": 7.2}, "did not fall (7.1 to 7.2)"),
                          ({"train_loss": 7.1}, "did not fall")):
        of = judge(burnt(there, changed(sound(there), "node-train-gpu003", "gpu003:1", figures=figures)),
                   FLOORS)
        [unknown] = [one for one in of.outcomes if one.outcome is not BurnInOutcome.PASS]
        assert unknown.node == "gpu003" and said in unknown.why[0] and not of.accusations


def test_a_gpu_that_trains_slower_than_its_equals_is_slow_and_steps_that_stretch_are_jitter() -> None:
    there = places(6)
    of = judge(burnt(there, changed(sound(there), "node-train-gpu003", "gpu003:1",
                                    figures={"train_steps_s": 25.0})), FLOORS)
    assert [(one.name, one.fault) for one in of.accusations] == [("gpu003:1", faults.SLOW)]
    of = judge(burnt(there, changed(sound(there), "node-train-gpu003", "*", figures={"step_often": 0.1})),
               FLOORS)
    assert [(one.name, one.fault) for one in of.accusations] == [("gpu003", faults.JITTER)]


def test_who_is_late_with_a_step_is_named_as_in_an_all_reduce() -> None:
    [whole] = changed([training({}, BOTH)], "t", "gpu002:3",
                      figures={"compute_p50": 0.06, "seconds_p50": 0.001})
    waited = replace(whole, reports=tuple(replace(one, figures={**one.figures, "seconds_p50": 0.028})
                                          if str(one.seat) != "gpu002:3" else one for one in whole.reports))
    assert [(one.name, one.fault) for one in late(waited.task,
                                                  waited.reports)] == [("gpu002:3", faults.SLOW_COMPUTE)]
    # One that is as fast as the others in some steps shares its cores, or waits for its host.
    [some] = changed([waited], "t", "gpu002:3", figures={"compute_p10": 0.033})
    assert not late(some.task, some.reports)


def test_a_training_s_result_names_who_is_wrong_as_soon_as_it_is_there() -> None:
    whole = training({"gpu001:2": GRADS}, BOTH)
    running = TaskRun(whole.task, Patience(), 0.0)
    for rank, report in enumerate(whole.reports):
        running.message(report.seat.node,
                        {"report": {"task": "t", "rank": rank,
                                    "report": {"end": "done", "figures": dict(report.figures),
                                               "checksums": dict(report.checksums), "facts": dict(NCCL)}}},
                        1.0)
    assert [one.name for one in running.result(2.0).accusations] == ["gpu001:2"]
