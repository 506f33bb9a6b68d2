"""What was delivered against what is there: each row of the list is one of the states below, each controller
is on the list, extra or unread; pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from inventory.model import Inventory, LifecycleState, Node
from provisioning.discover.model import Delivered, FoundController, number

_NEW = (LifecycleState.PLANNED, LifecycleState.BRINGUP)


class DeliveryState(Enum):
    """How a row of the delivery list stands."""

    LISTED = "as listed"
    SWAPPED = "swapped"         # it is there, and something else than the list says
    DOUBLED = "doubled"         # on the list twice, or there twice
    MISSING = "missing"         # everything that answers reported its number, and none is this
    UNREAD = "not read"         # not seen, and some that answer reported no number


@dataclass(frozen=True)
class DeliveryLine:
    """A row, how it stands, where, and why; `at` is its controller's address, "" where not seen."""

    row: Delivered
    state: DeliveryState
    at: str = ""
    why: tuple[str, ...] = ()


@dataclass(frozen=True)
class DeliveryComparison:
    """All rows in their order; controllers whose number is not on the list, those of nodes that are past
    bring-up; controllers that reported none."""

    lines: tuple[DeliveryLine, ...]
    extra: tuple[FoundController, ...]
    older: tuple[FoundController, ...]
    unread: tuple[FoundController, ...]


def places(found: Sequence[FoundController], inventory: Inventory | None) -> dict[str, Node]:
    """The node of each address: by its controller's address, else by the serial number found there."""
    nodes = tuple(inventory) if inventory is not None else ()
    by_address = {_address(node.bmc.address): node for node in nodes if node.bmc is not None}
    by_serial = {number(node.labels.get("serial")): node for node in nodes}
    at = {
        one.address: by_address[_address(one.address)] for one in found if _address(one.address) in by_address
    }
    there = {node.name for node in at.values()}
    for one in found:
        node = by_serial.get(one.serial) if one.serial else None
        if one.address not in at and node is not None and node.name not in there:
            at[one.address] = node
    return at


def differing(found: Sequence[FoundController], at: Mapping[str, Node]) -> tuple[str, ...]:
    """What the inventory says of a node and its controller otherwise, a line each."""
    lines = []
    for one in found:
        node = at.get(one.address)
        if node is None:
            continue
        serial = number(node.labels.get("serial"))
        if serial and one.serial and serial != one.serial:
            lines.append(f"{node.name}: the inventory says serial number {serial}, the controller at "
                         f"{one.address} says {one.serial}")
        if node.bmc is not None and _address(node.bmc.address) != _address(one.address):
            lines.append(f"{node.name}: the inventory says its controller is at {node.bmc.address}; its "
                         f"serial number is at {one.address}")
    return tuple(lines)


def compare(
    rows: Sequence[Delivered], found: Sequence[FoundController], at: Mapping[str, Node],
) -> DeliveryComparison:
    """Each row and each controller, once. `at` has the node of an address, as `places` gives it."""
    by_serial: dict[str, list[FoundController]] = {}
    for one in found:
        by_serial.setdefault(one.serial, []).append(one)
    unread = tuple(by_serial.pop("", ()))
    listed: dict[str, list[Delivered]] = {}
    for row in rows:
        listed.setdefault(row.serial, []).append(row)
    lines = tuple(
        _line(row, listed[row.serial], by_serial.get(row.serial, []), unread, found, at) for row in rows)
    others = [one for one in found if one.serial and one.serial not in listed]
    older = tuple(one for one in others if one.address in at and at[one.address].lifecycle.state not in _NEW)
    return DeliveryComparison(lines, tuple(one for one in others if one not in older), older, unread)


def _line(
    row: Delivered, same: Sequence[Delivered], there: Sequence[FoundController],
    unread: Sequence[FoundController], found: Sequence[FoundController], at: Mapping[str, Node],
) -> DeliveryLine:
    where = there[0].address if there else ""
    if len(same) > 1:
        others = ", ".join(str(other.line) for other in same if other is not row)
        return DeliveryLine(
            row, DeliveryState.DOUBLED, where, (f"the list has this number on line {others} as well",))
    if len(there) > 1:
        return DeliveryLine(
            row, DeliveryState.DOUBLED, where, (f"it is at {' and at '.join(one.address for one in there)}",))
    if there:
        why = tuple(_differs(row, there[0], at.get(where)))
        return DeliveryLine(row, DeliveryState.SWAPPED if why else DeliveryState.LISTED, where, why)
    expected = next((one for one in unread if _meant(row, one, at.get(one.address))), None)
    if expected is not None:
        return DeliveryLine(row, DeliveryState.UNREAD, expected.address,
                            ("the controller at its place reported no serial number",))
    if unread:
        return DeliveryLine(row, DeliveryState.UNREAD, "",
                            (f"not seen, and {len(unread)} that answer reported no serial number",))
    other = next((one for one in found if _meant(row, one, at.get(one.address))), None)
    return DeliveryLine(row, DeliveryState.MISSING, "",
                        (f"at its place, {other.address}, is {other.serial}",) if other is not None else ())


def _meant(row: Delivered, one: FoundController, node: Node | None) -> bool:
    """Whether a controller that reported no number is where the list has this row."""
    return bool(
        (row.mac and row.mac in one.macs) or (row.address and _address(row.address) == _address(one.address))
        or (row.name and node is not None and node.name.lower() == row.name.lower()))


def _differs(row: Delivered, one: FoundController, node: Node | None) -> list[str]:
    said = []
    if row.address and _address(row.address) != _address(one.address):
        said.append(f"the list says address {row.address}, it is at {one.address}")
    if row.mac and one.macs and row.mac not in one.macs:
        said.append(f"the list says MAC address {row.mac}, it has {', '.join(one.macs[:4])}")
    if row.model and one.model and not _same_model(row.model, one.model):
        said.append(f"the list says model {row.model}, it is {one.model}")
    if node is not None:
        if row.name and row.name.lower() != node.name.lower():
            said.append(f"the list says {row.name}, it is where the inventory has {node.name}")
        for what, listed, has in (("rack", row.rack, node.rack), ("slot", row.slot, node.labels.get("slot"))):
            if listed and has and listed.lower() != has.lower():
                said.append(f"the list says {what} {listed}, the inventory {has}")
    return said


def _same_model(one: str, other: str) -> bool:
    """Makers write a model with and without their name before it."""
    shorter, longer = sorted((one.lower().strip(), other.lower().strip()), key=len)
    return shorter in longer


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return text.lower()
