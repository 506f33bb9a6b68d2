"""Findings of a fabric that parts of one delivery lot share: one finding beside them, of the vendor. Pure.

What a cable or optical module states of itself (ibdiagnet2's table of cables), and what a delivery list says
of its serial number, is its lot; adapters and switches are known by the list alone, by GUID. Both ends of a
cable in one piece state one serial number, and count once; so do two modules of one lot at the ends of one
link, of which either may be the bad one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from healthcheck.model.outcome import Owner, Severity
from healthcheck.subnet.check.findings import (
    FabricFinding,
    FabricPlace,
    FabricReport,
    FabricRule,
    PlaceKind,
    in_order,
)
from healthcheck.subnet.model import DeviceKind, FabricEnd, Subnet
from healthcheck.triage.likelihood import words
from healthcheck.triage.lots import ADAPTER, CABLE, LotIncident, PartLot, faulty_lots
from healthcheck.triage.partslist import guid_key, lot_of, serial_key

SWITCH = "switch"
# What a bad part of a kind can cause.
_LINKS = frozenset({FabricRule.ERRORS, FabricRule.FLAPPING, FabricRule.LINK, FabricRule.WIDTH,
                    FabricRule.SPEED, FabricRule.OPTICS, FabricRule.TEMPERATURE})
_CAUSES: Mapping[str, frozenset[FabricRule]] = {
    CABLE: _LINKS, ADAPTER: _LINKS | {FabricRule.SILENT},
    SWITCH: frozenset({FabricRule.FAN, FabricRule.SUPPLY, FabricRule.TEMPERATURE, FabricRule.SWITCH})}
_SHOWN = 4


def with_lots(
    report: FabricReport, subnets: Sequence[Subnet], delivered: Mapping[str, PartLot],
) -> FabricReport:
    """The report, with a finding for each lot of which far more parts fail than of the others."""
    found = list(_lots(report.findings, subnets, delivered))
    return replace(report, findings=in_order((*report.findings, *found))) if found else report


def lots_seen(subnets: Sequence[Subnet], delivered: Mapping[str, PartLot]) -> frozenset[str]:
    """The lots, as places of findings call them, of which a part is in these subnets."""
    return frozenset(
        f"{kind} {each}" for kind, parts in _parts(subnets, delivered).items()
        for _, lot in parts.values() for each in (lot, PartLot(lot.vendor, lot.part)))


def _parts(
    subnets: Sequence[Subnet], delivered: Mapping[str, PartLot],
) -> Mapping[str, Mapping[FabricEnd, tuple[str, PartLot]]]:
    return {CABLE: _cables(subnets, delivered), ADAPTER: _devices(subnets, delivered, DeviceKind.ADAPTER),
            SWITCH: _devices(subnets, delivered, DeviceKind.SWITCH)}


def _lots(
    findings: Iterable[FabricFinding], subnets: Sequence[Subnet], delivered: Mapping[str, PartLot],
) -> Iterator[FabricFinding]:
    parts = _parts(subnets, delivered)
    lots = {kind: dict(those.values()) for kind, those in parts.items()}
    faulty: dict[tuple[FabricRule, str], dict[str, FabricPlace]] = defaultdict(dict)
    counted: set[tuple[FabricRule, str, tuple[FabricEnd, ...], PartLot]] = set()
    for one in findings:
        for kind, rules in _CAUSES.items():
            if one.unknown or one.rule not in rules:
                continue
            for end in one.place.ends:
                part = parts[kind].get(end if kind == CABLE else FabricEnd(end.guid, 0))
                if part is None or (once := (one.rule, kind, one.place.ends, part[1])) in counted:
                    continue
                counted.add(once)
                faulty[one.rule, kind].setdefault(part[0], one.place)
    for (rule, kind), places in sorted(faulty.items(), key=lambda item: (item[0][0].value, item[0][1])):
        for found in faulty_lots(lots[kind], places, symptoms=len(faulty)):
            yield _finding(rule, kind, found, [places[key] for key in found.subjects])


def _finding(rule: FabricRule, kind: str, found: LotIncident, where: Sequence[FabricPlace]) -> FabricFinding:
    names = "; ".join(place.name for place in where[:_SHOWN]) + (" ..." if len(where) > _SHOWN else "")
    ends = tuple(sorted({end for place in where for end in place.ends}))
    nodes = tuple(sorted({node for place in where for node in place.nodes}))
    return FabricFinding(
        FabricRule.LOT, FabricPlace(PlaceKind.LOT, f"{kind} {found.lot}", ends, nodes),
        f"{rule.value} at {len(found.subjects)} of its {found.inside}, of {found.had} with it among "
        f"{found.known} whose lot is known; {words(found.likelihood)}: {names}",
        "as often as others", Severity.WARNING, Owner.VENDOR)


def _cables(
    subnets: Iterable[Subnet], delivered: Mapping[str, PartLot],
) -> Mapping[FabricEnd, tuple[str, PartLot]]:
    """By port, what the module in it is called (its serial number, else the port) and its lot."""
    return {end: (serial_key(module.serial) or f"{end.guid}/{end.number}", lot)
            for subnet in subnets for end, module in subnet.modules.items()
            if (lot := lot_of(module, delivered)) is not None}


def _devices(
    subnets: Iterable[Subnet], delivered: Mapping[str, PartLot], kind: DeviceKind,
) -> Mapping[FabricEnd, tuple[str, PartLot]]:
    """The same of listed devices, as their port 0; the planes of one card or chassis are one."""
    found: dict[FabricEnd, tuple[str, PartLot]] = {}
    for device in (device for subnet in subnets for device in subnet.devices.values() if device.kind is kind):
        for key in map(guid_key, filter(None, (device.guid, device.system))):
            if key in delivered:
                found.setdefault(FabricEnd(device.guid, 0), (key, delivered[key]))
    return found
