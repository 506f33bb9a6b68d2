"""`ibnetdiscover -p`: every port of the subnet, a line each, and where its cable ends.

Form (dump_ports_report of infiniband-diags/ibnetdiscover.c in rdma-core): kind, LID, port number, port GUID,
width and rate; then the same of the other end and both descriptions, or the own description alone. States are
not shown: a port without other end may be down or may lead to a device that does not answer.
"""

from __future__ import annotations

import re

from healthcheck.subnet.model import DeviceKind, FabricEnd, FabricPort
from healthcheck.subnet.readers.building import Building, SubnetReading, UnreadLines
from healthcheck.subnet.readers.toolwords import cut_short, guid_of, lanes, name_of, numbered, rate

TOOL = "ibnetdiscover -p"
_KINDS = {"CA": DeviceKind.ADAPTER, "SW": DeviceKind.SWITCH, "RT": DeviceKind.ROUTER}
_END = r"(CA|SW|RT|\?\?)\s+(\d{1,6})\s+(\d{1,3})\s+0x([0-9a-f]{16})"
_LINE = re.compile(rf"{_END} (\S{{2,5}}) (\S{{3,5}})(?: - {_END} \( '(.*)' \)| +'(.*)')\s*")
_BETWEEN = "' - '"


def read(text: str, cut: bool = False) -> SubnetReading:
    """The ports in an output; `cut`: whether whoever captured it dropped its end."""
    building, unread = Building(), UnreadLines(TOOL)
    for number, line in numbered(text):
        found = _LINE.fullmatch(line)
        if found is None:
            unread.add(number, line)
            continue
        near = _device(building, found[1], found[4])
        if near is None:
            unread.add(number, line)
            continue
        own, other = found[12] or "", ""
        peer: FabricEnd | None = None
        if found[7] is not None:
            # A description that holds the separator cannot be distinguished from two: then neither is taken.
            names = found[11].split(_BETWEEN)
            own, other = (names[0], names[1]) if len(names) == 2 else ("", "")
            if len(names) != 2:
                unread.note(f"line {number}: the descriptions cannot be distinguished")
            far = guid_of(found[10])
            if far is not None and _device(building, found[7], found[10], name_of(other)) is not None:
                peer = FabricEnd(far, int(found[9]))
        building.device(near, _KINDS.get(found[1], DeviceKind.ADAPTER), name_of(own))
        linked = peer is not None
        building.port(FabricPort(
            FabricEnd(near, int(found[3])), lid=int(found[2]) or None, peer=peer,
            # Of a port that is down all but its states may be invalid (C14-24.2.1 of the specification).
            width=lanes(found[5]) if linked else None, speed=rate(found[6]) if linked else None,
            port_guid=near if found[1] != "SW" else None))
    return SubnetReading(TOOL, building.devices(), unread=unread.lines(), partial=cut or cut_short(text))


def _device(building: Building, kind: str, guid: str, description: str = "") -> str | None:
    """Notes the device of an end and gives its GUID, None for one that cannot be."""
    known = guid_of(guid)
    if known is None or kind not in _KINDS:
        return None
    building.device(known, _KINDS[kind], description)
    return known
