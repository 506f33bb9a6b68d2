"""The delivery list of parts (cables, optics, adapters, switches): the lot of each by its serial number or,
of an adapter or a switch, by its GUID. It has the form of the delivery list of machines
(`provisioning.discover.deliverylist`): a header line, of which only some columns have to be there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from healthcheck.model.hardware import Now
from healthcheck.subnet.model import CableModule
from healthcheck.subnet.readers.toolwords import guid_of
from healthcheck.triage.lots import ADAPTER, CABLE, FleetPart, PartLot
from inventory.errors import InventoryError, Mark
from inventory.importers.base import check_size
from inventory.importers.csv_ import _rows
from inventory.text import clean, short

# What such columns are called, in small letters with _ for spaces and hyphens.
_CALLED = {"serial": ("serial", "serial_number", "serial_no", "sn", "s/n", "vendor_sn"),
           "vendor": ("vendor", "maker", "manufacturer", "vendor_name"),
           "guid": ("guid", "node_guid", "base_guid", "system_guid"),
           "part": ("part", "part_number", "part_no", "pn", "p/n", "vendor_pn"),
           "date": ("lot", "date", "date_code", "batch")}
_BY_NAME = {called: key for key, names in _CALLED.items() for called in names}


def parse(text: str, source: str) -> Mapping[str, PartLot]:
    """The lots by `serial_key` and `guid_key`. Columns that are not known are passed over; a part number and
    a serial number or GUID have to be there.

    Raises InventoryError with file, line and column for what is no such table, for two rows of one serial
    number or GUID, for a row without either, and for what is no GUID.
    """
    check_size(text, source)
    rows = _rows(text.removeprefix("\ufeff"), source)
    line, header = next(rows, (1, []))
    keys = [_BY_NAME.get(re.sub(r"[\s_-]+", "_", cell.strip().lower())) for cell in header]
    for wanted in (("serial", "guid"), ("part",)):
        if not set(wanted) & set(keys):
            names = ", ".join(name for key in wanted for name in _CALLED[key])
            raise InventoryError(f"no column is {' or '.join(wanted)}: expected one of {names}",
                                 Mark(source, line, 1))
    found: dict[str, PartLot] = {}
    lines: dict[str, int] = {}
    for line, cells in rows:
        values = _values(keys, cells)
        lot = PartLot(values.get("vendor", ""), values.get("part", ""), values.get("date", ""))
        if not values.keys() & {"serial", "guid"}:
            column = min(keys.index(key) for key in ("serial", "guid") if key in keys)
            raise InventoryError("the row has no serial number and no GUID", Mark(source, line, column + 1))
        for kind, called in (("serial", serial_key), ("guid", guid_key)):
            if kind not in values:
                continue
            at = Mark(source, line, keys.index(kind) + 1)
            key = called(values[kind])
            if not key:
                raise InventoryError(f"{short(values[kind])} is no GUID, such as 0xb8cef6000000a100", at)
            if key in found:
                raise InventoryError(f"{short(values[kind])} is on line {lines[key]} already", at)
            found[key], lines[key] = lot, line
    if not found:
        raise InventoryError(f"{source}: names nothing that was delivered")
    return found


def serial_key(serial: str) -> str:
    """What a part is listed under by its serial number."""
    return serial.strip().upper()


def guid_key(guid: str) -> str:
    """What an adapter or switch is listed under by its GUID; "" for what is none."""
    found = guid_of(guid.strip().replace(":", ""))
    return f"0x{found}" if found is not None else ""


def _values(keys: Sequence[str | None], cells: Sequence[str]) -> dict[str, str]:
    """The row's values, the first column of a kind that has one."""
    values: dict[str, str] = {}
    for key, cell in zip(keys, cells):  # noqa: B905  (a short row has empty cells at its end)
        if key is not None and cell.strip():
            values.setdefault(key, clean(cell.strip(), 100))
    return values


def parts_of(
    nodes: Mapping[str, Now], delivered: Mapping[str, PartLot],
) -> Mapping[str, tuple[FleetPart, ...]]:
    """By node the parts whose lot is known, of what its newest snapshots show: modules by what they state or
    were delivered as, adapters by the delivery list alone, else by their board's identity."""
    found: dict[str, list[FleetPart]] = {}
    for node, seen in nodes.items():
        at = {part["device"]: name.partition(" ")[2] for name, part in seen.hardware.items()
              if "device" in part}
        for device, part in seen.parts.items():
            pci = at.get(device, "")
            module = CableModule(part.get("vendor", ""), part.get("part", ""), part.get("serial", ""),
                                 date=part.get("date", ""))
            lot = lot_of(module, delivered)
            if lot is not None:
                found.setdefault(node, []).append(FleetPart(
                    CABLE, device.lower(), pci, serial_key(module.serial) or f"{node} {device}", lot))
            own = _adapter_lot(part, delivered)
            if own is None and (board := part.get("adapter") or part.get("adapter_part")):
                own = PartLot("", board)
            if own is not None:
                found.setdefault(node, []).append(
                    FleetPart(ADAPTER, device.lower(), pci, f"{node} {device}", own))
    return {node: tuple(parts) for node, parts in found.items()}


def _adapter_lot(part: Mapping[str, str], delivered: Mapping[str, PartLot]) -> PartLot | None:
    """What an adapter was delivered as, under its GUID or its serial number."""
    keys = guid_key(part.get("guid", "")), serial_key(part.get("adapter_serial", ""))
    return next((delivered[key] for key in keys if key and key in delivered), None)


def by_guid(nodes: Iterable[Now], delivered: Mapping[str, PartLot]) -> Mapping[str, PartLot]:
    """The lots with those of listed serial numbers under the GUIDs of these nodes' adapters, too: a subnet
    knows an adapter by no other name."""
    found = {key: lot for seen in nodes for part in seen.parts.values()
             if (key := guid_key(part.get("guid", "")))
             and (lot := _adapter_lot(part, delivered)) is not None}
    return {**found, **delivered}


def lot_of(module: CableModule, delivered: Mapping[str, PartLot]) -> PartLot | None:
    """The lot of a cable or module: as it was delivered under its serial number, else as it states itself;
    None where it states no part number."""
    known = delivered.get(serial_key(module.serial)) if module.serial else None
    if known is not None:
        return known
    return PartLot(module.vendor, module.part, module.date) if module.part else None
