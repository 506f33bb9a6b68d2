"""A cabling plan as the document muster.fabric.plan/1."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from healthcheck.subnet.cabling import CablingPlan, PlannedCable, PlannedDevice, PlannedEnd, Tier
from healthcheck.subnet.plancells import SPEEDS
from healthcheck.subnet.plancheck import PlanFault
from inventory.errors import InventoryError
from inventory.text import short

SCHEMA = "muster.fabric.plan/1"


def document(plan: CablingPlan, faults: Sequence[PlanFault] = ()) -> dict[str, Any]:
    """The plan, its counts, and what is wrong with it."""
    tiers = Counter(device.tier for device in plan.devices.values())
    return {
        "schema": SCHEMA,
        "counts": {**{tier.value: tiers[tier] for tier in Tier}, "cables": len(plan.cables)},
        "planes": sorted({cable.plane for cable in plan.cables}),
        "faults": [{"kind": one.kind.value, "subject": one.subject, "what": one.what} for one in faults],
        "devices": [{**vars(one), "tier": one.tier.value} for one in plan.devices.values()],
        "cables": [{**vars(one), "a": _end(one.a), "b": _end(one.b)} for one in plan.cables],
    }


def _end(end: PlannedEnd) -> dict[str, str]:
    return {"device": end.device, "port": end.port}


def read(text: str, source: str) -> CablingPlan:
    """The plan of such a document. Raises InventoryError, with what was expected, for another."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise InventoryError(f"{source}: is no JSON document") from None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise InventoryError(f"{source}: expected the schema {SCHEMA}")
    devices: dict[str, PlannedDevice] = {}
    for at, one in enumerate(_list(found, "devices", source)):
        where = f"{source}: devices[{at}]"
        name = _text(one, "name", where)
        try:
            tier = Tier(_text(one, "tier", where))
        except ValueError:
            tiers = ", ".join(tier.value for tier in Tier)
            raise InventoryError(f"{where}: tier: expected {tiers}") from None
        devices[name] = PlannedDevice(name, tier, _maybe(one, "rack", str, where),
                                      _maybe(one, "unit", int, where), _maybe(one, "guid", str, where))
    return CablingPlan(devices, tuple(_cable(one, devices, f"{source}: cables[{at}]")
                                      for at, one in enumerate(_list(found, "cables", source))))


def _cable(one: Any, devices: dict[str, PlannedDevice], where: str) -> PlannedCable:
    ends = []
    for side in ("a", "b"):
        held = one.get(side) if isinstance(one, dict) else None
        end = PlannedEnd(_text(held, "device", f"{where}.{side}"), _text(held, "port", f"{where}.{side}"))
        if end.device not in devices:
            raise InventoryError(f"{where}.{side}: the device {short(end.device)} is not among devices")
        ends.append(end)
    speed = _maybe(one, "speed", str, where)
    if speed is not None and speed not in SPEEDS:
        raise InventoryError(f"{where}: speed: expected one of {', '.join(SPEEDS)}")
    return PlannedCable(
        ends[0], ends[1], plane=_maybe(one, "plane", str, where) or "",
        width=_maybe(one, "width", int, where),
        speed=speed, gigabits=_maybe(one, "gigabits", float, where),
        metres=_maybe(one, "metres", float, where), serial=_maybe(one, "serial", str, where),
        part=_maybe(one, "part", str, where))


def _list(found: dict[str, Any], key: str, source: str) -> list[Any]:
    value = found.get(key)
    if not isinstance(value, list):
        raise InventoryError(f"{source}: {key}: expected a list")
    return value


def _text(held: Any, key: str, where: str) -> str:
    value = held.get(key) if isinstance(held, dict) else None
    if not isinstance(value, str) or not value:
        raise InventoryError(f"{where}: {key}: expected a text")
    return value


def _maybe(held: Any, key: str, kind: type, where: str) -> Any:
    value = held.get(key)
    if value is None:
        return None
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise InventoryError(f"{where}: {key}: expected {kind.__name__} or null")
    return value
