"""ib_write_bw at work: the pairs of a link burn's round, all at once, over the ordinary transport."""

from __future__ import annotations

import json
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from healthcheck.burnin import perftest, program
from healthcheck.burnin.faults import LOST
from healthcheck.burnin.figures import WRITE_RATE
from healthcheck.burnin.model import Accusation, Object, RankEnd, RankReport, Task, TaskKind, TaskResult
from healthcheck.model.lease import Granted
from inventory.model import Node
from inventory.text import clean
from inventory.transport.base import Failure, Limits, Reply, Stage
from inventory.transport.deadline import bounded

ENGINE = "perftest"
CONNECT_S = 60.0    # until both sides of every pair are there: the last node of many to be reached
OWN_END_S = 15.0    # between the pair's seconds and its end
AWAY_S = 150.0      # to reach a node, and for its answer
VERSION_S = 20.0
_MOST_REPLY = 64 * 1024 * 1024
_GIGABITS = 8.0


@dataclass(frozen=True)
class _Side:
    """What one side of a pair came to, in the head's clock."""

    code: int
    text: str
    began: float
    ended: float


class Perftest:
    """ib_write_bw on these nodes, under the lease that `granted` tells of. `lost` is called with a node that
    could not be reached, and why, `remark` with what a person should know of a pair without a rate."""

    def __init__(self, nodes: Sequence[Node], granted: Granted, fanout: int, lost: Callable[[str, str], None],
                 remark: Callable[[str], None]) -> None:
        self._nodes = {node.name: node for node in nodes}
        self._granted, self._fanout, self._lost, self._remark = granted, fanout, lost, remark

    def sample(self) -> dict[str, str]:
        """By node why ib_write_bw cannot be used there."""
        asked = {name: [{"id": "version", "side": "a", "device": "", "connects": False, "connect_s": 0,
                         "words": ["timeout", "--foreground", str(VERSION_S), perftest.PROGRAM, "--version"]}]
                 for name in self._nodes}
        why = {}
        for node, found in self._sent(asked, VERSION_S):
            if isinstance(found, Failure):
                why[node] = f"{found.stage.value}: {clean(found.reason, 200)}"
            elif (said := found.get(("version", "a"))) is None or said.code in (126, 127):
                why[node] = (f"{perftest.PROGRAM} is not there: install perftest "
                             f"({clean((said.text if said is not None else '').strip(), 120)})")
        return why

    def run(self, tasks: Iterable[Task]) -> Iterator[TaskResult]:
        """Runs the pairs at the same time."""
        chosen = list(tasks)
        sides: dict[str, list[dict[str, Any]]] = defaultdict(list)
        longest = 0.0
        for number, task in enumerate(chosen):
            seconds = CONNECT_S + perftest.duration(task.params) + OWN_END_S
            longest = max(longest, seconds)
            first, second = (seat.node for seat in task.seats)
            address = self._nodes[first].address or first
            for node, side, to in ((first, "a", ""), (second, "b", address)):
                sides[node].append({
                    "id": task.id, "side": side, "device": str(task.params[f"device_{side}"]),
                    "words": perftest.words(task.params, side, number, to, seconds), "connects": bool(to),
                    "connect_s": CONNECT_S})
        began = time.monotonic()
        found: dict[tuple[str, str], _Side] = {}
        failed: dict[str, Failure] = {}
        for node, answer in self._sent(sides, longest):
            if isinstance(answer, Failure):
                failed[node] = answer
                if answer.stage not in (Stage.REPLY, Stage.DEADLINE):
                    self._lost(node, f"{answer.stage.value}: {clean(answer.reason)}")
            else:
                found.update(answer)
        for task in chosen:
            yield self._result(task, found, failed, began)

    def _result(self, task: Task, found: Mapping[tuple[str, str], _Side], failed: Mapping[str, Failure],
                began: float) -> TaskResult:
        now = time.monotonic()
        if missing := [seat.node for seat in task.seats if seat.node in failed]:
            why = f"{failed[missing[0]].stage.value}: {clean(failed[missing[0]].reason)}"
            reached = failed[missing[0]].stage in (Stage.REPLY, Stage.DEADLINE)
            accused = (Accusation(Object.NODE, missing[0], LOST, f"while {perftest.PROGRAM} ran there: {why}",
                                  (task.id,)),) if reached else ()
            return TaskResult(task, tuple(RankReport(
                seat, RankEnd.LOST if seat.node in failed else RankEnd.CALLED_OFF, error=why)
                for seat in task.seats), accused, began, now)
        both = [found.get((task.id, side)) for side in ("a", "b")]
        listens, connects = both
        rate, error = 0.0, ""
        if listens is None or connects is None:
            error = "its answer is not whole"
        else:
            try:
                rate = perftest.read(connects.text).gbps / 2 / _GIGABITS
            except ValueError as wrong:
                error = str(wrong)
            for each in (listens, connects):
                if each.code and not error:
                    error = f"it ended with exit code {each.code}"
        if error:
            self._remark(f"{task.id} ({clean(task.params.get('ports', ''), 120)}) was not measured: "
                         f"{perftest.PROGRAM}: {clean(error, 240)}")
        figures = {WRITE_RATE: rate} if not error else {}
        reports = tuple(RankReport(
            seat, RankEnd.RAISED if error else RankEnd.DONE, figures, facts={"engine": ENGINE},
            code=each.code if each is not None else None, error=clean(error, 300))
            for seat, each in zip(task.seats, both, strict=True))
        return TaskResult(task, reports, (), connects.began if connects is not None else began,
                          connects.ended if connects is not None else now)

    def _sent(self, sides: Mapping[str, Sequence[Mapping[str, Any]]], seconds: float,
              ) -> Iterator[tuple[str, dict[tuple[str, str], _Side] | Failure]]:
        """By node what its sides came to, or why that is not known. All nodes are at work at once."""
        nodes = [self._nodes[name] for name in sides]
        limits = Limits(node_s=seconds + AWAY_S, fanout=max(1, len(nodes)), reply_bytes=_MOST_REPLY,
                        twice=False)
        limits = replace(bounded(nodes, limits, None), patience=max(1.0, len(nodes) / max(1, self._fanout)))
        for reply in self._granted.transport.run(nodes, program.writing(sides), limits):
            yield reply.node, reply.failure or _answer(reply)


