"""A cabling plan as a table: one row a cable, as spreadsheets and cabling tools save it.

The first row names the columns, in whatever case and with spaces or hyphens for underscores. What belongs to
an end has a column for each: `device`, `port`, `tier`, `rack`, `unit`, `guid` and `speed` stand twice, the
first for one end and the second for the other, or carry `_a` and `_b`. `plane`, `width`, `gigabits`,
`metres` (or length), `serial` and `part` (number) are the cable's; notes and comments are not read. Only
`device` and `port` of both ends have to be there.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from healthcheck.subnet.cabling import CablingPlan, PlannedCable, PlannedDevice, PlannedEnd, Tier
from healthcheck.subnet.plancells import PlanRow
from healthcheck.subnet.plantiers import of_ends, with_tiers
from inventory.errors import InventoryError, Mark
from inventory.located import MAX_BYTES
from inventory.nodeset import did_you_mean
from inventory.text import clean, short

OF_END = ("device", "port", "tier", "rack", "unit", "guid", "speed")
OF_CABLE = ("plane", "speed", "width", "gigabits", "metres", "serial", "part")
COLUMNS = ("device_a", "port_a", "device_b", "port_b", "plane", "speed", "width", "gigabits", "metres",
           "serial", "part", *(f"{name}_{end}" for end in "ab" for name in ("tier", "rack", "unit", "guid")))
_KNOWN = (*(f"{name}_{end}" for name in OF_END for end in "ab"), *OF_CABLE)
_ALSO = {"length": "metres", "length_m": "metres", "serial_number": "serial", "part_number": "part"}
_NOTES = frozenset({"note", "notes", "comment", "comments", "remark", "remarks"})   # for people alone
_MOST = 500_000  # cables: 16 times those of 4,096 hosts with 8 ports each


def parse(text: str, source: str) -> CablingPlan:
    """The plan of a table. The delimiter is a comma, a semicolon or a tab: the one that the first row has
    most of. Raises InventoryError with file, line and column (of the table) for what is no such table, a bad
    value, a port in two cables, ends of different speed, and two rows that contradict each other."""
    if len(text) > MAX_BYTES * 4:
        raise InventoryError(f"{source}: is larger than {MAX_BYTES * 4} characters")
    rows = _rows(text.removeprefix("\ufeff"), source)
    line, header = next(rows, (1, []))
    reader = _PlanReader(source, _columns(header, Mark(source, line, 1)))
    for line, cells in rows:
        reader.row(line, cells)
    if not reader.cables:
        raise InventoryError(
            f"{source}: names no cable: expected a row for each, below one that names the columns")
    plan = CablingPlan({device.name: device for device in reader.devices()}, tuple(reader.cables))
    return with_tiers(plan, frozenset(reader.tiers), source)


def write(plan: CablingPlan) -> str:
    """The plan as such a table; `parse` gives it back."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for cable in plan.cables:
        values: list[object] = [cable.a.device, cable.a.port, cable.b.device, cable.b.port, cable.plane,
                                cable.speed, cable.width, cable.gigabits, cable.metres, cable.serial,
                                cable.part]
        for end in (cable.a, cable.b):
            known = plan.devices.get(end.device)
            values += [None] * 4 if known is None else [known.tier.value, known.rack, known.unit, known.guid]
        writer.writerow([plain(value) for value in values])
    return out.getvalue()


def plain(value: object) -> str:
    """A value as a cell. Whole numbers have no point; a text that a spreadsheet would take for a formula gets
    an apostrophe before it (OWASP, CSV Injection), which `parse` takes off."""
    if value is None:
        return ""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    text = str(value)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "'") else text


