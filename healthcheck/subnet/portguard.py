"""What is lost when ports are disabled, and which may not be: a host keeps its last link, and a leaf the
uplinks that the policy asks for.

Pure: proposes and refuses. Links that are down already count as lost; so do those whose state no tool showed,
as only a link that is known to work can stand in for another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from healthcheck.subnet.model import DeviceKind, FabricEnd, FabricLink, LinkState, Subnet


@dataclass(frozen=True)
class PortDisable:
    """One port that is to be disabled, with the other end of its cable, why, and what is lost, in words.
    `refused` is why it may not be; "" where it may."""

    end: FabricEnd
    peer: FabricEnd | None
    reason: str
    lost: str
    refused: str = ""


def proposed(subnet: Subnet, wanted: Mapping[FabricEnd, str], owners: Mapping[str, str],
             least_uplinks: int) -> tuple[PortDisable, ...]:
    """What becomes of each wanted port (with its reason), in their order: each is judged as if those before
    it that may be disabled were.

    `owners` are hosts by the node GUID of their adapters; an adapter without one counts as a host by itself.
    `least_uplinks` is how many links to other switches a switch with hosts keeps.
    """
    gone: set[FabricLink] = set()
    found = []
    for end, reason in wanted.items():
        one = _judged(subnet, end, reason, owners, least_uplinks, gone)
        if not one.refused and one.peer is not None:
            gone.add(FabricLink.of(one.end, one.peer))
        found.append(one)
    return tuple(found)


def _judged(subnet: Subnet, end: FabricEnd, reason: str, owners: Mapping[str, str], least_uplinks: int,
            gone: set[FabricLink]) -> PortDisable:
    port = subnet.port(end)
    if port is None:
        return PortDisable(end, None, reason, "", "this port was not seen")
    if port.peer is None:
        return PortDisable(end, None, reason, "nothing is known to be at its other end",
                           "what it leads to is not known, so neither is what is lost")
    if subnet.partial:
        return PortDisable(end, port.peer, reason, "", "the subnet was read in part")
    link = FabricLink.of(end, port.peer)
    working = _working(subnet) - gone
    ends = (end, port.peer)
    hosts = [each for each in ends if not _is_switch(subnet, each)]
    if hosts:
        host = owners.get(hosts[0].guid, hosts[0].guid)
        own = [each for each in working if any(
            not _is_switch(subnet, side) and owners.get(side.guid, side.guid) == host
            for side in (each.a, each.b))]
        left = len([each for each in own if each != link])
        lost = f"a link of {host}: {left} of its {len(own)} working links are left"
        return PortDisable(end, port.peer, reason, lost, "" if left else f"it is the last link of {host}")
    parts, refused = [], ""
    for side in ends:
        if not _has_hosts(subnet, side.guid):
            continue
        uplinks = [each for each in working if side.guid in (each.a.guid, each.b.guid)
                   and _is_switch(subnet, each.a) and _is_switch(subnet, each.b)]
        left = len([each for each in uplinks if each != link])
        name = subnet.devices[side.guid].description or side.guid
        parts.append(f"an uplink of {name}: {left} of its {len(uplinks)} working uplinks are left")
        if left < least_uplinks and not refused:
            refused = f"{name} would keep {left} uplinks, and the policy asks for {least_uplinks}"
    return PortDisable(end, port.peer, reason, "; ".join(parts) or "a link between switches without hosts",
                       refused)


def _working(subnet: Subnet) -> set[FabricLink]:
    """The links of which both ends are known to be active."""
    return {link for link in subnet.links
            if all((port := subnet.port(end)) is not None and port.state is LinkState.ACTIVE
                   for end in (link.a, link.b))}


def _is_switch(subnet: Subnet, end: FabricEnd) -> bool:
    device = subnet.devices.get(end.guid)
    return device is not None and device.kind is DeviceKind.SWITCH


def _has_hosts(subnet: Subnet, guid: str) -> bool:
    return any(port.peer is not None and not _is_switch(subnet, port.peer)
               for port in subnet.devices[guid].ports.values())


def allowed(disables: Iterable[PortDisable]) -> Sequence[PortDisable]:
    """Those that may be disabled."""
    return [each for each in disables if not each.refused]
