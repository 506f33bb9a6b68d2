"""Formats of one record a line with its time in front: dmesg, syslog daemons, journalctl's short formats.

Sources: util-linux, sys-utils/dmesg.c (print_record); the kernel's own consoles, kernel/printk/printk.c
(print_prefix); systemd, src/shared/logs-show.c; RFC 3164 and RFC 5424; Ubuntu's dmesg.service, which writes
/var/log/dmesg as short-monotonic without a host.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from healthcheck.baseline.formats.clocks import Clock, DeltaClock, WallClock, since_boot
from healthcheck.baseline.formats.parsedlog import NAMES_ITSELF, ParsedLog
from healthcheck.kernellog.model import LONGEST_LINE, LogLine
from healthcheck.kernellog.provenance import USER, marked

LEVELS = {name: number
          for number, name in enumerate(("emerg", "alert", "crit", "err", "warn", "notice", "info", "debug"))}
FACILITIES = {name: number for number, name in enumerate((
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp",
))}

# Priority and facility, as <N> or in words; the time; the caller; the text: the groups of every format.
_HEAD = r"(?:<(\d{1,4})>|([a-z]{3,8}) {0,8}:([a-z]{3,6}) {0,8}: ?)?"
_CALLER = r" ?(?:\[ {0,12}([TC]\d{1,10})\] ?)?"
_SECONDS = r"\d{1,12}\.\d{1,9}"
_DELTA = r"(?: <[^>\n]{0,24}>)?"
_NAMED = r"[A-Z][a-z]{2}"
_MONTH = r"[^\W\d_]{2,10}\.?"  # journalctl writes it in the user's language
# With its process number: the kernel has none, but a program that calls itself kernel has one.
_PROGRAM = r"(?:\S{0,255}[^\s:] )?([^\s:\[]{1,64}(?:\[\d{1,10}\])?): ?(.*)"
_DATE = r"\d{4}-\d\d-\d\d"


@dataclass(frozen=True)
class LineFormat:
    """`program`: its lines name the program that wrote them; `wall`: its times are not since boot."""

    name: str
    pattern: re.Pattern[str]
    clock: Callable[[], Clock]
    wall: bool = False
    program: bool = False


def _dmesg(name: str, stamp: str, clock: Callable[[], Clock], *, wall: bool = True) -> LineFormat:
    return LineFormat(name, re.compile(_HEAD + stamp + _CALLER + "(.*)", re.ASCII), clock, wall)


def _syslog(name: str, pattern: str, clock: Callable[[], Clock], *, wall: bool = True) -> LineFormat:
    return LineFormat(name, re.compile(pattern), clock, wall, program=True)


PLAIN = _dmesg("dmesg", rf"\[ {{0,12}}({_SECONDS}){_DELTA} {{0,20}}\]", lambda: since_boot, wall=False)
MONOTONIC = _syslog(
    "journalctl short-monotonic", rf"()\[ {{0,12}}({_SECONDS}){_DELTA} {{0,20}}\] {_PROGRAM}",
    lambda: since_boot, wall=False,
)
# The first that matches a line is that line's format.
FORMATS = (
    _syslog(
        "syslog (RFC 5424)",
        r"<(\d{1,3})>1 (\S{1,40}) \S{1,255} (\S{1,64}) \S{1,128} \S{1,32} (?:-|\[[^\n]{0,1000}?\]) ?(.*)",
        WallClock,
    ),
    _syslog("syslog or journalctl short",
            rf"(?:<(\d{{1,3}})>)?({_MONTH} [ \d]?\d \d\d:\d\d:\d\d(?:\.\d{{1,9}})?) {_PROGRAM}", WallClock),
    _syslog(
        "syslog or journalctl short",
        rf"(?:<(\d{{1,3}})>)?({_DATE}T\d\d:\d\d:\d\d(?:\.\d{{1,9}})?(?:Z|[+-]\d\d:?\d\d)?) {_PROGRAM}",
        WallClock,
    ),
    _syslog("journalctl short-full",
            rf"()({_NAMED} {_DATE} \d\d:\d\d:\d\d(?:\.\d{{1,9}})? \S{{1,8}}) {_PROGRAM}", WallClock),
    _syslog("journalctl short-unix", rf"()(\d{{9,12}}\.\d{{1,9}}) {_PROGRAM}", WallClock),
    MONOTONIC,
    PLAIN,
    _dmesg("dmesg -T", rf"\[(?:\S{{1,12}} )?([^\]\n]{{3,20}} \d\d:\d\d:\d\d \d{{4}}){_DELTA}\]", WallClock),
    _dmesg("dmesg --time-format delta", rf"\[< {{0,12}}(-?{_SECONDS})>\]", DeltaClock),
    _dmesg("dmesg --time-format reltime", rf"\[({_NAMED} ?\d{{1,2}} \d\d:\d\d| {{0,12}}[+-]{_SECONDS})\]",
           DeltaClock),
    _dmesg("dmesg --time-format iso", rf"({_DATE}T\d\d:\d\d:\d\d,\d{{1,9}}[+-]\d\d:?\d\d)(?= )", WallClock),
    LineFormat("dmesg without times", re.compile(_HEAD.removesuffix("?") + "()" + _CALLER + "(.*)", re.ASCII),
               lambda: since_boot),
)
_BOOT = re.compile(r"-- (?:Boot ([0-9a-f]{32})|Reboot) --$")
_ABOUT = re.compile(r"-- (?:Logs begin|Journal begins|No entries)\b")
BLOB = re.compile(r"\[[\d.]{1,8}[BKMGTPE] blob data\]$")
# The kernel's own time within the text of a syslog line.
_INNER = re.compile(rf"\[ {{0,12}}({_SECONDS})\]{_CALLER}", re.ASCII)
# What a site's own logging put before the text: a time of no published format, names, and `kernel:`. No
# process has such a name: it has at most 15 characters.
_TAGGED = re.compile(
    rf"(?:[^\n:]{{0,20}}\d\d:\d\d:\d\d\S{{0,40}} (?:[^\s:]{{1,64}} ){{0,2}})?"
    rf"kernel: (?:\[ {{0,12}}{_SECONDS}\]{_CALLER})?", re.ASCII)


def read_lines(line_format: LineFormat, rows: list[str], *, console: bool) -> ParsedLog:
    """The records of these lines; one without a time continues the last, on a `console` a program's."""
    return (_read_syslog(line_format, rows) if line_format.program
            else _read_dmesg(line_format, rows, console=console))


