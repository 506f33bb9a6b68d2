"""Adds to each finding how many nodes of the sweep have it: one node alone is a fault of its own, many are
one event.

For rules whose check asks for it (`check(..., peers=True)`): a finding's subject is then what nodes have in
common.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from healthcheck.model.outcome import Finding, Result, Status

_MANY_NODES = 3
_MANY = 0.1     # of the nodes that were judged


def with_node_counts(results: Mapping[str, Result]) -> dict[str, Result]:
    """Of one rule's results by node those with findings, each finding with the number of nodes that have it.

    Where at least 3 nodes and a tenth of all have it, each gets the same text, with what the first node
    observed.
    """
    judged = sum(result.status in (Status.PASS, Status.FAIL) for result in results.values())
    if judged < 2:
        return {}
    nodes: defaultdict[str, list[str]] = defaultdict(list)
    first: dict[str, Finding] = {}
    for node, result in results.items():
        for finding in result.findings:
            nodes[finding.subject].append(node)
            first.setdefault(finding.subject, finding)

    def counted(finding: Finding) -> Finding:
        having = nodes[finding.subject]
        of = f"{len(having)} of {judged} nodes say it"
        if len(having) >= max(_MANY_NODES, _MANY * judged):
            return replace(finding, observed=f"{of} at once; {having[0]}: {first[finding.subject].observed}")
        return replace(finding,
                       observed=f"{finding.observed}; {of if len(having) > 1 else 'no other node says it'}")

    return {node: replace(result, findings=tuple(map(counted, result.findings)))
            for node, result in results.items() if result.findings}
