"""What the checks look at: one subnet with the names of its ports, what is planned for them, and places."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from healthcheck.model.outcome import Owner, Severity
from healthcheck.subnet.cabling import CablingPlan, PlannedCable, PlannedEnd, Tier
from healthcheck.subnet.check.findings import FabricFinding, FabricPlace, FabricRule, PlaceKind
from healthcheck.subnet.join import FabricJoin, system_name
from healthcheck.subnet.model import (
    DeviceKind,
    FabricDevice,
    FabricEnd,
    FabricLink,
    FabricPort,
    Subnet,
    counted_value,
)
from healthcheck.subnet.plannednames import PlannedNames, names_of


@dataclass(frozen=True)
class CountedBefore:
    """An earlier sample of one subnet: its time (epoch seconds), ports' counters, and links that were up."""

    time: float
    values: Mapping[FabricEnd, Mapping[str, int]]
    zeros: bool
    full: Mapping[FabricEnd, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    unasked: frozenset[FabricEnd] = frozenset()
    links: frozenset[FabricLink] = frozenset()

    def count(self, end: FabricEnd, name: str) -> int | None:
        """A counter of a port; None where it is not known."""
        return counted_value(self.values, self.zeros and end not in self.unasked, end, name)


@dataclass(frozen=True)
class FabricWanted:
    """What is wanted beside the plan: lanes and rate of every link where no plan says (None: not said), and
    the nodes or switches on which subnet managers may run (empty: anywhere)."""

    width: int | None = None
    speed: str | None = None
    managers: frozenset[str] = frozenset()


@dataclass(frozen=True)
class SeenSubnet:
    """One subnet as the checks see it; `at` is when it was seen, None where that is not known."""

    subnet: Subnet
    joined: FabricJoin
    plan: CablingPlan | None = None
    wanted: FabricWanted = FabricWanted()
    before: CountedBefore | None = None
    at: float | None = None
    planes: int = 1

    @cached_property
    def names(self) -> PlannedNames:
        """The plan's names of ports, and how they are known."""
        return PlannedNames() if self.plan is None else names_of(self.plan, self.subnet, self.joined)

    @cached_property
    def planned_name(self) -> Mapping[FabricEnd, PlannedEnd]:
        """The plan's name of each port that has one."""
        return self.names.all

    @cached_property
    def ends(self) -> Mapping[PlannedEnd, FabricEnd]:
        """The port of each planned name."""
        return {name: end for end, name in self.planned_name.items()}

    @cached_property
    def cables(self) -> Sequence[PlannedCable]:
        """The planned cables of this subnet: of its plane, or all where there is one subnet or no planes."""
        if self.plan is None:
            return ()
        planes = {cable.plane for cable in self.plan.cables}
        return [cable for cable in self.plan.cables
                if len(planes) < 2 or (self.planes < 2 and self.subnet.name not in planes)
                or cable.plane == self.subnet.name]

    @cached_property
    def planned(self) -> Mapping[PlannedEnd, PlannedCable]:
        """The planned cable at each port."""
        return {end: cable for cable in self.cables for end in (cable.a, cable.b)}

    def cable_at(self, end: FabricEnd) -> PlannedCable | None:
        """The planned cable at a port by its end."""
        name = self.planned_name.get(end)
        return self.planned.get(name) if name is not None else None

    @cached_property
    def leaves(self) -> frozenset[str]:
        """GUIDs of switches to which adapters are joined."""
        return frozenset(port.end.guid for port in self.subnet.ports()
                         if port.peer is not None and self.kind(port.peer) is DeviceKind.ADAPTER
                         and self.kind(port.end) is DeviceKind.SWITCH)

    def kind(self, end: FabricEnd) -> DeviceKind | None:
        """What has this port."""
        device = self.subnet.devices.get(end.guid)
        return device.kind if device is not None else None

    def device_name(self, guid: str) -> str:
        """What people call a device: the node and adapter, the switch's own name, or its GUID, which also
        tells those apart that have one name, as switches whose maker's name no one changed."""
        place = self.joined.adapters.get(guid)
        if place is not None:
            return f"{place.node} {place.device or place.pci or ''}".strip()
        device = self.subnet.devices.get(guid)
        name = system_name(device.description) if device is not None else ""
        if not name:
            return f"0x{guid}"
        return f"{name} (0x{guid})" if self._often[name] > 1 else name

    @cached_property
    def _often(self) -> Counter[str]:
        return Counter(system_name(device.description) for guid, device in self.subnet.devices.items()
                       if guid not in self.joined.adapters)

    def port_name(self, end: FabricEnd) -> str:
        """ "leaf01 port 12" or "gpu004 mlx5_0"."""
        device = self.subnet.devices.get(end.guid)
        name = self.device_name(end.guid)
        if device is None:
            return f"{name} port {end.number}"
        port = device.ports.get(end.number)
        if device.kind is DeviceKind.ADAPTER and max(device.port_count or 0, len(device.ports)) < 2:
            return name
        return f"{name} port {port.label if port is not None and port.label else end.number}"

    def node_of(self, end: FabricEnd) -> str | None:
        """The node whose adapter it is, by the inventory or by the plan."""
        place = self.joined.adapters.get(end.guid)
        if place is not None:
            return place.node
        name = self.planned_name.get(end)
        return name.device if name is not None and self.is_host(name.device) else None

    def is_nameless(self, end: FabricEnd) -> bool:
        """Whether it is of a device that is not known by its GUID, and whose description was not read: it
        answers management packets in part, some of which were lost."""
        device = self.subnet.devices.get(end.guid)
        return (device is not None and not device.description and end not in self.planned_name
                and end.guid not in self.joined.adapters)

    def finding(self, rule: FabricRule, place: FabricPlace, observed: str, expected: str = "",
                severity: Severity = Severity.CRITICAL, owner: Owner = Owner.NETWORK, *,
                unknown: bool = False, port: FabricEnd | None = None) -> FabricFinding:
        """A finding on this subnet."""
        return FabricFinding(rule, place, observed, expected, severity, owner, self.subnet.name, unknown,
                             port)

    def unknown(self, rule: FabricRule, place: FabricPlace, reason: str,
                severity: Severity = Severity.WARNING, owner: Owner = Owner.NETWORK) -> FabricFinding:
        """What could not be measured in this subnet, and why."""
        return self.finding(rule, place, reason, "", severity, owner, unknown=True)

    def whole(self, ends: Iterable[FabricEnd] = ()) -> FabricPlace:
        """The place of the whole subnet; `ends` are the ports that are meant."""
        return FabricPlace(PlaceKind.SUBNET, f"subnet {self.subnet.name}".strip(), tuple(ends))

    def at_port(self, end: FabricEnd) -> FabricPlace:
        """The place of a port."""
        node = self.node_of(end)
        return FabricPlace(PlaceKind.PORT, self.port_name(end), (end,), (node,) if node else (),
                           self._leaf(end))

    def at_link(self, end: FabricEnd, peer: FabricEnd) -> FabricPlace:
        """The place of a link, a leaf's end first, then another switch's."""
        first, second = sorted((end, peer), key=lambda one: (
            self.kind(one) is not DeviceKind.SWITCH, one.guid not in self.leaves, one))
        nodes = tuple(sorted({node for one in (first, second) if (node := self.node_of(one)) is not None}))
        return FabricPlace(PlaceKind.LINK, f"{self.port_name(first)} to {self.port_name(second)}",
                           (first, second), nodes, self._leaf(first) or self._leaf(second))

    def at_device(self, device: FabricDevice) -> FabricPlace:
        """The place of a whole device."""
        name = self.device_name(device.guid)
        if device.kind is not DeviceKind.SWITCH:
            place = self.joined.adapters.get(device.guid)
            return FabricPlace(PlaceKind.NODE, name, (FabricEnd(device.guid, 0),),
                               (place.node,) if place is not None else ())
        leaf = device.guid in self.leaves
        return FabricPlace(PlaceKind.LEAF if leaf else PlaceKind.SWITCH, name, (FabricEnd(device.guid, 0),),
                           leaf=name if leaf else None)

    def at_planned(self, cable: PlannedCable) -> FabricPlace:
        """The place of a planned link; ports that were seen are in it."""
        first, second = sorted((cable.a, cable.b), key=lambda one: (self.is_host(one.device), one))
        nodes = tuple(sorted({one.device for one in (first, second) if self.is_host(one.device)}))
        ends = tuple(self.ends[one] for one in (first, second) if one in self.ends)
        return FabricPlace(PlaceKind.LINK, f"{first.device} port {first.port} to {self.words(second)}", ends,
                           nodes, first.device if nodes else self._tier(first.device, second.device))

    def words(self, end: PlannedEnd) -> str:
        """A planned end as people say it."""
        return f"{end.device} {end.port}" if self.is_host(end.device) else f"{end.device} port {end.port}"

    def is_host(self, name: str) -> bool:
        """Whether the plan has it as a host."""
        device = self.plan.devices.get(name) if self.plan is not None else None
        return device is not None and device.tier is Tier.HOST

    def _tier(self, *names: str) -> str | None:
        return next((name for name in names if self.plan is not None
                     and self.plan.devices[name].tier is Tier.LEAF), None)

    def _leaf(self, end: FabricEnd) -> str | None:
        return self.device_name(end.guid) if end.guid in self.leaves else None

    @cached_property
    def pairs(self) -> Sequence[tuple[FabricPort, FabricPort]]:
        """Every link once, as both of its ports; a port that no tool showed is as the other shows it."""
        found = []
        for link in sorted(self.subnet.links):
            a, b = self.subnet.port(link.a), self.subnet.port(link.b)
            found.append((a or FabricPort(link.a, peer=link.b), b or FabricPort(link.b, peer=link.a)))
        return found

    @cached_property
    def at_end(self) -> Mapping[FabricEnd, Sequence[FabricEnd]]:
        """By end, the ports that say that their cable ends there."""
        found: dict[FabricEnd, list[FabricEnd]] = defaultdict(list)
        for port in self.subnet.ports():
            if port.peer is not None:
                found[port.peer].append(port.end)
        return found
