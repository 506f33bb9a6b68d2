"""Which jobs' traffic leads through given ports: by forwarding tables, else by the topology; pure.

What counts is pairs of nodes of one job: a pair passes a port where what one of them sends to the other may
leave by it. Adapters whose rails are known are taken to talk to those of their own rail only, as NCCL
prefers it (NCCL_CROSS_NIC). A table names one port for each LID: where switches choose for every packet
(adaptive routing), or an adapter has several LIDs (LMC), others may pass as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from healthcheck.subnet.model import DeviceKind, FabricEnd, Subnet
from healthcheck.subnet.routes import EvenRoutes, NoRouteError, Shares, TableRoutes, usable
from inventory.jobnodes import JobNodes

_Pair = tuple[str, str]


class JobsBy(Enum):
    """What says that a pair passes a port: forwarding tables, or that a shortest way leads there."""

    ROUTES = "routes"
    MAY = "may"


@dataclass(frozen=True)
class PlacedPort:
    """An adapter's port that is joined to a switch (`leaf`, its node GUID); `rail` None: not known."""

    node: str
    end: FabricEnd
    leaf: str
    rail: int | None = None


@dataclass(frozen=True)
class JobAtPort:
    """So many of a job's node pairs pass a port, of `of` whose adapters are known; of `unknown` others the
    route is not known."""

    job: str
    pairs: int
    of: int
    unknown: int = 0


@dataclass(frozen=True)
class PortJobs:
    """The jobs of which pairs pass a port, or may for all that is known; most pairs first."""

    end: FabricEnd
    by: JobsBy
    jobs: tuple[JobAtPort, ...]


def jobs_at(subnet: Subnet, placed: Iterable[PlacedPort], jobs: Sequence[JobNodes],
            ports: Iterable[FabricEnd]) -> tuple[PortJobs, ...]:
    """For each of the ports the jobs whose pairs pass it. Jobs with a single node have none."""
    by_node: dict[str, list[PlacedPort]] = defaultdict(list)
    for one in placed:
        by_node[one.node].append(one)
    tables, topology = _Tables(subnet), _Topology(subnet)
    found = []
    for end in ports:
        ways: _Tables | _Topology = tables if tables.knows(end) else topology
        those = [_at(ways, end, job, by_node) for job in jobs]
        found.append(PortJobs(end, ways.by, tuple(sorted(
            (one for one in those if one.pairs or one.unknown),
            key=lambda one: (-one.pairs, -one.unknown, int(one.job))))))
    return tuple(found)


def _at(ways: _Tables | _Topology, end: FabricEnd, job: JobNodes,
        by_node: Mapping[str, Sequence[PlacedPort]]) -> JobAtPort:
    nodes = [node for node in dict.fromkeys(job.nodes) if by_node.get(node)]
    own = [port for node in nodes for port in by_node[node]]
    senders: dict[str, list[PlacedPort]] = defaultdict(list)
    of_adapter = ways.at_adapter(end)
    for port in own:
        if not of_adapter or port.end == end:
            senders[port.leaf].append(port)
    passing: set[_Pair] = set()
    unsure: set[_Pair] = set()
    for target in own:
        if not ways.leads(end, target):
            continue
        for leaf, group in senders.items():
            answer = ways.passes(end, leaf, target)
            if answer is not False:
                (passing if answer else unsure).update(
                    (min(one.node, target.node), max(one.node, target.node)) for one in group
                    if one.node != target.node and _talk(one, target))
    return JobAtPort(job.job, len(passing), len(nodes) * (len(nodes) - 1) // 2, len(unsure - passing))


def _talk(one: PlacedPort, other: PlacedPort) -> bool:
    return one.rail is None or other.rail is None or one.rail == other.rail


class _Ways:
    """What both kinds of ways know of the subnet."""

    def __init__(self, subnet: Subnet) -> None:
        self._subnet = subnet

    def at_adapter(self, end: FabricEnd) -> bool:
        """Whether a port is an adapter's, by which only its own node sends."""
        device = self._subnet.devices.get(end.guid)
        return device is not None and device.kind is DeviceKind.ADAPTER

    def _peer(self, end: FabricEnd) -> FabricEnd | None:
        port = self._subnet.port(end)
        return port.peer if port is not None else None


class _Tables(_Ways):
    """By forwarding tables."""

    by = JobsBy.ROUTES

    def __init__(self, subnet: Subnet) -> None:
        super().__init__(subnet)
        self._routes = TableRoutes(subnet)
        self._kept: dict[tuple[str, FabricEnd], Shares | None] = {}

    def knows(self, end: FabricEnd) -> bool:
        """Whether the table of a port's switch is known; of an adapter's port, that of the switch there."""
        peer = self._peer(end)
        at = peer.guid if self.at_adapter(end) and peer is not None else end.guid
        return at in self._subnet.routes

    def leads(self, end: FabricEnd, target: PlacedPort) -> bool:
        """Whether anything for a target leaves by a port, or may where its LID is not known."""
        port = self._subnet.port(target.end)
        lid = port.lid if port is not None else None
        return self.at_adapter(end) or not lid or self._subnet.routes[end.guid].get(lid) == end.number

    def passes(self, end: FabricEnd, leaf: str, target: PlacedPort) -> bool | None:
        """Whether the way from a switch to a target leads by a port; None where it is not known."""
        key = leaf, target.end
        if key not in self._kept:
            try:
                self._kept[key] = self._routes.shares(*key)
            except NoRouteError:
                self._kept[key] = None
        way = self._kept[key]
        return None if way is None else self.at_adapter(end) or end in way


class _Topology(_Ways):
    """By the shortest ways that there are."""

    by = JobsBy.MAY

    def __init__(self, subnet: Subnet) -> None:
        super().__init__(subnet)
        self._routes = EvenRoutes(subnet)

    def leads(self, end: FabricEnd, target: PlacedPort) -> bool:
        """Whether a way to a target may lead by a port: one to a host leads to no other."""
        peer = self._peer(end)
        return peer is not None and usable(self._subnet.port(end)) and (
            not self.at_adapter(peer) or peer == target.end)

    def passes(self, end: FabricEnd, leaf: str, target: PlacedPort) -> bool:
        """Whether a shortest way from a switch to a target leads by a port."""
        goal, peer = self._routes.steps_to(target.leaf), self._peer(end)
        if leaf not in goal or peer is None:
            return False
        if self.at_adapter(end) or peer == target.end:
            return True
        here, on = goal.get(end.guid), goal.get(peer.guid)
        before = self._routes.steps_to(end.guid).get(leaf)
        if here is None or on is None or before is None:
            return False
        return on == here - 1 and before + here == goal[leaf]
