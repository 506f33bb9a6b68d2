"""What controllers said, as lines and as JSON (`muster.bmc/1`). There what was not measured is {"unmeasured":
REASON}, and what a controller does not have {"unsupported": true}; in lines ? and -."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from healthcheck.facts.bmc import BmcLogUse, BmcSensor
from healthcheck.facts.values import Fact, Unmeasured, Unsupported, reading, readings
from inventory.text import clean
from provisioning.bmc.base import (
    Bios,
    BmcError,
    BootOverride,
    EarlierChange,
    FirmwareEntry,
    HardwarePart,
    LogReading,
    MachineIdentity,
    Media,
    Missing,
    PowerState,
)

SCHEMA = "muster.bmc/1"
MOST_EVENTS = 100       # of one log in lines
_UNITS = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20))


def value(found: Any) -> Any:
    """As JSON knows it."""
    if isinstance(found, Unmeasured):
        return {"unmeasured": found.reason}
    if isinstance(found, Unsupported):
        return {"unsupported": True}
    if isinstance(found, BmcError):
        return {"unmeasured": found.message, "wrong": found.wrong.value}
    if isinstance(found, Enum):
        return found.value
    if isinstance(found, Fact):
        return value(readings(found))
    if is_dataclass(found):
        return {field.name: value(getattr(found, field.name)) for field in fields(found)}
    if isinstance(found, Mapping):
        return {key: value(inner) for key, inner in found.items()}
    return [value(inner) for inner in found] if isinstance(found, (tuple, list)) else found


def word(found: Any) -> str:
    """In a line."""
    if isinstance(found, (Unmeasured, BmcError)):
        return "?"
    if isinstance(found, Unsupported):
        return "-"
    if isinstance(found, Enum):
        return str(found.value)
    return str(found).lower() if isinstance(found, bool) else clean(found, 80)


def summary(message: tuple[MachineIdentity, PowerState | BmcError, BootOverride | BmcError]) -> str:
    """Who it is, how it is, and from what it boots next."""
    identity, power, boot = message
    parts = [
        word(power), f"{word(identity.vendor)} {word(identity.model)}", f"serial {word(identity.serial)}",
        f"BIOS {word(identity.bios)}", _twice(word(identity.controller), word(identity.firmware))]
    if isinstance(boot, BootOverride) and isinstance(boot.target, Enum) and boot.target.value != "none":
        parts.append(f"boots {word(boot.target)} "
                     f"{'once' if boot.once is True else 'always' if boot.once is False else ''}".rstrip())
    if isinstance(boot, BootOverride) and isinstance(boot.progress, str):
        parts.append(clean(boot.progress, 40))
    return "  ".join(parts)


def changes(found: Sequence[EarlierChange] | BmcError) -> Iterator[str]:
    """What became of changes that earlier commands left unended."""
    if isinstance(found, BmcError):
        yield f"? an earlier change: {found.message}"
        return
    for one in found:
        yield f"earlier change, {one.what}: {one.end.value}: {one.message}"


def _twice(controller: str, version: str) -> str:
    """Both, and once what HPE says in each: iLO 6, iLO 6 v1.66."""
    return version if version.startswith(controller) else f"{controller} {version}"


def hardware(found: Mapping[str, tuple[HardwarePart, ...] | Missing]) -> Iterator[str]:
    """A line for each kind, and one for each part that is not well or not there."""
    for kind, parts in found.items():
        if not isinstance(parts, tuple):
            yield (f"{kind:7} {word(parts):>3}  "
                   f"{parts.reason if isinstance(parts, Unmeasured) else 'it does not tell of any'}")
            continue
        there = [part for part in parts if part.present]
        models = Counter(
            f"{word(part.model)}{_amount(part)}" for part in there if isinstance(part.model, str))
        most = ", ".join(f"{count} x {model}" for model, count in models.most_common(4))
        yield f"{kind:7} {len(there):3}  {most}".rstrip()
        for part in parts:
            if not part.present:
                yield f"        {part.slot}: empty"
            elif part.health != "OK" and isinstance(part.health, str):
                yield f"        {part.slot}: {part.health}, {word(part.model)}, serial {word(part.serial)}"
            elif (isinstance(part.model, Unmeasured) and part.model == part.serial == part.health
                    and part.model.reason != "it does not say"):
                yield f"        {part.slot}: ? {clean(part.model.reason, 120)}"


def _amount(part: HardwarePart) -> str:
    if not isinstance(part.amount, int):
        return ""
    if part.kind == "cpu":
        return f" ({part.amount} cores)"
    if part.kind == "psu":
        return f" ({part.amount} W)"
    unit, size = next(((unit, size) for unit, size in _UNITS if part.amount >= size), ("B", 1))
    return f" ({part.amount / size:.4g} {unit})"


def firmware(found: tuple[FirmwareEntry, ...]) -> Iterator[str]:
    """A line each."""
    wide = max((len(one.name) for one in found), default=0)
    for one in found:
        yield f"{one.name:{min(wide, 60)}}  {word(one.version)}"


def log(found: LogReading, use: BmcLogUse | BmcError) -> Iterator[str]:
    """The events that still hold, oldest first."""
    percent = reading(use, "used_percent") if isinstance(use, BmcLogUse) else None
    if isinstance(percent, int):
        yield f"log {percent} % full"
    if found.missing:
        yield f"? not all of the log was read: {found.missing}"
    if (older := len(found.log.events) - MOST_EVENTS) > 0:
        yield f"{older} older active events are not shown; --format json has them"
    for event in found.log.events[-MOST_EVENTS:]:
        yield f"{event.when:16}  {event.sensor}: {event.text}"
    if not found.log.events:
        yield "no active event" if not found.missing else "no active event in what was read"


def sensors(found: tuple[BmcSensor, ...]) -> Iterator[str]:
    """A line each, what is wrong first."""
    wide = max((len(one.name) for one in found), default=0)
    for one in sorted(found, key=lambda one: one.state in ("ok", "ns")):
        yield f"{one.name:{wide}}  {one.state:4}  {one.reading}"


def bios(found: Bios) -> Iterator[str]:
    """Settings, with what waits for the next reset beside them."""
    pending = found.pending if isinstance(found.pending, Mapping) else {}
    if not isinstance(found.current, Mapping):
        yield f"? {found.current.reason if isinstance(found.current, Unmeasured) else 'it has none'}"
        return
    for name, now in sorted(found.current.items()):
        yield f"{name} = {word(now)}" + (
            f"   after the next reset: {word(pending[name])}" if name in pending else "")
    for name in sorted(pending.keys() - found.current.keys()):
        yield f"{name}   after the next reset: {word(pending[name])}"
    if isinstance(found.pending, Unmeasured):
        yield f"? what waits for the next reset: {found.pending.reason}"


def media(found: tuple[Media, ...]) -> Iterator[str]:
    """A line each."""
    for one in found:
        yield (f"{one.name}  {'/'.join(one.kinds) or '?'}  "
               f"{one.image or ('inserted' if one.inserted else 'empty')}")
