"""What is wrong, rule by rule: equal findings of several nodes once, with the nodes that have them, and the
remedy of a rule once. Worst first."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from healthcheck.model.cause import causes, is_explained, rest
from healthcheck.model.outcome import Finding, NodeReport, Origin, Owner, Result, Severity, Status
from healthcheck.report.lines import TextPage
from healthcheck.ruleset.rule import Rule
from healthcheck.store.logtime import by_clock
from inventory.reasons import fold_reasons
from inventory.text import clean, many

Fold = Callable[[Sequence[str]], str]
STYLES = {Severity.CRITICAL: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
UNKNOWN_STYLE = "magenta"
OUTSIDE = " (not in service)"
MOST_GROUPS = 8         # of one rule, without --all
_MOST_FINDINGS = 8      # of one node and rule
_MOST_RULES = 4         # that are named where more have the same reason
_WITHOUT_SKU = re.compile(
    r"(?:[^:;]+: )?there are no [^:;,]+, and no SKU says whether there should be"
    r"|no SKU is named for this node, and too few nodes were measured to learn what to expect")
NO_SKU = ("no SKU says what this node should have: name one (`sku:` in the inventory, or --sku); for a "
          "machine that is to have neither GPUs nor RDMA ports it is cpu-only")
_NONE_TO_COMPARE = re.compile(r"(?:[^:;]+: )?there are no [^:;,]+ to compare")
AFTER_BOOT = re.compile(r"\b\d{1,9} (?:s|min|h|d) after boot, (\d{1,9} (?:s|min|h|d) ago)")


@dataclass(frozen=True)
class FindingBlock:
    """One result's part of the page: its findings in words with their remedies, and what was not judged."""

    findings: tuple[tuple[str, str], ...]
    more: str
    gap: str
    in_service: bool


@dataclass(frozen=True)
class Shown:
    """How much is printed, and when the sweep ended (epoch seconds; None: not known)."""

    every: bool
    ended: float | None


def failures(
    page: TextPage, severity: Severity, reports: Sequence[NodeReport], rules: Mapping[str, Rule], fold: Fold,
    shown: Shown,
) -> None:
    """The rules of this severity that failed, each with its nodes: the one with the most nodes first."""
    found: dict[str, dict[FindingBlock, list[str]]] = {}
    first: dict[str, Result] = {}
    for report in reports:
        for result in report.results:
            if result.status is Status.FAIL and result.severity is severity:
                first.setdefault(result.rule, result)
                groups = found.setdefault(result.rule, {})
                groups.setdefault(_block(report, result, shown), []).append(report.node)
    for rule in sorted(found, key=lambda rule: (-sum(map(len, found[rule].values())), rule)):
        _print_rule(page, first[rule], found[rule], rules.get(rule), fold, shown)


def _block(report: NodeReport, result: Result, shown: Shown) -> FindingBlock:
    sentences = {(cause.rule, cause.finding.subject): cause for cause in causes(report.results)}
    findings = []
    for finding in result.findings[:None if shown.every else _MOST_FINDINGS]:
        cause = sentences.get((result.rule, finding.subject))
        text = (cause.sentence if cause is not None and cause.finding == finding
                else _words(finding, result.severity))
        remedy = finding.remedy or result.remedy
        owner = finding.owner if finding.remedy else result.owner
        text = by_clock(text, report.log, finding.log, shown.ended, ages=True)
        findings.append((text, _remedy(remedy, owner, result.severity)))
    more = result.findings[len(findings):]
    causing = [sentences.get((result.rule, finding.subject)) for finding in more]
    unjudged = {rule for cause in causing if cause is not None for rule in cause.rules}
    words = f"and {len(more)} more findings (--all shows them)" if more else ""
    if more and unjudged:
        words += f"; {many(len(unjudged), 'rule')} cannot be judged for them"
    if not findings:
        findings.append(("", _remedy(result.remedy, result.owner, result.severity)))
    return FindingBlock(tuple(findings), words, rest(result), report.in_service)


def _words(finding: Finding, severity: Severity) -> str:
    """What INFO reports is nothing that someone has to mend: it says what is expected only where that is a
    value."""
    expected = str(finding.expected)
    if severity is Severity.INFO and (not expected or expected.startswith(("never", "no such"))):
        return f"{finding.subject}: {finding.observed}"
    return f"{finding.subject}: {finding.observed}, expected {expected}"


def _remedy(remedy: str, owner: Owner | None, severity: Severity) -> str:
    if not remedy or (severity is Severity.INFO and remedy.startswith("Nothing")):
        return ""
    return f"remedy{f' ({owner.value})' if owner is not None else ''}: {remedy}"


