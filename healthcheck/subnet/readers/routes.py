"""`dump_fts` (and `dump_lfts`, its older name), `ibroute` (of one switch) and `saquery LFTR`: the linear
forwarding tables of switches.

Forms as infiniband-diags 44 prints them (dump_unicast_tables of infiniband-diags/dump_fts.c and ibroute.c,
dump_one_lft_record of saquery.c in rdma-core).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from healthcheck.subnet.readers.building import SubnetReading, UnreadLines
from healthcheck.subnet.readers.toolwords import cut_short, guid_of, numbered

TOOL, RECORDS_TOOL = "dump_fts", "saquery LFTR"
# Unicast LIDs are below (InfiniBand Architecture Specification, 4.1.3); no switch has more than 254 ports,
# and 255 says that there is none.
MOST_LIDS = 0xC000
NO_PORT = 255
_SWITCH = re.compile(r"Unicast lids \[[^\]]{0,80}\] of switch .*\bguid 0x([0-9a-f]{1,16}) \(.*\):\s*")
_ENTRY = re.compile(r"0x([0-9a-f]{1,4}) ([0-9]{1,3})(?: : .*| ?)")       # the latter with --no_dests
_END = re.compile(r"([0-9]{1,6}) (?:valid )?lids dumped\s*")
_TITLES = re.compile(r"\s+(?:Lid  Out   Destination|Port     Info)\s*|Multicast .*|\*\*\* WARNING \*\*\*.*")
_RECORD_LID = re.compile(r"\s*LID\.{2,}([0-9]{1,6})\s*")
_RECORD_ENTRY = re.compile(r"\s*([0-9]{1,6})\s+([0-9]{1,3})\s*")
_RECORD_TITLES = re.compile(r"\s*(?:LFT Record dump:|Block\.{2,}[0-9]+|LFT:|LID\s+Port Number)\s*")


def read(text: str, cut: bool = False) -> SubnetReading:
    """The tables of `dump_fts` or `ibroute`. A table whose end is missing, or that counts other LIDs than
    were read, is noted and left out."""
    unread = UnreadLines(TOOL)
    routes: dict[str, Mapping[int, int]] = {}
    guid: str | None = None
    table: dict[int, int] = {}
    entries = 0     # with those that lead nowhere: the tools count them too
    for number, line in numbered(text):
        if (head := _SWITCH.fullmatch(line)) is not None:
            if guid is not None:
                unread.note(f"the table of switch {guid} has no end")
            guid, table, entries = guid_of(head[1]), {}, 0
        elif (end := _END.fullmatch(line)) is not None:
            if guid is not None and int(end[1]) == entries:
                routes[guid] = table
            elif guid is not None:
                unread.note(f"the table of switch {guid} says that it has {int(end[1])} LIDs, and "
                            f"{entries} were read")
            guid = None
        elif (entry := _ENTRY.fullmatch(line)) is not None and guid is not None:
            if _noted(table, int(entry[1], 16), int(entry[2])):
                entries += 1
            else:
                unread.add(number, line)
        elif _TITLES.fullmatch(line) is None:
            unread.add(number, line)
    if guid is not None:
        unread.note(f"the table of switch {guid} has no end")
    return SubnetReading(TOOL, routes=routes, unread=unread.lines(),
                         partial=cut or cut_short(text) or guid is not None)


def read_records(text: str, cut: bool = False) -> SubnetReading:
    """The tables of `saquery LFTR`, whose records name a switch by its LID."""
    unread = UnreadLines(RECORDS_TOOL)
    routes: dict[int, dict[int, int]] = {}
    table: dict[int, int] | None = None
    for number, line in numbered(text):
        if (head := _RECORD_LID.fullmatch(line)) is not None:
            table = routes.setdefault(int(head[1]), {})
        elif (entry := _RECORD_ENTRY.fullmatch(line)) is not None:
            if table is not None and not _noted(table, int(entry[1]), int(entry[2])):
                unread.add(number, line)
        elif _RECORD_TITLES.fullmatch(line) is None:
            unread.add(number, line)
    return SubnetReading(RECORDS_TOOL, routes_by_lid=routes, unread=unread.lines(),
                         partial=cut or cut_short(text))


def _noted(table: dict[int, int], lid: int, port: int) -> bool:
    """Takes an entry; False for what cannot be one. "No port" is none, and needs no place."""
    if lid >= MOST_LIDS or port > NO_PORT:
        return False
    if port != NO_PORT and lid:
        table[lid] = port
    return True
