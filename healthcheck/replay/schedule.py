"""The times at which a replay runs its policy: ends of sweeps after a change,
or when time alone changes the result."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable

from healthcheck.replay.record import PastCordon, StoreHistory
from healthcheck.triage.faults import accuses
from healthcheck.triage.policy import TriagePolicy

_HOUR = 3600.0


class ReplaySchedule:
    """The next decision times and their nodes. `asked` counts them."""

    def __init__(self, record: StoreHistory, policy: TriagePolicy, since: float, now: float) -> None:
        self._sweeps = record.sweeps
        self._since, self._now = since, now
        # The sweeps until a fault is confirmed, or a node counts as healthy.
        self._more = max([policy.wedged, policy.requalify.sweeps, *(kind.confirm for kind in policy.kinds)])
        self._due: dict[float, set[str]] = {}
        self._times: list[float] = []
        self.asked = 0
        for name, stored in changes(record).items():
            for end in {end for one in stored
                        if (end := self._sweeps.next(self._sweeps.known(one))) is not None}:
                self._at(end, name)
                self.follow(end, name)
        # A fault that flaps holds, and an incident lasts, until it was away for so long;
        # and coming and going is forgotten.
        spans = [hours * _HOUR
                 for hours in (policy.flap.calm_hours, policy.flap.hours, policy.incidents.calm_hours)]
        for name, rows in record.problems.items():
            for problem in (row.problem for row in rows):
                if accuses(problem, policy):
                    times = [time for time in (problem.began, problem.seen, problem.ended)
                             if time is not None]
                    for end in {self._sweeps.next(math.nextafter(time + span, math.inf)) for time in times
                                for span in spans}:
                        if end is not None:
                            self._at(end, name)
        for closed in (*(one.closed for one in record.breaker if one.by_person),
                       *(one.ended for one in record.closings)):
            if closed is not None and (end := self._sweeps.next(closed)) is not None:
                self._at(end)

    def next(self) -> tuple[float, set[str]] | None:
        """The next time and its nodes; None at the end."""
        if not self._times:
            return None
        time = heapq.heappop(self._times)
        self.asked += 1
        return time, self._due.pop(time)

    def wake(self, time: float, names: Iterable[str]) -> None:
        """These are decided on when the first sweep has ended after that time."""
        end = self._sweeps.next(math.nextafter(time, math.inf))
        if end is not None:
            for name in names:
                self._at(end, name)

    def follow(self, time: float, name: str) -> None:
        """It is decided on after each of the next sweeps that may still matter."""
        at = bisect_left(self._sweeps.ends, time)
        for end in self._sweeps.ends[at:at + self._more + 1]:
            if end > time:
                self._at(end, name)

    def _at(self, end: float, *names: str) -> None:
        if self._since < end <= self._now:
            if end not in self._due:
                self._due[end] = set()
                heapq.heappush(self._times, end)
            self._due[end].update(names)


def changes(record: StoreHistory) -> dict[str, list[float]]:
    """By node the stored times at which something of what is known of it changed."""
    found: dict[str, list[float | None]] = defaultdict(list)
    for name, rows in record.problems.items():
        found[name] += [time for row in rows for time in (row.problem.began, row.problem.ended)]
    for name, seats in record.seats.items():
        found[name] += [time for seat in seats for time in (seat.began, seat.ended)]
    for name, states in record.states.items():
        found[name] += [was.began for was in states]
    for name, boots in record.boots.items():
        found[name] += boots
    for name, snapshots in record.snapshots.items():
        found[name] += [time for time, _, _ in snapshots]
    for name, repairs in record.repairs.items():
        found[name] += [one.time for one in repairs]
    for name, rmas in record.rmas.items():
        found[name] += [time for rma in rmas for time in (rma.opened, rma.shipped, rma.returned)]
    for name, leases in record.leases.items():
        found[name] += [time for began, ended, _ in leases for time in (began, ended)]
    for name, silences in record.silences.items():
        found[name] += [time for one in silences for time in (one.began, one.until, one.ended)]
    for name, cordons in record.cordons.items():
        found[name] += [time for cordon in cordons for time in _ends(cordon)]
    return {name: [time for time in times if time is not None] for name, times in found.items()}


def _ends(cordon: PastCordon) -> tuple[float, float | None]:
    return cordon.began, cordon.ended
