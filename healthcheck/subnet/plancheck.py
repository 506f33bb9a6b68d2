"""What cannot be, or cannot be meant, in a cabling plan; pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from healthcheck.subnet.cabling import CablingPlan, PlannedEnd, Tier
from healthcheck.subnet.plantiers import ORDER
from healthcheck.subnet.portlabel import number_of
from inventory.nodeset import natural
from inventory.text import many


class FaultOfPlan(Enum):
    """What is wrong with a plan."""

    PORT_TWICE = "port used twice"
    SAME_DEVICE = "cable from a device to itself"
    NO_UPLINKS = "no uplinks"
    UNEQUAL_UPLINKS = "fewer uplinks than others"
    SPEEDS = "speeds differ"
    TIERS = "tiers that do not meet"
    PLANES = "in several planes"
    SERIAL_TWICE = "serial used twice"
    UNKNOWN_DEVICE = "device not in the plan"


@dataclass(frozen=True)
class PlanFault:
    """One thing: the device or port that it is about, and what is wrong in words."""

    kind: FaultOfPlan
    subject: str
    what: str


def faults(plan: CablingPlan, rates: Mapping[str, float] | None = None) -> tuple[PlanFault, ...]:
    """All that is found, by kind and subject. `rates` has the gigabits of hosts' ports by host, of SKUs:
    what a cable is planned to carry is compared with it."""
    found = [*_ports(plan), *_devices(plan), *_tiers(plan), *_uplinks(plan), *_speeds(plan, rates or {}),
             *_serials(plan)]
    order = {kind: at for at, kind in enumerate(FaultOfPlan)}
    return tuple(sorted(found, key=lambda one: (order[one.kind], natural(one.subject))))


def named(end: PlannedEnd) -> str:
    """A port in words: "leaf01 port 12"."""
    return f"{end.device} port {end.port}"


# Gigabits a second of one lane, as the names of rates are used (IBTA, "InfiniBand Roadmap").
LANE_GIGABITS = {"SDR": 2.5, "DDR": 5.0, "QDR": 10.0, "FDR10": 10.0, "FDR": 14.0, "EDR": 25.0, "HDR": 50.0,
                 "NDR": 100.0, "XDR": 200.0}


def _ports(plan: CablingPlan) -> Iterator[PlanFault]:
    used = Counter(end for cable in plan.cables for end in (cable.a, cable.b))
    for end, times in used.items():
        if times > 1:
            yield PlanFault(FaultOfPlan.PORT_TWICE, named(end), f"{many(times, 'cable')} in one port")
    same: dict[tuple[str, int], list[PlannedEnd]] = defaultdict(list)
    for end in dict.fromkeys(end for cable in plan.cables if cable.gigabits is None
                             for end in (cable.a, cable.b)):
        device, number = plan.devices.get(end.device), number_of(end.port)
        # Ports of Ethernet have names and no numbers: "1/1" and "2/1" are two.
        if device is not None and device.tier is not Tier.HOST and number is not None:
            same[end.device, number].append(end)
    for (_, number), ends in same.items():
        if len(ends) > 1:
            names = " and ".join(end.port for end in ends)
            yield PlanFault(FaultOfPlan.PORT_TWICE, named(ends[0]),
                            f"{names} are both port {number} of the subnet")
    for cable in plan.cables:
        if cable.a.device == cable.b.device:
            yield PlanFault(FaultOfPlan.SAME_DEVICE, named(cable.a), f"its cable ends at port {cable.b.port}")


def _devices(plan: CablingPlan) -> Iterator[PlanFault]:
    planes: dict[str, set[str]] = defaultdict(set)
    for cable in plan.cables:
        for end in (cable.a, cable.b):
            planes[end.device].add(cable.plane)
    for name, of in planes.items():
        device = plan.devices.get(name)
        if device is None:
            yield PlanFault(FaultOfPlan.UNKNOWN_DEVICE, name,
                            "cables end there, and the plan does not have it")
        elif device.tier is not Tier.HOST and len(of) > 1:
            yield PlanFault(FaultOfPlan.PLANES, name, f"its cables are in {', '.join(sorted(map(repr, of)))}")


def _tiers(plan: CablingPlan) -> Iterator[PlanFault]:
    for cable in plan.cables:
        tiers = [device.tier for end in (cable.a, cable.b)
                 if (device := plan.devices.get(end.device)) is not None]
        if (len(tiers) == 2 and cable.a.device != cable.b.device
                and abs(ORDER[tiers[0]] - ORDER[tiers[1]]) != 1):
            yield PlanFault(FaultOfPlan.TIERS, named(cable.a), f"its cable leads from a {tiers[0].value} to "
                            f"a {tiers[1].value}, {named(cable.b)}")


def _uplinks(plan: CablingPlan) -> Iterator[PlanFault]:
    up: Counter[str] = Counter()
    for cable in plan.cables:
        ends = [(ORDER[device.tier], end.device) for end in (cable.a, cable.b)
                if (device := plan.devices.get(end.device)) is not None]
        if len(ends) == 2 and ends[0][0] != ends[1][0]:
            up[min(ends)[1]] += 1
    there = {device.tier for device in plan.devices.values()}
    for tier, above in ((Tier.LEAF, Tier.SPINE), (Tier.SPINE, Tier.CORE)):
        if above not in there:
            continue
        counts = {name: up[name] for name, device in plan.devices.items() if device.tier is tier}
        usual = Counter(counts.values()).most_common(1)[0][0] if counts else 0
        for name, count in counts.items():
            if not count:
                yield PlanFault(FaultOfPlan.NO_UPLINKS, name,
                                f"no cable leads from this {tier.value} to a {above.value}")
            elif count < usual:
                yield PlanFault(FaultOfPlan.UNEQUAL_UPLINKS, name,
                                f"{many(count, 'uplink')}, most have {usual}")


def _speeds(plan: CablingPlan, rates: Mapping[str, float]) -> Iterator[PlanFault]:
    for cable in plan.cables:
        planned = cable.gigabits
        if planned is None and cable.speed is not None and cable.width is not None:
            planned = LANE_GIGABITS[cable.speed] * cable.width
        has = rates.get(cable.a.device)
        if planned is not None and has is not None and planned != has:
            yield PlanFault(FaultOfPlan.SPEEDS, named(cable.a), f"the plan has {planned:g} Gb/s for its "
                            f"cable, its SKU {has:g} Gb/s for its port")


def _serials(plan: CablingPlan) -> Iterator[PlanFault]:
    used = Counter(cable.serial for cable in plan.cables if cable.serial)
    for serial, times in used.items():
        if times > 1:
            yield PlanFault(FaultOfPlan.SERIAL_TWICE, serial, f"{times} cables have this serial number")
