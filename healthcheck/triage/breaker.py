"""The breaker: bounds new isolations, so that a tool that is upset cannot take a cluster down. It never holds up a release."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from healthcheck.triage.past import Fleet, Past
from healthcheck.triage.policy import BreakerPolicy


class Breaker:
    """The room that is left in one plan. `opens` says why it opened in it, empty where it did not.

    Up to `as_one` isolations in one incident's name, and a quarter of the nodes in service, are one failure, in all and in each domain.
    """

    def __init__(self, fleet: Fleet, policy: BreakerPolicy, as_one: int = 1) -> None:
        self._policy = policy
        serving = fleet.quiet.serving + sum(past.in_service for past in fleet.nodes)
        self.limit = min(policy.number, max(policy.least, int(policy.percent * serving / 100)))
        since = fleet.now - policy.hours * 3600
        self._as_one = min(as_one, max(1, serving // 4))
        self._of: Counter[int] = Counter()
        self._used = 0
        self._domains: Counter[tuple[str, str]] = Counter()
        of = {past.node: past for past in fleet.nodes}
        for one in fleet.isolated:
            if one.time > since:
                self._count(one.incident, _domains(of[one.node]) if one.node in of else ())
        self._serving = serving
        self.opens = ""
        self.closes = ""
        self.is_open = fleet.open_since is not None
        if fleet.open_since is not None and policy.close_hours is not None \
                and fleet.now - fleet.open_since >= policy.close_hours * 3600 and self._used < self.limit:
            self.is_open = False
            self.closes = f"there was room for {policy.close_hours:g} h"

    def take(self, past: Past, *, reserve: bool, incident: int = 0) -> str:
        """Takes the room for one node's isolation; or says why there is none, and opens where that is so for all."""
        window = f"in {self._policy.hours:g} h"
        free = self._free(incident)
        if not free and self._used >= self.limit + (self._policy.reserve if reserve else 0):
            said = f"{self._used} new isolations {window}, and at most {self.limit} are allowed ({self._bound()})"
            if not self.is_open:
                self.is_open, self.opens = True, said
            return f"the breaker is open: {said}" + (f", with its reserve {self.limit + self._policy.reserve}" if reserve else "")
        if self.is_open and not reserve:
            return "the breaker is open; when the cause is known: muster triage --close-breaker --reason TEXT"
        for kind, name in () if free else _domains(past):
            most = self._policy.domains.get(kind)
            if most is not None and self._domains[kind, name] >= most:
                too = f" (incident {incident} is bounded by that, too)" if incident else ""
                said = f"{self._domains[kind, name]} new isolations {window} in {kind} {name}, at most {most} are allowed"
                return f"{said}: look at it first{too}"
        self._count(incident, _domains(past))
        return ""

    def _free(self, incident: int) -> bool:
        """Whether one more in this incident's name is part of a failure that counts already."""
        return bool(incident) and 0 < self._of[incident] < self._as_one

    def _count(self, incident: int, domains: Iterable[tuple[str, str]]) -> None:
        if not self._free(incident):
            self._used += 1
            self._domains.update(domains)
        self._of[incident] += bool(incident)

    def _bound(self) -> str:
        policy = self._policy
        if self.limit == policy.number:
            return f"breaker.number {policy.number}"
        if self.limit == policy.least:
            return f"breaker.least {policy.least}, as {policy.percent:g}% of {self._serving} nodes in service are fewer"
        return f"breaker.percent {policy.percent:g} of {self._serving} nodes in service"


def _domains(past: Past) -> Iterable[tuple[str, str]]:
    return [(kind, name) for kind, names in past.domains.items() for name in names]
