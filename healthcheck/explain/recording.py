"""Explains what muster itself wrote: a recording, a saved sweep's folder, or the result of a check;
and the result of dcgmi diag."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from healthcheck.explain import judging
from healthcheck.explain.model import Cause, RawExplanation
from healthcheck.facts.dcgm import DIAGNOSTICS
from healthcheck.joblog.meaning import Sure
from healthcheck.model.outcome import NodeReport, Owner, Severity, Status
from healthcheck.model.recording import Capture, Outcome, Recording, RecordingError, from_json
from healthcheck.ruleset.ruleset import Ruleset
from healthcheck.sweep.assess import Assessment
from healthcheck.sweep.saved import load_manifest, recordings
from inventory.errors import UsageError
from inventory.model import Node
from inventory.nodeset import NAME
from inventory.text import clean, short

LOOKED_FOR = ("everything that muster check judges, by the rules that are here now",)
CANNOT_SHOW = ("what its probes did not capture", "what changed since it was taken",
               "other nodes, with which fleet rules compare it")
DCGM_LOOKED_FOR = ("tests that failed or warned, with DCGM's own words",
                   "tests that passed and yet report an error", "errors of the run")
DCGM_CANNOT_SHOW = ("tests that were skipped, or not part of the level", "the kernel's log (give a dmesg)")
_MOST_NODES = 100_000


def explain_one(document: Any, name: str, ruleset: Ruleset) -> RawExplanation:
    """The causes in one recording, what could not be judged, and its node; UsageError for anything else."""
    try:
        recording = from_json(document)
    except RecordingError as error:
        raise UsageError(f"{short(name)} is not a recording: {error}") from None
    if NAME.fullmatch(recording.node) is None:
        raise UsageError(f"{short(name)} is not a recording: its node's name is none")
    causes, unread = _of([(recording, None)], (Node(recording.node),), None, ruleset)
    return RawExplanation(causes, unread, f"a look at {recording.node}")


def explain_sweep(folder: Path, ruleset: Ruleset) -> RawExplanation:
    """The same for a folder from `muster check --save`; UsageError for anything else."""
    manifest = load_manifest(folder)
    snapshots = list(recordings(folder, manifest))
    causes, unread = _of(snapshots, manifest.nodes, manifest.default_sku, ruleset)
    partial = ["the sweep was interrupted"] if manifest.partial else []
    return RawExplanation(causes, partial + unread,
                          f"a sweep of {len(snapshots)} nodes, {clean(manifest.started, 40)}")


def _of(snapshots: list[tuple[Recording, Recording | None]], nodes: tuple[Node, ...], sku: str | None,
        ruleset: Ruleset) -> tuple[list[Cause], list[str]]:
    assessment = Assessment(nodes, ruleset, sku)
    for recording, previous in snapshots:
        assessment.add(recording, previous)
    rules = {rule.id: rule for rule in ruleset.rules}
    causes: list[Cause] = []
    unread: list[str] = []
    for report in assessment.finish().reports:
        causes += judging.causes(report, rules, lambda lines: (), where=f"{report.node}: ")
        if report.stage is not None:
            causes.append(_unreached(report))
        unread += [f"{report.node}: {reason}" for reason in judging.unjudged(report)
                   if "no SKU is named" not in reason]
    return causes, unread


def _unreached(report: NodeReport) -> Cause:
    return Cause(report.node, clean(f"It could not be reached ({report.stage}): {report.reason}", 400),
                 Sure.CERTAIN, Severity.CRITICAL, Owner.OPERATOR,
                 "Look at its BMC and console; if it is up, muster check NODE says at which stage it fails "
                 "now.", "reached")


def explain_check(document: Mapping[str, Any]) -> RawExplanation:
    """The causes in the document of `muster check --format json`, and what could not be judged."""
    causes: list[Cause] = []
    unread: list[str] = []
    nodes = document.get("nodes")
    listed = ([node for node in nodes[:_MOST_NODES] if isinstance(node, dict)] if isinstance(nodes, list)
              else [])
    for node in listed:
        name = clean(node.get("node"), 80)
        results = node.get("results")
        for result in results if isinstance(results, list) else ():
            if isinstance(result, dict):
                causes += _failures(name, result)
        if node.get("state") == "unknown":
            unread.append(f"{name}: {clean(node.get('reason'), 300)}")
    return RawExplanation(causes, unread,
                          f"a check of {len(listed)} nodes, {clean(document.get('started'), 40)}")


def _failures(node: str, result: Mapping[str, Any]) -> list[Cause]:
    findings = result.get("findings")
    if result.get("status") != Status.FAIL.value or not isinstance(findings, list):
        return []
    severity = _member(Severity, result.get("severity"), Severity.WARNING)
    return [Cause(
        clean(f"{node}: {finding.get('subject')}", 200),
        clean(f"{finding.get('observed')}; expected {finding.get('expected')}", 400),
        Sure.CERTAIN, severity, _member(Owner, finding.get("owner") or result.get("owner"), Owner.OPERATOR),
        clean(finding.get("remedy") or result.get("remedy"), 600), clean(result.get("rule"), 80),
    ) for finding in findings if isinstance(finding, dict)]


def _member(kind: Any, value: Any, usual: Any) -> Any:
    return next((member for member in kind if member.value == value), usual)


def explain_dcgm(text: str, ruleset: Ruleset, now: float) -> RawExplanation:
    """The causes in the output of `dcgmi diag -j` at any level."""
    probe = DIAGNOSTICS["long"]
    recording = judging.look({probe.id: Capture(Outcome.DONE, exit=0, bytes=len(text), text=text)}, now)
    # The file does not name its level, so no test counts as missing.
    rules = [replace(rule,
                     parameters={key: value for key, value in rule.parameters.items() if key != "must_run"})
             for rule in ruleset.rules if rule.check == "dcgm.diag_long"]
    assessment = judging.report(recording, ruleset, rules, asked=(probe.id,))
    causes = judging.causes(assessment, {rule.id: rule for rule in rules}, lambda lines: ())
    return RawExplanation(causes, judging.unjudged(assessment), "a run of dcgmi diag")
