"""The delivery list of parts (cables, optics, adapters, switches): the lot of each by its serial number."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from healthcheck.subnet.model import CableModule
from healthcheck.triage.lots import PartLot
from inventory.errors import InventoryError, Mark
from inventory.importers.base import check_size
from inventory.importers.csv_ import _rows
from inventory.text import clean, short

# What such columns are called, in small letters with _ for spaces and hyphens.
_CALLED = {"serial": ("serial", "serial_number", "serial_no", "sn", "s/n", "vendor_sn"),
           "vendor": ("vendor", "maker", "manufacturer", "vendor_name"),
           "part": ("part", "part_number", "part_no", "pn", "p/n", "vendor_pn"),
           "date": ("lot", "date", "date_code", "batch")}
_BY_NAME = {called: key for key, names in _CALLED.items() for called in names}


def parse(text: str, source: str) -> Mapping[str, PartLot]:
    """The lots by serial number in capital letters. Columns that are not known are passed over; serial number
    and part number have to be there.

    Raises InventoryError with file, line and column for what is no such table, for two rows of one serial
    number, and for a row without one.
    """
    check_size(text, source)
    rows = _rows(text.removeprefix("\ufeff"), source)
    line, header = next(rows, (1, []))
    keys = [_BY_NAME.get(re.sub(r"[\s_-]+", "_", cell.strip().lower())) for cell in header]
    for key in ("serial", "part"):
        if key not in keys:
            raise InventoryError(f"no column is {key}: expected one of {', '.join(_CALLED[key])}",
                                 Mark(source, line, 1))
    found: dict[str, PartLot] = {}
    lines: dict[str, int] = {}
    for line, cells in rows:
        values = _values(keys, cells)
        serial = values.get("serial", "").upper()
        at = Mark(source, line, keys.index("serial") + 1)
        if not serial:
            raise InventoryError("the row has no serial number", at)
        if serial in found:
            raise InventoryError(f"{short(serial)} is on line {lines[serial]} already", at)
        found[serial] = PartLot(values.get("vendor", ""), values.get("part", ""), values.get("date", ""))
        lines[serial] = line
    if not found:
        raise InventoryError(f"{source}: names nothing that was delivered")
    return found


def _values(keys: Sequence[str | None], cells: Sequence[str]) -> dict[str, str]:
    """The row's values, the first column of a kind that has one."""
    values: dict[str, str] = {}
    for key, cell in zip(keys, cells):  # noqa: B905  (a short row has empty cells at its end)
        if key is not None and cell.strip():
            values.setdefault(key, clean(cell.strip(), 100))
    return values


def lot_of(module: CableModule, delivered: Mapping[str, PartLot]) -> PartLot | None:
    """The lot of a cable or module: as it was delivered under its serial number, else as it states itself;
    None where it states no part number."""
    known = delivered.get(module.serial.upper()) if module.serial else None
    if known is not None:
        return known
    return PartLot(module.vendor, module.part, module.date) if module.part else None
