"""A saved kernel log as a recording, for the facts, checks and judge of a sweep;
and its findings with the file's own lines."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from healthcheck.baseline.formats import to_kmsg
from healthcheck.facts.kernel import KMSG, LOG, as_dmesg
from healthcheck.kernellog.model import BootLog
from healthcheck.model.outcome import Finding, NodeReport, NodeState, Result, Severity, Status, state_of
from healthcheck.model.recording import Capture, FileCapture, Host, Outcome, Recording
from healthcheck.ruleset.rule import Rule
from inventory.text import clean

_LONGEST = 8192
_TIME = re.compile(r"^\[ *\d+\.\d{6}\] ")
_WHEN = re.compile(r"\b\d{1,9} (?:s|min|h|d) after boot: ")
_WORST_FIRST = (Status.FAIL, Status.UNKNOWN, Status.PASS, Status.SKIPPED)


def recording(name: str, log: BootLog, now: float) -> Recording:
    """A recording with only this log; `now` is the head's clock (epoch seconds)."""
    text = to_kmsg(_numbered(log))
    # The first record's number tells how many are lost before it.
    caveats = log.caveats[1:] if log.format == "kmsg" and log.lines[0].sequence else log.caveats
    capture = Capture(Outcome.DONE, bytes=len(text), files={KMSG: FileCapture(Outcome.DONE, text)},
                      note="; ".join(caveats))
    return Recording(name, now, Host("", log.boot, now, 0, "", "", 0.0), None, {LOG.id: capture})


def _numbered(log: BootLog) -> BootLog:
    """Line numbers become record numbers from 0; the log's caveats report what is lost before."""
    if log.format == "kmsg":
        return log
    return replace(log, lines=tuple(replace(line, sequence=number) for number, line in enumerate(log.lines)))


def judged(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The kernel log's rules for a log alone: they report all catalogue entries, whatever their age.

    A missing baseline counts here.
    """
    return tuple(_of_a_file(rule) for rule in rules if rule.check.startswith("kernel."))


def _of_a_file(rule: Rule) -> Rule:
    if rule.check == "kernel.baseline":
        return replace(rule, severity=Severity.WARNING)
    known = rule.checked.parameters
    whole = {"everything": True} if "everything" in known else {}
    return replace(
        rule, parameters={**rule.parameters, **whole, **({"hours": math.inf} if "hours" in known else {})})


def with_file_lines(report: NodeReport, log: BootLog) -> NodeReport:
    """The report, with the findings' lines as in the file."""
    raw, by_text = {}, {}
    for line, own in zip(log.lines, log.raw, strict=True):
        shown = clean(own, _LONGEST)
        raw[clean(as_dmesg(line.seconds, line.text), _LONGEST)] = by_text[clean(line.text, _LONGEST)] = shown
    timeless = all(line.seconds is None for line in log.lines)

    def in_file(line: str) -> str:
        # Facts add a time to lines without one.
        return raw.get(line) or by_text.get(_TIME.sub("", line, count=1)) or line

    def as_in_file(finding: Finding) -> Finding:
        observed = (_WHEN.sub("", finding.observed) if timeless and isinstance(finding.observed, str)
                    else finding.observed)
        return replace(finding, observed=observed, lines=tuple(map(in_file, finding.lines)))

    return replace(report, results=tuple(replace(result, findings=tuple(map(as_in_file, result.findings)))
                                         if result.findings else result for result in report.results))


def merged(reports: Sequence[NodeReport]) -> NodeReport:
    """One report of the boots of one file, oldest first: each finding names its boot,
    and the worst status counts."""
    if len(reports) == 1:
        return reports[0]
    results = tuple(_over_boots(boots) for boots in zip(*(report.results for report in reports), strict=True))
    state = state_of(results)
    reason = "; ".join(f"boot {number} of {len(reports)}: {report.reason}"
                       for number, report in enumerate(reports, 1) if report.reason)
    return replace(reports[-1], state=state, results=results,
                   reason="" if state is NodeState.HEALTHY else clean(reason, 1000))


def _over_boots(results: Sequence[Result]) -> Result:
    worst = min(results, key=lambda result: _WORST_FIRST.index(result.status))
    findings = tuple(replace(finding, observed=f"boot {number} of {len(results)}: {finding.observed}")
                     for number, result in enumerate(results, 1) for finding in result.findings)
    reasons = [f"boot {number} of {len(results)}: {result.reason}" for number, result in enumerate(results, 1)
               if result.reason]
    return replace(worst, findings=findings, reason=clean("; ".join(reasons), 1000))
