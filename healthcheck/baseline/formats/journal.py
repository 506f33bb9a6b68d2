"""Formats of whole entries: journalctl -o json, json-pretty, export and verbose; dmesg --json.

Sources: systemd, docs/JOURNAL_EXPORT_FORMATS.md and systemd.journal-fields(7); util-linux, sys-utils/dmesg.c.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from healthcheck.baseline.formats.lines import BLOB, FACILITIES, LEVELS
from healthcheck.baseline.formats.parsedlog import ParsedLog
from healthcheck.baseline.formats.unpack import shown
from healthcheck.kernellog.model import LONGEST_LINE, LogLine
from healthcheck.kernellog.provenance import USER

EXPORT = "journalctl export"
VERBOSE = "journalctl verbose"
_WANTED = {
    "MESSAGE", "PRIORITY", "SYSLOG_FACILITY", "SYSLOG_IDENTIFIER", "SYSLOG_PID", "_TRANSPORT", "_BOOT_ID",
    "_SOURCE_MONOTONIC_TIMESTAMP", "__MONOTONIC_TIMESTAMP",
}
_BOOT_ID = re.compile(r"[0-9a-f]{32}")
_VERBOSE = re.compile(r"\S{1,12} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6} .{0,20}\[s=")
_FIELD = re.compile(r" {4}([A-Z_][A-Z0-9_]{0,63})=(.*)")
_MISSED = re.compile(r"Missed \d{1,9} kernel messages")
_PROGRAM = re.compile(r"[\w.@-]{1,64}")


def read_json(rows: list[str]) -> ParsedLog:
    """journalctl -o json, json-sse and json-pretty."""
    return _collect("journalctl json", _json_entries(rows))


def read_export(data: bytes) -> ParsedLog:
    """journalctl -o export."""
    return _collect(EXPORT, _export_entries(data))


def read_verbose(rows: list[str]) -> ParsedLog:
    """journalctl -o verbose."""
    return _collect(VERBOSE, _verbose_entries(rows))


def read_dmesg_json(rows: list[str]) -> ParsedLog:
    """dmesg --json: one object a record, each field in a line of its own."""
    found = ParsedLog("dmesg --json")
    for number, entry in _objects(rows, "},{"):
        text = entry.get("msg")
        if not isinstance(text, str):
            found.others += 1
            continue
        level, time, caller = entry.get("pri"), entry.get("time"), entry.get("caller")
        code = level if isinstance(level, int) and 0 <= level < 4096 else LEVELS.get(str(level))
        if code is not None and "fac" in entry:
            # An unknown one (local0) is a process's, too.
            code |= FACILITIES.get(str(entry["fac"]), USER) << 3
        seconds = float(time) if isinstance(time, (int, float)) and 0 <= time < 1e12 else None
        priority, facility = (None, 0) if code is None else (code & 7, code >> 3)
        thread = str(caller)[:12] if re.fullmatch(r"[TC]\d{1,10}", str(caller)) else ""
        _add(found, text, text, LogLine("", seconds, priority, number, facility, thread))
    return found


def _collect(form: str, entries: Iterator[tuple[int, Mapping[str, object] | None]]) -> ParsedLog:
    """The kernel's lines of these entries, and where boots begin. None is an unreadable entry."""
    found = ParsedLog(form)
    boot = ""
    for number, entry in entries:
        if entry is None:
            found.others += 1
            continue
        text = _text(entry.get("MESSAGE"))
        named_kernel = entry.get("SYSLOG_IDENTIFIER") == "kernel"
        transport = entry.get("_TRANSPORT") or ("kernel" if named_kernel else "")
        if transport == "kernel" and text is None:
            found.blobs += 1
            continue
        if transport != "kernel" or text is None:
            found.programs += 1
            if text is not None and (missed := _MISSED.match(text)):
                found.caveats.append(f"the journal says: {missed[0]}")
            continue
        if form == VERBOSE and BLOB.match(text):
            found.blobs += 1
            continue
        text = _program(entry) + text
        named = str(entry.get("_BOOT_ID", ""))
        if _BOOT_ID.fullmatch(named) and named != boot:
            found.starts[len(found.lines)] = boot = named
        micros = _number(entry.get("_SOURCE_MONOTONIC_TIMESTAMP"))
        if micros is None:
            micros = _number(entry.get("__MONOTONIC_TIMESTAMP"))
        level = _number(entry.get("PRIORITY"))
        seconds = None if micros is None else micros / 1e6
        priority = level if level is not None and level < 8 else None
        _add(found, text, text,
             LogLine("", seconds, priority, number, _number(entry.get("SYSLOG_FACILITY")) or 0))
    return found


