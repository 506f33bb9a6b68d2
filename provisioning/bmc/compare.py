"""What a controller says of a machine's parts beside the numbers of its SKU: what is missing, failed or too
much, and what it did not say.

Pure. A kind that the controller does not tell of, or of which a machine that is off tells none, is no trouble
and no pass: it is said, and left for the look from the operating system. Of ports and drives a controller
lists others, too (management, SATA): fewer than the SKU's are trouble, more are left to that look.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from healthcheck.facts.values import Unmeasured
from healthcheck.model.outcome import Owner
from healthcheck.model.trouble import Trouble
from inventory.nodeset import natural
from inventory.text import clean
from provisioning.bmc.base import HardwareInventory, HardwarePart, Missing

# The kind of part, the SKU's number of it, and whether the controller's list has nothing else.
_COUNTED = (("gpu", "gpu_count", True), ("switch", "nvswitch_count", True), ("dimm", "dimm_count", True),
            ("drive", "nvme_count", False), ("nic", "port_count", False))
KINDS = ("cpu", "gpu", "dimm", "drive", "nic", "switch", "psu", "fan")
_NAMES = {
    "cpu": "processors", "gpu": "GPUs", "dimm": "memory modules", "drive": "NVMe drives",
    "nic": "network ports", "switch": "NVSwitches", "psu": "power supplies", "fan": "fans"}
_ONE = {
    "cpu": "processor", "gpu": "GPU", "dimm": "memory module", "drive": "drive", "nic": "network adapter",
    "switch": "NVSwitch", "psu": "power supply", "fan": "fan"}
# Whoever feeds and cools machines looks first at what does so: cord and PDU before the supply, the way of the
# air before the fan.
_HOUSE = {
    "psu": "check its lamp, its cord and its PDU; swap the cord, then the supply",
    "fan": "seat it again, then replace it"}
_OTHER = "correct `sku:` in the inventory, or find out whose machine this is"
_WARNS = ("read its entry in the controller's log; reseat it, and have the vendor replace it where that does "
          "not help")
_NUMBERED = re.compile(r"(.*?)(\d{1,3})(\D*)", re.DOTALL)
_GIB = 2**30
# Makers give a memory's size with and without what firmware keeps; another machine differs by a module's
# size.
_MORE = 1.1


@dataclass(frozen=True)
class PartsComparison:
    """What someone has to repair, what is `unreported` by nature, and what may be read the next time."""

    troubles: tuple[Trouble, ...]
    unreported: tuple[str, ...]
    unread: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether all was reported and is as it should be."""
        return not self.troubles and not self.unreported and not self.unread


def compare(
    hardware: HardwareInventory, numbers: Mapping[str, Any], *, powered: bool, lists: bool = True,
    may_be_empty: Collection[str] = (), place: str = "its rack",
) -> PartsComparison:
    """What differs. `numbers` are a SKU's, None where it does not judge; `powered`: the machine is on.
    Without `lists` the controller tells of sensors (IPMI): one may stand for several parts."""
    numbers = numbers if lists else {}
    troubles: list[Trouble] = []
    unreported: list[str] = []
    unread: list[str] = []
    reported: dict[str, tuple[HardwarePart, ...]] = {}
    for kind in KINDS:
        parts = hardware.parts.get(kind, Unmeasured("it was not asked"))
        if isinstance(parts, tuple):
            reported[kind] = parts
        elif isinstance(parts, Unmeasured) and (lists or powered):
            unread.append(f"{_NAMES[kind]}: {clean(parts.reason, 80)}")
        else:
            unreported.append(f"{_NAMES[kind]}: its controller does not tell")
    if not lists:
        unreported.append("numbers of parts: its controller tells of sensors only")
    for kind, parts in reported.items():
        if not powered and not any(part.present for part in parts):
            unreported.append(f"{_NAMES[kind]}: none reported while it is off")
            continue
        number = next((numbers.get(name) for one, name, _ in _COUNTED if one == kind), None)
        if kind == "cpu":
            number = None
            troubles += _cores(parts, numbers.get("cpu_count"), place, unreported)
        if isinstance(number, int):
            exact = next(exact for one, _, exact in _COUNTED if one == kind)
            troubles += _count(kind, parts, number, exact, place, unreported)
        elif kind not in may_be_empty:
            troubles += (_absent(kind, part.slot, f"{_ONE[kind]} {clean(part.slot, 40)} is not there", place)
                         for part in parts if not part.present)
        if kind == "dimm":
            troubles += _memory(parts, numbers.get("memory_gib"), place, unreported)
        troubles += _health(kind, parts, unreported)
    return PartsComparison(tuple(troubles), tuple(unreported), tuple(unread))


