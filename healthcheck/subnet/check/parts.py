"""Temperature, optical power, fans and power supplies, where a source shows them, and routes.

Where a part states no limits of its own: optical modules 70 degrees Celsius (the upper end of the commercial
case temperature range of pluggable modules, 0 to 70); received light below -10.3 dBm, the least of
100GBASE-SR4 (IEEE 802.3bm, average receive power of each lane). A switch's chip is judged by limits that a
source states, a fan by the least speed that the switch states and by whether it turns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from healthcheck.model.outcome import Owner, Severity
from healthcheck.subnet.check.findings import FabricFinding, FabricPlace, FabricRule
from healthcheck.subnet.check.seen import SeenSubnet
from healthcheck.subnet.model import DeviceKind, FabricEnd, SubnetSensor
from inventory.text import many

_MODULE_C, _LIGHT_DBM = 70.0, -10.3
# An uplink of a leaf with so many times the routes of another is out of balance.
_UNBALANCED, _LEAST_ROUTES = 2.0, 8


def parts(seen: SeenSubnet) -> Iterator[FabricFinding]:
    """Parts that are beyond their limits, or of which that is not known."""
    unlimited = []
    for sensor in seen.subnet.sensors:
        device = seen.subnet.devices.get(sensor.end.guid)
        if device is None:
            continue
        place = seen.at_port(sensor.end) if sensor.end.number else seen.at_device(device)
        if sensor.what == "temperature" and sensor.end.number == 0 and sensor.high is None:
            unlimited.append(sensor.end)
        yield from _sensor(seen, sensor, place)
    if unlimited:
        yield seen.unknown(
            FabricRule.TEMPERATURE, seen.whole(unlimited),
            f"no source states the limit of {many(len(unlimited), 'temperature')} of switches", Severity.INFO,
            Owner.DATACENTRE)


def _sensor(seen: SeenSubnet, sensor: SubnetSensor, place: FabricPlace) -> Iterator[FabricFinding]:
    value, lane = sensor.value, f" of lane {sensor.lane}" if sensor.lane else ""
    if sensor.what == "temperature" and value is not None:
        most = sensor.high if sensor.high is not None else _MODULE_C if sensor.end.number else None
        if most is not None and value >= most:
            yield seen.finding(FabricRule.TEMPERATURE, place, f"{value:g} °C", f"below {most:g} °C",
                               Severity.WARNING, Owner.DATACENTRE)
    elif sensor.what == "rx power" and value is not None:
        least = sensor.low if sensor.low is not None else _LIGHT_DBM
        if value < least:
            yield seen.finding(FabricRule.OPTICS, place, f"received light{lane} {value:g} dBm",
                               f"at least {least:g} dBm", Severity.WARNING, Owner.DATACENTRE)
    elif sensor.what == "fan" and value is not None:
        if value <= 0 or (sensor.low is not None and value < sensor.low):
            yield seen.finding(FabricRule.FAN, place, f"{sensor.part} turns at {value:g} a minute",
                               f"at least {sensor.low:g}" if sensor.low else "turns",
                               Severity.CRITICAL, Owner.DATACENTRE)
    elif sensor.what == "power supply" and sensor.ok is not True:
        unknown = sensor.ok is None
        yield seen.finding(FabricRule.SUPPLY, place, f"{sensor.part} " + (
            "states nothing that is understood" if unknown else "is not well"), "well",
            Severity.WARNING, Owner.DATACENTRE, unknown=unknown)


def _untold(seen: SeenSubnet) -> Iterator[FabricFinding]:
    """What the tables that were read do not show."""
    devices = seen.subnet.devices.values()
    tableless = [FabricEnd(device.guid, 0) for device in devices
                 if device.kind is DeviceKind.SWITCH and device.guid not in seen.subnet.routes]
    nameless = [port.end for device in devices if device.kind is DeviceKind.ADAPTER
                for port in device.ports.values() if port.lid is None and port.peer is not None]
    for ends, words in ((tableless, "no table was read of {} switches: {}"),
                        (nameless, "the LIDs of {} adapters are not shown: {}")):
        if ends:
            names = ", ".join(sorted(seen.device_name(end.guid) for end in ends)[:3])
            yield seen.unknown(FabricRule.ROUTE, seen.whole(ends),
                               words.format(len(ends), names + (" ..." if len(ends) > 3 else "")))


def routes(seen: SeenSubnet) -> Iterator[FabricFinding]:
    """Switches without a route to an adapter's LID, and leaves whose uplinks carry very different numbers of
    routes; switches without a table and adapters without a LID where other switches' tables were read.
    Without any tables nothing is said: they are not asked for by default."""
    tables = seen.subnet.routes
    lids = {port.lid: port.end for device in seen.subnet.devices.values()
            if device.kind is DeviceKind.ADAPTER for port in device.ports.values()
            if port.lid is not None and port.peer is not None}
    if tables:
        yield from _untold(seen)
    for guid, table in sorted(tables.items()):
        device = seen.subnet.devices.get(guid)
        if device is None:
            continue
        lost = sorted(lid for lid in lids if lid not in table)
        if lost:
            names = ", ".join(seen.port_name(lids[lid]) for lid in lost[:3])
            names += " ..." if len(lost) > 3 else ""
            yield seen.finding(FabricRule.ROUTE, seen.at_device(device),
                               f"has no route to {len(lost)} adapters: {names}", "to all")
        if guid not in seen.leaves:
            continue
        ups = {port.end.number for port in device.ports.values()
               if port.peer is not None and seen.kind(port.peer) is DeviceKind.SWITCH}
        used = Counter(table[lid] for lid in lids if table.get(lid) in ups)
        most, least = max(used.values(), default=0), min((used[number] for number in ups), default=0)
        if len(ups) > 1 and most >= _LEAST_ROUTES and most > _UNBALANCED * max(least, 1):
            yield seen.finding(FabricRule.BALANCE, seen.at_device(device),
                               f"one uplink carries {most} routes and another {least}", "about as many each",
                               Severity.WARNING)
