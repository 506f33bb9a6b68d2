"""Devices as a tool on the machine tells of them, whichever tool that is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from healthcheck.model.firmware import ComponentVersion, FirmwareReading

MOST_DEVICES = 128      # of one machine and one tool
MOST_TEXT = 80          # characters of a name or a version


class ToolOutputError(Exception):
    """What a tool printed is not in its format; one line."""


@dataclass(frozen=True)
class BandDevice:
    """One device of which a tool tells. `address` is what the tool calls it, `kind` as in
    `healthcheck.model.firmware`, "" for what is none of them. `version` is what runs, None where that was not
    read, and `why` says why; `waits` says that another one has been written and runs after a restart, and
    `written` which, "" where the tool does not say that."""

    address: str
    name: str
    kind: str
    version: str | None
    why: str = ""
    waits: bool = False
    written: str = ""


def look_of(source: str, devices: Iterable[BandDevice]) -> tuple[FirmwareReading, dict[str, BandDevice]]:
    """The store's look of a tool's devices, and the device of each component; equal names get numbers."""
    met: Counter[str] = Counter()
    named: dict[str, BandDevice] = {}
    for one in devices:
        met[one.name] += 1
        named[one.name if met[one.name] == 1 else f"{one.name} #{met[one.name]}"] = one
    versions = tuple(ComponentVersion(name, one.kind, one.version, 0.0, source, _said(one))
                     for name, one in named.items())
    return FirmwareReading("", versions, frozenset()), named


def _said(one: BandDevice) -> str:
    if one.version is None or not one.waits:
        return one.why
    return f"{one.written or 'what was written'} waits for a restart"
