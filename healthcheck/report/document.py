"""The muster.check/1 document: a sweep's results for programs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from healthcheck.model.outcome import Finding, NodeReport, NodeState, Result

SCHEMA = "muster.check/1"


def summary(reports: Iterable[NodeReport]) -> dict[str, int]:
    """How many of the nodes that were visited are in each state, best first; then, if there are any, how many
    were left out, being healthy by their agents."""
    counts = Counter(report.state if report.agent is None else None for report in reports)
    found = {state.value: counts[state]
             for state in (NodeState.HEALTHY, NodeState.DEGRADED, NodeState.UNHEALTHY, NodeState.UNKNOWN)}
    return {**found, "healthy_by_agent": counts[None]} if counts[None] else found


def document(reports: Sequence[NodeReport], *, started: str, finished: str, partial: bool) -> dict[str, Any]:
    """The whole document. `partial` is there, and true, only when the sweep was interrupted."""
    head: dict[str, Any] = {"schema": SCHEMA, "started": started, "finished": finished}
    if partial:
        head["partial"] = True
    return {**head, "summary": summary(reports), "nodes": [node(report) for report in reports]}


def node(report: NodeReport) -> dict[str, Any]:
    """One node of the document. `service` is false for a node that does not count in the exit code.

    `sku` is null if none was named or the node was not reached. `probes` is null for a node that was not
    reached; else how many its rules asked for, and which were not seen without root. `by_agent` is there for
    a node that was left out, which is healthy by its agent alone: when and by what the agent judged, and from
    which target Prometheus has it.
    """
    seen = report.probes
    agent = report.agent
    by_agent = {} if agent is None else {"by_agent": {"at": agent.at, "target": agent.target,
                                                      **vars(agent.basis)}}
    return {
        "node": report.node, "state": report.state.value, "reason": report.reason,
        "service": report.in_service, "sku": report.sku, "probes": None if seen is None else {
            "asked": seen.asked, "captured": seen.captured, "need_root": seen.need_root,
            "denied": list(seen.denied),
        },
        "results": [_result(result) for result in report.results], **by_agent,
    }


def _result(result: Result) -> dict[str, Any]:
    return {
        "rule": result.rule, "check": result.check, "status": result.status.value,
        "severity": result.severity.value, "findings": [_finding(finding) for finding in result.findings],
        "reason": result.reason, "origin": result.origin.value if result.origin else None,
        "remedy": result.remedy, "owner": result.owner.value if result.owner else None,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    """`remedy` and `owner` are present only if they differ from the rule's,
    `lines` and `log` if it was read from a log."""
    document: dict[str, Any] = {"subject": finding.subject, "observed": finding.observed,
                                "expected": finding.expected}
    if finding.remedy:
        document["remedy"] = finding.remedy
    if finding.owner is not None:
        document["owner"] = finding.owner.value
    if finding.repair is not None:
        document["repair"] = finding.repair.value
    if finding.lines:
        document["lines"] = list(finding.lines)
    if finding.log is not None:
        log = finding.log
        document["log"] = {"emitter": log.emitter, "ends": log.ends, "count": log.count, "first_s": log.first,
                           "last_s": log.last}
    return document


def as_json(whole: dict[str, Any]) -> str:
    """One JSON document, indented for people; ASCII, so that no byte from a node can act on a terminal."""
    return json.dumps(whole, indent=1)


def as_jsonl(whole: dict[str, Any]) -> str:
    """One line for each node, and a last line with everything else."""
    head = {key: value for key, value in whole.items() if key != "nodes"}
    return "\n".join(json.dumps(line, separators=(",", ":")) for line in (*whole["nodes"], head))
