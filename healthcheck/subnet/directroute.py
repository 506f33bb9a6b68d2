"""The way of a management packet through a subnet, port by port: it depends on no forwarding table and no
subnet manager, both of which change while a port is disabled.

InfiniBand Architecture Specification, volume 1, 14.2.2 (directed route): 0, then the number of the port by
which each device on the way sends it on; at most 63 of them.
"""

from __future__ import annotations

from collections import deque

from healthcheck.subnet.model import DeviceKind, FabricEnd, FabricLink, Subnet

MOST_HOPS = 63


def direct_route(subnet: Subnet, own: FabricEnd, guid: str,
                 without: FabricEnd | None = None) -> tuple[int, ...] | None:
    """The shortest way from this adapter's port to the device of this GUID: (0, 1, 6); None where there is
    none. It does not lead through the link at `without`."""
    shut = None
    if without is not None and (port := subnet.port(without)) is not None and port.peer is not None:
        shut = FabricLink.of(without, port.peer)
    ways: dict[str, tuple[int, ...]] = {own.guid: (0,)}
    ahead = deque([own.guid])
    while ahead:
        here = ahead.popleft()
        if here == guid:
            return ways[here]
        device = subnet.devices.get(here)
        if device is None or len(ways[here]) > MOST_HOPS or (
                here != own.guid and device.kind is not DeviceKind.SWITCH):
            continue
        for number, port in sorted(device.ports.items()):
            if port.peer is None or port.physical not in (None, "linkup") or port.peer.guid in ways or (
                    here == own.guid and number != own.number):
                continue
            if shut is not None and FabricLink.of(port.end, port.peer) == shut:
                continue
            ways[port.peer.guid] = (*ways[here], number)
            ahead.append(port.peer.guid)
    return None
