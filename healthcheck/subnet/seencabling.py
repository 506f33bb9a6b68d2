"""What subnets show, as cabling by the names of a plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from healthcheck.subnet.cabled import CabledFabric, SeenCable
from healthcheck.subnet.cabling import CablingPlan, PlannedEnd
from healthcheck.subnet.model import CableModule, FabricEnd, FabricLink, Subnet
from healthcheck.subnet.plancheck import named


def cabled(
    plan: CablingPlan, subnets: Sequence[Subnet], names: Mapping[FabricEnd, PlannedEnd]
) -> CabledFabric:
    """The cables of all subnets; `names` has the planned name of each end that a link has.

    A link one of whose ends has no name, and two links at one port, are notes: neither is a cable, and what
    the plan has there is not known to be missing.
    """
    planes = {cable.plane for cable in plan.cables}
    partial: set[str | None] = set()
    notes: list[str] = []
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
            ends = [names.get(end) for end in (link.a, link.b)]
            if ends[0] is None or ends[1] is None:
                nameless = link.a if ends[0] is None else link.b
                notes.append(f"no name of the plan for {_described(subnet, nameless)}")
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
    return CabledFabric(
        tuple(cables.values()), frozenset(_devices(subnets, names)), frozenset(partial), tuple(notes)
    )


def _devices(subnets: Iterable[Subnet], names: Mapping[FabricEnd, PlannedEnd]) -> Iterable[str]:
    """The planned devices of which something was seen."""
    for subnet in subnets:
        for port in subnet.ports():
            if (name := names.get(port.end)) is not None:
                yield name.device


def _described(subnet: Subnet, end: FabricEnd) -> str:
    device = subnet.devices.get(end.guid)
    what = device.description if device is not None and device.description else "a device without a name"
    return f"{what} ({end.guid}) port {end.number}"


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
