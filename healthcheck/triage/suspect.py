"""Whether muster is to blame itself: rules that newly fail on many nodes since what judges them,
or the nodes' driver, changed. Pure.

A rule that fails on many nodes from the first sweeps on with another text of it, another SKU, another
baseline or another muster is an incident of muster's (kind `rules`); one that does so where nodes have a new
driver, kernel or firmware is one of that version. Neither isolates a node, and what it answers for accuses
none, until it no longer fails on most of them, what changed changes again, or a person closes the incident.
What failed on a node before accuses it as ever, and so does all that is on a few nodes alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from healthcheck.model.faultkind import Of
from healthcheck.model.outcome import Owner, Severity
from healthcheck.model.problem import Problem
from healthcheck.model.verdict import Incident
from healthcheck.store.versions import POLICY
from healthcheck.triage.changed import ChangeIndex, brings, difference, failed_before, judges, raises
from healthcheck.triage.faults import of
from healthcheck.triage.past import FleetHistory, NodeHistory, VersionChange
from healthcheck.triage.policy import VERSIONS, TriagePolicy
from healthcheck.triage.symptom import symptom
from inventory.times import minute

RULES = "rules"
_SINCE = " since "
_SHOWN = 4
_Failing = Mapping[str, Mapping[str, tuple[NodeHistory, tuple[Problem, ...]]]]


@dataclass(frozen=True)
class _Newly:
    """What a change brought: of the rules that newly fail with it, by rule and node, the problems;
    and how many failed each before. `more` are those that failed before, and count for more since."""

    change: VersionChange
    failing: Mapping[str, Mapping[str, tuple[Problem, ...]]]
    before: Mapping[str, int]
    more: frozenset[str] = frozenset()

    @property
    def nodes(self) -> set[str]:
        """All that show some of it."""
        return {node for nodes in self.failing.values() for node in nodes}


def suspected(kind: str, cause: str) -> bool:
    """Whether an incident of this kind and cause is one of a change, and not of a place."""
    return kind == RULES or (kind in VERSIONS and _SINCE in cause)


def suspects(fleet: FleetHistory, policy: TriagePolicy) -> tuple[list[Incident], dict[str, frozenset[str]]]:
    """Such incidents, and by node the rules whose failing accuses it of nothing."""
    if not fleet.changes and not any(past.changed for past in fleet.nodes):
        return [], {}
    service = fleet.quiet.serving + sum(past.in_service for past in fleet.nodes)
    open_now = {(one.kind, one.place): one for one in fleet.incidents if one.ended is None}
    over = {(one.kind, one.place) for one in fleet.incidents} - open_now.keys()
    found: list[Incident] = []
    waived: dict[str, set[str]] = defaultdict(set)
    failing = _failing(fleet)
    for newly in sorted(_all(fleet, policy, failing),
                        key=lambda each: (-len(each.nodes), each.change.kind, each.change.name)):
        kind = newly.change.kind if newly.change.kind in VERSIONS else RULES
        what = newly.change.digest if kind in VERSIONS else _called(newly.change)
        cause = f"{what}{_SINCE}{minute(newly.change.began)}"
        # Of two changes that explain the same, the one that explains more has answered for it.
        left = {rule: {node: some for node, some in nodes.items() if rule not in waived.get(node, ())}
                for rule, nodes in newly.failing.items()}
        known = open_now.get((kind, cause))
        rules = {rule: nodes for rule, nodes in left.items() if _many(len(nodes), service, policy)
                 or (known is not None and nodes)}
        nodes = sorted({node for each in rules.values() for node in each})
        if not nodes or (kind, cause) in over or (known is not None and 2 * len(nodes) < len(known.members)):
            continue
        for rule, each in rules.items():
            for node in each:
                waived[node].add(rule)
        symptoms = sorted({symptom(problem) for each in rules.values() for some in each.values()
                           for problem in some} - {""})
        why = _words(newly, rules, service)
        found.append(Incident(kind, cause, tuple(nodes), why, Owner.OPERATOR, symptoms=tuple(symptoms)))
    return found, {node: frozenset(rules) for node, rules in waived.items()}


def _failing(fleet: FleetHistory) -> _Failing:
    """By rule and node in service, what fails there."""
    found: dict[str, dict[str, tuple[NodeHistory, tuple[Problem, ...]]]] = defaultdict(dict)
    for past in fleet.nodes:
        if not past.in_service:
            continue
        here: dict[str, list[Problem]] = defaultdict(list)
        for problem in past.problems:
            if of(problem) is Of.FAIL and problem.severity != Severity.INFO.value:
                here[problem.rule].append(problem)
        for rule, problems in here.items():
            found[rule][past.node] = (past, tuple(problems))
    return found


def _all(fleet: FleetHistory, policy: TriagePolicy, failing: _Failing) -> Iterator[_Newly]:
    """What each change brought; that of nodes with the same new version is one change,
    as old as the oldest."""
    every = ChangeIndex(fleet.every_change)
    for change in fleet.changes:
        about = {rule: nodes for rule, nodes in failing.items()
                 if change.kind == POLICY or judges(change, rule)}
        yield _newly(change, about, policy, every, partial(_everywhere, change))
    versions: dict[tuple[str, str], list[VersionChange]] = defaultdict(list)
    for past in fleet.nodes:
        for change in past.changed:
            versions[change.kind, change.digest].append(change)
    for (kind, digest), changes in sorted(versions.items()):
        first = min(changes, key=lambda change: change.began)
        yield _newly(first, failing, policy, every, partial(_there, kind, digest))


def _everywhere(change: VersionChange, past: NodeHistory) -> VersionChange | None:
    return change if change.kind != "sku" or past.sku in ("", change.name) else None


def _there(kind: str, digest: str, past: NodeHistory) -> VersionChange | None:
    return next((change for change in past.changed if (change.kind, change.digest) == (kind, digest)), None)


def _newly(
    change: VersionChange, failing: _Failing, policy: TriagePolicy, every: ChangeIndex,
    on: Callable[[NodeHistory], VersionChange | None],
) -> _Newly:
    """What a change brought; `on` gives it as it came to a node, or nothing where it did not."""
    found: dict[str, dict[str, tuple[Problem, ...]]] = {}
    before: dict[str, int] = {}
    more: set[str] = set()
    for rule, nodes in failing.items():
        there: dict[str, tuple[Problem, ...]] = {}
        old = 0
        for node, (past, problems) in nodes.items():
            if (here := on(past)) is None:
                continue
            new = tuple(problem for problem in problems if raises(here, problem, policy)
                        and brings(here, problem, policy))
            if new:
                more.add(rule)
            if not new and failed_before(past, rule, here, policy, every):
                old += 1
            elif new := new or tuple(problem for problem in problems if judges(here, rule)
                                     and here.began <= problem.began <= here.until):
                there[node] = new
        found[rule], before[rule] = there, old
    return _Newly(change, found, before, frozenset(more))


def _many(nodes: int, service: int, policy: TriagePolicy) -> bool:
    """Whether a rule fails on so many that it is not theirs. A few nodes can really have failed just then."""
    return (nodes >= max(policy.ours.nodes, policy.incidents.at_least)
            and nodes * 100 > policy.ours.percent * service)


def _called(change: VersionChange) -> str:
    return f"{change.kind} {change.name}" if change.kind != "muster" else f"muster {change.digest}"


def _words(newly: _Newly, rules: Mapping[str, Mapping[str, object]], service: int) -> str:
    """What changed when, and what fails since on how many."""
    change = newly.change
    of_nodes = change.kind in VERSIONS
    what = f"{change.kind} {change.digest}" if of_nodes else _called(change)
    how = "" if of_nodes else difference(change)
    changed = (f"{what} is new" if change.before is None
               else f"{what} changed after {minute(change.before)}") + (f" ({how})" if how else "")
    first = f"first sweep with it {minute(change.began)}"
    most = sorted(rules, key=lambda rule: (-len(rules[rule]), rule))
    fails = ", ".join(f"{len(rules[rule])} of {service} nodes in service fail "
                      f"{'it' if rule == change.name else rule} since; before: {newly.before[rule]}"
                      if rule not in newly.more else
                      f"{len(rules[rule])} of {service} nodes in service fail "
                      f"{'it' if rule == change.name else rule}, which counts for more since"
                      for rule in most[:_SHOWN])
    more = f", and {len(most) - _SHOWN} rules more" if len(most) > _SHOWN else ""
    advice = ("look at what changed before any node" if change.kind not in VERSIONS
            else "look at that version before any node")
    return f"{changed}, {first}; {fails}{more}: {advice}; no node is isolated for it"
