"""Errors of main memory as the kernel's EDAC drivers count them since they were loaded
(Documentation/ABI/testing/sysfs-devices-edac, drivers/edac/edac_mc_sysfs.c).

Two layouts are read. Kernels from 4.10 on count for each DIMM, or each rank where the controller tells no
DIMMs apart (`dimmN/dimm_ce_count`, `rankN/...`). Older ones, and CONFIG_EDAC_LEGACY_SYSFS, count corrected
errors for each channel of a chip-select row (`csrowN/chM_ce_count`, named by `csrowN/chM_dimm_label`) and
uncorrected ones for the row. The second is used only where a controller has not the first.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.dimmslots import Slots
from healthcheck.facts.files import CapturedFiles
from healthcheck.facts.firmware import DIMMS, Dimm, installed
from healthcheck.facts.parsing import natural, whole
from healthcheck.facts.values import UNSUPPORTED, Fact, partial_if, readings
from healthcheck.model.probes import MIB, Probe, ProbeKind
from inventory.text import clean

BASE = "/sys/devices/system/edac/mc"
# A file that every kernel has, to distinguish a node without EDAC from one that was not read.
ALWAYS = "/proc/meminfo"
EDAC = Probe("memory.edac", ProbeKind.FILES, limit=1 * MIB, paths=(
    ALWAYS, *(f"{BASE}/mc*/{name}" for name in ("ue_count", "ce_count", "ce_noinfo_count")),
    *(f"{BASE}/mc*/{kind}*/{name}" for kind in ("dimm", "rank")
      for name in ("dimm_label", "dimm_ce_count", "dimm_ue_count")),
    f"{BASE}/mc*/csrow*/[cu]*_*",    # ce_count, ue_count, chN_ce_count, chN_dimm_label; one pass over folders
))

_FILE = re.compile(re.escape(BASE) + r"/(mc[0-9]{1,4})/"
                   r"(?:((?:dimm|rank|csrow)[0-9]{1,4})/)?([a-z0-9_]{1,24})")
_CHANNEL = re.compile(r"(ch[0-9]{1,2})_(?:ce_count|dimm_label)")


class MemoryPart(Fact):
    """What EDAC counts errors for: a DIMM or rank ("DIMM P1-DIMMA1 (mc0/dimm0)"), in the old layout a channel
    of a row and the row, and the memory controller with the errors of no known DIMM.

    `place` ("mc0/dimm0") identifies it. `corrected` and `uncorrected` are counted for this part and none
    below it. `slot` is the slot of the board as dmidecode names it, "" where that is not certain; `exact`:
    EDAC's label itself names that slot, else it was found by its place among all. `known`: the part is a DIMM
    or some of them, and no controller. UNSUPPORTED where no EDAC driver is loaded: virtual machines, and
    hosts whose firmware keeps the errors to itself.
    """

    name: str
    place: str
    corrected: int
    uncorrected: int
    known: bool
    slot: str
    exact: bool

    IDENTITY = ("place",)


@fact("memory_parts", EDAC, at_hand=(DIMMS,), each="memory_part")
def memory_parts(captures: Captures) -> Any:
    """Every part that the drivers know, a controller after its DIMMs. A file that cannot be read costs one
    reading of one part."""
    captures.files(EDAC).require(ALWAYS)
    # That file is another one in every snapshot, and the rest mostly the same.
    entries = {path: entry for path, entry in captures.files(EDAC).items() if path != ALWAYS}
    asked = captures.capture(DIMMS)
    modules = (asked.outcome, asked.exit, asked.text) if asked is not None else None
    return captures.part("memory_parts", (tuple(entries.items()), modules),
                         lambda: _parts(CapturedFiles(entries), installed(captures)))


def _parts(files: CapturedFiles, modules: Iterable[Dimm]) -> Any:
    held: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for path in files:
        if match := _FILE.fullmatch(path):
            held[match[1]][match[2] or ""].add(match[3])
    labels = {place: label for controller, rows in held.items() for row, names in rows.items()
              for place, label in _labels(files, f"{controller}/{row}", names).items()}
    slots = Slots(labels, modules)
    found: list[MemoryPart] = []
    for controller in sorted(held, key=natural):
        found += _controller(files, controller, held[controller], slots)
    none: Any = UNSUPPORTED
    return partial_if(tuple(found) or (MemoryPart("memory errors", "", none, none, none, none, none),),
                      files.unreadable())


def _labels(files: CapturedFiles, place: str, names: set[str]) -> dict[str, str]:
    """The labels below one place, by the place that each names; none for a label that cannot be read."""
    read = {}
    for name in sorted(names):
        if name.endswith("dimm_label"):
            channel = _CHANNEL.fullmatch(name)
            label = files.read(f"{BASE}/{place}/{name}", lambda text: clean(text, 80))
            if isinstance(label, str) and label:
                read[f"{place}/{channel[1]}" if channel else place] = label
    return read


def _controller(files: CapturedFiles, controller: str, rows: dict[str, set[str]],
                slots: Slots) -> list[MemoryPart]:
    parts = [part for row in sorted(rows, key=natural) if "dimm_ce_count" in rows[row]
             for part in (_dimm(files, f"{controller}/{row}", rows[row], slots),)]
    if not parts:
        parts = [part for row in sorted(rows, key=natural) if row.startswith("csrow")
                 for part in _row(files, f"{controller}/{row}", rows[row], slots)]
    own = rows[""]
    if not parts and not own & {"ce_count", "ue_count"}:
        return []
    at = f"{BASE}/{controller}"
    if parts and "ce_noinfo_count" in own:
        corrected = files.read(f"{at}/ce_noinfo_count", whole)
    else:
        corrected = 0 if parts else files.read(f"{at}/ce_count", whole)
    uncorrected = files.read(f"{at}/ue_count", whole)
    if isinstance(uncorrected, int):
        counted = [readings(part)["uncorrected"] for part in parts]
        uncorrected = max(0, uncorrected - sum(each for each in counted if isinstance(each, int)))
    files.ignore((f"{at}/ce_count",))
    return [*parts, MemoryPart(f"memory controller {controller}", controller, corrected, uncorrected,
                               known=False, slot="", exact=False)]


def _dimm(files: CapturedFiles, place: str, names: set[str], slots: Slots) -> MemoryPart:
    at = f"{BASE}/{place}"
    # Some controllers' drivers count uncorrected errors for the controller alone.
    uncorrected = files.read(f"{at}/dimm_ue_count", whole) if "dimm_ue_count" in names else 0
    return _part(place, files.read(f"{at}/dimm_ce_count", whole), uncorrected, slots)


def _row(files: CapturedFiles, place: str, names: set[str], slots: Slots) -> list[MemoryPart]:
    """The channels of a row, and the row itself, whose uncorrected errors are of one of its DIMMs."""
    at = f"{BASE}/{place}"
    channels = sorted({match[1] for name in names if (match := _CHANNEL.fullmatch(name))
                       and f"{match[1]}_ce_count" in names}, key=natural)
    parts = [_part(f"{place}/{channel}", files.read(f"{at}/{channel}_ce_count", whole), 0, slots)
             for channel in channels]
    if names & {"ue_count", "ce_count"}:
        corrected = 0 if channels else files.read(f"{at}/ce_count", whole)
        files.ignore((f"{at}/ce_count",))
        uncorrected = files.read(f"{at}/ue_count", whole) if "ue_count" in names else 0
        of = [slots.labels[part.place] for part in parts if part.place in slots.labels]
        name = " or ".join(dict.fromkeys(of))
        found = list(dict.fromkeys(part.slot for part in parts))
        slot = " or ".join(found) if all(found) else ""
        parts.append(MemoryPart(f"DIMM {name} ({place})" if name else f"DIMM {place}", place, corrected,
                                uncorrected, known=True, slot=slot, exact=all(part.exact for part in parts)))
    return parts


def _part(place: str, corrected: Any, uncorrected: Any, slots: Slots) -> MemoryPart:
    label = slots.labels.get(place, "")
    slot, exact = slots.of(place)
    return MemoryPart(f"DIMM {label} ({place})" if label else f"DIMM {place}", place, corrected, uncorrected,
                      known=True, slot=slot, exact=exact)
