"""What subnets show, as cabling by the names of a plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from healthcheck.subnet.cabled import CabledFabric, SeenCable
from healthcheck.subnet.cabling import CablingPlan, PlannedEnd, Tier
from healthcheck.subnet.join import system_name
from healthcheck.subnet.model import CableModule, FabricEnd, FabricLink, Subnet
from healthcheck.subnet.plancheck import named
from healthcheck.subnet.plannednames import PlannedNames, other_guids
from inventory.text import many

_MOST_NOTES = 20  # lines of a subnet that could not be read


def cabled(plan: CablingPlan, looked: Sequence[tuple[Subnet, PlannedNames]]) -> CabledFabric:
    """The cables of all subnets, each with the planned names of its ports.

    An end without a name keeps what its device calls itself, with its GUID, so that it is no device of the
    plan. Of two links at one port the second is a note and no cable: one of them is a mistake.
    """
    subnets = [subnet for subnet, _ in looked]
    names = {end: name for _, those in looked for end, name in those.all.items()}
    planes = {cable.plane for cable in plan.cables}
    planned = {end for cable in plan.cables for end in (cable.a, cable.b)}
    partial: set[str | None] = set()
    beside = 0
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
            strange = sum(end.device not in plan.devices for end in ends)
            if strange == 2 or (subnet.ethernet and strange and not planned & set(ends)):
                beside += 1     # of Ethernet also a node's other networks
                continue
            cable = _cable(ends[0], ends[1], [subnet.modules.get(end) for end in (link.a, link.b)])
            taken = next((end for end in cable.ends if end in used), None)
            if taken is not None:
                notes.append(f"{named(taken)}: is shown with two links; the second is not counted")
                continue
            cables[link] = cable
            used.update(dict.fromkeys(cable.ends, cable))
    if len(planes) > 1:
        unread = planes - {subnet.name for subnet in subnets}
        partial |= unread
        notes += [
            f"plane {plane or '(without a name)'}: no subnet of this name was read"
            for plane in sorted(unread)
        ]
    notes += _odd_switches(plan, looked)
    if beside:
        notes.append(f"{many(beside, 'link')} of devices that the plan does not name are not compared")
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


def _nameless(subnet: Subnet, end: FabricEnd) -> PlannedEnd:
    device = subnet.devices.get(end.guid)
    said = f"{device.description} " if device is not None and device.description else ""
    port = device.ports.get(end.number) if device is not None else None
    label = port.label if port is not None else None
    return PlannedEnd(f"{said}({end.guid})", label or str(end.number))


def _cable(a: PlannedEnd, b: PlannedEnd, modules: Sequence[CableModule | None]) -> SeenCable:
    """A cable with what its modules state. Both ends of a cable in one piece state one serial number; two
    transceivers with a fibre between them have each their own, of which neither is the fibre's."""
    read = [module for module in modules if module is not None]
    serials = {module.serial for module in read} - {""}
    parts = {module.part for module in read} - {""}
    lengths = {module.metres for module in read if module.metres}
    one_piece = len(serials) == 1
    return SeenCable(
        min(a, b),
        max(a, b),
        next(iter(serials)) if one_piece else None,
        next(iter(parts)) if one_piece and len(parts) == 1 else None,
        max(lengths) if one_piece and lengths else None,
    )
