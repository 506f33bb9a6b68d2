"""`saquery`: records of the subnet administrator, and `sminfo`.

Forms (infiniband-diags/saquery.c and sminfo.c in rdma-core): "<Name>Record dump:" and lines of the form
"name....value". Read are SMInfoRecord (`saquery SMIR`), PortInfoRecord of ports marked as managers'
(`saquery -s`) and NodeRecord (`saquery NR`); other records are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from healthcheck.subnet.model import DeviceKind, FabricEnd, FabricPort, ManagerState, SubnetManager
from healthcheck.subnet.readers.building import Building, SubnetReading, UnreadLines
from healthcheck.subnet.readers.toolwords import cut_short, guid_of, name_of, number, numbered, pair

TOOL, SMINFO = "saquery", "sminfo"
# SMInfo.SMState (InfiniBand Architecture Specification, volume 1, SMInfo)
STATES = {0: ManagerState.NOT_ACTIVE, 1: ManagerState.DISCOVERING, 2: ManagerState.STANDBY,
          3: ManagerState.MASTER}
_KINDS = {"Switch": DeviceKind.SWITCH, "Channel Adapter": DeviceKind.ADAPTER, "Router": DeviceKind.ROUTER}
_RECORD = re.compile(r"(\w+?)\s?Record dump:")
_SMINFO = re.compile(r"sminfo: sm lid ([0-9]{1,5}) sm guid 0x([0-9a-f]{1,16}), activity count ([0-9]{1,10}) "
                     r"priority ([0-9]{1,2}) state ([0-9]{1,2}) \w+")
_IS_SM = 1 << 1         # PortInfo.CapabilityMask, bit 1


def read(text: str, cut: bool = False) -> SubnetReading:
    """The records in an output; `cut`: whether whoever captured it dropped its end."""
    building, unread = Building(), UnreadLines(TOOL)
    managers: list[SubnetManager] = []
    shown, whole, marks = False, not cut and not cut_short(text), "IsSM ports" in text[:2000]
    lids: set[int] = set()
    for kind, record in _records(text, unread):
        if kind == "SMInfo":
            shown = True
            guid, state = guid_of(record.get("GUID", "")), number(record.get("SMState", ""))
            if guid is None or state not in STATES:
                unread.note("a record of a subnet manager has no GUID or no known state")
                whole = False
            else:
                managers.append(SubnetManager(guid, STATES[state], number(record.get("Priority", "")),
                                              number(record.get("ActCount", ""))))
        elif kind == "PortInfo":
            lid = number(record.get("EndPortLid", ""))
            mask = number(record.get("capability_mask", record.get("CapMask", "")))
            if lid is not None and mask is not None and mask & _IS_SM:
                lids.add(lid)
        elif kind == "Node":
            _node(building, record, unread)
    return SubnetReading(
        TOOL, building.devices(), managers=tuple(managers) if shown else None,
        all_managers=whole,
        manager_lids=frozenset(lids) if marks or lids else None, unread=unread.lines(),
        partial=cut or cut_short(text))


def _records(text: str, unread: UnreadLines) -> Iterator[tuple[str, Mapping[str, str]]]:
    kind, record = "", dict[str, str]()
    for at, line in numbered(text):
        if (found := _RECORD.fullmatch(line.strip())) is not None:
            if kind:
                yield kind, record
            kind, record = found[1], {}
        elif (parts := pair(line)) is not None:
            record.setdefault(parts[0], parts[1])
        elif kind == "" and line.strip() not in ("IsSM ports", "IsSMdisabled ports"):
            unread.add(at, line)
    if kind:
        yield kind, record


def _node(building: Building, record: Mapping[str, str], unread: UnreadLines) -> None:
    guid, port_guid = guid_of(record.get("node_guid", "")), guid_of(record.get("port_guid", ""))
    kind = _KINDS.get(record.get("node_type", ""))
    if guid is None or kind is None:
        unread.note("a record of a node has no GUID or no known kind")
        return
    building.device(guid, kind, name_of(record.get("NodeDescription", "")),
                    guid_of(record.get("sys_guid", "")), number(record.get("num_ports", "")))
    at = number(record.get("port_num", ""))
    if kind is DeviceKind.ADAPTER and at and port_guid is not None:
        end = FabricEnd(guid, at)
        building.port(FabricPort(end, lid=number(record.get("lid", "")), port_guid=port_guid))


def read_sminfo(text: str, cut: bool = False) -> SubnetReading:
    """The manager that answered; several outputs may follow each other."""
    unread, managers = UnreadLines(SMINFO), []
    for at, line in numbered(text):
        found = _SMINFO.fullmatch(line.strip())
        guid = guid_of(found[2]) if found is not None else None
        if found is None or guid is None:
            unread.add(at, line)
            continue
        managers.append(SubnetManager(guid, STATES.get(int(found[5]), ManagerState.UNKNOWN), int(found[4]),
                                      int(found[3])))
    return SubnetReading(SMINFO, managers=tuple(managers) or None, all_managers=False, unread=unread.lines(),
                         partial=cut or cut_short(text))
