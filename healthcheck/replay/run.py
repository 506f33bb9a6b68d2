"""Runs a policy over a record, moment by moment: what it would have done, with its own cordons, verdicts, breaker and incidents carried on.

It is as if triage had run at the end of every sweep. The moments are those after which something of what is known had changed; at each,
those nodes are decided on of which something changed, is wrong, or is held. Repairs, boots, exchanged parts and people's words are as they
were in truth.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from healthcheck.replay.incidents import Incidents
from healthcheck.replay.rebuild import Rebuilt, window
from healthcheck.replay.record import Deed, Record
from healthcheck.triage.faults import accuses
from healthcheck.triage.gather import domains, ports
from healthcheck.triage.past import Fleet, Isolated, OpenCordon, OpenVerdict, Past
from healthcheck.triage.plan import Act, Plan, make
from healthcheck.triage.policy import Isolation, Policy
from inventory.model import Node

BACKEND = "replay"
BY_HAND = "a person gave it back"


@dataclass(frozen=True)
class Hold:
    """A node that was kept from jobs, or would have been; `ended` is None while it is, `back` why it came back."""

    node: str
    began: float
    ended: float | None
    why: str
    back: str = ""


@dataclass(frozen=True)
class Imagined:
    """What the policy would have done: isolations, when the breaker opened and why, how many isolations it then held back, and at how many
    moments the policy was asked."""

    holds: tuple[Hold, ...]
    openings: tuple[tuple[float, str], ...]
    withheld: int
    moments: int


def run(
    record: Record, nodes: Iterable[Node], policy: Policy, since: float, now: float, close_after: float | None = None,
) -> Imagined:
    """What this policy would have done from `since` to `now`, beginning with what was held and decided then. Somebody closes a breaker
    that it opens after so many seconds; None: only those who closed the true one."""
    replay = _Replay(record, list(nodes), policy, since, close_after)
    return replay.until(now)


class _Replay:
    """The state of things that are only imagined."""

    def __init__(self, record: Record, nodes: list[Node], policy: Policy, since: float, close_after: float | None) -> None:
        self._record, self._policy = record, policy
        self._rebuilt = Rebuilt(record, policy)
        self._nodes = {node.name: node for node in nodes}
        self._plain = {node.name: Past(node.name, node.in_service, node.lifecycle.state.value, domains=domains(node), ports=ports(node),
                                       versions=record.versions.get(node.name, {})) for node in nodes}
        self._since = self._last = since
        self._close_after = close_after
        self._ours: dict[str, OpenCordon] = {}
        self._verdicts = {name: verdict for name, found in record.verdicts.items() for verdict, ended in found
                          if verdict.began <= since and (ended is None or ended > since)}
        self._number = 1 + max((verdict.id for found in record.verdicts.values() for verdict, _ in found), default=0)
        self._overridden: dict[str, tuple[int, str]] = {}
        self._isolated: list[Isolated] = []
        self._open: tuple[float, str] | None = None
        self._incidents = Incidents(record, since)
        self._sick: set[str] = set()
        self._holds: list[Hold] = []
        self._openings: list[tuple[float, str]] = []
        self._withheld: set[tuple[str, float]] = set()
        self._begin()

    def _begin(self) -> None:
        """What was so when the replay begins."""
        for name, deeds in self._record.deeds.items():
            for deed in deeds:
                if not deed.by_triage or deed.began > self._since:
                    continue
                self._isolated.append(Isolated(name, deed.began, deed.incident))
                held = self._verdicts.get(name)
                if held is not None and deed.verdict == held.id and not deed.holds(self._since) and not deed.back_by_triage:
                    self._overridden[name] = (held.id, f"{BY_HAND}, against muster#{deed.id}")
                if name in self._nodes and deed.holds(self._since):
                    self._ours[name] = OpenCordon(deed.id, BACKEND, deed.why, deed.began, held.id if held is not None else 0)
        for one in self._record.breaker:
            if one.by_person and one.closed is not None and one.closed <= self._since:
                self._isolated = [each for each in self._isolated if each.time > one.closed]
            if one.opened <= self._since and (one.closed is None or one.closed > self._since):
                self._open = (one.opened, one.why)
        self._isolated.sort(key=lambda one: one.time)

    def until(self, now: float) -> Imagined:
        """Everything, from the beginning to then."""
        due = self._moments(now)
        times = list(due)
        heapq.heapify(times)
        asked = 0
        sweeps = self._record.sweeps
        while times:
            time = heapq.heappop(times)
            self._people(time)
            again = self._decide(time, due.pop(time) | self._sick | self._ours.keys())
            asked += 1
            later = sweeps.ends[at] if (at := sweeps.until(time)) < len(sweeps.ends) else None
            if again and later is not None and later <= now and later not in due:
                due[later] = set()
                heapq.heappush(times, later)
            self._last = time
        left = [Hold(name, cordon.began, None, cordon.why) for name, cordon in self._ours.items()]
        holds = sorted([*self._holds, *left], key=lambda hold: (hold.began, hold.node))
        return Imagined(tuple(holds), tuple(self._openings), len(self._withheld), asked)

    def _moments(self, now: float) -> dict[float, set[str]]:
        """By time the nodes of which something is known that was not before; each is looked at for as many sweeps more as may matter."""
        due: dict[float, set[str]] = defaultdict(set)
        more = max([self._policy.wedged, self._policy.requalify.sweeps, *(kind.confirm for kind in self._policy.kinds)])
        sweeps = self._record.sweeps
        start = sweeps.next(math.nextafter(self._since, math.inf))
        if start is not None and start <= now:
            due[start] |= self._nodes.keys() & self._record.problems.keys()
        for name, stored in changes(self._record).items():
            if name not in self._nodes:
                continue
            for time in {end for one in stored if (end := sweeps.next(sweeps.known(one))) is not None}:
                at = bisect_left(sweeps.ends, time)
                for when in (time, *sweeps.ends[at:at + more]):
                    if self._since < when <= now:
                        due[when].add(name)
        for closed in (*(one.closed for one in self._record.breaker if one.by_person), *(one.ended for one in self._record.closings)):
            end = sweeps.next(closed) if closed is not None else None
            if end is not None and self._since < end <= now:
                due[end] |= set()
        return due

    def _people(self, now: float) -> None:
        """What people did since the last moment against what triage decided, or about the breaker and incidents."""
        for name, cordon in list(self._ours.items()):
            for deed in self._record.deeds.get(name, ()):
                if deed.by_triage and not deed.back_by_triage and deed.ended is not None and self._last < deed.ended <= now:
                    self._release(name, cordon, deed.ended, BY_HAND)
                    held = self._verdicts.get(name)
                    self._overridden[name] = (held.id if held is not None else 0, f"{BY_HAND}, against muster#{deed.id}")
                    break
        for one in self._record.breaker:
            if self._open is not None and one.by_person and one.closed is not None and self._last < one.closed <= now:
                self._open, self._isolated = None, []
        if self._open is not None and self._close_after is not None and now - self._open[0] >= self._close_after:
            self._open, self._isolated = None, []
        self._incidents.people(self._last, now)

    def _release(self, name: str, cordon: OpenCordon, now: float, why: str) -> None:
        self._holds.append(Hold(name, cordon.began, now, cordon.why, why))
        del self._ours[name]

    def _decide(self, now: float, due: set[str]) -> bool:
        """Asks the policy about these nodes, and takes its word for done; true where it would do more if asked again."""
        due = {name for name in due | self._incidents.nodes() | {
            name for name, verdict in self._verdicts.items() if verdict.isolation is not Isolation.NONE} if name in self._nodes}
        seen = {name: self._past(name, now) for name in due}
        self._sick = {name for name, past in seen.items() if any(accuses(problem, self._policy) for problem in past.problems)}
        known, number = self._incidents.known(now, max(window(self._policy), self._policy.incidents.reopen_days * 86400))
        self._isolated = [one for one in self._isolated if one.time > now - self._policy.breaker.hours * 3600]
        first = self._record.sweeps.first
        since, why = self._open or (None, "")
        fleet = Fleet(now, tuple((self._plain | seen).values()), tuple(self._isolated), since, why,
                      max(now - window(self._policy), first) if first is not None else now, known, number)
        plan = make(fleet, self._policy)
        self._take(plan, due)
        return any(one.by_breaker for one in plan.withheld) and not plan.is_open

    def _past(self, name: str, now: float) -> Past:
        theirs = tuple(OpenCordon(deed.id, deed.backend, deed.why, deed.began, None) for deed in self._record.deeds.get(name, ())
                       if not deed.by_triage and deed.holds(now))
        ours = (self._ours[name],) if name in self._ours else ()
        verdict = self._verdicts.get(name)
        of, words = self._overridden.get(name, (0, ""))
        overridden = words if verdict is not None and verdict.id == of else ""
        return self._rebuilt.past(self._nodes[name], now, (*theirs, *ours), verdict, overridden)

    def _take(self, plan: Plan, due: set[str]) -> None:
        """What the plan says is done at once, and remembered as the store would."""
        self._incidents.take(plan)
        said = {verdict.node: verdict for verdict in plan.verdicts}
        for name in due:
            held = self._verdicts.pop(name, None)
            if (verdict := said.get(name)) is None:
                continue
            if held is None or (held.fault, held.isolation, held.incident) != (verdict.fault, verdict.isolation, verdict.incident):
                held = OpenVerdict(self._number, verdict.fault, verdict.isolation, plan.now, verdict.incident)
                self._number += 1
                if verdict.isolation is not Isolation.NONE and name in self._ours:
                    self._ours[name] = replace(self._ours[name], verdict=held.id)
            self._verdicts[name] = held
        if plan.closes:
            self._open = None
        if plan.opens:
            self._open = (plan.now, plan.opens)
            self._openings.append(self._open)
        for step in plan.steps:
            if step.act is Act.RELEASE:
                self._release(step.node, self._ours[step.node], plan.now, step.why)
            else:
                self._ours[step.node] = OpenCordon(self._number, BACKEND, step.why, plan.now, self._verdicts[step.node].id)
                self._number += 1
                self._isolated.append(Isolated(step.node, plan.now, step.verdict.incident))
        self._withheld |= {(one.node, self._verdicts[one.node].began) for one in plan.withheld if one.by_breaker}


def changes(record: Record) -> dict[str, list[float]]:
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
    for name, looks in record.looks.items():
        found[name] += [time for time, _, _ in looks]
    for name, repairs in record.repairs.items():
        found[name] += [one.time for one in repairs]
    for name, rmas in record.rmas.items():
        found[name] += [time for rma in rmas for time in (rma.opened, rma.shipped, rma.returned)]
    for name, leases in record.leases.items():
        found[name] += [time for began, ended, _ in leases for time in (began, ended)]
    for name, silences in record.silences.items():
        found[name] += [time for one in silences for time in (one.began, one.until, one.ended)]
    for name, deeds in record.deeds.items():
        found[name] += [time for deed in deeds for time in _deed(deed)]
    return {name: [time for time in times if time is not None] for name, times in found.items()}


def _deed(deed: Deed) -> tuple[float, float | None]:
    return deed.began, deed.ended
