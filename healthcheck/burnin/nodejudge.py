"""Decides the outcome of each node: a pass only if all was measured and nothing stands against it."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from healthcheck.burnin import limits
from healthcheck.burnin.figures import LATENCY, WRITE_RATE
from healthcheck.burnin.judgement import BurnInOutcome, NodeOutcome, StageDone
from healthcheck.burnin.merged import behind, node_of, sharing, task_of
from healthcheck.burnin.model import (
    Accusation,
    BurnInStage,
    Object,
    Participant,
    RankReport,
    Task,
    TaskKind,
    TaskResult,
)
from healthcheck.burnin.published import BUSBW
from healthcheck.burnin.setting import OF_RANK, OF_STORAGE
from inventory.text import clean

_STAGES = tuple(BurnInStage)
# Stages that must test each GPU of a node.
_EACH_GPU = (BurnInStage.NODE,)
# A node without a new partner there is measured with a proven node instead.
_PAIRS = (BurnInStage.LEAF_PAIRS, BurnInStage.CROSS_PAIRS)


@dataclass(frozen=True)
class _Part:
    """What one node did in a task: its own reports, and whether the task as a whole was whole."""

    task: Task
    whole: bool
    reports: tuple[RankReport, ...]


def outcomes(
    places: Sequence[Participant], results: Sequence[TaskResult],
    asked: Sequence[tuple[BurnInStage, TaskKind]],
    missing: Mapping[BurnInStage, str],
    accusations: Sequence[Accusation], doubts: Mapping[str, Sequence[str]],
    doubtful: Mapping[str, frozenset[str]],
) -> tuple[NodeOutcome, ...]:
    """The outcome of each place. `doubts` are by node what was not measured, `doubtful` the nodes of
    accusations that no task's name shows."""
    of_node = _parts(results)
    leaves = {place.node: place.leaf for place in places}
    guilty: dict[str, list[str]] = defaultdict(list)
    open_: dict[str, list[str]] = defaultdict(list)
    for one in accusations:
        _sort_in(one, places, results, doubtful, guilty, open_)
    found = []
    for place in places:
        own = of_node.get(place.node, [])
        stages = tuple(_stage(stage, place, own, [kind for each, kind in asked if each is stage], missing,
                              leaves) for stage in _STAGES if any(each is stage for each, _ in asked))
        not_done = [f"{one.stage.value}: {one.why}" for one in stages if not one.done]
        why = [*guilty[place.node], *open_[place.node], *doubts.get(place.node, ()), *not_done]
        if not asked:
            why.append("it had nothing to do")
        outcome = (BurnInOutcome.FAIL if guilty[place.node]
                   else BurnInOutcome.UNKNOWN if why else BurnInOutcome.PASS)
        found.append(NodeOutcome(place.node, outcome, tuple(why[:limits.REASONS]), stages,
                                 MappingProxyType(_figures(own))))
    return tuple(found)


def _sort_in(
    one: Accusation, places: Sequence[Participant], results: Sequence[TaskResult],
    doubtful: Mapping[str, frozenset[str]],
    guilty: dict[str, list[str]], open_: dict[str, list[str]],
) -> None:
    """Adds an accusation to its node; one of no single node keeps all its candidates from passing."""
    node = node_of(one)
    if node is not None:
        guilty[node].append(f"{one.name}: {one.fault}" if one.object is not Object.NODE else one.fault)
        return
    if one.object is Object.LINK:   # named for certain: who shares it has a doubt of its own
        return
    there = {place.node: place for place in places}
    if one.object is Object.LEAF:
        nodes, why = behind(one.name, there), f"it is behind {clean(one.name, 60)}, which is accused"
    elif one.object is Object.PAIR:
        nodes, why = sharing(one.name,
                             there), f"{one.fault} between {clean(one.name, 120)}: which of them is unknown"
    else:
        tests = {one.name, *map(task_of, one.tests_for)}
        nodes = (frozenset(one.nodes) or doubtful.get(one.name)
                 or frozenset(name for result in results if result.task.id in tests
                              for name in result.task.nodes) or frozenset(there))
        why = f"{one.fault} in {clean(one.name, 120)} is unexplained"
    for name in nodes:
        open_[name].append(why)


def _parts(results: Iterable[TaskResult]) -> Mapping[str, list[_Part]]:
    """By node its part in each task; each report is read once, not once for each node."""
    found: dict[str, list[_Part]] = defaultdict(list)
    for result in results:
        own: dict[str, list[RankReport]] = {node: [] for node in result.task.nodes}
        for report in result.reports:
            if report.seat.node in own:
                own[report.seat.node].append(report)
        whole = result.whole
        for node, reports in own.items():
            found[node].append(_Part(result.task, whole, tuple(reports)))
    return found


