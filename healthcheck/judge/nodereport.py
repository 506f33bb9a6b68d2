"""What a report says about a node beside its results: in one line, why it has its state.

Failures come first, the worst of them before all others, so that no limit on a line's length hides the rule
that failed behind those that could not be measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from healthcheck.model.cause import RootCause, causes, is_explained
from healthcheck.model.outcome import NodeReport, NodeState, Result, Severity, Status
from healthcheck.model.recording import Recording
from inventory.model import Node
from inventory.text import clean, fit

_WORST = (Severity.CRITICAL, Severity.WARNING, Severity.INFO)
_WRONG = (Status.FAIL, Status.UNKNOWN)
_MOST = 1000    # bytes of a reason
_WORDS = {Status.FAIL: "failed", Status.UNKNOWN: "unknown", Status.PASS: "passed", Status.SKIPPED: "skipped"}


def unreached(node: Node, recording: Recording) -> NodeReport:
    """The report of a node that did not answer: at which stage it failed, and why."""
    assert recording.failure is not None  # noqa: S101  (the caller checked)
    stage = recording.failure.stage.value
    reason = clean(f"{stage}: {recording.failure.reason}", 1000)
    return NodeReport(node.name, NodeState.UNKNOWN, reason, (), node.in_service, stage)


def reason_of(state: NodeState, results: Sequence[Result]) -> str:
    """What is wrong, worst first, and of an unknown node also what makes it so; each with its first finding
    or its reason. Empty for a healthy node."""
    if state is NodeState.HEALTHY:
        return ""
    wrong = [one for one in worst_first(results) if one.severity is not Severity.INFO]
    items = _items(state, wrong, causes(results))
    return fit(items, _MOST) if items else "nothing was measured: every rule was skipped"


def summary_line(report: NodeReport, most: int, head: str = "", end: str = "") -> str:
    """The node in one line of at most `most` bytes, for a monitoring system or a log: its state, all that
    fails, worst first, and counts of its results, of which `explained` are unknown for a cause that is named
    (`healthcheck.model.cause`). `head` and `end` stand around that."""
    items = _items(report.state, worst_first(report.results), causes(report.results))
    items = items or [report.reason or "nothing is wrong"]
    seen = Counter("explained" if is_explained(one) else _WORDS[one.status] for one in report.results)
    counts = ", ".join(f"{seen[word]} {word}" for word in (*_WORDS.values(), "explained") if seen[word])
    words = ", ".join(filter(None, (counts, end)))
    return fit(items, most, f"{head}{report.state.value}: ", f" ({words})" if words else "")


def worst_first(results: Iterable[Result]) -> list[Result]:
    """Failures, then what is unknown, each by severity, then in the order given; nothing else."""
    found = [one for one in results if one.status in _WRONG]
    return sorted(found, key=lambda one: (one.status is Status.UNKNOWN, _WORST.index(one.severity)))


def _items(state: NodeState, wrong: Iterable[Result], found: Iterable[RootCause]) -> list[str]:
    """UNKNOWN stands here only where it makes the state: elsewhere it is counted."""
    unknown = state is NodeState.UNKNOWN
    return [f"{one.rule}: {words}" for one in wrong
            if one.status is Status.FAIL or (unknown and one.severity is not Severity.INFO)
            for words in reasons(one, found)]


def reasons(result: Result, found: Iterable[RootCause]) -> list[str]:
    """Its findings that are causes, each with what it leaves unjudged; else its first finding in words, or
    its reason where it has none. `found` are the node's causes."""
    own = [cause.sentence for cause in found if cause.rule == result.rule]
    return own or [first_reason(result)]


def first_reason(result: Result) -> str:
    """A result's first finding in words, or its reason where it has none."""
    if not result.findings:
        return result.reason
    first = result.findings[0]
    return f"{first.subject}: {first.observed}, expected {first.expected}"
