"""What cables that must move look like to whoever plugged them: swapped, shifted, crossed rails; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from healthcheck.subnet.cabled import SeenCable
from healthcheck.subnet.cabling import CablingPlan, PlannedCable, PlannedEnd, Tier
from healthcheck.subnet.moves import CableAction, CableStep
from healthcheck.subnet.plancheck import named
from healthcheck.subnet.portlabel import number_of
from inventory.nodeset import natural
from inventory.text import many

_FEWEST = 3  # cables that make a shift: two are a swapped pair


class Misplugged(Enum):
    """The forms that have a name."""

    CROSSED = "crossed"  # cables of one host, which go to other rails than planned
    SWAPPED = "swapped"  # two ends in each other's port
    SHIFTED = "shifted"  # all by the same number of ports
    CIRCLE = "circle"  # three ends or more in each other's ports
    MISPLACED = "misplaced"  # in a port that should be free, or another's


@dataclass(frozen=True)
class Misplugging:
    """What it is, and in words; `harmless`: each cable joins the devices that it should."""

    form: Misplugged
    what: str
    harmless: bool


def describe(moves: Sequence[CableStep], links: Sequence[PlannedCable], cables: Sequence[SeenCable],
             plan: CablingPlan, circle: bool) -> Misplugging:
    """What the moves of one chain undo. `links` and `cables` are the pairs that move, in order."""
    ends = [(step.start, step.stop) for step in _whole(moves)
            if step.start is not None and step.stop is not None]
    harmless = (Counter(_joined(plan, *cable.ends) for cable in cables)
                == Counter(_joined(plan, link.a, link.b) for link in links))
    form, what = _form(moves, ends, plan, circle)
    return Misplugging(form, what, harmless)


def _form(moves: Sequence[CableStep], ends: Sequence[tuple[PlannedEnd, PlannedEnd]], plan: CablingPlan,
          circle: bool) -> tuple[Misplugged, str]:
    at = {end.device for pair in ends for end in pair}
    only = next(iter(at)) if len(at) == 1 else None
    if only is not None and (by := _shift(ends, only, plan)):
        around = ", and those at the end went around" if circle else ""
        return (Misplugged.SHIFTED,
                f"{only}: cables are {many(abs(by), 'port')} too {'high' if by < 0 else 'low'}{around}")
    if only is not None and _is_host(plan, only) and circle:
        ports = sorted({start.port for start, _ in ends}, key=natural)
        return Misplugged.CROSSED, f"{only}: the cables of {' and '.join(ports)} are crossed"
    if circle and len(ends) == 2:
        first, second = sorted(start for start, _ in ends)
        others = " and ".join(named(step.stays) for step in moves[:2] if step.stays is not None)
        return Misplugged.SWAPPED, f"{_both(first, second)} are swapped: the cables of {others}"
    where = ", ".join(named(start) for start, _ in sorted(ends)[:4]) + (" ..." if len(ends) > 4 else "")
    if circle:
        return Misplugged.CIRCLE, f"{len(ends)} ends are in each other's ports: {where}"
    if len(ends) == 1:
        start, stop = ends[0]
        return Misplugged.MISPLACED, f"an end is in {named(start)} that belongs in {named(stop)}"
    return Misplugged.MISPLACED, f"{len(ends)} ends are in other ports than planned: {where}"


def _joined(plan: CablingPlan, one: PlannedEnd, other: PlannedEnd) -> frozenset[tuple[str, str]]:
    """What a cable joins, as the network sees it: any port of a switch, but a certain adapter of a host."""
    return frozenset((end.device, end.port if _is_host(plan, end.device) else "") for end in (one, other))


def _whole(moves: Sequence[CableStep]) -> list[CableStep]:
    """Each move once, with the port that it left: that of a held end stands in the step that pulled it."""
    held = {id(step.cable): step.start for step in moves if step.action is CableAction.HOLD}
    return [step if step.start is not None
            else CableStep(step.action, step.cable, held.get(id(step.cable)), step.stop)
            for step in moves if step.action is CableAction.MOVE]


def _both(first: PlannedEnd, second: PlannedEnd) -> str:
    if first.device == second.device:
        return f"{first.device} ports {' and '.join(sorted((first.port, second.port), key=natural))}"
    return f"{named(first)} and {named(second)}"


def _is_host(plan: CablingPlan, device: str) -> bool:
    known = plan.devices.get(device)
    return known is not None and known.tier is Tier.HOST


def _shift(ends: Sequence[tuple[PlannedEnd, PlannedEnd]], device: str, plan: CablingPlan) -> int:
    """By how many ports all ends must move, but for those that go around to the other side; 0: no shift."""
    if len(ends) < _FEWEST:
        return 0
    places = _places([end for pair in ends for end in pair], plan, device)
    offsets = Counter(places[stop] - places[start] for start, stop in ends)
    by, count = offsets.most_common(1)[0]
    return by if len(ends) - count <= abs(by) and count >= _FEWEST else 0


def _places(ends: Sequence[PlannedEnd], plan: CablingPlan, device: str) -> Mapping[PlannedEnd, int]:
    """Where ports lie: by the number that is printed, of a host in the order of its names."""
    numbers = {end: number_of(end.port) for end in ends}
    if not _is_host(plan, device) and None not in numbers.values():
        return {end: number for end, number in numbers.items() if number is not None}
    ordered = sorted({end.port for end in ends}, key=natural)
    return {end: ordered.index(end.port) for end in ends}
