"""What subnets show, as cabling by the names of a plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from healthcheck.subnet.cabled import CabledFabric, SeenCable
from healthcheck.subnet.cabling import CablingPlan, PlannedCable, PlannedEnd, Tier
from healthcheck.subnet.join import system_name
from healthcheck.subnet.model import CableModule, DeviceKind, FabricEnd, FabricLink, LinkState, Subnet
from healthcheck.subnet.plancheck import named
from healthcheck.subnet.plannednames import PlannedNames, other_guids
from inventory.text import many

_MOST_NOTES = 20  # lines of a subnet that could not be read


def cabled(plan: CablingPlan, looked: Sequence[tuple[Subnet, PlannedNames]]) -> CabledFabric:
    """The cables of all subnets, each with the planned names of its ports. An end without one keeps its
    device's own description and GUID, so that it is no device of the plan. Of two links at one port the
    second is a note and no cable: one of them is a mistake."""
    subnets = [subnet for subnet, _ in looked]
    names = {end: name for _, those in looked for end, name in those.all.items()}
    planes = {cable.plane for cable in plan.cables}
    planned = {end for cable in plan.cables for end in (cable.a, cable.b)}
    by_ends = {frozenset((cable.a, cable.b)): cable for cable in plan.cables}
    partial: set[str | None] = set()
    beside = 0
    uplinks = any(Tier.HOST not in (plan.devices[one.a.device].tier, plan.devices[one.b.device].tier)
                  for one in plan.cables)
    notes = [line for subnet in subnets for line in subnet.unread[:_MOST_NOTES]]
    cables: dict[FabricLink, SeenCable] = {}
    used: dict[PlannedEnd, SeenCable] = {}
    for subnet in subnets:
        if subnet.partial:
            partial.add(subnet.name if subnet.name in planes else None)
            why = ("LLDP shows what those who were asked are joined to" if subnet.ethernet
                   else "was not read to its end")
            notes.append(f"{subnet.name or 'the subnet'}: {why}, so nothing is missing for certain")
        for link in sorted(subnet.links):
            if link in cables:
                continue
            ends = [names.get(end) or _nameless(subnet, end) for end in (link.a, link.b)]
            if (not planned & set(ends) and any(end.device not in plan.devices for end in ends)
                    and _beyond(plan, subnet, link, ends, uplinks=uplinks)):
                beside += 1
                continue
            wanted = by_ends.get(frozenset(ends))
            cable = replace(_cable(ends[0], ends[1], [subnet.modules.get(end) for end in (link.a, link.b)]),
                            degraded=wanted is not None and _is_degraded(subnet, link, wanted))
            taken = next((end for end in cable.ends if end in used), None)
            if taken is not None:
                notes.append(f"{named(taken)}: is shown with two links; the second is not counted")
                continue
            cables[link] = cable
            used.update(dict.fromkeys(cable.ends, cable))
    if len(planes) > 1:
        unread = planes - {subnet.name for subnet in subnets}
        partial |= unread
        notes += [f"plane {plane or '(without a name)'}: no subnet of this name was read"
                  for plane in sorted(unread)]
    notes += _odd_switches(plan, looked)
    if beside:
        notes.append(f"not compared: {many(beside, 'link')} of devices that the plan does not name")
    return CabledFabric(
        tuple(cables.values()), frozenset(_devices(subnets, names)), frozenset(partial), tuple(notes),
        {name: _why_assumed(subnet.devices[end.guid].description, of_host=end in those.of_host)
         for subnet, those in looked for end, name in those.placed.items()
         if plan.devices[name.device].tier is Tier.HOST})


def _why_assumed(description: str, *, of_host: bool) -> str:
    if of_host:
        return ("which adapter of its host it is, is not known: the plan names it in a way that neither a "
                "snapshot (muster check --store) nor its description does")
    return f"what is in the place of the planned adapter calls itself {description or 'nothing'}"


def _odd_switches(plan: CablingPlan, looked: Iterable[tuple[Subnet, PlannedNames]]) -> Iterable[str]:
    """A line for each switch that does not say that it is the planned one, or has another GUID."""
    for subnet, names in looked:
        placed = {(name.device, end.guid) for end, name in names.placed.items()
                  if plan.devices[name.device].tier is not Tier.HOST}
        for name, guid in sorted(placed):
            said = subnet.devices[guid].description
            yield (f"{name}: no switch calls itself so; by its cables it is the one that calls itself "
                   f"{said or 'nothing'} (0x{guid})")
        for guid, expected in other_guids(plan, subnet).items():
            name = system_name(subnet.devices[guid].description)
            yield f"{name}: its GUID is 0x{guid}, and in the plan 0x{expected}"


def _devices(subnets: Iterable[Subnet], names: Mapping[FabricEnd, PlannedEnd]) -> Iterable[str]:
    """The planned devices of which something was seen."""
    for subnet in subnets:
        for port in subnet.ports():
            if (name := names.get(port.end)) is not None:
                yield name.device


def _beyond(plan: CablingPlan, subnet: Subnet, link: FabricLink, ends: Sequence[PlannedEnd], *,
            uplinks: bool) -> bool:
    """Whether a cable at a device that the plan does not name is none of the plan's: both devices are such, a
    node's other networks (Ethernet), or an uplink where the plan has the cables of hosts alone."""
    devices = [subnet.devices.get(end.guid) for end in (link.a, link.b)]
    between = all(one is not None and one.kind is DeviceKind.SWITCH for one in devices)
    return (subnet.ethernet or (between and not uplinks)
            or all(end.device not in plan.devices for end in ends))


def _nameless(subnet: Subnet, end: FabricEnd) -> PlannedEnd:
    device = subnet.devices.get(end.guid)
    said = f"{device.description} " if device is not None and device.description else ""
    port = device.ports.get(end.number) if device is not None else None
    label = port.label if port is not None else None
    return PlannedEnd(f"{said}({end.guid})", label or str(end.number))


def _is_degraded(subnet: Subnet, link: FabricLink, wanted: PlannedCable) -> bool:
    """Whether either end shows that the link is not as planned; what is not shown says nothing."""
    for port in filter(None, map(subnet.port, (link.a, link.b))):
        if port.state not in (None, LinkState.ACTIVE) or port.end in (subnet.unhealthy or {}):
            return True
        for there, planned in ((port.width, wanted.width), (port.speed, wanted.speed),
                               (port.gigabits, wanted.gigabits)):
            if there is not None and planned is not None and there != planned:
                return True
    return False


def _cable(a: PlannedEnd, b: PlannedEnd, modules: Sequence[CableModule | None]) -> SeenCable:
    """A cable with what its modules state. Both ends of a cable in one piece state one serial number; two
    transceivers with a fibre between them have each their own, of which neither is the fibre's."""
    read = [module for module in modules if module is not None]
    serials = {module.serial for module in read} - {""}
    parts = {module.part for module in read} - {""}
    lengths = {module.metres for module in read if module.metres}
    one_piece = len(serials) == 1
    return SeenCable(min(a, b), max(a, b), next(iter(serials)) if one_piece else None,
                     next(iter(parts)) if one_piece and len(parts) == 1 else None,
                     max(lengths) if one_piece and lengths else None)
