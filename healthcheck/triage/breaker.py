"""The breaker: bounds new isolations in nodes, so that a tool that is upset cannot take a cluster down.
It never holds up a release.

In one window at most `limit` nodes are isolated, and beside them those of one physical domain, in the name of
an incident there: at most `as_one`, and a quarter of the nodes in service. It is the domain with most of
them; all others count, whatever explains them. A node that was isolated more than once in it counts once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from healthcheck.triage.past import FleetHistory, NodeHistory
from healthcheck.triage.policy import PHYSICAL, BreakerPolicy
from healthcheck.triage.whole import named
from inventory.text import many

Place = tuple[str, str]
NOWHERE: Place = ("", "")


class Breaker:
    """The remaining room in one plan. `opens` is why it opened in it, or ""; `closes` likewise.

    What was isolated in an incident's name is counted by the place that the incident had then, not by its
    number: incidents that merge, or go by another number, free no room.
    """

    def __init__(self, fleet: FleetHistory, policy: BreakerPolicy, as_one: int = 1) -> None:
        self._policy = policy
        self._serving = fleet.quiet.serving + sum(past.in_service for past in fleet.nodes)
        self.limit = min(policy.number, max(policy.least, int(policy.percent * self._serving / 100)))
        # A limit of one or two would be all reserve.
        self._usual = max(1, self.limit - policy.reserve)
        self._as_one = min(as_one, self._serving // 4)
        self._domains = {past.node: _domains(past) for past in fleet.nodes}
        self._isolated: Mapping[str, Place] = {}
        since = fleet.now - policy.hours * 3600
        for one in fleet.isolated:
            if one.time > since:
                self._isolated = self._with(one.node, one.place)
        self.opens = ""
        self.closes = ""
        self.is_open = fleet.open_since is not None
        if fleet.open_since is not None and policy.close_hours is not None \
                and fleet.now - fleet.open_since >= policy.close_hours * 3600 and self._used() < self._usual:
            self.is_open = False
            self.closes = f"there was room for {policy.close_hours:g} h"

    def take(
        self, past: NodeHistory, *, reserve: bool, place: Place = NOWHERE, may_open: bool = True,
    ) -> str:
        """Takes the room for one node's isolation, in the name of the incident at this place if any; or says
        why there is none, and opens where that is so for all, if it may."""
        now = self._with(past.node, place)
        used, then = self._used(), self._used(now)
        most = self.limit if reserve else self._usual
        if then > used and then > most:
            kept = (f", {self.limit - self._usual} of them for the worst faults" if self.limit > self._usual
                    else "")
            window = f"in {self._policy.hours:g} h{self._beside()}"
            said = (f"{many(used, 'new isolation')} {window}, and {_allowed(self.limit)}{kept} "
                    f"({self._bound()})")
            if not self.is_open and not may_open:
                return f"the breaker has no room: {said}"
            if not self.is_open:
                self.is_open, self.opens = True, said
            return f"the breaker is open: {said}"
        if self.is_open and not reserve:
            return "the breaker is open; when the cause is known: muster triage --close-breaker --reason TEXT"
        for kind, name in _domains(past) if then > used else ():
            bound = self._policy.domains.get(kind)
            if bound is not None and (count := self._counted((kind, name), now)) > bound:
                there = (f"{many(count - 1, 'new isolation')} in {self._policy.hours:g} h in "
                         f"{named(kind, name)}")
                return f"{there}, {_allowed(bound)}: look at it first"
        self._isolated = now
        return ""

    def _with(self, node: str, place: Place) -> Mapping[str, Place]:
        """By node the place in whose name it was isolated, nowhere where there are several; with one more."""
        place = _physical(place)
        return {**self._isolated, node: place if self._isolated.get(node, place) == place else NOWHERE}

    def _used(self, isolated: Mapping[str, Place] | None = None) -> int:
        """How many of these count; of those so far by default."""
        held = self._isolated if isolated is None else isolated
        return len(held) - min(self._as_one, _most(held)[1])

    def _counted(self, domain: Place, isolated: Mapping[str, Place]) -> int:
        """How many of these count in a domain: not those of the one place that goes beside."""
        beside, _ = _most(isolated)
        inside = [place for node, place in isolated.items() if domain in self._domains.get(node, ())]
        return len(inside) - min(self._as_one, inside.count(beside) if beside != NOWHERE else 0)

    def _beside(self) -> str:
        """The one domain that goes beside, in words; empty where there is none."""
        where, count = _most(self._isolated)
        return f" beside {min(count, self._as_one)} in {named(*where)}" if count and self._as_one else ""

    def _bound(self) -> str:
        policy = self._policy
        if self.limit == policy.number:
            return f"breaker.number {policy.number}"
        if self.limit == policy.least:
            return (f"breaker.least {policy.least}, as {policy.percent:g}% of {self._serving} nodes in "
                    "service are fewer")
        return f"breaker.percent {policy.percent:g} of {self._serving} nodes in service"


def _most(isolated: Mapping[str, Place]) -> tuple[Place, int]:
    """The place with most of these nodes, and how many; nowhere and 0 without any."""
    at = Counter(place for place in isolated.values() if place != NOWHERE)
    where = max(at, key=lambda place: (at[place], place), default=NOWHERE)
    return where, at[where]


def _allowed(most: int) -> str:
    return f"at most {most} {'is' if most == 1 else 'are'} allowed"


def _physical(place: Place) -> Place:
    return place if place[0] in PHYSICAL else NOWHERE


def _domains(past: NodeHistory) -> list[Place]:
    return [(kind, name) for kind, names in past.domains.items() for name in names]
