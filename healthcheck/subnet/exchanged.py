"""Devices that stand in each other's place, each with all cables of the other: more often machines or names
that were exchanged than cables; pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from healthcheck.subnet.cabled import SeenCable
from healthcheck.subnet.cabling import CablingPlan, PlannedEnd
from inventory.nodeset import natural

_FEWEST = 2  # cables of a device: one alone is a swapped cable


def exchanged(plan: CablingPlan, cables: Sequence[SeenCable]) -> tuple[tuple[str, ...], ...]:
    """Circles of devices, each of which has cables that are planned for the next, and no other."""
    planned = _by_device(cable_ends for one in plan.cables for cable_ends in ((one.a, one.b), (one.b, one.a)))
    seen = _by_device(ends for one in cables for ends in (one.ends, one.ends[::-1]))
    owner = {(own.port, far): name for name, links in planned.items() for own, far in links.items()}
    in_place_of: dict[str, str] = {}
    for name, links in seen.items():
        others = {owner.get((own.port, far)) for own, far in links.items()}
        other = others.pop() if len(others) == 1 and len(links) >= _FEWEST else None
        if other is not None and other != name:
            in_place_of[name] = other
    return tuple(_circles(in_place_of))


def _by_device(
    ends: Iterable[tuple[PlannedEnd, PlannedEnd]],
) -> Mapping[str, Mapping[PlannedEnd, PlannedEnd]]:
    """By device what each of its ports is joined to."""
    found: dict[str, dict[PlannedEnd, PlannedEnd]] = defaultdict(dict)
    for own, far in ends:
        found[own.device][own] = far
    return found


def _circles(to: Mapping[str, str]) -> Iterable[tuple[str, ...]]:
    known: set[str] = set()
    for start in sorted(to, key=natural):
        circle = [start]
        while (following := to.get(circle[-1])) is not None and following not in circle:
            circle.append(following)
        if following == start and start not in known:
            known.update(circle)
            yield tuple(circle)
