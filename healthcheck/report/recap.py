"""The last lines of a page: how many nodes are in which state, the most urgent things with their owner and
the next command to type, and where the rest is."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from healthcheck.judge.nodereport import reasons
from healthcheck.model.cause import causes, is_explained
from healthcheck.model.outcome import NodeReport, NodeState, Result, Severity, Status
from healthcheck.report.findings import AFTER_BOOT, NO_SKU, Fold, common_reason
from healthcheck.report.lines import TextPage, clipped
from healthcheck.report.notjudged import counts
from inventory.text import clean

# FindingBlock apart without red and green: by brightness, and by the word.
STATE_STYLES = {
    NodeState.HEALTHY: "cyan", NodeState.DEGRADED: "yellow", NodeState.UNHEALTHY: "bold white on red",
    NodeState.UNKNOWN: "magenta",
}
_ORDER = (NodeState.HEALTHY, NodeState.DEGRADED, NodeState.UNKNOWN, NodeState.UNHEALTHY)
MOST_URGENT = 3
_LONGEST = 200      # columns of one thing that is urgent
_LONGEST_NAMES = 60


@dataclass(frozen=True)
class Urgent:
    """One thing to do: on these nodes, in words, whose turn it is, and what to type next."""

    nodes: tuple[str, ...]
    what: str
    owner: str
    command: str


def urgent(reports: Sequence[NodeReport]) -> list[Urgent]:
    """What holds nodes in service back, the worst first, and of equally bad things that of most nodes."""
    found: dict[tuple[int, str], list[tuple[NodeReport, Result | None]]] = {}
    for report in (report for report in reports if report.in_service and report.agent is None):
        if not report.results:
            found.setdefault((1, report.stage or ""), []).append((report, None))
        for result in report.results:
            status = result.status
            if status is Status.PASS or status is Status.SKIPPED or result.severity is Severity.INFO or (
                    is_explained(result)):
                continue
            if status is Status.FAIL:
                rank = 0 if result.severity is Severity.CRITICAL else 3
                found.setdefault((rank, result.rule), []).append((report, result))
            else:
                found.setdefault((2, common_reason(result)), []).append((report, result))
    ordered = sorted(found.items(), key=lambda one: (one[0][0], -len(one[1]), one[0][1]))
    return [_urgent(those) for _, those in ordered]


def _urgent(those: Sequence[tuple[NodeReport, Result | None]]) -> Urgent:
    names = tuple(dict.fromkeys(report.node for report, _ in those))
    report, first = those[0]
    if first is None:
        return Urgent(names, clean(report.reason, 400), "operator", f"ssh {shlex.quote(names[0])}")
    owner = next((finding.owner for finding in first.findings if finding.owner is not None), first.owner)
    said = (common_reason(first) if first.status is Status.UNKNOWN
            else reasons(first, causes(report.results))[0])
    what = AFTER_BOOT.sub(r"\1", f"{first.rule}: {said}")
    return Urgent(names, clean(what, 400), owner.value if owner is not None else "operator",
                  "muster sku list" if said == NO_SKU else f"muster explain {first.rule}")


def recap(page: TextPage, reports: Sequence[NodeReport], fold: Fold, *, every: bool) -> None:
    """Prints the last lines."""
    visited = [report for report in reports if report.agent is None]
    page.gap()
    for state in _ORDER:
        names = [report.node for report in visited if report.state is state]
        if names:
            # Whom nothing ails is a count: on a terminal their names take a screen.
            short = state is NodeState.HEALTHY and page.width is not None and not every
            shown = clipped(fold(names), max((page.width or 0) - 18, 20)) if short else fold(names)
            page.line((f"{state.value:<9}", STATE_STYLES[state]), f"  {len(names):>5}  {shown}", hang=18)
    left_out = [report.node for report in reports if report.agent is not None]
    if left_out:
        page.line(("not visited", STATE_STYLES[NodeState.HEALTHY]),
                  f"  {len(left_out):>3}  {fold(left_out)}: healthy by their agents' metrics alone", hang=18)
    found = urgent(reports)
    if found:
        page.gap()
        page.line((f"Most urgent of {len(found)}:" if len(found) > MOST_URGENT else "Most urgent:", "bold"))
    for number, one in enumerate(found[:MOST_URGENT], 1):
        who = fold(one.nodes)
        if len(who) > _LONGEST_NAMES:
            who = f"{len(one.nodes)} nodes, such as {one.nodes[0]}"
        page.line(f"{number}. ", (who, "bold"), "  ", clipped(one.what, _LONGEST),
                  f"  ({one.owner})", hang=3)
        page.line("next: ", (one.command, "bold"), indent=3)
    rest = _rest(visited)
    if rest and not every:
        page.gap()
        page.line((f"Not shown: {rest}. All of it: --all; one line a node: --brief", "dim"))


def _rest(reports: Sequence[NodeReport]) -> str:
    """What the page leaves out, in words."""
    infos = {result.rule for report in reports for result in report.results
             if result.severity is Severity.INFO and result.status is Status.FAIL}
    skipped, noted = counts(reports)
    parts = [f"{number} {words if number == 1 else f'{words}s'}{after}" for number, words, after in (
        (len(infos), "rule", " with INFO findings"), (skipped, "rule", " skipped"),
        (noted, "rule", " with a note or gap")) if number]
    return ", ".join(parts)
