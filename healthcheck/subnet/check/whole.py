"""The whole check: every subnet, and what only all of them together show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from healthcheck.model.outcome import Owner, Severity
from healthcheck.subnet.cabling import CablingPlan
from healthcheck.subnet.check.congestion import congested
from healthcheck.subnet.check.counted import counted
from healthcheck.subnet.check.findings import (
    FabricFinding,
    FabricPlace,
    FabricReport,
    FabricRule,
    PlaceKind,
    in_order,
)
from healthcheck.subnet.check.links import in_part, missing, rates, states
from healthcheck.subnet.check.managers import identities, managers
from healthcheck.subnet.check.parts import parts, routes
from healthcheck.subnet.check.seen import CountedBefore, FabricWanted, SeenSubnet
from healthcheck.subnet.join import FabricJoin
from healthcheck.subnet.model import DeviceKind, Subnet

_CHECKS = (managers, identities, missing, states, in_part, rates, counted, congested, parts, routes)


def check_fabric(
    subnets: Sequence[tuple[Subnet, float | None]], joined: FabricJoin, plan: CablingPlan | None = None,
    wanted: FabricWanted | None = None, before: Mapping[str, CountedBefore] | None = None,
    in_service: Sequence[str] | None = None,
) -> FabricReport:
    """Checks the subnets, each with the time at which it was seen. `before` has an earlier sample by the
    subnet's name, `in_service` the nodes of which adapters are to be there."""
    before = before or {}
    found: list[FabricFinding] = []
    for subnet, at in subnets:
        seen = SeenSubnet(subnet, joined, plan, wanted or FabricWanted(), before.get(subnet.name), at,
                          len(subnets))
        for check in _CHECKS:
            found += check(seen)
        found += _sources(seen)
    found += _planes([subnet for subnet, _ in subnets], plan)
    found += _absent(joined, in_service, any(subnet.partial for subnet, _ in subnets),
                     {name for one in found if one.rule is FabricRule.HOST for name in one.place.nodes})
    spans = [at - before[subnet.name].time for subnet, at in subnets
             if at is not None and subnet.name in before]
    return FabricReport(in_order(_without_shadows(found)), tuple(
        (subnet.name, _many(subnet, DeviceKind.SWITCH), _many(subnet, DeviceKind.ADAPTER), len(subnet.links))
        for subnet, _ in subnets), min(spans, default=None))


def _many(subnet: Subnet, kind: DeviceKind) -> int:
    return sum(device.kind is kind for device in subnet.devices.values())


def _sources(seen: SeenSubnet) -> Iterator[FabricFinding]:
    """Outputs that ended early, or of which lines were not understood."""
    subnet, place = seen.subnet, seen.whole()
    if subnet.partial and not subnet.ethernet and not subnet.unread:
        yield seen.unknown(FabricRule.SOURCE, place, "an output ended early: what it lacks is not known to "
                           "be absent", owner=Owner.OPERATOR)
    for line in subnet.unread[:20]:
        yield seen.unknown(FabricRule.SOURCE, place, line, owner=Owner.OPERATOR)
    if not subnet.devices:
        yield seen.unknown(FabricRule.SOURCE, place, "no device was read", Severity.CRITICAL, Owner.OPERATOR)


def _planes(subnets: Sequence[Subnet], plan: CablingPlan | None) -> Iterator[FabricFinding]:
    """Planes of the plan of which nothing was read; one subnet without a plane's name is taken for all."""
    planes = {cable.plane for cable in plan.cables} if plan is not None else set()
    names = {subnet.name for subnet in subnets}
    if len(planes) < 2 or not planes & names:
        return
    for plane in sorted(planes - names):
        yield FabricFinding(
            FabricRule.SOURCE, FabricPlace(PlaceKind.SUBNET, f"subnet {plane}".strip()),
            "no subnet of this plane's name was read", severity=Severity.WARNING, owner=Owner.OPERATOR,
            plane=plane, unknown=True)


def _absent(joined: FabricJoin, in_service: Sequence[str] | None, partial: bool,
            reported: set[str]) -> Iterator[FabricFinding]:
    """Adapters that nodes in service state and no subnet shows; of a node of which others are shown, as an
    adapter may rightly be in no subnet (Ethernet, storage)."""
    nodes = {place.node for place in joined.adapters.values()}
    for one in joined.absent:
        if (in_service is None or one.node in in_service) and one.node in nodes and one.node not in reported:
            yield FabricFinding(
                FabricRule.ADAPTER, FabricPlace(PlaceKind.NODE, f"{one.node} {one.device or one.pci}",
                                                nodes=(one.node,)),
                "in no subnet", "its GUID in one", Severity.WARNING, Owner.OPERATOR, unknown=partial)


def _without_shadows(found: Sequence[FabricFinding]) -> Iterator[FabricFinding]:
    """Leaves out what another finding explains: a missing host's link, a link reported as silent."""
    gone = {name for one in found if one.rule is FabricRule.HOST and not one.unknown
            for name in one.place.nodes}
    mute = [one.place for one in found if one.rule in (FabricRule.SILENT, FabricRule.STATE)]
    silent = {end for place in mute for end in place.ends}
    hosts_of_silent = {node for place in mute for node in place.nodes}
    for one in found:
        if one.rule is FabricRule.LINK and set(one.place.nodes) & gone:
            continue
        if one.rule is FabricRule.LINK and silent & set(one.place.ends):
            continue
        if one.rule is FabricRule.HOST and set(one.place.nodes) & hosts_of_silent:
            continue
        yield one
