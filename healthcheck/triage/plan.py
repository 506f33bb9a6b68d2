"""The plan: what triage would do now, in the order in which it would; `--apply` does exactly this."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial

from healthcheck.model.faultkind import Isolation
from healthcheck.model.outcome import NodeState
from healthcheck.model.problem import Problem
from healthcheck.model.verdict import MACHINE, Incident, IncidentEnd, Verdict
from healthcheck.store.accused import lasts
from healthcheck.store.machines import AnotherMachine
from healthcheck.triage.breaker import NOWHERE, Breaker, Place
from healthcheck.triage.changed import ChangeIndex, came_with, went_with
from healthcheck.triage.decide import decide
from healthcheck.triage.fabricincidents import owed
from healthcheck.triage.incidents import live
from healthcheck.triage.past import FleetHistory, NodeHistory, VersionChange
from healthcheck.triage.policy import TriagePolicy
from healthcheck.triage.requalify import unproven_machine
from inventory.times import minute


class Act(Enum):
    """What a step does."""

    ISOLATE = "isolate"
    RELEASE = "release"


@dataclass(frozen=True)
class PlannedAction:
    """One action on one node. `backend` is set for a release: where our cordon `cordon` is held. `place` is
    that of the incident in whose name a node is isolated."""

    act: Act
    node: str
    why: str
    verdict: Verdict
    reserve: bool = False
    backend: str = ""
    cordon: int = 0
    place: Place = NOWHERE


@dataclass(frozen=True)
class Withheld:
    """A step that is not taken, and why. `by_breaker`: it would be taken if there were room. `fault` is what
    an isolation is for, and `incident` the number of that in whose name, 0 for none."""

    act: Act
    node: str
    why: str
    by_breaker: bool = False
    fault: str = ""
    incident: int = 0


@dataclass(frozen=True)
class HeldBack:
    """What silences hold back on one node: the problems there that are silenced now, and the verdict that
    would isolate it without the silences, None where none would."""

    node: str
    problems: tuple[Problem, ...]
    verdict: Verdict | None = None


@dataclass(frozen=True)
class InWindow:
    """A change window that there is now: until when, why, and which faults isolate all the same."""

    until: float
    why: str
    but: frozenset[str]


@dataclass(frozen=True)
class TriagePlan:
    """What is decided at `now`. `verdicts` are those with something to say, by node. `opens` and `closes` are
    words on the breaker: why it opens or closes with this plan, empty where it does neither; `is_open` is how
    it stands afterwards.

    `incidents` are those that are open with it, `ends` those that end. `unmeasured` are nodes in service of
    which the newest sweeps cannot say how they are: that there is no step for them says nothing. `held` are
    nodes that a cordon of ours holds already, and `out` those that are not in service, with their lifecycle.
    `held_back` are the nodes with silenced problems. `machines` are those that took a node's name and have
    not been brought up under it. `changes` are those of late of what nodes are judged by, and `only_since`
    the nodes that are held, or would be, for nothing but such a change, with its time.
    """

    now: float
    verdicts: tuple[Verdict, ...]
    incidents: tuple[Incident, ...]
    steps: tuple[PlannedAction, ...]
    withheld: tuple[Withheld, ...]
    opens: str = ""
    closes: str = ""
    is_open: bool = False
    unmeasured: tuple[str, ...] = ()
    ends: tuple[IncidentEnd, ...] = ()
    windows: tuple[InWindow, ...] = ()
    held: frozenset[str] = frozenset()
    out: Mapping[str, str] = field(default_factory=dict)
    held_back: tuple[HeldBack, ...] = ()
    machines: tuple[AnotherMachine, ...] = ()
    changes: tuple[VersionChange, ...] = ()
    only_since: Mapping[str, float] = field(default_factory=dict)

    @property
    def unfit(self) -> tuple[str, ...]:
        """Nodes in service that jobs must keep away from, by their verdicts."""
        return tuple(verdict.node for verdict in self.verdicts
                     if verdict.isolation is not Isolation.NONE and verdict.node not in self.out)

    @property
    def to_end(self) -> tuple[str, ...]:
        """Nodes whose running jobs should end, by their verdicts: those that are isolated or held. Muster
        ends none."""
        kept = self.held | {step.node for step in self.steps}
        return tuple(verdict.node for verdict in self.verdicts
                     if verdict.isolation is Isolation.EVICT and verdict.node in kept)


def make(fleet: FleetHistory, policy: TriagePolicy, at_most: int | None = None) -> TriagePlan:
    """The plan for the fleet as it is: releases first, then isolations by urgency as far as the breaker has
    room, and no more than `at_most` of them; what that number alone withholds opens no breaker."""
    changes = ChangeIndex(fleet.every_change)
    if changes:
        fleet = replace(fleet, nodes=tuple(map(partial(_came, changes, policy), fleet.nodes)))
    life = live(fleet, policy)
    past_of = {past.node: replace(past, shared=life.shared.get(past.node, ()),
                                  excused=life.waived.get(past.node, frozenset())) if past.node in life.shared
               or past.node in life.waived else past for past in fleet.nodes}
    verdicts = [owed(verdict, life.fabric) for past in past_of.values()
                if (verdict := decide(past, policy, fleet.now, life.excused, life.of)) is not None]
    steps: list[PlannedAction] = []
    withheld: list[Withheld] = []
    for verdict in verdicts:
        for cordon in past_of[verdict.node].cordons:
            if cordon.verdict is None or verdict.isolation is not Isolation.NONE:
                continue
            if verdict.proven and not past_of[verdict.node].leased:
                beside = went_with(past_of[verdict.node], changes, cordon.began)
                why = "; ".join(filter(None, (verdict.proven, beside)))
                steps.append(PlannedAction(Act.RELEASE, verdict.node, why, verdict,
                                           backend=cordon.backend, cordon=cordon.id))
            else:
                why = verdict.unproven or past_of[verdict.node].leased
                withheld.append(Withheld(Act.RELEASE, verdict.node, why))
    breaker = Breaker(fleet, policy.breaker, policy.incidents.as_one)
    windows = tuple(InWindow(until, one.why, one.but) for one in policy.windows
                    if (until := one.until(fleet.now)) is not None)
    withheld_of: dict[str, Withheld] = {}
    isolated = 0
    waiting = _wanting(verdicts, past_of, policy)
    order = [verdict.node for verdict in waiting]
    while waiting:
        again: list[Verdict] = []
        before = isolated
        for verdict in waiting:
            past = past_of[verdict.node]
            incident = life.of.get(verdict.incident)
            place = (incident.kind, incident.cause) if incident is not None else NOWHERE
            by_breaker = False
            reserve = any(fault.kind.reserve and fault.isolation is not Isolation.NONE
                          for fault in verdict.faults)
            refused = (past.leased or past.others or _overridden(past, verdict) or _away(verdict)
                       or _stale(verdict, policy, fleet.now) or _later(verdict, windows))
            if not refused and at_most is not None and isolated >= at_most:
                refused = f"--at-most {at_most}: this run isolates no more"
            if not refused:
                # Who has put other machines there made no wrong measurement, which is what it opens for.
                may_open = verdict.fault != MACHINE
                refused = breaker.take(past, reserve=reserve, place=place, may_open=may_open)
                by_breaker = bool(refused) and may_open
            if refused:
                withheld_of[verdict.node] = Withheld(Act.ISOLATE, verdict.node, refused, by_breaker,
                                                     _first(verdict), verdict.incident)
                again += [verdict] * by_breaker
                continue
            isolated += 1
            withheld_of.pop(verdict.node, None)
            why = verdict.why if verdict.incident else f"{verdict.fault}: {verdict.why}"
            if unseen := _unseen(past, verdict):
                what = " of ".join(filter(None, (unseen[0].rule, unseen[0].subject)))
                why += f"; {what or 'that it is not reached'} is new since it was given back by hand"
            steps.append(PlannedAction(Act.ISOLATE, verdict.node, why, verdict, reserve=reserve, place=place))
        # Which place goes beside may have changed, and with it what counts inside a domain:
        # the next plan would find that room.
        waiting = again if isolated > before else []
    withheld += [withheld_of[node] for node in order if node in withheld_of]
    return TriagePlan(fleet.now, tuple(verdicts), life.incidents, tuple(steps), tuple(withheld),
                      breaker.opens, breaker.closes, breaker.is_open,
                      tuple(past.node for past in fleet.nodes if past.in_service
                            and not _measured(past, policy, fleet.now)), life.ends,
                      windows, frozenset(past.node for past in fleet.nodes if past.cordons),
                      {past.node: past.lifecycle for past in fleet.nodes if not past.in_service},
                      tuple(_held_back(past, policy, fleet.now) for past in past_of.values()
                            if past.hidden.problems),
                      tuple(one for past in fleet.nodes
                            if (one := unproven_machine(past, policy, fleet.now)) is not None),
                      tuple(one for one in fleet.every_change
                            if fleet.now - one.began <= policy.fresh_hours * 3600),
                      _only_since(verdicts, past_of))


def _held_back(past: NodeHistory, policy: TriagePolicy, now: float) -> HeldBack:
    """What is silenced, and what it would come to: its own faults, before any incident."""
    heard = decide(past, policy, now)
    would = decide(past.unsilenced, policy, now)
    worse = (would is not None and would.isolation is not Isolation.NONE
             and (heard is None or heard.isolation is Isolation.NONE))
    return HeldBack(past.node, past.hidden.problems, would if worse else None)


def _only_since(verdicts: Iterable[Verdict], past_of: Mapping[str, NodeHistory]) -> Mapping[str, float]:
    """The nodes that jobs keep away from for nothing but what came with a change, and when it was."""
    found = {}
    for verdict in verdicts:
        came = past_of[verdict.node].came
        causes = [came.get(problem) for fault in verdict.faults if fault.isolation is not Isolation.NONE
                  for problem in fault.problems]
        known = [cause.began for cause in causes if cause is not None and cause.exact]
        if known and len(known) == len(causes):
            found[verdict.node] = min(known)
    return found


def _came(changes: ChangeIndex, policy: TriagePolicy, past: NodeHistory) -> NodeHistory:
    """The node with what is there only since a change."""
    came = came_with(past, changes, policy)
    return replace(past, came=came) if came else past


def _measured(past: NodeHistory, policy: TriagePolicy, now: float) -> bool:
    return past.state not in ("", NodeState.UNKNOWN.value) and now - past.seen <= policy.fresh_hours * 3600


def _wanting(
    verdicts: Iterable[Verdict], past_of: Mapping[str, NodeHistory], policy: TriagePolicy,
) -> list[Verdict]:
    """Those to be isolated that nothing of ours holds yet, the most urgent first."""
    rank = {kind.id: number for number, kind in enumerate(policy.kinds)} | {MACHINE: len(policy.kinds)}
    return sorted(
        (verdict for verdict in verdicts
         if verdict.isolation is not Isolation.NONE and past_of[verdict.node].in_service
         and not past_of[verdict.node].cordons),
        key=lambda verdict: (rank.get(_first(verdict), -1),
                             min((fault.began for fault in verdict.faults), default=0.0), verdict.node))


def _first(verdict: Verdict) -> str:
    """The fault that it is for; in an incident's name, the worst that the incident made of the node."""
    return verdict.faults[0].kind.id if verdict.incident and verdict.faults else verdict.fault


