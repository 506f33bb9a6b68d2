"""Errors of main memory as the kernel's EDAC drivers count them
(Documentation/ABI/testing/sysfs-devices-edac): since the driver was loaded, for each memory controller and
each DIMM, or rank where the controller tells no DIMMs apart (drivers/edac/edac_mc_sysfs.c)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.files import CapturedFiles
from healthcheck.facts.parsing import whole
from healthcheck.facts.values import UNSUPPORTED, Fact, Unmeasured, Unread
from healthcheck.model.probes import MIB, Probe, ProbeKind

BASE = "/sys/devices/system/edac/mc"
# A file that every kernel has, to distinguish a node without EDAC from one that was not read.
ALWAYS = "/proc/meminfo"
EDAC = Probe("memory.edac", ProbeKind.FILES, limit=1 * MIB, paths=(
    ALWAYS, f"{BASE}/mc*/ue_count", f"{BASE}/mc*/ce_count",
    *(f"{BASE}/mc*/{kind}*/{name}" for kind in ("dimm", "rank")
      for name in ("dimm_label", "dimm_ce_count", "dimm_ue_count")),
))

_CONTROLLER = re.compile(re.escape(BASE) + r"/(mc\d{1,4})/ue_count")
_DIMM = re.compile(re.escape(BASE) + r"/(mc\d{1,4}/(?:dimm|rank)\d{1,4})/dimm_ce_count")


@dataclass(frozen=True)
class Errors:
    """Errors of one controller or DIMM since the driver was loaded. `place` is for people: "DIMM P1-DIMMA1
    (mc0/dimm0)"."""

    place: str
    corrected: int
    uncorrected: int


class Edac(Fact):
    """The error counters; a controller's include its DIMMs' and errors of no known DIMM.

    UNSUPPORTED where no EDAC driver is loaded: virtual machines, and hosts whose firmware keeps the errors to
    itself.
    """

    name: str
    controllers: tuple[Errors, ...]
    dimms: tuple[Errors, ...]


def _value(files: CapturedFiles, path: str) -> int:
    value = files.read(path, whole)
    if isinstance(value, Unmeasured):
        raise Unread(value.reason)
    return int(value)


@fact("edac", EDAC)
def edac(captures: Captures) -> Edac:
    """Every controller and every DIMM that the drivers know; raises Unread unless all were read."""
    files = captures.files(EDAC)
    files.require(ALWAYS)
    controllers, dimms = [], []
    for path in files:
        if match := _CONTROLLER.fullmatch(path):
            controllers.append(Errors(match[1], _value(files, f"{BASE}/{match[1]}/ce_count"),
                                      _value(files, path)))
        elif match := _DIMM.fullmatch(path):
            at = f"{BASE}/{match[1]}"
            # Older controllers' drivers count uncorrected errors for the controller alone.
            uncorrected = _value(files, f"{at}/dimm_ue_count") if files.has(f"{at}/dimm_ue_count") else 0
            dimms.append(Errors(_place(files, at, match[1]), _value(files, path), uncorrected))
    unreadable = files.unreadable()
    if unreadable:
        raise Unread(unreadable)
    known: Any = (tuple(controllers), tuple(dimms)) if controllers else (UNSUPPORTED, UNSUPPORTED)
    return Edac("memory errors", *known)


def _place(files: CapturedFiles, at: str, short: str) -> str:
    label = files.read(f"{at}/dimm_label", str) if files.has(f"{at}/dimm_label") else ""
    return f"DIMM {label[:80]} ({short})" if isinstance(label, str) and label else f"DIMM {short}"
