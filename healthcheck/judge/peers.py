"""Tells of findings on how many nodes of a sweep they are: what one node says alone is its own, what many say at once is one event.

For rules whose check asks for it (`check(..., peers=True)`): a finding's subject is then what nodes have in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from healthcheck.model.outcome import Finding, Result, Status

_MANY_NODES = 3
_MANY = 0.1     # of the nodes that were judged


def told(results: Mapping[str, Result]) -> dict[str, Result]:
    """One rule's results by node, in the nodes' order; those that fail say of each finding how many nodes have it.

    What at least 3 nodes and a tenth of all have is told with the same words for each of them, by what the first of them said.
    """
    judged = sum(result.status in (Status.PASS, Status.FAIL) for result in results.values())
    if judged < 2:
        return {}
    on: dict[str, list[str]] = {}
    first: dict[str, Finding] = {}
    for node, result in results.items():
        for finding in result.findings:
            on.setdefault(finding.subject, []).append(node)
            first.setdefault(finding.subject, finding)
    return {node: replace(result, findings=tuple(_said(result.findings, on, first, judged)))
            for node, result in results.items() if result.findings}


def _said(findings: Iterable[Finding], on: Mapping[str, list[str]], first: Mapping[str, Finding], judged: int) -> Iterable[Finding]:
    for finding in findings:
        nodes = on[finding.subject]
        if len(nodes) < max(_MANY_NODES, _MANY * judged):
            peers = "no other node says it" if len(nodes) == 1 else f"{len(nodes)} of {judged} nodes say it"
            yield replace(finding, observed=f"{finding.observed}; {peers}")
        else:
            yield replace(finding, observed=f"{len(nodes)} of {judged} nodes say it at once; {nodes[0]}: {first[finding.subject].observed}")
