"""The steps of a repair as one list for the data centre, rack by rack, in an order that can be carried out:
what is pulled (it frees ports); chain by chain what moves; the ends that are plugged into freed ports."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from healthcheck.subnet.cabling import CablingPlan, PlannedEnd
from healthcheck.subnet.difference import CablingComparison, CablingDifference
from healthcheck.subnet.moves import CableAction, CableStep
from healthcheck.subnet.plancsv import plain
from inventory.nodeset import natural

COLUMNS = ("step", "rack", "unit", "action", "from_device", "from_port", "to_device", "to_port",
           "other_device", "other_port", "other_rack", "serial", "part", "metres", "why")


@dataclass(frozen=True)
class WorkItem:
    """A step with its number from 1, and the rack and height unit where it is done (None: not planned)."""

    number: int
    rack: str | None
    unit: int | None
    difference: CablingDifference
    step: CableStep


def work_list(comparison: CablingComparison, plan: CablingPlan) -> tuple[WorkItem, ...]:
    """All steps of a comparison."""
    found = []
    for at, one in enumerate(comparison.differences):
        chain = main_rack(one, plan)
        found += [((_turn(step), natural(chain or ""), at), one, step) for step in one.steps]
    found.sort(key=lambda each: each[0])
    items = []
    for number, (_, one, step) in enumerate(found, 1):
        device = plan.devices.get(place(step).device)
        items.append(WorkItem(number, device.rack if device else None, device.unit if device else None, one,
                              step))
    return tuple(items)


def main_rack(one: CablingDifference, plan: CablingPlan) -> str | None:
    """The rack in which most of its steps are done; the first of several in natural order."""
    counts = Counter(device.rack for step in one.steps
                     if (device := plan.devices.get(place(step).device)) is not None
                     and device.rack is not None)
    return min(counts, key=lambda rack: (-counts[rack], natural(rack)), default=None)


def place(step: CableStep) -> PlannedEnd:
    """The port at which a step is done: where an end is plugged in, else where it is pulled. Of a cable that
    is laid it is the upper tier's, where ports are many."""
    if step.stop is not None:
        return step.stop
    if step.planned is not None and step.action in (CableAction.CONNECT, CableAction.REPLACE):
        return step.planned.b
    if step.start is not None:
        return step.start
    assert step.cable is not None  # noqa: S101  (only a link without a cable has none, and it is planned)
    return step.cable.b


def _turn(step: CableStep) -> int:
    """A held end is plugged in within its chain; ends that are loose from the beginning come last."""
    if step.action is CableAction.PULL:
        return 0
    loose = (step.action in (CableAction.CONNECT, CableAction.REPLACE)
             or (step.start is None and step.stays is None))
    return 2 if loose else 1


def ends_of(step: CableStep) -> tuple[PlannedEnd | None, PlannedEnd | None, PlannedEnd | None]:
    """From where, to where, and where the cable's other end is."""
    if step.action is CableAction.PULL and step.cable is not None:
        return step.cable.b, None, step.cable.a
    if step.action in (CableAction.CONNECT, CableAction.REPLACE) and step.planned is not None:
        return None, step.planned.b, step.planned.a
    return step.start, step.stop, step.stays


def as_csv(items: Sequence[WorkItem], plan: CablingPlan) -> str:
    """The list as a table with `COLUMNS`; ports as they are printed on their devices."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for item in items:
        step = item.step
        start, stop, other = ends_of(step)
        device = plan.devices.get(other.device) if other is not None else None
        serial, part, metres = cable_of(step)
        cells: list[object] = [item.number, item.rack, item.unit, step.action.value]
        for end in (start, stop, other):
            cells += [end.device if end is not None else None, end.port if end is not None else None]
        cells += [device.rack if device is not None else None, serial, part, metres, item.difference.what]
        writer.writerow([plain(cell) for cell in cells])
    return out.getvalue()


def cable_of(step: CableStep) -> tuple[str | None, str | None, float | None]:
    """Serial number, part number and length in metres of the cable of a step: as it was read, else, of the
    link that it serves, as it is planned; a serial number is the cable's own, so that of a cable that was not
    read is not known."""
    new = step.action in (CableAction.CONNECT, CableAction.REPLACE)
    cable, link = (None if new else step.cable), step.planned
    serial = cable.serial if cable is not None else link.serial if link is not None else None
    part = (cable.part if cable is not None else None) or (link.part if link is not None else None)
    metres = cable.metres if cable is not None else None
    return serial, part, metres if metres is not None else link.metres if link is not None else None
