"""Which tier a device of a plan belongs to where its table does not say, and what follows for its cables."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace

from healthcheck.subnet.cabling import CablingPlan, PlannedCable, PlannedDevice, PlannedEnd, Tier
from inventory.errors import InventoryError
from inventory.text import clean

ORDER = {tier: at for at, tier in enumerate(Tier)}
# What names an adapter of a host: a PCI address, or the name of a device of Linux's RDMA drivers.
_ADAPTER = re.compile(
    r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7](?:/[0-9]+)?"
    r"|(?:mlx[45]|bnxt_re|irdma|rxe|ibp|roce|hfi1)[A-Za-z0-9_.]*(?:/[0-9]+)?")


def of_ends(one: PlannedEnd, other: PlannedEnd, first: Tier | None,
            second: Tier | None) -> tuple[PlannedEnd, PlannedEnd]:
    """Both ends of a cable, the lower tier's first; as they came where a tier is not known."""
    if first is None or second is None or ORDER[first] <= ORDER[second]:
        return one, other
    return other, one


def with_tiers(plan: CablingPlan, said: Collection[str], source: str) -> CablingPlan:
    """The plan with a tier for each device: what the table `said`, else host where a port is named as an
    adapter is, leaf where a host is cabled to it, spine next to a leaf, core beyond. InventoryError without
    any host."""
    tiers: dict[str, Tier] = {name: plan.devices[name].tier for name in said}
    for cable in () if len(said) == len(plan.devices) else plan.cables:
        for end in (cable.a, cable.b):
            if end.device not in tiers and _ADAPTER.fullmatch(end.port):
                tiers[end.device] = Tier.HOST
    if Tier.HOST not in tiers.values():
        raise InventoryError(f"{source}: nothing shows which devices are hosts: name their ports by PCI "
                             "address, or give tier (host, leaf, spine, core)")
    if len(tiers) < len(plan.devices):
        _climb(plan, tiers)
    left = next((name for name in plan.devices if name not in tiers), None)
    if left is not None:
        raise InventoryError(f"{source}: no cable leads from a host to {clean(left)}: give its tier")
    devices = {name: replace(device, tier=tiers[name]) for name, device in plan.devices.items()}
    return CablingPlan(devices, tuple(_turned(cable, devices) for cable in plan.cables))


def _climb(plan: CablingPlan, tiers: dict[str, Tier]) -> None:
    """Gives each device without a tier the one above its lowest neighbour, tier by tier."""
    for lower, tier in ((Tier.HOST, Tier.LEAF), (Tier.LEAF, Tier.SPINE), (Tier.SPINE, Tier.CORE)):
        below = {name for name, one in tiers.items() if one is lower}
        for cable in plan.cables:
            for end, other in ((cable.a, cable.b), (cable.b, cable.a)):
                if end.device in below and other.device not in tiers:
                    tiers[other.device] = tier


def _turned(cable: PlannedCable, devices: Mapping[str, PlannedDevice]) -> PlannedCable:
    a, b = of_ends(cable.a, cable.b, devices[cable.a.device].tier, devices[cable.b.device].tier)
    return cable if a is cable.a else replace(cable, a=a, b=b)
