"""Subnet managers, and identities that must be unique."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from healthcheck.model.outcome import Owner, Severity
from healthcheck.subnet.check.findings import FabricFinding, FabricPlace, FabricRule, PlaceKind
from healthcheck.subnet.check.seen import SeenSubnet
from healthcheck.subnet.model import DeviceKind, FabricEnd, ManagerState, SubnetManager
from healthcheck.subnet.plannednames import other_guids
from inventory.text import many


def managers(seen: SeenSubnet) -> Iterator[FabricFinding]:
    """Exactly one master, a standby, and none where none is wanted."""
    whole = seen.whole()
    found = seen.subnet.managers
    if seen.subnet.ethernet:
        return
    if found is None:
        yield seen.unknown(FabricRule.MANAGER, whole,
                           "no source shows subnet managers (saquery SMIR, sminfo)")
        return
    masters = [one for one in found if one.state is ManagerState.MASTER]
    if not masters and seen.subnet.all_managers:
        yield seen.finding(FabricRule.MANAGER, whole, "no subnet manager is master", "one")
    elif len(masters) > 1:
        names = ", ".join(sorted(_where(seen, one) for one in masters))
        yield seen.finding(FabricRule.MANAGER, whole, f"{len(masters)} subnet managers are master: {names}",
                           "one")
    if not seen.subnet.all_managers:
        yield seen.unknown(FabricRule.MANAGER, whole,
                           "no source lists all subnet managers (saquery SMIR): there may be others")
    elif masters and not any(one.state is ManagerState.STANDBY for one in found):
        yield seen.finding(FabricRule.STANDBY, whole, "no subnet manager stands by", "at least one",
                           Severity.WARNING)
    for one in found:
        where = _where(seen, one)
        place = _place(seen, one)
        if one.state is ManagerState.UNKNOWN:
            yield seen.finding(
                FabricRule.STRANGE_MANAGER, place,
                "its port is marked as a subnet manager's, and the master does not know that manager",
                "known to the master, or none", owner=Owner.OPERATOR)
        # Where nothing says whose the adapter is, the first word of its description does.
        elif seen.wanted.managers and not seen.wanted.managers & {
                where, *(place.nodes or (where.partition(" ")[0],))}:
            yield seen.finding(FabricRule.STRANGE_MANAGER, place,
                               f"a subnet manager runs here ({one.state.value})", "none",
                               owner=Owner.OPERATOR)


def _end(seen: SeenSubnet, manager: SubnetManager) -> FabricEnd | None:
    device = seen.subnet.devices.get(manager.port_guid)
    if device is not None and device.kind is DeviceKind.SWITCH:
        return FabricEnd(device.guid, 0)
    return next((port.end for port in seen.subnet.ports() if port.port_guid == manager.port_guid), None)


def _where(seen: SeenSubnet, manager: SubnetManager) -> str:
    end = _end(seen, manager)
    return seen.device_name(end.guid) if end is not None else f"0x{manager.port_guid}"


def _place(seen: SeenSubnet, manager: SubnetManager) -> FabricPlace:
    end = _end(seen, manager)
    if end is None:
        return FabricPlace(PlaceKind.PORT, f"port GUID 0x{manager.port_guid}")
    device = seen.subnet.devices[end.guid]
    return seen.at_device(device) if device.kind is DeviceKind.SWITCH else seen.at_port(end)


def identities(seen: SeenSubnet) -> Iterator[FabricFinding]:
    """No GUID in two places, no description twice, and no adapter of two nodes."""
    for end, ports in seen.at_end.items():
        if len(ports) > 1:
            where = ", ".join(sorted(seen.port_name(port) for port in ports))
            yield seen.finding(FabricRule.GUID, seen.at_port(end),
                               f"GUID 0x{end.guid} is seen at {len(ports)} places: {where}", "at one",
                               owner=Owner.VENDOR)
    named: dict[str, list[str]] = defaultdict(list)
    for device in seen.subnet.devices.values():
        if device.description:
            named[device.description].append(device.guid)
    for name, guids in named.items():
        if len(guids) > 1:
            shown = ", ".join(f"0x{guid}" for guid in sorted(guids)[:4]) + (" ..." if len(guids) > 4 else "")
            yield seen.finding(
                FabricRule.NAME,
                FabricPlace(PlaceKind.SUBNET, name, tuple(FabricEnd(guid, 0) for guid in sorted(guids))),
                f"{len(guids)} devices call themselves {name}: {shown}", "one", Severity.WARNING,
                Owner.OPERATOR)
    for conflict in seen.joined.conflicts:
        known = seen.subnet.devices.get(conflict.guid)
        if known is not None:
            yield seen.finding(FabricRule.IDENTITY, seen.at_device(known), conflict.observed,
                               conflict.expected, Severity.WARNING, Owner.OPERATOR)
    if seen.plan is not None:
        for guid, expected in other_guids(seen.plan, seen.subnet).items():
            yield seen.finding(
                FabricRule.IDENTITY, seen.at_device(seen.subnet.devices[guid]), f"its GUID is 0x{guid}",
                f"0x{expected}, as the plan has it", Severity.WARNING, Owner.OPERATOR)
    yield from _placed(seen)


def _placed(seen: SeenSubnet) -> Iterator[FabricFinding]:
    """Devices in the place of planned ones that do not say that they are these, a line for each name that
    they give; and adapters of which only the host is known."""
    of_host = seen.names.of_host
    said: dict[str, dict[str, list[FabricEnd]]] = defaultdict(lambda: defaultdict(list))
    for end, name in sorted(seen.names.placed.items()):
        if end not in of_host:
            words = seen.words(name) if seen.is_host(name.device) else name.device
            said[seen.subnet.devices[end.guid].description][words].append(end)
    for description, places in said.items():
        shown = ", ".join(list(places)[:4]) + (" ..." if len(places) > 4 else "")
        ends = tuple(sorted({FabricEnd(end.guid, 0) for those in places.values() for end in those}))
        nodes = {node for those in places.values() for end in those
                 if (node := seen.node_of(end)) is not None}
        yield seen.finding(
            FabricRule.IDENTITY,
            FabricPlace(PlaceKind.SUBNET, f"in the place of {shown}", ends, tuple(sorted(nodes))),
            f"calls itself {description}" if description else "gives no name, or its answer was lost",
            "its planned name", Severity.WARNING, Owner.OPERATOR)
    if of_host:
        yield seen.unknown(
            FabricRule.IDENTITY, seen.whole(sorted(of_host)),
            f"of {many(len(of_host), 'port')} the host is known, and not the adapter: the plan names it in a "
            "way that neither a snapshot (muster check --store) nor its description does",
            owner=Owner.OPERATOR)
