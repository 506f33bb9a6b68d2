"""A change as lines of text: what stands, what was judged, which ring is next."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from healthcheck.change.chance import ALPHA
from healthcheck.change.figures import lacking as lacking_figures
from healthcheck.change.model import (
    FIGURES,
    LOG,
    RESULTS,
    ChangeJudgement,
    ChangeVerdict,
    Compared,
    Grade,
    NodeStanding,
    SiteChange,
)
from inventory.text import clean, many
from inventory.times import minute

Fold = Callable[[Iterable[str]], str]

_HEADS = ((Grade.WORSE, "worse"), (Grade.UNCLEAR, "not known"), (Grade.NOISE, "noise"),
          (Grade.SAME, "as before"))
_SHOWN = 12
_NAMES = 120
NEXT = "muster.change-next/1"


def began(change: SiteChange, fold: Fold) -> Iterator[str]:
    """What `muster change start` and `show` print of the change itself."""
    yield f"change {change.name}, begun {minute(change.began)} by {clean(change.who, 80)}"
    yield f"  canary    {_names(change.canary, fold)} ({many(len(change.canary), 'node')})"
    yield (f"  controls  {_names(change.controls, fold)} ({many(len(change.controls), 'node')}), "
           f"{clean(change.chosen, 200)}")
    for number, ring in enumerate(change.rings, 1):
        yield f"  ring {number:<4} {_names(ring, fold)} ({many(len(ring), 'node')})"
    before = change.before
    times = [one.time for one in before.nodes.values() if not one.missing]
    age = f", {_span(change.began - min(times))} to {_span(change.began - max(times))} old" if times else ""
    yield f"  before    {clean(before.source, 300)}{age}"
    wrong = sum(len(one.failing) for one in before.nodes.values())
    yield (f"            {many(len(times), 'snapshot')} of {len(before.nodes)} nodes, "
           f"{many(wrong, 'failing rule')}; {many(len(before.forms), 'form')} of log lines; "
           f"{many(len({one.figure for one in before.figures}), 'figure')} of "
           f"{many(len(before.runs), 'burn-in')}")
    if change.without:
        yield f"  without   {clean(', '.join(change.without), 300)}: not judged, as was chosen at the start"
    yield from (f"  not measured: {line}" for line in unmeasured(change, fold))


def unmeasured(change: SiteChange, fold: Fold) -> Iterator[str]:
    """What was not measured before, without which the change cannot pass; a line for each reason."""
    for key, reason in ((RESULTS, lambda one: one.missing), (LOG, _no_log)):
        if not change.leaves_out(key):
            yield from _reasons(key, change, reason, fold)
    burnt = {node for one in change.before.figures for node in one.nodes}
    lacking = [node for node in (*change.canary, *change.controls) if node not in burnt]
    if lacking and not change.leaves_out(FIGURES):
        yield (f"figures of {_names(lacking, fold)}: no burn-in before the change (muster burnin run); or "
               "leave them out: --without figures")
    wanted = [one for one in change.before.figures if not change.leaves_out(f"{FIGURES}/{one.figure}")]
    if not change.leaves_out(FIGURES):
        for name, why, nodes in lacking_figures(wanted, frozenset(change.canary) - set(lacking)):
            yield (f"figures of {_names(nodes, fold)}: {clean(name, 100)} {why}; or leave it out: --without "
                   f"{shlex.quote(clean(f'{FIGURES}/{name}', 150))}")


def _no_log(one: NodeStanding) -> str:
    return "" if one.log is not None else one.missing or one.unlogged or "it was not read"


def _reasons(
    what: str, change: SiteChange, reason: Callable[[NodeStanding], str], fold: Fold,
) -> Iterator[str]:
    found: dict[str, list[str]] = {}
    for name, one in change.before.nodes.items():
        if why := reason(one):
            found.setdefault(why, []).append(name)
    for why, names in sorted(found.items()):
        yield f"{what} of {_names(names, fold)}: {clean(why, 300)}"


def judged(change: SiteChange, one: ChangeJudgement, fold: Fold) -> Iterator[str]:
    """What `muster change judge` prints: the verdict, what got worse with its evidence, what is noise."""
    yield (f"change {change.name}: {one.verdict.value}, judged {minute(one.time)} on "
           f"{many(len(change.canary), 'canary node')} beside {many(len(change.controls), 'control')}")
    yield f"  since     {clean(one.after, 300)}"
    yield from (f"  {clean(remark, 400)}" for remark in one.remarks)
    for grade, title in _HEADS:
        group = [each for each in one.comparisons if each.grade is grade]
        if group:
            yield f"{title}: {len(group)}"
            yield from (f"  {_line(each, fold)}" for each in group[:_SHOWN])
            if len(group) > _SHOWN:
                yield f"  and {len(group) - _SHOWN} more: --format json"
    yield (f"A change that does nothing is called worse in about {ALPHA:.0%} of judgements: see muster help "
           "change.")


def last(change: SiteChange) -> str:
    """What to do next, by the newest verdict."""
    newest = change.newest
    if newest is None:
        return f"next: make the change on the canary, sweep again, then: muster change judge {change.name}"
    return {
        ChangeVerdict.PASSED: f"next: muster change next {change.name}",
        ChangeVerdict.WORSE: "next: take the change back on the canary; no ring is named",
        ChangeVerdict.UNCLEAR: (f"next: measure what is not known, then: muster change judge {change.name}; "
                                "no ring is named before it passed"),
    }[newest.verdict]


def next_ring(change: SiteChange, fold: Fold) -> dict[str, Any]:
    """The next ring as a document (muster.change-next/1): None where the change has not passed (`why`), and
    where none is left. `command` starts the ring as a change of its own, with the rings after it."""
    passed = change.newest is not None and change.newest.verdict is ChangeVerdict.PASSED
    why = "" if passed else ("it was not judged" if change.newest is None
                             else f"its newest verdict is: {change.state}")
    ring = change.rings[0] if passed and change.rings else None
    command = None
    if ring is not None:
        words = ["muster", "change", "start", _next_name(change.name), "--nodes", fold(ring)]
        for each in change.rings[1:]:
            words += ["--ring", fold(each)]
        if not change.rings[1:]:
            words.append("--no-rings")
        for glob in change.without:
            words += ["--without", glob]
        command = shlex.join(words)
    return {"schema": NEXT, "name": change.name, "state": change.state, "passed": passed, "why": why,
            "ring": list(ring) if ring is not None else None, "left": len(change.rings) if passed else None,
            "command": command}


def _next_name(name: str) -> str:
    """driver -> driver.2 -> driver.3"""
    stem, dot, number = name.rpartition(".")
    if dot and stem and number.isdecimal() and len(number) < 4:
        return f"{stem}.{int(number) + 1}"
    return f"{name[:75]}.2"


def table(changes: Iterable[SiteChange], fold: Fold) -> Iterator[str]:
    """One line for each change."""
    for change in changes:
        yield (f"{change.name:<24} {change.state:<12} begun {minute(change.began)} by "
               f"{clean(change.who, 40)}; canary {_names(change.canary, fold)}")


def _line(one: Compared, fold: Fold) -> str:
    where = f"  [{_names(one.nodes, fold)}]" if one.nodes else ""
    return f"{clean(one.words, 600)}{where}"


def _names(nodes: Iterable[str], fold: Fold) -> str:
    names = list(nodes)
    folded = fold(names) if names else "none"
    return folded if len(folded) <= _NAMES else f"{names[0]} and {len(names) - 1} more"


def _span(seconds: float) -> str:
    minutes = int(max(0.0, seconds) // 60)
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 2880 else f"{minutes // 1440} d"
