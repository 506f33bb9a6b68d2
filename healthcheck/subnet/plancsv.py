"""A cabling plan as a table: one row a cable, as spreadsheets and cabling tools save it.

The first row names the columns, in whatever case and with spaces or hyphens for underscores. What belongs to
an end has a column for each: `device`, `port`, `tier`, `rack`, `unit`, `guid` and `speed` stand twice, the
first for one end and the second for the other, or carry `_a` and `_b`. `plane`, `width`, `gigabits`,
`metres`, `serial` and `part` are the cable's. Only `device` and `port` of both ends have to be there.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from healthcheck.subnet.cabling import CablingPlan, PlannedCable, PlannedDevice, PlannedEnd, Tier
from healthcheck.subnet.plantiers import of_ends, with_tiers
from inventory.errors import InventoryError, Mark
from inventory.located import MAX_BYTES
from inventory.nodeset import did_you_mean
from inventory.text import clean, short

OF_END = ("device", "port", "tier", "rack", "unit", "guid", "speed")
OF_CABLE = ("plane", "speed", "width", "gigabits", "metres", "serial", "part")
COLUMNS = ("device_a", "port_a", "device_b", "port_b", "plane", "speed", "width", "gigabits", "metres", "serial",
           "part", "tier_a", "rack_a", "unit_a", "guid_a", "tier_b", "rack_b", "unit_b", "guid_b")
_KNOWN = (*(f"{name}_{end}" for name in OF_END for end in "ab"), *OF_CABLE)
_MOST = 500_000         # cables: 16 times those of 4,096 hosts with 8 ports each
_NAME = re.compile(r"[^\x00-\x20\x7f][^\x00-\x1f\x7f]{0,126}")
_GUID = re.compile(r"(?:0x)?([0-9a-fA-F]{16})")
SPEEDS = ("SDR", "DDR", "QDR", "FDR10", "FDR", "EDR", "HDR", "NDR", "XDR")
WIDTHS = (1, 2, 4, 8, 12)


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
        raise InventoryError(f"{source}: names no cable: expected a row for each, below one that names the columns")
    return with_tiers(CablingPlan({device.name: device for device in reader.devices()}, tuple(reader.cables)),
                      frozenset(reader.tiers), source)


def write(plan: CablingPlan) -> str:
    """The plan as such a table; `parse` gives it back."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for cable in plan.cables:
        ends = [plan.devices.get(end.device) for end in (cable.a, cable.b)]
        values = [cable.a.device, cable.a.port, cable.b.device, cable.b.port, cable.plane, cable.speed,
                  cable.width, cable.gigabits, cable.metres, cable.serial, cable.part]
        for device in ends:
            values += [None] * 4 if device is None else [device.tier.value, device.rack, device.unit, device.guid]
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
    simple = [re.sub(r"[\s_-]+", "_", cell.strip().lower()).strip("_") for cell in header]
    keys: list[str] = []
    for at, name in enumerate(simple, 1):
        place = mark._replace(column=at)
        key = name
        if name in OF_END and (name != "speed" or simple.count("speed") == 2):
            key = f"{name}_{'a' if name not in simple[:at - 1] else 'b'}"
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
    """What rows have said of a device, each value with the line that did first."""

    values: dict[str, tuple[object, int]]


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
        values: dict[str, str] = {}
        for at, cell in enumerate(cells, 1):
            if not cell.strip():
                continue
            if at > len(self._columns):
                raise InventoryError(f"{short(cell)} is in a column without a name: is a delimiter left "
                                     "unquoted?", Mark(self._source, line, at))
            values[self._columns[at - 1]] = cell.strip().removeprefix("'")
        ends = [self._end(values, end, line) for end in "ab"]
        if ends[0].device == ends[1].device:
            raise self._wrong(line, "device_b", f"both ends are at {short(ends[0].device)}")
        for end, side in zip(ends, "ab", strict=True):
            if end in self._lines:
                raise self._wrong(line, f"port_{side}", f"{clean(end.device)} port {clean(end.port)} has a "
                                  f"cable already, on line {self._lines[end]}")
            self._lines[end] = line
        speeds = {key: self._speed(values[key], line, key) for key in ("speed", "speed_a", "speed_b") if key in values}
        if len(set(speeds.values())) > 1:
            raise self._wrong(line, "speed_b", f"the ends differ in speed: {' and '.join(speeds.values())}")
        self.cables.append(PlannedCable(
            *of_ends(ends[0], ends[1], self._tier(ends[0].device), self._tier(ends[1].device)),
            plane=self._text(values, "plane", line) or "", speed=next(iter(speeds.values()), None),
            width=self._width(values, line), gigabits=self._number(values, "gigabits", line, 10_000),
            metres=self._number(values, "metres", line, 100_000), serial=self._text(values, "serial", line),
            part=self._text(values, "part", line)))
        if len(self.cables) > _MOST:
            raise InventoryError(f"{self._source}: has over {_MOST} cables")

    def devices(self) -> Iterator[PlannedDevice]:
        """Those that were named, in the order of their rows; a tier that no row said is a host's until
        `with_tiers` finds it."""
        for name, said in self._said.items():
            held = {key: value for key, (value, _) in said.values.items()}
            tier, rack, unit, guid = (held.get(key) for key in ("tier", "rack", "unit", "guid"))
            yield PlannedDevice(
                name, tier if isinstance(tier, Tier) else Tier.HOST, rack if isinstance(rack, str) else None,
                unit if isinstance(unit, int) else None, guid if isinstance(guid, str) else None)

    def _end(self, values: dict[str, str], end: str, line: int) -> PlannedEnd:
        device, port = (self._text(values, f"{key}_{end}", line) for key in ("device", "port"))
        if device is None or port is None:
            missing = f"{'device' if device is None else 'port'}_{end}"
            raise self._wrong(line, missing, f"the row has no {missing}")
        said = self._said.setdefault(device, _Said({}))
        found = {
            "tier": self._named_tier(values, f"tier_{end}", line), "rack": self._text(values, f"rack_{end}", line),
            "unit": self._unit(values, f"unit_{end}", line), "guid": self._guid(values, f"guid_{end}", line)}
        for key, value in found.items():
            if value is None:
                continue
            if key == "tier":
                self.tiers.add(device)
            before, first = said.values.setdefault(key, (value, line))
            if before != value:
                raise self._wrong(line, f"{key}_{end}", f"{clean(device)} has another {key} on line {first}")
        return self._ends.setdefault((device, port), PlannedEnd(device, port))

    def _tier(self, device: str) -> Tier | None:
        tier = self._said[device].values.get("tier", (None, 0))[0]
        return tier if isinstance(tier, Tier) else None

    def _text(self, values: dict[str, str], key: str, line: int) -> str | None:
        text = values.get(key)
        if text is not None and not _NAME.fullmatch(text):
            raise self._wrong(line, key, f"{short(text)}: expected at most 127 printable characters")
        return text

    def _named_tier(self, values: dict[str, str], key: str, line: int) -> Tier | None:
        text = values.get(key)
        if text is None:
            return None
        try:
            return Tier(text.lower())
        except ValueError:
            raise self._wrong(line, key, f"{short(text)}: expected {', '.join(one.value for one in Tier)}") from None

    def _speed(self, text: str, line: int, key: str) -> str:
        if text.upper() not in SPEEDS:
            raise self._wrong(line, key, f"{short(text)} is no speed of a lane: expected one of "
                              f"{', '.join(SPEEDS)}; give Ethernet's rate as gigabits")
        return text.upper()

    def _width(self, values: dict[str, str], line: int) -> int | None:
        text = values.get("width")
        if text is None:
            return None
        found = re.fullmatch(r"(\d{1,2})[xX]?", text)
        if found is None or int(found[1]) not in WIDTHS:
            raise self._wrong(line, "width", f"{short(text)}: expected lanes, one of {', '.join(map(str, WIDTHS))}")
        return int(found[1])

    def _number(self, values: dict[str, str], key: str, line: int, most: float) -> float | None:
        text = values.get(key)
        if text is None:
            return None
        try:
            number = float(text) if len(text) < 20 else math.nan
        except ValueError:
            number = math.nan
        if not 0 < number <= most:
            raise self._wrong(line, key, f"{short(text)}: expected a number over 0, at most {most:g}")
        return number

    def _unit(self, values: dict[str, str], key: str, line: int) -> int | None:
        text = values.get(key)
        if text is None:
            return None
        found = re.fullmatch(r"[uU]?(\d{1,3})", text)
        if found is None:
            raise self._wrong(line, key, f"{short(text)}: expected a height unit such as 17 or U17")
        return int(found[1])

    def _guid(self, values: dict[str, str], key: str, line: int) -> str | None:
        text = values.get(key)
        if text is None:
            return None
        found = _GUID.fullmatch(text.replace(":", ""))
        if found is None:
            raise self._wrong(line, key, f"{short(text)}: expected a node GUID of 16 hexadecimal digits")
        return found[1].lower()

    def _wrong(self, line: int, key: str, what: str) -> InventoryError:
        at = self._columns.index(key) + 1 if key in self._columns else 1
        return InventoryError(what, Mark(self._source, line, at))