def read_text(rows: list[str]) -> ParsedLog:
    """Lines of text alone: `dmesg -t`, `journalctl -o cat`, without prefixes of no published format, so that
    a driver's line begins with the driver's name."""
    found = ParsedLog("text")
    for number, raw in enumerate(rows, 1):
        if raw and not _journal_note(raw, found):
            text = _bounded(raw, found)
            tag = _TAGGED.match(text)
            found.add(LogLine(text[tag.end():] if tag else text, sequence=number), text)
    if not any(line.text.startswith(NAMES_ITSELF) for line in found.lines):
        found.caveats.append("no line has the format of a kernel log; each was read as a kernel's message")
    return found


def _read_dmesg(line_format: LineFormat, rows: list[str], *, console: bool) -> ParsedLog:
    found = ParsedLog(line_format.name, wall=line_format.wall)
    clock = line_format.clock()
    lines, raws = found.lines, found.raw
    margin = 0
    for number, (raw, record) in enumerate(zip(rows, map(line_format.pattern.match, rows), strict=True), 1):
        if len(raw) > LONGEST_LINE:
            raw = _bounded(raw, found)
            record = line_format.pattern.match(raw)
        if record is None:
            if not raw or _journal_note(raw, found):
                continue
            if console or not lines:
                found.others += 1
            else:
                found.follow(raw[margin:] if raw[:margin].isspace() else raw, raw, number)
            continue
        numeric, facility, level, stamp, caller, text = record.groups()
        margin = record.start(6)
        seconds = clock(stamp) if stamp else None
        if numeric:
            code = int(numeric)
            lines.append(LogLine(text, seconds, code & 7, number, code >> 3, caller or ""))
        elif level:
            code = FACILITIES.get(facility, 1)
            lines.append(LogLine(text, seconds, LEVELS.get(level), number, code, caller or ""))
        else:
            lines.append(LogLine(text, seconds, None, number, 0, caller or ""))
        raws.append(raw)
    return found


def _read_syslog(line_format: LineFormat, rows: list[str]) -> ParsedLog:
    """Counts lines of other programs and leaves them out. Uses the kernel's time if most lines have it."""
    found = ParsedLog(line_format.name, wall=line_format.wall)
    clock = line_format.clock()
    inner: list[float | None] = []
    margin, from_kernel, timed = 0, False, 0
    for number, (raw, record) in enumerate(zip(rows, map(line_format.pattern.match, rows), strict=True), 1):
        if len(raw) > LONGEST_LINE:
            raw = _bounded(raw, found)
            record = line_format.pattern.match(raw)
        if record is None:
            if not raw or _journal_note(raw, found):
                continue
            continues = raw[:margin or 1].isspace()
            if from_kernel and continues:
                if found.follow(raw[margin:], raw, number):
                    inner.append(inner[-1])
            elif continues and found.programs:
                found.programs += 1
            else:
                found.others += 1
            continue
        numeric, stamp, program, text = record.groups()
        seconds = clock(stamp)
        from_kernel = program == "kernel"
        if not from_kernel:
            found.programs += 1
            continue
        margin, caller, own = record.start(4), "", None
        if "#011" in text:
            text = text.replace("#011", "\t")  # rsyslog's way to write a tab
        if text[:1] == "[":
            if inner_time := _INNER.match(text):
                own, caller, text = float(inner_time[1]), inner_time[2] or "", text[inner_time.end():]
            elif BLOB.match(text):
                found.blobs += 1
                from_kernel = False
                continue
        timed += own is not None
        priority, facility = (int(numeric) & 7, int(numeric) >> 3) if numeric else (None, 0)
        found.lines.append(LogLine(text, seconds, priority, number, facility, caller))
        found.raw.append(raw)
        inner.append(own)
    if line_format.wall and timed * 2 > len(found.lines):
        found.format += ", with the kernel's time"
        found.wall = False
        # The kernel's lines carry its time; a line without was written by a program that calls itself kernel.
        found.lines = [
            replace(line, seconds=at, text=line.text if at is not None else marked(line.text, USER))
            for line, at in zip(found.lines, inner, strict=True)
        ]
    return found


def _journal_note(raw: str, found: ParsedLog) -> bool:
    """Whether it is journalctl's own line about the journal, such as the begin of a boot."""
    if raw[:3] != "-- ":
        return False
    if boot := _BOOT.match(raw):
        found.starts[len(found.lines)] = boot[1] or ""
        return True
    return _ABOUT.match(raw) is not None


def _bounded(raw: str, found: ParsedLog) -> str:
    if len(raw) > LONGEST_LINE:
        found.cut += 1
        return raw[:LONGEST_LINE]
    return raw
