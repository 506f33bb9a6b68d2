"""Kernel logs that a person gives beside a job's, as evidence: known faults of the catalogue and Xids,
at the times that their lines carry.

Of a log as text only lines with a wall clock are taken (dmesg -T, journalctl, syslog); a clock without a zone
is taken for local. dmesg -T is off by the time that a machine slept, which servers do not (dmesg(1)). A
recording of muster's holds the uptime beside the log: there each line has its moment by the head's clock.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass

from healthcheck.baseline.catalogue import Catalogue
from healthcheck.blame.evidence import Evidence, Weight
from healthcheck.facts.base import BY_BUILDER, Captures, build_fact
from healthcheck.facts.kernel import KernelLog, kernel_log
from healthcheck.facts.values import Partial
from healthcheck.facts.xid import XID
from healthcheck.joblog.model import LONGEST_LINE, LogClock
from healthcheck.kernellog.provenance import USER, marked
from healthcheck.model.outcome import Owner, Severity
from healthcheck.model.recording import Recording
from healthcheck.xid.xidtable import SERIOUS, Action, XidTable

_MONTHS = {name: number for number, name in enumerate(
    ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1)}
_ISO = re.compile(
    r"^\[?(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?(?:([+-])(\d\d):?(\d\d)|(Z))?\]? ?")
_DMESG = re.compile(r"^(?:<\d{1,4}>)?(?:\w{1,8} {0,4}:\w{1,8} {0,4}: )?"
                    r"\[\w{3} (\w{3}) {1,2}(\d{1,2}) (\d\d:\d\d:\d\d)(?:\.\d{1,6})? (\d{4})\] ?")
_TAGGED = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{6}[+-]\d\d:\d\d ")     # dmesg --time-format iso
_SINCE_BOOT = re.compile(r"^(?:<\d{1,4}>)?\[ {0,6}\d{1,9}\.\d{6}\] ")
_SYSLOG = re.compile(r"^(\w{3}) {1,2}(\d{1,2}) (\d\d:\d\d:\d\d)(?:\.\d{1,9})? ")
_HOST = re.compile(r"^(?P<host>[A-Za-z0-9][\w.-]{0,252}) kernel: (?:\[ {0,6}\d{1,9}\.\d{1,9}\] ?)?")
_CALLER = re.compile(r"\[ {0,12}[TC]\d{1,10}\] ?")      # printk.caller=1
# A facility that is not the kernel's, as dmesg -x and -r show it.
_OF_A_PROCESS = re.compile(r"^(?:<(?:[89]|\d{2,4})>|(?!kern\b)[a-z]{3,8} {0,4}:[a-z]{3,6} {0,4}: )")
# By the file of the catalogue that knows a line; the others are the host's.
_WEIGHTS = {**dict.fromkeys(("aer", "cper", "edac", "mce", "memory", "nvidia", "nvswitch", "pcie"),
                            Weight.DEVICE),
            **dict.fromkeys(("ethernet", "infiniband", "mlx5", "network"), Weight.NETWORK),
            **dict.fromkeys(("oom", "segfault", "limits"), Weight.USER)}
_FELL = 79
_TORN_DOWN = 45
_MOST = 200_000         # lines


@dataclass(frozen=True)
class Judges:
    """What knows kernel lines: the catalogue of faults, and the table of Xids."""

    catalogue: Catalogue
    xids: XidTable


def looks_like(text: str) -> bool:
    """Whether a file holds lines of a kernel's log with times of day."""
    for row in text[:200_000].split("\n")[:500]:
        tagged = " kernel: " in row[:300] or _TAGGED.match(row) is not None
        if _DMESG.match(row) is not None or (tagged and _stamp(row, None) is not None):
            return True
    return False


def timeless(text: str) -> bool:
    """Whether a file has kernel log lines with times since boot, which give no absolute time."""
    rows = text[:100_000].split("\n")[:200]
    return sum(_SINCE_BOOT.match(row) is not None for row in rows) * 2 > len([row for row in rows if row])


def evidence(text: str, node: str, source: str, clock: LogClock, judges: Judges) -> Iterator[Evidence]:
    """Faults of a log, each kind of each device once, with the first line's time.
    `node` is whose log it is, empty where its lines say."""
    yield from _judged(_of_text(text, node, clock), source, judges)


