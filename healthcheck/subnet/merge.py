"""Several tools' readings of one subnet become one picture. Port and node GUID are one device where a tool
shows both. Where two tools differ over one thing, the one that was read first holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from healthcheck.subnet.model import (
    CableModule,
    DeviceKind,
    FabricDevice,
    FabricEnd,
    FabricPort,
    ManagerState,
    PortCounters,
    Subnet,
    SubnetManager,
    SubnetSensor,
)
from healthcheck.subnet.readers import linkinfo, smp, ufm
from healthcheck.subnet.readers.building import SubnetReading

_FIELDS = ("state", "physical", "width", "speed", "gigabits", "lid", "port_guid", "label", "peer")


def merge(name: str, readings: Sequence[SubnetReading]) -> Subnet:
    """The subnet of this name; readings that know more of a thing should come first."""
    owners = _owners(readings)
    devices: dict[str, FabricDevice] = {}
    ports: dict[str, dict[int, FabricPort]] = {}
    unread = [line for reading in readings for line in (
        *reading.unread, *((f"{reading.tool}: the output ends early",) if reading.partial else ()))]
    for reading in readings:
        for device in reading.devices.values():
            guid = owners.get(device.guid, device.guid)
            devices[guid] = _device(devices.get(guid), replace(device, guid=guid, ports={}))
            held = ports.setdefault(guid, {})
            for port in device.ports.values():
                moved = replace(port, end=FabricEnd(guid, port.end.number), peer=_moved(port.peer, owners))
                held[port.end.number] = _port(held.get(port.end.number), moved)
    # iblinkinfo and UFM's links do not say what a device is: their readers guess by the number of ports.
    kinds = {owners.get(device.guid, device.guid): device.kind for reading in reversed(readings)
             if reading.tool not in (linkinfo.TOOL, ufm.LINKS) for device in reading.devices.values()}
    whole = _outside_switches({
        guid: replace(device, kind=kinds.get(guid, device.kind), ports=dict(sorted(ports[guid].items())))
        for guid, device in devices.items()})
    counters, short = _counters(readings, owners, whole)
    return Subnet(
        name, whole, managers=_managers(readings, whole),
        all_managers=any(reading.managers is not None and reading.all_managers for reading in readings),
        counters=counters,
        sensors=tuple(_sensors(readings, owners)), modules=_modules(readings, owners),
        routes=_routes(readings, owners, whole), unhealthy=_unhealthy(readings, owners),
        tools=tuple(reading.tool for reading in readings), unread=(*unread, *short),
        ethernet=bool(readings) and all(reading.ethernet for reading in readings),
        # Counters alone that were cut leave out counters, and no devices; smpquery asks single devices.
        partial=any(reading.ethernet or (reading.partial and bool(
            reading.devices or not (reading.counters or reading.by_lid))) for reading in readings)
        or not any(reading.devices for reading in readings if reading.tool != smp.TOOL))


# What an adapter within a Quantum switch, which sums up for SHARP, calls itself, each by the same name.
_AGGREGATION = "Aggregation Node"


def _outside_switches(devices: Mapping[str, FabricDevice]) -> dict[str, FabricDevice]:
    """The devices without those that are a part of a switch, and without the ports that lead to them: they
    are no host's, and there is no cable. With one of them a spine would look like a leaf."""
    inside = {guid for guid, device in devices.items()
              if device.kind is DeviceKind.ADAPTER and device.description.endswith(_AGGREGATION)}
    if not inside:
        return dict(devices)
    return {guid: replace(device, ports={number: port for number, port in device.ports.items()
                                         if port.peer is None or port.peer.guid not in inside})
            for guid, device in devices.items() if guid not in inside}


def _owners(readings: Iterable[SubnetReading]) -> Mapping[str, str]:
    """The node GUID of each port GUID that differs from it."""
    return {port.port_guid: device.guid for reading in readings for device in reading.devices.values()
            for port in device.ports.values()
            if port.port_guid is not None and port.port_guid != device.guid}


def _moved(end: FabricEnd | None, owners: Mapping[str, str]) -> FabricEnd | None:
    return end if end is None or end.guid not in owners else FabricEnd(owners[end.guid], end.number)


def _device(known: FabricDevice | None, shown: FabricDevice) -> FabricDevice:
    if known is None:
        return shown
    return replace(known, description=known.description or shown.description,
                   system=known.system or shown.system,
                   port_count=shown.port_count if known.port_count is None else known.port_count)


def _port(known: FabricPort | None, shown: FabricPort) -> FabricPort:
    if known is None:
        return shown
    missing = {name: getattr(shown, name) for name in _FIELDS
               if getattr(known, name) is None and getattr(shown, name) is not None}
    return replace(known, **missing) if missing else known


