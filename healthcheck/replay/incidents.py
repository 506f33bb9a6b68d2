"""The incidents of a replay: what the store would hold, from one simulated triage to the next."""

from __future__ import annotations

from dataclasses import replace

from healthcheck.model.verdict import StoredIncident
from healthcheck.replay.record import StoreHistory
from healthcheck.store.incidents import TRIAGE
from healthcheck.triage.fabricincidents import of_fabric
from healthcheck.triage.incidents import called
from healthcheck.triage.plan import TriagePlan


class Incidents:
    """The open incidents at the start of the replay, and all later ones."""

    def __init__(self, record: StoreHistory, since: float) -> None:
        self._closings = record.closings
        self._all = {one.id: _then(one, since) for one in record.incidents
                     if one.began <= since and not of_fabric(one)}

    def known(self, now: float, back: float) -> tuple[tuple[StoredIncident, ...], int]:
        """As `healthcheck.store.incidents` gives them: open, or ended within so many seconds;
        and what the next one is called."""
        found = tuple(self._all[number] for number in sorted(self._all)
                      if (ended := self._all[number].ended) is None or ended >= now - back)
        return found, max(self._all, default=0) + 1

    def nodes(self) -> set[str]:
        """The nodes that are in one now."""
        return {member.node for one in self._all.values() if one.ended is None for member in one.members
                if member.ended is None}

    def take(self, plan: TriagePlan) -> None:
        """Applies a plan's incidents, ends first."""
        for end in plan.ends:
            self._end(end.id, plan.now, TRIAGE, end.why)
        for one in plan.incidents:
            before = self._all.get(one.id)
            members = {member.node: member for member in (before.members if before is not None else ())}
            members |= {member.node: replace(member, ended=None) for member in one.members}
            self._all[one.id] = StoredIncident(
                one.id, one.kind, one.cause, one.symptoms, one.owner.value, one.why, one.likelihood,
                before.began if before is not None else one.began, plan.now,
                tuple(sorted(members.values(), key=lambda member: (member.began, member.node))))

    def people(self, last: float, now: float) -> None:
        """Closes what a person closed since the last moment: that of the same place, if there is one."""
        for closed in self._closings:
            if closed.ended is not None and last < closed.ended <= now:
                for one in list(self._all.values()):
                    if one.ended is None and called(one.kind, one.place) == called(closed.kind, closed.place):
                        self._end(one.id, closed.ended, closed.by, closed.closed)

    def _end(self, number: int, now: float, by: str, why: str) -> None:
        if (one := self._all.get(number)) is not None and one.ended is None:
            members = tuple(replace(member, ended=now) if member.ended is None else member
                            for member in one.members)
            self._all[number] = replace(one, ended=now, by=by, closed=why, members=members)


def _then(one: StoredIncident, now: float) -> StoredIncident:
    """An incident as it was known at that time."""
    members = tuple(replace(member, seen=min(member.seen, now),
                            ended=ended if (ended := member.ended) is not None and ended <= now else None)
                    for member in one.members if member.began <= now)
    if one.ended is not None and one.ended <= now:
        return replace(one, members=members)
    return replace(one, ended=None, by="", closed="", seen=min(one.seen, now), members=members)
