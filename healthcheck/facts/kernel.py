"""The kernel-log fact: what /dev/kmsg still holds of this boot, in the kernel's documented record format
(Documentation/ABI/testing/dev-kmsg): `priority,sequence,microseconds,flags;text`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

from healthcheck.baseline.model import Line
from healthcheck.facts.base import Captures, Fact, Partial, Unread, fact, made
from healthcheck.facts.host import UPTIME, uptime
from healthcheck.probes import MIB, Kind, Probe

KMSG = "/dev/kmsg"
LOG = Probe("kernel.log", Kind.FILES, paths=(KMSG,), seconds=8.0, each_s=5.0, limit=4 * MIB, tail=True, root=True)

_RECORD = re.compile(r"^(\d{1,6}),(\d{1,20}),(\d{1,20}),([^;\n]{0,200});(.*)$", re.MULTILINE)
_CALLER = re.compile(r"\bcaller=([TC]\d{1,10})")
# Flags of ours, for the lines of a saved log that says neither: the kernel always knows both.
NO_TIME = "muster-notime"
NO_PRIORITY = "muster-nopriority"
_LONGEST = 8192  # the kernel's own limit for a record
# What the text of one record may hold: any byte that is not a control character comes as it is, others as \xNN.
_HEX = re.compile(r"\\x([0-9a-f]{2})")


@dataclass(frozen=True)
class KernelLine:
    """One record: seconds since boot, priority (0 emergency to 7 debug), and the text."""

    seconds: float
    priority: int
    text: str


@dataclass(frozen=True)
class KernelLog(Fact):
    """The log as captured. It is searched as one text and only the lines that match are parsed: a healthy log has thousands.

    `caveat` says how many records of this boot the kernel had overwritten already, which nobody can judge any more. `uptime` is in
    seconds, and 0 where it was not measured.
    """

    name: str
    text: str = field(repr=False)
    caveat: str = ""
    uptime: float = 0.0

    @property
    def newest(self) -> float:
        """Seconds since boot of the look, against which 'within so many hours' is meant: a quiet node logs nothing for days.

        The newest record's time where that is later, or where nothing else is known: in a container uptime may be the container's.
        """
        return max(self.uptime, self._newest_record())

    def _newest_record(self) -> float:
        end = len(self.text)
        while end > 0:
            start = self.text.rfind("\n", 0, end) + 1
            if record := _RECORD.match(self.text, start):
                return int(record[3]) / 1e6
            end = start - 1
        return 0.0

    def records(self) -> Records:
        """All of them, oldest first."""
        return Records(_RECORD.findall(self.text))

    def matching(self, pattern: re.Pattern[str]) -> Iterator[KernelLine]:
        """The records whose text holds the pattern, oldest first. `pattern` must not match across lines.

        Each line is looked at once, however often the pattern is in it: a log may be one line of matches.
        """
        at = 0
        while found := pattern.search(self.text, at):
            record = _RECORD.match(self.text, self.text.rfind("\n", at and at - 1, found.start()) + 1)
            if record and found.start() >= record.start(5):
                yield KernelLine(int(record[3]) / 1e6, int(record[1]) & 7, unescape(record[5][:_LONGEST]))
            at = self.text.find("\n", found.end()) + 1
            if not at:
                return


class Records(Sequence[Line]):
    """Records as lines, each made when it is asked for: of most only the text is looked at, which `texts` holds."""

    def __init__(self, found: Sequence[tuple[str, str, str, str, str]]) -> None:
        self._found = found
        self.texts = [unescape(text[:_LONGEST]) if "\\x" in text else text[:_LONGEST] for _, _, _, _, text in found]

    def __len__(self) -> int:
        return len(self._found)

    @overload
    def __getitem__(self, index: int) -> Line: ...

    @overload
    def __getitem__(self, index: slice) -> list[Line]: ...

    def __getitem__(self, index: int | slice) -> Line | list[Line]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        priority, sequence, microseconds, flags, _ = self._found[index]
        seconds: float | None = int(microseconds) / 1e6
        level: int | None = int(priority) & 7
        caller = ""
        if len(flags) > 1:
            caller = said[1] if (said := _CALLER.search(flags)) else ""
            seconds = None if NO_TIME in flags else seconds
            level = None if NO_PRIORITY in flags else level
        return made(Line, {"text": self.texts[index], "seconds": seconds, "priority": level, "sequence": int(sequence),
                           "facility": int(priority) >> 3, "caller": caller})


def as_dmesg(seconds: float | None, text: str) -> str:
    """A record as dmesg prints it, and as findings quote it."""
    return text if seconds is None else f"[{seconds:12.6f}] {text}"


def unescape(text: str) -> str:
    """Undoes the kernel's \\xNN."""
    return _HEX.sub(lambda match: chr(int(match[1], 16)), text)


def _uptime(captures: Captures) -> float:
    """In seconds; 0 where it was not measured."""
    try:
        hours: Any = uptime(captures).hours
    except Unread:
        return 0.0
    return hours * 3600 if isinstance(hours, float) else 0.0


@fact("kernel_log", LOG, besides=(UPTIME,))
def kernel_log(captures: Captures) -> Any:
    """The records that the kernel still holds; an empty log, or one without a single record, was not measured."""
    files = captures.files(LOG)
    text = files.text(KMSG, part=True)
    first = _RECORD.search(text)
    if first is None:
        raise Unread(f"{KMSG} holds no record of the documented form")
    lost = int(first[2])
    caveat = f"of this boot, the {lost} oldest records are gone from the kernel's buffer" if lost else ""
    log = KernelLog(name="kernel log", text=text, caveat=caveat, uptime=_uptime(captures))
    if files.truncated(KMSG):
        return Partial(log, f"{KMSG} is longer than {LOG.limit // MIB} MiB; the older part was dropped")
    capture = captures.capture(LOG)
    if capture is not None and "overwritten" in capture.note:
        return Partial(log, capture.note)
    return log if capture is None or not capture.note else replace(log, caveat="; ".join(filter(None, (log.caveat, capture.note))))
