"""The tools of hardware RAID controllers: which controllers there are, and what the tool of each prints.

A controller is found by its class and driver; a tool runs only where the driver is loaded. The forms stand in
`healthcheck.facts.storcli`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from healthcheck.facts import storcli
from healthcheck.facts.base import Captures
from healthcheck.facts.files import DeviceOutput
from healthcheck.facts.gpu import PCI, uevent
from healthcheck.facts.nvme import NVME
from healthcheck.facts.scsi import SCSI
from healthcheck.facts.storcli import Response
from healthcheck.facts.values import Unmeasured, Unread
from healthcheck.model.probes import MIB, Probe, ProbeKind
from healthcheck.model.recording import Outcome

DRIVERS = "/sys/bus/pci/drivers"


def _tool(which: str, what: tuple[str, ...], driver: str, names: tuple[str, ...], limit: int = MIB) -> Probe:
    """A tool that speaks of all controllers at once, where this driver is loaded. The controllers' firmware
    answers one at a time, in seconds."""
    return Probe(f"raid.{which}", ProbeKind.COMMAND, argv=(names[0], *what), tools=names[1:],
                 each=(f"{DRIVERS}/{driver}",), most=1, seconds=30.0, each_s=28.0, limit=limit, root=True)


_AT = "/opt/MegaRAID"
_STORCLI = ("storcli64", "perccli64", f"{_AT}/storcli/storcli64", f"{_AT}/perccli/perccli64", "storcli",
            "perccli")
_STORCLI2 = ("storcli2", "perccli2", f"{_AT}/storcli2/storcli2", f"{_AT}/perccli2/perccli2")
# "nolog": without it the tool writes a file of its own into the folder that it runs in.
_ALL = ("/call", "show", "all", "J", "nolog")
_DRIVES = ("/call/eall/sall", "show", "all", "J", "nolog")
CONTROLLERS = _tool("storcli", _ALL, "megaraid_sas", _STORCLI)
DRIVES = _tool("storcli-drives", _DRIVES, "megaraid_sas", _STORCLI, 4 * MIB)
CONTROLLERS2 = _tool("storcli2", _ALL, "mpi3mr", _STORCLI2)
DRIVES2 = _tool("storcli2-drives", _DRIVES, "mpi3mr", _STORCLI2, 4 * MIB)
MVCLI = _tool("mvcli", ("info", "-o", "vd"), "ahci", ("mvcli", "/opt/marvell/storage/cli/mvcli"))
MNVCLI = _tool("mnvcli", ("info", "-o", "vd"), "nvme", (
    "mnv_cli", "mnvcli", "/opt/marvell/mnvcli/dell/mnv_cli", "/opt/marvell/mnvcli/lenovo/mnv_cli"))
TOOLS = (CONTROLLERS, DRIVES, CONTROLLERS2, DRIVES2, MVCLI, MNVCLI)


@dataclass(frozen=True)
class Family:
    """Controllers of one driver, and their tool."""

    driver: str
    controllers: Probe
    drives: Probe
    tool: str


FAMILIES = (
    Family("megaraid_sas", CONTROLLERS, DRIVES, "storcli64 (Broadcom) or perccli64 (Dell)"),
    Family("mpi3mr", CONTROLLERS2, DRIVES2, "storcli2 (Broadcom) or perccli2 (Dell)"),
)
# Their tools are not read.
OTHERS = ("smartpqi", "hpsa", "aacraid", "arcmsr")
# PCI code and ID assignment specification: class 01h, subclass 04h (RAID controller).
_RAID_CLASS = re.compile(r"0?104[0-9A-Fa-f]{2}")
# The names under which the kernel shows the boot mirrors of Marvell's controllers (Dell, Supermicro).
_BOSS = re.compile(r"DELLBOSS VD|SMC VD|Dell BOSS-N1", re.IGNORECASE)


def on_pci(captures: Captures) -> Mapping[str, tuple[str, ...]]:
    """The PCI addresses of RAID controllers, by driver."""
    found: dict[str, list[str]] = {}
    files = captures.files(PCI)
    for path in files:
        if path.endswith("/uevent"):
            text = files.text(path)
            words = uevent(text) if "PCI_CLASS=" in text and "104" in text else {}
            if _RAID_CLASS.fullmatch(words.get("PCI_CLASS", "")):
                found.setdefault(words.get("DRIVER", ""), []).append(path.split("/")[-2])
    if captures.outcome(PCI) is not Outcome.DONE or files.unreadable():
        raise Unread("the PCI bus was not wholly read")
    return {driver: tuple(sorted(paths)) for driver, paths in found.items()}


def no_tool(captures: Captures, probe: Probe) -> bool:
    """Whether the tool is not installed."""
    return captures.outcome(probe) is Outcome.MISSING


def printed(captures: Captures, probe: Probe) -> str:
    """What the tool printed; raises Unread where it did not."""
    if no_tool(captures, probe):
        raise Unread("its tool is not installed")
    answer = next(iter(captures.devices(probe).values()), None)
    if isinstance(answer, DeviceOutput) and answer.text.strip():
        return answer.text
    if answer is None:
        raise Unread("it was not run")
    raise Unread(answer.reason if isinstance(answer, Unmeasured)
                 else f"{probe.argv[0]} printed nothing (exit status {answer.exit}) {answer.complaint[:100]}")


def answers_of(captures: Captures, probe: Probe) -> tuple[Response, ...]:
    """What a tool prints of each controller; raises Unread where it gives no answer."""
    try:
        return storcli.responses(printed(captures, probe))
    except Unread as error:
        raise Unread(f"{probe.argv[0]}: {error}") from None


# Each is one object: `Captures.once` knows what it has built by it.
MAIN = {probe.id: partial(answers_of, probe=probe) for probe in (CONTROLLERS, CONTROLLERS2)}


def here(captures: Captures) -> list[Family]:
    """The families of controllers that the bus holds."""
    bus = captures.once(on_pci)
    return [family for family in FAMILIES if bus.get(family.driver)]


def _mirrors(captures: Captures) -> Iterator[tuple[str, Probe]]:
    """The disks that the kernel shows for boot mirrors, each with its tool."""
    for probe, part, tool in ((SCSI, 3, MVCLI), (NVME, 4, MNVCLI)):
        capture = captures.capture(probe)
        for path, entry in capture.files.items() if capture is not None else ():
            if path.endswith("/model") and entry.outcome is Outcome.DONE and _BOSS.search(entry.text):
                yield path.split("/")[part], tool


def boot_tools(captures: Captures) -> Mapping[Probe, str]:
    """The tools of boot mirrors that ran, or should have, with the disk that asks for them."""
    wanted = {probe: disk for disk, probe in _mirrors(captures)}
    for probe in (MVCLI, MNVCLI):
        capture = captures.capture(probe)
        if capture is not None and capture.files:
            wanted.setdefault(probe, "")
    return wanted
