"""A comparison of plan and cabling in lines for a terminal, and as the document muster.fabric.diff/1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from healthcheck.subnet.cabled import SeenCable
from healthcheck.subnet.cabling import CablingPlan, PlannedCable, PlannedEnd
from healthcheck.subnet.difference import CablingComparison, CablingDifference, DifferenceKind
from healthcheck.subnet.moves import CableAction
from healthcheck.subnet.plancheck import named
from healthcheck.subnet.worklist import WorkItem, cable_of, ends_of, main_rack, work_list
from inventory.text import clean, many

SCHEMA = "muster.fabric.diff/1"
_VERBS = {CableAction.PULL: "pull", CableAction.HOLD: "pull and hold", CableAction.MOVE: "plug",
          CableAction.CONNECT: "connect", CableAction.REPLACE: "replace the cable of"}


def exit_code(comparison: CablingComparison) -> int:
    """0 as planned, 1 something differs, 3 something is unknown and nothing differs."""
    kinds = {one.kind for one in comparison.differences}
    if kinds - {DifferenceKind.UNKNOWN}:
        return 1
    return 3 if kinds or (comparison.notes and comparison.same < comparison.planned) else 0


def text(comparison: CablingComparison, plan: CablingPlan) -> Iterator[str]:
    """What differs, then the steps rack by rack, then a line in sum."""
    for circle in comparison.exchanged:
        yield clean(_exchanged(circle), 500)
    for one in comparison.differences:
        beyond = "; the network is as planned" if one.harmless else ""
        links = f" ({_which(one.planned)})" if one.kind is DifferenceKind.UNKNOWN else ""
        yield clean(f"{one.kind.value}: {one.what}{links}{beyond}", 1000)
    items = work_list(comparison, plan)
    rack: object = ""
    for item in items:
        if item.rack != rack:
            rack = item.rack
            yield f"rack {clean(rack)}:" if rack is not None else "no rack in the plan:"
        yield clean(f"  {item.number}. {_words(item)}", 500)
    for note in comparison.notes:
        yield f"note: {clean(note, 500)}"
    yield _sum(comparison)


def _which(links: Sequence[PlannedCable]) -> str:
    """How many links, and the first of them."""
    shown = ", ".join(f"{named(link.a)} to {named(link.b)}" for link in links[:2])
    return f"{many(len(links), 'link')}: {shown}{', ...' if len(links) > 2 else ''}"


def _exchanged(circle: Sequence[str]) -> str:
    if len(circle) == 2:
        how = f"{circle[0]} and {circle[1]} are in each other's place"
    else:
        how = f"{', '.join(circle)}: each is in the place of the next, the last in that of the first"
    return f"exchanged: {how}; if the machines or their names are exchanged, put that right, not the cables"


def _words(item: WorkItem) -> str:
    step = item.step
    start, stop, other = ends_of(step)
    if step.action in (CableAction.CONNECT, CableAction.REPLACE) and other is not None and stop is not None:
        what = f"{_VERBS[step.action]} {named(other)} and {named(stop)}"
    elif step.action is CableAction.MOVE and stop is not None:
        what = f"{named(start)} -> {named(stop)}" if start is not None else f"the held end -> {named(stop)}"
        if other is None:
            what = f"the loose cable -> {named(stop)}"
    else:
        what = f"{_VERBS[step.action]} {named(start)}" if start is not None else _VERBS[step.action]
    held = step.action in (CableAction.MOVE, CableAction.PULL, CableAction.HOLD)
    beyond = f", the cable to {named(other)}" if other is not None and held else ""
    serial, part, metres = cable_of(step)
    known = [f"serial {serial}" if serial else "", f"part {part}" if part else "",
             f"{metres:g} m" if metres else ""]
    return f"{what}{beyond}{''.join(f', {one}' for one in known if one)}"


def _sum(comparison: CablingComparison) -> str:
    counts = Counter(one.kind for one in comparison.differences)
    said = [f"{counts[kind]} {kind.value}" for kind in DifferenceKind
            if counts[kind] and kind is not DifferenceKind.UNKNOWN]
    unknown = sum(len(one.planned) for one in comparison.differences if one.kind is DifferenceKind.UNKNOWN)
    words = f"{comparison.same} of {many(comparison.planned, 'link')} as planned"
    if unknown:
        words += f", {unknown} unknown"
    if not said:
        return words
    return f"{words}; {', '.join(said)}; the repair plugs in {many(comparison.plugs, 'end')}"


def document(comparison: CablingComparison, plan: CablingPlan) -> dict[str, Any]:
    """The comparison; steps have the numbers of the whole list, in whose order they can be carried out."""
    numbers: dict[int, list[WorkItem]] = {}
    for item in work_list(comparison, plan):
        numbers.setdefault(id(item.difference), []).append(item)
    return {
        "schema": SCHEMA, "exit": exit_code(comparison), "planned": comparison.planned,
        "same": comparison.same, "plugs": comparison.plugs,
        "exchanged": [list(circle) for circle in comparison.exchanged],
        "notes": [clean(note, 500) for note in comparison.notes],
        "differences": [_difference(one, plan, numbers.get(id(one), ())) for one in comparison.differences],
    }


def _difference(one: CablingDifference, plan: CablingPlan, items: Sequence[WorkItem]) -> dict[str, Any]:
    return {
        "kind": one.kind.value, "what": one.what, "harmless": one.harmless, "rack": main_rack(one, plan),
        "links": [{"a": _end(link.a), "b": _end(link.b), "plane": link.plane, **_known(link)}
                  for link in one.planned],
        "cables": [{"a": _end(cable.a), "b": _end(cable.b), **_known(cable)} for cable in one.seen],
        "steps": [_step(item) for item in items],
    }


def _step(item: WorkItem) -> dict[str, Any]:
    start, stop, other = ends_of(item.step)
    serial, part, metres = cable_of(item.step)
    return {
        "number": item.number, "action": item.step.action.value, "rack": item.rack, "unit": item.unit,
        "from": _end(start), "to": _end(stop), "other": _end(other), "serial": serial, "part": part,
        "metres": metres, "plugs": item.step.plugs,
    }


def _end(end: PlannedEnd | None) -> dict[str, str] | None:
    return {"device": end.device, "port": end.port} if end is not None else None


def _known(cable: PlannedCable | SeenCable) -> dict[str, Any]:
    return {"serial": cable.serial, "part": cable.part, "metres": cable.metres}