def _print_rule(
    page: TextPage, result: Result, groups: Mapping[FindingBlock, Sequence[str]], rule: Rule | None,
    fold: Fold, shown: Shown,
) -> None:
    number = sum(map(len, groups.values()))
    page.gap()
    page.line((result.severity.value.upper(), STYLES[result.severity]), f"  {result.rule}",
              f"  on {number} nodes" if number > 1 else "")
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    kept = ordered if shown.every else ordered[:MOST_GROUPS]
    remedies = {remedy for block, _ in kept for _, remedy in block.findings if remedy}
    common = next(iter(remedies)) if len(remedies) == 1 else ""
    for block, nodes in kept:
        names = fold(nodes)
        outside = "" if block.in_service else OUTSIDE
        only = len(block.findings) == 1 and not block.more
        page.line((names, "bold"), outside, *(("  ", block.findings[0][0]) if only else ()), indent=4, hang=4)
        for text, remedy in block.findings:
            if not only and text:
                page.line(text, indent=8)
            if remedy and remedy != common:
                page.line(remedy, indent=8)
        if block.more:
            page.line(block.more, indent=8)
        if block.gap:
            page.line(f"not judged: {block.gap}", indent=8)
    if left := ordered[len(kept):]:
        page.line(f"and {sum(len(nodes) for _, nodes in left)} more nodes with other values: --all", indent=4)
    if common:
        page.line(common, indent=4)
    if rule is not None and shown.every:
        page.line((f"source: {rule.source}", "dim"), indent=4)


def unreached(page: TextPage, reports: Sequence[NodeReport], ours: Callable[[NodeReport], bool]) -> None:
    """Nodes without any result: each reason once."""
    for serving in (True, False):
        those = [report for report in reports if report.in_service is serving]
        for folded in fold_reasons((report.node, clean(report.reason, 1000)) for report in those):
            mine = all(ours(report) for report in those if report.node in folded.nodes)
            page.gap()
            page.line((those[0].state.value.upper(), UNKNOWN_STYLE), "  not measured",
                      f"  {len(folded.nodes)} nodes" if len(folded.nodes) > 1 else "")
            page.line((folded.names, "bold"), "" if serving else OUTSIDE, indent=4, hang=4)
            page.line(f"{clean(folded.text, 2000)}{' (muster)' if mine else ''}", indent=8)


def unknown(page: TextPage, reports: Sequence[NodeReport], fold: Fold, shown: Shown) -> None:
    """What could not be measured on nodes that answered: each reason once, with its nodes and rules."""
    found: dict[tuple[str, str, bool], dict[str, list[str]]] = {}
    for report in reports:
        for result in report.results:
            if result.status is not Status.UNKNOWN or is_explained(result) or own_and_harmless(result) or (
                    result.severity is Severity.INFO and not shown.every):
                continue
            key = common_reason(result), result.origin.value if result.origin else "", report.in_service
            found.setdefault(key, {}).setdefault(result.rule, []).append(report.node)
    for (reason, origin, serving), rules in found.items():
        groups: dict[str, list[str]] = {}
        for rule, nodes in rules.items():
            groups.setdefault(fold(nodes), []).append(rule)
        for names, ids in groups.items():
            page.gap()
            page.line(("UNKNOWN", UNKNOWN_STYLE), f"  {ids[0] if len(ids) == 1 else f'{len(ids)} rules'}")
            page.line((names, "bold"), "" if serving else OUTSIDE, f"  {reason} ({origin})", indent=4, hang=4)
            if len(ids) > 1:
                page.line(_named(ids, shown.every), indent=8)


def common_reason(result: Result) -> str:
    """Why a result is unknown, without what has a named cause; where no SKU says what the node should have,
    the same words for every rule, and what to type."""
    reason = rest(result)
    parts = reason.split("; ")
    if all(_WITHOUT_SKU.fullmatch(part) for part in parts):
        return NO_SKU
    if all(_NONE_TO_COMPARE.fullmatch(part) for part in parts):
        return "it shows none of what these rules compare"
    return reason


def _named(ids: Sequence[str], every: bool) -> str:
    few = ids if every else ids[:_MOST_RULES]
    more = f" and {len(ids) - len(few)} more" if len(few) < len(ids) else ""
    return f"{', '.join(few)}{more}"


def own_and_harmless(result: Result) -> bool:
    """Something of muster's own is missing, without effect on the node's state: one line is enough."""
    return (result.status is Status.UNKNOWN and result.severity is Severity.INFO
            and result.origin is Origin.MUSTER)
