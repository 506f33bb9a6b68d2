"""What the readers share: a reading of one tool's output, and how it is put together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from healthcheck.subnet.model import (
    CableModule,
    DeviceKind,
    FabricDevice,
    FabricEnd,
    FabricPort,
    PortCounters,
    SubnetManager,
    SubnetSensor,
)
from inventory.text import many, short

_MOST_UNREAD = 20


@dataclass(frozen=True)
class SubnetReading:
    """What one tool's output showed. Adapters stand under the GUID that the tool prints, the port's or the
    node's: `healthcheck.subnet.merge` brings them together. `managers` are those that the tool shows, with
    `all_managers` all. `manager_lids` are LIDs of ports marked as a subnet manager's (IsSM), None where not
    shown."""

    tool: str
    devices: Mapping[str, FabricDevice] = field(default_factory=lambda: MappingProxyType({}))
    # Counters of ports that the tool names by LID and port number
    by_lid: Mapping[tuple[int, int], Mapping[str, int]] = field(default_factory=lambda: MappingProxyType({}))
    managers: tuple[SubnetManager, ...] | None = None
    all_managers: bool = True
    manager_lids: frozenset[int] | None = None
    counters: PortCounters | None = None
    sensors: tuple[SubnetSensor, ...] = ()
    modules: Mapping[FabricEnd, CableModule] = field(default_factory=lambda: MappingProxyType({}))
    routes: Mapping[str, Mapping[int, int]] = field(default_factory=lambda: MappingProxyType({}))
    routes_by_lid: Mapping[int, Mapping[int, int]] = field(default_factory=lambda: MappingProxyType({}))
    unread: tuple[str, ...] = ()
    partial: bool = False
    unhealthy: Mapping[FabricEnd, frozenset[str]] | None = None
    ethernet: bool = False      # of an Ethernet fabric: it shows those ends that were asked, and no others


class UnreadLines:
    """Lines that were not understood: the first few by number and text, the others counted."""

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self._first: list[str] = []
        self._more = 0

    def add(self, number: int, line: str) -> None:
        """Notes a line, numbered from 1."""
        self.note(f"line {number} is not understood: {short(line[:200])}")

    def note(self, what: str) -> None:
        """Notes anything else that could not be read."""
        if len(self._first) < _MOST_UNREAD:
            self._first.append(f"{self._tool}: {what}")
        else:
            self._more += 1

    def lines(self) -> tuple[str, ...]:
        """What was noted."""
        more = (f"{self._tool}: {many(self._more, 'more line')} not understood",) if self._more else ()
        return (*self._first, *more)


class Building:
    """Devices and ports as an output names them, bit by bit; what is given later adds to what is there."""

    def __init__(self) -> None:
        self._devices: dict[str, FabricDevice] = {}
        self._ports: dict[str, dict[int, FabricPort]] = {}

    def device(self, guid: str, kind: DeviceKind, description: str = "", system: str | None = None,
               port_count: int | None = None) -> None:
        """A device is there; what is not given stays as it was."""
        known = self._devices.get(guid)
        if known is None:
            self._devices[guid] = FabricDevice(guid, kind, description, system, port_count)
            self._ports.setdefault(guid, {})
        elif (description and description != known.description) or system or port_count is not None:
            self._devices[guid] = replace(
                known, description=description or known.description, system=system or known.system,
                port_count=port_count if port_count is not None else known.port_count)

    def port(self, port: FabricPort) -> None:
        """A port as a line shows it."""
        self._ports.setdefault(port.end.guid, {})[port.end.number] = port

    def known(self, end: FabricEnd) -> FabricPort | None:
        """A port that was shown already."""
        return self._ports.get(end.guid, {}).get(end.number)

    def finish_switches(self) -> None:
        """Takes from switches' ports the GUID that a tool repeats for each: they have none of their own."""
        for guid, device in self._devices.items():
            if device.kind is DeviceKind.SWITCH:
                self._ports[guid] = {number: replace(port, port_guid=None)
                                     for number, port in self._ports[guid].items()}

    def devices(self) -> Mapping[str, FabricDevice]:
        """Every device that was named, by GUID, with its ports."""
        return {guid: replace(device, ports=dict(sorted(self._ports[guid].items())))
                for guid, device in self._devices.items()}
