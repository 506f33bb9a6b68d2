"""`smpquery nodeinfo`, `nodedesc` and `portinfo`, one or more after each other.

Form (infiniband-diags/smpquery.c and libibmad/dump.c in rdma-core): "# Node info: Lid 7" or
"# Port info: Lid 7 port 1" and lines of the form "Name:....value". A port is known by LID, so that a
`nodeinfo` of the same LID must stand before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from healthcheck.subnet.model import DeviceKind, FabricEnd, FabricPort, LinkState
from healthcheck.subnet.readers.building import Building, SubnetReading, UnreadLines
from healthcheck.subnet.readers.toolwords import (
    cut_short,
    guid_of,
    lanes,
    name_of,
    number,
    numbered,
    pair,
    rate,
)

TOOL = "smpquery"
_HEADER = re.compile(r"# (Node|Port|Switch) info: Lid ([0-9]{1,5})(?: port ([0-9]{1,3}))?.*")
_DESCRIPTION = re.compile(r"Node Description:\.+(.*)")
_KINDS = {"Switch": DeviceKind.SWITCH, "Channel Adapter": DeviceKind.ADAPTER, "Router": DeviceKind.ROUTER}
_STATES = {"Down": LinkState.DOWN, "Initialize": LinkState.INITIALIZE, "Armed": LinkState.ARMED,
           "Active": LinkState.ACTIVE}
_EXTENDED = ("LinkSpeedExtActive2", "LinkSpeedExtActive", "LinkSpeedActive")


def read(text: str, cut: bool = False) -> SubnetReading:
    """What the outputs show; `cut`: whether whoever captured them dropped their end."""
    building, unread = Building(), UnreadLines(TOOL)
    nodes: dict[int, str] = {}
    last: str | None = None
    for kind, lid, port, values in _parts(text, unread):
        if kind == "Node":
            guid, what = guid_of(values.get("Guid", "")), _KINDS.get(values.get("NodeType", ""))
            if guid is None or what is None:
                unread.note(f"the node of LID {lid} has no GUID or no known kind")
                continue
            nodes[lid] = last = guid
            building.device(guid, what, system=guid_of(values.get("SystemGuid", "")),
                            port_count=number(values.get("NumPorts", "")))
            at = number(values.get("LocalPort", ""))
            if what is DeviceKind.ADAPTER and at:
                building.port(FabricPort(FabricEnd(guid, at), lid=lid,
                                         port_guid=guid_of(values.get("PortGuid", ""))))
        elif kind == "Description" and last is not None:
            building.device(last, DeviceKind.SWITCH, name_of(values.get("text", "")))
        elif kind == "Port" and port:
            if lid not in nodes:
                unread.note(f"port {port} of LID {lid} has no node's information before it")
                continue
            _port(building, FabricEnd(nodes[lid], port), lid, values)
    return SubnetReading(TOOL, building.devices(), unread=unread.lines(), partial=cut or cut_short(text))


def _parts(text: str, unread: UnreadLines) -> Iterator[tuple[str, int, int | None, Mapping[str, str]]]:
    kind, lid, port, values = "", 0, None, dict[str, str]()
    for at, line in numbered(text):
        if (found := _HEADER.fullmatch(line)) is not None:
            if kind:
                yield kind, lid, port, values
            kind, lid, port, values = found[1], int(found[2]), int(found[3]) if found[3] else None, {}
        elif (named := _DESCRIPTION.fullmatch(line)) is not None:
            if kind:
                yield kind, lid, port, values
            yield "Description", lid, None, {"text": named[1]}
            kind = ""
        elif (parts := pair(line)) is not None:
            values.setdefault(parts[0], parts[1])
        elif not line.startswith("\t"):         # the names of set bits of a mask are indented
            unread.add(at, line)
    if kind:
        yield kind, lid, port, values


def _port(building: Building, end: FabricEnd, lid: int, values: Mapping[str, str]) -> None:
    known = building.known(end)
    state = _STATES.get(values.get("LinkState", ""))
    up = state is not LinkState.DOWN        # of a port that is down the rest may be invalid (C14-24.2.1)
    speed = next((found for name in _EXTENDED if (found := rate(values.get(name, ""))) is not None), None)
    building.port(FabricPort(
        end, state=state, physical=values.get("PhysLinkState", "").lower() or None,
        width=lanes(values.get("LinkWidthActive", "")) if up else None, speed=speed if up else None,
        lid=number(values.get("Lid", "")) or lid, port_guid=known.port_guid if known else None))
