"""A screening as text and as muster.screen/1: which nodes are chosen, why others are not, and the outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from healthcheck.burnin.document import Burnin
from inventory.text import clean
from inventory.times import millisecond
from provisioning.burnin.screening import Candidate, Choice, ScreeningBudget

SCHEMA = "muster.screen/1"
_DAY = 86400.0
_MOST = 20

Fold = Callable[[Iterable[str]], str]


@dataclass(frozen=True)
class Screening:
    """What was decided at `at` (epoch seconds). `used` are the node-hours of the 24 hours before; `waits`
    says which job waits, "" where none does."""

    at: float
    candidates: Mapping[str, Candidate]
    choice: Choice
    budget: ScreeningBudget
    used: float
    waits: str = ""


def lines(one: Screening, fold: Fold) -> Iterator[str]:
    """The plan: each chosen node, then the others by why they are not chosen."""
    chosen, budget = one.choice.chosen, one.budget
    many = f"{len(chosen)} of {len(one.candidates)} node{'s' * (len(one.candidates) != 1)}"
    hours = len(chosen) * budget.seconds / 3600
    cost = f", about {budget.seconds / 60:.0f} min, {hours:.2g} node-hours{_kw(one)}"
    yield f"to be screened: {many}{cost if chosen else ''}"
    yield (f"budget: {budget.node_hours:.3g} node-hours are left, {one.used:.2g} were used in the last 24 "
           "hours")
    width = max(map(len, chosen), default=0)
    for name in chosen:
        beside = one.choice.neighbours.get(name)
        more = f", as a neighbour for {beside}" if beside is not None else ""
        yield f"  {name.ljust(width)}  {_age(one.candidates[name], one.at)}{more}"
    reasons: dict[str, list[str]] = {}
    for name, why in one.choice.left.items():
        reasons.setdefault(clean(why, 300), []).append(name)
    if reasons:
        yield "not now:"
    for why, names in sorted(reasons.items(), key=lambda item: -len(item[1]))[:_MOST]:
        yield f"  {fold(names)}: {why}"
    if len(reasons) > _MOST:
        yield f"  and {len(reasons) - _MOST} more reasons: --format json"


def document(one: Screening, burnin: Burnin | None = None, gave_way: str = "") -> dict[str, Any]:
    """All of it, with what came of it where it was carried out (measurements: that run's document)."""
    budget, power = one.budget, one.budget.power
    outcomes = burnin.judgement.outcomes if burnin is not None else ()
    return {
        "schema": SCHEMA, "at": millisecond(one.at), "waits": clean(one.waits, 300) or None,
        "seconds": round(budget.seconds, 1),
        "budget": {
            "nodes": budget.nodes, "node_hours_left": round(budget.node_hours, 3),
            "node_hours_used": round(one.used, 3), "max_kw": power.max_kw, "domain_kw": power.domain_kw},
        "chosen": [{
            "node": name, "proven": _iso(one.candidates[name].proven),
            "tried": _iso(one.candidates[name].tried),
            "neighbour_of": one.choice.neighbours.get(name)} for name in one.choice.chosen],
        "left": [{"node": name, "why": clean(why, 300)} for name, why in sorted(one.choice.left.items())],
        "run": burnin.run if burnin is not None else None,
        "verdict": burnin.judgement.verdict.value if burnin is not None else None,
        "gave_way": clean(gave_way, 300) or None,
        "nodes": [
            {"node": each.node, "outcome": each.outcome.value, "why": [clean(why, 300) for why in each.why]}
            for each in outcomes]}


def _age(one: Candidate, now: float) -> str:
    proven = f"proven {(now - one.proven) / _DAY:.1f} days ago" if one.proven is not None else "never proven"
    if one.tried is not None and one.tried > (one.proven or 0.0):
        return f"{proven}, last tried {(now - one.tried) / _DAY:.1f} days ago"
    return proven


def _kw(one: Screening) -> str:
    places = [one.candidates[name].place for name in one.choice.chosen]
    watts = [place.watts for place in places if place is not None and place.watts is not None]
    return f", at most {sum(watts) / 1000:.1f} kW" if len(watts) == len(places) else ""


def _iso(seconds: float | None) -> str | None:
    return millisecond(seconds) if seconds is not None else None
