"""The page of a sweep's results on a terminal: what is wrong, rule by rule, and a recap as the last lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from healthcheck.judge.nodereport import reason_of
from healthcheck.model.cause import is_explained
from healthcheck.model.outcome import NodeReport, NodeState, Origin, Severity, Status, origin_of
from healthcheck.report import findings, notjudged
from healthcheck.report.findings import Fold, Shown
from healthcheck.report.lines import TextPage, clipped
from healthcheck.report.recap import STATE_STYLES, recap
from healthcheck.ruleset.rule import Rule
from healthcheck.ruleset.sku import Sku
from healthcheck.sweep.assess import Assessed
from inventory.text import clean, many

if TYPE_CHECKING:
    from rich.console import Console


SETTLES_TAKEN = "To settle it, name its SKU in the inventory (`sku: cpu-only`)"
SETTLES_NOT_TAKEN = "If it is to have none: `sku: cpu-only` in the inventory, or --sku cpu-only"


@dataclass(frozen=True)
class Heading:
    """The first line: number and source of nodes, seconds, and whether the sweep was interrupted. `ended` is
    when it ended (epoch seconds)."""

    source: str
    seconds: float
    partial: bool
    rules: int
    ended: float | None = None


def render(
    console: Console, assessed: Assessed, rules: Mapping[str, Rule], heading: Heading, fold: Fold, *,
    every: bool = False,
) -> None:
    """Prints the page; with `every` also INFO, sources, and what was skipped."""
    page = TextPage(console)
    reports = tuple(report for report in assessed.reports if report.agent is None)
    learned, shown = assessed.provisional, Shown(every, heading.ended)
    partial = ", interrupted: PARTIAL" if heading.partial else ""
    page.line((f"{many(len(assessed.reports), 'node')} ({clean(heading.source)}), {heading.rules} rules, "
               f"{heading.seconds:.1f} s{partial}", "bold"))
    if learned is not None:
        _print_learned(page, learned, assessed.looks_like)
    _print_gpuless(page, reports, fold)
    findings.failures(page, Severity.CRITICAL, reports, rules, fold, shown)
    findings.unreached(page, [report for report in reports if _without_results(report)],
                       lambda report: origin_of(report) is Origin.MUSTER)
    findings.unknown(page, reports, fold, shown)
    findings.failures(page, Severity.WARNING, reports, rules, fold, shown)
    if every:
        findings.failures(page, Severity.INFO, reports, rules, fold, shown)
        notjudged.not_judged(page, reports, fold)
    notjudged.not_seen(page, reports, fold, every=every)
    if learned is not None:
        _print_difference(page, reports, fold)
    recap(page, assessed.reports, fold, every=every)


def brief(console: Console, assessed: Assessed) -> None:
    """Prints one line a node: its name, its state, and the worst that is wrong with it."""
    page = TextPage(console)
    wide = max((len(report.node) for report in assessed.reports), default=0)
    for report in assessed.reports:
        outside = "" if report.in_service else findings.OUTSIDE
        why = report.reason or reason_of(report.state, report.results)
        if not why and report.sku and report.sku_basis:
            why = f"{report.sku} by what it shows"
        head = f"{report.node:<{wide}}  {report.state.value:<9}"
        text = f"{outside}  {why}" if why else outside
        left = None if page.width is None else max(page.width - len(head), 8)
        page.line(f"{report.node:<{wide}}  ", (f"{report.state.value:<9}", STATE_STYLES[report.state]),
                  clipped(clean(text, 2000), left).rstrip())


def _without_results(report: NodeReport) -> bool:
    """Whether no result says why the node is in its state, so that its reason has to."""
    return report.state is not NodeState.HEALTHY and not any(
        result.status in (Status.FAIL, Status.UNKNOWN) and not findings.own_and_harmless(result)
        for result in report.results)


def _print_learned(page: TextPage, learned: Sku, looks_like: str | None) -> None:
    # Some come from a node: the name of its GPUs.
    shown = {name: f"{value:g}" if isinstance(value, float) else clean(value, 80)
             for name, value in learned.numbers.items()}
    numbers = ", ".join(f"{name} {value}" for name, value in shown.items())
    if numbers:
        page.line((f"No SKU was named, so all nodes are expected to be like the majority: {numbers}",
                   "yellow"))
    elif looks_like is not None:
        page.line((f"No SKU was named. This looks like {looks_like}: add --sku {looks_like} to judge by it",
                   "yellow"))
    else:
        page.line(("No SKU was named, and too few nodes agree to learn one: name one with --sku or `sku:` in "
                   "the inventory", "yellow"))


def _print_gpuless(page: TextPage, reports: Sequence[NodeReport], fold: Fold) -> None:
    """The nodes without a named SKU that show no GPUs: what was made of them and why, and what settles it."""
    found: dict[tuple[str, str], list[str]] = {}
    for report in reports:
        if report.sku_basis:
            found.setdefault((report.sku or "", report.sku_basis), []).append(report.node)
    for (sku, basis), nodes in found.items():
        page.line((fold(nodes), "bold"), f"  {f'judged as {sku}, ' if sku else ''}{basis}. "
                  f"{SETTLES_TAKEN if sku else SETTLES_NOT_TAKEN}", hang=4)


def _print_difference(page: TextPage, reports: Sequence[NodeReport], fold: Fold) -> None:
    """The nodes that differ from the majority, and in which rules."""
    snapshots = {report.node: _signature(report) for report in reports}
    measured = [snapshots[report.node] for report in reports if report.results]
    if not measured:
        return
    usual, number = Counter(measured).most_common(1)[0]
    different = [node for node, signature in snapshots.items() if signature != usual]
    if not different or 2 * number <= len(reports):
        return
    page.gap()
    who = "this one differs" if len(different) == 1 else f"these {len(different)} differ"
    page.line((f"{who} from the other {number}, in this:", "bold"))
    ways: dict[str, list[str]] = {}
    for node in different:
        own = snapshots[node]
        ids = sorted(
            {rule for rule, status in (own if any(not status for _, status in own) else own ^ usual)})
        ways.setdefault(", ".join(ids), []).append(node)
    for way, nodes in ways.items():
        page.line(f"{fold(nodes)}: {way}", indent=2)


def _signature(report: NodeReport) -> frozenset[tuple[str, str]]:
    if not report.results:
        return frozenset({(f"not measured ({report.stage or 'not finished'})", "")})
    # INFO does not make a node differ from its peers.
    return frozenset((r.rule, r.status.value) for r in report.results if r.status is not Status.PASS
                     and r.severity is not Severity.INFO and not is_explained(r))
