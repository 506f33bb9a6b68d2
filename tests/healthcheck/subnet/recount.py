"""A second count of what a link burn's rounds load, by other means than the planner's: flow by flow, hop by
hop. Shares no code with it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from healthcheck.subnet.burnplan import BurnPair
from healthcheck.subnet.model import DeviceKind, FabricEnd, Subnet

_GIGABITS = {"SDR": 2, "HDR": 50, "NDR": 100, "XDR": 200}   # of a lane
Loads = dict[FabricEnd, float]


def by_tables(subnet: Subnet, pairs: Iterable[BurnPair]) -> Loads:
    """Gb/s on each channel of one round."""
    loads: Loads = defaultdict(float)
    for pair in pairs:
        for source, target in ((pair.a.end, pair.b.end), (pair.b.end, pair.a.end)):
            lid = subnet.devices[target.guid].ports[target.number].lid
            assert lid is not None
            at = source
            for _ in range(20):
                loads[at] += pair.gbps
                arrived = subnet.devices[at.guid].ports[at.number].peer
                assert arrived is not None
                if arrived == target:
                    break
                at = FabricEnd(arrived.guid, subnet.routes[arrived.guid][lid])
            else:
                raise AssertionError("a flow does not arrive")
    return loads


def by_even_spread(subnet: Subnet, pairs: Iterable[BurnPair]) -> Loads:
    """The same where each switch spreads evenly over its shortest ways: by going through all of them."""
    loads: Loads = defaultdict(float)
    for pair in pairs:
        for source, target in ((pair.a.end, pair.b.end), (pair.b.end, pair.a.end)):
            loads[source] += pair.gbps
            first = subnet.devices[source.guid].ports[source.number].peer
            assert first is not None
            for end, share in _spread(subnet, _links_to(subnet, target), first.guid, target, Fraction(1)):
                loads[end] += float(share) * pair.gbps
    return loads


def _spread(subnet: Subnet, away: Mapping[str, int], switch: str, target: FabricEnd,
            share: Fraction) -> list[tuple[FabricEnd, Fraction]]:
    found = []
    nearer = [port for port in subnet.devices[switch].ports.values() if port.peer is not None and (
        port.peer == target if away[switch] == 1 else away.get(port.peer.guid) == away[switch] - 1)]
    for port in nearer:
        found.append((port.end, share / len(nearer)))
        if port.peer is not None and port.peer != target:
            found += _spread(subnet, away, port.peer.guid, target, share / len(nearer))
    return found


def _links_to(subnet: Subnet, target: FabricEnd) -> dict[str, int]:
    """Links from each switch to the target: first those beside it, then those beside these, and so on."""
    switches = {guid: {port.peer for port in device.ports.values() if port.peer is not None}
                for guid, device in subnet.devices.items() if device.kind is DeviceKind.SWITCH}
    away = {guid: 1 for guid, peers in switches.items() if target in peers}
    for links in range(2, len(switches) + 1):
        away |= {guid: links
                 for guid, peers in switches.items()
                 if guid not in away and any(peer.guid in away for peer in peers)}
    return away


def rate(subnet: Subnet, end: FabricEnd) -> float:
    """Gb/s of a port."""
    port = subnet.devices[end.guid].ports[end.number]
    return _GIGABITS[port.speed or ""] * (port.width or 0)


def best_shares(subnet: Subnet, rounds: Sequence[Loads]) -> dict[FabricEnd, float]:
    """By channel the largest share of its rate that a round loads."""
    ends = {end for link in subnet.links for end in (link.a, link.b)}
    return {end: max((loads.get(end, 0.0) / rate(subnet, end) for loads in rounds), default=0.0)
            for end in ends}