def _managers(readings: Sequence[SubnetReading],
              devices: Mapping[str, FabricDevice]) -> tuple[SubnetManager, ...] | None:
    """Every manager once, the busiest state of those that tools show; with those whose ports are marked."""
    if all(reading.managers is None for reading in readings):
        return None
    at = _lids(devices)
    found: dict[str, SubnetManager] = {}
    for manager in (manager for reading in readings for manager in reading.managers or ()):
        held = found.get(manager.port_guid)
        if held is None or _ORDER.index(manager.state) > _ORDER.index(held.state):
            found[manager.port_guid] = manager
    marked = {_port_guid(devices, at[lid]) for reading in readings for lid in reading.manager_lids or ()
              if lid in at} - set(found)
    return (*found.values(), *(SubnetManager(guid, ManagerState.UNKNOWN) for guid in sorted(marked)))


_ORDER = (ManagerState.UNKNOWN, ManagerState.NOT_ACTIVE, ManagerState.DISCOVERING, ManagerState.STANDBY,
          ManagerState.MASTER)


def _lids(devices: Mapping[str, FabricDevice]) -> Mapping[int, FabricEnd]:
    """Whose LID it is: an adapter's port, or a switch with number 0."""
    return {port.lid: port.end if device.kind is not DeviceKind.SWITCH else FabricEnd(device.guid, 0)
            for device in devices.values() for port in device.ports.values() if port.lid is not None}


def _port_guid(devices: Mapping[str, FabricDevice], end: FabricEnd) -> str:
    port = devices[end.guid].ports.get(end.number)
    return port.port_guid if port is not None and port.port_guid is not None else end.guid


def _by_lid(reading: SubnetReading, at: Mapping[int, FabricEnd]) -> PortCounters | None:
    """Counters that a tool shows by LID, of the ports whose LIDs are known."""
    if not reading.by_lid:
        return None
    return PortCounters({FabricEnd(at[lid].guid, number): named
                         for (lid, number), named in reading.by_lid.items() if lid in at})


def _counters(readings: Sequence[SubnetReading], owners: Mapping[str, str],
              devices: Mapping[str, FabricDevice]) -> tuple[PortCounters | None, tuple[str, ...]]:
    """The counters of all of them; zeros are known where one of them asked every port, of as many nodes at
    least as there are. With a line for each that asked fewer."""
    at = _lids(devices)
    shown = [counters for reading in readings
             for counters in (reading.counters, _by_lid(reading, at)) if counters is not None]
    if not shown:
        return None, ()
    values: dict[FabricEnd, dict[str, int]] = {}
    for counters in shown:
        for end, named in counters.values.items():
            held = values.setdefault(FabricEnd(owners.get(end.guid, end.guid), end.number), {})
            for name, value in named.items():
                held.setdefault(name, value)
    unasked = {FabricEnd(owners.get(end.guid, end.guid), end.number)
               for counters in shown for end in counters.unasked}
    full: dict[FabricEnd, frozenset[str]] = {}
    for end, names in ((end, names) for counters in shown for end, names in counters.full.items()):
        moved = FabricEnd(owners.get(end.guid, end.guid), end.number)
        full[moved] = full.get(moved, frozenset()) | names
    zeros = [counters.nodes for counters in shown if counters.zeros]
    short = tuple(f"counters were asked of {asked} of {len(devices)} devices; those that are not shown are "
                  "not known" for asked in zeros if asked is not None and asked < len(devices))
    return PortCounters(values, len(short) < len(zeros), frozenset(unasked - set(values)), full), short


def _routes(readings: Sequence[SubnetReading], owners: Mapping[str, str],
            devices: Mapping[str, FabricDevice]) -> Mapping[str, Mapping[int, int]]:
    """The forwarding table of each switch; tables by LID of the switches whose LIDs are known."""
    at = _lids(devices)
    by_lid = {at[lid].guid: table for reading in readings for lid, table in reading.routes_by_lid.items()
              if lid in at}
    return {**by_lid, **{owners.get(guid, guid): table for reading in readings
                         for guid, table in reading.routes.items()}}


def _unhealthy(readings: Sequence[SubnetReading],
               owners: Mapping[str, str]) -> Mapping[FabricEnd, frozenset[str]] | None:
    shown = [reading.unhealthy for reading in readings if reading.unhealthy is not None]
    found: dict[FabricEnd, frozenset[str]] = {}
    for end, conditions in ((end, each) for one in shown for end, each in one.items()):
        moved = _moved(end, owners) or end
        found[moved] = found.get(moved, frozenset()) | conditions
    return found if shown else None


def _sensors(readings: Sequence[SubnetReading], owners: Mapping[str, str]) -> list[SubnetSensor]:
    return [replace(sensor, end=_moved(sensor.end, owners) or sensor.end)
            for reading in readings for sensor in reading.sensors]


def _modules(readings: Sequence[SubnetReading], owners: Mapping[str, str]) -> Mapping[FabricEnd, CableModule]:
    found: dict[FabricEnd, CableModule] = {}
    for reading in readings:
        for end, module in reading.modules.items():
            found.setdefault(_moved(end, owners) or end, module)
    return found
