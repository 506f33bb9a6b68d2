"""The cabling of a regular fabric, from its hosts and counts; the same counts give the same plan.

Two layouts of the lowest tier. `rails`: a group of hosts shares one leaf per rail, and port r of each host
goes to the group's leaf of rail r (NVIDIA DGX SuperPOD Reference Architecture, "rail-optimized"). `tree`:
all ports of a host go to one leaf. Above it stand spines (2 tiers), or pods of spines below cores (3 tiers;
a folded Clos network as in Al-Fares et al., SIGCOMM 2008), and every device of a tier has as many cables to
each device above it as any other. A multi-plane fabric is one such network for each plane; port n of an
adapter belongs to plane n.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from healthcheck.subnet.cabling import CablingPlan, PlannedCable, PlannedDevice, PlannedEnd, Tier
from healthcheck.subnet.portlabel import PORTS_IN_A_CAGE, label_of
from inventory.errors import UsageError
from inventory.text import many


class FabricLayout(Enum):
    """How hosts' ports are dealt to leaves."""

    RAILS = "rails"
    TREE = "tree"


@dataclass(frozen=True)
class HostPorts:
    """A host's ports of the fabric, in the order of their rails, by the names of a plan; and its rack."""

    name: str
    ports: tuple[str, ...]
    rack: str | None = None


@dataclass(frozen=True)
class FabricShape:
    """The counts of a fabric. `radix` are the ports of a switch; `hosts_per_leaf` the hosts of a leaf (None:
    as many as leave room for the uplinks); `uplinks` the ports of a leaf that go up (None: what
    `oversubscription`, ports down by ports up, asks for); `leaves_per_pod` counts with 3 tiers (None: half
    the radix). With `cages`, ports are named by cage and port in it. `speed` and `width` are every link's."""

    layout: FabricLayout = FabricLayout.RAILS
    tiers: int = 2
    radix: int = 64
    hosts_per_leaf: int | None = None
    uplinks: int | None = None
    oversubscription: float = 1.0
    planes: int = 1
    leaves_per_pod: int | None = None
    cages: bool = False
    speed: str | None = None
    width: int | None = None


def generate(hosts: Sequence[HostPorts], shape: FabricShape) -> CablingPlan:
    """The plan. Raises UsageError, with the numbers, for counts that make no regular fabric: hosts that
    differ in ports, a leaf or spine with more cables than ports, uplinks that do not divide."""
    _check(hosts, shape)
    devices = {host.name: PlannedDevice(host.name, Tier.HOST, host.rack) for host in hosts}
    cables: list[PlannedCable] = []
    for plane in range(1, shape.planes + 1):
        for made in _Plane(hosts, shape, plane).cables():
            cables.append(made)
            for end in (made.a, made.b):
                if end.device not in devices:
                    devices[end.device] = PlannedDevice(end.device, _tier(end.device))
    order = {tier: at for at, tier in enumerate(Tier)}
    return CablingPlan({one.name: one for one in sorted(devices.values(), key=lambda one: order[one.tier])},
                       tuple(cables))


def _tier(name: str) -> Tier:
    kind = name.rpartition("-")[2].rstrip("0123456789")
    return {"leaf": Tier.LEAF, "spine": Tier.SPINE, "core": Tier.CORE}[kind]


def _check(hosts: Sequence[HostPorts], shape: FabricShape) -> None:
    if not hosts:
        raise UsageError("a fabric needs hosts: name nodes with ports")
    counts = {len(host.ports) for host in hosts}
    if len(counts) > 1 or 0 in counts:
        odd = next(host for host in hosts if len(host.ports) != len(hosts[0].ports) or not host.ports)
        raise UsageError(f"{odd.name} has {many(len(odd.ports), 'port')} of the fabric, {hosts[0].name} has "
                         f"{len(hosts[0].ports)}: a generated plan needs equal hosts")
    for name, value, least, most in (
        ("--tiers", shape.tiers, 1, 3), ("--radix", shape.radix, 2, 254), ("--planes", shape.planes, 1, 16),
        ("--hosts-per-leaf", shape.hosts_per_leaf, 1, 254), ("--uplinks", shape.uplinks, 1, 254),
        ("--leaves-per-pod", shape.leaves_per_pod, 1, 10_000),
        ("--oversubscription", shape.oversubscription, 0.1, 100),
    ):
        if value is not None and not least <= value <= most:
            raise UsageError(f"{name} {value:g}: expected {least:g} to {most:g}")


