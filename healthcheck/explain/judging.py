"""Judges the captures in a file by the facts, checks and judge of a sweep,
and makes causes of the results."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from healthcheck.explain.model import Cause, Quote
from healthcheck.joblog.meaning import Sure
from healthcheck.model.cause import is_explained, rest
from healthcheck.model.outcome import Finding, NodeReport, Owner, Result, Severity, Status
from healthcheck.model.recording import Capture, Host, Recording
from healthcheck.ruleset.rule import Rule
from healthcheck.ruleset.ruleset import Ruleset
from healthcheck.sweep.assess import Assessment
from inventory.model import Node
from inventory.text import clean

Quoting = Callable[[Sequence[str]], tuple[Quote, ...]]

# Checks whose findings are named after catalogue entries, with the meaning before the remedy.
_BY_ENTRY = frozenset({"kernel.hardware_error", "kernel.fault", "kernel.trouble", "kernel.told"})
_LONGEST = 400
_COUNT = re.compile(r"(\d{1,9}) (?:lines|times)\b")
# Channels torn down, and the driver's request afterwards: an Xid preceded them.
_FOLLOWS = re.compile(r"Xid (?:45|154)$")


def look(captures: Mapping[str, Capture], now: float, *, boot: str = "", node: str = "file") -> Recording:
    """A recording of a node with only these captures."""
    return Recording(node, now, Host("", boot, now, 0, "", "", 0.0), None, captures)


def report(
    recording: Recording, ruleset: Ruleset, rules: Iterable[Rule], asked: Sequence[str] = (),
) -> NodeReport:
    """The report by these rules only; `asked` are the ids of disruptive probes that were run."""
    assessment = Assessment([Node(recording.node)], replace(ruleset, rules=tuple(rules)), sent=asked)
    assessment.add(recording)
    (judged,) = assessment.finish().reports
    return judged


def causes(
    judged: NodeReport, rules: Mapping[str, Rule], quoting: Quoting, *, where: str = "",
    sure: Sure = Sure.CERTAIN,
) -> list[Cause]:
    """A cause for each finding of a rule that failed; `where` goes before each subject."""
    return [_cause(result, finding, rules.get(result.rule), quoting, where, sure)
            for result in judged.results if result.status is Status.FAIL for finding in result.findings]


def unjudged(judged: NodeReport) -> list[str]:
    """Why rules that affect a node's state could not be judged, each reason once; without what a finding
    explains."""
    return list(dict.fromkeys(
        clean(rest(result), _LONGEST) for result in judged.results
        if result.status is Status.UNKNOWN and result.severity is not Severity.INFO
        and not is_explained(result)
    ))


def _cause(
    result: Result, finding: Finding, rule: Rule | None, quoting: Quoting, where: str, sure: Sure,
) -> Cause:
    subject, by = finding.subject, result.rule
    if result.check.startswith("kernel.") and finding.remedy:
        meaning, _, remedy = finding.remedy.partition(". ")
        if result.check in _BY_ENTRY:
            subject, by = "", f"{result.rule} {finding.subject}"
    else:
        about = f"{rule.check.partition('.')[2].replace('_', ' ')}: " if rule is not None else ""
        should = f" ({rule.checked.summary.splitlines()[0].rstrip('.')})" if rule is not None else ""
        meaning = f"{about}{finding.observed}, expected {finding.expected}{should}"
        remedy = finding.remedy
    owner = finding.owner or result.owner or Owner.OPERATOR
    return Cause(
        subject=clean(f"{where}{subject}".removesuffix(": "), 200),
        meaning=clean(meaning.strip().rstrip("."), _LONGEST), sure=sure, severity=result.severity,
        owner=owner, remedy=clean(remedy.strip() or result.remedy, 600), by=clean(by, 120),
        quotes=quoting(finding.lines), count=_times(finding),
        symptom=_FOLLOWS.search(finding.subject) is not None,
        job=owner is Owner.USER and result.severity is Severity.INFO,
    )


def _times(finding: Finding) -> int:
    """The number of lines that a finding folds, if given: '3 lines, the first ...'."""
    said = _COUNT.match(str(finding.observed))
    return int(said[1]) if said is not None else 1