def _count(
    kind: str, parts: Sequence[HardwarePart], wanted: int, exact: bool, place: str, unreported: list[str],
) -> Iterator[Trouble]:
    there = [part for part in parts if part.present]
    found = _ports(there) if kind == "nic" else len(there)
    if isinstance(found, Unmeasured):
        unreported.append(f"{_NAMES[kind]}: {found.reason}")
        return
    if found < wanted:
        what = f"{found} of {wanted} {_NAMES[kind]} are there"
        slots = _lacking(
            parts, wanted) if kind != "nic" else [part.slot for part in parts if not part.present]
        if len(slots) == wanted - found:
            yield from (_absent(kind, slot, f"{what}: {clean(slot, 40)} is not", place) for slot in slots)
        else:
            empty = f"; empty: {', '.join(clean(slot, 30) for slot in slots[:8])}" if slots else ""
            yield _absent(kind, "", what + empty, place)
    elif found > wanted and exact:
        yield Trouble(
            f"{found} {_NAMES[kind]} are there, and its SKU has {wanted}", Owner.OPERATOR, _OTHER, kind)
    elif found > wanted:
        unreported.append(f"{_NAMES[kind]}: {found} of which {wanted} are the SKU's")


def _ports(adapters: Sequence[HardwarePart]) -> int | Unmeasured:
    """Ports by their MAC addresses; an adapter that tells none has at least one, number unknown."""
    number = 0
    for part in adapters:
        if not isinstance(part.address, str) or part.address.count(":") < 5:
            return Unmeasured("their addresses are not reported, so they cannot be counted")
        number += len(part.address.split(","))
    return number


def _lacking(parts: Sequence[HardwarePart], wanted: int) -> list[str]:
    """Seats known to be empty; else missing numbers where names differ in it alone, from 0 or 1 on."""
    empty = [part.slot for part in parts if not part.present]
    matches = [_NUMBERED.fullmatch(part.slot) for part in parts]
    if empty or not parts or not all(
        matches) or len({(match[1], match[3]) for match in matches if match}) != 1:
        return sorted(empty, key=natural)
    (before, after), = {(match[1], match[3]) for match in matches if match}
    numbers = {int(match[2]) for match in matches if match}
    first = 0 if 0 in numbers else 1
    if max(numbers) >= wanted + first:
        return []
    width = len(
        matches[0][2]) if matches[0] and matches[0][2].startswith("0") and len(matches[0][2]) > 1 else 0
    return [f"{before}{number:0{width}}{after}" for number in range(first, wanted + first)
            if number not in numbers]


def _absent(kind: str, slot: str, what: str, place: str) -> Trouble:
    seat = f" in {clean(slot, 40)}" if slot else ""
    hand = (f"{place}: reseat the {_ONE[kind]}{seat} and its cables, with the power off; if it is still "
            "missing, have the vendor replace it")
    return Trouble(what, Owner.DATACENTRE, hand, kind, clean(slot, 60))


def _cores(
    parts: Sequence[HardwarePart], wanted: Any, place: str, unreported: list[str],
) -> Iterator[Trouble]:
    """The SKU counts processors as the kernel does: cores, or twice as many with two threads each."""
    if not isinstance(wanted, int):
        return
    cores = [part.amount for part in parts if part.present]
    if not all(isinstance(one, int) for one in cores) or not cores:
        unreported.append("processors: their cores are not reported")
        return
    total = sum(one for one in cores if isinstance(one, int))
    if wanted in (total, 2 * total):
        return
    if wanted > 2 * total:
        yield _absent(
            "cpu", "",
            f"{len(cores)} processors have {total} cores, too few for the {wanted} CPUs of its SKU", place)
    else:
        yield Trouble(f"{len(cores)} processors have {total} cores, and its SKU has {wanted} CPUs",
                      Owner.OPERATOR, _OTHER, "cpu")


def _memory(
    parts: Sequence[HardwarePart], wanted: Any, place: str, unreported: list[str],
) -> Iterator[Trouble]:
    if not isinstance(wanted, (int, float)):
        return
    sizes = [part.amount for part in parts if part.present]
    if not all(isinstance(one, int) for one in sizes):
        unreported.append("memory: the size of its modules is not reported")
        return
    total = sum(one for one in sizes if isinstance(one, int)) / _GIB
    what = f"{total:g} GiB of memory are installed, and its SKU has {wanted:g}"
    if total < wanted:
        yield _absent("dimm", "", what, place)
    elif total > wanted * _MORE:
        yield Trouble(what, Owner.OPERATOR, _OTHER, "dimm")


def _health(kind: str, parts: Sequence[HardwarePart], unreported: list[str]) -> Iterator[Trouble]:
    silent = 0
    for part in parts:
        health = part.health.casefold() if isinstance(part.health, str) else ""
        if not part.present or health == "ok":
            continue
        if health not in ("warning", "critical"):
            silent += 1
            continue
        name = f"{_ONE[kind]} {clean(part.slot, 40)}".strip()
        model = f" ({clean(part.model, 60)})" if isinstance(part.model, str) and part.model else ""
        what, slot, serial = f"{name}{model} says {health}", clean(part.slot, 60), _text(part.serial)
        if kind in _HOUSE:
            yield Trouble(what, Owner.DATACENTRE, _HOUSE[kind], kind, slot, serial)
        elif health == "warning":
            yield Trouble(what, Owner.DATACENTRE, _WARNS, kind, slot, serial)
        else:
            yield Trouble(what, Owner.VENDOR, "replace it", kind, slot, serial)
    if silent:
        unreported.append(f"health of {silent} x {_ONE[kind]}: not reported")


def _text(value: str | Missing) -> str:
    return clean(value, 60) if isinstance(value, str) else ""
