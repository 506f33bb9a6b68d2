"""The machine by its firmware: DMI strings that any user may read
(Documentation/ABI/testing/sysfs-class-dmi), and, for root, the memory modules as dmidecode(8) prints them
(SMBIOS, structure type 17)."""

from __future__ import annotations

import hashlib
import re
from typing import Any, NamedTuple

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.parsing import line
from healthcheck.facts.values import Fact, Unread
from healthcheck.model.probes import Probe, ProbeKind
from healthcheck.model.recording import Outcome
from inventory.text import clean

_FOLDER = "/sys/class/dmi/id"
_NAMES = ("bios_version", "bios_date", "product_name", "sys_vendor", "board_name", "product_serial",
          "board_serial")
_STRINGS = tuple(f"{_FOLDER}/{name}" for name in _NAMES)
MACHINE_ID = "/etc/machine-id"
DMI = Probe("host.firmware", ProbeKind.FILES, paths=(*_STRINGS, MACHINE_ID))
DIMMS = Probe("host.dimms", ProbeKind.COMMAND, argv=("dmidecode", "-q", "-t", "17"), seconds=5.0, root=True)

_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)
_UNITS = {"kB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
_SIZE = re.compile(r"([0-9]{1,9}) (kB|MB|GB|TB)")
_SPEED = re.compile(r"([0-9]{1,6}) (?:MT/s|MHz)")


class Firmware(Fact):
    """The firmware's strings for itself and the machine; UNSUPPORTED on a machine without DMI (a container,
    some Arm boards).

    `serial` is the chassis' number and `board_serial` the main board's, which only root may read (mode 0400).
    """

    name: str
    bios: str
    bios_date: str
    product: str
    maker: str
    board: str
    serial: str
    board_serial: str


class Dimm(NamedTuple):
    """One module in its slot: bytes, the rate at which it runs (0 where the firmware does not say), the
    slot's Bank Locator, which is often its place ("NODE 0 CHANNEL 2 DIMM 0"), and its serial number; "" for
    what is not given."""

    slot: str
    size: int
    speed: int
    bank: str = ""
    serial: str = ""


class Dimms(Fact):
    """The installed modules, and the names of the empty slots; UNSUPPORTED without dmidecode or its
    tables. `unread` are slots that may hold a module, in words: they say no size or no name."""

    name: str
    modules: tuple[Dimm, ...]
    empty: tuple[str, ...]
    unread: tuple[str, ...]


@fact("firmware", DMI)
def firmware(captures: Captures) -> Firmware:
    """The DMI strings."""
    files = captures.files(DMI)
    found: list[Any] = [files.optional(path, lambda text: clean(line(text), 100)) for path in _STRINGS]
    return Firmware("firmware", *found)


def installation(captures: Captures) -> str:
    """The identity of this operating system installation: a hash of its machine-id, which is confidential
    (machine-id(5)).

    Empty where the node has none or it was not read.
    """
    text = captures.whole_text(DMI, MACHINE_ID)
    return hashlib.sha256(f"muster {text}".encode()).hexdigest()[:16] if _ID.fullmatch(text) else ""


_BETWEEN = re.compile(r"\n\s*\n")
_OF_SLOT = re.compile(r"^[ \t]*(Bank Locator|Locator|Size|Configured Memory Speed|Configured Clock Speed|"
                      r"Serial Number)[ \t]*:(.*)$", re.MULTILINE)


def slots(text: str) -> tuple[tuple[Dimm, ...], tuple[str, ...], tuple[str, ...]]:
    """Modules, empty slots and those that may be either of dmidecode's output; raises ValueError where it
    lists no module."""
    modules, empty, unread = [], [], []
    for block in _BETWEEN.split(text):
        if block.partition("\n")[0] != "Memory Device":
            continue
        fields = {key: value.strip() for key, value in _OF_SLOT.findall(block)}
        slot = clean(fields.get("Locator", ""), 60)
        if not slot:
            unread.append("a memory slot without a name")
            continue
        if fields.get("Size") == "No Module Installed":
            empty.append(slot)
            continue
        size = _SIZE.fullmatch(fields.get("Size", ""))
        if size is None:
            unread.append(f"{slot}, which says no size")
            continue
        speed = _SPEED.fullmatch(fields.get("Configured Memory Speed")
                                 or fields.get("Configured Clock Speed", ""))
        modules.append(Dimm(slot, int(size[1]) * _UNITS[size[2]], int(speed[1]) if speed else 0,
                            clean(fields.get("Bank Locator", ""), 60),
                            clean(fields.get("Serial Number", ""), 60)))
    if not modules:
        raise ValueError("no memory device")
    return tuple(modules), tuple(empty), tuple(unread)


def _listed(captures: Captures) -> tuple[tuple[Dimm, ...], tuple[str, ...], tuple[str, ...]]:
    return slots(captures.text(DIMMS).strip())


def installed(captures: Captures) -> tuple[Dimm, ...]:
    """The modules where dmidecode was asked and answered; none otherwise."""
    capture = captures.capture(DIMMS)
    try:
        return captures.once(_listed)[0] if capture is not None else ()
    except (Unread, ValueError):
        return ()


@fact("dimms", DIMMS)
def dimms(captures: Captures) -> Dimms:
    """The memory slots; UNSUPPORTED where there is no dmidecode, or firmware has no such table (virtual
    machines)."""
    capture = captures.capture(DIMMS)
    if capture is not None and (capture.outcome is Outcome.MISSING
                                or "No SMBIOS nor DMI entry point" in capture.text + capture.stderr):
        return Dimms.absent("memory")
    if not captures.text(DIMMS).strip():
        return Dimms.absent("memory")
    try:
        return Dimms("memory", *captures.once(_listed))
    except ValueError:
        raise Unread("dmidecode's memory devices are not in its format") from None
