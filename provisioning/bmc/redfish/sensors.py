"""A controller's sensors in the terms of the node's own look (`healthcheck.facts.bmc`). Source: DMTF's
schemas Sensor (Reading, Thresholds), Thermal and Power (ReadingCelsius, UpperThresholdCritical ...). A state
is the worse of the sensor's health and what its thresholds say."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from healthcheck.facts.bmc import BmcSensor, BmcSensors
from inventory.text import clean
from provisioning.bmc.base import BmcError, BmcErrorReason
from provisioning.bmc.redfish.answers import Document
from provisioning.bmc.redfish.read import first, inner, last, link, objects, text, word
from provisioning.bmc.redfish.service import RedfishService
from provisioning.bmc.redfish.walk import ENDS, expands, members

_UNITS = {"Cel": "degrees C", "V": "Volts", "W": "Watts", "A": "Amps", "%": "percent", "RPM": "RPM"}
_AWAY = frozenset(
    {"Absent", "Disabled", "UnavailableOffline", "StandbyOffline", "InTest", "Deferring", "Qualified"})
_RANK = {"ns": -1, "ok": 0, "nc": 1, "lnc": 1, "unc": 1, "cr": 2, "lcr": 2, "ucr": 2, "lnr": 3, "unr": 3}
# Of the older arrays: what holds the reading, and in what unit it is.
_OLDER = (("Thermal", "Temperatures", "ReadingCelsius", "Cel"), ("Thermal", "Fans", "Reading", "RPM"),
          ("Power", "Voltages", "ReadingVolts", "V"))
_NEWER = (("UpperFatal", "unr", 1), ("UpperCritical", "ucr", 1), ("UpperCaution", "unc", 1),
          ("LowerFatal", "lnr", -1), ("LowerCritical", "lcr", -1), ("LowerCaution", "lnc", -1))
_OLD = (("UpperThresholdFatal", "unr", 1), ("UpperThresholdCritical", "ucr", 1),
        ("UpperThresholdNonCritical", "unc", 1), ("LowerThresholdFatal", "lnr", -1),
        ("LowerThresholdCritical", "lcr", -1), ("LowerThresholdNonCritical", "lnc", -1))


def bmc_sensors(service: RedfishService) -> BmcSensors:
    """All sensors of all chassis. Raises BmcError, also where there is none."""
    service.system()
    found: list[BmcSensor] = []
    names: set[str] = set()
    trouble: BmcError | None = None
    for case in service.chassis():
        if case.document is None:
            trouble = case.wrong
            continue
        try:
            for one in _of(service, case.document):
                # Boards of one kind have sensors of one name.
                found.append(one if one.name not in names
                             else replace(one, name=clean(f"{last(case.path)} {one.name}", 80)))
                names.add(one.name)
        except BmcError as problem:
            if problem.wrong in ENDS:
                raise
            trouble = problem
    if trouble is not None and not (found and trouble.wrong is BmcErrorReason.UNSUPPORTED):
        raise trouble       # a part of the sensors, shown as all of them, would pass
    if not found:
        raise BmcError(BmcErrorReason.UNSUPPORTED, "it reports no sensors")
    return BmcSensors("BMC", sensors=tuple(found))


def _of(service: RedfishService, case: Document) -> Iterator[BmcSensor]:
    """The sensors of one chassis, from where they cost the fewest requests."""
    session = service.session
    newer = link(case, "Sensors")
    old = [(link(case, name), array, key, unit) for name, array, key, unit in _OLDER]
    if newer is not None and (expands(session) or not any(path for path, *_ in old)):
        for one in members(session, newer):
            if one.document is None:
                raise one.wrong or BmcError(BmcErrorReason.BROKEN, "a sensor cannot be read")
            yield sensor(one.document)
        return
    for path, array, key, unit in old:
        for entry in objects(session.get(path), array) if path is not None else ():
            yield older(entry, key, unit)


def sensor(document: Document) -> BmcSensor:
    """One resource Sensor."""
    unit = inner(document, "ReadingUnits")
    thresholds = [(_real(document, "Thresholds", name, "Reading"), *rest) for name, *rest in _NEWER]
    return _made(document, _real(document, "Reading"), unit if isinstance(unit, str) else "", thresholds)


def older(document: Document, key: str, unit: str) -> BmcSensor:
    """One entry of an array of Thermal or Power."""
    if unit == "RPM" and inner(document, "ReadingUnits") == "Percent":
        unit = "%"
    return _made(
        document, _real(document, key), unit, [(_real(document, name), *rest) for name, *rest in _OLD])


def _made(document: Document, reading: float | None, unit: str, thresholds: list[Any]) -> BmcSensor:
    name = first(*(text(document, key, most=40) for key in ("Name", "FanName", "Id", "MemberId")))
    health = {"Critical": "cr", "Warning": "nc", "OK": "ok"}.get(word(document, "Status", "Health"), "")
    if word(document, "Status", "State") in _AWAY or (reading is None and not health):
        return BmcSensor(name if isinstance(name, str) else "sensor", "ns", "No Reading")
    beyond = [state for limit, state, side in thresholds
              if _sane(thresholds) and limit is not None and reading is not None and (side < 0 or limit > 0)
                  and (reading - limit) * side > 0]
    # Of two as bad ones the thresholds' is taken, as it says on which side.
    state = max([*beyond, health or "ok"], key=lambda one: _RANK[one])
    shown = "No Reading" if reading is None else f"{reading:.6g} {_UNITS.get(unit, clean(unit, 20))}".strip()
    return BmcSensor(name if isinstance(name, str) else "sensor", state, shown)


def _sane(thresholds: list[Any]) -> bool:
    """Whether no upper limit is below a lower one: firmware that has them so has them all wrong."""
    upper = [limit for limit, _, side in thresholds if limit is not None and side > 0 and limit > 0]
    lower = [limit for limit, _, side in thresholds if limit is not None and side < 0]
    return not upper or not lower or min(upper) > max(lower)


def _real(document: Any, *keys: str) -> float | None:
    found = inner(document, *keys)
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        return None
    try:
        value = float(found)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None
