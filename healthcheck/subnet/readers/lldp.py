"""LLDP: an Ethernet fabric (RoCE) as lldpd on nodes and switches knows its neighbours.

A file "lldp-gpu001.json0" holds what `lldpctl -f json0` (or `json`, `xml`) printed on gpu001;
"interfaces-gpu001.json" what muster read there: PCI address, link, and rate. A switch is known by its chassis
id, its port by a number made of its name ("Ethernet12", "swp1s0"); a node's interface by the node's name and
its own. Where two neighbours show at one interface, as behind a bridge, neither is taken.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from healthcheck.facts.lldpneighbours import LldpNeighbour, neighbours
from healthcheck.subnet.model import DeviceKind, FabricEnd, FabricPort, LinkState
from healthcheck.subnet.readers.building import Building, SubnetReading, UnreadLines
from healthcheck.subnet.readers.toolwords import name_of

TOOL = "lldpctl"
_FILE = re.compile(r"(lldp|interfaces)-([A-Za-z0-9][A-Za-z0-9._-]{0,126}?)(?:\.(?:json0?|xml|txt))*")
_FIRST = 1 << 16        # beyond every number that a port of InfiniBand has


class LldpFile(NamedTuple):
    """What a file of a folder is: of which node or switch, and whether it is that of its interfaces."""

    node: str
    interfaces: bool


def file_of(name: str) -> LldpFile | None:
    """What a file of this name holds; None for another one."""
    found = _FILE.fullmatch(name)
    return LldpFile(found[2], found[1] == "interfaces") if found is not None else None


def number_of_name(port: str) -> int:
    """The number that stands for a port of this name."""
    return _FIRST + zlib.crc32(port.encode(errors="surrogateescape")) % (1 << 31)


def read(outputs: Mapping[str, str]) -> SubnetReading:
    """What the outputs show, by the names of their files."""
    unread = UnreadLines(TOOL)
    shown: dict[str, tuple[LldpNeighbour, ...]] = {}
    interfaces: dict[str, Mapping[str, Any]] = {}
    for name, text in sorted(outputs.items()):
        if (file := file_of(name)) is None:
            continue
        try:
            if file.interfaces:
                interfaces[file.node] = _interfaces(text)
            else:
                shown[file.node] = neighbours(text)
        except ValueError as error:
            unread.note(f"{name}: {error}")
    building = Building()
    chassis = _chassis(near for those in shown.values() for near in those)
    for node, those in shown.items():
        _node(building, node, those, interfaces.get(node, {}), chassis, unread)
    return SubnetReading(TOOL, building.devices(), unread=unread.lines(), ethernet=True)


def _interfaces(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("no JSON") from None
    if not isinstance(found, dict) or not all(isinstance(one, dict) for one in found.values()):
        raise ValueError("no object of interfaces")
    return found


def _chassis(those: Iterable[LldpNeighbour]) -> Mapping[str, str]:
    """The chassis id of each switch by its name, where it gives one; a name that two give is none's."""
    found: dict[str, set[str]] = defaultdict(set)
    for near in those:
        if near.system and near.chassis and near.switches is not False:
            found[_short(near.system)].add(near.chassis.lower())
    return {name: next(iter(ids)) for name, ids in found.items() if len(ids) == 1}


def _short(name: str) -> str:
    return name.partition(".")[0].lower()


def _node(building: Building, node: str, those: Sequence[LldpNeighbour], facts: Mapping[str, Any],
          chassis: Mapping[str, str], unread: UnreadLines) -> None:
    """Notes the interfaces of one node or switch, and what is at their other ends."""
    own = chassis.get(_short(node))
    by_interface: dict[str, list[LldpNeighbour]] = defaultdict(list)
    for near in those:
        by_interface[near.interface].append(near)
    for interface in sorted({*by_interface, *facts}):
        nears, fact = by_interface.get(interface, []), facts.get(interface, {})
        pci, mbps, link = fact.get("pci"), fact.get("mbps"), fact.get("link")
        end = _end(building, node, interface, own)
        if len(nears) > 1:
            unread.note(f"{node} {interface}: {len(nears)} neighbours show, so none is taken")
        peer = _peer(building, nears[0], chassis) if len(nears) == 1 else None
        up = True if nears else link if isinstance(link, bool) else None
        building.port(FabricPort(
            end, state=None if up is None else LinkState.ACTIVE if up else LinkState.DOWN,
            physical=None if up is None else "linkup" if up else "no link",
            gigabits=mbps / 1000 if isinstance(mbps, int) and not isinstance(mbps, bool) and mbps > 0 and up
            else None,
            label=pci if own is None and isinstance(pci, str) and pci else interface, peer=peer))
        if peer is not None and ((known := building.known(peer)) is None or known.peer is None):
            label = nears[0].port if known is None else known.label
            building.port(FabricPort(peer, state=LinkState.ACTIVE, physical="linkup", label=label, peer=end))


def _end(building: Building, node: str, interface: str, chassis: str | None) -> FabricEnd:
    """An interface of a node, each of which is an adapter, or a port of a switch."""
    if chassis is not None:
        building.device(chassis, DeviceKind.SWITCH, name_of(node))
        return FabricEnd(chassis, number_of_name(interface))
    guid = f"{node}/{interface}"
    building.device(guid, DeviceKind.ADAPTER, name_of(f"{node} {interface}"), port_count=1)
    return FabricEnd(guid, 1)


def _peer(building: Building, near: LldpNeighbour, chassis: Mapping[str, str]) -> FabricEnd | None:
    """The other end, where it says enough of itself."""
    if not near.port or not (near.chassis or near.system):
        return None
    if near.switches is False and _short(near.system) not in chassis:
        return _end(building, _short(near.system) or near.chassis.lower(), near.port, None)
    guid = near.chassis.lower() or chassis.get(_short(near.system), near.system.lower())
    building.device(guid, DeviceKind.SWITCH, name_of(near.system))
    return FabricEnd(guid, number_of_name(near.port))
