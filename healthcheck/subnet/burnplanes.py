"""The link burn of a whole fabric: who takes part by name, and the plan of each of its subnets, with rounds
numbered through all of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from healthcheck.subnet.burnplan import SHARE, LinkBurnPlan, plan
from healthcheck.subnet.burnways import BurnPort, BurnWays
from healthcheck.subnet.join import AdapterPlace, FabricJoin
from healthcheck.subnet.model import DeviceKind, FabricLink, Subnet
from healthcheck.subnet.routes import EvenRoutes, TableRoutes

# What a launch script may be given as a device's name: adapters' descriptions can be written by anyone.
_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True)
class BurnName:
    """A port by name: `text` ("gpu001/mlx5_0", "gpu001/mlx5_1:2" for a second port) is given to no other;
    `device` is the RDMA device's name on its node, "" where it is not known."""

    text: str
    device: str


@dataclass(frozen=True)
class BurnPlane:
    """The burn of one subnet: the number of its `first` round, and the ports that take part, by name."""

    subnet: Subnet
    ways: BurnWays
    plan: LinkBurnPlan
    names: Mapping[BurnPort, BurnName]
    first: int

    def link(self, link: FabricLink) -> str:
        """A link for people."""
        return f"{self.ways.name(link.a)} to {self.ways.name(link.b)}"


def planes(subnets: Sequence[Subnet], joined: FabricJoin, nodes: Collection[str], share: float = SHARE,
           adaptive: bool = False) -> tuple[BurnPlane, ...]:
    """The burn of each subnet by the adapters of these nodes. Raises ValueError for a share that is none, and
    where ways are to be static and a subnet shows no forwarding tables."""
    found: list[BurnPlane] = []
    first = 1
    for subnet in subnets:
        if not adaptive and not subnet.routes:
            raise ValueError(f"{f'subnet {subnet.name}: ' if subnet.name else ''}no output shows forwarding "
                             "tables (dump_fts, dump_lfts, ibroute, saquery-lftr); for adaptive routing give "
                             "--adaptive")
        names = _names(subnet, joined, nodes)
        ways = BurnWays(subnet, EvenRoutes(subnet) if adaptive else TableRoutes(subnet), names)
        made = plan(ways, share)
        found.append(BurnPlane(subnet, ways, made, names, first))
        first += len(made.rounds)
    return tuple(found)


def _names(subnet: Subnet, joined: FabricJoin, nodes: Collection[str]) -> dict[BurnPort, BurnName]:
    """The ports of these nodes' adapters that have a link."""
    found: dict[BurnPort, BurnName] = {}
    for device in subnet.devices.values():
        place = joined.adapters.get(device.guid)
        if device.kind is not DeviceKind.ADAPTER or place is None or place.node not in nodes:
            continue
        for port in device.ports.values():
            if port.peer is not None:
                found[BurnPort(place.node, port.end, place.rail)] = _name(place, port.end.guid,
                                                                          port.end.number)
    times = Counter(name.text for name in found.values())
    return {port: name if times[name.text] == 1 else
            BurnName(f"{port.node}/{port.end.guid}:{port.end.number}", name.device)
            for port, name in found.items()}


def _name(place: AdapterPlace, guid: str, number: int) -> BurnName:
    device = place.device or ""
    if not _DEVICE.fullmatch(device):
        device = ""
    which = f":{number}" if number != 1 else ""
    return BurnName(f"{place.node}/{device or place.pci or guid}{which}", device)