class _Plane:
    """One plane: its leaves by group of hosts, and what stands above them."""

    def __init__(self, hosts: Sequence[HostPorts], shape: FabricShape, plane: int) -> None:
        self._shape = shape
        self._hosts = hosts
        self._rails = len(hosts[0].ports)
        self._name = "" if shape.planes == 1 else f"plane{plane}"
        self._prefix = "" if shape.planes == 1 else f"p{plane}-"
        self._port = "" if shape.planes == 1 else f"/{plane}"
        per_host = 1 if shape.layout is FabricLayout.RAILS else self._rails
        self._members, self._up = _leaf_counts(shape, per_host, len(hosts))
        groups = math.ceil(len(hosts) / self._members)
        self._leaves = groups * (self._rails if shape.layout is FabricLayout.RAILS else 1)
        self._down = self._members * per_host
        if self._down + self._up > shape.radix:
            raise UsageError(
                f"a leaf has {self._down} ports for hosts and {self._up} up, its switch {shape.radix}")

    def cables(self) -> Iterator[PlannedCable]:
        """All of the plane: hosts first, then tier by tier."""
        yield from self._to_hosts()
        if self._shape.tiers == 2:
            spines = _above(self._leaves, self._up, self._shape.radix, "leaves", "spines")
            yield from self._between("leaf", range(self._leaves), "spine", self._down, self._up, 0, spines)
        elif self._shape.tiers == 3:
            yield from self._pods()

    def _to_hosts(self) -> Iterator[PlannedCable]:
        rails = self._shape.layout is FabricLayout.RAILS
        for at, host in enumerate(self._hosts):
            group, place = divmod(at, self._members)
            for rail, port in enumerate(host.ports):
                leaf, number = ((group * self._rails + rail, place + 1) if rails
                                else (group, place * self._rails + rail + 1))
                yield self._cable(PlannedEnd(host.name, f"{port}{self._port}"),
                                  self._end("leaf", leaf, number))

    def _pods(self) -> Iterator[PlannedCable]:
        shape = self._shape
        most = shape.leaves_per_pod or min(shape.radix // 2, self._leaves)
        pods = math.ceil(self._leaves / most)
        spines = _above(most, self._up, shape.radix // 2, "leaves of a pod", "spines of a pod")
        down = most * self._up // spines
        up = max(1, math.floor(down / shape.oversubscription))
        cores = _above(pods, up, shape.radix, "pods", "cores above a spine")
        for pod in range(pods):
            leaves = range(pod * most, min((pod + 1) * most, self._leaves))
            yield from self._between("leaf", leaves, "spine", self._down, self._up, pod * spines, spines)
        for spine in range(spines):
            same = range(spine, pods * spines, spines)
            yield from self._between("spine", same, "core", down, up, spine * cores, cores)

    def _between(
        self, lower: str, below: Sequence[int], upper: str, first: int, up: int, above: int, count: int
    ) -> Iterator[PlannedCable]:
        """Cables from each of `below`, at its ports after `first`, to `count` devices from number `above`."""
        each = up // count
        for at, device in enumerate(below):
            for link in range(up):
                other, turn = divmod(link, each)
                yield self._cable(self._end(lower, device, first + link + 1),
                                  self._end(upper, above + other, at * each + turn + 1))

    def _end(self, kind: str, device: int, number: int) -> PlannedEnd:
        label = label_of(number, PORTS_IN_A_CAGE if self._shape.cages else 1)
        return PlannedEnd(f"{self._prefix}{kind}{device + 1:03d}", label)

    def _cable(self, a: PlannedEnd, b: PlannedEnd) -> PlannedCable:
        return PlannedCable(a, b, self._name, self._shape.width, self._shape.speed)


def _leaf_counts(shape: FabricShape, per_host: int, hosts: int) -> tuple[int, int]:
    """Hosts and uplinks of a leaf."""
    if shape.tiers == 1:
        return shape.hosts_per_leaf or min(hosts, shape.radix // per_host) or 1, 0
    if shape.hosts_per_leaf is not None:
        members = shape.hosts_per_leaf
    else:
        ports = (shape.radix - shape.uplinks if shape.uplinks is not None
                 else math.floor(shape.radix * shape.oversubscription / (1 + shape.oversubscription)))
        members = max(1, min(hosts, ports // per_host))
    if shape.uplinks is not None:
        return members, shape.uplinks
    return members, math.ceil(members * per_host / shape.oversubscription)


def _above(below: int, up: int, radix: int, lower: str, upper: str) -> int:
    """The fewest devices above `below` ones of `up` cables each, every one with an equal share of each."""
    for count in range(1, up + 1):
        if up % count == 0 and below * (up // count) <= radix:
            return count
    raise UsageError(
        f"{below} {lower} with {up} uplinks each need {upper} of at least {below} ports, and {radix} are "
        "to be had: use fewer hosts, a larger --radix or --tiers 3"
    )
