"""What a report says about a node beside its results: in one line, why it has its state."""

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
    """The report of a node that did not answer: at which stage it failed, and why."""
    assert recording.failure is not None  # noqa: S101  (the caller checked)
    stage = recording.failure.stage.value
    reason = clean(f"{stage}: {recording.failure.reason}", 1000)
    return NodeReport(node.name, NodeState.UNKNOWN, reason, (), node.in_service, stage)


def reason_of(state: NodeState, results: Sequence[Result]) -> str:
    """The rules that decided the state, each with its first finding or its reason."""
    if state is NodeState.HEALTHY:
        return ""
    status, severities = _DECISIVE[state]
    decisive = [f"{result.rule}: {first_reason(result)}" for result in results
                if result.status is status and result.severity in severities]
    return clean("; ".join(decisive), 1000) if decisive else "nothing was measured: every rule was skipped"


def first_reason(result: Result) -> str:
    """A result's first finding in words, or its reason where it has none."""
    if not result.findings:
        return result.reason
    first = result.findings[0]
    return f"{first.subject}: {first.observed}, expected {first.expected}"