def _answer(reply: Reply) -> dict[tuple[str, str], _Side] | Failure:
    """The sides in a node's reply, their times by the head's clock."""
    now = time.monotonic()
    machine = zlib.decompressobj()
    try:
        document = json.loads(machine.decompress(reply.body or b"", _MOST_REPLY))
        return {(str(one["id"]), str(one["side"])): _Side(
            int(one["code"]), str(one["text"]), now - (float(document["now"]) - float(one["began"])),
            now - (float(document["now"]) - float(one["over"]))) for one in document["sides"]}
    except (ValueError, KeyError, TypeError, AttributeError, zlib.error, OverflowError):
        return Failure(Stage.REPLY, "its answer is damaged")


class FabricEngine:
    """`run` gives pairs of ib_write_bw to perftest, and all else to `others` (None: nothing else)."""

    def __init__(self, perf: Perftest, others: Callable[[Sequence[Task], Mapping[str, float]],
                                                        Iterator[TaskResult]] | None) -> None:
        self._perf, self._others = perf, others

    def run(self, tasks: Iterable[Task], after: Mapping[str, float]) -> Iterator[TaskResult]:
        """The results of these tasks, of one stage."""
        chosen = list(tasks)
        own = [task for task in chosen if task.kind is TaskKind.WRITE]
        if own:
            yield from self._perf.run(own)
        others = [task for task in chosen if task.kind is not TaskKind.WRITE]
        if others and self._others is not None:
            yield from self._others(others, after)