def _add(found: ParsedLog, text: str, raw: str, line: LogLine) -> None:
    if len(text) > LONGEST_LINE:
        found.cut += 1
        text = raw = text[:LONGEST_LINE]
    found.add(replace(line, text=shown(text)), shown(raw).replace("\n", "\\n"))


def _program(entry: Mapping[str, object]) -> str:
    """The prefix of a program's text in the kernel log, which journald splits off."""
    name, pid = str(entry.get("SYSLOG_IDENTIFIER", "")), _number(entry.get("SYSLOG_PID"))
    if name in ("", "kernel") or not _PROGRAM.fullmatch(name):
        return ""
    return f"{name}: " if pid is None else f"{name}[{pid}]: "


def _text(value: object) -> str | None:
    """A message; the journal gives one that is not UTF-8 as a list of bytes."""
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, list) and all(isinstance(byte, int) and 0 <= byte < 256 for byte in value):
        return bytes(value).decode(errors="backslashreplace")
    return None


def _number(value: object) -> int | None:
    digits = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 18
    return int(str(value)) if digits else None


def _json_entries(rows: list[str]) -> Iterator[tuple[int, Mapping[str, object] | None]]:
    if "{" in rows[:1000]:
        yield from _objects(rows, "")
        return
    for number, row in enumerate(rows, 1):
        row = row.removeprefix("data: ").removeprefix("\\x1e")
        if row:
            yield number, _object(row)


def _objects(rows: list[str], between: str) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Objects over several lines, from a line `{` to a line `}`, or to one that is `between` two of them."""
    inside: list[str] = []
    start = 0
    for number, row in enumerate(rows, 1):
        bare = row.strip()
        if bare in ("}", "},", between) and inside:
            entry = _object("{" + "".join(inside) + "}")
            if entry is not None:
                yield start, entry
            inside = []
        if bare == "{" or (between and bare == between):
            inside, start = [" "], number
        elif inside:
            inside.append(bare)


def _object(text: str) -> Mapping[str, object] | None:
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _export_entries(data: bytes) -> Iterator[tuple[int, Mapping[str, object]]]:
    entry: dict[str, str] = {}
    at, number, start = 0, 0, 1
    while at < len(data):
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        number += 1
        name, equals, value = data[at:end].partition(b"=") if end - at < 1 << 20 else (b"", b"", b"")
        at = end + 1
        if not name and not equals:
            if entry:
                yield start, entry
            entry, start = {}, number + 1
            continue
        if not equals:
            size = int.from_bytes(data[at:at + 8], "little")
            value = data[at + 8:at + 8 + min(size, len(data))]
            at += 8 + size + 1
            number += value.count(b"\n") + 1
        if (key := name.decode(errors="replace")) in _WANTED:
            entry[key] = value.decode(errors="backslashreplace")
    if entry:
        yield start, entry


def _verbose_entries(rows: list[str]) -> Iterator[tuple[int, Mapping[str, object]]]:
    entry: dict[str, str] = {}
    start, last = 0, ""
    for number, row in enumerate(rows, 1):
        if _VERBOSE.match(row):
            if entry:
                yield start, entry
            entry, start, last = {}, number, ""
        elif field := _FIELD.match(row):
            last = field[1] if field[1] in _WANTED else ""
            if last:
                entry[last] = field[2]
        elif last and row[:4].isspace() and len(entry[last]) < LONGEST_LINE:
            entry[last] += "\n" + row.lstrip(" ")
    if entry:
        yield start, entry

