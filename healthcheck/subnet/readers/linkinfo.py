"""`iblinkinfo --line`: every port with its states, width and rate, and where its cable ends.

Form (print_port of infiniband-diags/iblinkinfo.c in rdma-core): port GUID (of a switch its node GUID),
description, LID, port number, external port number in brackets; width, rate, logical and physical state;
the same of the other end. "Could be 12X" speaks of what both ends support, which is no plan; it is not read.
"""

from __future__ import annotations

import re
from collections import Counter

from healthcheck.subnet.model import DeviceKind, FabricEnd, FabricPort, LinkState
from healthcheck.subnet.readers.building import Building, SubnetReading, UnreadLines
from healthcheck.subnet.readers.toolwords import cut_short, guid_of, lanes, name_of, numbered, rate

TOOL = "iblinkinfo --line"
_STATES = {"Down": LinkState.DOWN, "Initialize": LinkState.INITIALIZE, "Init": LinkState.INITIALIZE,
           "Armed": LinkState.ARMED, "Active": LinkState.ACTIVE}
# What is printed of a port that has not answered, whose PortInfo is all zeros: no port is in that state.
_UNANSWERED = "NoChange"
_NEAR = re.compile(
    r'\s*0x([0-9a-f]{16}) "([^"]*)"\s+([0-9]{1,6})\s+([0-9]{1,3})\[ *([0-9]*) *\] ==\((.*?)\)==>\s*(.*)')
_UP = re.compile(r"\s*(\S+)\s+(.*?)\s+(\w+)/\s*(\w+)")
_DOWN = re.compile(r"\s*(\w+)/\s*(\w+)")
_FAR = re.compile(r'0x([0-9a-f]{16})\s+([0-9]{1,6})\s+([0-9]{1,3})\[ *([0-9]*) *\] "([^"]*)" \(.*\)\s*')
_SETTINGS = re.compile(r" \(HOQ:.*")


def read(text: str, cut: bool = False) -> SubnetReading:
    """The ports in an output; `cut`: whether whoever captured it dropped its end. What a device is shows by
    its ports: a switch's share its GUID, an adapter's have one each."""
    building, unread = Building(), UnreadLines(TOOL)
    rows = [(number, line, _NEAR.match(line)) for number, line in numbered(text)]
    several = Counter(found[1] for _, _, found in rows if found is not None)
    for number, line, found in rows:
        guid = guid_of(found[1]) if found is not None else None
        shown = _port(found, several, building) if found is not None and guid is not None else None
        if shown is None:
            unread.add(number, line)
        else:
            building.port(shown)
    return SubnetReading(TOOL, building.devices(), unread=unread.lines(), partial=cut or cut_short(text))


def _port(found: re.Match[str], several: Counter[str], building: Building) -> FabricPort | None:
    """The port of a line, its device and its peer's device noted; None where the line is not understood."""
    up, down = _UP.fullmatch(_SETTINGS.sub("", found[6])), _DOWN.fullmatch(found[6])
    width, speed = (up[1], up[2]) if up else (None, None)
    state, physical = (up[3], up[4]) if up else (down[1], down[2]) if down else ("", "")
    unanswered = state == physical == _UNANSWERED
    if state not in _STATES and not unanswered:
        return None
    peer: FabricEnd | None = None
    far = _FAR.fullmatch(found[7])
    if far is not None:
        if guid_of(far[1]) is None:
            return None
        building.device(far[1], _kind(far[1], several), name_of(far[5]))
        peer = FabricEnd(far[1], int(far[3]))
    elif '"Port not available"' not in found[7] and '"" (' not in found[7]:
        return None
    kind = _kind(found[1], several)
    building.device(found[1], kind, name_of(found[2]))
    return FabricPort(
        FabricEnd(found[1], int(found[4])), state=_STATES.get(state),
        physical=None if unanswered else physical.lower(),
        width=lanes(width) if width else None, speed=rate(speed) if speed and not unanswered else None,
        lid=int(found[3]) or None, label=found[5] or None, peer=peer,
        port_guid=found[1] if kind is DeviceKind.ADAPTER else None)


def _kind(guid: str, several: Counter[str]) -> DeviceKind:
    return DeviceKind.SWITCH if several[guid] > 1 else DeviceKind.ADAPTER
