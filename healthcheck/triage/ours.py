"""What is the matter with many nodes at once is not theirs: the same thing unmeasured,
or one way of not being reached."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from healthcheck.model.faultkind import Of
from healthcheck.model.outcome import Owner, Severity
from healthcheck.model.verdict import Incident
from healthcheck.triage.faults import of
from healthcheck.triage.past import FleetHistory
from healthcheck.triage.policy import TriagePolicy
from healthcheck.triage.symptom import NOT_REACHED, not_measured
from healthcheck.triage.whole import WholePlace, first, listed, title, wholly

OURS = UNREACHED, UNMEASURED = "unreached", "unmeasured"
_SHOWN = 4
SOMEWHERE = "network, power or access"


def ours(fleet: FleetHistory, policy: TriagePolicy) -> tuple[list[Incident], frozenset[str]]:
    """Such incidents, and the rules whose UNKNOWN accuses no node while they last
    ("" stands for nodes that are not reached).

    Rules that the same nodes cannot measure are one incident.
    """
    unmeasured: dict[str, list[str]] = defaultdict(list)
    service = fleet.quiet.serving
    for past in fleet.nodes:
        if not past.in_service:
            continue
        service += 1
        rules = {problem.rule for problem in past.problems
                 if of(problem) in (Of.UNKNOWN, Of.UNREACHED) and problem.severity != Severity.INFO.value}
        for rule in rules:
            unmeasured[rule].append(past.node)
    wide = {rule: tuple(nodes) for rule, nodes in unmeasured.items()
            if len(nodes) >= policy.ours.nodes and len(nodes) * 100 > policy.ours.percent * service}
    by_nodes: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for rule, nodes in sorted(wide.items()):
        by_nodes[nodes].append(rule)
    found = []
    for nodes, together in sorted(by_nodes.items(), key=lambda item: item[1]):
        share = f"{len(nodes)} of {service} nodes in service"
        symptoms = tuple(not_measured(rule) if rule else NOT_REACHED for rule in together)
        if "" in together:
            found.append(replace(_unreached(fleet, nodes, share, policy), symptoms=symptoms))
        else:
            named = ", ".join(together[:_SHOWN]) + (f" and {len(together) - _SHOWN} more"
                                                    if len(together) > _SHOWN else "")
            places = _wholly(fleet, together[0], policy)
            where = f"{listed(places)}: look there first; else " if places else ""
            why = (f"{share} cannot measure {named}: {where}a tool, a right or a driver release that they "
                   "share; no node is isolated for it")
            found.append(Incident(UNMEASURED, together[0], nodes, why, Owner.OPERATOR, symptoms=symptoms))
    return found, frozenset(wide)


def _unreached(fleet: FleetHistory, nodes: tuple[str, ...], share: str, policy: TriagePolicy) -> Incident:
    """One that is called by the places that went as a whole, where there are such, and is their owner's where
    nothing else went."""
    places = _wholly(fleet, "", policy)
    usual = "the head's own network, a switch, a feed or the keys"
    if not places:
        return Incident(UNREACHED, SOMEWHERE, nodes, f"{share} are not reached: look at {usual} before any "
                        "node", Owner.OPERATOR)
    elsewhere = set(nodes).difference(*(one.nodes for one in places))
    more = f", and {len(elsewhere)} elsewhere" if elsewhere else ""
    owner = Owner.OPERATOR if elsewhere else policy.incidents.kinds[first(places).kind].owner
    return Incident(UNREACHED, f"{title(places)}{' and elsewhere' if elsewhere else ''}", nodes,
                    f"{share} are not reached: {listed(places)}{more}: look there first, then at {usual}",
                    owner)


def _wholly(fleet: FleetHistory, rule: str, policy: TriagePolicy) -> list[WholePlace]:
    """The places of which no node, in service or not, measures a rule; "": is reached."""
    began: dict[str, float] = {}
    for past in fleet.nodes:
        there = [problem.began for problem in past.problems
                 if problem.rule == rule and of(problem) in (Of.UNKNOWN, Of.UNREACHED)]
        if there:
            began[past.node] = min(there)
    kinds = policy.incidents.may_cause(Of.UNKNOWN if rule else Of.UNREACHED, rule)
    return wholly(fleet, began, kinds, policy.incidents.window_minutes * 60)
