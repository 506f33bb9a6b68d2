"""For each node with a fault, the step that the policy names, or why there is none. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from healthcheck.model.faultkind import Isolation
from healthcheck.model.outcome import Repair
from healthcheck.model.problem import Problem
from healthcheck.model.verdict import MACHINE, Fault, Verdict
from healthcheck.triage.past import FleetHistory, NodeHistory
from healthcheck.triage.policy import TriagePolicy
from healthcheck.triage.remediation import RemediationStep, Use
from inventory.nodeset import natural
from provisioning.remediate.onnode.table import MODULES
from provisioning.remediate.steps import SPECS, Spec

_RUNGS = tuple(Repair)
# Checks whose findings are each of another unit or module, which is their subject.
NAMING = frozenset({"service.expected", "service.failed", "module.expected"})
Tries = Mapping[tuple[str, RemediationStep], int]


@dataclass(frozen=True)
class PlannedStep:
    """A step on a node: its fault, which rules must pass afterwards, why, and its failure domain; a rule of
    several units stands with the step's: `service-expected@docker`."""

    node: str
    step: RemediationStep
    fault: str
    rules: tuple[str, ...]
    why: str
    domain: str


@dataclass(frozen=True)
class ExcludedNode:
    """A node with a fault for which nothing is done, and why."""

    node: str
    why: str


def choose(
    fleet: FleetHistory, verdicts: Collection[Verdict], policy: TriagePolicy, names: Collection[str],
    tries: Tries, naming: Collection[str], only: RemediationStep | None = None,
) -> tuple[list[PlannedStep], list[ExcludedNode]]:
    """What to do on these nodes, one step each, in the order of their domains; `only` is the one step that a
    person names, which need not be enabled then. `naming` are the rules with a check of NAMING."""
    past_of = {past.node: past for past in fleet.nodes}
    works: list[PlannedStep] = []
    lefts: list[ExcludedNode] = []
    for verdict in verdicts:
        past = past_of.get(verdict.node)
        if past is None or verdict.node not in names:
            continue
        found = _of(verdict, past, policy, tries, naming, only)
        if isinstance(found, PlannedStep) and (refused := _refused(past)):
            found = ExcludedNode(verdict.node, refused)
        if isinstance(found, PlannedStep):
            works.append(found)
        elif found is not None:
            lefts.append(found)
    works.sort(key=lambda work: (natural(work.domain), natural(work.node)))
    return works, lefts


def domain(past: NodeHistory) -> str:
    """The failure domain in which a step may go wrong on all; without one, the node's own."""
    for kind in ("rack", "leaf", "power"):
        if past.domains.get(kind):
            return f"{kind} {past.domains[kind][0]}"
    return f"node {past.node}"


def _refused(past: NodeHistory) -> str:
    if not past.in_service:
        return f"its lifecycle is {past.lifecycle}: muster inventory lifecycle"
    return past.others or past.leased


def _of(verdict: Verdict, past: NodeHistory, policy: TriagePolicy, tries: Tries, naming: Collection[str],
        only: RemediationStep | None) -> PlannedStep | ExcludedNode | None:
    if past.away:
        return ExcludedNode(verdict.node, past.away)
    if verdict.fault == MACHINE:
        return ExcludedNode(verdict.node, verdict.why)
    # What the verdict asks for comes first among equals.
    faults = sorted(verdict.faults, key=lambda fault: (fault.isolation is not verdict.isolation,
                                                       fault.repair is not verdict.repair))
    for fault in faults:
        found = _for(fault, past, policy, tries, naming, only)
        if found is not None and verdict.incident:
            return ExcludedNode(
                verdict.node,
                f"{fault.kind.id}: it is in an incident, which is not repaired node by node: muster triage")
        if found is not None:
            return found
        if fault.isolation is not Isolation.NONE:       # what is lesser can wait until this is repaired
            return _without(fault, past, policy, naming, only)
    asked = [fault for fault in faults if fault.repair is not Repair.WATCH]
    return _without(asked[0], past, policy, naming, only) if asked else None


def _without(fault: Fault, past: NodeHistory, policy: TriagePolicy, naming: Collection[str],
             only: RemediationStep | None) -> ExcludedNode:
    """Why nothing is done about a fault: another step is for it than the one that was named, or none is."""
    step = next((step for step, use in policy.remediation.uses.items()
                 if _is_for(step, use, fault, policy, naming)), None) if only is not None else None
    if only is not None and step is not None:
        return ExcludedNode(past.node,
                            f"{fault.kind.id}: {only.value} is not for it, {step.value} is: muster remediate "
                            f"{past.node} --step {step.value}")
    return ExcludedNode(past.node,
                        f"{fault.kind.id}: there is no step for it; {fault.repair.value}: muster ticket "
                        f"{past.node}")


def _for(fault: Fault, past: NodeHistory, policy: TriagePolicy, tries: Tries, naming: Collection[str],
         only: RemediationStep | None) -> PlannedStep | ExcludedNode | None:
    named = policy.remediation
    for step, use in named.uses.items():
        found = _is_for(step, use, fault, policy, naming)
        if not found or only not in (None, step):
            continue
        if not use.enabled and only is None:
            return ExcludedNode(past.node,
                                f"{fault.kind.id}: {step.value} is for it, and the policy does not enable "
                                f"it: muster remediate {past.node} --step {step.value}")
        if only is None and use.rules is None and fault.isolation is Isolation.NONE:
            return ExcludedNode(past.node,
                                f"{fault.kind.id}: {step.value} is for it, and jobs may run there: muster "
                                f"remediate {past.node} --step {step.value}")
        if tries.get((past.node, step), 0) >= named.attempts:
            times = tries[past.node, step]
            return ExcludedNode(
                past.node,
                f"{fault.kind.id}: inspect: {step.value} was tried {times} times in {named.days:g} days")
        first = found[0]
        rules = tuple(
            sorted({
                one.rule + (f"@{SPECS[step].about}" if one.rule in naming and SPECS[step].about
                            else "") for one in found}))
        message = (f"{first.rule}{f' of {first.subject}' if first.subject else ''}: "
                   f"{first.observed or first.reason}")
        return PlannedStep(past.node, step, fault.kind.id, rules, message, domain(past))
    return None


def _is_for(step: RemediationStep, use: Use, fault: Fault, policy: TriagePolicy,
            naming: Collection[str]) -> list[Problem]:
    """What is wrong that the step is for, which then has to pass; empty where it is not for the fault."""
    spec = SPECS[step]
    if use.faults is not None and fault.kind.id not in use.faults:
        return []
    if use.rules is None:
        asked = [problem for problem in fault.problems if policy.repair(fault.kind, problem) is spec.rung]
        return (asked or list(fault.problems)) if fault.repair is spec.rung else []
    if not _fits(fault, spec):
        return []
    return [problem for problem in fault.problems
            if any(fnmatchcase(problem.rule, glob) for glob in use.rules)
                and (problem.rule not in naming or spec.about in ("", _unit(problem.subject)))]


def _unit(subject: str) -> str:
    """A unit or module as the steps call it: a module's name is written with - as well as with _."""
    name = subject.removesuffix(".service")
    return name.replace("-", "_") if name.replace("-", "_") in MODULES.values() else name


def _fits(fault: Fault, spec: Spec) -> bool:
    """Whether the step is due: a lesser one comes first, unless history or the driver asks for more."""
    if fault.repair is Repair.WATCH:
        return True
    if fault.raised or any(problem.repair for problem in fault.problems):
        return spec.rung is fault.repair
    return _RUNGS.index(spec.rung) <= _RUNGS.index(fault.repair)
