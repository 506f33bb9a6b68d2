"""One task at work, as the head sees it: what agents say of its ranks goes in, what they are to be told and the result come out. No clock
of its own, and no connection.

Roll-call, then go: no rank enters a collective before all have joined, so that who never came is known by name. After a `stop` every end is
the head's doing, and accuses nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from healthcheck.burnin import told
from healthcheck.burnin.late import late
from healthcheck.burnin.model import End, Progress, Report, Task, TaskResult
from healthcheck.burnin.watch import Patience, Seen, Trouble, overdue, trouble
from healthcheck.burnin.wrongdata import wrong_data

KILL_S = 2.0            # what an agent gives a rank between TERM and KILL
NEWS_S = 1.5            # by when a rank that was started has been heard of
LEFT_S = 6.0            # after which a process that cannot be killed is left to its node
PARTED_S = 20.0         # between the last report and the last process' end
OVERTIME_S = 20.0       # after which a rank ends itself, beyond what the head waits for past a task's own seconds


class Running:
    """A task from `sent` on. Only a rank's own node may speak of it: anything else is not heard."""

    def __init__(self, task: Task, patience: Patience, sent: float) -> None:
        self.task = task
        self._patience = patience
        self._sent = sent
        self._went: float | None = None
        self._stopped: float | None = None
        self._trouble: Trouble | None = None
        self._named_at = 0.0
        self._seen = [Seen(seat) for seat in task.seats]
        self._reports: dict[int, Report] = {}

    def orders(self) -> dict[str, dict[str, Any]]:
        """What each of its nodes is told first."""
        task = self.task
        whole = {"id": task.id, "kind": task.kind.value, "stage": task.stage.value, "seconds": task.seconds, "params": dict(task.params),
                 "world": len(task.seats), "overtime": self._patience.start(len(task.seats)) + OVERTIME_S}
        return {node: {"task": {**whole, "environment": task.on(node),
                                "seats": [[rank, seat.gpu] for rank, seat in enumerate(task.seats) if seat.node == node]}}
                for node in task.nodes}

    def hear(self, node: str, message: Mapping[str, Any], at: float) -> None:
        """Takes a message of a node's agent, whatever it is."""
        if (place := told.joined(message)) is not None and self._is(node, *place):
            self._know(place[1], joined=at)
        for position in told.positions(message, at):
            if self._is(node, position.task, position.rank):
                self._know(position.rank, heard=at, progress=position.progress)
        if (ended := told.ended(message)) is not None and self._is(node, ended.task, ended.rank):
            self._know(ended.rank, ended=at, code=ended.code, signal=ended.signal, said=ended.said)
        said = told.report(message)
        if said is not None and self._is(node, said[0], said[1]) and said[1] not in self._reports:
            _, rank, report = said
            self._reports[rank] = replace(report, seat=self.task.seats[rank])
            done = report.end is End.DONE
            self._know(rank, reported=at, done=done, raised=None if done else report.error or f"it was {report.end.value}")

    def gone(self, node: str, why: str, at: float) -> None:
        """A node's agent went away, or was not there."""
        for rank, seen in enumerate(self._seen):
            if seen.seat.node == node and seen.lost is None and seen.ended is None:
                self._know(rank, lost=at, lost_why=why)

    def step(self, now: float) -> str | None:
        """What all its agents are to be told now: "go", "stop" or nothing."""
        if self._stopped is not None:
            return None
        found = trouble(self.task, self._seen, self._sent, self._went, now, self._patience)
        if found is None and all(seen.done for seen in self._seen):
            last = max(seen.reported or now for seen in self._seen)
            return self._stop(now) if now - last > PARTED_S and not self._ended() else None
        if found is None and now - self._sent > self.task.seconds:
            found = overdue(self.task, self._seen, self._sent + self.task.seconds, self._went, now, self._patience)
        if found is not None:
            self._trouble, self._named_at = found, now
            return self._stop(now)
        if self._went is None and all(seen.joined is not None for seen in self._seen):
            self._went = now
            return "go"
        return None

    def call_off(self, now: float) -> str | None:
        """Ends it for no fault of anybody's."""
        return self._stop(now) if self._stopped is None else None

    def over(self, now: float) -> bool:
        """Whether nothing more is to come of it."""
        if self._stopped is None:
            return self._ended() and all(seen.done for seen in self._seen)
        passed = now - self._stopped
        known = [seen for seen in self._seen if (seen.joined, seen.heard, seen.reported) != (None, None, None)]
        settled = all(seen.ended is not None or seen.lost is not None for seen in known)
        return self._ended() or passed > LEFT_S or (passed > NEWS_S and settled)

    def result(self, now: float) -> TaskResult:
        """What came of it. `named_after` counts from the trouble's beginning; for what only reports show, from the go."""
        reports = tuple(self._report(rank, seen) for rank, seen in enumerate(self._seen))
        if self._trouble is not None:
            accusations = (*self._trouble.accusations, *wrong_data(self.task, reports))
            named_after: float | None = self._named_at - self._trouble.since
        else:
            accusations = (*wrong_data(self.task, reports), *late(self.task, reports))
            named_after = now - (self._went or self._sent)
        return TaskResult(self.task, reports, accusations, self._sent, now, named_after if accusations else None)

    def _stop(self, now: float) -> str:
        self._stopped = now
        return "stop"

    def _ended(self) -> bool:
        return all(seen.ended is not None or seen.lost is not None for seen in self._seen)

    def _is(self, node: str, task: str, rank: int) -> bool:
        return task == self.task.id and rank < len(self._seen) and self._seen[rank].seat.node == node

    def _know(self, rank: int, **what: Any) -> None:
        self._seen[rank] = replace(self._seen[rank], **what)

    def _report(self, rank: int, seen: Seen) -> Report:
        said = self._reports.get(rank, Report(seen.seat, End.CALLED_OFF))
        last = seen.progress if said.last == Progress() else replace(seen.progress, iteration=said.last.iteration, phase=said.last.phase)
        if seen.done:
            return replace(said, last=last, code=seen.code if seen.signal is None else seen.signal)
        failed = seen.failed
        if failed is None or (self._stopped is not None and failed > self._stopped):
            never = seen.joined is None and seen.heard is None and failed is None
            return replace(said, end=End.NEVER if never else End.CALLED_OFF, last=last)
        if seen.lost is not None and seen.ended is None and seen.reported is None:
            return replace(said, end=End.LOST, error=seen.lost_why, last=last)
        if seen.signal is not None:
            return replace(said, end=End.SIGNAL, code=seen.signal, error=said.error or seen.said, last=last)
        end = End.RAISED if seen.raised is not None else End.EXIT
        return replace(said, end=end, code=seen.code, error=said.error or seen.said, last=last)
