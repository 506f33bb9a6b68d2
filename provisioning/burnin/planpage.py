"""The plan of a burn-in for people: its steps, how long they take, what they draw."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from healthcheck.burnin import stages
from healthcheck.burnin.model import BurnInStage, Participant
from healthcheck.burnin.ports import presumed
from healthcheck.burnin.stages import BurnInWork
from provisioning.burnin import ramp
from provisioning.burnin.ramp import PowerLimits

_HEAD = ("STAGE", "STEP", "TASKS", "NODES", "WAVES", "MINUTES", "KW")


def lines(
    places: Sequence[Participant], work: BurnInWork, wanted: Collection[BurnInStage], power: PowerLimits,
) -> Iterator[str]:
    """The plan, line by line."""
    steps = stages.planned(places, replace(work, ports=presumed(places)), wanted)
    by_name = {place.node: place for place in places}
    rows, minutes, most = [_HEAD], 0.0, 0.0
    notes = []
    for step in steps:
        parts = ramp.waves(step.tasks, by_name, power)
        notes += [f"{step.stage.value} cannot be run: {why}" for why in parts.refused.values()]
        spread = sum(max(ramp.starts(wave, by_name).values(), default=0.0) for wave in parts.waves)
        took = (len(parts.waves) * step.seconds + spread) / 60
        kw = max((_kw(ramp.drawn(wave, by_name)) for wave in parts.waves or (step.tasks,)), default=0.0)
        minutes, most = minutes + took, max(most, kw if parts.waves else 0.0)
        rows.append((step.stage.value, step.name, str(len(step.tasks)), str(len(step.nodes)),
                     str(len(parts.waves)), f"{took:.1f}", f"{kw:.1f}" if kw else "?"))
    widths = [max(len(row[at]) for row in rows) for at in range(len(_HEAD))]
    for row in rows:
        yield "  ".join(
            cell.ljust(widths[at]) if at < 2 else cell.rjust(widths[at]) for at, cell in enumerate(row))
    yield ""
    drawn = (f"at most {most:.1f} kW at once" if most
             else "power is not known: give the nodes a SKU, or burnin: {watts: ...}")
    yield (f"{_count(len(places), 'node')}, {_count(len(steps), 'step')}, about {minutes:.0f} min if no one "
           f"is suspected; {drawn}")
    for note in (*dict.fromkeys(notes), *_unplanned(places, steps, wanted)):
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
        BurnInStage.ALL: "it takes two nodes", BurnInStage.TRAIN: "it takes two nodes",
        BurnInStage.SOAK: "it takes two nodes"}
    for stage in BurnInStage:
        if stage in wanted and stage not in there and stage in why:
            yield f"no {stage.value}: {why[stage]}"


def _kw(value: float | None) -> float:
    return value if value is not None else 0.0


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"
