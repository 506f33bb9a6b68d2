"""Makes failures from stored problems: periods in which a node had a problem that the policy isolates for,
each with one cause, the most urgent fault present, and one component, so that counts by either add up.
Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from healthcheck.model.faultkind import FaultKind, Isolation, Of
from healthcheck.model.outcome import Severity
from healthcheck.model.problem import Problem
from healthcheck.triage.changed import ChangeIndex, came_with
from healthcheck.triage.faults import MERELY_NEW, of
from healthcheck.triage.past import NodeHistory
from healthcheck.triage.policy import TriagePolicy
from healthcheck.triage.symptom import symptom

_HOUR = 3600.0
_BEFORE = _HOUR     # an incident is known later than what its nodes show first: sweeps must have confirmed it


@dataclass(frozen=True)
class NodeFailure:
    """One failure of one node; `ended` is None while it lasts. `shared`: its cause is that of an incident,
    and not the node's own; `changed`: it came only with a change of what nodes are judged by, or was over
    when that was put back."""

    node: str
    began: float
    ended: float | None
    cause: str
    component: str
    shared: bool = False
    changed: bool = False


@dataclass(frozen=True)
class IncidentSpan:
    """When these nodes were one incident, of which symptoms (empty: any); `ended` None while they are."""

    nodes: frozenset[str]
    began: float
    ended: float | None
    symptoms: frozenset[str] = frozenset()


def failures(
    problems: Iterable[Problem], policy: TriagePolicy, incidents: Sequence[IncidentSpan] = (),
    changes: ChangeIndex | None = None, skus: Mapping[str, str] = MappingProxyType({}),
) -> list[NodeFailure]:
    """The failures of all nodes, by node and time. What comes back within the
    policy's `repeat.apart_hours` is the same failure. `skus` are what the inventory calls their kind."""
    by_node: dict[str, list[tuple[Problem, FaultKind]]] = defaultdict(list)
    for problem in problems:
        if (kind := counted(problem, policy)) is not None:
            by_node[problem.node].append((problem, kind))
    of_node: dict[str, list[IncidentSpan]] = defaultdict(list)
    for one in incidents:
        for node in one.nodes:
            of_node[node].append(one)
    found = []
    for node in sorted(by_node):
        came = _came(node, [problem for problem, _ in by_node[node]], policy, changes, skus.get(node, ""))
        for group in _apart(by_node[node], policy.repeat.apart_hours * _HOUR):
            failure = _failure(node, group, policy, of_node[node])
            found.append(replace(failure, changed=came.issuperset(problem for problem, _ in group)))
    return found


def _came(node: str, there: Sequence[Problem], policy: TriagePolicy, changes: ChangeIndex | None,
          sku: str) -> frozenset[Problem]:
    """Those that came only with a change, or were over when it was put back."""
    if not changes:
        return frozenset()
    past = NodeHistory(node, problems=tuple(problem for problem in there if problem.ended is None),
                       over=tuple(problem for problem in there if problem.ended is not None), sku=sku)
    return frozenset([*came_with(past, changes, policy),
                      *(problem for problem in there if changes.undid(problem, sku))])


def counted(problem: Problem, policy: TriagePolicy) -> FaultKind | None:
    """The kind of fault that such a problem is of, if the policy isolates for it and enough sweeps saw it."""
    what = of(problem)
    kind = policy.kind(what, problem.rule, Severity(problem.severity)) if what is not None else None
    if kind is None or kind.isolation is Isolation.NONE or problem.rule in MERELY_NEW:
        return None
    return kind if problem.sweeps >= (kind.confirm if what is Of.FAIL else policy.wedged) else None


def component(problem: Problem) -> str:
    """What kind of part it is about: that with the serial number, else by its subject or rule."""
    if problem.kind is not None:
        return problem.kind
    if problem.subject.startswith("GPU"):
        return "gpu"
    return problem.rule.partition("-")[0] or "node"


def _apart(found: list[tuple[Problem, FaultKind]], apart: float) -> Iterable[list[tuple[Problem, FaultKind]]]:
    group: list[tuple[Problem, FaultKind]] = []
    last = float("-inf")
    for problem, kind in sorted(found, key=lambda pair: (pair[0].began, pair[0].rule, pair[0].subject)):
        if group and problem.began - last > apart:
            yield group
            group = []
            last = float("-inf")
        group.append((problem, kind))
        last = max(last, problem.ended if problem.ended is not None else float("inf"))
    yield group


def _failure(
    node: str, group: list[tuple[Problem, FaultKind]], policy: TriagePolicy,
    incidents: Sequence[IncidentSpan],
) -> NodeFailure:
    worst, kind = min(group, key=lambda pair: policy.kinds.index(pair[1]))
    began = group[0][0].began
    ends = [problem.ended for problem, _ in group if problem.ended is not None]
    shared = any(one.began - _BEFORE <= began and (one.ended is None or began <= one.ended)
                 and (not one.symptoms or symptom(worst) in one.symptoms) for one in incidents)
    return NodeFailure(node, began, max(ends) if len(ends) == len(group) else None, kind.id, component(worst),
                       shared)
