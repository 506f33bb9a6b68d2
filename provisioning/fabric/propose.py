"""Which ports may be disabled, and what is lost: those that a person names, or that a check of the fabric
found to fail beyond its limits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from healthcheck.model.outcome import Severity
from healthcheck.store.portdisables import DisabledPort
from healthcheck.subnet.cabling import CablingPlan, Tier
from healthcheck.subnet.check.findings import FabricFinding, FabricRule
from healthcheck.subnet.check.seen import SeenSubnet
from healthcheck.subnet.join import FabricJoin, JoinedBy, system_name
from healthcheck.subnet.model import DeviceKind, FabricEnd, FabricLink, Subnet
from healthcheck.subnet.portguard import PortDisable, UplinkFloor, proposed, switch_end, uplinks
from healthcheck.subnet.portlabel import number_of
from healthcheck.subnet.readers.toolwords import guid_of
from healthcheck.triage.policy import PortPolicy
from inventory.errors import UsageError
from inventory.text import clean

# What a link that stays in use does harm with: bit errors are sent again, and each time that it goes down
# the routes of the whole fabric are made anew.
_HARMFUL = (FabricRule.ERRORS, FabricRule.FLAPPING)


@dataclass(frozen=True)
class PortProposal:
    """A port that is to be disabled, in its subnet, by the names that people use."""

    plane: str
    place: str
    disable: PortDisable


def harmful(findings: Iterable[FabricFinding]) -> Mapping[FabricEnd, str]:
    """The ports of links that fail beyond their limits, with what was found. One that is only known at one
    end, or not measured, is none."""
    wanted: dict[FabricEnd, str] = {}
    for one in findings:
        if one.rule in _HARMFUL and one.severity is Severity.CRITICAL and not one.unknown and one.place.ends:
            said = f"{one.rule.value}: {one.observed}"
            end = one.place.ends[0]
            wanted[end] = f"{wanted[end]}; {said}" if end in wanted else said
    return wanted


def named(word: str, subnets: Sequence[Subnet]) -> FabricEnd:
    """The port that a person names: `leaf01/9`, `leaf01/1/5/1`, or `b8cef60000000200/9`; or UsageError."""
    device, _, port = word.partition("/")
    if not device or not port:
        raise UsageError(f"{clean(word, 80)}: expected SWITCH/PORT, such as leaf01/9, or GUID/PORT")
    guid = guid_of(device) if len(device.removeprefix("0x")) == 16 else None
    found = {one.guid: one for subnet in subnets for one in subnet.devices.values()
             if one.guid == guid or device in (one.description, system_name(one.description))}
    if len(found) != 1:
        raise UsageError(f"{clean(word, 80)}: " + (
            "no device of that name or GUID was seen" if not found
            else f"{len(found)} devices call themselves so: name it by its GUID"))
    (only,) = found.values()
    ends = {one.end for one in only.ports.values() if port in (one.label, str(one.end.number))
            and (one.label is None or port == one.label or not any(
                port == other.label for other in only.ports.values()))}
    if not ends and only.kind is DeviceKind.SWITCH:
        # No tool shows what is printed beside most ports.
        ends = {one.end for one in only.ports.values()
                if one.label is None and one.end.number == number_of(port)}
    if len(ends) != 1:
        raise UsageError(f"{clean(word, 80)}: no such port was seen there")
    return ends.pop()


def proposals(
    subnets: Sequence[Subnet], joined: FabricJoin, wanted: Mapping[FabricEnd, str], policy: PortPolicy,
    ours: Collection[DisabledPort] = (), plan: CablingPlan | None = None,
) -> tuple[PortProposal, ...]:
    """What becomes of each wanted port, in their order. `ours` are ports that are disabled already by us:
    their links count as cabled, and not as working. Only an adapter that its node's own snapshot states
    counts as one of several of its host: what an adapter calls itself, anyone may write."""
    owners = {guid: place.node for guid, place in joined.adapters.items() if place.by is JoinedBy.GUID}
    found: list[PortProposal] = []
    left = dict(wanted)
    for subnet in subnets:
        here = {switch_end(subnet, end): left.pop(end) for end in list(left) if end.guid in subnet.devices}
        if not here:
            continue
        floor = UplinkFloor(policy.uplinks, policy.uplinks_percent, _cabled(subnet, joined, ours, plan))
        seen = SeenSubnet(subnet, joined, plan, planes=len(subnets))
        idle = [FabricLink.of(port.end, port.peer) for port in ours]
        found += [PortProposal(subnet.name, _place(seen, one), one)
                  for one in proposed(subnet, here, owners, floor, idle)]
    return (*found, *(PortProposal("", f"0x{end.guid} port {end.number}", PortDisable(
        end, None, reason, "", "this port was not seen")) for end, reason in left.items()))


def _place(seen: SeenSubnet, one: PortDisable) -> str:
    if one.peer is None:
        return seen.port_name(one.end)
    return f"{seen.port_name(one.end)} to {seen.port_name(one.peer)}"


def _cabled(subnet: Subnet, joined: FabricJoin, ours: Collection[DisabledPort],
            plan: CablingPlan | None) -> Mapping[str, int]:
    """How many cables to other switches each switch is known to have: those that are seen and those that we
    disabled, or as many as the plan says."""
    found = dict(uplinks(subnet, [FabricLink.of(port.end, port.peer) for port in ours]))
    if plan is not None:
        names = SeenSubnet(subnet, joined, plan).planned_name
        guids = {name.device: end.guid for end, name in names.items()}
        counts: dict[str, int] = {}
        for cable in plan.cables:
            if Tier.HOST not in (plan.devices[cable.a.device].tier, plan.devices[cable.b.device].tier):
                for end in (cable.a, cable.b):
                    counts[end.device] = counts.get(end.device, 0) + 1
        for device, count in counts.items():
            if device in guids and guids[device] in found:
                found[guids[device]] = max(found[guids[device]], count)
    return found


def links(subnets: Sequence[Subnet]) -> int:
    """How many links are seen in all."""
    return sum(len(subnet.links) for subnet in subnets)
