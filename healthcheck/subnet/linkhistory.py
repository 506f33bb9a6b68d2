"""What became of links over time: which went down by themselves, and which because a device restarted.

Pure, of events in any order: whoever reads them (an event log, a poll) says port, time and whether it is up.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from healthcheck.subnet.model import FabricEnd, FabricLink, Subnet

# A server's or a switch's ports go down within seconds of each other when it restarts.
TOGETHER_S = 30.0
# An operating system and its firmware are back within half an hour; who is not is gone, and no reboot is
# proven.
BACK_S = 1800.0


@dataclass(frozen=True, order=True)
class LinkEvent:
    """A link went up or down at this port, in seconds of one clock; `peer` where the source names it."""

    at: float
    end: FabricEnd
    up: bool
    peer: FabricEnd | None = field(default=None, compare=False)


@dataclass(frozen=True, order=True)
class DeviceEvent:
    """A device came into the subnet or left it; `guid` is its node's, its port's or its system's."""

    at: float
    guid: str
    up: bool


@dataclass(frozen=True)
class DeviceRestart:
    """All ports of a host (by name) or switch (by GUID) went down together and came back."""

    who: str
    began: float
    ended: float
    links: tuple[FabricLink, ...]


@dataclass(frozen=True)
class LinkOutage:
    """A link that was down by itself; `ended` is None where it has not come back."""

    link: FabricLink
    began: float
    ended: float | None = None


@dataclass(frozen=True)
class LinkHistory:
    """Restarts, and outages that no restart explains, both by time."""

    restarts: tuple[DeviceRestart, ...]
    outages: tuple[LinkOutage, ...]


def history(subnet: Subnet, events: Iterable[LinkEvent], owners: Mapping[str, str],
            devices: Iterable[DeviceEvent] = (), together_s: float = TOGETHER_S,
            back_s: float = BACK_S) -> LinkHistory:
    """The history of the subnet's links. `owners` are hosts by the GUID of their adapters. A device with a
    single link is never said to have restarted: its link going down looks the same."""
    outages = _outages(_found(subnet, events), _by_device(subnet), list(devices))
    groups = _groups({*subnet.links, *(each.link for each in outages)}, owners)
    by_group: dict[str, list[LinkOutage]] = defaultdict(list)
    for each in outages:
        for who in {owners.get(end.guid, end.guid) for end in (each.link.a, each.link.b)}:
            by_group[who].append(each)
    restarts: list[DeviceRestart] = []
    explained: set[LinkOutage] = set()
    for who, own in sorted(by_group.items()):
        links = groups[who]
        if len(links) < 2:
            continue
        began = [each.began for each in own]
        for at, first in enumerate(own):
            if first in explained:
                continue
            near = own[at:bisect_right(began, first.began + together_s)]
            ends = [each.ended for each in near if each.ended is not None]
            if (len(ends) == len(near) >= len(links) and {each.link for each in near} == links
                    and max(ends) - first.began <= back_s):
                explained.update(near)
                restarts.append(DeviceRestart(who, first.began, max(ends), tuple(sorted(links))))
    return LinkHistory(tuple(sorted(restarts, key=lambda each: (each.began, each.who))),
                       tuple(each for each in outages if each not in explained))


def _found(subnet: Subnet, events: Iterable[LinkEvent]) -> list[tuple[float, FabricLink, bool]]:
    """The events by time, each with its link: the subnet's where it knows either end, otherwise what the
    event names, as a link that is down may be missing from the subnet. Events of one end that has no link
    in the subnet are left out."""
    owners = {port.port_guid: device.guid for device in subnet.devices.values()
              for port in device.ports.values() if port.port_guid is not None}
    found = []
    for event in sorted(events):
        end = _moved(event.end, subnet, owners)
        peer = _moved(event.peer, subnet, owners) if event.peer is not None else None
        link = _known(subnet, end, peer) or (_known(subnet, peer, end) if peer is not None else None)
        if link is None and peer is not None and peer != end:
            link = FabricLink.of(end, peer)
        if link is not None:
            found.append((event.at, link, event.up))
    return found


def _moved(end: FabricEnd, subnet: Subnet, owners: Mapping[str, str]) -> FabricEnd:
    """The port under its node's GUID, where the event names it by its own."""
    return end if end.guid in subnet.devices else FabricEnd(owners.get(end.guid, end.guid), end.number)


def _known(subnet: Subnet, end: FabricEnd, other: FabricEnd | None) -> FabricLink | None:
    """The link that the subnet shows at this port, if it leads to the other one's device: sources number an
    adapter's ports differently."""
    port = subnet.port(end)
    if port is None or port.peer is None or (other is not None and port.peer.guid != other.guid):
        return None
    return FabricLink.of(end, port.peer)


def _by_device(subnet: Subnet) -> Mapping[str, set[FabricLink]]:
    """The links of each device, by each of the GUIDs that an event may name it by."""
    found: dict[str, set[FabricLink]] = defaultdict(set)
    for device in subnet.devices.values():
        for port in device.ports.values():
            if port.peer is not None:
                for guid in {device.guid, device.system, port.port_guid} - {None}:
                    found[guid or ""].add(FabricLink.of(port.end, port.peer))
    return found


def _outages(events: Iterable[tuple[float, FabricLink, bool]], by_device: Mapping[str, set[FabricLink]],
             devices: Iterable[DeviceEvent]) -> list[LinkOutage]:
    """Each time that a link was down, from the first end that says so to the first that says up. A device
    that left takes its links along; one that is back ends only what no event of the link itself began."""
    down: dict[FabricLink, float] = {}
    own_down: set[FabricLink] = set()
    found = []
    steps: list[tuple[float, int, bool, tuple[FabricLink, ...], bool]] = [
        (at, 1, up, (link,), True) for at, link, up in events]
    steps += [(each.at, 0, each.up, tuple(sorted(by_device.get(each.guid, ()))), False) for each in devices]
    for at, _, up, links, own in sorted(steps):
        for link in links:
            if not up:
                down.setdefault(link, at)
                if own:
                    own_down.add(link)
            elif link in down and (own or link not in own_down):
                found.append(LinkOutage(link, down.pop(link), at))
                own_down.discard(link)
    found += [LinkOutage(link, began) for link, began in down.items()]
    return sorted(found, key=lambda each: (each.began, each.link))


def _groups(links: Iterable[FabricLink], owners: Mapping[str, str]) -> Mapping[str, set[FabricLink]]:
    """By host, and by the GUID of each other device, all its links."""
    found: dict[str, set[FabricLink]] = defaultdict(set)
    for link in links:
        for end in (link.a, link.b):
            found[owners.get(end.guid, end.guid)].add(link)
    return found
