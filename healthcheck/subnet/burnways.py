"""What pairs of host ports can load: every channel of a fabric by number, its rate, and who reaches it."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from healthcheck.subnet.model import DeviceKind, FabricEnd, FabricLink, Subnet
from healthcheck.subnet.rates import gbps
from healthcheck.subnet.routes import NoRouteError, RouteModel, usable

Channel = int
_NEAR = 0.5


@dataclass(frozen=True, order=True)
class BurnPort:
    """A host port that takes part: which node's it is, and its rail there (None: not known)."""

    node: str
    end: FabricEnd
    rail: int | None = None


class BurnWays:
    """Ways between these host ports. Ports are numbers in the order of `ports`, channels those of `channels`.
    `reach` has by channel who loads it: (switch, port), what that port is sent from hosts of that switch; of
    a host's own link ("", port): whatever it sends or is sent. A port without link or way is no candidate."""

    def __init__(self, subnet: Subnet, routes: RouteModel, ports: Iterable[BurnPort]) -> None:
        self.subnet, self.routes = subnet, routes
        self.ports = tuple(sorted(ports, key=lambda port: (port.node, port.end)))
        self.numbers = {port: number for number, port in enumerate(self.ports)}
        self.links = subnet.links
        self.channels = {end: at for at, end in enumerate(sorted(
            end for link in self.links for end in (link.a, link.b)))}
        self.rates = [self._rate(end) for end in self.channels]
        self.reach: list[list[tuple[str, int]]] = [[] for _ in self.channels]
        self._at: dict[int, str] = {}
        self._on: dict[str, list[int]] = {}
        self._ways: dict[tuple[str, int], tuple[tuple[Channel, float], ...]] = {}
        self._loads: dict[tuple[int, int], tuple[tuple[Channel, float], ...]] = {}
        self.lost: dict[str, str] = {}      # why a way could not be followed, by its text
        self._find()

    def _find(self) -> None:
        for number, port in enumerate(self.ports):
            own = self.subnet.port(port.end)
            if (own is not None and own.peer is not None and usable(own)
                    and self.rates[self.channels[port.end]] > 0):
                self._at[number] = own.peer.guid
                self._on.setdefault(own.peer.guid, []).append(number)
        for target in self._at:
            for switch in self._on:
                try:
                    shares = self.routes.shares(switch, self.ports[target].end)
                except NoRouteError as error:
                    self.lost.setdefault(str(error), switch)
                    continue
                way = tuple((self.channels[end], share) for end, share in shares.items())
                if all(self.rates[at] > 0 for at, _ in way):
                    self._ways[switch, target] = way
                    for at, _ in way[:-1]:
                        self.reach[at].append((switch, target))
            for end in (self.ports[target].end, self._peer(target)):
                self.reach[self.channels[end]].append(("", target))

    def _rate(self, end: FabricEnd) -> float:
        """Gb/s; 0 where the channel is down or its rate is not known: nothing is planned over it."""
        port = self.subnet.port(end)
        return (gbps(port) or 0.0) if usable(port) else 0.0

    def may(self, a: int, b: int) -> bool:
        """Whether two ports can be a pair: of different nodes, with a way each way."""
        return (a != b and self.ports[a].node != self.ports[b].node
                and (self._at[a], b) in self._ways and (self._at[b], a) in self._ways)

    def loads(self, a: int, b: int) -> tuple[tuple[Channel, float], ...]:
        """By channel the Gb/s that the pair puts on it: as much each way as the slower way carries."""
        key = (a, b) if a < b else (b, a)
        if (known := self._loads.get(key)) is None:
            known = self._loads[key] = self._measured(*key)
        return known

    def _measured(self, a: int, b: int) -> tuple[tuple[Channel, float], ...]:
        shares: dict[Channel, float] = {}
        for one, two in ((a, b), (b, a)):
            own = self.channels[self.ports[one].end]
            for at, share in ((own, 1.0), *self._ways[self._at[one], two]):
                shares[at] = shares.get(at, 0.0) + share
        rate = min(self.rates[at] / share for at, share in shares.items())
        return tuple((at, share * rate) for at, share in shares.items())

    def rate(self, a: int, b: int) -> float:
        """Gb/s that each of the pair is to send."""
        return dict(self.loads(a, b))[self.channels[self.ports[a].end]]

    def possible(self, a: BurnPort, b: BurnPort) -> bool:
        """Whether two ports that take part can be a pair."""
        one, two = self.numbers[a], self.numbers[b]
        return one in self._at and two in self._at and self.may(one, two)

    def pair_rate(self, a: BurnPort, b: BurnPort) -> float:
        """Gb/s that each of these two is to send."""
        return self.rate(self.numbers[a], self.numbers[b])

    def rate_of(self, end: FabricEnd) -> float:
        """Gb/s of a channel, 0 where nothing can be planned over it."""
        return self.rates[self.channels[end]]

    def candidates(self, channel: Channel, order: random.Random, most: int) -> Iterator[tuple[int, int]]:
        """Pairs that load this channel, at most so many of them, chosen at random."""
        reach, switches = self.reach[channel], list(self._on)
        given = 0
        for _ in range(4 * most):
            switch, target = order.choice(reach)
            if not switch:      # a neighbour loads no uplink: half of them are
                switch = self._at[target] if order.random() < _NEAR else order.choice(switches)
            among = self._on[switch]
            other = order.choice(among)
            if self.may(other, target):
                yield other, target
                given += 1
                if given >= most:
                    return

    def opposite(self) -> list[tuple[int, int]]:
        """Pairs of the hosts of one half of the switches with those of the other, in order of switches and
        of their ports; no port is in two."""
        order = sorted(self._on)
        half = len(order) // 2
        found = []
        for one, other in zip(order[:half], order[half:2 * half], strict=True):
            found += [(a, b) for a, b in zip(*(sorted(self._on[switch], key=self._place)
                                               for switch in (one, other)), strict=False) if self.may(a, b)]
        return found

    def _place(self, number: int) -> int:
        return self._peer(number).number

    def _peer(self, number: int) -> FabricEnd:
        """The switch's end of a host port's link."""
        port = self.subnet.port(self.ports[number].end)
        if port is None or port.peer is None:
            raise ValueError(f"port {number} has no link")
        return port.peer

    def most(self, channel: Channel) -> float:
        """Gb/s that all pairs together could put on a channel, if nothing else limited them."""
        by_target: dict[int, float] = {}
        by_source: dict[str, float] = {}
        for switch, target in self.reach[channel]:
            share = dict(self._ways[switch, target])[channel] if switch else 1.0
            own = self.rates[self.channels[self.ports[target].end]]
            by_target[target] = max(by_target.get(target, 0.0), share * own)
            by_source[switch] = max(by_source.get(switch, 0.0), share)
        sent = sum(share * sum(self.rates[self.channels[self.ports[port].end]] for port in self._on[switch])
                   if switch else self.rates[channel] for switch, share in by_source.items())
        return min(sum(by_target.values()), sent)

    def unusable(self, link: FabricLink) -> str:
        """Why nothing can be planned over a link; "" where it can."""
        for end in (link.a, link.b):
            port = self.subnet.port(end)
            if not usable(port):
                return f"{self.name(end)} is {port.state.value if port and port.state else 'not shown'}"
            if not gbps(port):
                return f"the rate of {self.name(end)} is not known"
        taking = {port.end for port in self.ports}
        for end in (link.a, link.b):
            if self._is_host(end) and end not in taking:
                return f"{self.name(end)} takes no part"
        return ""

    def lacking(self, channel: FabricEnd, expected: Mapping[FabricEnd, float]) -> str:
        """Why a channel is not covered."""
        at = self.channels[channel]
        if not any(self.may(source, target) for switch, target in self.reach[at]
                   for source in (self._on[switch] if switch else self._at)):
            return f"no way of any pair leads through {self.name(channel)}"
        return (f"all pairs through {self.name(channel)} load it to "
                f"{100 * expected.get(channel, 0.0):.0f} % at most")

    def _is_host(self, end: FabricEnd) -> bool:
        device = self.subnet.devices.get(end.guid)
        return device is not None and device.kind is DeviceKind.ADAPTER

    def name(self, end: FabricEnd) -> str:
        """A port for people: the device's description, or its GUID, and the port."""
        device, port = self.subnet.devices.get(end.guid), self.subnet.port(end)
        label = port.label if port is not None and port.label else str(end.number)
        return f"{(device.description if device is not None else '') or end.guid} port {label}"
