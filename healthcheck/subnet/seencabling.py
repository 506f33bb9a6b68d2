"""What subnets show, as cabling by the names of a plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from healthcheck.subnet.cabled import CabledFabric, SeenCable
from healthcheck.subnet.cabling import CablingPlan, PlannedEnd
from healthcheck.subnet.model import CableModule, FabricEnd, FabricLink, Subnet
from healthcheck.subnet.plancheck import named

_MOST_NOTES = 20  # lines of a subnet that could not be read


def cabled(
    plan: CablingPlan, subnets: Sequence[Subnet], names: Mapping[FabricEnd, PlannedEnd],
) -> CabledFabric:
    """The cables of all subnets; `names` has the planned name of each port that has one
    (`healthcheck.subnet.join.planned_names`).

    An end without a name keeps what its device calls itself, with its GUID, so that it is no device of the
    plan. Of two links at one port the second is a note and no cable: one of them is a mistake.
    """
    planes = {cable.plane for cable in plan.cables}
    partial: set[str | None] = set()
    notes = [line for subnet in subnets for line in subnet.unread[:_MOST_NOTES]]
    cables: dict[FabricLink, SeenCable] = {}
    used: dict[PlannedEnd, SeenCable] = {}
    for subnet in subnets:
        if subnet.partial:
            partial.add(subnet.name if subnet.name in planes else None)
            notes.append(
                f"{subnet.name or 'the subnet'}: was not read to its end, so nothing is missing for certain"
            )
        for link in sorted(subnet.links):
            if link in cables:
                continue
            ends = [names.get(end) or _nameless(subnet, end) for end in (link.a, link.b)]
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
    return CabledFabric(
        tuple(cables.values()), frozenset(_devices(subnets, names)), frozenset(partial), tuple(notes)
    )


def _devices(subnets: Iterable[Subnet], names: Mapping[FabricEnd, PlannedEnd]) -> Iterable[str]:
    """The planned devices of which something was seen."""
    for subnet in subnets:
        for port in subnet.ports():
            if (name := names.get(port.end)) is not None:
                yield name.device


def _nameless(subnet: Subnet, end: FabricEnd) -> PlannedEnd:
    device = subnet.devices.get(end.guid)
    said = f"{device.description} " if device is not None and device.description else ""
    return PlannedEnd(f"{said}({end.guid})", str(end.number))


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