def _rows(text: str, source: str) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not blank, with the line on which each begins."""
    first = next((line for line in text[:65536].splitlines() if line.strip(" ,;\t")), "")
    delimiter = max(",;\t", key=re.sub(r'"[^"]*"', "", first).count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as problem:
            raise InventoryError(f"not valid CSV: {problem}", Mark(source, line, 1)) from None
        if any(cell.strip() for cell in row):
            yield line, row


def _columns(header: Sequence[str], mark: Mark) -> list[str]:
    """The key of each column: those of ends with `_a` or `_b`."""
    simple = [re.sub(r"[\s_()-]+", "_", cell.strip().lower()).strip("_") for cell in header]
    simple = [_ALSO.get(name, name) for name in simple]
    keys: list[str] = []
    for at, name in enumerate(simple, 1):
        place = mark._replace(column=at)
        if name in _NOTES:
            keys.append(f"note {at}")
            continue
        key = name
        if name in OF_END and (name != "speed" or simple.count("speed") == 2):
            key = f"{name}_{'a' if name not in simple[: at - 1] else 'b'}"
        if key not in _KNOWN:
            raise InventoryError(f"the column {short(header[at - 1])} is not one of a cabling "
                                 f"plan{did_you_mean(key, _KNOWN)}; known: {', '.join(_KNOWN)}", place)
        if key in keys:
            raise InventoryError(f"two columns are {key}", place)
        keys.append(key)
    for key in ("device_a", "port_a", "device_b", "port_b"):
        if key not in keys:
            raise InventoryError(f"no column is {key}: expected device, port, device, port, the two ends of "
                                 "each cable", mark)
    return keys


@dataclass
class _Said:
    """What rows have said of a device: each value with the line that did first."""

    values: dict[str, tuple[object, int]]

    def get(self, key: str) -> Any:
        """The value, None for none."""
        return self.values.get(key, (None, 0))[0]


class _PlanReader:
    """Cables row by row, and what they say of devices."""

    def __init__(self, source: str, columns: Sequence[str]) -> None:
        self._source = source
        self._columns = columns
        self._said: dict[str, _Said] = {}
        self._lines: dict[PlannedEnd, int] = {}
        self._ends: dict[tuple[str, str], PlannedEnd] = {}
        self.cables: list[PlannedCable] = []
        self.tiers: set[str] = set()

    def row(self, line: int, cells: Sequence[str]) -> None:
        """One cable."""
        row = PlanRow(self._source, line, self._columns, cells)
        ends = [self._end(row, side) for side in "ab"]
        if ends[0].device == ends[1].device:
            raise row.wrong("device_b", f"both ends are at {short(ends[0].device)}")
        for end, side in zip(ends, "ab", strict=True):
            if (first := self._lines.setdefault(end, line)) != line:
                raise row.wrong(f"port_{side}", f"{clean(end.device)} port {clean(end.port)} has a cable "
                                f"already, on line {first}")
        tiers = [self._said[end.device].get("tier") for end in ends]
        self.cables.append(PlannedCable(
            *of_ends(ends[0], ends[1], *tiers), plane=row.text("plane") or "", speed=row.speed(),
            width=row.width(), gigabits=row.number("gigabits", 10_000), metres=row.number("metres", 100_000),
            serial=row.text("serial"), part=row.text("part")))
        if len(self.cables) > _MOST:
            raise InventoryError(f"{self._source}: has over {_MOST} cables")

    def devices(self) -> Iterator[PlannedDevice]:
        """Those that were named, in the order of their rows; one whose tier no row said is a host until
        `with_tiers` finds its tier."""
        for name, said in self._said.items():
            yield PlannedDevice(name, said.get("tier") or Tier.HOST, said.get("rack"), said.get("unit"),
                                said.get("guid"))

    def _end(self, row: PlanRow, side: str) -> PlannedEnd:
        """One end of a row's cable, after what the row says of its device."""
        device, port = row.needed(f"device_{side}"), row.needed(f"port_{side}")
        said = self._said.setdefault(device, _Said({}))
        for key, value in (("tier", row.tier(f"tier_{side}")), ("rack", row.text(f"rack_{side}")),
                           ("unit", row.unit(f"unit_{side}")), ("guid", row.guid(f"guid_{side}"))):
            if value is None:
                continue
            if key == "tier":
                self.tiers.add(device)
            before, first = said.values.setdefault(key, (value, row.line))
            if before != value:
                raise row.wrong(f"{key}_{side}", f"{clean(device)} has another {key} on line {first}")
        return self._ends.setdefault((device, port), PlannedEnd(device, port))
