"""What ipmitool prints, as values; pure. Forms: ipmitool 1.8.19, lib/ipmi_chassis.c, ipmi_mc.c, ipmi_fru.c
and ipmi_sdr.c; the numbers of entities are IPMI 2.0, table 43-13, the states of sensors table 42-3. IPMI
knows what has a sensor or a FRU record: of GPUs, NICs and switches it has no idea."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from healthcheck.facts.values import UNSUPPORTED, Unmeasured
from inventory.text import clean
from provisioning.bmc.base import (
    BootOverride,
    BootTarget,
    HardwareInventory,
    HardwarePart,
    MachineIdentity,
    Missing,
    PowerState,
)

_NOT_REPORTED = Unmeasured("it does not say")
_POWER = re.compile(r"^Chassis Power is (on|off)\s*$", re.MULTILINE)
_DEVICE = re.compile(r"Boot Device Selector : (.+)")
_TARGETS = {
    "No override": BootTarget.NONE, "Force PXE": BootTarget.PXE,
    "Force Boot from default Hard-Drive": BootTarget.DISK, "Force Boot from CD/DVD": BootTarget.CD,
    "Force Boot from remotely connected CD/DVD": BootTarget.CD, "Force Boot into BIOS Setup": BootTarget.BIOS,
    "Force Boot from remotely connected Hard-Drive": BootTarget.DISK}
_FRU = re.compile(r"FRU Device Description : (.*?)\s*\(ID (\d{1,3})\)\s*")
_LOCATED = re.compile(r"(?:Logical|Physical) FRU @([0-9A-Fa-f]{2})h")
_ENTITY = re.compile(r"(\d{1,3})\.(\d{1,3})")
_UUID = re.compile(r"^System GUID\s*: ([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\s*$", re.MULTILINE)
# What makers leave where a name or number should be.
_NOTHING = re.compile(
    r"[0 .:_-]*|n/?a|none|null|unknown.*|not (specified|available)|default string|to be filled by o\.e\.m\.|"
        r"(system|chassis|product)? ?serial number|0123456789|empty", re.IGNORECASE)
_KINDS = {3: "cpu", 4: "drive", 8: "dimm", 10: "psu", 26: "drive", 29: "fan", 30: "fan", 32: "dimm"}
_ALL = ("cpu", "gpu", "dimm", "drive", "nic", "switch", "psu", "fan")
# States of discrete sensors, as ipmitool writes them, that say how a part is.
_PRESENT = frozenset(("presence detected", "drive present", "device present", "present"))
_ABSENT = frozenset(("device absent", "absent"))
_CRITICAL = frozenset(
    ("failure detected", "power supply ac lost", "ac lost or out-of-range", "config error",
     "power supply inactive", "ierr", "thermal trip", "frb1/bist failure", "frb2/hang in post failure",
     "frb3/processor startup/init failure", "configuration error", "sm bios uncorrectable cpu-complex error",
     "uncorrectable machine check exception", "uncorrectable ecc", "memory device disabled",
     "critical overtemperature", "drive fault", "in critical array", "in failed array",
     "transition to critical from less severe", "transition to non-recoverable from less severe",
     "transition to critical from non-recoverable", "transition to non-recoverable", "install error"))
_WARNING = frozenset(
    ("predictive failure", "predictive failure asserted", "ac out-of-range, but present", "throttled",
     "correctable machine check error", "correctable ecc", "correctable ecc logging limit reached", "parity",
     "memory scrub failed", "rebuild in progress", "rebuild aborted", "limit exceeded", "performance lags",
     "transition to non-critical from ok", "transition to non-critical from more severe",
     "transition to degraded", "redundancy lost", "redundancy degraded",
     "non-redundant: insufficient resources"))
_RANK = ("", "OK", "Warning", "Critical")
# what follows the seat in a sensor's name
_SEAT = re.compile(r"[ _-]+(?:fru|status|stat|state|pres|presence)$", re.IGNORECASE)
_READS = re.compile(r"-?0*[1-9.]")


def power(text: str) -> PowerState | None:
    """What `chassis power status` says, None where that is not of its form."""
    match = _POWER.search(text)
    return None if match is None else PowerState(match[1])


def boot(text: str) -> BootOverride | None:
    """What `chassis bootparam get 5` says, or None. Flags that are not valid override nothing."""
    device = _DEVICE.search(text)
    if device is None:
        return None
    if "Boot Flag Valid" not in text:
        return BootOverride(BootTarget.NONE, once=False)
    message = device[1].strip()
    target = _TARGETS.get(message)
    return BootOverride(target if target is not None
                            else Unmeasured(f"an override that muster does not set: {clean(message, 60)}"),
                        once="Options apply to all future boots" not in text)


def pairs(text: str) -> dict[str, str]:
    """`Name : value` by name, the first of each; values cleaned, those that say nothing left out."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(" : ")
        value = clean(value.strip(), 80)
        if colon and _NOTHING.fullmatch(value) is None:
            found.setdefault(name.strip(), value)
    return found


