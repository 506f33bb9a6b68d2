"""ibdiagnet2's `ibdiagnet2.db_csv`: everything that it found, as one file of tables.

Form: "START_<SECTION>", a line of column names, rows, "END_<SECTION>". Columns are found by name, whatever
their case and order, as they differ between versions. Sections read: NODES, PORTS, LINKS, SM_INFO, PM_INFO,
CABLE_INFO, TEMP_SENSING, FANS_SPEED, POWER_SUPPLIES. Numbers of states, widths and rates are those of the
IBLinkSpeed, IBLinkWidth and IBPortState enumerations of NVIDIA's ibutils2 (ibdm/Fabric.h): rates beyond QDR
lie in higher bytes (2048 is NDR, 1 << 24 XDR).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from healthcheck.subnet.model import (
    CableModule,
    DeviceKind,
    FabricEnd,
    FabricPort,
    LinkState,
    PortCounters,
    SubnetManager,
    SubnetSensor,
)
from healthcheck.subnet.readers.building import Building, SubnetReading, UnreadLines
from healthcheck.subnet.readers.counters import HIGHEST
from healthcheck.subnet.readers.sa import STATES
from healthcheck.subnet.readers.toolwords import MOST_LINE, MOST_TEXT, guid_of, name_of, number

TOOL = "ibdiagnet2.db_csv"
Row = Mapping[str, str]
_KINDS = {1: DeviceKind.ADAPTER, 2: DeviceKind.SWITCH, 3: DeviceKind.ROUTER}
_WIDTHS = {1: 1, 2: 4, 4: 8, 8: 12, 16: 2}
_SPEEDS = {1: "SDR", 2: "DDR", 4: "QDR", 1 << 8: "FDR", 2 << 8: "EDR", 4 << 8: "HDR", 8 << 8: "NDR",
           1 << 16: "FDR10", 1 << 24: "XDR"}
_PORT_STATES = {1: LinkState.DOWN, 2: LinkState.INITIALIZE, 3: LinkState.ARMED, 4: LinkState.ACTIVE}
# PortInfo.PortPhysicalState (InfiniBand Architecture Specification), as infiniband-diags writes it
_PHYSICAL = {1: "sleep", 2: "polling", 3: "disabled", 4: "portconfigurationtraining", 5: "linkup",
             6: "linkerrorrecovery", 7: "phytest"}
# The fabric: a file that ends with one of these and has not all of them was cut between two sections.
_WHOLE = frozenset({"NODES", "PORTS", "LINKS"})
_FIGURE = re.compile(r"\s*\"?(-?[0-9]{1,6}(?:\.[0-9]{1,6})?)\s*(?:C|dBm|m|Mtr|RPM)?\s*\"?\s*", re.IGNORECASE)
_GOOD = frozenset({"ok", "1", "true", "present", "active", "yes"})
_BAD = frozenset({"0", "error", "fail", "failed", "false", "no", "not ok", "fault", "not present", "alert"})


@dataclass
class _Found:
    building: Building = field(default_factory=Building)
    links: list[tuple[FabricEnd, FabricEnd]] = field(default_factory=list)
    managers: list[SubnetManager] = field(default_factory=list)
    counters: dict[FabricEnd, dict[str, int]] = field(default_factory=dict)
    full: dict[FabricEnd, set[str]] = field(default_factory=dict)
    sensors: list[SubnetSensor] = field(default_factory=list)
    modules: dict[FabricEnd, CableModule] = field(default_factory=dict)


def read(text: str, cut: bool = False) -> SubnetReading:
    """The tables of a file; `cut`: whether whoever captured it dropped its end."""
    unread, found = UnreadLines(TOOL), _Found()
    sections: set[str] = set()
    last = final = ""
    for section, ended, columns, rows in _sections(text):
        last, final = "" if ended else section, section
        reader = _READERS.get(section)
        if reader is None:
            continue
        sections.add(section)
        bad = 0
        for cells in rows:
            row = dict(zip(columns, cells, strict=False))
            if len(cells) < len(columns) or not reader(found, row):
                bad += 1
        if bad:
            unread.note(f"section {section}: {bad} of {len(rows)} rows are not understood")
    if not sections:
        unread.note("none of the sections that are read is in it")
    _join(found)
    partial = (cut or bool(last) or not sections or (final in _WHOLE and not sections >= _WHOLE)
               or len(text) > MOST_TEXT)
    return SubnetReading(
        TOOL, found.building.devices(), managers=tuple(found.managers) if "SM_INFO" in sections else None,
        all_managers=not partial,
        counters=PortCounters(found.counters, full={
            end: frozenset(names) for end, names in found.full.items()}) if "PM_INFO" in sections else None,
        sensors=tuple(found.sensors), modules=found.modules, unread=unread.lines(),
        partial=partial)


def _sections(text: str) -> Iterator[tuple[str, bool, list[str], list[list[str]]]]:
    """Each section: its name, whether its end is there, its columns in lower case and its rows."""
    name, lines = "", list[str]()
    for line in text[:MOST_TEXT].split("\n"):
        stripped = line.strip()
        if stripped.startswith("START_"):
            if name:
                yield name, False, *_table(lines)
            name, lines = stripped[6:], []
        elif stripped == f"END_{name}" and name:
            yield name, True, *_table(lines)
            name, lines = "", []
        elif name and stripped:
            lines.append(stripped[:MOST_LINE])
    if name:
        yield name, False, *_table(lines)


def _table(lines: list[str]) -> tuple[list[str], list[list[str]]]:
    rows = list(_rows(lines))
    return ([name.strip().lower() for name in rows[0]], rows[1:]) if rows else ([], [])


def _rows(lines: Iterable[str]) -> Iterator[list[str]]:
    """Each line by itself: an open quotation mark must not swallow the lines after it."""
    for line in lines:
        if '"' not in line:
            yield line.split(",")
            continue
        try:
            yield next(csv.reader([line]), [])
        except csv.Error:
            yield []


def _first(row: Row, *names: str) -> str:
    return next((row[name] for name in names if name in row), "").strip().strip('"')


def _end(row: Row, guids: tuple[str, ...] = ("nodeguid",)) -> FabricEnd | None:
    guid, at = guid_of(_first(row, *guids)), number(_first(row, "portnumber", "portnum"))
    return FabricEnd(guid, at) if guid is not None and at is not None and at < 256 else None


def _figure(text: str) -> float | None:
    found = _FIGURE.fullmatch(text)
    return float(found[1]) if found is not None else None


def _node(found: _Found, row: Row) -> bool:
    guid, kind = guid_of(_first(row, "nodeguid")), _KINDS.get(number(_first(row, "nodetype")) or 0)
    if guid is None or kind is None:
        return False
    found.building.device(guid, kind, name_of(_first(row, "nodedesc")),
                          guid_of(_first(row, "systemimageguid")), number(_first(row, "numports")))
    return True


def _port(found: _Found, row: Row) -> bool:
    end = _end(row)
    if end is None:
        return False
    if end.number == 0:
        return True         # a switch's management port
    state = _PORT_STATES.get(number(_first(row, "portstate")) or 0)
    up = state is not None and state is not LinkState.DOWN
    port_guid = guid_of(_first(row, "portguid"))
    found.building.port(FabricPort(
        end, state=state, physical=_PHYSICAL.get(number(_first(row, "portphystate")) or 0),
        width=_WIDTHS.get(number(_first(row, "linkwidthactv")) or 0) if up else None,
        speed=_SPEEDS.get(number(_first(row, "linkspeedactv")) or 0) if up else None,
        lid=number(_first(row, "lid")) or None, port_guid=port_guid,
        label=_first(row, "portlabel", "label")[:32] or None))
    return True


def _link(found: _Found, row: Row) -> bool:
    one, other = guid_of(_first(row, "nodeguid1")), guid_of(_first(row, "nodeguid2"))
    near, far = number(_first(row, "portnum1")), number(_first(row, "portnum2"))
    if one is None or other is None or near is None or far is None:
        return False
    found.links.append((FabricEnd(one, near), FabricEnd(other, far)))
    return True


def _manager(found: _Found, row: Row) -> bool:
    guid = guid_of(_first(row, "guid", "portguid"))
    state = number(_first(row, "smstate", "state"))
    if guid is None or state not in STATES:
        return False
    found.managers.append(SubnetManager(guid, STATES[state], number(_first(row, "priority")),
                                        number(_first(row, "actcount"))))
    return True


_NOT_COUNTERS = frozenset({"nodeguid", "portguid", "portnumber", "portnum"})
_NAMES = {name.lower(): name for name in HIGHEST}


def _counters(found: _Found, row: Row) -> bool:
    """PortCounters and PortCountersExtended side by side; of a counter that both have the wider is taken."""
    end = _end(row)
    if end is None:
        return False
    held = found.counters.setdefault(end, {})
    wide: set[str] = set()
    for column, text in row.items():
        if column in _NOT_COUNTERS:
            continue
        short = column.removesuffix("extended").removesuffix("ext")
        name, value = _NAMES.get(short), number(text.strip())
        if name is None or value is None:
            continue
        if short != column:
            held[name] = value
            wide.add(name)
        elif name not in wide:
            held[name] = value
    for name, value in held.items():
        if name not in wide and value >= HIGHEST[name]:
            found.full.setdefault(end, set()).add(name)
    return True


_POWERS = tuple((what, lane, f"{way}{lane}power") for what, way in (("rx power", "rx"), ("tx power", "tx"))
                for lane in range(1, 9))


def _cable(found: _Found, row: Row) -> bool:
    end = _end(row)
    if end is None:
        return False
    found.modules[end] = CableModule(
        vendor=name_of(_first(row, "vendor")), part=name_of(_first(row, "pn")),
        serial=name_of(_first(row, "sn")), revision=name_of(_first(row, "rev")),
        date=name_of(_first(row, "manufacturingdate", "datecode")),
        kind=name_of(_first(row, "typedesc", "cabletype", "type")),
        metres=_figure(_first(row, "lengthdesc", "lengthcopperoractive")))
    warm = _figure(_first(row, "temperature"))
    if warm is not None:
        found.sensors.append(SubnetSensor(end, "temperature", value=warm))
    for what, lane, column in _POWERS:
        value = _figure(_first(row, column))
        if value is not None:
            found.sensors.append(SubnetSensor(end, what, value=value, lane=lane))
    return True


def _temperature(found: _Found, row: Row) -> bool:
    guid = guid_of(_first(row, "nodeguid"))
    value = _figure(_first(row, "currenttemperature", "temperature"))
    if guid is None or value is None:
        return False
    found.sensors.append(SubnetSensor(FabricEnd(guid, 0), "temperature", value=value))
    return True


def _fan(found: _Found, row: Row) -> bool:
    guid, value = guid_of(_first(row, "nodeguid")), _figure(_first(row, "fanspeed", "speed"))
    if guid is None or value is None:
        return False
    found.sensors.append(SubnetSensor(
        FabricEnd(guid, 0), "fan", f"fan {_first(row, 'fanindex', 'index', 'sensorindex')[:8]}", value,
        low=_figure(_first(row, "minspeed")), high=_figure(_first(row, "maxspeed"))))
    return True


def _supply(found: _Found, row: Row) -> bool:
    """A power supply is good where every column that says so does, and bad where one says otherwise."""
    guid = guid_of(_first(row, "nodeguid"))
    if guid is None:
        return False
    if _first(row, "ispresent", "present").lower() in ("0", "no", "false", "not present"):
        return True         # an empty slot is no fault by itself
    words = [_first(row, name).lower() for name in ("dcstate", "dc_state", "alertstate", "alert_state",
                                                   "fanstate", "fan_state", "state") if name in row]
    ok = False if any(word in _BAD for word in words) else \
        True if words and all(word in _GOOD for word in words) else None
    found.sensors.append(SubnetSensor(FabricEnd(guid, 0), "power supply",
                                      f"power supply {_first(row, 'psuindex', 'index')[:8]}", ok=ok))
    return True


_READERS: Mapping[str, Callable[[_Found, Row], bool]] = {
    "NODES": _node, "PORTS": _port, "LINKS": _link, "SM_INFO": _manager, "PM_INFO": _counters,
    "CABLE_INFO": _cable, "TEMP_SENSING": _temperature, "FANS_SPEED": _fan, "POWER_SUPPLIES": _supply,
}


def _join(found: _Found) -> None:
    """Gives ports their peers, a switch's ports no GUID of their own; drops ports of unknown devices."""
    for one, other in found.links:
        for end, peer in ((one, other), (other, one)):
            known = found.building.known(end) or FabricPort(end)
            found.building.port(replace(known, peer=peer))
    found.building.finish_switches()
