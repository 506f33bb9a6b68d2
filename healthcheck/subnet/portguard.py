"""What is lost when ports are disabled, and which may not be: a host keeps its last link, a leaf the uplinks
that the policy asks for, and no switch is cut off from another.

Pure: proposes and refuses. Links that are down already count as lost; so do those whose state no tool showed,
as only a link that is known to work can stand in for another.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from healthcheck.subnet.join import system_name
from healthcheck.subnet.model import DeviceKind, FabricEnd, FabricLink, LinkState, Subnet
from healthcheck.subnet.rates import gbps


@dataclass(frozen=True)
class UplinkFloor:
    """How many links to other switches a switch with hosts keeps: `least`, and `percent` of those that it is
    cabled with. `cabled` are these by the switch's GUID, where more are known than a look shows: a port that
    is disabled shows no other end."""

    least: int
    percent: float = 0.0
    cabled: Mapping[str, int] = field(default_factory=dict)

    def of(self, guid: str, seen: int) -> int:
        """How many this switch keeps, of which so many cables are seen."""
        return max(self.least, math.ceil(self.percent / 100 * max(seen, self.cabled.get(guid, 0))))


@dataclass(frozen=True)
class PortDisable:
    """One port that is to be disabled, with the other end of its cable, why, and what is lost, in words.
    `hosts` are those whose link it is. `refused` is why it may not be; "" where it may."""

    end: FabricEnd
    peer: FabricEnd | None
    reason: str
    lost: str
    refused: str = ""
    hosts: tuple[str, ...] = ()


def switch_end(subnet: Subnet, end: FabricEnd) -> FabricEnd:
    """The port of this link at which it is disabled: an adapter's port that is off cannot be reached to turn
    it on again, so that its switch's port is."""
    port = subnet.port(end)
    if port is None or port.peer is None or _is_switch(subnet, end) or not _is_switch(subnet, port.peer):
        return end
    return port.peer


def proposed(subnet: Subnet, wanted: Mapping[FabricEnd, str], owners: Mapping[str, str],
             floor: UplinkFloor, idle: Collection[FabricLink] = ()) -> tuple[PortDisable, ...]:
    """What becomes of each wanted port (with its reason), in their order: each is judged as if those before
    it that may be disabled were. `idle` are links that are known to carry nothing, however they are shown, as
    one that the subnet manager leaves out. `owners` are hosts by the GUID of adapters; one without is a host
    by itself."""
    left = _working(subnet) - set(idle)
    found: list[PortDisable] = []
    off: set[FabricEnd] = set()
    for end, reason in wanted.items():
        one = _judged(subnet, end, reason, owners, floor, left)
        if one.peer is not None and one.peer in off:
            one = PortDisable(end, one.peer, reason, "", "the other end of its cable is to be disabled")
        if not one.refused and one.peer is not None:
            left.discard(FabricLink.of(one.end, one.peer))
            off.add(one.end)
        found.append(one)
    return tuple(found)


def _judged(subnet: Subnet, end: FabricEnd, reason: str, owners: Mapping[str, str], floor: UplinkFloor,
            working: Collection[FabricLink]) -> PortDisable:
    port = subnet.port(end)
    if port is None:
        return PortDisable(end, None, reason, "", "this port was not seen")
    if port.physical == "disabled" or subnet.isolated(end):
        return PortDisable(end, port.peer, reason, "", "it is disabled already, and not by this")
    if port.peer is None:
        return PortDisable(end, None, reason, "nothing is known to be at its other end",
                           "what it leads to is not known, so neither is what is lost")
    if subnet.partial:
        return PortDisable(end, port.peer, reason, "", "the subnet was read in part")
    link = FabricLink.of(end, port.peer)
    if not any(_is_switch(subnet, each) for each in (end, port.peer)):
        return PortDisable(end, port.peer, reason, "", "no switch is known at either end")
    if not _is_switch(subnet, end):
        return PortDisable(end, port.peer, reason, "",
                           "it is an adapter's, which could not be reached to enable it again")
    if not _is_switch(subnet, port.peer):
        return _of_host(subnet, PortDisable(end, port.peer, reason, ""), owners, working)
    return _between(subnet, PortDisable(end, port.peer, reason, ""), link, floor, working)


