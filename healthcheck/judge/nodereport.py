"""What a report says of a node beside its results: why it is what it is, in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from healthcheck.model.outcome import NodeReport, NodeState, Result, Severity, Status
from healthcheck.model.recording import Recording
from inventory.model import Node
from inventory.text import clean

_DECISIVE: Mapping[NodeState, tuple[Status, tuple[Severity, ...]]] = {
    NodeState.UNHEALTHY: (Status.FAIL, (Severity.CRITICAL,)),
    NodeState.UNKNOWN: (Status.UNKNOWN, (Severity.CRITICAL, Severity.WARNING)),
    NodeState.DEGRADED: (Status.FAIL, (Severity.WARNING,)),
}


def unreached(node: Node, recording: Recording) -> NodeReport:
    """Of a node that did not answer: where on the way it failed, and why."""
    assert recording.failure is not None  # noqa: S101  (a recording has a host or a failure; the caller looked)
    stage = recording.failure.stage.value
    reason = clean(f"{stage}: {recording.failure.reason}", 1000)
    return NodeReport(node.name, NodeState.UNKNOWN, reason, (), node.in_service, stage)


def reason_of(state: NodeState, results: Sequence[Result]) -> str:
    """The rules that made the node what it is, each with its first word."""
    if state is NodeState.HEALTHY:
        return ""
    status, severities = _DECISIVE[state]
    said = []
    for result in results:
        if result.status is status and result.severity in severities:
            first = result.findings[0] if result.findings else None
            said.append(f"{result.rule}: " + (f"{first.subject}: {first.observed}, expected {first.expected}" if first else result.reason))
    return clean("; ".join(said), 1000) if said else "nothing was measured: every rule was skipped"
