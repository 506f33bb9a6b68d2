"""Runs a policy over a record step by step, with its own simulated cordons, verdicts, breaker and incidents.

It is as if triage had run at the end of every sweep. The moments are those after which something of what is
known had changed; at each, those nodes are decided on of which something changed, is wrong, or is held.
Repairs, boots, exchanged parts and people's words are as they were in truth.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from healthcheck.model.faultkind import Isolation
from healthcheck.replay.incidents import Incidents
from healthcheck.replay.rebuild import Rebuilt
from healthcheck.replay.record import StoreHistory
from healthcheck.replay.schedule import ReplaySchedule
from healthcheck.store.versions import OF_NODES, POLICY
from healthcheck.triage.correlate import domains as places
from healthcheck.triage.faults import accuses
from healthcheck.triage.gather import change, domains, ports, shows_until, window
from healthcheck.triage.past import (
    FleetHistory,
    Isolated,
    NodeHistory,
    OpenCordon,
    OpenVerdict,
    Quiet,
    VersionChange,
)
from healthcheck.triage.plan import Act, TriagePlan, make
from healthcheck.triage.policy import TriagePolicy
from inventory.model import Node

BACKEND = "replay"
BY_HAND = "a person gave it back"


@dataclass(frozen=True)
class Hold:
    """A real or simulated isolation; `ended` is None while it lasts, `back` is why the node returned."""

    node: str
    began: float
    ended: float | None
    why: str
    back: str = ""


@dataclass(frozen=True)
class SimulatedRun:
    """What the policy would have done: isolations, when the breaker opened and why, how many isolations it
    then held back, and at how many moments the policy was asked. `wanted` are by node the moments at which it
    called the node unfit for jobs, whoever held it."""

    holds: tuple[Hold, ...]
    openings: tuple[tuple[float, str], ...]
    withheld: int
    moments: int
    wanted: Mapping[str, tuple[float, ...]] = field(default_factory=lambda: MappingProxyType({}))


def run(
    record: StoreHistory, nodes: Iterable[Node], policy: TriagePolicy, since: float, now: float,
    close_after: float | None = None,
) -> SimulatedRun:
    """What this policy would have done from `since` to `now`, beginning with what was held and decided then.
    Someone closes a breaker that it opens after so many seconds; None: only those who closed the true one."""
    replay = _Replay(record, list(nodes), policy, since, close_after)
    return replay.until(now)


class _Replay:
    """The simulated state."""

    def __init__(
        self, record: StoreHistory, nodes: list[Node], policy: TriagePolicy, since: float,
        close_after: float | None,
    ) -> None:
        self._record, self._policy = record, policy
        self._rebuilt = Rebuilt(record, policy)
        self._nodes = {node.name: node for node in nodes}
        self._counted = {node.name: _counted(NodeHistory(node.name, domains=domains(node), ports=ports(node),
                                                         versions=record.versions.get(node.name, {})))
                         for node in nodes if node.in_service}
        self._all = _sum(self._counted.values())
        # Few, and what they show bears witness of their places.
        self._out = {node.name for node in nodes if not node.in_service and node.name in record.states}
        self._since = self._last = since
        self._close_after = close_after
        self._ours: dict[str, OpenCordon] = {}
        self._verdicts = {name: verdict for name, found in record.verdicts.items() for verdict, ended in found
                          if verdict.began <= since and (ended is None or ended > since)}
        self._number = 1 + max((verdict.id for found in record.verdicts.values() for verdict, _ in found),
                               default=0)
        self._overridden: dict[str, tuple[int, str, float]] = {}
        self._isolated: list[Isolated] = []
        self._open: tuple[float, str] | None = None
        self._incidents = Incidents(record, since)
        # The policy is the one that is asked about, all along.
        self._changes = [change(one, (), record.takes) for one in record.held if one.kind != POLICY]
        self._sick: set[str] = set()
        self._holds: list[Hold] = []
        self._openings: list[tuple[float, str]] = []
        self._withheld: set[tuple[str, float]] = set()
        self._wanted: dict[str, list[float]] = defaultdict(list)
        self._begin()

    def _begin(self) -> None:
        """Sets the state at the start of the replay."""
        for name, cordons in self._record.cordons.items():
            for stored in cordons:
                if not stored.by_triage or stored.began > self._since:
                    continue
                self._isolated.append(Isolated(name, stored.began, stored.incident, stored.place))
                held = self._verdicts.get(name)
                if (held is not None and stored.verdict == held.id and not stored.holds(self._since)
                    and not stored.back_by_triage):
                    self._overridden[name] = (held.id, f"{BY_HAND}, against muster#{stored.id}",
                                              stored.ended if stored.ended is not None else self._since)
                if name in self._nodes and stored.holds(self._since):
                    self._ours[name] = OpenCordon(stored.id, BACKEND, stored.why, stored.began,
                                                  held.id if held is not None else 0)
        for one in self._record.breaker:
            if one.by_person and one.closed is not None and one.closed <= self._since:
                self._isolated = [each for each in self._isolated if each.time > one.closed]
            if one.opened <= self._since and (one.closed is None or one.closed > self._since):
                self._open = (one.opened, one.why)
        self._isolated.sort(key=lambda one: one.time)

    def until(self, now: float) -> SimulatedRun:
        """Runs to that time."""
        moments = ReplaySchedule(self._record, self._policy, self._since, now)
        moments.wake(self._since, self._nodes.keys() & (self._record.problems.keys() | self._ours.keys()))
        back: set[str] = set()
        while (moment := moments.next()) is not None:
            time, woken = moment
            self._people(time)
            begun, back = self._decide(time, woken | self._sick | back)
            for name in begun:
                moments.follow(time, name)
            if back and self._open is None:
                moments.wake(time, back)
            self._last = time
        left = [Hold(name, cordon.began, None, cordon.why) for name, cordon in self._ours.items()]
        holds = sorted([*self._holds, *left], key=lambda hold: (hold.began, hold.node))
        return SimulatedRun(tuple(holds), tuple(self._openings), len(self._withheld), moments.asked,
                        {name: tuple(times) for name, times in self._wanted.items()})

    def _people(self, now: float) -> None:
        """What people did since the last moment against what triage decided,
        or about the breaker and incidents."""
        for name, cordon in list(self._ours.items()):
            for stored in self._record.cordons.get(name, ()):
                if (stored.by_triage and not stored.back_by_triage and stored.ended is not None
                    and self._last < stored.ended <= now):
                    self._release(name, cordon, stored.ended, BY_HAND)
                    held = self._verdicts.get(name)
                    self._overridden[name] = (held.id if held is not None else 0,
                                              f"{BY_HAND}, against muster#{stored.id}", stored.ended)
                    break
        for one in self._record.breaker:
            if (self._open is not None and one.by_person and one.closed is not None
                and self._last < one.closed <= now):
                self._open, self._isolated = None, []
        if (self._open is not None and self._close_after is not None
            and now - self._open[0] >= self._close_after):
            self._open, self._isolated = None, []
        self._incidents.people(self._last, now)

    def _release(self, name: str, cordon: OpenCordon, now: float, why: str) -> None:
        self._holds.append(Hold(name, cordon.began, now, cordon.why, why))
        del self._ours[name]

    def _decide(self, now: float, due: set[str]) -> tuple[set[str], set[str]]:
        """Runs the policy for these nodes and applies it at once; returns those that it isolated, and those
        that its breaker held back."""
        broad = self._record.sweeps.broad[:self._record.sweeps.until(now)]
        every = [replace(one, until=shows_until(one.began, broad)) for one in self._changes
                 if one.began <= now]
        changes = [one for one in every if one.holds(now)]
        due = (due | self._out | self._incidents.nodes()
               | {one.node for one in self._isolated}) & self._nodes.keys()
        changed: dict[str, tuple[VersionChange, ...]] = {}
        for one in changes:
            if one.kind in OF_NODES:
                changed[one.name] = (*changed.get(one.name, ()), one)
        seen = {name: replace(self._past(name, now), changed=changed.get(name, ())) for name in due}
        self._sick = {name for name, past in seen.items()
                      if any(accuses(problem, self._policy) for problem in past.problems)}
        known, number = self._incidents.known(
            now, max(window(self._policy), self._policy.incidents.reopen_days * 86400))
        self._isolated = [each for each in self._isolated
                          if each.time > now - self._policy.breaker.hours * 3600]
        first = self._record.sweeps.first
        since, why = self._open or (None, "")
        fleet = FleetHistory(now, tuple(seen.values()), tuple(self._isolated), since, why,
                             max(now - window(self._policy), first) if first is not None else now, known,
                             number, self._quiet(due),
                             tuple(one for one in changes if one.kind not in OF_NODES),
                             tuple(one for one in every if one.kind not in OF_NODES))
        plan = make(fleet, self._policy)
        self._take(plan, due)
        return ({step.node for step in plan.steps if step.act is Act.ISOLATE},
                {one.node for one in plan.withheld if one.by_breaker})

    def _quiet(self, but: set[str]) -> Quiet:
        """All nodes in service but these, as they count."""
        loud = _sum(self._counted[name] for name in but if name in self._counted)
        of_place = {place: size - loud.places.get(place, 0) for place, size in self._all.places.items()}
        return Quiet(self._all.serving - loud.serving, of_place,
                     {rail: size - loud.rails.get(rail, 0) for rail, size in self._all.rails.items()})

    def _past(self, name: str, now: float) -> NodeHistory:
        theirs = tuple(OpenCordon(stored.id, stored.backend, stored.why, stored.began, None)
                       for stored in self._record.cordons.get(name, ())
                       if not stored.by_triage and stored.holds(now))
        ours = (self._ours[name],) if name in self._ours else ()
        verdict = self._verdicts.get(name)
        of, words, at = self._overridden.get(name, (0, "", float("inf")))
        overridden = words if verdict is not None and verdict.id == of else ""
        return self._rebuilt.past(self._nodes[name], now, (*theirs, *ours), verdict, overridden, at)

    def _take(self, plan: TriagePlan, due: set[str]) -> None:
        """What the plan says is done at once, and remembered as the store would."""
        self._incidents.take(plan)
        said = {verdict.node: verdict for verdict in plan.verdicts}
        for name, each in said.items():
            if each.isolation is not Isolation.NONE:
                self._wanted[name].append(plan.now)
        for name in due:
            held = self._verdicts.pop(name, None)
            if (verdict := said.get(name)) is None:
                continue
            if (held is None or (held.fault, held.isolation, held.incident)
                != (verdict.fault, verdict.isolation, verdict.incident)):
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
                self._ours[step.node] = OpenCordon(self._number, BACKEND, step.why, plan.now,
                                                   self._verdicts[step.node].id)
                self._number += 1
                self._isolated.append(Isolated(step.node, plan.now, step.verdict.incident, step.place))
        self._withheld |= {(one.node, self._verdicts[one.node].began) for one in plan.withheld
                           if one.by_breaker}


def _counted(past: NodeHistory) -> Quiet:
    """One node as it counts."""
    return Quiet(1, dict.fromkeys(places(past), 1), Counter(rail for _, rail in past.ports.values() if rail))


def _sum(counted: Iterable[Quiet]) -> Quiet:
    serving = 0
    of_place: Counter[tuple[str, str]] = Counter()
    rails: Counter[str] = Counter()
    for one in counted:
        serving += one.serving
        of_place.update(one.places)
        rails.update(one.rails)
    return Quiet(serving, of_place, rails)