def recorded(
    recording: Recording, node: str, source: str, judges: Judges,
) -> tuple[tuple[Evidence, ...], str]:
    """Faults of the log in a recording, and why it could not be read, empty where it could."""
    log = build_fact(BY_BUILDER[kernel_log], Captures(recording))
    log = log.value if isinstance(log, Partial) else log
    if not isinstance(log, KernelLog):
        return (), str(getattr(log, "reason", "")) or "the node was not reached"
    if not log.uptime:
        return (), "its uptime was not measured, and the log's times count from the boot"
    booted = recording.received - log.newest
    lines = [(number, booted + line.seconds, node or recording.node, line.text)
             for number, line in enumerate(log.records(), 1) if line.seconds is not None]
    return tuple(_judged(iter(lines), source, judges)), ""


_Line = tuple[int, float, str, str]     # its number, when, on which node, and what was said


def _of_text(text: str, node: str, clock: LogClock) -> Iterator[_Line]:
    for number, row in enumerate(text.split("\n")[:_MOST], 1):
        stamp = _stamp(row[:LONGEST_LINE], clock)
        if stamp is not None:
            time, said = stamp
            host = _HOST.match(said)
            if host is None and _names_its_program(row):
                continue        # another program's, whose name any user can choose
            said = said[host.end() if host else 0:]
            caller = _CALLER.match(said)
            text = marked(said[caller.end() if caller else 0:], USER if _OF_A_PROCESS.match(row) else 0)
            yield number, time, node or (host["host"].partition(".")[0] if host is not None else ""), text


def _names_its_program(row: str) -> bool:
    """Whether a line's format names its program: syslog's and journalctl's, not dmesg's."""
    return (_SYSLOG.match(row) is not None
            or (_ISO.match(row) is not None and row[0] != "[" and _TAGGED.match(row) is None))


def _judged(lines: Iterator[_Line], source: str, judges: Judges) -> Iterator[Evidence]:
    seen: set[tuple[str, str]] = set()
    for number, time, node, said in lines:
        found = _xid(said, judges) or _known(said, judges)
        if found is not None and (node, found.group) not in seen:
            seen.add((node, found.group))
            yield Evidence(node, found.weight, found.what, f"{source}, line {number}", time, time, said,
                           found.owner, found.advice, found.sure, found.group)


def _stamp(row: str, clock: LogClock | None) -> tuple[float, str] | None:
    """A line's time, and its rest; without a clock only whether it has a time."""
    clock = clock or LogClock(0.0)
    if (iso := _ISO.match(row)) is not None:
        if iso[3] or iso[6]:
            east = (int(iso[4]) * 3600 + int(iso[5]) * 60) * (-1 if iso[3] == "-" else 1) if iso[3] else 0
            time = LogClock(clock.near, dt.timezone.utc).iso(iso[1])
            return (time - east, row[iso.end():]) if time is not None else None
        time = clock.iso(iso[1])
        return (time, row[iso.end():]) if time is not None else None
    if (dmesg := _DMESG.match(row)) is not None and dmesg[1] in _MONTHS:
        time = clock.at(int(dmesg[4]), _MONTHS[dmesg[1]], int(dmesg[2]), dmesg[3])
        return (time, row[dmesg.end():]) if time is not None else None
    if (syslog := _SYSLOG.match(row)) is not None and syslog[1] in _MONTHS:
        time = clock.at(None, _MONTHS[syslog[1]], int(syslog[2]), syslog[3])
        return (time, row[syslog.end():]) if time is not None else None
    return None


@dataclass(frozen=True)
class _Found:
    weight: Weight
    what: str
    group: str
    owner: Owner
    advice: str
    sure: bool = True


def _xid(said: str, judges: Judges) -> _Found | None:
    match = XID.match(said)
    if match is None:
        return None
    number, gpu = int(match["number"]), f"GPU at PCI {match['pci']}"
    entry = judges.xids.xid(number)
    if number == _TORN_DOWN:
        weight = Weight.SYMPTOM
    elif entry.action in SERIOUS or entry.action in (Action.DECODE, Action.OBEY):
        weight = Weight.DEVICE
    else:
        weight = Weight.USER if entry.action is Action.APP else Weight.ODD
    what = (f"{gpu} fell off the bus (Xid {number})" if number == _FELL
            else f"{gpu}: Xid {number}, {entry.meaning}")
    return _Found(weight, what, f"{match['pci']} {number}", entry.owner,
                  entry.remedy or judges.xids.remedy(entry.action))


def _known(said: str, judges: Judges) -> _Found | None:
    entry = judges.catalogue.find(said)
    if entry is None or entry.xid or entry.ordinary:
        return None
    weight = _WEIGHTS.get(entry.group, Weight.HOST)
    if entry.severity is not Severity.CRITICAL and weight is not Weight.USER:
        weight = Weight.ODD
    return _Found(weight, entry.meaning, entry.id, entry.owner, entry.remedy)
