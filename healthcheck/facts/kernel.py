"""The kernel-log fact: the records of this boot that /dev/kmsg still holds, in the kernel's documented format
(Documentation/ABI/testing/dev-kmsg): `priority,sequence,microseconds,flags;text`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.host import UPTIME, uptime_hours
from healthcheck.facts.limits import KERNEL_RECORD
from healthcheck.facts.values import Fact, Unread, partial_if
from healthcheck.kernellog.carried import NO_RECORDS, CarriedRecords, from_text
from healthcheck.kernellog.masking import zeroed
from healthcheck.kernellog.model import LogLine
from healthcheck.kernellog.provenance import marked_records
from healthcheck.kernellog.quoting import messages
from healthcheck.model.construct import construct
from healthcheck.model.probes import MIB, Probe, ProbeKind

KMSG = "/dev/kmsg"
LOG = Probe("kernel.log", ProbeKind.FILES, paths=(KMSG,), seconds=8.0, each_s=5.0, limit=4 * MIB, tail=True,
            root=True)

_RECORD = re.compile(r"^([0-9]{1,6}),([0-9]{1,20}),([0-9]{1,20}),([^;\n]{0,200});(.*)$", re.MULTILINE)
# The part of a record before its text, and its text.
_HEAD = re.compile(r"^([0-9]{1,6},[0-9]{1,20},[0-9]{1,20},[^;\n]{0,200});", re.MULTILINE)
_TEXT = re.compile(r"^[0-9]{1,6},[0-9]{1,20},[0-9]{1,20},[^;\n]{0,200};(.*)$", re.MULTILINE)
# The kernel writes the device's properties below a record. A text cannot hold a line end, so none can imitate
# them.
_SUBSYSTEM = re.compile(r"^[0-9]{1,6},([0-9]{1,20}),.*\n SUBSYSTEM=(.{0,64}).*\n", re.MULTILINE)
_NEWEST = re.compile(r"(?s:.*)^[0-9]{1,6},[0-9]{1,20},([0-9]{1,20}),[^;\n]{0,200};", re.MULTILINE)
_NO_BOOT_S = 20 * 365 * 86_400.0     # seconds; nothing runs for 20 years
_CALLER = re.compile(r"\bcaller=([TC][0-9]{1,10})")
TORN = "overwritten"        # in the note of a capture: records were overwritten while they were read
# Our own flags for lines of a saved log without time or priority; the kernel's records always have both.
NO_TIME = "muster-notime"
NO_PRIORITY = "muster-nopriority"
# Control characters in a record's text are written as \xNN.
_HEX = re.compile(r"\\x([0-9a-f]{2})")

# The words of all MessagePatterns. A log is searched for them once; a healthy one has hardly any. No word
# holds a digit, because of lines that differ in digits only one is searched.
WORDS = frozenset((
    "I/O error", "error, dev ", "failing I/O", "Disk failure on ", "I/O Cmd(", "beyond end of device",
    "-fs error (device ", "Remounting filesystem read-only", "Corruption", "corrupt", "I/O Error",
    "hutting down filesystem",
    "ilesystem has been shut down", "Internal error", "forced readonly", "errno=-",
    " timeout, ", "controller is down; will reset", "Disabling device after reset failure",
    "Removing after probe failure",
    "Device not ready; aborting ", "Identify Controller failed",
    "health compromised", "Will cause a leak of a command resource", "Fatal error ",
    "Health issue observed, ",
    "unrecoverable hardware error", "PCI slot is unavailable", "insufficient power on the PCIe slot",
    "High Temperature",
    "High temperature on sensors", "emperature warning", "Cable error", "Cable unplugged", "Cable plugged",
    "ACCESS_REG",
    " CE ", "event severity: corrected", "Corrected error",
    "Xid", "fallen off the bus", "The NVIDIA GPU ", "muster: ",
))


class MessagePattern:
    """A pattern for the start of a message; every line that matches holds at least one of these words.

    Text that a user chose is blanked first, so that no user can write a line that matches.
    """

    def __init__(self, pattern: str, *words: str) -> None:
        self.pattern = re.compile(pattern)
        self.words = words
        if not words or not WORDS.issuperset(words):
            raise ValueError(f"not among WORDS: {set(words) - WORDS}")

    def match(self, text: str) -> re.Match[str] | None:
        """The match in this message, or in the first matching one of a record of several lines."""
        return next(filter(None, map(self.pattern.match, messages(text))), None)


@dataclass(frozen=True)
class KernelLine:
    """One record: seconds since boot, priority (0 emergency to 7 debug), the text as written with users'
    parts, and its number."""

    seconds: float
    priority: int
    text: str
    sequence: int = 0


class KernelLog(Fact):
    """The log as captured. It is searched as one text, and only lines that match are parsed: a healthy log
    has thousands.

    `caveat` says how many records of this boot the kernel had already overwritten. `uptime` is in seconds, 0
    where it was not measured. `first` is the number of its first record.

    `carried` is what earlier snapshots of this boot passed on; its records are `earlier`, which checks of
    known faults judge first and baselines ignore. `whole`: all records that the kernel holds were read.
    """

    name: str
    text: str
    uptime: float
    first: int
    carried: CarriedRecords
    earlier: str
    whole: bool
    caveat: str

    @property
    def oldest(self) -> float:
        """Seconds since boot of the first record that the kernel holds; 0 where none was overwritten."""
        record = _RECORD.search(self.text) if self.first else None
        return int(record[3]) / 1e6 if record is not None else 0.0

    def age_hours(self, seconds: float) -> float:
        """The known quiet hours of a fault that was reported at that time; hours before records were lost do
        not count."""
        return (self.newest - max(seconds, self.carried.seconds)) / 3600

    @cached_property
    def newest(self) -> float:
        """Seconds since boot of the snapshot, from which 'within so many hours' counts: a quiet node logs
        nothing for days.

        The newest record's time where that is later or uptime is not known: in a container, uptime may be the
        container's. A time that no boot reaches is none: a clock that wrapped would end what was reported.
        """
        record = _NEWEST.match(self.text)
        seconds = int(record[1]) / 1e6 if record is not None else 0.0
        return max(self.uptime, seconds if seconds < _NO_BOOT_S else 0.0)

    def records(self) -> Records:
        """All of them, oldest first."""
        return self._records

    @cached_property
    def _records(self) -> Records:
        return Records(self.text)

    def contains(self, *words: str) -> bool:
        """Whether the log holds any of these words, which are of WORDS."""
        return not self._words.isdisjoint(words)

    @cached_property
    def _words(self) -> frozenset[str]:
        """The words of WORDS that it holds. Lines that differ only in digits are searched once: no word holds
        a digit."""
        block = "\n".join({*zeroed(self.records().raw), *zeroed(Records(self.earlier).raw)})
        return frozenset([word for word in WORDS if word in block])

    def matching(self, pattern: MessagePattern) -> Iterator[tuple[KernelLine, re.Match[str]]]:
        """The records that match, oldest first, with their matches: the earlier ones, then those of the
        log."""
        if not self.contains(*pattern.words):
            return
        for log in (self.earlier, self.text):
            for start in sorted({start for word in pattern.words for start in _lines_with(log, word)}):
                record = _RECORD.match(log, start)
                if record is None:
                    continue
                text = unescape(record[5][:KERNEL_RECORD])
                if found := pattern.match(text):
                    yield KernelLine(int(record[3]) / 1e6, int(record[1]) & 7, text, int(record[2])), found


def _lines_with(log: str, word: str) -> Iterator[int]:
    """The starts of the lines that hold the word, each once."""
    at = 0
    with suppress(ValueError):      # no further one
        while True:
            at = log.index(word, at)
            yield log.rfind("\n", 0, at) + 1
            at = log.index("\n", at)


class Records(Sequence[LogLine]):
    """Records as lines, each made on access, since most are read only as `texts`; `raw` are the texts with
    the kernel's escapes."""

    def __init__(self, log: str) -> None:
        self._log = log
        self.raw: list[str] = _TEXT.findall(log)
        texts = [text[:KERNEL_RECORD] for text in self.raw]
        self.texts = [unescape(text) if "\\x" in text else text for text in texts] if "\\x" in log else texts

    @cached_property
    def _subsystems(self) -> dict[int, str]:
        """Subsystem by record number, where a record has one."""
        return {int(number): name for number, name in _SUBSYSTEM.findall(self._log)}

    @cached_property
    def _heads(self) -> list[str]:
        return _HEAD.findall(self._log)

    def __len__(self) -> int:
        return len(self.texts)

    @overload
    def __getitem__(self, index: int) -> LogLine: ...

    @overload
    def __getitem__(self, index: slice) -> list[LogLine]: ...

    def __getitem__(self, index: int | slice) -> LogLine | list[LogLine]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        priority, sequence, microseconds, flags = self._heads[index].split(",", 3)
        seconds: float | None = int(microseconds) / 1e6
        level: int | None = int(priority) & 7
        caller = ""
        if flags != "-":
            caller = found[1] if (found := _CALLER.search(flags)) else ""
            seconds = None if NO_TIME in flags else seconds
            level = None if NO_PRIORITY in flags else level
        return construct(LogLine, {"text": self.texts[index], "seconds": seconds, "priority": level,
                              "sequence": int(sequence), "facility": int(priority) >> 3, "caller": caller,
                              "subsystem": self._subsystems.get(int(sequence), "")})


