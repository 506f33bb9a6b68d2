"""Which ports a node's ranks use, as NCCL's environment: from the port map and the node's snapshot.

NCCL's documentation, "Environment Variables": a NCCL_IB_HCA that begins with = names devices exactly,
device:port where one has several. NCCL_NET=IB makes NCCL fail where it would silently use TCP; it is set
unless the site sets another one. Ports of storage and management are never named. Without an RDMA port
nothing is forced, and a note says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from healthcheck.burnin.model import Participant, Rail
from healthcheck.facts.netdev import NetDev
from healthcheck.facts.port import Port
from healthcheck.facts.values import reading
from inventory.model import PortPlan

INFINIBAND, ETHERNET = "InfiniBand", "Ethernet"


@dataclass(frozen=True)
class Ports:
    """The environment of a node's ranks, that of each rail alone by number, and notes for people."""

    values: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    rails: Mapping[int, Mapping[str, str]] = field(default_factory=lambda: MappingProxyType({}))
    notes: tuple[str, ...] = ()


def presumed(places: Iterable[Participant]) -> dict[str, Ports]:
    """Before a node's snapshot: every planned rail is presumed to be there."""
    return {place.node: Ports(rails={rail.number: {} for rail in place.rails}) for place in places}


def ports(
    rails: Sequence[Rail], plans: Mapping[str, PortPlan], seen: Iterable[Port],
    netdevs: Iterable[NetDev] = (),
    gids: Mapping[tuple[str, int], int] = MappingProxyType({}), env: Mapping[str, str] = MappingProxyType({}),
) -> Ports:
    """The environment for a node with these compute rails. `plans` say by PCI address what a port is for,
    `gids` which GID of a device's port is RoCE v2 and routable. The site's settings (`env`) override what is
    found, but a single rail keeps its device."""
    seen = [port for port in seen if isinstance(reading(port, "pci"), str)
            and isinstance(reading(port, "device"), str)]
    notes: list[str] = []
    base = _interface(plans, netdevs)
    wanted = {rail.address for rail in rails}
    found = [port for port in seen if port.pci in wanted]
    usable = [port for port in found if reading(port, "link_layer") in (INFINIBAND, ETHERNET)]
    missing = [rail for rail in rails if rail.address not in {port.pci for port in usable}]
    if missing:
        notes.append(f"no RDMA device was found for rail {', '.join(str(rail.number) for rail in missing)}: "
                     f"{', '.join(rail.address for rail in missing)}")
    if not usable:
        notes.append("no RDMA port was found, so NCCL chooses the network (NCCL_NET is not set)")
        return Ports(given({**base, **env}), notes=tuple(notes))
    states = [(port.name, reading(port, "state")) for port in usable]
    notes += [f"{name} is {state}" for name, state in states if isinstance(state, str) and state != "ACTIVE"]
    many = {device for device, count in Counter(port.device for port in seen).items() if count > 1}
    each = {rail.number: [port for port in usable if port.pci == rail.address] for rail in rails}
    of_rail = {name: value for name, value in env.items() if name != "NCCL_IB_HCA"}
    alone = {number: given({**base, **_fabric(own, many, gids, notes), **of_rail})
             for number, own in each.items() if own}
    values = given({**base, **_fabric(usable, many, gids, notes), **env})
    return Ports(values, MappingProxyType(alone), tuple(dict.fromkeys(notes)))


def given(values: Mapping[str, str]) -> Mapping[str, str]:
    """The variables that are set: an empty value means that the site unsets one."""
    return MappingProxyType({name: value for name, value in values.items() if value})


def _fabric(own: Sequence[Port], many: set[str], gids: Mapping[tuple[str, int], int],
            notes: list[str]) -> dict[str, str]:
    names = [f"{port.device}:{port.number}" if port.device in many else port.device for port in own]
    values = {"NCCL_IB_HCA": "=" + ",".join(names), "NCCL_NET": "IB"}
    ethernet = [port for port in own if port.link_layer == ETHERNET]
    indices = {gids.get((port.device, port.number)) for port in ethernet}
    if len(indices) == 1 and None not in indices:
        values["NCCL_IB_GID_INDEX"] = str(indices.pop())
    elif ethernet:
        notes.append("the RoCE ports have no GID of RoCE v2 at one common index, so NCCL chooses (2.21 and "
                     "newer do so by themselves)")
    return values


def _interface(plans: Mapping[str, PortPlan], netdevs: Iterable[NetDev]) -> dict[str, str]:
    """The interface (or bond) of the management port that the port map names; else none is set."""
    known = [(reading(netdev, "pci"), reading(netdev, "interface"), reading(netdev, "bond"))
             for netdev in netdevs if reading(netdev, "link") is True]
    names = {bond or interface for pci, interface, bond in known
             if isinstance(pci, str) and isinstance(interface, str) and isinstance(bond, str)
             and plans.get(pci, PortPlan()).role == "mgmt"}
    if len(names) != 1:
        return {}
    name = names.pop()
    # In NCCL = means an exact match; gloo takes a plain list.
    return {"NCCL_SOCKET_IFNAME": f"={name}", "GLOO_SOCKET_IFNAME": name}
