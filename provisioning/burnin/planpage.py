"""The plan of a burn-in: its steps, how long they take, what they draw; as text and muster.burnin-plan/1."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from healthcheck.burnin import stages
from healthcheck.burnin.model import BurnInStage, Participant
from healthcheck.burnin.ports import presumed
from healthcheck.burnin.stages import BurnInWork
from inventory.text import many
from provisioning.burnin import ramp
from provisioning.burnin.ramp import PowerLimits

_HEAD = ("STAGE", "STEP", "TASKS", "NODES", "WAVES", "MINUTES", "KW")


@dataclass(frozen=True)
class _PlannedStep:
    """One step, in as many waves as the power limits ask for; `kw` is None where it is not known."""

    stage: str
    step: str
    tasks: int
    nodes: int
    waves: int
    minutes: float
    kw: float | None


@dataclass(frozen=True)
class _BurnInPlan:
    """`kw` is the most that is drawn at once, None where it is not known."""

    nodes: int
    steps: tuple[_PlannedStep, ...]
    minutes: float
    kw: float | None
    notes: tuple[str, ...]


def _planned(
    places: Sequence[Participant], work: BurnInWork, wanted: Collection[BurnInStage], power: PowerLimits,
) -> _BurnInPlan:
    steps = stages.planned(places, replace(work, ports=presumed(places)), wanted)
    by_name = {place.node: place for place in places}
    rows, most, notes = [], 0.0, []
    for step in steps:
        parts = ramp.waves(step.tasks, by_name, power)
        notes += [f"{step.stage.value} cannot be run: {why}" for why in parts.refused.values()]
        spread = sum(max(ramp.starts(wave, by_name).values(), default=0.0) for wave in parts.waves)
        took = (len(parts.waves) * step.seconds + spread) / 60
        kw = max((_kw(ramp.drawn(wave, by_name)) for wave in parts.waves or (step.tasks,)), default=0.0)
        most = max(most, kw if parts.waves else 0.0)
        rows.append(_PlannedStep(step.stage.value, step.name, len(step.tasks), len(step.nodes),
                                 len(parts.waves), took, kw or None))
    return _BurnInPlan(len(places), tuple(rows), sum(row.minutes for row in rows), most or None,
                       (*dict.fromkeys(notes), *_unplanned(places, steps, wanted)))


def document(
    places: Sequence[Participant], work: BurnInWork, wanted: Collection[BurnInStage], power: PowerLimits,
) -> dict[str, Any]:
    """The plan as muster.burnin-plan/1."""
    plan = _planned(places, work, wanted, power)
    return {"schema": "muster.burnin-plan/1", "nodes": [place.node for place in places],
            "minutes": round(plan.minutes, 1), "kw": _rounded(plan.kw), "notes": list(plan.notes),
            "steps": [{**asdict(one), "minutes": round(one.minutes, 1), "kw": _rounded(one.kw)}
                      for one in plan.steps]}


def _rounded(kw: float | None) -> float | None:
    return round(kw, 1) if kw is not None else None


def lines(
    places: Sequence[Participant], work: BurnInWork, wanted: Collection[BurnInStage], power: PowerLimits,
) -> Iterator[str]:
    """The plan, line by line."""
    plan = _planned(places, work, wanted, power)
    rows = [_HEAD, *((one.stage, one.step, str(one.tasks), str(one.nodes), str(one.waves),
                      f"{one.minutes:.1f}", f"{one.kw:.1f}" if one.kw is not None else "?")
                     for one in plan.steps)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(_HEAD))]
    for row in rows:
        yield "  ".join(
            cell.ljust(widths[at]) if at < 2 else cell.rjust(widths[at]) for at, cell in enumerate(row))
    yield ""
    drawn = (f"at most {plan.kw:.1f} kW at once" if plan.kw is not None
             else "power is not known: give the nodes a SKU, or burnin: {watts: ...}")
    yield (f"{many(plan.nodes, 'node')}, {many(len(plan.steps), 'step')}, about {plan.minutes:.0f} min "
           f"if no one is suspected; {drawn}")
    for note in plan.notes:
        yield f"note: {note}"


def _unplanned(
    places: Sequence[Participant], steps: Sequence[stages.StageStep], wanted: Collection[BurnInStage],
) -> Iterator[str]:
    """What was asked for, and has no step."""
    there = {step.stage for step in steps}
    why: Mapping[BurnInStage, str] = {
        BurnInStage.RAIL: "no port map names the rails (ports: in the inventory or the SKU); a sample "
                          "of the nodes may still find them",
        BurnInStage.LEAF_PAIRS: "no two nodes are in one leaf",
        BurnInStage.CROSS_PAIRS: "all nodes are in one leaf, or no one says in which",
        BurnInStage.FABRIC: "no pair of these nodes loads any link",
        BurnInStage.ALL: "it takes two nodes", BurnInStage.TRAIN: "it takes two nodes",
        BurnInStage.SOAK: "it takes two nodes"}
    for stage in BurnInStage:
        if stage in wanted and stage not in there and stage in why:
            yield f"no {stage.value}: {why[stage]}"


def _kw(value: float | None) -> float:
    return value if value is not None else 0.0