def _overridden(past: NodeHistory, verdict: Verdict) -> str:
    """Who released the node by hand; it applies only to the current verdict, and to nothing that is new in it
    since then."""
    held = past.verdict
    if held is not None and (held.fault, held.isolation, held.incident) != (
            verdict.fault, verdict.isolation, verdict.incident):
        return ""
    return "" if _unseen(past, verdict) else past.overridden


def _unseen(past: NodeHistory, verdict: Verdict) -> list[Problem]:
    """What isolates now and was not there, nor before, when a person gave the node back."""
    if verdict.incident:
        return []       # it was given back against all that the incident is
    known: dict[tuple[str, str], set[str | None]] = defaultdict(set)
    for problem in (*past.unsilenced.problems, *past.unsilenced.over):
        if problem.began <= past.overridden_at:
            known[problem.rule, problem.subject].add(problem.serial)

    def was_seen(problem: Problem) -> bool:
        serials = known[problem.rule, problem.subject]
        # A part whose serial number was not read, now or then, may be the one that they have seen.
        return bool(serials) and (problem.serial is None or None in serials or problem.serial in serials)

    return [problem for fault in verdict.faults if fault.isolation is not Isolation.NONE
            for problem in fault.problems if not was_seen(problem)]


def _later(verdict: Verdict, windows: Iterable[InWindow]) -> str:
    """The change window that withholds it, of several the one that ends last; empty where none does."""
    wanted = {fault.kind.id for fault in verdict.faults if fault.isolation is not Isolation.NONE}
    found = max((one for one in windows if not wanted & one.but), key=lambda one: one.until, default=None)
    return f"a change window until {minute(found.until)}: {found.why}" if found is not None else ""


def _away(verdict: Verdict) -> str:
    """Why nothing new is done about what flaps and is away: it holds a node that is held, and takes none."""
    isolating = [fault for fault in verdict.faults if fault.isolation is not Isolation.NONE]
    if verdict.fault not in {fault.kind.id for fault in isolating} or any(
            problem.ended is None for fault in isolating for problem in fault.problems):
        return ""       # it is for an RMA or an incident, or for what is there
    return f"{isolating[0].kind.id} flaps and is away now: it is isolated when it comes back"


def _stale(verdict: Verdict, policy: TriagePolicy, now: float) -> str:
    """Why nothing new is done: no sweep has seen it for long."""
    found = [problem for fault in verdict.faults if fault.isolation is not Isolation.NONE
             for problem in fault.problems]
    if any(lasts(problem.rule) for problem in found):
        return ""
    seen = [problem.seen for problem in found]
    if not seen or now - max(seen) <= policy.fresh_hours * 3600:
        return ""
    return f"no sweep has looked for {(now - max(seen)) / 3600:.0f} h: muster check {verdict.node} --store"
