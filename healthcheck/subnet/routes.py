"""Which way traffic takes: along forwarding tables where routing is static, and by a stated model where
switches choose for every packet.

A link carries each way by itself, so what is loaded is a channel: a port in the direction in which it sends,
named by its `FabricEnd`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Protocol

from healthcheck.subnet.model import DeviceKind, FabricEnd, FabricLink, FabricPort, LinkState, Subnet

# Switches on one way, at most: a fat tree of three tiers has five, a dragonfly's longest way six.
MOST_HOPS = 16
_MOST_DIRECT_HOPS = 63      # of a directed route (see `direct_route`)

Shares = Mapping[FabricEnd, float]


class NoRouteError(Exception):
    """There is no way from here to there; the text says where it ends."""


class RouteModel(Protocol):
    """Ways through a fabric. `expected` is whether shares are what a model expects, not what tables say."""

    @property
    def expected(self) -> bool: ...

    def shares(self, switch: str, target: FabricEnd) -> Shares:
        """By channel, from this switch (node GUID) on, the share of what goes to the host port `target` that
        it carries; that to the host itself is the last. Raises NoRouteError."""
        ...


def usable(port: FabricPort | None) -> bool:
    """Whether a port carries traffic; one whose state no tool showed does as far as is known."""
    return port is not None and port.state in (None, LinkState.ACTIVE)


class TableRoutes:
    """Static routing: what is for a LID leaves each switch by one port (`Subnet.routes`)."""

    expected = False

    def __init__(self, subnet: Subnet) -> None:
        self._subnet = subnet

    def shares(self, switch: str, target: FabricEnd) -> Shares:
        """As the protocol says; every share is 1."""
        port = self._subnet.port(target)
        if port is None or not port.lid:
            raise NoRouteError(f"the LID of {target.guid} port {target.number} is not known")
        found: dict[FabricEnd, float] = {}
        at = switch
        while len(found) < MOST_HOPS:
            table = self._subnet.routes.get(at)
            if table is None:
                raise NoRouteError(f"the forwarding table of {_name(self._subnet, at)} is not known")
            number = table.get(port.lid)
            end = FabricEnd(at, number or 0)
            leaving = self._subnet.port(end) if number else None
            if leaving is None or leaving.peer is None or not usable(leaving):
                raise NoRouteError(f"{_name(self._subnet, at)} has no way to LID {port.lid}")
            if end in found:
                break
            found[end] = 1.0
            if leaving.peer == target:
                return found
            at = leaving.peer.guid
        raise NoRouteError(f"the way to LID {port.lid} goes around at {_name(self._subnet, at)}")


class EvenRoutes:
    """Adaptive routing as a model: each switch spreads what it forwards evenly over all ports by which the
    way is shortest. What one run really does is not known; only counters prove it."""

    expected = True

    def __init__(self, subnet: Subnet) -> None:
        self._subnet = subnet
        self._steps: dict[str, Mapping[str, int]] = {}
        self._between: dict[tuple[str, str], Shares] = {}
        self._leaving = {
            device.guid: tuple(port for port in device.ports.values()
                               if port.peer is not None and usable(port) and _is_switch(subnet, port.peer))
            for device in subnet.devices.values() if device.kind is DeviceKind.SWITCH}

    def shares(self, switch: str, target: FabricEnd) -> Shares:
        """As the protocol says."""
        last = self._subnet.port(target)
        if last is None or last.peer is None or last.peer.guid not in self._leaving:
            raise NoRouteError(f"{target.guid} port {target.number} is on no switch")
        goal = last.peer.guid
        if (switch, goal) not in self._between:
            self._between[switch, goal] = self._spread(switch, goal)
        return {**self._between[switch, goal], last.peer: 1.0}

    def _spread(self, switch: str, goal: str) -> Shares:
        """The shares between two switches."""
        steps = self.steps_to(goal)
        if switch not in steps:
            raise NoRouteError(f"{_name(self._subnet, switch)} has no way to {_name(self._subnet, goal)}")
        found: dict[FabricEnd, float] = {}
        front = {switch: 1.0}
        while front and goal not in front:
            ahead: dict[str, float] = {}
            for at, share in front.items():
                ports = [port for port in self._leaving[at]
                         if port.peer is not None and steps.get(port.peer.guid, steps[at]) < steps[at]]
                for port in ports:
                    found[port.end] = found.get(port.end, 0.0) + share / len(ports)
                    if port.peer is not None:
                        ahead[port.peer.guid] = ahead.get(port.peer.guid, 0.0) + share / len(ports)
            front = ahead
        return found

    def steps_to(self, goal: str) -> Mapping[str, int]:
        """By switch how many links it is from `goal`."""
        if goal not in self._steps:
            steps, waiting = {goal: 0}, deque([goal])
            while waiting:
                at = waiting.popleft()
                for port in self._leaving[at]:
                    if port.peer is not None and port.peer.guid not in steps:
                        steps[port.peer.guid] = steps[at] + 1
                        waiting.append(port.peer.guid)
            self._steps[goal] = steps
        return self._steps[goal]


def _is_switch(subnet: Subnet, end: FabricEnd) -> bool:
    device = subnet.devices.get(end.guid)
    return device is not None and device.kind is DeviceKind.SWITCH


def _name(subnet: Subnet, guid: str) -> str:
    device = subnet.devices.get(guid)
    return (device.description if device is not None else "") or guid


def direct_route(subnet: Subnet, own: FabricEnd, guid: str,
                 without: FabricEnd | None = None) -> tuple[int, ...] | None:
    """The shortest way of a management packet from this adapter's port to the device of this GUID, not
    through the link at `without`: (0, 1, 6); None where there is none. It depends on no table and no subnet
    manager, both of which change while a port is disabled. InfiniBand Architecture Specification, volume 1,
    14.2.2 (directed route): 0, then the number of the port by which each device on the way sends it on."""
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
        if device is None or len(ways[here]) > _MOST_DIRECT_HOPS or (
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
