"""What was not judged: skipped rules, gaps in rules that passed, probes that need root."""

from __future__ import annotations

import re
from collections.abc import Sequence

from healthcheck.model.cause import is_explained, rest
from healthcheck.model.outcome import NodeReport, Severity, Status
from healthcheck.report.findings import Fold, own_and_harmless
from healthcheck.report.lines import TextPage
from inventory.text import clean

# With more rules in front, the reason is hard to find.
_MOST_BEFORE = 6
# Reasons that vary by rule but mean the same: there may be dozens of such rules.
_SAME_REASON = (
    (re.compile("not supported: "), "not supported on these nodes"),
    (re.compile("disabled in "), "disabled in their rules files"),
    (re.compile("the SKU .* is not judged$|there are no .*, as the SKU says$"),
     "the SKU says so: there is none, or it is not judged"),
)


def not_judged(page: TextPage, reports: Sequence[NodeReport], fold: Fold) -> None:
    """Skipped rules, and gaps in passed ones: folded, but never left out."""
    said: dict[tuple[str, str], dict[str, list[str]]] = {}
    for report in reports:
        for result in report.results:
            if result.status is Status.SKIPPED:
                said.setdefault(("skipped", _kind(result.reason)), {}).setdefault(result.rule, []).append(
                    report.node)
            elif is_explained(result):
                if note := rest(result):
                    said.setdefault(("noted", _kind(note)), {}).setdefault(result.rule, []).append(
                        report.node)
            elif own_and_harmless(result):
                said.setdefault(("unknown", result.reason), {}).setdefault(result.rule, []).append(
                    report.node)
            elif result.status is Status.PASS and result.reason:
                said.setdefault(("passed, but", result.reason), {}).setdefault(result.rule, []).append(
                    report.node)
    if said:
        page.gap()
    for (what, reason), rules in said.items():
        groups: dict[str, list[str]] = {}
        for rule, nodes in rules.items():
            groups.setdefault(fold(nodes), []).append(rule)
        for nodes_text, ids in groups.items():
            if len(ids) > _MOST_BEFORE:
                page.line((f"{what}  {reason}  {nodes_text}", "dim"))
                page.line((f"{len(ids)} rules: {', '.join(ids)}", "dim"), indent=4)
            else:
                page.line((f"{what}  {', '.join(ids)}: {reason}  {nodes_text}", "dim"))


def _kind(reason: str) -> str:
    return next((kind for pattern, kind in _SAME_REASON if pattern.match(reason)), reason)


def not_seen(page: TextPage, reports: Sequence[NodeReport], fold: Fold, *, every: bool) -> None:
    """The probes that need root and were not seen, and where wedged ones cannot be remembered."""
    said: dict[tuple[int, tuple[str, ...]], list[str]] = {}
    forgetful: dict[str, list[str]] = {}
    for report in reports:
        if report.probes is not None and report.probes.denied:
            said.setdefault((report.probes.asked, report.probes.denied), []).append(report.node)
        if report.probes is not None and report.probes.run_folder:
            forgetful.setdefault(clean(report.probes.run_folder), []).append(report.node)
    for (asked, denied), nodes in said.items():
        verbs = "needs root and was" if len(denied) == 1 else "need root and were"
        named = f": {', '.join(denied)}" if every or len(denied) <= _MOST_BEFORE else ""
        page.line((f"{len(denied)} of {asked} probes {verbs} not seen{named}  {fold(nodes)}", "dim"))
    for reason, nodes in forgetful.items():
        page.line("no wedged probe can be remembered, so each sweep starts it again: "
                  f"{reason}  {fold(nodes)}")


def counts(reports: Sequence[NodeReport]) -> tuple[int, int]:
    """How many rules were skipped on some node, and how many have a gap or a note on one."""
    skipped, noted = set(), set()
    for report in reports:
        for result in report.results:
            status = result.status
            if status is Status.SKIPPED:
                skipped.add(result.rule)
            elif status is Status.PASS:
                if result.reason:
                    noted.add(result.rule)
            elif status is Status.UNKNOWN and (
                    result.severity is Severity.INFO or (is_explained(result) and rest(result))):
                noted.add(result.rule)
    return len(skipped), len(noted)