def _of_host(subnet: Subnet, one: PortDisable, owners: Mapping[str, str],
             working: Collection[FabricLink]) -> PortDisable:
    assert one.peer is not None  # noqa: S101  (the caller has looked)
    link = FabricLink.of(one.end, one.peer)
    host = owners.get(one.peer.guid)
    called = host or _name(subnet, one.peer.guid)
    own = [each for each in working if any(
        not _is_switch(subnet, side) and (side.guid == one.peer.guid if host is None
                                          else owners.get(side.guid) == host)
        for side in (each.a, each.b))]
    left = [each for each in own if each != link]
    lost = (f"a link of {called}: {len(left)} of its {len(own)} working links are left"
            f"{_rates(subnet, own, left)}")
    unknown = "" if host is not None else ", as far as is known: no snapshot states this adapter's GUID"
    refused = "" if left else f"it is the last link of {called}{unknown}"
    return PortDisable(one.end, one.peer, one.reason, lost, refused, (called,))


def _between(subnet: Subnet, one: PortDisable, link: FabricLink, floor: UplinkFloor,
             working: Collection[FabricLink]) -> PortDisable:
    parts, refused = [], ""
    for side in (link.a, link.b):
        if not _has_hosts(subnet, side.guid):
            continue
        cabled = [each for each in subnet.links if _uplink(subnet, each, side.guid)]
        uplinks = [each for each in working if _uplink(subnet, each, side.guid)]
        left = [each for each in uplinks if each != link]
        name = _name(subnet, side.guid)
        parts.append(f"an uplink of {name}: {len(left)} of its {len(uplinks)} working uplinks are left"
                     f"{_rates(subnet, uplinks, left)}")
        least = floor.of(side.guid, len(cabled))
        if len(left) < least and not refused:
            refused = f"{name} would keep {len(left)} uplinks, and the policy asks for {least}"
    if not refused and not _joined(subnet, link, working):
        refused = (f"{_name(subnet, link.a.guid)} and {_name(subnet, link.b.guid)} would be cut off from "
                   "each other")
    return PortDisable(one.end, one.peer, one.reason,
                       "; ".join(parts) or "a link between switches without hosts", refused)


def _rates(subnet: Subnet, before: Collection[FabricLink], after: Collection[FabricLink]) -> str:
    """What they carry each way before and after, where every rate is known."""
    sums = []
    for links in (before, after):
        rates = [gbps(subnet.port(link.a)) or gbps(subnet.port(link.b)) for link in links]
        if any(rate is None for rate in rates):
            return ""
        sums.append(sum(rate for rate in rates if rate is not None))
    return f" ({sums[1]:g} of {sums[0]:g} Gb/s)"


def _joined(subnet: Subnet, link: FabricLink, working: Collection[FabricLink]) -> bool:
    """Whether the switches at both ends reach each other without this link; adapters forward nothing."""
    beside: dict[str, set[str]] = defaultdict(set)
    for each in working:
        if each != link and _is_switch(subnet, each.a) and _is_switch(subnet, each.b):
            beside[each.a.guid].add(each.b.guid)
            beside[each.b.guid].add(each.a.guid)
    met, ahead = {link.a.guid}, [link.a.guid]
    while ahead:
        for guid in beside[ahead.pop()] - met:
            met.add(guid)
            ahead.append(guid)
    return link.b.guid in met


def _working(subnet: Subnet) -> set[FabricLink]:
    """The links of which both ends are known to be active, and neither is listed as unhealthy."""
    unhealthy = subnet.unhealthy or {}
    return {link for link in subnet.links
            if all(end not in unhealthy and (port := subnet.port(end)) is not None
                   and port.state is LinkState.ACTIVE and port.physical in (None, "linkup")
                   for end in (link.a, link.b))}


def _uplink(subnet: Subnet, link: FabricLink, guid: str) -> bool:
    return guid in (link.a.guid, link.b.guid) and _is_switch(subnet, link.a) and _is_switch(subnet, link.b)


def _name(subnet: Subnet, guid: str) -> str:
    device = subnet.devices.get(guid)
    return (system_name(device.description) if device is not None else "") or f"0x{guid}"


def _is_switch(subnet: Subnet, end: FabricEnd) -> bool:
    device = subnet.devices.get(end.guid)
    return device is not None and device.kind is DeviceKind.SWITCH


def _has_hosts(subnet: Subnet, guid: str) -> bool:
    return any(port.peer is not None and not _is_switch(subnet, port.peer)
               for port in subnet.devices[guid].ports.values())


def uplinks(subnet: Subnet, more: Iterable[FabricLink] = ()) -> Mapping[str, int]:
    """How many cables to other switches each switch with hosts has, by GUID: those seen, and these."""
    found: dict[str, int] = defaultdict(int)
    for link in {*subnet.links, *more}:
        if _is_switch(subnet, link.a) and _is_switch(subnet, link.b):
            for side in (link.a, link.b):
                found[side.guid] += _has_hosts(subnet, side.guid)
    return found


def allowed(disables: Iterable[PortDisable]) -> tuple[PortDisable, ...]:
    """Those that may be disabled."""
    return tuple(each for each in disables if not each.refused)
