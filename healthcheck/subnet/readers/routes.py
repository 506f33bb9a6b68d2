"""`dump_fts` and `ibroute`: the forwarding tables of switches.

Form (infiniband-diags/dump_fts.c and ibroute.c in rdma-core): "Unicast lids [0x0-0x26] of switch ... guid
0x<guid> (<description>):" and a line for each LID with the port that leads there; port 255 leads nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from healthcheck.subnet.readers.building import SubnetReading, Unread, cut_short, guid_of, numbered

TOOL = "dump_fts"
_SWITCH = re.compile(r"Unicast lids \[.*\] of switch .* guid 0x([0-9a-f]{1,16}) \(.*\):")
_ENTRY = re.compile(r"0x([0-9a-f]{1,4}) (\d{3}) : .*")
_OTHER = re.compile(r"\s+(Lid  Out|Port     Info).*|\d+ (valid )?lids? dumped\s*|Multicast .*|\s.*")
_NOWHERE = 255


def read(text: str, cut: bool = False) -> SubnetReading:
    """The unicast tables in an output; `cut`: whether whoever captured it dropped its end."""
    tables: dict[str, dict[int, int]] = {}
    unread = Unread(TOOL)
    table: dict[int, int] | None = None
    for number, line in numbered(text):
        if (switch := _SWITCH.fullmatch(line)) is not None:
            guid = guid_of(switch[1])
            table = tables.setdefault(guid, {}) if guid is not None else None
        elif (entry := _ENTRY.fullmatch(line)) is not None and table is not None:
            if int(entry[2]) < _NOWHERE:
                table[int(entry[1], 16)] = int(entry[2])
        elif not _OTHER.fullmatch(line):
            unread.add(number, line)
    routes: Mapping[str, Mapping[int, int]] = tables
    return SubnetReading(TOOL, routes=routes, unread=unread.lines(), partial=cut or cut_short(text))
