"""Chooses who is screened: idle nodes in service, the longest unproven first, within a budget. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from healthcheck.burnin import rounds, stages
from healthcheck.burnin.model import BurnInStage, Participant
from healthcheck.burnin.rounds import Round, Sites
from healthcheck.burnin.stages import BurnInWork
from provisioning.burnin import ramp
from provisioning.burnin.ramp import PowerLimits

# To log in, to import PyTorch, to look at counters before and after, and to leave.
AROUND_S = 60.0
_ROUNDS = 2         # of pairs in a leaf, in a screening
_HOUR, _DAY = 3600.0, 86400.0


@dataclass(frozen=True)
class Candidate:
    """A node, when it was last proven by a certificate or a screening, and when it was last tried (epoch
    seconds, None for never). `refused` is why it cannot be screened now, else ""; only then `place` may be
    None."""

    node: str
    place: Participant | None
    proven: float | None
    tried: float | None
    refused: str = ""


@dataclass(frozen=True)
class ScreeningBudget:
    """At most `nodes` at a time, `node_hours` in all, within `power`; each node is expected to take
    `seconds`. Those from which screenings keep jobs (`held`) count as nodes, so that no number of screenings
    isolates more: beyond that someone has to look."""

    nodes: int
    node_hours: float
    power: PowerLimits
    seconds: float
    held: int = 0


@dataclass(frozen=True)
class Choice:
    """The nodes to screen in the order of their choice, by neighbour the node that it is there for, and by
    every other node why it is not screened."""

    chosen: tuple[str, ...]
    neighbours: Mapping[str, str]
    left: Mapping[str, str]


def choose(
    candidates: Iterable[Candidate], budget: ScreeningBudget, now: float, days: float, waits: str = "",
) -> Choice:
    """Those that were not proven for `days`, in the order of when that was, or when they were last tried. A
    node with no chosen neighbour gets an idle one beside it if there is room for both, though that one was
    proven lately: alone, no link that leaves it is tested. Nothing is chosen where a job `waits` for
    nodes."""
    left: dict[str, str] = {}
    fit: list[Candidate] = []
    gives_way = f"screening gives way: {waits}" if waits else ""
    for one in sorted(candidates, key=lambda one: (max(one.proven or 0.0, one.tried or 0.0), one.node)):
        if why := one.refused or gives_way or _unpowered(one, budget.power):
            left[one.node] = why
        else:
            fit.append(one)
    places = {one.node: one.place for one in fit if one.place is not None}
    near = Sites(places.values()).near
    due = {one.node for one in fit if one.proven is None or now - one.proven >= days * _DAY}
    # Who is due anyway makes the better neighbour.
    beside = sorted(places, key=lambda node: node not in due)
    taken: list[str] = []
    neighbours: dict[str, str] = {}
    for one in fit:
        if one.node in taken:
            continue
        if one.node not in due:
            ago = (now - (one.proven or now)) / _DAY
            left[one.node] = f"proven {ago:.1f} days ago, which holds for {days:g}"
            continue
        if why := _over([places[node] for node in (*taken, one.node)], budget):
            left[one.node] = why
            continue
        alone = not any(near[node] == near[one.node] for node in taken)
        taken.append(one.node)
        other = next((node for node in beside if near[node] == near[one.node] and node not in taken), None)
        if alone and other is not None and not _over([places[node] for node in (*taken, other)], budget):
            taken.append(other)
            neighbours[other] = one.node
    return Choice(tuple(taken), neighbours, {node: why for node, why in left.items() if node not in taken})


def seconds(places: Iterable[Participant], work: BurnInWork) -> float:
    """For how long nodes are taken, roughly and rather too long; 0 where there is none."""
    kinds = {replace(one, node="a", leaf=None, domain=None, power=None) for one in places}
    return max((_seconds(one, work) for one in kinds), default=0.0)


def _seconds(one: Participant, work: BurnInWork) -> float:
    both = {"a": one, "b": replace(one, node="b")}
    pairs = stages.pairs(Round(BurnInStage.LEAF_PAIRS, 1, (rounds.pair("a", "b"),)), both, work)
    return AROUND_S + sum(step.seconds for step in stages.alone([one], work)) + _ROUNDS * pairs.seconds


def _unpowered(one: Candidate, power: PowerLimits) -> str:
    if power.bounded and one.place is not None and one.place.watts is None:
        return ("what it draws at most is not known, and power is limited: set it in the inventory (burnin: "
                "{watts: 10200}), or give it a SKU that has power_limit_watts")
    return ""


def _over(places: Sequence[Participant], budget: ScreeningBudget) -> str:
    """Why these are too many, or ""."""
    if len(places) + budget.held > budget.nodes:
        held = (f", and screenings keep jobs from {budget.held} already: see muster cordon" if budget.held
                else "")
        return (f"no room in the budget: at most {budget.nodes} node{'s' * (budget.nodes != 1)} at a "
                f"time{held}")
    if len(places) * budget.seconds > budget.node_hours * _HOUR:
        return f"no room in the budget: {budget.node_hours:.3g} node-hours are left"
    if why := ramp.over(places, budget.power):
        return f"no room in the budget: {why}"
    return ""