def frus(text: str) -> dict[int, tuple[str, Mapping[str, str]]]:
    """What `fru print` says, by number: name and fields. A device that is not present has none."""
    found: dict[int, tuple[str, Mapping[str, str]]] = {}
    at: tuple[int, str] | None = None
    lines: list[str] = []
    for line in (*text.splitlines(), "FRU Device Description : end (ID 999)"):
        match = _FRU.fullmatch(line)
        if match is None:
            lines.append(line)
            continue
        if at is not None and at[0] not in found:
            found[at[0]] = at[1], pairs("\n".join(lines))
        at, lines = (int(match[2]), clean(match[1], 40)), []
    return found


def identity(info: str, fru: str, guid: str) -> MachineIdentity:
    """Who it is, from `mc info`, `fru print 0`, `mc guid`; the serial number is the product's or chassis'."""
    own, built = pairs(info), pairs(fru)
    uuid = _UUID.search(guid)

    def first(*values: str | None) -> str | Missing:
        return next((value for value in values if value), _NOT_REPORTED)

    version = own.get("IPMI Version")
    return MachineIdentity(
        vendor=first(built.get("Product Manufacturer"), built.get("Board Mfg"), own.get("Manufacturer Name")),
        model=first(built.get("Product Name"), built.get("Board Product")),
        serial=first(built.get("Product Serial"), built.get("Chassis Serial")),
        uuid=uuid[1] if uuid is not None and uuid[1].strip("0-") else _NOT_REPORTED,
        bios=UNSUPPORTED, firmware=first(own.get("Firmware Revision")),
        controller=f"IPMI {version}" if version else _NOT_REPORTED)


@dataclass(frozen=True)
class _Row:
    name: str
    state: str
    entity: tuple[int, int]
    reading: str

    @property
    def words(self) -> frozenset[str]:
        """The states that are asserted, in lower case. A comma is also within one of them."""
        return frozenset(word.strip().lower() for word in re.split(r",(?! but)", self.reading))


def _rows(text: str) -> Iterator[_Row]:
    """The lines of `sdr elist all`; raises ValueError for one that is none."""
    for line in text.splitlines():
        columns = [column.strip() for column in line.split("|")]
        if not line.strip():
            continue
        entity = _ENTITY.fullmatch(columns[3]) if len(columns) == 5 else None
        if entity is None:
            raise ValueError(line)
        yield _Row(clean(columns[0], 40), columns[2].lower(), (int(entity[1]), int(entity[2])), columns[4])


def hardware(listed: str, printed: str) -> HardwareInventory:
    """The parts that sensors and FRU records tell of, from `sdr elist all` and `fru print`; ValueError for
    another form. A kind without either is UNSUPPORTED: the machine may have it. A part is present where a
    sensor or a readable record says so."""
    records = frus(printed)
    seats: dict[tuple[int, int], list[_Row]] = {}
    for row in _rows(listed):
        if row.entity[0] in _KINDS:
            seats.setdefault(row.entity, []).append(row)
    parts: dict[str, tuple[HardwarePart, ...] | Missing] = {}
    for kind in _ALL:
        seen = [
            _part(kind, rows, records) for entity, rows in sorted(seats.items()) if _KINDS[entity[0]] == kind]
        parts[kind] = tuple(part for part in seen if part is not None) or (
            Unmeasured("its sensors have no reading, as may be without power") if seen else UNSUPPORTED)
    return HardwareInventory(parts)


def _part(
    kind: str, rows: list[_Row], records: Mapping[int, tuple[str, Mapping[str, str]]],
) -> HardwarePart | None:
    """What the rows of one entity tell, None where they tell nothing of it: no reading, and no record."""
    name, fields = rows[0].name, dict[str, str]()
    present, health = False, ""
    for row in rows:
        located = _LOCATED.search(row.reading)
        if located is not None:
            called, message = records.get(int(located[1], 16), ("", {}))
            fields |= message
            name = called or name
            continue
        if row.words & _ABSENT:
            return HardwarePart(kind, _SEAT.sub("", row.name), present=False)
        worse = _health(row)
        # `ok` alone may be of an empty seat, as may a reading of 0.
        present = present or bool(
            row.words & _PRESENT) or bool(_READS.match(row.reading)) or worse in ("Warning", "Critical")
        health = max(health, worse, key=_RANK.index)
    if not (present or fields):
        return None
    model = fields.get("Product Name") or fields.get("Board Product") or fields.get("Part Number")
    serial = fields.get("Product Serial") or fields.get("Board Serial") or fields.get("Serial Number")
    return HardwarePart(kind, _SEAT.sub("", name), model=model or _NOT_REPORTED,
                        serial=serial or _NOT_REPORTED, health=health or _NOT_REPORTED)


def _health(row: _Row) -> str:
    if row.state.endswith(("cr", "nr")) or row.words & _CRITICAL:
        return "Critical"
    if row.state.endswith("nc") or row.words & _WARNING:
        return "Warning"
    return "OK" if row.state == "ok" else ""
