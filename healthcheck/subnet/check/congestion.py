"""Ports that wait to send far more than their equals under like load: hot spots; pure.

`PortXmitWait` counts the ticks in which a port had data to send and could not (InfiniBand Architecture
Specification, volume 1, PortCounters); how long a tick is depends on the device. So no number of its own is
judged: ticks by unit of data sent are compared between ports that lead from the same tier to the same tier
and sent about as much in the same time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from healthcheck.model.outcome import Severity
from healthcheck.subnet.check.findings import FabricFinding, FabricRule
from healthcheck.subnet.check.seen import CountedBefore, SeenSubnet
from healthcheck.subnet.model import DeviceKind, FabricEnd, FabricPort, PortCounters
from healthcheck.subnet.rates import gbps
from inventory.text import many

WAIT, SENT = "PortXmitWait", "PortXmitData"
LIKE = 2.0          # loads that differ by less than this factor are equally
PEERS = 8           # fewer equals say nothing of what is usual
TIMES = 4.0         # a hot port waits so many times as long as half of its equals
# An idle port's few waits are no congestion. It sent fewer units of four octets than this, or less than this
# share of what its link carries: a check itself sends some megabytes through the ports near its node.
LEAST_SENT, IDLE = 1 << 20, 1e-5


@dataclass(frozen=True)
class PortLoad:
    """A port between two samples: `between` says what it joins ("leaf to host"), which only equal ports
    share; `wait` and `sent` are by how much its counters grew, None where they were not read twice, or
    fell. One that sent less than `least` is idle."""

    end: FabricEnd
    between: str
    wait: int | None
    sent: int | None
    least: int = LEAST_SENT

    @property
    def share(self) -> float | None:
        """Ticks of waiting by unit sent; None where either is not known, or too little was sent."""
        if self.wait is None or self.sent is None or self.sent < self.least:
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
    """The hot spots, the hottest first. `unmeasured` ports were not read (of one that sent next to
    nothing it does not matter how long it waited), `unlike` had too few equals under
    like load to be compared: neither is known to be free of congestion."""

    spots: tuple[HotSpot, ...]
    unmeasured: tuple[FabricEnd, ...]
    unlike: tuple[FabricEnd, ...]


def grown(first: int | None, last: int | None) -> int | None:
    """By how much a counter grew; None where it is not in both samples, or fell."""
    return None if first is None or last is None or last < first else last - first


def compared(seen: SeenSubnet) -> bool:
    """Whether there are two samples, without which nothing is known of hot spots."""
    return (seen.subnet.counters is not None and seen.before is not None and seen.at is not None
            and seen.at > seen.before.time)


def congested(seen: SeenSubnet) -> Iterator[FabricFinding]:
    """Hot spots since the earlier sample, and of how many ports it is not known whether they are one."""
    now, before = seen.subnet.counters, seen.before
    if now is None or before is None or not compared(seen):
        return      # `counted` reports that
    joined = {port.end: between for port in seen.subnet.ports()
              if (between := _between(seen, port)) is not None}
    # Devices that have the counter are known by those of their kind that have waited.
    waiting = {between for end, between in joined.items() if now.count(end, WAIT) is not None}
    loads = []
    for end, between in joined.items():
        full = WAIT in now.full.get(end, frozenset())
        waits = [_waits(sample, end, between in waiting) for sample in (before, now)]
        sent = grown(before.count(end, SENT), now.count(end, SENT))
        loads.append(PortLoad(end, between, None if full else grown(*waits), sent, _least(seen, end, before)))
    found = congestion(loads)
    yield from _unknown(seen, found)
    for spot in found.spots:
        shown = seen.subnet.port(spot.end)
        place = (seen.at_link(spot.end, shown.peer) if shown is not None and shown.peer is not None
                 else seen.at_port(spot.end))
        yield seen.finding(
            FabricRule.CONGESTION, place,
            f"{seen.port_name(spot.end)} waits to send {spot.times:.1f} times as long as half of the "
            f"{spot.peers} other ports {spot.between} under like load", f"less than {TIMES:g} times",
            Severity.INFO, port=spot.end)


def _least(seen: SeenSubnet, end: FabricEnd, before: CountedBefore) -> int:
    """How many units a port sends between the samples at least, unless it is idle."""
    rate = gbps(seen.subnet.port(end))
    return max(LEAST_SENT, int((rate or 0.0) * 1e9 / 32 * ((seen.at or 0.0) - before.time) * IDLE))


def _waits(sample: PortCounters | CountedBefore, end: FabricEnd, has: bool) -> int | None:
    """How long a port has waited; where the tool leaves out a 0 of one that `has` the counter, 0."""
    found = sample.count(end, WAIT)
    return 0 if found is None and has and sample.zeros and end not in sample.unasked else found


def _unknown(seen: SeenSubnet, found: Congestion) -> Iterator[FabricFinding]:
    for ends, words in (
            (found.unmeasured, "what they sent and how long they waited was not read at both samples "
                               "(ibqueryerrors, and ibqueryerrors --counters)"),
            (found.unlike, f"fewer than {PEERS} equals were under like load")):
        if ends:
            yield seen.unknown(FabricRule.CONGESTION, seen.whole(ends),
                               f"not known of {many(len(ends), 'port')}: {words}", Severity.INFO)


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
    unmeasured = tuple(load.end for load in loads
                       if load.sent is None or (load.wait is None and load.sent >= load.least))
    spots.sort(key=lambda spot: (-spot.times, spot.end))
    return Congestion(tuple(spots), unmeasured, tuple(unlike))


def _with_peers(group: Sequence[PortLoad]) -> Iterable[tuple[PortLoad, list[float]]]:
    """Each port with the shares of its equals under like load; `group` is sorted by what was sent."""
    first = last = 0
    for at, load in enumerate(group):
        sent = load.sent or 0
        while (group[first].sent or 0) * LIKE < sent:
            first += 1
        last = max(last, at)
        while last + 1 < len(group) and (group[last + 1].sent or 0) <= sent * LIKE:
            last += 1
        yield load, [other.share or 0.0 for other in group[first:last + 1] if other is not load]
