"""Which nodes nothing but a change of the rules, the SKU, the policy or muster took from jobs, and which of
them may be given back: what changed is as it was before, and a sweep by that found them fit. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from healthcheck.model.faultkind import Of
from healthcheck.model.outcome import Severity
from healthcheck.model.problem import Problem
from healthcheck.store.verdicts import VerdictEvidence
from healthcheck.store.versions import POLICY
from healthcheck.triage.changed import ChangeIndex, back, failed_before, judges, raises, words
from healthcheck.triage.faults import accuses, of
from healthcheck.triage.past import FleetHistory, NodeHistory, OpenCordon, VersionChange
from healthcheck.triage.plan import Act, PlannedAction, TriagePlan, Withheld
from healthcheck.triage.policy import TriagePolicy
from healthcheck.triage.requalify import FIT, unproven_machine
from inventory.times import minute

_Chains = Mapping[tuple[str, str], Sequence[VersionChange]]
_NONE = VerdictEvidence("", ())


@dataclass(frozen=True)
class _Cause:
    """A problem for which a node is held, and what changed that explains it; empty where nothing does."""

    problem: Problem
    changes: tuple[Sequence[VersionChange], ...]


def undo(
    fleet: FleetHistory, policy: TriagePolicy, plan: TriagePlan, changes: Iterable[VersionChange],
    since: float, evidence: Mapping[int, VerdictEvidence],
) -> TriagePlan:
    """The plan with these steps alone: it gives back what triage took from jobs since then for nothing but
    what has changed since. `changes` are all of them, and `evidence` is what each verdict rested on, by its
    number.

    A node is given back where all that changed is again what it was, its fault was seen to be over by that,
    and its newest sweep, since, found it fit.
    """
    chains: dict[tuple[str, str], list[VersionChange]] = defaultdict(list)
    for change in sorted(changes, key=lambda one: one.began):
        chains[change.kind, change.name].append(change)
    index = ChangeIndex(fleet.every_change)
    verdicts = {verdict.node: verdict for verdict in plan.verdicts}
    steps: list[PlannedAction] = []
    withheld: list[Withheld] = []
    for past in fleet.nodes:
        for cordon in past.cordons:
            if cordon.verdict is None or cordon.began < since or past.node not in verdicts:
                continue
            causes = _causes(past, cordon, chains, policy, evidence.get(cordon.verdict, _NONE), index)
            if why := _kept(past, cordon, causes, chains, policy, fleet.now, since):
                withheld.append(Withheld(Act.RELEASE, past.node, why))
                continue
            only = "; ".join(dict.fromkeys(words(chain[0]) for cause in causes for chain in cause.changes))
            why = (f"nothing but {only} held it; that is as it was before {minute(since)}, and the sweep of "
                   f"{minute(past.seen)} found it {past.state}")
            steps.append(PlannedAction(Act.RELEASE, past.node, why, verdicts[past.node],
                                       backend=cordon.backend, cordon=cordon.id))
    return replace(plan, steps=tuple(steps), withheld=tuple(withheld), opens="", closes="",
                   is_open=fleet.open_since is not None,
                   changes=tuple(change for chain in chains.values() for change in chain))


def _causes(
    past: NodeHistory, cordon: OpenCordon, chains: _Chains, policy: TriagePolicy, evidence: VerdictEvidence,
    index: ChangeIndex,
) -> list[_Cause]:
    """What the node is held for, as far as it is stored."""
    there = [problem for problem in (*past.problems, *past.over)
             if problem.ended is None or problem.ended >= cordon.began]
    found = [_Cause(problem, _explaining(past, problem, chains, policy, index))
             for problem in there if accuses(problem, policy)]
    # What counts for less again does not accuse the node any more.
    for problem in there:
        lines = {fault for fault, rule, subject in evidence.lines
                 if (rule, subject) == (problem.rule, problem.subject)}
        if lines and not accuses(problem, policy):
            lowered = tuple(chain for key, chain in chains.items()
                            if (key == ("rule", problem.rule) and _was_worse(chain, problem))
                            or (key[0] == POLICY and key[1] in lines))
            if lowered or evidence.fault in lines:
                found.append(_Cause(problem, lowered))
    return found


def _was_worse(chain: Sequence[VersionChange], problem: Problem) -> bool:
    order = [one.value for one in (Severity.INFO, Severity.WARNING, Severity.CRITICAL)]
    return any(change.says.get("severity") in order[order.index(problem.severity) + 1:] for change in chain)


def _explaining(
    past: NodeHistory, problem: Problem, chains: _Chains, policy: TriagePolicy, index: ChangeIndex,
) -> tuple[Sequence[VersionChange], ...]:
    """The changes that explain a problem: those of its own rule, or of what that takes, before all others."""
    found = [chain for chain in chains.values()
             if (chain[0].kind != "sku" or past.sku in ("", chain[0].name))
             and (any(raises(change, problem, policy) for change in chain)
                  or (of(problem) is Of.FAIL and judges(chain[0], problem.rule)
                      and problem.began >= chain[0].began
                      and not failed_before(past, problem.rule, chain[0], policy, index)))]
    return tuple([chain for chain in found if chain[0].exact] or found)


def _kept(
    past: NodeHistory, cordon: OpenCordon, causes: Sequence[_Cause], chains: _Chains, policy: TriagePolicy,
    now: float, since: float,
) -> str:
    """Why the node is not given back; empty where it may be."""
    if refused := past.away or past.leased or past.others or (
            "" if past.in_service else f"its lifecycle is {past.lifecycle}"):
        return refused
    if unproven_machine(past, policy, now) is not None:
        return (f"another machine has its name, and no clean looks have proven it: {_check(past)} --profile "
                f"{policy.requalify.profile}")
    if not causes:
        return f"nothing that changed since {minute(since)} explains why it is held"
    if own := [cause.problem for cause in causes if not cause.changes]:
        return f"it is not held for a change alone: {_what(own[0])}"
    mine = [chain for cause in causes for chain in cause.changes]
    if still := [chain for chain in mine if not back(chain[0], chain[-1])]:
        return (f"{words(still[0][-1])} holds still: put back what held before {minute(since)}, then: "
                f"{_check(past)}")
    # A rule that is only judged since then found nothing.
    if other := [chain for chain in chains.values() if chain[0].kind != POLICY
                 and (chain[0].kind != "sku" or past.sku in ("", chain[0].name))
                 and chain[0].before is not None and not back(chain[0], chain[-1])]:
        return (f"{words(other[0][-1])} changed, too, since {minute(since)}, so that no sweep is by what "
                f"held before: put that back, take a later time, or have it looked at twice: {_check(past)} "
                f"--profile {policy.requalify.profile}")
    if any(accuses(problem, policy) for problem in past.problems):
        return f"no sweep by what held before has found it well: {_check(past)}"
    if past.silenced:
        return "only silenced problems may be left: end the silence, or muster uncordon it"
    last = max((chain[-1].began for chain in mine if chain[0].kind != POLICY), default=0.0)
    if unproven := [cause.problem for cause in causes if (
            cause.problem.ended if cause.problem.ended is not None else cause.problem.seen) < last]:
        return (f"{unproven[0].rule} was over before that was put back: it returns by clean looks alone: "
                f"{_check(past)} --profile {policy.requalify.profile}")
    if (past.state not in FIT or past.seen < max(last, cordon.began) or past.seen > now
            or now - past.seen > policy.fresh_hours * 3600):
        return f"no fresh sweep has found it fit since: {_check(past)}"
    return ""


def _what(problem: Problem) -> str:
    return f"{problem.rule or 'not reached'}{f' of {problem.subject}' if problem.subject else ''}"


def _check(past: NodeHistory) -> str:
    return f"muster check {past.node} --store"


def held_for(fleet: FleetHistory) -> list[int]:
    """The numbers of the verdicts in whose name nodes are held."""
    return [cordon.verdict for past in fleet.nodes for cordon in past.cordons if cordon.verdict is not None]
