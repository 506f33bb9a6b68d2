"""Which adapter of a subnet is which node's, by PCI address and rail, and which port is which of a plan.

A node's own snapshot states the node GUID of each of its adapters: that joins for certain. Where no snapshot
does, the description that the adapter gives itself ("gpu001 mlx5_0", "gpu001 HCA-1", as rdma-ndd and drivers
set it) names the node: a weaker join, as anyone may write there, and it is stated as such. Where both are
there and differ, or two nodes state one GUID, that is a conflict.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

from healthcheck.model.hardware import Hardware
from healthcheck.subnet.cabling import CablingPlan, PlannedEnd, Tier
from healthcheck.subnet.model import DeviceKind, FabricDevice, FabricEnd, Subnet
from healthcheck.subnet.portlabel import number_of
from healthcheck.subnet.readers.building import guid_of
from inventory.model import Node, PortPlan


class JoinedBy(Enum):
    """What says whose an adapter is."""

    GUID = "guid"
    DESCRIPTION = "description"


@dataclass(frozen=True)
class KnownAdapter:
    """An adapter as its node's newest snapshot states it: node GUID as 16 hexadecimal digits, PCI address,
    and display name ("mlx5_0"), which may be empty."""

    node: str
    pci: str
    device: str
    guid: str


@dataclass(frozen=True)
class AdapterPlace:
    """Whose an adapter of the subnet is. What is not known is None."""

    node: str
    by: JoinedBy
    pci: str | None = None
    device: str | None = None
    rail: int | None = None
    leaf: str | None = None


@dataclass(frozen=True)
class JoinConflict:
    """Two statements that cannot both hold about one adapter, in words."""

    guid: str
    observed: str
    expected: str


@dataclass(frozen=True)
class FabricJoin:
    """The adapters whose node is known, by GUID; conflicts; and known adapters that no subnet shows."""

    adapters: Mapping[str, AdapterPlace] = field(default_factory=lambda: MappingProxyType({}))
    conflicts: tuple[JoinConflict, ...] = ()
    absent: tuple[KnownAdapter, ...] = ()


_MANAGED = re.compile(r"MF0;([^:]+):.*")
_DESCRIPTION = re.compile(r"(\S+)(?:\s+(\S+))?.*")
_NUMBERED = re.compile(r"HCA-\d+")


def system_name(description: str) -> str:
    """The name of a switch in its description: "leaf01" of "MF0;leaf01:MQM9700/U1", which managed switches
    of NVIDIA give, and the description itself otherwise."""
    found = _MANAGED.fullmatch(description)
    return found[1] if found is not None else description


def known_adapters(hardware: Mapping[str, Hardware]) -> tuple[KnownAdapter, ...]:
    """The adapters in nodes' newest hardware (`healthcheck.facts.components`)."""
    found = []
    for node, parts in hardware.items():
        for name, part in parts.items():
            kind, _, pci = name.partition(" ")
            guid = guid_of(part.get("guid", "").replace(":", "")) if kind == "nic" else None
            if guid is not None:
                found.append(KnownAdapter(node, pci, part.get("device", ""), guid))
    return tuple(found)


def join(subnets: Sequence[Subnet], known: Iterable[KnownAdapter],
         nodes: Mapping[str, Node] | None = None,
         usual: Mapping[str, Mapping[str, PortPlan]] | None = None) -> FabricJoin:
    """Whose each adapter of the subnets is. `nodes` are the inventory's; `usual` by node what its SKU says of
    its ports, by PCI address."""
    nodes, usual = nodes or {}, usual or {}
    claims: dict[str, list[KnownAdapter]] = defaultdict(list)
    by_name: dict[tuple[str, str], KnownAdapter] = {}
    by_pci: dict[tuple[str, str], KnownAdapter] = {}
    for one in known:
        claims[one.guid].append(one)
        by_name[one.node, one.device] = one
        by_pci[one.node, one.pci] = one
    conflicts = [JoinConflict(guid, f"{', '.join(sorted({one.node for one in those}))} state it",
                              "one node's adapter")
                 for guid, those in sorted(claims.items()) if len({one.node for one in those}) > 1]
    doubted = {one.guid for one in conflicts}
    names = {*nodes, *(one.node for those in claims.values() for one in those)}
    found: dict[str, AdapterPlace] = {}
    for subnet in subnets:
        for device in subnet.devices.values():
            if device.kind is not DeviceKind.ADAPTER:
                continue
            described, shown = _described(device, names)
            stated = _claimed(device, claims) if device.guid not in doubted else None
            if stated is not None:
                found[device.guid] = _place(stated.node, JoinedBy.GUID, stated, nodes, usual)
                if described is not None and described != stated.node:
                    conflicts.append(JoinConflict(device.guid, f"calls itself {device.description}",
                                                  f"{stated.node} {stated.device or stated.pci}".strip()))
            elif described is not None and subnet.ethernet:
                pci = _labelled(device) or ""
                stated = by_pci.get((described, pci), KnownAdapter(described, pci, shown, device.guid))
                found[device.guid] = _place(described, JoinedBy.DESCRIPTION, stated, nodes, usual)
            elif described is not None:
                adapter = by_name.get((described, shown)) if shown else None
                if adapter is not None and device.guid not in doubted:
                    conflicts.append(JoinConflict(
                        device.guid, f"calls itself {device.description}",
                        f"GUID {adapter.guid}, as {described} states of its {shown}"))
                    continue
                found[device.guid] = AdapterPlace(described, JoinedBy.DESCRIPTION, device=shown or None)
    there = {guid for subnet in subnets for device in subnet.devices.values()
             for guid in (device.guid, *(port.port_guid for port in device.ports.values()))}
    by_guid = any(not subnet.ethernet for subnet in subnets)
    absent = tuple(one for those in claims.values() for one in those if by_guid and one.guid not in there)
    return FabricJoin(found, tuple(conflicts), absent)


