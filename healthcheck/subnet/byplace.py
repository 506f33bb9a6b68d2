"""Which planned device stands where, of those that do not say so; pure.

A new switch calls itself as it was delivered, an adapter without rdma-ndd what its firmware says, a renamed
host something else; and a plan that names adapters by PCI address says nothing of "gpu001 mlx5_0" where no
snapshot states both. What such a device is joined to still tells whose place it stands in. That is no proof
of who it is: whoever shows such a name says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from healthcheck.subnet.cabling import CablingPlan, PlannedEnd, Tier
from healthcheck.subnet.model import DeviceKind, FabricDevice, FabricEnd, Subnet


@dataclass
class ByPlace:
    """The names that ports of one subnet have, to which `placed` adds those that their place gives. `names`
    are known otherwise; `hosts` by port of an adapter without a planned name, its host where known;
    `port_names` gives the ports of a switch their names as a planned device's."""

    plan: CablingPlan
    subnet: Subnet
    names: Mapping[FabricEnd, PlannedEnd]
    hosts: Mapping[FabricEnd, str | None]
    port_names: Callable[[FabricDevice, str], Mapping[FabricEnd, PlannedEnd]]
    placed: dict[FabricEnd, PlannedEnd] = field(default_factory=dict)

    def find(self) -> Mapping[FabricEnd, PlannedEnd]:
        """The ports that only their place names."""
        planes = {cable.plane for cable in self.plan.cables}
        cables = [cable for cable in self.plan.cables
                  if cable.plane == self.subnet.name or len(planes) == 1 or self.subnet.name not in planes]
        self._partner = {one: other for cable in cables
                         for one, other in ((cable.a, cable.b), (cable.b, cable.a))}
        self._taken = set(self.names.values())
        self._there = {name.device for name in self._taken}
        self._unnamed = [device for device in self.subnet.devices.values()
                         if device.kind is DeviceKind.SWITCH
                         and not any(port.end in self.names for port in device.ports.values())]
        while self._adapters() or self._switches():
            pass
        self._last_of_each_host()
        return self.placed

    def _name(self, end: FabricEnd | None) -> PlannedEnd | None:
        return None if end is None else self.names.get(end) or self.placed.get(end)

    def _place(self, end: FabricEnd, name: PlannedEnd) -> None:
        self.placed[end] = name
        self._taken.add(name)

    def _adapters(self) -> bool:
        """Names adapters that are joined to a switch's port planned for an adapter that is not seen."""
        before = len(self.placed)
        for end, host in self.hosts.items():
            port = self.subnet.port(end)
            at = self._name(port.peer) if port is not None else None
            wanted = self._partner.get(at) if at is not None else None
            if (wanted is not None and end not in self.placed and wanted not in self._taken
                    and self._is_host(wanted.device) and host in (None, wanted.device)):
                self._place(end, wanted)
        return len(self.placed) > before

    def _switches(self) -> bool:
        """Names switches of which at least half of the cables end as planned for one that is not seen."""
        claims: dict[str, list[FabricDevice]] = defaultdict(list)
        for device in self._unnamed:
            joined = [(port.end, name) for port in device.ports.values()
                      if (name := self._name(port.peer)) is not None]
            wanted = [(end, self._partner[name]) for end, name in joined if name in self._partner]
            for planned in {name.device for _, name in wanted} - self._there:
                if not self._is_host(planned):
                    own = self.port_names(device, planned)
                    if 2 * sum(own[end] == name for end, name in wanted) >= max(1, len(joined)):
                        claims[planned].append(device)
        alone = {planned: those[0] for planned, those in claims.items() if len(those) == 1}
        for planned, device in alone.items():
            if device in self._unnamed:
                self._unnamed.remove(device)
                self._there.add(planned)
                for end, own_name in self.port_names(device, planned).items():
                    self._place(end, own_name)
        return bool(alone)

    def _last_of_each_host(self) -> None:
        """Where one adapter of a host is left, and one of its planned ports, they are the same."""
        left: dict[str, list[PlannedEnd]] = defaultdict(list)
        for name in self._partner:
            if self._is_host(name.device) and name not in self._taken:
                left[name.device].append(name)
        nameless: dict[str, list[FabricEnd]] = defaultdict(list)
        for end, host in self.hosts.items():
            if host is not None and end not in self.placed:
                nameless[host].append(end)
        for host, ends in nameless.items():
            if len(ends) == 1 and len(left[host]) == 1:
                self._place(ends[0], left[host][0])

    def _is_host(self, name: str) -> bool:
        return self.plan.devices[name].tier is Tier.HOST