def _stage(stage: BurnInStage, place: Participant, own: Sequence[_Part], kinds: Sequence[TaskKind],
           missing: Mapping[BurnInStage, str], leaves: Mapping[str, str | None]) -> StageDone:
    """Whether a node did what a stage asks: each kind of work in a whole task, on each GPU if required. One
    whole task is enough, as a node whose partner died in one round is measured in the next; but not where
    each task is a test of its own (`_tests`)."""
    there = [part for part in own if part.task.stage is stage
             or (stage in _PAIRS and _stands_in(part.task, stage, leaves))]
    if not there:
        return StageDone(stage, False, f"not run: {missing.get(stage, 'it had no task for this node')}")
    for kind in kinds:
        tasks = [part for part in there if part.task.kind is kind]
        whole = [part for part in tasks if part.whole]
        if not tasks:
            return StageDone(stage, False, f"{kind.value} was not run")
        if not whole:
            return StageDone(stage, False, f"{kind.value} was not finished in "
                             f"{', '.join(part.task.id for part in tasks[:3])}")
        # In a collective across nodes each GPU of the node must have reported figures.
        complete = whole if stage in _EACH_GPU else [
            part for part in whole if all(_measured(one.figures, part.task) for one in part.reports)]
        measured = {report.seat.gpu for part in complete for report in part.reports
                    if _measured(report.figures, part.task)}
        if not measured:
            return StageDone(stage, False, f"{kind.value} reported no figure")
        if stage in _EACH_GPU and not kind.of_node and len(measured & set(range(place.gpus))) < place.gpus:
            return StageDone(stage, False,
                             f"{kind.value} was measured on {len(measured)} of {place.gpus} GPUs")
        tests = max(_tests(part.task) for part in tasks)
        done = sum(all(_measured(one.figures, part.task) for one in part.reports) for part in complete)
        if done < tests:
            return StageDone(stage, False, f"{kind.value} was measured in {done} of its {tests} tests")
    return StageDone(stage, True)


def _tests(task: Task) -> int:
    """How many tests of its kind the node had to do in that stage; 0 where one is enough."""
    tests = task.params.get("tests", 1)
    return tests if isinstance(tests, int) and tests > 1 else 0


def _stands_in(task: Task, stage: BurnInStage, leaves: Mapping[str, str | None]) -> bool:
    """Whether a pair with a proven node counts for that stage: across leaves only with two leaves."""
    return task.stage is BurnInStage.LEAF_CONFIRM and (stage is BurnInStage.LEAF_PAIRS
                                                       or len({leaves.get(node) for node in task.nodes}) > 1)


def _measured(figures: Mapping[str, float], task: Task) -> bool:
    """Whether a report shows that the work was done at all, and how fast."""
    kind = task.kind
    if kind is TaskKind.SIZES and not any(name.startswith(LATENCY) and value > 0
                                          for name, value in figures.items()):
        return False
    if kind is TaskKind.ALLREDUCE and len(task.seats) > 1 and not figures.get(BUSBW, 0) > 0:
        return False
    if kind is TaskKind.WRITE:     # it verifies no data
        return figures.get(WRITE_RATE, 0) > 0
    if kind is TaskKind.RATE:
        return any(name.startswith("tflops_") and value > 0 for name, value in figures.items())
    needs = {TaskKind.MEMORY: ("memory_gb_s",), TaskKind.COPY: ("copy_to_gb_s", "copy_from_gb_s"),
             TaskKind.STORAGE: OF_STORAGE, TaskKind.HOST: ("host_gb_s",),
             TaskKind.TRAIN: ("train_steps_s",)}.get(kind, ())
    return all(figures.get(name, 0) > 0 for name in ("verified", *needs))


def _figures(own: Iterable[_Part]) -> dict[str, float]:
    """A node's figures on the page: the least of its GPUs, and the median of collectives by stage."""
    least: dict[str, float] = {}
    busbw: dict[str, list[float]] = defaultdict(list)
    host: dict[str, float] = defaultdict(float)
    for part in own:
        for report in part.reports if part.whole else ():
            for name in OF_RANK:
                if (value := report.figures.get(name, 0)) > 0:
                    least[name] = min(value, least.get(name, value))
            host["host_gb_s"] += report.figures.get("host_gb_s", 0)
            for name in OF_STORAGE:
                if (value := report.figures.get(name, 0)) > 0:
                    least[f"{name} {part.task.params.get('path', '')}"] = value
            if (value := report.figures.get(BUSBW, 0)) > 0:
                busbw[f"{BUSBW} {part.task.stage.value}"].append(value)
    least.update({name: value for name, value in host.items() if value > 0})
    return {**least, **{name: statistics.median(values) for name, values in busbw.items()}}
