"""The policies that are compared: muster's triage, with and without incidents, and two simple ones that
people write first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from simulation.memory import EPOCH, Memory, clock
from simulation.rates import REMEMBERED

from healthcheck.config.rulesfolder import folders
from healthcheck.model.faultkind import Isolation, Of
from healthcheck.model.outcome import Repair, Severity
from healthcheck.model.verdict import IncidentMember, StoredIncident, Verdict
from healthcheck.ruleset.ruleset import load_ruleset
from healthcheck.triage.correlate import KINDS
from healthcheck.triage.past import FleetHistory, Isolated, OpenCordon, OpenVerdict
from healthcheck.triage.plan import Act, TriagePlan, make
from healthcheck.triage.policy import IncidentPolicy, TriagePolicy
from healthcheck.triage.policyload import load_policy

_RUNGS = tuple(Repair)
_RMA = "muster rma open"


@dataclass(frozen=True)
class Deeds:
    """What is to be done with nodes now: isolated, with whether what runs is lost and in which incident's
    name, and given back."""

    isolate: tuple[tuple[int, bool, int], ...]
    release: tuple[int, ...]
    opens: bool = False
    crowded: bool = False


class Deciding(Protocol):
    """A policy. `patience` is how many sweeps must have seen a failure of a rule before a plan can isolate
    for it, `ask` what people are to do to a node that is held, None for nothing yet, and `trusts` whether a
    node comes back as soon as they are done and nothing shows.
    """

    name: str
    trusts: bool

    def patience(self, rule: str) -> int: ...
    def decide(self, now: int) -> Deeds: ...
    def ask(self, node: int) -> Repair | None: ...
    def given_back(self, node: int) -> None: ...
    def close_breaker(self) -> None: ...
    def incidents(self) -> list[StoredIncident] | None: ...


class Simple:
    """Isolates a node as soon as something critical was seen there in so many sweeps in a row; people give it
    back."""

    trusts = True

    def __init__(self, name: str, sweeps: int, memory: Memory, policy: TriagePolicy) -> None:
        self.name = name
        self._sweeps, self._memory, self._policy = sweeps, memory, policy
        self._now = 0
        self._asked: dict[int, list[int]] = {}
        self._held: dict[int, list[str]] = {}       # with the rules for which

    def patience(self, rule: str) -> int:
        """The same for all."""
        return self._sweeps

    def decide(self, now: int) -> Deeds:
        """No breaker, no history, no neighbours."""
        self._now = now
        found = [node for node, here in self._memory.shown.items() if node not in self._held
                 and any(now - shown.began + 1 >= self._sweeps for shown in here.values())]
        self._held.update((node, [rule for rule, _ in self._memory.shown[node]]) for node in found)
        return Deeds(tuple((node, False, 0) for node in found), ())

    def ask(self, node: int) -> Repair | None:
        """What the policy says of such faults by themselves, and one rung more for each visit that people
        remember, up to an inspection."""
        before = [time for time in self._asked.get(node, ()) if self._now - time < REMEMBERED]
        self._asked[node] = [*before, self._now]
        rung = max(_RUNGS.index(_alone(self._policy, rule)) for rule in self._held[node])
        return _RUNGS[max(rung, min(rung + len(before), _RUNGS.index(Repair.INSPECT)))]

    def given_back(self, node: int) -> None:
        """People did it."""
        self._held.pop(node, None)

    def close_breaker(self) -> None:
        """There is none."""

    def incidents(self) -> list[StoredIncident] | None:
        """It knows of none."""
        return None


def _alone(policy: TriagePolicy, rule: str) -> Repair:
    kind = policy.kind(Of.FAIL if rule else Of.UNREACHED, rule, Severity.CRITICAL)
    return policy.asked(kind, rule) if kind is not None else Repair.INSPECT


class Triage:
    """The real plan, over the values that `gather` would read; its verdicts, cordons and incidents are
    remembered as the store would."""

    trusts = False

    def __init__(self, name: str, memory: Memory, policy: TriagePolicy) -> None:
        self.name = name
        self._memory, self._policy = memory, policy
        self._cordons: dict[int, OpenCordon] = {}
        self._verdicts: dict[int, OpenVerdict] = {}
        self._said: dict[int, Verdict] = {}
        self._isolated: list[Isolated] = []
        self._open: tuple[float, str] | None = None
        self._known: dict[int, StoredIncident] = {}
        self._named: set[int] = set()
        self._numbers = 0

    def patience(self, rule: str) -> int:
        """As the kind of fault says, or `wedged` for a node that is not reached."""
        kind = self._policy.kind(Of.FAIL, rule, Severity.CRITICAL) if rule else None
        return kind.confirm if kind is not None else self._policy.wedged

    def decide(self, now: int) -> Deeds:
        """Makes the plan and takes all its steps, which always come to a good end here."""
        time = clock(now)
        self._isolated = [one for one in self._isolated
                          if one.time > time - self._policy.breaker.hours * 3600]
        kept = time - max(self._policy.repeat.days, self._policy.incidents.reopen_days) * 86400
        since, why = self._open if self._open is not None else (None, "")
        fleet = FleetHistory(time, self._memory.pasts(now, self._cordons, self._verdicts),
                             tuple(self._isolated), since, why, max(EPOCH, kept),
                             incidents=tuple(one for one in self._known.values()
                                             if one.ended is None or one.ended >= kept),
                             next_incident=max(self._known, default=0) + 1)
        plan = make(fleet, self._policy)
        self._remember(plan)
        return self._taken(plan, now)

    def _taken(self, plan: TriagePlan, now: int) -> Deeds:
        isolate, release = [], []
        for step in plan.steps:
            node = self._memory.number[step.node]
            if step.act is Act.RELEASE:
                del self._cordons[node]
                release.append(node)
                self._memory.settled(node, now)
            else:
                self._numbers += 1
                self._cordons[node] = OpenCordon(self._numbers, "simulated", step.why, plan.now,
                                                 self._verdicts[node].id)
                self._isolated.append(Isolated(step.node, plan.now, step.verdict.incident, step.place))
                isolate.append((node, step.verdict.isolation is Isolation.EVICT, step.verdict.incident))
        return Deeds(tuple(isolate), tuple(release), bool(plan.opens),
                     any(one.by_breaker for one in plan.withheld))

    def _remember(self, plan: TriagePlan) -> None:
        """As `healthcheck.store.verdicts.write` does."""
        said = {self._memory.number[verdict.node]: verdict for verdict in plan.verdicts}
        for node in self._verdicts.keys() - said.keys():
            del self._verdicts[node]
            self._memory.settled(node, int((plan.now - EPOCH) // 300))
        for node, verdict in said.items():
            held = self._verdicts.get(node)
            if held is None or (held.fault, held.isolation, held.incident) != (
                    verdict.fault, verdict.isolation, verdict.incident):
                self._numbers += 1
                self._verdicts[node] = OpenVerdict(self._numbers, verdict.fault, verdict.isolation, plan.now,
                                                   verdict.incident)
        self._said = said
        if plan.opens:
            self._open = (plan.now, plan.opens)
        if plan.closes:
            self._open = None
        for end in plan.ends:
            if (known := self._known.get(end.id)) is not None:
                gone = _gone(known.members, (), plan.now)
                self._known[end.id] = replace(known, ended=plan.now, by="triage", closed=end.why,
                                              members=gone)
        self._named = {self._memory.number[name] for one in plan.incidents for name in one.nodes}
        for one in plan.incidents:
            before = self._known[one.id].members if one.id in self._known else ()
            members = (*one.members, *_gone(before, {member.node for member in one.members}, plan.now))
            self._known[one.id] = StoredIncident(
                one.id, one.kind, one.cause, one.symptoms, one.owner.value, one.why, one.likelihood,
                one.began, plan.now, tuple(sorted(members, key=lambda member: (member.began, member.node))))

    def ask(self, node: int) -> Repair | None:
        """What the verdict says; nothing while an open incident names the node, or where it has only to show
        that it is well."""
        verdict = self._said.get(node)
        if verdict is None or verdict.incident or node in self._named:
            return None
        if verdict.isolation is Isolation.NONE:
            return Repair.REPLACE if _RMA in verdict.unproven else None
        return verdict.repair

    def given_back(self, node: int) -> None:
        """People leave that to it."""

    def close_breaker(self) -> None:
        """A person has looked: what was isolated until now takes no room any more."""
        self._open = None
        self._isolated.clear()

    def incidents(self) -> list[StoredIncident] | None:
        """All that it found somewhere; None where it does not look for any."""
        if not self._policy.incidents.kinds:
            return None
        return [one for one in self._known.values() if one.kind in KINDS]


def _gone(members: Iterable[IncidentMember], but: Iterable[str], now: float) -> tuple[IncidentMember, ...]:
    return tuple(replace(member, ended=now) if member.ended is None else member for member in members
                 if member.node not in but)


NAMES = ("each at once", "three in a row", "triage, node by node", "triage")


def made(name: str, memory: Memory) -> Deciding:
    """One of them, with the packaged policy."""
    found = folders(None)
    policy = load_policy(found, load_ruleset(found))
    if name in NAMES[:2]:
        return Simple(name, 1 if name == NAMES[0] else 3, memory, policy)
    return Triage(name, memory, policy if name == NAMES[3] else replace(policy, incidents=IncidentPolicy()))
