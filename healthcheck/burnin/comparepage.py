"""Two burn-ins beside each other: as lines of text, and as the document muster.burnin-compare/1."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from healthcheck.burnin import limits
from healthcheck.burnin.compare import CONFIDENCE, ComparedFigure, Comparison, Difference, FigureChange
from healthcheck.burnin.published import BY_SIZE, Setting, bytes_of
from inventory.text import clean

SCHEMA = "muster.burnin-compare/1"

Fold = Callable[[Iterable[str]], str]


def lines(found: Comparison, fold: Fold) -> Iterator[str]:
    """What people read: what was changed, what became slower or faster, then all that is the same."""
    yield f"before: {clean(found.before, 80)}   after: {clean(found.after, 80)}"
    for difference in found.differences[:limits.PAGE_ENTRIES]:
        yield _difference(difference, fold)
    if len(found.differences) > limits.PAGE_ENTRIES:
        yield f"  and {len(found.differences) - limits.PAGE_ENTRIES} more differences: --format json"
    if not found.differences:
        yield "  no version, option or variable differs"
    for title, change in (("slower", FigureChange.SLOWER), ("faster", FigureChange.FASTER),
                          ("no change larger than noise", FigureChange.SAME),
                          ("too few to tell a change from noise", FigureChange.TOO_FEW)):
        group = [one for one in found.figures if one.change is change]
        if group:
            yield f"{title}:"
            apart = [one for one in group if one.setting.figure != BY_SIZE
                     or change in (FigureChange.SLOWER, FigureChange.FASTER)]
            yield from (f"  {_figure(one)}" for one in sorted(apart, key=lambda one: one.share))
            yield from (f"  {line}" for line in _sweeps(one for one in group if one not in apart))
    fallen = [(one, name, share) for one in found.figures for name, share in one.fell]
    if fallen:
        yield "fell behind the others:"
        for one, name, share in fallen[:limits.PAGE_ENTRIES]:
            yield f"  {name}: {share:+.1%} where the others changed by {one.share:+.1%}: {one.setting}"
        if len(fallen) > limits.PAGE_ENTRIES:
            yield f"  and {len(fallen) - limits.PAGE_ENTRIES} more: --format json"
    for verdict in found.verdicts[:limits.PAGE_ENTRIES]:
        before, after = (clean(each.value) if each is not None else "took no part"
                         for each in (verdict.before, verdict.after))
        yield f"{clean(verdict.node, 120)}: {before} before, {after} after"
    for run, setting in found.only[:limits.PAGE_ENTRIES]:
        yield f"only in {clean(run, 80)}, so not compared: {setting}"
    if not found.figures:
        yield "the runs measured no subject in common"


def document(found: Comparison) -> dict[str, Any]:
    """The whole comparison for programs."""
    return {
        "schema": SCHEMA, "before": found.before, "after": found.after, "confidence": CONFIDENCE,
        "slower": found.slower,
        "figures": [{"setting": vars(one.setting), "change": one.change.value, "n": one.n,
                     "before": one.before, "after": one.after, "share": one.share, "low": one.low,
                     "high": one.high, "fell": [[name, share] for name, share in one.fell]}
                    for one in found.figures],
        "differences": [{"name": one.name, "before": one.before, "after": one.after, "nodes": list(one.nodes)}
                        for one in found.differences],
        "verdicts": [[one.node, *(None if each is None else each.value for each in (one.before, one.after))]
                     for one in found.verdicts],
        "only": [{"run": run, "setting": vars(setting)} for run, setting in found.only]}


def _difference(one: Difference, fold: Fold) -> str:
    where = f" on {fold(one.nodes)}" if one.nodes else ""
    return f"  {clean(one.name, 120)}: {clean(one.before, 200)} -> {clean(one.after, 200)}{where}"


def _sweeps(figures: Iterable[ComparedFigure]) -> Iterator[str]:
    """One line for each sweep, over those of its sizes."""
    of: dict[Setting, list[ComparedFigure]] = defaultdict(list)
    for one in figures:
        of[replace(one.setting, size=0)].append(one)
    for setting, group in of.items():
        shares, known = [one.share for one in group], sorted(one.setting.size for one in group)
        sizes = (f"{len(known)} sizes from {bytes_of(known[0])} to {bytes_of(known[-1])}"
                 if len(known) > 1 else bytes_of(known[0]))
        yield (f"{min(shares):+.1%} to {max(shares):+.1%}  {sizes}, {group[0].n} compared: {setting}, "
               f"{setting.algo}")


def _figure(one: ComparedFigure) -> str:
    bounds = "" if one.low is None or one.high is None else f" ({one.low:+.1%} to {one.high:+.1%})"
    return f"{one.share:+.1%}{bounds}  {one.before:.4g} -> {one.after:.4g}, {one.n} compared: {one.setting}"
