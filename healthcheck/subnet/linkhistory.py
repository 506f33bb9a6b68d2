"""What became of links over time: which went down by themselves, and which because a device restarted.

Pure, of events in any order: whoever reads them (an event log, a poll) says port, time and whether it is up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from healthcheck.subnet.model import FabricEnd, FabricLink, Subnet

# A server's or a switch's ports go down within seconds of each other when it restarts.
TOGETHER_S = 30.0
# An operating system and its firmware are back within half an hour; who is not is gone, and no reboot is
# proven.
BACK_S = 1800.0


@dataclass(frozen=True, order=True)
class LinkEvent:
    """A link went up or down at this port, in seconds of one clock."""

    at: float
    end: FabricEnd
    up: bool


@dataclass(frozen=True)
class DeviceRestart:
    """All ports of a host, or of a switch, went down together and came back: `who` is the host's name or the
    device's GUID."""

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
            together_s: float = TOGETHER_S, back_s: float = BACK_S) -> LinkHistory:
    """The history of the subnet's links. `owners` are hosts by the node GUID of their adapters.

    A device with a single link is never said to have restarted: its link going down looks the same.
    """
    outages = _outages(subnet, events)
    groups = _groups(subnet, owners)
    restarts: list[DeviceRestart] = []
    explained: set[LinkOutage] = set()
    for who, links in sorted(groups.items()):
        own = [each for each in outages if each.link in links]
        for first in own:
            if first in explained:
                continue
            near = [each for each in own if 0 <= each.began - first.began <= together_s]
            ends = [each.ended for each in near if each.ended is not None]
            if (len(links) > 1 and {each.link for each in near} == links and len(ends) == len(near)
                    and max(ends) - first.began <= back_s):
                explained.update(near)
                restarts.append(DeviceRestart(who, first.began, max(ends), tuple(sorted(links))))
    return LinkHistory(tuple(sorted(restarts, key=lambda each: (each.began, each.who))),
                       tuple(each for each in outages if each not in explained))


def _outages(subnet: Subnet, events: Iterable[LinkEvent]) -> list[LinkOutage]:
    """Each time that a link was down. Both ends may tell of it: the first that says so begins it, the first
    that says up ends it. Ports without link in the subnet are left out."""
    down: dict[FabricLink, float] = {}
    found = []
    for event in sorted(events):
        port = subnet.port(event.end)
        if port is None or port.peer is None:
            continue
        link = FabricLink.of(event.end, port.peer)
        if not event.up:
            down.setdefault(link, event.at)
        elif link in down:
            found.append(LinkOutage(link, down.pop(link), event.at))
    found += [LinkOutage(link, began) for link, began in down.items()]
    return sorted(found, key=lambda each: (each.began, each.link))


def _groups(subnet: Subnet, owners: Mapping[str, str]) -> dict[str, set[FabricLink]]:
    """By host, and by the GUID of each other device, all its links."""
    found: dict[str, set[FabricLink]] = defaultdict(set)
    for link in subnet.links:
        for end in (link.a, link.b):
            found[owners.get(end.guid, end.guid)].add(link)
    return dict(found)
