"""Judges recorded healthy boots by baselines of other boots, as `muster baseline learn`, `approve --seen-on
95% --boots 3` and `check` do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from healthcheck.baseline.approval import ApprovalRule, approve, choose
from healthcheck.baseline.flags import flagged
from healthcheck.baseline.formats import read
from healthcheck.baseline.learn import Learner
from healthcheck.config.rulesfolder import packaged
from healthcheck.explain import savedlog
from healthcheck.facts.seen_before import UNUSUAL_CAPTURE, unusual_capture
from healthcheck.kernellog.fold import fold
from healthcheck.kernellog.model import Baseline, BootLog, LogLine, Scope
from healthcheck.model.outcome import NodeReport, Severity, Status
from healthcheck.ruleset.ruleset import Ruleset, load_ruleset
from healthcheck.sweep.assess import Assessment
from inventory.model import Node

RECORDED = Path(__file__).resolve().parents[2] / "recordings/kernel"
UNUSUAL = ("kernel-novel", "kernel-missing", "kernel-order", "kernel-rate", "kernel-suspect")


def boots(prefix: str) -> dict[str, BootLog]:
    """The recorded boots of virtual machines whose names begin so."""
    paths = sorted((RECORDED / "vm").glob(f"{prefix}*.kmsg.gz"))
    return {path.name.partition(".")[0]: read(path.read_bytes(), path.name)[0] for path in paths}


def planted() -> list[LogLine]:
    """Lines that no boot holds, each a minute after the one before."""
    rows = [row.split(" ", 1) for row in (RECORDED / "novel/lines.txt").read_text().splitlines()
            if not row.startswith("#")]
    return [LogLine(text, 900.0 + 60 * number, int(priority), 10**6 + number)
            for number, (priority, text) in enumerate(rows)]


def learned(logs: Iterable[tuple[str, BootLog]]) -> Baseline:
    """What these boots say, by node, approved in bulk as the topic `baseline` does."""
    learner = Learner()
    for node, log in logs:
        learner.add(fold(log.lines, node=node, boot=node))
    catalogue = _ruleset().kernel.catalogue     # type: ignore[union-attr]
    made = flagged(learner.learned(Scope(), "2026-11-23", "novelty"), catalogue)
    chosen = choose(made, (), ApprovalRule(0.95, min(3, made.boots)), flagged=False)
    return approve(made, chosen.approved, "ops", "acceptance")


@dataclass(frozen=True)
class Judged:
    """What a boot's unusual lines came to: subjects that inform and that warn, and all else that warns."""

    informs: tuple[str, ...]
    warns: tuple[str, ...]
    report: NodeReport


def judged(log: BootLog, baseline: Baseline, snapshots: int = 1) -> Judged:
    """The last of so many snapshots of this boot."""
    kernel = _ruleset().kernel
    assert kernel is not None
    held = replace(kernel, chosen=baseline)
    rules = replace(_ruleset(), rules=savedlog.judged(_ruleset().rules), kernel_from=lambda: held)
    now = savedlog.recording("node", log, 1e9)
    previous = None
    for number in range(snapshots):
        assessment = Assessment([Node("node")], rules)
        assessment.add(now, previous)
        if number < snapshots - 1:
            previous = replace(now,
                               captures={UNUSUAL_CAPTURE: unusual_capture(now, previous,
                                                                          assessment.unusual("node"))})
    (report,) = assessment.finish().reports
    return Judged(_subjects(report, informs=True, rules=UNUSUAL), _subjects(report, informs=False), report)


def _subjects(report: NodeReport, *, informs: bool, rules: Sequence[str] | None = None) -> tuple[str, ...]:
    failed = [result for result in report.results if result.status is Status.FAIL
              and (result.severity is Severity.INFO) is informs]
    return tuple(finding.subject for result in failed if rules is None or result.rule in rules
                 for finding in result.findings)


@cache
def _ruleset() -> Ruleset:
    return load_ruleset([packaged()])
