"""Which adapter of a subnet is which node's, by PCI address and rail.

A node's own snapshot states the node GUID of each of its adapters: that joins for certain. Else the adapter's
description of itself ("gpu001 mlx5_0", "gpu001 HCA-1", as rdma-ndd and drivers set it) names the node: a
weaker join, stated as such. Where the two differ, or two nodes state one GUID, that is a conflict.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

from healthcheck.model.hardware import Hardware
from healthcheck.subnet.model import DeviceKind, FabricDevice, Subnet
from healthcheck.subnet.readers.toolwords import guid_of
from inventory.model import Node, PortPlan


class JoinedBy(Enum):
    """What says whose an adapter is."""

    GUID = "guid"
    DESCRIPTION = "description"


@dataclass(frozen=True)
class KnownAdapter:
    """An adapter as its node's newest snapshot states it: node GUID as 16 hexadecimal digits, PCI address,
    display name ("mlx5_0") and link layer ("InfiniBand"), which may be empty."""

    node: str
    pci: str
    device: str
    guid: str
    layer: str = ""


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
    """The adapters whose node is known, by GUID; conflicts; and known adapters that no subnet shows, without
    those of an Ethernet."""

    adapters: Mapping[str, AdapterPlace] = field(default_factory=lambda: MappingProxyType({}))
    conflicts: tuple[JoinConflict, ...] = ()
    absent: tuple[KnownAdapter, ...] = ()


_MANAGED = re.compile(r"MF0;([^:]+):.*")
_DESCRIPTION = re.compile(r"(\S+)(?:\s+(\S+))?.*")
_NUMBERED = re.compile(r"HCA-[0-9]+")


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
                found.append(KnownAdapter(node, pci, part.get("device", ""), guid, part.get("layer", "")))
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
    names = any_case({*nodes, *(one.node for those in claims.values() for one in those)})
    found: dict[str, AdapterPlace] = {}
    for subnet in subnets:
        for device in subnet.devices.values():
            if device.kind is not DeviceKind.ADAPTER:
                continue
            named, shown = described(device, names)
            stated = _claimed(device, claims) if device.guid not in doubted else None
            if stated is not None:
                found[device.guid] = _place(stated.node, JoinedBy.GUID, stated, nodes, usual)
                if named is not None and named != stated.node:
                    conflicts.append(JoinConflict(device.guid, f"calls itself {device.description}",
                                                  f"{stated.node} {stated.device or stated.pci}".strip()))
            elif named is not None and subnet.ethernet:
                pci = labelled(device) or ""
                stated = by_pci.get((named, pci), KnownAdapter(named, pci, shown, device.guid))
                found[device.guid] = _place(named, JoinedBy.DESCRIPTION, stated, nodes, usual)
            elif named is not None:
                adapter = by_name.get((named, shown)) if shown else None
                if adapter is not None and device.guid not in doubted:
                    conflicts.append(JoinConflict(
                        device.guid, f"calls itself {device.description}",
                        f"GUID {adapter.guid}, as {named} states of its {shown}"))
                    continue
                found[device.guid] = AdapterPlace(named, JoinedBy.DESCRIPTION, device=shown or None)
    there = {guid for subnet in subnets for device in subnet.devices.values()
             for guid in (device.guid, *(port.port_guid for port in device.ports.values()))}
    by_guid = any(not subnet.ethernet for subnet in subnets)
    absent = tuple(one for those in claims.values() for one in those
                   if by_guid and one.guid not in there and one.layer in ("", "InfiniBand"))
    return FabricJoin(found, tuple(conflicts), absent)


def _claimed(device: FabricDevice, claims: Mapping[str, Sequence[KnownAdapter]]) -> KnownAdapter | None:
    """The adapter that a node states: by node GUID, or by that of a port where a tool shows only that."""
    for guid in (device.guid, *(port.port_guid for port in device.ports.values())):
        if guid is not None and claims.get(guid):
            return claims[guid][0]
    return None


def any_case(names: Collection[str]) -> Mapping[str, str]:
    """Names by themselves, and in small letters where one alone has them: DNS and people do not care."""
    small = Counter(name.lower() for name in names)
    return {**{name.lower(): name for name in names if small[name.lower()] == 1},
            **{name: name for name in names}}


def described(device: FabricDevice, names: Mapping[str, str]) -> tuple[str | None, str]:
    """The node and the adapter's name in a description, by `names` of `any_case`; None for no known node."""
    found = _DESCRIPTION.fullmatch(device.description)
    if found is None:
        return None, ""
    shown = found[2] or ""
    short = found[1].partition(".")[0]
    for name in (found[1], short, found[1].lower(), short.lower()):
        if name in names:
            return names[name], "" if _NUMBERED.fullmatch(shown) else shown
    return None, ""


def _place(node: str, by: JoinedBy, adapter: KnownAdapter, nodes: Mapping[str, Node],
           usual: Mapping[str, Mapping[str, PortPlan]]) -> AdapterPlace:
    own = nodes[node].ports.get(adapter.pci) if node in nodes else None
    plans = [plan for plan in (own, usual.get(node, {}).get(adapter.pci)) if plan is not None]
    return AdapterPlace(
        node, by, adapter.pci, adapter.device or None,
        next((plan.rail for plan in plans if plan.rail is not None), None),
        next((plan.leaf for plan in plans if plan.leaf is not None), None))


def labelled(device: FabricDevice) -> str | None:
    """The PCI address of an adapter, where its port has it as its label: those of Ethernet do."""
    return next((port.label for port in device.ports.values() if port.label is not None), None)
