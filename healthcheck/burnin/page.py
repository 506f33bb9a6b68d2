"""The burn-in page: verdict, accusations, what to type next, what was measured, and what was not."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from healthcheck.burnin import faults, limits, sizes
from healthcheck.burnin.document import Burnin
from healthcheck.burnin.fabricresult import FabricCoverage
from healthcheck.burnin.judgement import BurnInOutcome, JudgedFigure, NodeOutcome
from healthcheck.burnin.merged import behind, node_of, task_of
from healthcheck.burnin.model import Accusation, BurnInStage, Object, TaskResult
from healthcheck.burnin.published import BY_SIZE, GLOO, Setting, bytes_of
from healthcheck.burnin.setting import measures
from inventory.reasons import fold_reasons
from inventory.text import clean, listed
from inventory.times import millisecond

if TYPE_CHECKING:
    from rich.console import Console

Fold = Callable[[Iterable[str]], str]
Line = Callable[..., None]
_STYLE = {BurnInOutcome.PASS: "bold green", BurnInOutcome.FAIL: "bold red",
          BurnInOutcome.UNKNOWN: "bold magenta"}
_WORDS = {BurnInOutcome.PASS: "pass", BurnInOutcome.FAIL: "fail", BurnInOutcome.UNKNOWN: "unknown"}
_KEY = 9
_ORDER = [stage.value for stage in BurnInStage]
_HEAD = ("STAGE", "WORK", "TASKS", "WHOLE", "TIME", "CHECKS")
_FIGURES = ("STAGE", "FIGURE", "ON", "MEASURED", "MEDIAN", "LEAST", "FLOOR", "FROM")
_SIZES = ("STAGE", "ALL-REDUCE", "SIZE", "MEASURED", "MEDIAN US", "LONGEST", "CEILING", "GB/S", "FLOOR",
          "NCCL CHOSE")


def render(console: Console, burnin: Burnin, fold: Fold) -> None:
    """Prints the page. Text of nodes is never markup: every line is a Text of cleaned pieces."""
    from rich.text import Text

    def line(*pieces: str | tuple[str, str]) -> None:
        console.print(Text.assemble(*pieces), soft_wrap=True, highlight=False)

    _verdict(line, burnin)
    _accused(line, burnin, fold)
    _nodes(line, burnin.judgement.outcomes, fold)
    _stages(line, burnin.burnt.results)
    _figures(line, burnin.judgement.held)
    _sizes(line, burnin)
    _links(line, burnin.burnt.fabric)
    _not_measured(line, burnin, fold)


def verdict_line(burnin: Burnin) -> str:
    """The first line: the verdict, which burn-in, and how many nodes."""
    counts = {kind: sum(one.outcome is kind for one in burnin.judgement.outcomes) for kind in BurnInOutcome}
    lines = [f"{count} {_WORDS[kind]}" for kind, count in counts.items() if count]
    more = ""
    if burnin.judgement.accusations and not counts[BurnInOutcome.FAIL]:
        more = "; something failed, but no node is named for it"
    nodes = len(burnin.judgement.outcomes)
    span = _span(burnin.ended - burnin.began)
    return (f"burn-in {clean(burnin.run, 80)} ({clean(burnin.length, 20)}), {nodes} "
            f"node{'s' * (nodes != 1)}, {span} from "
            f"{millisecond(burnin.began)[:16].replace('T', ' ')} UTC: {', '.join(lines) or 'no node'}{more}")


def next_step(one: Accusation, burnin: Burnin, fold: Fold) -> str:
    """What to type next about an accusation."""
    node = node_of(one)
    if node is not None and one.fault in (faults.LOST, faults.ABSENT):
        return f"muster check {_word(node)}"
    if node is not None:
        return (f"muster cordon {_word(node)} --reason "
                f"{_word(f'burn-in {burnin.run}: {one.name}: {one.fault}')}")
    if one.object is Object.LEAF:
        nodes = behind(one.name, {place.node: place for place in burnin.burnt.places})
        return (f"muster check {_word(fold(nodes))} --only 'port-*'"
                if nodes else "muster check --only 'port-*'")
    if one.object is Object.LINK:
        return f"muster fabric check {_word(_first_node(one, burnin))}"
    if one.object is Object.PAIR:
        return f"muster burnin run {_word(fold(one.name.split(' - ')))}"
    tests = {one.name, *map(task_of, one.tests_for)}
    nodes = frozenset(name for result in burnin.burnt.results if result.task.id in tests
                      for name in result.task.nodes)
    return f"muster burnin run {_word(fold(nodes))}" if nodes else "muster burnin run NODES"


def _word(text: str) -> str:
    return shlex.quote(clean(text, 400))


def _verdict(line: Line, burnin: Burnin) -> None:
    verdict = burnin.judgement.verdict
    line((f"{verdict.value.upper()}", _STYLE[verdict]), "  ", (verdict_line(burnin), "bold"))


def _accused(line: Line, burnin: Burnin, fold: Fold) -> None:
    accusations = burnin.judgement.accusations
    for one in accusations[:limits.PAGE_ENTRIES]:
        line("")
        meaning = faults.MEANING.get(one.fault, "")
        sure = ", confirmed" if one.confirmed else ""
        line((f"{one.object.value} {clean(one.name, 200)}", "bold red" if one.object is not Object.UNEXPLAINED
              else "bold magenta"), f": {clean(one.fault, 60)}{sure}", f" ({meaning})" if meaning else "")
        _row(line, "why", clean(one.why, 800))
        for number, counted in enumerate(one.counted):
            _row(line, "" if number else "counters", clean(counted, 600))
        for key, tests in (("for", one.tests_for), ("against", one.tests_against)):
            if tests:
                _row(line, key, listed([clean(test, 80) for test in tests], limits.PAGE_TESTS))
        _row(line, "type", next_step(one, burnin, fold))
    if len(accusations) > limits.PAGE_ENTRIES:
        line("")
        line(f"and {len(accusations) - limits.PAGE_ENTRIES} more accusations; --format json has all")


def _row(line: Line, key: str, text: str) -> None:
    line(f"  {key:<{_KEY}}{text}")


def _nodes(line: Line, outcomes: Sequence[NodeOutcome], fold: Fold) -> None:
    line("")
    for kind in (BurnInOutcome.PASS, BurnInOutcome.UNKNOWN, BurnInOutcome.FAIL):
        names = [one.node for one in outcomes if one.outcome is kind]
        if names:
            line((f"{kind.value:<9}", _STYLE[kind]), f"  {len(names):>5}  {fold(names)}")


def _stages(line: Line, results: Sequence[TaskResult]) -> None:
    """Tasks of each stage and kind: engine, number, how many whole, time, and the median share of checks."""
    of: dict[tuple[str, str], list[TaskResult]] = defaultdict(list)
    for result in results:
        engine = next((clean(name, 60) for report in result.reports
                       if (name := report.facts.get("engine"))), "")
        of[result.task.stage.value,
           f"{result.task.kind.value} ({engine})" if engine else result.task.kind.value].append(result)
    rows = []
    for (stage, kind), group in sorted(of.items(), key=lambda item: _ORDER.index(item[0][0])):
        seconds = max(one.ended for one in group) - min(one.began for one in group)
        shares = [share for one in group for report in one.reports
                  if (share := report.figures.get("check_share")) is not None]
        rows.append((stage, kind, str(len(group)), str(sum(one.whole for one in group)), _span(seconds),
                     f"{median(shares):.1%}" if shares else "-"))
    _table(line, _HEAD, rows, left=2)


def _span(seconds: float) -> str:
    return (f"{max(0.0, seconds):.0f} s" if seconds < 120
            else f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h")


def _figures(line: Line, held: Sequence[JudgedFigure]) -> None:
    rows = []
    single = [one for one in held if one.setting.figure != BY_SIZE]
    for one in sorted(single, key=lambda one: (_ORDER.index(one.setting.stage), one.setting)):
        at = one.setting
        on = f"{at.nodes} x {at.gpus}" + (f", {bytes_of(at.size)} {clean(at.mount, 60) or at.algo}"
                                          if at.size else "")
        alone = "equals alone" if one.equals else "not judged"
        floor, origin = ((f"{one.floor.least:.4g}", one.floor.origin)
                         if one.floor is not None else ("-", alone))
        rows.append((at.stage, at.figure, on, str(one.n), f"{one.median:.4g}", f"{one.least:.4g}", floor,
                     origin))
    _table(line, _FIGURES, rows, left=3)


def _sizes(line: Line, burnin: Burnin) -> None:
    """What sweeps showed, a row for each size; a floor of the bandwidth is a ceiling of the time."""
    places = {place.node: place for place in burnin.burnt.places}
    tasks = {result.task.id: result for result in burnin.burnt.results}
    of: dict[Setting, list[TaskResult]] = defaultdict(list)
    for one in measures(burnin.burnt.results, places, burnin.burnt.hardware):
        if one.setting.figure == BY_SIZE:
            of[one.setting].append(tasks[one.task])

    def place(one: JudgedFigure) -> tuple[int, Setting, int]:
        return _ORDER.index(one.setting.stage), replace(one.setting, size=0), one.setting.size

    rows = []
    for held in sorted((one for one in burnin.judgement.held if one.setting in of), key=place):
        at = held.setting
        row = next(row for row in sizes.rows(of[at]) if row.size == at.size)
        us, least = row.median * 1e6, held.floor.least if held.floor is not None else 0.0
        chose = "gloo" if at.backend == GLOO else clean(row.chose, 60) or "not known"
        ceiling, floor = (_number(us * held.median / least), _number(least)) if least else ("-", "-")
        rows.append((at.stage, f"{at.nodes} x {at.gpus}, {at.algo}", bytes_of(at.size), str(held.n),
                     _number(us), _number(row.longest * 1e6), ceiling, _number(held.median), floor, chose))
    _table(line, _SIZES, rows, left=2)


def _first_node(one: Accusation, burnin: Burnin) -> str:
    """A node that sees the fabric of an accused link: one of its tests."""
    tests = set(map(task_of, one.tests_for))
    return next((result.task.nodes[0] for result in burnin.burnt.results if result.task.id in tests), "NODE")


def _links(line: Line, covered: FabricCoverage | None) -> None:
    """What a link burn loaded, and by name what it is not proven to have loaded."""
    if covered is None:
        return
    by = "as expected of adaptive routing" if covered.adaptive else "by the forwarding tables"
    line("")
    line((f"links: {covered.proven} of {covered.links} proven to carry {covered.share:.0%} each way, {by}; "
          f"{covered.rounds} round{'s' * (covered.rounds != 1)}, {covered.pairs} "
          f"pair{'s' * (covered.pairs != 1)} of {covered.means.value}", "bold"))
    if covered.counters:
        line(f"  counters not compared: {clean(covered.counters, 200)}")
    lines = [f"  not proven: {clean(link, 200)}: {clean(why, 200)}" for link, why in covered.unproven]
    lines += [f"  slow, and others were fast over the same links; not measured again: {clean(test, 200)}"
              for test in covered.noise]
    lines += [f"  slow once, and fast when it was measured again: {clean(test, 200)}"
              for test in covered.chance]
    _first(line, lines)


def _first(line: Line, lines: Sequence[str]) -> None:
    for text in lines[:limits.REASONS]:
        line(text)
    if len(lines) > limits.REASONS:
        line(f"  and {len(lines) - limits.REASONS} more; --format json has all")


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _table(line: Line, head: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> None:
    """Aligned columns: text to the left, numbers to the right."""
    if not rows:
        return
    line("")
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]
    text = {*range(left), *([len(head) - 1] if not rows[0][-1].replace(".", "").isdigit() else [])}
    for number, row in enumerate((head, *rows)):
        cells = [f"{cell:<{width}}" if at in text else f"{cell:>{width}}"
                 for at, (cell, width) in enumerate(zip(row, widths, strict=True))]
        line(("  ".join(cells).rstrip(), "bold" if not number else ""))


def _not_measured(line: Line, burnin: Burnin, fold: Fold) -> None:
    """What no pass covers: why nodes are unknown, and what was not judged."""
    lines = [f"  {fold(each.nodes)}: {clean(each.text, 300)}" for each in fold_reasons(
        (one.node, why) for one in burnin.judgement.outcomes
        for why in (one.why if one.outcome is BurnInOutcome.UNKNOWN else ()))]
    lines += [f"  {clean(remark, 300)}" for remark in burnin.judgement.remarks]
    if lines:
        line("")
        line(("not measured, or not judged:", "bold"))
    _first(line, lines)
