"""The Xid fact: every report of NVIDIA's GPU and NVSwitch drivers that the kernel log still holds, in these
formats.

    NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
    NVRM: Xid (PCI:0000:31:00 GPU-I:05 GPU-CI:00): 94, pid=7194, name=python3, Ch 00000008   (under MIG)
    NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 09 (0x025525c6 ...)   (NVLink 5)
    NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.                          (Xid 79 without a number)
    nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 20034, Fatal, Link 30 LTSSM Fault Up

Formats: NVIDIA's Xid documentation and Fabric Manager User Guide. `healthcheck.xid.xidtable` has the meanings
of the numbers.

The kernel's lines also hold text that users chose. Only a message that begins as the driver's do is the
driver's, and user text in it (the name of a process) is read as that and nothing else
(`healthcheck.kernellog`).

The driver does not log a GPU's reset: it rebuilds its object of the GPU and clears the recovery action
silently (open-gpu-kernel-modules, src/nvidia/src/kernel/gpu/gpu.c, gpuRefreshRecoveryAction). So NVML is
asked for the present action, and whoever resets a GPU may write so to the kernel log, which only root can:

    muster: GPU 0000:3b:00.0 was reset
    muster: all GPUs were reset
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.gpu import NVIDIA_VENDOR, NVML, PCI, recovery_actions
from healthcheck.facts.host import UPTIME
from healthcheck.facts.kernel import LOG, KernelLine, KernelLog, MessagePattern, kernel_log
from healthcheck.facts.values import Fact, Unmeasured, changed, parted, partial_if
from healthcheck.kernellog.provenance import USER_SPACE
from healthcheck.kernellog.quoting import blanked

OFF_THE_BUS = 79
NVRM, NVSWITCH = "nvrm", "nvswitch"     # the emitters (rules/emitter/nvidia.yaml)
_SAME_FALL_SECONDS = 60.0   # the line without a number stands beside the one with it, mostly within a second
_SAME_SXID_SECONDS = 1.0    # the lines `Severity ...` and `Data {...}` follow the one that says what happened

# Under MIG the driver names the instances after the address. A process may be called anything that has no
# line end in it.
XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<pci>[0-9a-fA-F:.]{4,16})(?P<instance>(?: [^)\n]{0,39})?)\)[^\n]{0,80}?: "
    r"(?P<number>[0-9]{1,5})\b"
    r"(?:, pid='?(?P<pid>[0-9]{1,10})?[^,\n]{0,24})?(?:, name=(?P<process>[^,\n]{0,64}))?")
_ANY_XID = MessagePattern(
    r"NVRM:\s{0,4}(?:GPU[^(\n]{0,24}\s)?Xid\b|nvidia-nvswitch\d{1,4}:\s{0,4}SXid\b", "Xid")
_FALLEN = MessagePattern(r"NVRM: (?!Xid \()[^\n]{0,300}?fallen off the bus", "fallen off the bus")
_GPU_HERE = MessagePattern(r"NVRM: The NVIDIA GPU (?![^\n]{0,300}?fallen off)", "The NVIDIA GPU ")
_BDF = re.compile(r"\b(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]\b")
_SXID = re.compile(
    r"nvidia-nvswitch[0-9]{1,4}: SXid \((?:PCI:)?(?P<pci>[0-9a-fA-F:.]{4,16})\): (?P<number>[0-9]{1,5})\b,? ?"
    r"(?P<rest>[^\n]{0,400})")
_FATAL = re.compile(r"\b(?:(?P<non>non-?)?fatal|(?P<corrected>correctable))\b", re.IGNORECASE)
_LINK = re.compile(r"\b[Ll]ink\s{1,4}(-?[0-9]{1,3})")
_TPC = re.compile(r"\bGPC ([0-9]{1,3}), TPC ([0-9]{1,3})\b")
_REGISTERS = re.compile(r"\blink\s{1,4}([0-9]{1,3})\s?\((0x[0-9a-fA-F]{1,8}(?:, ?0x[0-9a-fA-F]{1,8}){6})\)")
_NVLINK5 = re.compile(
    r": 1(?:4[4-9]|50)(?:, pid=[^,\n]{0,24}, name=[^,\n]{0,64})?, "
    r"(?P<unit>[A-Z][A-Z0-9_]{1,40}(?:/[A-Z0-9_]{1,40})?)"
    r"\s{1,8}(?P<fatal>[Nn]on-?fatal|Fatal)\s{1,8}XC[01]\s{1,8}i[0-9]{1,4}\s{1,8}Link\s{1,8}(?P<link>-?[0-9]{1,3})"
    r"\s{1,8}\((?P<info>0x[0-9a-fA-F]{1,8})(?: (?P<status>0x[0-9a-fA-F]{1,8}))?")
_RECOVERY = re.compile(
    r"recovery action changed from 0x[0-9a-fA-F]{1,8} \([^)\n]{0,60}\) to 0x([0-9a-fA-F]{1,8}) "
    r"\(([^)\n]{0,60})\)")
_CAUSE = re.compile(r"caused by previous Xid ([0-9]{1,5})\b")
# Root writes to /dev/kmsg, and the record is of user space; a saved log may not say whose its lines are.
_RESET = MessagePattern(
    rf"(?:{USER_SPACE})?muster: (?:GPU (?P<pci>[0-9a-fA-F]{{4}}:[0-9a-fA-F]{{2}}:[0-9a-fA-F]{{2}})"
    r"(?:\.[0-7])? was|all GPUs were) reset\s?$", "muster: ")
_PCI_ID = re.compile(rf"^PCI_ID={NVIDIA_VENDOR}:([0-9A-Fa-f]{{4}})$", re.MULTILINE)

# PCI device ids of data-centre GPUs by generation, first and last: the PCI ID database of 2026-08-22, vendor
# 10de, by the names of the chips (GP, GV, TU, GA, GH, AD, GB). Other devices within these ranges (NVSwitches,
# bridges) report no Xid. Cards outside them have no generation here.
_GENERATIONS = (
    (0x15F0, 0x15FF, "pascal"), (0x1B30, 0x1B3F, "pascal"), (0x1BB0, 0x1BBF, "pascal"),
    (0x1D80, 0x1DFF, "volta"),
    (0x1E00, 0x1FFF, "turing"), (0x2080, 0x20FF, "ampere"), (0x2200, 0x22FF, "ampere"),
    (0x2400, 0x25FF, "ampere"),
    (0x2300, 0x23FF, "hopper"), (0x2680, 0x28FF, "ada"), (0x2900, 0x2FFF, "blackwell"),
    (0x3180, 0x31FF, "blackwell"),
)


@dataclass(frozen=True)
class NvLinkWords:
    """The details of Xids 144 to 150: unit, severity, link, interrupt information and error status."""

    unit: str
    fatal: bool
    link: int
    info: int
    status: int | None

    @property
    def subcode(self) -> int:
        """Bits 20 to 25 of the interrupt information."""
        return self.info >> 20 & 0x3F


@dataclass(frozen=True)
class Xid:
    """One report of the GPU driver: seconds since boot, the GPU's PCI address without its function, the text
    of the line, and the numbers of its records in the log, the line's last.

    `pid` and `process` are empty where the line has none; `instance` names an instance under MIG. Details in
    the text are parsed on access, since most are never read.
    """

    seconds: float
    pci: str
    number: int
    text: str
    pid: str = ""
    process: str = ""
    instance: str = ""
    architecture: str = ""
    records: tuple[int, ...] = ()

    @property
    def tpc(self) -> tuple[int, int] | None:
        """GPC and TPC."""
        match = _TPC.search(blanked(self.text))
        return (int(match[1]), int(match[2])) if match else None

    @property
    def registers(self) -> tuple[int, tuple[int, ...]] | None:
        """Of Xid 74: the link, and the seven registers."""
        match = _REGISTERS.search(blanked(self.text))
        return (int(match[1]), tuple(int(word, 16) for word in match[2].split(","))) if match else None

    @property
    def nvlink5(self) -> NvLinkWords | None:
        """Of Xids 144 to 150."""
        match = _NVLINK5.search(blanked(self.text))
        if match is None:
            return None
        status = int(match["status"], 16) if match["status"] else None
        return NvLinkWords(match["unit"], match["fatal"] == "Fatal", int(match["link"]),
                           int(match["info"], 16), status)

    @property
    def recovery(self) -> tuple[int, str] | None:
        """Of Xid 154: the number of the action that the driver now asks for, and its name."""
        match = _RECOVERY.search(blanked(self.text))
        return (int(match[1], 16), match[2]) if match else None

    @property
    def cause(self) -> int | None:
        """The Xid that the line names as its cause."""
        match = _CAUSE.search(blanked(self.text))
        return int(match[1]) if match else None


@dataclass(frozen=True)
class SXid:
    """One report of the NVSwitch driver. `fatal` and `link` are None where the line has none; `records` as of
    an Xid."""

    seconds: float
    pci: str
    number: int
    text: str
    fatal: bool | None
    link: int | None
    records: tuple[int, ...] = ()


@dataclass(frozen=True)
class Reset:
    """Root wrote to the log that this GPU (no address: every GPU) was reset; `sequence` is the record's
    number."""

    seconds: float
    pci: str
    sequence: int = 0


class Xids(Fact):
    """All of them, oldest first. `newest` is the time of the snapshot, from which 'within so many hours'
    counts.

    `wanted` is the recovery action that the driver asks for now (NVML), by PCI address: empty where it has no
    such reading; a GPU without a measurement is left out. `now` is `newest` where the node's uptime was
    measured, else 0. Before `whole_since` seconds since boot, records were lost between snapshots: quiet
    hours count only from then on.
    """

    name: str
    newest: float
    events: tuple[Xid, ...]
    switch_events: tuple[SXid, ...]
    resets: tuple[Reset, ...]
    wanted: tuple[tuple[str, str], ...]
    now: float
    whole_since: float
    caveat: str

    def age_hours(self, seconds: float) -> float:
        """As of a KernelLog."""
        return (self.newest - max(seconds, self.whole_since)) / 3600


def architecture(device: int) -> str:
    """The generation of a PCI device id, or nothing."""
    return next((name for first, last, name in _GENERATIONS if first <= device <= last), "")


@fact("xids", LOG, besides=(PCI, UPTIME, NVML))
def xids(captures: Captures) -> Any:
    """The kernel log's reports. Without a capture of the PCI bus the GPUs' generation is not known; without
    NVML no reset ends a report."""
    found = captures.once(kernel_log)
    if isinstance(found, Unmeasured):
        return found
    log: KernelLog
    log, lacking = parted(found)
    value, unread = read_xids(log, lambda: captures.once(_architectures))
    if value.events or value.switch_events or value.resets:
        value = changed(value, wanted=_wanted(captures))
    strange = (f"{len(unread)} lines about Xids are not in a documented format, the first "
               f"{unread[0].text[:120]!r}" if unread else "")
    return partial_if(value, "; ".join(filter(None, (lacking, strange))))


def read_xids(log: KernelLog,
              architectures: Callable[[], Mapping[str, str]] = dict) -> tuple[Xids, list[KernelLine]]:
    """The events of a log, and the lines about an Xid that could not be parsed."""
    events: list[Xid] = []
    switches: list[SXid] = []
    unread: list[KernelLine] = []
    known: Mapping[str, str] | None = None
    if log.contains("Xid"):
        known = architectures()
        for line, found in log.matching(_ANY_XID):
            text = found.string
            if match := XID.match(text):
                events.append(_xid(line, match, known))
            elif match := _SXID.match(text):
                switches.append(_sxid(line, match))
            else:
                unread.append(line)
    if log.contains("fallen off the bus"):
        known = architectures() if known is None else known
        events = sorted([*events, *_falls(log, events, known)], key=lambda event: event.seconds)
    return Xids(
        name="kernel log",
        newest=log.newest,
        events=tuple(events),
        switch_events=tuple(_merged(switches)),
        caveat=log.caveat,
        resets=resets(log),
        wanted=(),
        now=log.newest if log.uptime else 0.0,
        whole_since=log.carried.seconds,
    ), unread


def _xid(line: KernelLine, match: re.Match[str], known: Mapping[str, str]) -> Xid:
    pci = _bare(match["pci"])
    named = XID.match(line.text)
    process = ((named["process"] if named else "") or "").strip().strip("'")
    return Xid(
        line.seconds, pci, int(match["number"]), line.text, match["pid"] or "",
        "" if process in ("<unknown>", "<n/a>") else process,
        match["instance"].strip(), known.get(pci, ""), (line.sequence,),
    )


def _sxid(line: KernelLine, match: re.Match[str]) -> SXid:
    rest = match["rest"]
    fatal, link = _FATAL.search(rest), _LINK.search(rest)
    return SXid(
        line.seconds, _bare(match["pci"]), int(match["number"]), line.text,
        None if fatal is None else not (fatal["non"] or fatal["corrected"]),
        int(link[1]) if link else None, (line.sequence,),
    )


def _merged(events: Iterable[SXid]) -> list[SXid]:
    """One event for each report, without the lines that continue it."""
    kept: list[SXid] = []
    last: dict[tuple[str, int], SXid] = {}
    for event in events:
        before = last.get((event.pci, event.number))
        if (event.fatal is None and before is not None
                and event.seconds - before.seconds <= _SAME_SXID_SECONDS):
            continue
        last[event.pci, event.number] = event
        kept.append(event)
    return kept


def _falls(log: KernelLog, events: Iterable[Xid], known: Mapping[str, str]) -> list[Xid]:
    """GPUs that fell off the bus by a line without a number, unless a line with the number is near it.

    The driver also splits this message into two records, with the address in the first.
    """
    everywhere = sorted(event.seconds for event in events if event.number == OFF_THE_BUS)
    near: dict[str, list[float]] = {}
    for event in sorted(events, key=lambda event: event.seconds):
        if event.number == OFF_THE_BUS:
            near.setdefault(event.pci, []).append(event.seconds)
    heads = [line for line, _ in log.matching(_GPU_HERE)]
    times = [line.seconds for line in heads]
    found = []
    for line, _ in log.matching(_FALLEN):
        at = bisect_right(times, line.seconds)
        head = heads[at - 1] if at and line.seconds - times[at - 1] <= 1 else None
        address = _BDF.search(line.text) or (_BDF.search(head.text) if head is not None else None)
        pci = _bare(address[0]) if address else "unknown"
        beside = near.setdefault(pci, []) if address else everywhere
        at = bisect_left(beside, line.seconds - _SAME_FALL_SECONDS)
        if at == len(beside) or beside[at] > line.seconds + _SAME_FALL_SECONDS:
            insort(beside, line.seconds)
            records = (line.sequence,) if head is None else (head.sequence, line.sequence)
            found.append(Xid(line.seconds, pci, OFF_THE_BUS, line.text, architecture=known.get(pci, ""),
                             records=records))
    return found


def resets(log: KernelLog) -> tuple[Reset, ...]:
    """What root wrote to this log about resets of GPUs."""
    if not log.contains("muster: "):
        return ()
    return tuple(Reset(line.seconds, _bare(match["pci"] or ""), line.sequence)
                 for line, match in log.matching(_RESET))


def _wanted(captures: Captures) -> tuple[tuple[str, str], ...]:
    # Some write the domain with eight digits.
    return tuple((_bare(pci[-12:]), action) for pci, action in recovery_actions(captures))


def _bare(address: str) -> str:
    return address.lower().partition(".")[0]


def _architectures(captures: Captures) -> Mapping[str, str]:
    """The generation of each NVIDIA device on the bus, by address."""
    found = {}
    for path in captures.files_if_any(PCI):
        if match := _PCI_ID.search(captures.whole_text(PCI, path)):
            found[_bare(path.rpartition("/")[0].rpartition("/")[2])] = architecture(int(match[1], 16))
    return found
