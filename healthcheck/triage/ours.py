"""What is the matter with many nodes at once is not theirs: the same thing unmeasured,
or one way of not being reached."""

from __future__ import annotations

from collections import defaultdict

from healthcheck.model.faultkind import Of
from healthcheck.model.outcome import Owner, Severity
from healthcheck.model.verdict import Incident
from healthcheck.triage.faults import of
from healthcheck.triage.past import FleetHistory
from healthcheck.triage.policy import TriagePolicy
from healthcheck.triage.symptom import NOT_REACHED, not_measured

OURS = UNREACHED, UNMEASURED = "unreached", "unmeasured"
_SHOWN = 4


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
            why = (f"{share} are not reached: look at the head's own network, a switch, a feed or the keys "
                   "before any node")
            found.append(Incident(UNREACHED, "network, power or access", nodes, why, Owner.OPERATOR,
                                  symptoms=symptoms))
        else:
            named = ", ".join(together[:_SHOWN]) + (f" and {len(together) - _SHOWN} more"
                                                    if len(together) > _SHOWN else "")
            why = (f"{share} cannot measure {named}: a tool, a right or a driver release that they share; "
                   "no node is isolated for it")
            found.append(Incident(UNMEASURED, together[0], nodes, why, Owner.OPERATOR, symptoms=symptoms))
    return found, frozenset(wide)
