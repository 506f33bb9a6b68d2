"""The stage `fabric`: a link burn as tasks, each pair of ports one of two ranks, all of a round at once.

`healthcheck.subnet.burnplanes` plans the rounds from the routes of the fabric's subnets. All-reduces go
between one GPU of each node, through the port that the plan names: with two ranks each sends what it has, at
the same time, so that the bus bandwidth is what the link carries each way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from healthcheck.burnin.model import BurnInStage, Participant, Seat, Task, TaskKind
from healthcheck.burnin.ports import Ports
from healthcheck.subnet.burnplan import SHARE, BurnPair
from healthcheck.subnet.burnplanes import BurnPlane, planes
from healthcheck.subnet.burnways import BurnPort
from healthcheck.subnet.join import FabricJoin
from healthcheck.subnet.model import Subnet

# For how long the pairs of a round send, by length. `burnin: {params: {allreduce.run_s: 20}}` overrides it.
RUN_S = MappingProxyType({"screen": 10.0, "quick": 10.0, "standard": 30.0, "soak": 60.0})
# What checking may take of an all-reduce's time: links stand still meanwhile.
CHECK_SHARE = 0.02
NO_PORT = "its RDMA device is not known"


class FabricMeans(Enum):
    """What loads the links: all-reduces of NCCL or gloo, or ib_write_bw of perftest."""

    ALLREDUCE = "allreduce"
    WRITE = "write"

    @property
    def kind(self) -> TaskKind:
        """The kind of its tasks."""
        return TaskKind(self.value)


class FabricWork:
    """What a link burn is planned from: the subnets, whose their adapters are, the asked share of each link's
    rate, and whether ways are a model (`adaptive`) or the forwarding tables'."""

    def __init__(self, subnets: Sequence[Subnet], joined: FabricJoin, share: float = SHARE,
                 adaptive: bool = False, means: FabricMeans = FabricMeans.ALLREDUCE) -> None:
        self.subnets, self.joined, self.share = tuple(subnets), joined, share
        self.adaptive, self.means = adaptive, means
        self._planned: dict[frozenset[str], tuple[BurnPlane, ...]] = {}

    def planes(self, nodes: Collection[str]) -> tuple[BurnPlane, ...]:
        """The burn of each subnet by these nodes' adapters, planned once. ValueError without routes."""
        key = frozenset(nodes)
        if key not in self._planned:
            self._planned[key] = planes(self.subnets, self.joined, key, self.share, self.adaptive)
        return self._planned[key]


@dataclass(frozen=True)
class FabricRound:
    """The pairs of one round. `number` counts through all subnets; `more`: it is to tell suspects apart."""

    plane: BurnPlane
    number: int
    pairs: tuple[BurnPair, ...]
    more: bool = False

    @property
    def name(self) -> str:
        """For people."""
        return f"round {self.number}{' (to tell links apart)' if self.more else ''}"


def rounds(made: Sequence[BurnPlane]) -> list[FabricRound]:
    """The planned rounds of all subnets."""
    return [FabricRound(plane, number, pairs) for plane in made
            for number, pairs in enumerate(plane.plan.rounds, plane.first)]


def tasks(one: FabricRound, places: Mapping[str, Participant], ports: Mapping[str, Ports],
          params: Mapping[str, int | float | str], means: FabricMeans,
          environment: Mapping[str, str]) -> tuple[list[Task], list[str]]:
    """The tasks of a round without their time, and why pairs of it cannot be run, a line each. `ports` is by
    node what its ranks use, `environment` what all ranks have."""
    free = {node: list(range(place.gpus)) for node, place in places.items()}
    found, without = [], []
    for at, pair in enumerate(one.pairs):
        names = [one.plane.names[port].text for port in (pair.a, pair.b)]
        missing = [port.node for port in (pair.a, pair.b) if port.node not in places]
        own = {**params, "round": one.number, "ports": " ".join(names)}
        if missing:
            without.append(f"round {one.number}: {' '.join(names)}: {missing[0]} takes no part")
            continue
        if means is FabricMeans.WRITE:
            seats, why = _seats_of_ports(one.plane, pair, own, ports)
            local: Mapping[str, Mapping[str, str]] = MappingProxyType({})
        else:
            seats, why = _seats(pair, free, places)
            local = MappingProxyType({port.node: _environment(one.plane, port, ports.get(port.node))
                                      for port in (pair.a, pair.b)})
        if why:
            without.append(f"round {one.number}: {' '.join(names)}: {why}")
            continue
        found.append(Task(f"{BurnInStage.FABRIC.value}-{one.number}-{at}", BurnInStage.FABRIC, means.kind,
                          seats, 0.0, MappingProxyType(own),
                          environment if means is FabricMeans.ALLREDUCE else MappingProxyType({}), local))
    return found, without


def _seats(pair: BurnPair, free: Mapping[str, list[int]], places: Mapping[str, Participant],
           ) -> tuple[tuple[Seat, ...], str]:
    """A free GPU of each node, the one beside the port where that is free; or why there is none."""
    chosen = []
    for port in (pair.a, pair.b):
        if not free[port.node]:
            return (), f"all GPUs of {port.node} have another port in this round"
        beside = _beside(places[port.node], port.rail)
        chosen.append((port.node, beside if beside in free[port.node] else free[port.node][0]))
    for node, gpu in chosen:
        free[node].remove(gpu)
    return tuple(Seat(node, gpu) for node, gpu in chosen), ""


def _beside(place: Participant, rail: int | None) -> int | None:
    order = [one.number for one in sorted(place.rails, key=lambda one: one.address)]
    return order.index(rail) * place.gpus // len(order) if rail in order else None


def _seats_of_ports(plane: BurnPlane, pair: BurnPair, params: dict[str, int | float | str],
                    ports: Mapping[str, Ports]) -> tuple[tuple[Seat, ...], str]:
    """Seats by the number of the node's port, as ib_write_bw uses no GPU; adds the ports to `params`."""
    seats = []
    for side, port in (("a", pair.a), ("b", pair.b)):
        device = plane.names[port].device
        if not device:
            return (), f"{plane.names[port].text}: {NO_PORT}"
        own = [one for one in sorted(plane.names) if one.node == port.node]
        params[f"device_{side}"], params[f"port_{side}"] = device, port.end.number
        seats.append(Seat(port.node, own.index(port)))
        known = ports.get(port.node, Ports())
        local = known.rails.get(port.rail, known.values) if port.rail is not None else known.values
        index = local.get("NCCL_IB_GID_INDEX", "")
        if index.isascii() and index.isdigit():
            params[f"gid_{side}"] = int(index)
    return tuple(seats), ""


def _environment(plane: BurnPlane, port: BurnPort, known: Ports | None) -> Mapping[str, str]:
    """What makes a node's rank use this port alone."""
    if known is None:
        return MappingProxyType({})
    if port.rail is not None and port.rail in known.rails:
        return known.rails[port.rail]
    device = plane.names[port].device
    if not device or "NCCL_IB_HCA" not in known.values:
        return known.values
    return MappingProxyType({**known.values, "NCCL_IB_HCA": f"={device}:{port.end.number}"})