def moment(seconds: float, now: float) -> str:
    """A time of a log for people: '40 d after boot, 2 h ago'. Both are seconds since boot; `now` is 0 where
    it is not known."""
    ago = f", {_span(now - seconds)} ago" if now >= seconds and now > 0 else ""
    return f"{_span(seconds)} after boot{ago}"


def _span(seconds: float) -> str:
    for unit, size, until in (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172_800)):
        if seconds < until:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"


def as_dmesg(seconds: float | None, text: str) -> str:
    """A record as dmesg prints it, and as findings quote it."""
    return text if seconds is None else f"[{seconds:12.6f}] {text}"


def unescape(text: str) -> str:
    """Undoes the kernel's \\xNN."""
    return _HEX.sub(lambda match: chr(int(match[1], 16)), text)


def _uptime(captures: Captures) -> float:
    """Uptime in seconds; 0 where it was not measured."""
    try:
        hours = uptime_hours(captures)
    except Unread:
        return 0.0
    return hours * 3600 if isinstance(hours, float) else 0.0


@fact("kernel_log", LOG, besides=(UPTIME,))
def kernel_log(captures: Captures) -> Any:
    """The records that the kernel still holds; a log without any record was not measured."""
    files = captures.files(LOG)
    text = marked_records(files.text(KMSG, part=True))
    first = _RECORD.search(text)
    if first is None:
        raise Unread(f"{KMSG} holds no record of the documented form")
    lost = int(first[2])
    caveat = f"of this boot, the {lost} oldest records are gone from the kernel's buffer" if lost else ""
    capture, note = captures.capture(LOG), captures.note(LOG)
    carried = from_text(capture.text) if capture is not None else NO_RECORDS
    earlier = marked_records(carried.records)
    why = note if TORN in note else ""
    if files.truncated(KMSG):
        why = f"{KMSG} is longer than {LOG.limit // MIB} MiB; the older part was dropped"
    if not why:
        caveat = "; ".join(filter(None, (caveat, note)))
    log = KernelLog("kernel log", text, _uptime(captures), lost, carried, earlier, whole=not why,
                    caveat=caveat)
    return partial_if(log, why)
