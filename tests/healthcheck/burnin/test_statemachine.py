"""The burn-in's state machine on a made-up cluster: who leaves, who goes on, and what was not run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

import pytest

from healthcheck.burnin import faults
from healthcheck.burnin.floors import Floors
from healthcheck.burnin.judge import judge
from healthcheck.burnin.judgement import BurnInOutcome, Judgement, doubted
from healthcheck.burnin.model import (
    Accusation,
    BurnInStage,
    Object,
    Participant,
    RankEnd,
    RankReport,
    Task,
    TaskKind,
    TaskResult,
)
from healthcheck.burnin.ports import Ports, presumed
from healthcheck.burnin.runstates import RunEnding
from healthcheck.burnin.stages import BurnInWork, StageStep
from healthcheck.burnin.statemachine import BurninRun
from tests.healthcheck.burnin.made import FLOORS as STRICT
from tests.healthcheck.burnin.made import GIB, HARDWARE, NCCL, RULES, collective, places, spread, trained

# Of so many nodes, and of a node's rails, nothing is published for buffers of this size; of host memory
# nothing at all.
FLOORS = Floors(
    replace(RULES, accept={"nccl": (*RULES.accept["nccl"], "busbw_gb_s in all", "busbw_gb_s in cross-pairs",
                                    "busbw_gb_s in rail", "host_gb_s in node")}))
EVERY = frozenset(BurnInStage) - {BurnInStage.SOAK}
Speed = Callable[[Task], float]


class Cluster:
    """Runs steps in no time.

    `speed` is the share of its bandwidth that a task reaches, `dead` the ranks that end by a signal, by
    task's node, and `late` the GPU that a whole task says the others waited for.
    """

    def __init__(self, *, speed: Speed = lambda task: 1.0,
                 dead: Callable[[Task], str | None] = lambda task: None,
                 wrong: Callable[[Task], str | None] = lambda task: None,
                 late: Callable[[Task], str | None] = lambda task: None) -> None:
        self.speed, self.dead, self.wrong, self.late = speed, dead, wrong, late
        self.steps: list[StageStep] = []

    def do(self, step: StageStep) -> Iterator[TaskResult]:
        self.steps.append(step)
        for number, task in enumerate(step.tasks):
            yield self._result(task, number)

    def _result(self, task: Task, number: int) -> TaskResult:
        if (node := self.dead(task)) is not None:
            accusation = Accusation(Object.GPU, f"{node}:0", faults.DEAD, "its process was ended by signal 9",
                                    (task.id,))
            reports = tuple(RankReport(seat, RankEnd.SIGNAL if str(seat) == f"{node}:0"
                                       else RankEnd.CALLED_OFF, facts=NCCL) for seat in task.seats)
            return TaskResult(task, reports, (accusation,), 0.0, 1.0, 0.1)
        figures = self._figures(task, number)
        bad, behind = self.wrong(task), self.late(task)
        said = () if behind is None else (Accusation(Object.GPU, behind, faults.SLOW_COMPUTE,
                                                     "they waited for it", (task.id,)),)
        return TaskResult(task,
                          tuple(RankReport(seat, RankEnd.DONE, figures, wrong_total=int(str(seat) == bad),
                                           facts={**NCCL, "uuid": f"GPU-{seat}"}) for seat in task.seats),
                          said, began=0.0, ended=1.0)

    def _figures(self, task: Task, number: int) -> Mapping[str, float]:
        share = spread(number) * self.speed(task)
        figures = {"verified": 50.0, "memory_share": 0.95, "memory_gb_s": 1500.0, "copy_to_gb_s": 54.0,
                   "copy_from_gb_s": 52.0}
        if task.kind is TaskKind.ALLREDUCE:
            best = (477.0 if len(task.nodes) == 1 and task.stage is BurnInStage.NODE else 370.0
                    if "rail" not in task.params else 24.0)
            return {**figures, **collective(best * share, ranks=len(task.seats),
                                            size=int(task.params.get("bytes", 4 * GIB)))}
        if task.kind is TaskKind.SIZES:
            return {**figures, "latency_us_64": 20.0 / share}
        if task.kind is TaskKind.HOST:
            return {**figures, "host_gb_s": 45.0 * share}
        if task.kind is TaskKind.TRAIN:
            return {**figures, **trained(32.0 * share)}
        if task.kind is TaskKind.RATE:
            return {**figures, "tflops_bf16": 700.0 * share}
        return figures


def burnt_in(
    cluster: Cluster, count: int = 8, wanted: frozenset[BurnInStage] = EVERY, *,
    there: tuple[Participant, ...] | None = None,
    floors: Floors = FLOORS, **params: int,
) -> BurninRun:
    there = places(count, per_leaf=4) if there is None else there
    given = {name.replace("__", "."): value for name, value in params.items()}
    work = BurnInWork("quick", MappingProxyType(given), presumed(there))
    made = BurninRun(there, work, wanted, floors, HARDWARE)
    made.begin(there, work)
    run(made, cluster.do)
    return made


def run(made: BurninRun, do: Callable[[StageStep], Iterator[TaskResult]]) -> None:
    """All steps, one after the other, as `provisioning.burnin.run` runs them."""
    while (step := made.next()) is not None:
        for one in do(step):
            made.add(one)
        made.step_over()


def outcomes(of: BurninRun) -> Counter[BurnInOutcome]:
    return Counter(one.outcome for one in judge(of.burnt, FLOORS).outcomes)


def test_a_sound_cluster_passes_with_the_steps_that_were_planned() -> None:
    cluster = Cluster()
    found = burnt_in(cluster)
    assert outcomes(found) == {BurnInOutcome.PASS: 8} and found.out == {} and found.found == []
    assert [(step.stage, step.name) for step in cluster.steps] == [(step.stage, step.name)
                                                                   for step in found.steps]


def test_who_is_wrong_alone_leaves_before_pairs_and_the_others_go_on() -> None:
    cluster = Cluster(wrong=lambda task: "gpu003:2" if task.kind is TaskKind.KNOWN else None)
    found = burnt_in(cluster, 4)
    assert (list(found.out) == ["gpu003"]
            and outcomes(found) == {BurnInOutcome.PASS: 3, BurnInOutcome.FAIL: 1})
    assert {step.stage for step in cluster.steps if "gpu003" in step.nodes} == {BurnInStage.NODE}
    assert {task.kind for step in cluster.steps for task in step.tasks if "gpu003" in task.nodes} == {
        TaskKind.KNOWN}


def test_a_slow_node_is_found_among_pairs_with_a_proven_one_and_takes_no_part_in_all() -> None:
    cluster = Cluster(speed=lambda task: 0.6 if "gpu006" in task.nodes and len(task.nodes) > 1 else 1.0)
    found = burnt_in(cluster)
    [accused] = found.found
    assert (accused.object, accused.name, accused.confirmed) == (Object.NODE, "gpu006", True)
    assert outcomes(found) == {BurnInOutcome.PASS: 7, BurnInOutcome.FAIL: 1}
    assert BurnInStage.LEAF_CONFIRM in {step.stage for step in cluster.steps}
    assert not any("gpu006" in step.nodes for step in cluster.steps
                   if step.stage in (BurnInStage.CROSS_PAIRS, BurnInStage.ALL))


def in_pairs(*nodes: str) -> Callable[[Task], bool]:
    return lambda task: len(task.nodes) == 2 and set(nodes) <= set(task.nodes)


@pytest.mark.parametrize("stage", [BurnInStage.LEAF_PAIRS,
                                   pytest.param(BurnInStage.CROSS_PAIRS, marks=pytest.mark.slow)])
def test_a_gpu_that_others_waited_for_in_one_task_of_many_is_not_accused(stage: BurnInStage) -> None:
    """Seen on a real GPU that four nodes shared: late in one task, not in the 22 that followed."""
    tasks: list[str] = []

    def late(task: Task) -> str | None:
        if task.stage is stage and "gpu006" in task.nodes and not tasks:
            tasks.append(task.id)
        return "gpu006:2" if [task.id] == tasks else None

    cluster = Cluster(late=late)
    found = burnt_in(cluster)
    assert tasks and found.found == [] and found.out == {} and outcomes(found) == {BurnInOutcome.PASS: 8}
    assert [one for one in found.judged()[1].remarks if tasks[0] in one and "once, but not again" in one]
    assert all("gpu006" in step.nodes for step in cluster.steps if step.stage is BurnInStage.ALL)


def test_a_gpu_that_others_wait_for_in_every_pair_is_named() -> None:
    cluster = Cluster(late=lambda task: "gpu003:2" if in_pairs("gpu003")(task) else None)
    found = burnt_in(cluster, 4)
    assert list(found.out) == ["gpu003"] and outcomes(found) == {BurnInOutcome.PASS: 3, BurnInOutcome.FAIL: 1}
    assert "gpu003:2" in {one.name for one in judge(found.burnt, FLOORS).accusations}


@pytest.mark.parametrize(("count", "every"),
                         [(2, 2), (4, 10), *(pytest.param(*each, marks=pytest.mark.slow)
                                              for each in ((2, 10), (4, 3), (4, 6), (16, 4), (16, 10)))])
def test_a_gpu_that_others_wait_for_now_and_then_is_named_as_noise_does_not_choose_the_same_one(
        count: int, every: int) -> None:
    tests: list[str] = []

    def late(task: Task) -> str | None:
        if in_pairs("gpu002")(task):
            tests.append(task.id)
            return "gpu002:2" if len(tests) % every == 1 else None
        return None

    found = burnt_in(Cluster(late=late), count)
    assert list(found.out) == ["gpu002"]
    assert not [one for one in found.judged()[1].remarks if "not again" in one]


def test_a_node_that_no_pair_named_is_not_accused_by_a_test_of_one_rail_that_it_helps_with() -> None:
    helped: list[str] = []

    def late(task: Task) -> str | None:
        helper = next((node for node in task.nodes if node != "gpu006"), None)
        if task.stage is BurnInStage.RAIL_CONFIRM and helper is not None and not helped:
            helped.append(helper)
            return f"{helper}:0"
        return None

    found = burnt_in(Cluster(speed=lambda task: 0.6 if in_pairs("gpu006")(task) else 1.0, late=late))
    assert helped and list(found.out) == ["gpu006"]


def test_a_leaf_whose_uplinks_are_slow_is_named_and_its_nodes_are_not() -> None:
    def speed(task: Task) -> float:
        leaves = {(int(node[3:]) - 1) // 4 for node in task.nodes}
        return 0.5 if 2 in leaves and len(leaves) > 1 else 1.0

    found = burnt_in(Cluster(speed=speed), 12)
    assert [(one.object, one.name) for one in found.found] == [(Object.LEAF, "leaf03")], found.found
    assert outcomes(found) == {BurnInOutcome.PASS: 8, BurnInOutcome.UNKNOWN: 4}


def test_a_node_of_which_one_rail_is_slow_among_nodes_is_named_by_that_rail_and_its_mates_pass() -> None:
    def speed(task: Task) -> float:
        rails = (task.params["rail"],) if task.stage is BurnInStage.RAIL_CONFIRM else range(8)
        return 0.6 if "gpu006" in task.nodes and len(task.nodes) > 1 and 5 in rails else 1.0

    cluster = Cluster(speed=speed)
    found = burnt_in(cluster)
    [accused] = judge(found.burnt, FLOORS).accusations
    assert (accused.object, accused.name, accused.fault) == (Object.RAIL, "gpu006/rail5", faults.SLOW_LINK)
    assert outcomes(found) == {BurnInOutcome.PASS: 7, BurnInOutcome.FAIL: 1}
    rails = [task for step in cluster.steps if step.stage is BurnInStage.RAIL_CONFIRM for task in step.tasks]
    assert ({task.params["rail"] for task in rails} == set(range(8))
            and len({task.id for task in rails}) == len(rails))
    assert all([seat.gpu for seat in task.seats] == [task.params["rail"]] * 2 for task in rails)
    assert all(task.environment["NCCL_MNNVL_ENABLE"] == "0" and set(task.local) == set(task.nodes)
               for task in rails)


def test_a_node_that_pairs_accused_stays_accused_when_the_burn_in_ends_while_its_rails_are_tried() -> None:
    found = cut(Cluster(speed=lambda task: 0.6 if "gpu006" in task.nodes and len(task.nodes) > 1 else 1.0),
                BurnInStage.RAIL_CONFIRM, TaskKind.ALLREDUCE, 2)
    assert [(one.object, one.name) for one in judge(found.burnt, FLOORS).accusations] == [
        (Object.NODE, "gpu006")]
    assert not any(result.task.stage is BurnInStage.RAIL_CONFIRM for result in found.results)


def test_whom_watching_names_among_all_nodes_leaves_and_the_others_are_tried_again() -> None:
    cluster = Cluster(dead=lambda task: "gpu006" if len(task.nodes) > 2 and "gpu006" in task.nodes else None)
    found = burnt_in(cluster)
    sizes = [len(step.nodes) for step in cluster.steps if step.stage is BurnInStage.ALL]
    assert (sizes == [8, 7, 7, 7] and list(found.out) == ["gpu006"]
            and outcomes(found) == {BurnInOutcome.PASS: 7, BurnInOutcome.FAIL: 1})


def test_whom_a_training_of_all_names_leaves_and_one_that_no_one_explains_is_not_parted() -> None:
    cluster = Cluster(dead=lambda task: "gpu003" if task.stage is BurnInStage.TRAIN
                      and "gpu003" in task.nodes else None)
    found = burnt_in(cluster, 4)
    assert [len(step.nodes) for step in cluster.steps if step.stage is BurnInStage.TRAIN] == [4, 3]
    assert (outcomes(found) == {BurnInOutcome.PASS: 3, BurnInOutcome.FAIL: 1}
            and cluster.steps[-1].stage is BurnInStage.TRAIN)
    cluster = Cluster(wrong=lambda task: "gpu003:1" if task.stage is BurnInStage.TRAIN else None)
    assert (outcomes(burnt_in(cluster, 4)) == {BurnInOutcome.UNKNOWN: 4}
            and BurnInStage.BISECT not in {step.stage for step in cluster.steps})


def test_a_failure_that_only_scale_shows_is_parted_by_leaf_until_one_is_named() -> None:
    cluster = Cluster(speed=lambda task: 0.5 if len(task.nodes) > 2 and "gpu014" in task.nodes else 1.0)
    # of which a figure is published for so many nodes
    found = burnt_in(cluster, 16, allreduce__bytes=8 * GIB)
    assert BurnInStage.BISECT in {step.stage for step in cluster.steps}
    assert [(one.object, one.name) for one in found.found] == [(Object.LEAF, "leaf04")]


def test_of_two_nodes_the_one_whose_rank_died_is_named_and_nothing_is_called_unexplained() -> None:
    found = burnt_in(Cluster(dead=lambda task: "gpu002" if len(task.nodes) > 1 else None), 2)
    judged = judge(found.burnt, FLOORS)
    assert [(one.object, one.name) for one in judged.accusations] == [(Object.GPU, "gpu002:0")]
    assert {one.node: one.outcome for one in judged.outcomes} == {"gpu001": BurnInOutcome.UNKNOWN,
                                                                  "gpu002": BurnInOutcome.FAIL}


@pytest.mark.parametrize("count", [4, pytest.param(6, marks=pytest.mark.slow)])
def test_a_few_nodes_without_a_floor_are_neither_slow_nor_passed(count: int) -> None:
    there = places(count, per_leaf=2, sku="cpu-only", rails=0)
    wanted = frozenset({BurnInStage.LEAF_PAIRS, BurnInStage.CROSS_PAIRS})
    cluster = Cluster(speed=lambda task: 1 / 300 if "gpu002" in task.nodes else 1.0)
    found = burnt_in(cluster, there=there, wanted=wanted, floors=STRICT)
    whole = judge(found.burnt, STRICT)
    assert outcomes_of(whole)["gpu002"] is not BurnInOutcome.PASS and whole.verdict is not BurnInOutcome.PASS
    # they are measured, and may be learned from
    assert any(step.stage is BurnInStage.CROSS_PAIRS for step in cluster.steps)
    assert not any(step.stage is BurnInStage.LEAF_CONFIRM for step in cluster.steps) or found.found


def outcomes_of(whole: Judgement) -> dict[str, BurnInOutcome]:
    return {one.node: one.outcome for one in whole.outcomes}


def test_an_unjudged_pair_clears_no_one_of_what_judged_ones_show() -> None:
    # Round one has three pairs, too few to compare; of round two on there are enough.
    there = places(6, per_leaf=6, rails=0)
    cluster = Cluster(speed=lambda task: 0.5 if "gpu002" in task.nodes and len(task.nodes) == 2 else 1.0)
    found = burnt_in(cluster, there=there, wanted=frozenset({BurnInStage.LEAF_PAIRS}), floors=STRICT)
    assert [(one.object, one.name) for one in found.found] == [(Object.NODE, "gpu002")]


def test_one_node_alone_is_asked_what_one_node_can_do() -> None:
    found = burnt_in(Cluster(), 1)
    assert ({stage for stage, _ in found.burnt.asked} == {BurnInStage.NODE, BurnInStage.RAIL}
            and outcomes(found) == {BurnInOutcome.PASS: 1})


def test_when_all_are_accused_the_later_stages_say_why_they_were_not_run() -> None:
    found = burnt_in(Cluster(wrong=lambda task: f"{task.nodes[0]}:0"
                             if task.kind is TaskKind.KNOWN else None), 4)
    assert (found.missing[BurnInStage.ALL] == "fewer than two nodes were left"
            and found.missing[BurnInStage.NODE] == "all nodes had left before this stage")
    assert outcomes(found) == {BurnInOutcome.FAIL: 4}


class Cut(Exception):
    """The burn-in ends here."""


def test_what_came_before_it_was_interrupted_is_kept_and_passes_no_node() -> None:
    cluster = Cluster()
    there = places(4, per_leaf=2)

    def do(step: StageStep) -> Iterator[TaskResult]:
        for at, result in enumerate(cluster.do(step)):
            if step.stage is BurnInStage.CROSS_PAIRS and at:
                raise Cut
            yield result

    work = BurnInWork("quick", MappingProxyType({}), presumed(there))
    made = BurninRun(there, work, EVERY, FLOORS, HARDWARE)
    made.begin(there, work)
    with pytest.raises(Cut):
        run(made, do)
    for ending in (None, RunEnding.INTERRUPTED):
        assert (made.ending is ending
                and [result.task.stage for result in made.results].count(BurnInStage.CROSS_PAIRS) == 1)
        burnt, judgement = made.judged()
        assert {one.outcome for one in judgement.outcomes} == {BurnInOutcome.UNKNOWN}
        assert judgement.outcomes[0].why[0] == "the burn-in was not finished"
        assert burnt.missing[BurnInStage.ALL] == "the burn-in was not finished"
        made.end(interrupted=True)


def cut(cluster: Cluster, stage: BurnInStage, kind: TaskKind, after: int, length: str = "quick") -> BurninRun:
    """A burn-in that gives way after so many results of the first step of that stage and kind."""
    there = places(8, per_leaf=8)

    def do(step: StageStep) -> Iterator[TaskResult]:
        for at, result in enumerate(cluster.do(step)):
            if step.stage is stage and step.tasks[0].kind is kind and at == after:
                raise Cut
            yield result

    work = BurnInWork(length, MappingProxyType({}), presumed(there))
    made = BurninRun(there, work, EVERY, FLOORS, HARDWARE)
    made.begin(there, work)
    with pytest.raises(Cut):
        run(made, do)
    made.end(interrupted=True, gave_way="job 7 waits")
    return made


def test_what_was_finished_before_it_gave_way_stands() -> None:
    found = cut(Cluster(wrong=lambda task: "gpu003:2" if task.kind is TaskKind.KNOWN else None),
                BurnInStage.LEAF_PAIRS, TaskKind.ALLREDUCE, 1)
    assert {result.task.stage for result in found.results} == {BurnInStage.NODE, BurnInStage.RAIL}
    outcomes = {one.node: (one.outcome, one.why[0]) for one in found.judged()[1].outcomes}
    assert (outcomes.pop("gpu003")[0] is BurnInOutcome.FAIL
            and set(outcomes.values()) == {(BurnInOutcome.UNKNOWN, "it gave way: job 7 waits")})


@pytest.mark.parametrize("kind", [TaskKind.KNOWN, TaskKind.ALLREDUCE])
def test_of_what_was_not_finished_when_it_gave_way_wrong_data_of_a_gpu_alone_stands(kind: TaskKind) -> None:
    # In what is not finished the third of eight is far slower than the two before it; the second computes
    # wrongly.
    found = cut(Cluster(speed=lambda task: 0.1 if "gpu003" in task.nodes and task.kind is kind else 1.0,
                        wrong=lambda task: "gpu002:5" if task.kind is TaskKind.KNOWN else None),
                BurnInStage.NODE, kind, 4)
    whole = judge(found.burnt, FLOORS)
    assert [(one.name, one.fault) for one in whole.accusations] == [("gpu002:5", faults.WRONG_DATA)]
    assert outcomes_of(whole)["gpu003"] is not BurnInOutcome.FAIL


def test_a_pair_that_was_slow_in_a_stage_that_was_not_finished_accuses_no_one() -> None:
    cluster = Cluster(speed=lambda task: 0.1 if len(task.nodes) == 2 and "gpu001" in task.nodes else 1.0)
    assert judge(cut(cluster, BurnInStage.LEAF_PAIRS, TaskKind.ALLREDUCE, 3).burnt, FLOORS).accusations == ()
    # Watching had named a rank there, which may have been the network's doing: no other test has told yet.
    dead = Cluster(dead=lambda task: "gpu001" if task.stage is BurnInStage.LEAF_PAIRS
                   and "gpu001" in task.nodes else None)
    assert judge(cut(dead, BurnInStage.LEAF_PAIRS, TaskKind.ALLREDUCE, 3).burnt, FLOORS).accusations == ()


def test_of_a_node_whose_lease_was_lost_nothing_is_believed() -> None:
    cluster = Cluster(wrong=lambda task: "gpu003:2" if task.kind is TaskKind.KNOWN else None)
    whole = judge(burnt_in(cluster, 4).burnt, FLOORS)
    withheld = {"gpu003": "its lease was lost: ended by somebody else",
                "gpu001": "its lease was lost: ended by somebody else"}
    found = doubted(whole, withheld, withheld, {})
    assert {one.node: one.outcome for one in found.outcomes} == {
        "gpu001": BurnInOutcome.UNKNOWN, "gpu002": BurnInOutcome.PASS, "gpu003": BurnInOutcome.UNKNOWN,
        "gpu004": BurnInOutcome.PASS}
    assert found.accusations == () and found.verdict is BurnInOutcome.UNKNOWN


def test_what_is_no_one_s_is_believed_where_a_task_without_those_nodes_shows_it() -> None:
    there = judge(burnt_in(Cluster(), 4).burnt, FLOORS)
    whole = replace(there, accusations=(Accusation(Object.UNEXPLAINED, "known_fp32", "wrong data", "why",
                                                   ("node-known-gpu001", "node-known-gpu002")),
                                        Accusation(Object.LEAF, "leaf1", "slow", "why",
                                                   ("pair-1: gpu001 - gpu002 slow",)),
                                        Accusation(Object.UNEXPLAINED, "x", "slow", "why")))
    tasks = {"node-known-gpu001": ("gpu001",), "node-known-gpu002": ("gpu002",),
             "pair-1": ("gpu001", "gpu002")}

    def left(*withheld: str) -> list[str]:
        lost = dict.fromkeys(withheld, "its lease was lost")
        return [one.name for one in doubted(whole, lost, lost, tasks).accusations]

    assert (left() == ["known_fp32", "leaf1", "x"] and left("gpu001") == ["known_fp32"]
            and left("gpu004") == ["known_fp32", "leaf1"])
    assert left("gpu001", "gpu002") == []


def test_a_node_without_a_lease_and_one_without_pytorch_take_no_part_and_do_not_pass() -> None:
    there = places(4, per_leaf=2)
    work = BurnInWork("quick", MappingProxyType({}), presumed(there))
    made = BurninRun(there, work, EVERY, FLOORS, HARDWARE)
    made.leave("gpu001", "a job runs there")
    made.begin(there, work)
    made.leave("gpu002", "no PyTorch")
    cluster = Cluster()
    run(made, cluster.do)
    made.end()
    assert (made.ending is RunEnding.FINISHED
            and {node for step in cluster.steps for node in step.nodes} == {"gpu003", "gpu004"})
    assert {one.node: one.why[:1] for one in made.judged()[1].outcomes if one.node < "gpu003"} == {
        "gpu001": ("took no part: a job runs there",), "gpu002": ("took no part: no PyTorch",)}


def test_one_that_ends_before_anything_was_looked_at_passes_no_node_and_names_every_stage() -> None:
    there = places(2)
    made = BurninRun(there, BurnInWork(ports=presumed(there)), EVERY, FLOORS, HARDWARE)
    assert made.next() is None
    made.end(interrupted=True)
    burnt, judgement = made.judged()
    assert {one.outcome for one in judgement.outcomes} == {BurnInOutcome.UNKNOWN} and made.next() is None
    assert set(burnt.missing) == {step.stage for step in made.steps} == {
        BurnInStage.NODE, BurnInStage.RAIL, BurnInStage.LEAF_PAIRS, BurnInStage.ALL, BurnInStage.TRAIN}


def test_a_rail_that_a_look_did_not_see_keeps_its_node_from_a_pass_and_is_remarked_once() -> None:
    there = places(2)
    work = BurnInWork(ports={**presumed(there),
                             "gpu002": Ports(rails={0: {}}, notes=("no RDMA device was seen",))})
    made = BurninRun(there, work, EVERY, FLOORS, HARDWARE)
    made.begin(there, work)
    run(made, Cluster().do)
    made.end()
    judgement = made.judged()[1]
    [unknown] = [one for one in judgement.outcomes if one.outcome is BurnInOutcome.UNKNOWN]
    assert unknown.why[0] == "rail 1, 2, 3, 4, 5, 6, 7 was not measured: it has no RDMA device"
    assert judgement.remarks[-1] == "no RDMA device was seen (gpu002)"


@pytest.mark.parametrize(("count", "per_leaf", "slow", "nodes"), [(8, 1, "gpu003", {"gpu003", "gpu008"}),
                                                                  (17, 8, "gpu017", {"gpu017"})])
def test_a_slow_node_alone_on_its_leaf_is_no_one_s_fault_and_only_who_may_share_in_it_does_not_pass(
    count: int, per_leaf: int, slow: str, nodes: set[str],
) -> None:
    """Whether it or its leaf is slow no test tells; its partners pass with others."""
    cluster = Cluster(speed=lambda task: 0.6 if slow in task.nodes and len(task.nodes) > 1 else 1.0)
    found = burnt_in(cluster, there=places(count, per_leaf=per_leaf))
    of = judge(found.burnt, FLOORS)
    [accused] = of.accusations
    assert accused.object is Object.UNEXPLAINED and slow in accused.name and set(accused.nodes) == nodes
    assert nodes == set(found.out) == {one.node for one in of.outcomes
                                       if one.outcome is not BurnInOutcome.PASS}
    # Who may be slow would slow all others.
    assert not any(nodes & set(step.nodes) for step in cluster.steps if step.stage is BurnInStage.ALL)


def test_a_slow_path_between_two_leaves_is_named_once_and_not_each_pair_across_it() -> None:
    def speed(task: Task) -> float:
        return 0.5 if len({(int(node[3:]) - 1) // 4 for node in task.nodes}) > 1 else 1.0

    found = burnt_in(Cluster(speed=speed))
    of = judge(found.burnt, STRICT)
    assert [(one.object, one.name) for one in of.accusations if one.object is Object.PAIR] == [
        (Object.PAIR, "leaf01 - leaf02")]
    assert not any(one.outcome is BurnInOutcome.PASS for one in of.outcomes)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("speed", [1.0, 0.05])
def test_pairs_that_were_measured_many_times_are_no_equals_of_themselves(count: int, speed: float) -> None:
    found = burnt_in(Cluster(speed=lambda task: speed if len(task.nodes) > 1 else 1.0),
                     there=places(count, sku=None))
    assert outcomes(found) == {BurnInOutcome.UNKNOWN: count}
    assert "in leaf-pairs was not judged: one of" in "".join(judge(found.burnt, FLOORS).outcomes[0].why)
