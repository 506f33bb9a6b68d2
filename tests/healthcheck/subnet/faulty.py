"""A small fabric as values, cabled as planned, into which faults are planted; and the check of it that is
stored."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path

from healthcheck.cli import fabricstore
from healthcheck.subnet.cabling import CablingPlan, PlannedCable, PlannedEnd, Tier
from healthcheck.subnet.check.seen import CountedBefore, FabricWanted, SeenSubnet
from healthcheck.subnet.check.whole import check_fabric
from healthcheck.subnet.join import AdapterPlace, FabricJoin, JoinedBy, KnownAdapter
from healthcheck.subnet.model import (
    DeviceKind,
    FabricDevice,
    FabricEnd,
    FabricLink,
    FabricPort,
    LinkState,
    ManagerState,
    PortCounters,
    Subnet,
    SubnetManager,
)
from tests.healthcheck.subnet.made import rails

PLAN = rails(hosts=8, ports=2, per_leaf=4, radix=8)


def guid(name: str) -> str:
    """Of a switch by its name, of an adapter by its node's and its own."""
    return f"{zlib.crc32(name.encode()):016x}"


class FaultyFabric:
    """Eight hosts with two rails behind four leaves and two spines. Faults are sets of the plan's cables by
    index, and of devices by name."""

    def __init__(self, plan: CablingPlan = PLAN) -> None:
        self.plan = plan
        self.down: set[int] = set()
        self.gone: set[str] = set()
        self.narrow: set[int] = set()
        # symbol errors by the cable at whose upper end they were counted
        self.errors: dict[int, int] = {}
        self.partial = False
        self.counted = True

    def cable(self, device: str, port: str) -> int:
        return next(at
                    for at, cable in enumerate(self.plan.cables)
                    if PlannedEnd(device, port) in (cable.a, cable.b))

    def cables(self, device: str) -> set[int]:
        return {at for at, cable in enumerate(self.plan.cables) if device in (cable.a.device, cable.b.device)}

    def end(self, end: PlannedEnd) -> FabricEnd:
        """A port's identity: each adapter is a device of its own."""
        if self.plan.devices[end.device].tier is Tier.HOST:
            return FabricEnd(guid(f"{end.device} {end.port}"), 1)
        return FabricEnd(guid(end.device), int(end.port))

    def joined(self) -> FabricJoin:
        """All adapters are known from their nodes; those that are not seen are absent."""
        shown = self.subnet().devices
        hosts = [end for cable in self.plan.cables
                 for end in (cable.a, cable.b) if self.plan.devices[end.device].tier is Tier.HOST]
        known = {self.end(end).guid: KnownAdapter(end.device, f"0000:{18 + 8 * int(end.port[-1])}:00.0",
                                                  end.port, self.end(end).guid) for end in hosts}
        return FabricJoin(
            {one: AdapterPlace(known[one].node, JoinedBy.GUID, known[one].pci, known[one].device,
                               int(known[one].device[-1])) for one in known if one in shown},
            absent=tuple(one for one in known.values() if one.guid not in shown))

    def subnet(self, at: float = 0.0) -> Subnet:
        """What tools show. A host whose cables are all down, and a device that is gone, are not seen."""
        ports: dict[str, dict[int, FabricPort]] = {}
        names: dict[str, tuple[str, DeviceKind]] = {}
        lit = {number: cable for number, cable in enumerate(self.plan.cables)
               if number not in self.down and not {cable.a.device, cable.b.device} & self.gone}
        for number, cable in enumerate(self.plan.cables):
            for own, other in ((cable.a, cable.b), (cable.b, cable.a)):
                host = self.plan.devices[own.device].tier is Tier.HOST
                if own.device in self.gone or (host and number not in lit):
                    continue
                end = self.end(own)
                up = number in lit
                ports.setdefault(end.guid, {})[end.number] = FabricPort(
                    end, LinkState.ACTIVE if up else LinkState.DOWN, "linkup" if up else "polling",
                    (1 if number in self.narrow else 4) if up else None, "NDR" if up else None,
                    peer=self.end(other) if up else None)
                names[end.guid] = (f"{own.device} {own.port}" if host else own.device,
                                   DeviceKind.ADAPTER if host else DeviceKind.SWITCH)
        devices = {one: FabricDevice(one, names[one][1], names[one][0], ports=ports[one]) for one in ports}
        manager = next(iter(devices), "")
        counts = {self.end(self.plan.cables[number].b): {"SymbolErrorCounter": count}
                  for number, count in self.errors.items()}
        return Subnet("", devices, managers=(SubnetManager(manager, ManagerState.MASTER),
                                             SubnetManager("f" * 16, ManagerState.STANDBY)),
                      counters=PortCounters(counts, zeros=True) if self.counted else None,
                      partial=self.partial, tools=("made",))

    def before(self, at: float) -> CountedBefore:
        """An earlier sample of the sound fabric: all its links, and no errors."""
        links = frozenset(FabricLink.of(self.end(cable.a), self.end(cable.b)) for cable in self.plan.cables)
        return CountedBefore(at, {}, True, links=links)

    def store(self, folder: Path, at: float, *, planned: bool = True, earlier: bool = True,
              wanted: FabricWanted | None = None,
              racks: Mapping[str, str] | None = None) -> None:
        """Checks it at that time, and stores what is found, as the command does."""
        subnet, joined = self.subnet(), self.joined()
        plan, asked = (self.plan if planned else None), wanted or FabricWanted(4, "NDR")
        before = {"": self.before(at - 600)} if earlier else {}
        report = check_fabric([(subnet, at)], joined, plan, asked, before)
        seen = [SeenSubnet(subnet, joined, plan, asked, before.get(""), at, 1)]
        fabricstore.keep(folder, report, seen, racks or {}, at)

    def planned(self, number: int) -> PlannedCable:
        return self.plan.cables[number]
