"""Readers of linear forwarding tables: by which port a switch sends what is for a LID.

Three forms are read, all as infiniband-diags 44 prints them: `dump_lfts` (every switch), `ibroute` (one
switch, the same form), and `saquery LFTR` (records of 64 LIDs, which name the switch by its LID).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from healthcheck.subnet.model import DeviceKind, Subnet
from inventory.text import clean

# LIDs of unicast are below (InfiniBand Architecture Specification, 4.1.3); no switch of today has more than
# 254 ports, and 255 is "no port".
MOST_LIDS = 0xC000
NO_PORT = 255
_MOST_UNREAD = 20
_OF_SWITCH = re.compile(r"Unicast lids \[.{0,80}\] of switch .{0,300}?\bguid (0x[0-9a-fA-F]{1,16})\b")
_ENTRY = re.compile(r"(0x[0-9a-fA-F]{1,4}) ([0-9]{1,3}) :")
_END = re.compile(r"([0-9]{1,5}) valid lids dumped")
_RECORD = "LFT Record dump:"
_RECORD_LID = re.compile(r"LID\.{2,}([0-9]{1,5})$")
_RECORD_ENTRY = re.compile(r"([0-9]{1,5})\s+([0-9]{1,3})$")


@dataclass(frozen=True)
class ForwardingTables:
    """By node GUID of a switch: by LID the port that it leaves by. `unread` are lines that were not
    understood and tables that end early, each in a line; of such a switch nothing is believed."""

    of: Mapping[str, Mapping[int, int]] = field(default_factory=lambda: MappingProxyType({}))
    unread: tuple[str, ...] = ()


def read_lfts(text: str) -> ForwardingTables:
    """The tables that `dump_lfts` or `ibroute` printed. A table whose count of LIDs at its end is missing, or
    is another than was read, is named in `unread` and left out."""
    found: dict[str, dict[int, int]] = {}
    unread: list[str] = []
    guid, table = "", {}
    for line in text.splitlines():
        words = line.strip()
        if (head := _OF_SWITCH.match(words)) is not None:
            if guid:
                unread.append(f"the table of switch {guid} ends early")
            guid, table = f"{int(head[1], 16):016x}", {}
        elif (end := _END.match(words)) is not None:
            if guid and int(end[1]) == len(table):
                found[guid] = table
            elif guid:
                unread.append(f"the table of switch {guid} has {len(table)} LIDs, and says {int(end[1])}")
            guid = ""
        elif words.startswith("0x"):
            _entry(_ENTRY.match(words), 16, words, table, unread)
    if guid:
        unread.append(f"the table of switch {guid} ends early")
    return _tables(found, unread)


def read_lft_records(text: str, subnet: Subnet) -> ForwardingTables:
    """The tables that `saquery LFTR` printed; `subnet` says which switch has which LID."""
    switches = dict(_switch_lids(subnet))
    found: dict[str, dict[int, int]] = {}
    unread: list[str] = []
    table: dict[int, int] | None = None
    for line in text.splitlines():
        words = line.strip()
        if words == _RECORD:
            table = None
        elif (head := _RECORD_LID.match(words)) is not None:
            guid = switches.get(int(head[1]))
            if guid is None:
                unread.append(f"a table of LID {int(head[1])}, which is no switch of this subnet")
            table = found.setdefault(guid, {}) if guid is not None else None
        elif table is not None and words[:1].isdigit():
            _entry(_RECORD_ENTRY.match(words), 10, words, table, unread)
    return _tables(found, unread)


def _entry(match: re.Match[str] | None, base: int, words: str, table: dict[int, int],
           unread: list[str]) -> None:
    """One line of a table; "no port" is no entry."""
    if match is None:
        unread.append(f"not understood: {clean(words, 80)}")
        return
    lid, port = int(match[1], base), int(match[2])
    if not 0 <= lid < MOST_LIDS or port > NO_PORT:
        unread.append(f"no LID or no port: {clean(words, 80)}")
    elif port != NO_PORT and lid:
        table[lid] = port


def _switch_lids(subnet: Subnet) -> Iterator[tuple[int, str]]:
    for device in subnet.devices.values():
        for port in device.ports.values():
            if device.kind is DeviceKind.SWITCH and port.lid:
                yield port.lid, device.guid


def _tables(found: Mapping[str, Mapping[int, int]], unread: list[str]) -> ForwardingTables:
    if len(unread) > _MOST_UNREAD:
        unread = [*unread[:_MOST_UNREAD], f"and {len(unread) - _MOST_UNREAD} more"]
    return ForwardingTables(
        MappingProxyType({guid: MappingProxyType(table) for guid, table in found.items()}), tuple(unread))
