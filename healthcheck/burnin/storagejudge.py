"""Accuses nodes by tasks of memory and mounts; a mount's fault that most nodes have is no node's. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from healthcheck.burnin import faults
from healthcheck.burnin.merged import task_of
from healthcheck.burnin.model import Accusation, Object, RankEnd, RankReport, Task, TaskKind, TaskResult
from inventory.text import clean

# Faults that a node may have itself, or a shared file system may cause on all.
_MAY_BE_SHARED = (faults.HUNG, faults.RAISED, faults.SLOW, faults.SLOW_STORAGE, faults.WRONG_STORAGE,
                  faults.DEAD)


def wrong_of_nodes(task: Task, reports: Sequence[RankReport]) -> Iterator[Accusation]:
    """The nodes whose memory or mount returned other words than were written."""
    for node in task.nodes:
        own = [report for report in reports if report.seat.node == node and report.wrong_total]
        if own:
            where = clean(own[0].facts.get("wrong_in", ""), 200)
            count = sum(report.wrong_total for report in own)
            why = (f"{task.part}: {count} words differ from what was "
                   f"written{f', the first at {where}' if where else ''}")
            fault = faults.WRONG_STORAGE if task.kind is TaskKind.STORAGE else faults.WRONG_DATA
            yield Accusation(Object.NODE, node, fault, why, (task.id,))


def not_measured(results: Iterable[TaskResult]) -> Iterator[tuple[str, str]]:
    """The nodes with a mount or memory that was not measured, or not completely, and why."""
    for result in results:
        whys = {report.seat.node: why for report in result.reports if result.task.kind.of_node
                and report.end is RankEnd.DONE and (why := report.facts.get("not_measured"))}
        for node, why in whys.items():
            yield node, f"{result.task.part} was not measured: {clean(why, 300)}"


def without_shared(accusations: Iterable[Accusation], results: Iterable[TaskResult]) -> Iterator[Accusation]:
    """The accusations, with one unexplained failure in place of a mount's fault that most nodes have."""
    tasks = {result.task.id: result.task for result in results if result.task.kind is TaskKind.STORAGE}
    nodes: dict[str, set[str]] = defaultdict(set)
    for task in tasks.values():
        nodes[task.part].update(task.nodes)
    found: dict[tuple[str, str], list[Accusation]] = defaultdict(list)
    for one in accusations:
        parts = _parts(one, tasks)
        if len(parts) == 1 and one.object is Object.NODE and one.fault in _MAY_BE_SHARED:
            found[parts.pop(), one.fault].append(one)
        else:
            yield one
    for (part, fault), own in found.items():
        accused = {one.name for one in own}
        if len(accused) < 2 or 2 * len(accused) <= len(nodes[part]):
            yield from own
            continue
        how = (f"{len(accused)} of {len(nodes[part])} nodes have it, so they share its cause, or the request "
               "is wrong")
        yield Accusation(Object.UNEXPLAINED, part, fault, f"{how}; first, {own[0].name}: {own[0].why}",
                         tuple(dict.fromkeys(test for one in own for test in one.tests_for)))


def _parts(one: Accusation, tasks: Mapping[str, Task]) -> set[str]:
    """The mounts of the storage tasks that speak for an accusation; none where others do, too."""
    ids = [task_of(test) for test in one.tests_for]
    return {tasks[name].part for name in ids} if ids and all(name in tasks for name in ids) else set()
