"""Ports that wait to send far more than their equals under like load: hot spots; pure.

`PortXmitWait` counts the ticks in which a port had data to send and could not (InfiniBand Architecture
Specification, volume 1, PortCounters); how long a tick is depends on the device. So no number of its own is
judged: ticks by unit of data sent are compared between ports that lead from the same tier to the same tier
and sent about as much in the same time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from healthcheck.model.outcome import Owner, Severity
from healthcheck.subnet.check.findings import FabricFinding, FabricRule
from healthcheck.subnet.check.seen import SeenSubnet
from healthcheck.subnet.model import DeviceKind, FabricEnd, FabricPort

WAIT, SENT = "PortXmitWait", "PortXmitData"
LIKE = 2.0          # loads that differ by less than this factor are equally
PEERS = 8           # fewer equals say nothing of what is usual
TIMES = 4.0         # a hot port waits so many times as long as half of its equals
LEAST_SENT = 1 << 20    # units of four octets: an idle port's few waits are no congestion


@dataclass(frozen=True)
class PortLoad:
    """A port between two samples: `between` says what it joins ("leaf to host"), which only equal ports
    share; `wait` and `sent` are by how much its counters grew, None where they were not read twice, or
    fell."""

    end: FabricEnd
    between: str
    wait: int | None
    sent: int | None

    @property
    def share(self) -> float | None:
        """Ticks of waiting by unit sent; None where either is not known, or too little was sent."""
        if self.wait is None or self.sent is None or self.sent < LEAST_SENT:
            return None
        return self.wait / self.sent


@dataclass(frozen=True)
class HotSpot:
    """A port that waits `times` as long as half of its `peers` equals do."""

    end: FabricEnd
    between: str
    times: float
    peers: int


@dataclass(frozen=True)
class Congestion:
    """The hot spots, the hottest first. `unmeasured` ports were not read, `unlike` had too few equals under
    like load to be compared: neither is known to be free of congestion."""

    spots: tuple[HotSpot, ...]
    unmeasured: tuple[FabricEnd, ...]
    unlike: tuple[FabricEnd, ...]


def grown(before: Mapping[str, int], after: Mapping[str, int], name: str) -> int | None:
    """By how much a counter grew; None where it is not in both samples, or fell."""
    first, last = before.get(name), after.get(name)
    return None if first is None or last is None or last < first else last - first


def congested(seen: SeenSubnet) -> Iterator[FabricFinding]:
    """Hot spots since the earlier sample. Where nothing shows what ports sent, none is known."""
    now, before = seen.subnet.counters, seen.before
    if now is None or before is None or seen.at is None or seen.at <= before.time:
        return      # `counted` reports that
    loads = []
    for port in seen.subnet.ports():
        first, last = before.of(port.end), now.of(port.end)
        if first is None or last is None or (between := _between(seen, port)) is None:
            continue
        zeros = {WAIT: 0} if now.zeros and before.zeros else {}
        full = WAIT in now.full.get(port.end, frozenset())
        loads.append(PortLoad(port.end, between,
                              None if full else grown({**zeros, **first}, {**zeros, **last}, WAIT),
                              grown(first, last, SENT)))
    for spot in congestion(loads).spots:
        shown = seen.subnet.port(spot.end)
        place = (seen.at_link(spot.end, shown.peer) if shown is not None and shown.peer is not None
                 else seen.at_port(spot.end))
        yield FabricFinding(
            FabricRule.CONGESTION, place,
            f"{seen.port_name(spot.end)} waits to send {spot.times:.1f} times as long as half of the "
            f"{spot.peers} other ports {spot.between} under like load", f"less than {TIMES:g} times",
            Severity.INFO, Owner.NETWORK, seen.subnet.name)


def _between(seen: SeenSubnet, port: FabricPort) -> str | None:
    """From what to what a port leads, None for one that leads nowhere that is known."""
    if port.peer is None:
        return None
    ends = [seen.subnet.devices.get(end.guid) for end in (port.end, port.peer)]
    names = ["host" if one.kind is DeviceKind.ADAPTER else "leaf" if one.guid in seen.leaves else "spine"
             for one in ends if one is not None]
    return " to ".join(names) if len(names) == len(ends) else None


def congestion(loads: Sequence[PortLoad]) -> Congestion:
    """What two samples show."""
    equal: dict[str, list[PortLoad]] = defaultdict(list)
    for load in loads:
        if load.share is not None:
            equal[load.between].append(load)
    spots: list[HotSpot] = []
    unlike: list[FabricEnd] = []
    for between, group in equal.items():
        group.sort(key=lambda load: load.sent or 0)
        for load, peers in _with_peers(group):
            if len(peers) < PEERS:
                unlike.append(load.end)
                continue
            usual = median(peers)
            # Where half of the equals never wait, one tick in a hundred units is the least that counts.
            times = (load.share or 0.0) / max(usual, 0.01)
            if times >= TIMES:
                spots.append(HotSpot(load.end, between, times, len(peers)))
    unmeasured = tuple(load.end for load in loads if load.wait is None or load.sent is None)
    spots.sort(key=lambda spot: (-spot.times, spot.end))
    return Congestion(tuple(spots), unmeasured, tuple(unlike))


def _with_peers(group: Sequence[PortLoad]) -> Iterable[tuple[PortLoad, list[float]]]:
    """Each port with the shares of its equals under like load, itself left out; `group` is sorted by what was
    sent."""
    first = last = 0
    for at, load in enumerate(group):
        sent = load.sent or 0
        while (group[first].sent or 0) * LIKE < sent:
            first += 1
        last = max(last, at)
        while last + 1 < len(group) and (group[last + 1].sent or 0) <= sent * LIKE:
            last += 1
        yield load, [other.share or 0.0 for other in group[first:last + 1] if other is not load]
