"""The table of a sweep's results. Equal nodes are folded;
each sick one has observed and expected values and a remedy."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from healthcheck.model.cause import RootCause, causes, is_explained, many, rest
from healthcheck.model.outcome import (
    Finding,
    NodeReport,
    NodeState,
    Origin,
    Owner,
    Result,
    Severity,
    Status,
    origin_of,
)
from healthcheck.ruleset.rule import Rule
from healthcheck.ruleset.sku import Sku
from healthcheck.sweep.assess import Assessed
from inventory.reasons import fold_reasons
from inventory.text import clean

if TYPE_CHECKING:
    from rich.console import Console

Fold = Callable[[Sequence[str]], str]
_STYLE = {
    NodeState.HEALTHY: "green", NodeState.DEGRADED: "yellow", NodeState.UNHEALTHY: "bold red",
    NodeState.UNKNOWN: "magenta",
}
_ORDER = (NodeState.HEALTHY, NodeState.DEGRADED, NodeState.UNKNOWN, NodeState.UNHEALTHY)
_MOST_FINDINGS = 8
# With more rules in front, the reason is hard to find.
_MOST_BEFORE = 6


@dataclass(frozen=True)
class Heading:
    """The first line: number and source of nodes, seconds, and whether the sweep was interrupted."""

    source: str
    seconds: float
    partial: bool
    rules: int


def render(
    console: Console, assessed: Assessed, rules: Mapping[str, Rule], heading: Heading, fold: Fold,
) -> None:
    """Prints the page. Node output is never markup: every line is a Text object of cleaned pieces."""
    from rich.text import Text

    reports = tuple(report for report in assessed.reports if report.agent is None)
    left_out = [report.node for report in assessed.reports if report.agent is not None]
    learned = assessed.provisional

    def line(*pieces: str | tuple[str, str]) -> None:
        console.print(Text.assemble(*pieces), soft_wrap=True, highlight=False)

    partial = ", interrupted: PARTIAL" if heading.partial else ""
    line((f"{_count(len(assessed.reports), 'node')} ({clean(heading.source)}), {heading.rules} rules, "
          f"{heading.seconds:.1f} s{partial}", "bold"))
    if learned is not None:
        _print_learned(line, learned, assessed.looks_like)
    line("")
    for state in _ORDER:
        names = [report.node for report in reports if report.state is state]
        if names:
            line((f"{state.value:<9}", _STYLE[state]), f"  {len(names):>5}  {fold(names)}")
    if left_out:
        line(("not visited", _STYLE[NodeState.HEALTHY]), f"  {len(left_out):>3}  {fold(left_out)}: healthy "
             "by their agents' metrics alone")
    for state in reversed(_ORDER[1:]):
        found = [report for report in reports if report.state is state]
        # Where something failed, before nodes of this state that could not be measured only.
        found.sort(key=lambda report: all(one.status is not Status.FAIL for one in _relevant(report)))
        for group in _equal([report for report in found if _relevant(report)]):
            line("")
            _print_group(line, group, rules, fold)
        _print_unmeasured(line, [report for report in found if not _relevant(report)])
    infos = [r for r in reports if r.state is NodeState.HEALTHY and _relevant(r)]
    for group in _equal(infos):
        line("")
        _print_group(line, group, rules, fold)
    _print_not_judged(line, reports, fold)
    _print_not_seen(line, reports, fold)
    if learned is not None:
        _print_difference(line, reports, fold)


Line = Callable[..., None]


def _print_learned(line: Line, learned: Sku, looks_like: str | None) -> None:
    # Some come from a node: the name of its GPUs.
    shown = {name: f"{value:g}" if isinstance(value, float) else clean(value, 80)
             for name, value in learned.numbers.items()}
    numbers = ", ".join(f"{name} {value}" for name, value in shown.items())
    if numbers:
        line((f"No SKU was named, so all nodes are expected to be like the majority: {numbers}", "yellow"))
    elif looks_like is not None:
        line((f"No SKU was named. This looks like {looks_like}: add --sku {looks_like} to judge by it",
              "yellow"))
    else:
        line(("No SKU was named, and too few nodes agree to learn one: name one with --sku or `sku:` in the "
              "inventory", "yellow"))


def _print_difference(line: Line, reports: Sequence[NodeReport], fold: Fold) -> None:
    """The nodes that differ from the majority, and in which rules."""
    looks = {report.node: _signature(report) for report in reports}
    measured = [looks[report.node] for report in reports if report.results]
    if not measured:
        return
    usual, number = Counter(measured).most_common(1)[0]
    different = [node for node, signature in looks.items() if signature != usual]
    if not different or 2 * number <= len(reports):
        return
    line("")
    who = "this one differs" if len(different) == 1 else f"these {len(different)} differ"
    line((f"{who} from the other {number}, in this:", "bold"))
    ways: dict[str, list[str]] = {}
    for node in different:
        own = looks[node]
        ids = sorted(
            {rule for rule, status in (own if any(not status for _, status in own) else own ^ usual)})
        ways.setdefault(", ".join(ids), []).append(node)
    for way, nodes in ways.items():
        line(f"  {fold(nodes)}: {way}")


def _signature(report: NodeReport) -> frozenset[tuple[str, str]]:
    if not report.results:
        return frozenset({(f"not measured ({report.stage or 'not finished'})", "")})
    # INFO does not make a node differ from its peers.
    return frozenset((r.rule, r.status.value) for r in report.results if r.status is not Status.PASS
                     and r.severity is not Severity.INFO and not is_explained(r))


# Reasons that vary by rule but mean the same: there may be dozens of such rules.
_SAME_REASON = (
    (re.compile("not supported: "), "not supported on these nodes"),
    (re.compile("disabled in "), "disabled in their rules files"),
    (re.compile("the SKU .* is not judged$|there are no .*, as the SKU says$"),
     "the SKU says so: there is none, or it is not judged"),
)


def _print_not_judged(line: Line, reports: Sequence[NodeReport], fold: Fold) -> None:
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
            elif _own_and_harmless(result):
                said.setdefault(("unknown", result.reason), {}).setdefault(result.rule, []).append(
                    report.node)
            elif result.status is Status.PASS and result.reason:
                said.setdefault(("passed, but", result.reason), {}).setdefault(result.rule, []).append(
                    report.node)
    if said:
        line("")
    for (what, reason), rules in said.items():
        groups: dict[str, list[str]] = {}
        for rule, nodes in rules.items():
            groups.setdefault(fold(nodes), []).append(rule)
        for nodes_text, ids in groups.items():
            if len(ids) > _MOST_BEFORE:
                line((f"{what}  {reason}  {nodes_text}", "dim"))
                line((f"    {len(ids)} rules: {', '.join(ids)}", "dim"))
            else:
                line((f"{what}  {', '.join(ids)}: {reason}  {nodes_text}", "dim"))


def _kind(reason: str) -> str:
    return next((kind for pattern, kind in _SAME_REASON if pattern.match(reason)), reason)


def _print_not_seen(line: Line, reports: Sequence[NodeReport], fold: Fold) -> None:
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
        line((f"{len(denied)} of {asked} probes {verbs} not seen: {', '.join(denied)}  {fold(nodes)}", "dim"))
    for reason, nodes in forgetful.items():
        line(f"no wedged probe can be remembered, so each sweep starts it again: {reason}  {fold(nodes)}")


def _print_unmeasured(line: Line, reports: Sequence[NodeReport]) -> None:
    """Nodes that were not reached or measured, so that no result gives a reason: each reason once."""
    for serving in (True, False):
        those = [report for report in reports if report.in_service is serving]
        for folded in fold_reasons((report.node, clean(report.reason, 1000)) for report in those):
            state = those[0].state
            line("")
            line((folded.names, "bold"), "  ", (state.value, _STYLE[state]), _outside(serving))
            origins = {origin_of(report) for report in those if report.node in folded.nodes}
            ours = " (muster)" if origins == {Origin.MUSTER} else ""
            line(f"  {clean(folded.text, 2000)}{ours}")


def _outside(in_service: bool) -> str:
    return "" if in_service else "  (not in service: does not count in the exit code)"


def _print_group(line: Line, group: Sequence[NodeReport], rules: Mapping[str, Rule], fold: Fold) -> None:
    first = group[0]
    line((fold([report.node for report in group]), "bold"), "  ", (first.state.value, _STYLE[first.state]),
         _outside(first.in_service))
    relevant = _relevant(first)
    causing = {(cause.rule, cause.finding.subject): cause for cause in causes(first.results)}
    unknown: dict[tuple[str, str], list[str]] = {}
    for result in sorted(relevant, key=_rank):
        if result.status is Status.FAIL:
            _print_result(line, result, rules.get(result.rule), causing)
        elif not is_explained(result):
            unknown.setdefault((rest(result), result.origin.value if result.origin else ""),
                               []).append(result.rule)
    for (reason, origin), ids in unknown.items():
        if len(ids) <= _MOST_BEFORE:
            line("  ", ("UNKNOWN", "magenta"), f"  {', '.join(ids)}: {reason} ({origin})")
        else:
            line("  ", ("UNKNOWN", "magenta"), f"  {reason} ({origin})")
            line(f"      {len(ids)} rules: {', '.join(ids)}")


def _print_result(line: Line, result: Result, rule: Rule | None,
                  causing: Mapping[tuple[str, str], RootCause]) -> None:
    colour = {Severity.CRITICAL: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}[
        result.severity]
    line("  ", (result.severity.value.upper(), colour), f"  {result.rule}")
    for finding in result.findings[:_MOST_FINDINGS]:
        cause = causing.get((result.rule, finding.subject))
        if cause is not None and cause.finding == finding:
            line("      ", (cause.sentence, "bold"))
        else:
            line(f"      {finding.subject}: ", (str(finding.observed), "bold"),
                 f", expected {finding.expected}")
        if finding.remedy:
            line(f"        remedy{_whose(finding.owner)}: {finding.remedy}")
    if more := result.findings[_MOST_FINDINGS:]:
        line(f"      and {len(more)} more findings (--format json shows all)"
             f"{_because_of(result, more, causing)}")
    if reason := rest(result):
        line(f"      not judged: {reason}")
    if not result.findings or not all(finding.remedy for finding in result.findings[:_MOST_FINDINGS]):
        line(f"      remedy{_whose(result.owner)}: {result.remedy}")
    if rule is not None:
        line((f"      source: {rule.source}", "dim"))


def _because_of(result: Result, findings: Sequence[Finding],
                causing: Mapping[tuple[str, str], RootCause]) -> str:
    """How many rules cannot be judged because of these findings, which are not shown."""
    rules = {rule for finding in findings
             if (cause := causing.get((result.rule, finding.subject))) is not None for rule in cause.rules}
    return f"; {many(rules)} cannot be judged for them" if rules else ""


def _whose(owner: Owner | None) -> str:
    return f" ({owner.value})" if owner is not None else ""


def _relevant(report: NodeReport) -> list[Result]:
    return [result for result in report.results
            if result.status in (Status.FAIL, Status.UNKNOWN) and not _own_and_harmless(result)]


def _own_and_harmless(result: Result) -> bool:
    """Something of muster's own is missing on all nodes, without effect on their state:
    one line is enough."""
    return (result.status is Status.UNKNOWN and result.severity is Severity.INFO
            and result.origin is Origin.MUSTER)


def _rank(result: Result) -> tuple[int, int, str]:
    severities = (Severity.CRITICAL, Severity.WARNING, Severity.INFO)
    return (result.status is Status.UNKNOWN, severities.index(result.severity), result.rule)


def _equal(reports: Sequence[NodeReport]) -> list[list[NodeReport]]:
    """Groups of nodes with equal results, in the order of their first nodes."""
    groups: dict[object, list[NodeReport]] = {}
    for report in reports:
        groups.setdefault((tuple(_relevant(report)), report.in_service), []).append(report)
    return list(groups.values())


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
