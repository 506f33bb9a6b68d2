"""One task of a burn-in, from its order to its result. No clock, no I/O.

`provisioning.burnin.conductor` carries messages between a task and the agents:

    JOINING      agents start its ranks                     all have joined -> "go", RUNNING
    RUNNING      the ranks work                             all are done and their processes ended -> over
    STOPPING     "stop", from either: something is wrong, or it is called off. What ends now accuses no rank.
                                                            all have ended, or `LEFT_S` have passed -> over

`watch.trouble` names a rank that dies or hangs, and its task is stopped (`TaskRun.order`); others go on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import Any

from healthcheck.burnin import messages
from healthcheck.burnin.late import late
from healthcheck.burnin.model import RankEnd, RankProgress, RankReport, Task, TaskResult
from healthcheck.burnin.watch import Patience, RankState, StopReason, overdue, trouble
from healthcheck.burnin.wrongdata import wrong_data

NEWS_S = 1.5            # until a started rank has been heard of
LEFT_S = 6.0            # until a process that cannot be killed is left to its node
PARTED_S = 20.0         # between the last report and the last process's end
# beyond the task's seconds and the head's wait, until a rank ends itself
OVERTIME_S = 20.0


class TaskState(Enum):
    """Where a task is between its order and its result."""

    JOINING = "joining"
    RUNNING = "running"
    STOPPING = "stopping"


class TaskRun:
    """A task from `sent` on. Messages about a rank count only from the rank's own node. No rank enters a
    collective before all have joined, so that missing ranks are known by name."""

    def __init__(self, task: Task, patience: Patience, sent: float) -> None:
        self.task = task
        self._patience = patience
        self._sent = sent
        self._went: float | None = None
        self._stopped: float | None = None
        self._trouble: StopReason | None = None
        self._named_at = 0.0
        self._seen = [RankState(seat) for seat in task.seats]
        self._reports: dict[int, RankReport] = {}

    @property
    def state(self) -> TaskState:
        """The task's state."""
        if self._stopped is not None:
            return TaskState.STOPPING
        return TaskState.JOINING if self._went is None else TaskState.RUNNING

    def start_orders(self) -> dict[str, dict[str, Any]]:
        """The first order to each of its nodes."""
        task = self.task
        whole = {"id": task.id, "kind": task.kind.value, "stage": task.stage.value, "seconds": task.seconds,
                 "params": dict(task.params), "world": len(task.seats),
                 "overtime": self._patience.start(len(task.seats)) + OVERTIME_S}
        return {node: {"task": {**whole, "environment": task.on(node),
                                "seats": [[rank, seat.gpu] for rank, seat in enumerate(task.seats)
                                          if seat.node == node]}} for node in task.nodes}

    def message(self, node: str, message: Mapping[str, Any], at: float) -> None:
        """Handles any message of a node's agent."""
        if (place := messages.joined(message)) is not None and self._is_rank(node, *place):
            self._update(place[1], joined=at)
        for position in messages.positions(message, at):
            if self._is_rank(node, position.task, position.rank):
                self._update(position.rank, heard=at, progress=position.progress)
        if (ended := messages.ended(message)) is not None and self._is_rank(node, ended.task, ended.rank):
            self._update(ended.rank, ended=at, code=ended.code, signal=ended.signal,
                         last_line=ended.last_line)
        reported = messages.report(message)
        if (reported is not None and self._is_rank(node, reported[0], reported[1])
                and reported[1] not in self._reports):
            _, rank, report = reported
            self._reports[rank] = replace(report, seat=self.task.seats[rank])
            done = report.end is RankEnd.DONE
            self._update(rank, reported=at, done=done,
                       raised=None if done else report.error or f"it was {report.end.value}")

    def agent_gone(self, node: str, why: str, at: float) -> None:
        """A node's agent disconnected, or was never there."""
        for rank, seen in enumerate(self._seen):
            if seen.seat.node == node and seen.lost is None and seen.ended is None:
                self._update(rank, lost=at, lost_why=why)

    @property
    def waits(self) -> bool:
        """Whether ranks of it have not joined yet, and nothing is wrong so far."""
        return self.state is TaskState.JOINING and not self._joined() and not self._failed()

    def order(self, now: float, hold: bool = False) -> str | None:
        """The order for all its agents: "go", "stop" or None; with `hold` the joined wait for other tasks."""
        if self.state is TaskState.STOPPING or (
                hold and self.state is TaskState.JOINING and self._joined() and not self._failed()):
            return None
        found = trouble(self.task, self._seen, self._sent, self._went, now, self._patience)
        if found is None and all(seen.done for seen in self._seen):
            last = max(seen.reported or now for seen in self._seen)
            return self._stop(now) if now - last > PARTED_S and not self._ended() else None
        if found is None and now - self._sent > self.task.seconds:
            found = overdue(self.task, self._seen, self._sent + self.task.seconds, self._went, now,
                            self._patience)
        if found is not None:
            self._trouble, self._named_at = found, now
            return self._stop(now)
        if self.state is TaskState.JOINING and self._joined():
            self._went = now
            return "go"
        return None

    def call_off(self, now: float) -> str | None:
        """Ends a task in which nothing is wrong: the order for its agents."""
        return None if self.state is TaskState.STOPPING else self._stop(now)

    def over(self, now: float) -> bool:
        """Whether no more messages are expected."""
        if self._stopped is None:
            return self._ended() and all(seen.done for seen in self._seen)
        passed = now - self._stopped
        known = [seen for seen in self._seen
                 if (seen.joined, seen.heard, seen.reported) != (None, None, None)]
        all_ended = all(seen.ended is not None or seen.lost is not None for seen in known)
        return self._ended() or passed > LEFT_S or (passed > NEWS_S and all_ended)

    def result(self, now: float) -> TaskResult:
        """The task's result. `named_after` counts from the beginning of the trouble, else from the go."""
        reports = tuple(self._report(rank, seen) for rank, seen in enumerate(self._seen))
        if self._trouble is not None:
            accusations = (*self._trouble.accusations, *wrong_data(self.task, reports))
            named_after: float | None = self._named_at - self._trouble.since
        else:
            accusations = (*wrong_data(self.task, reports), *late(self.task, reports))
            named_after = now - (self._went or self._sent)
        return TaskResult(self.task, reports, accusations, self._sent, now,
                          named_after if accusations else None)

    def _stop(self, now: float) -> str:
        self._stopped = now
        return "stop"

    def _joined(self) -> bool:
        return all(seen.joined is not None for seen in self._seen)

    def _failed(self) -> bool:
        return any(seen.failed is not None for seen in self._seen)

    def _ended(self) -> bool:
        return all(seen.ended is not None or seen.lost is not None for seen in self._seen)

    def _is_rank(self, node: str, task: str, rank: int) -> bool:
        return task == self.task.id and rank < len(self._seen) and self._seen[rank].seat.node == node

    def _update(self, rank: int, **what: Any) -> None:
        self._seen[rank] = replace(self._seen[rank], **what)

    def _report(self, rank: int, seen: RankState) -> RankReport:
        own = self._reports.get(rank, RankReport(seen.seat, RankEnd.CALLED_OFF))
        last = seen.progress
        if own.last != RankProgress():
            last = replace(last, iteration=own.last.iteration, phase=own.last.phase)
        if seen.done:
            return replace(own, last=last, code=seen.code if seen.signal is None else seen.signal)
        failed = seen.failed
        if failed is None or (self._stopped is not None and failed > self._stopped):
            never = seen.joined is None and seen.heard is None and failed is None
            return replace(own, end=RankEnd.NEVER if never else RankEnd.CALLED_OFF, last=last)
        if seen.lost is not None and seen.ended is None and seen.reported is None:
            return replace(own, end=RankEnd.LOST, error=seen.lost_why, last=last)
        if seen.signal is not None:
            return replace(own, end=RankEnd.SIGNAL, code=seen.signal, error=own.error or seen.last_line,
                           last=last)
        end = RankEnd.RAISED if seen.raised is not None else RankEnd.EXIT
        return replace(own, end=end, code=seen.code, error=own.error or seen.last_line, last=last)