def _claimed(device: FabricDevice, claims: Mapping[str, Sequence[KnownAdapter]]) -> KnownAdapter | None:
    """The adapter that a node states: by node GUID, or by that of a port where a tool shows only that."""
    for guid in (device.guid, *(port.port_guid for port in device.ports.values())):
        if guid is not None and claims.get(guid):
            return claims[guid][0]
    return None


def _described(device: FabricDevice, names: Collection[str]) -> tuple[str | None, str]:
    """The node and the adapter's name in a description; None where it names no node that is known."""
    found = _DESCRIPTION.fullmatch(device.description)
    if found is None:
        return None, ""
    shown = found[2] or ""
    for name in (found[1], found[1].partition(".")[0]):
        if name in names:
            return name, "" if _NUMBERED.fullmatch(shown) else shown
    return None, ""


def _place(node: str, by: JoinedBy, adapter: KnownAdapter, nodes: Mapping[str, Node],
           usual: Mapping[str, Mapping[str, PortPlan]]) -> AdapterPlace:
    own = nodes[node].ports.get(adapter.pci) if node in nodes else None
    plans = [plan for plan in (own, usual.get(node, {}).get(adapter.pci)) if plan is not None]
    return AdapterPlace(
        node, by, adapter.pci, adapter.device or None,
        next((plan.rail for plan in plans if plan.rail is not None), None),
        next((plan.leaf for plan in plans if plan.leaf is not None), None))


def switch_names(plan: CablingPlan, subnet: Subnet) -> Mapping[str, str]:
    """The planned name of each switch of a subnet, by GUID: by the GUID that the plan has, or by what the
    switch calls itself. A name that two switches of one subnet give is given to none."""
    by_guid = {guid: device.name for device in plan.devices.values()
               if device.guid is not None and (guid := guid_of(device.guid)) is not None}
    switches = [device for device in subnet.devices.values() if device.kind is DeviceKind.SWITCH]
    said = {device.guid: next((name for name in (device.description, system_name(device.description),
                                                 *(device.description.partition(".")[:1] * subnet.ethernet))
                               if name in plan.devices and plan.devices[name].tier is not Tier.HOST), None)
            for device in switches}
    fixed = {device.guid: by_guid[device.guid] for device in switches if device.guid in by_guid}
    times = Counter(name for guid, name in said.items() if guid not in fixed)
    return {**{guid: name for guid, name in said.items()
               if name is not None and times[name] == 1 and name not in fixed.values()}, **fixed}


def planned_names(plan: CablingPlan, subnets: Sequence[Subnet],
                  joined: FabricJoin) -> Mapping[FabricEnd, PlannedEnd]:
    """The planned name of each port of the subnets that has one.

    A switch's port has the plan's word for its number or label, where the plan names the port, and the number
    otherwise. A host's port is the adapter by PCI address or display name, whichever the plan uses; with
    neither known, its description.
    """
    ports: dict[str, dict[str, str]] = defaultdict(dict)
    for end in (end for cable in plan.cables for end in (cable.a, cable.b)):
        ports[end.device][end.port] = end.port
        if plan.devices[end.device].tier is not Tier.HOST and (number := number_of(end.port)) is not None:
            ports[end.device].setdefault(str(number), end.port)
    hosts = {name for name, planned in plan.devices.items() if planned.tier is Tier.HOST}
    found: dict[FabricEnd, PlannedEnd] = {}
    for subnet in subnets:
        switches = switch_names(plan, subnet)
        for device in subnet.devices.values():
            if device.kind is DeviceKind.SWITCH:
                name = switches.get(device.guid)
                if name is None:
                    continue
                for port in device.ports.values():
                    words = (port.label, str(number_of(port.label or "") if subnet.ethernet
                                             else port.end.number))
                    known = next((ports[name][word] for word in words if word in ports[name]), None)
                    found[port.end] = PlannedEnd(name, known or port.label or str(port.end.number))
                continue
            place = joined.adapters.get(device.guid)
            if place is None:
                place = _by_plan(device, hosts)
            if place is None:
                continue
            names = [word for word in (place.pci, place.device) if word is not None]
            for port in device.ports.values():
                choices = [*(f"{word}/{port.end.number}" for word in names), *names]
                known = next((word for word in choices if word in ports.get(place.node, {})), None)
                shown = known or (choices[-1] if choices else None)
                if shown is not None:
                    found[port.end] = PlannedEnd(place.node, shown)
    return found


def _by_plan(device: FabricDevice, hosts: Collection[str]) -> AdapterPlace | None:
    """A host of the plan that the inventory does not know, by the adapter's description."""
    node, shown = _described(device, hosts)
    return (AdapterPlace(node, JoinedBy.DESCRIPTION, _labelled(device), shown or None) if node is not None
            else None)


def _labelled(device: FabricDevice) -> str | None:
    """The PCI address of an adapter, where its port has it as its label: those of Ethernet do."""
    return next((port.label for port in device.ports.values() if port.label is not None), None)
