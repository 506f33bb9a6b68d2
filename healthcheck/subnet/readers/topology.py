"""`ibnetdiscover`: the topology file, which alone of the plain tools shows the node GUID and the port GUID of
an adapter, and the system image GUID, together.

Form (infiniband-diags/ibnetdiscover.c in rdma-core): records of `key=value` lines, a header line (`Switch`,
`Ca` or `Rt`, number of ports, node id "S-<guid>" or "H-<guid>", description as a comment) and a line for each
port with a cable.
"""

from __future__ import annotations

import re

from healthcheck.subnet.model import DeviceKind, FabricEnd, FabricPort
from healthcheck.subnet.readers.building import Building, SubnetReading, UnreadLines
from healthcheck.subnet.readers.toolwords import cut_short, guid_of, lanes, name_of, numbered, rate

TOOL = "ibnetdiscover"
_KINDS = {"Switch": DeviceKind.SWITCH, "Ca": DeviceKind.ADAPTER, "Rt": DeviceKind.ROUTER}
_HEADER = re.compile(r'(Switch|Ca|Rt)\s+([0-9]{1,3})\s+"[SHR]-([0-9a-f]{16})"\s+# "(.*)"(.*)')
_LID = re.compile(r" lid ([0-9]{1,6})\b")
_PORT = re.compile(
    r'\[([0-9]{1,3})\](?:\[ext ([0-9]{1,5})\])?(?:\(([0-9a-f]{1,16})\) ?)?\s+"([SHR])-([0-9a-f]{16})"'
    r'\[([0-9]{1,3})\](?:\[ext [0-9]{1,5}\])?(?: ?\(([0-9a-f]{1,16})\) ?)?\s*# (.*)')
# After the last quotation mark, as the description may hold anything.
_RATE = re.compile(r" lid [0-9]+ ([0-9]+x|\?\?)(\S{3,5})\b")
_OWN_LID = re.compile(r"lid ([0-9]{1,6}) ")
_VALUE = re.compile(r"(vendid|devid|sysimgguid|switchguid|caguid|rtguid|\?\?\?guid)=0x([0-9a-f]{1,16})\b.*")
_PREFIX = {"S": DeviceKind.SWITCH, "H": DeviceKind.ADAPTER, "R": DeviceKind.ROUTER}


def read(text: str, cut: bool = False) -> SubnetReading:
    """The devices and links in an output; `cut`: whether whoever captured it dropped its end."""
    building, unread = Building(), UnreadLines(TOOL)
    system: str | None = None
    own: str | None = None
    kind, own_lid = DeviceKind.SWITCH, 0
    for number, line in numbered(text):
        if line.startswith(("#", "Chassis ", "Non-Chassis", " ")):
            continue
        if (value := _VALUE.fullmatch(line)) is not None:
            if value[1] == "sysimgguid":
                system = guid_of(value[2])
        elif (header := _HEADER.fullmatch(line)) is not None:
            own, kind = guid_of(header[3]), _KINDS[header[1]]
            lid = _LID.search(header[5])
            own_lid = int(lid[1]) if lid else 0
            if own is not None:
                building.device(own, kind, name_of(header[4]), system, int(header[2]))
            system = None
        elif own is not None and (found := _PORT.fullmatch(line)) is not None:
            _port(building, found, own, kind, own_lid)
        else:
            unread.add(number, line)
    return SubnetReading(TOOL, building.devices(), unread=unread.lines(), partial=cut or cut_short(text))


def _port(building: Building, found: re.Match[str], own: str, kind: DeviceKind, own_lid: int) -> None:
    """Notes the port of a line, and what it shows of the other end's identity."""
    far = guid_of(found[5])
    first, quote, last = found[8].rpartition('"')
    rates = _RATE.match(last)
    end = FabricEnd(own, int(found[1]))
    peer = FabricEnd(far, int(found[6])) if far is not None else None
    lid = _OWN_LID.match(first) if kind is not DeviceKind.SWITCH else None
    known = building.known(end)
    building.port(FabricPort(
        end, width=lanes(rates[1]) if rates else None, speed=rate(rates[2]) if rates else None, peer=peer,
        lid=(int(lid[1]) if lid else own_lid) or None, label=found[2],
        port_guid=guid_of(found[3]) if found[3] else known.port_guid if known else None))
    if peer is None or far is None:
        return
    building.device(far, _PREFIX[found[4]], name_of(first.rpartition('"')[2] if quote else ""))
    if building.known(peer) is None:
        building.port(FabricPort(peer, peer=end, port_guid=guid_of(found[7]) if found[7] else None))
