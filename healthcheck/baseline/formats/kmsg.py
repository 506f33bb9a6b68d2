"""Reads and writes the format of /dev/kmsg, one record a line: `priority,sequence,microseconds,flags;text`.

Source: Documentation/ABI/testing/dev-kmsg and kernel/printk/printk.c (msg_add_ext_text). The kernel escapes
the backslash and what is not printable ASCII as \\xNN. Lines that begin with a space are properties of the
device of the record before.
"""

from __future__ import annotations

import re
from dataclasses import replace

from healthcheck.baseline.formats.parsedlog import ParsedLog
from healthcheck.baseline.formats.unpack import shown
from healthcheck.facts.kernel import NO_PRIORITY, NO_TIME
from healthcheck.kernellog.model import LONGEST_LINE, BootLog, LogLine

RECORD = re.compile(r"(\d{1,6}),(\d{1,20}),(\d{1,18}),([^;\n]{0,200});(.*)", re.ASCII)
_ESCAPED = re.compile(r"(?:\\x[0-9a-f]{2})+")
_TO_ESCAPE = re.compile(r"[\x00-\x1f\x7f\\]")
_SUBSYSTEM = " SUBSYSTEM="
_CALLER = re.compile(r"\bcaller=([TC]\d{1,10})")


def read_kmsg(rows: list[str]) -> ParsedLog:
    """The records of these lines."""
    found = ParsedLog("kmsg", numbered=True)
    lines, raws, split = found.lines, found.raw, found.add
    for raw, record in zip(rows, map(RECORD.match, rows), strict=True):
        if record is None:
            if raw.startswith(_SUBSYSTEM) and lines:
                lines[-1] = replace(lines[-1], subsystem=raw[len(_SUBSYSTEM):][:64])
            elif raw and raw[0] != " ":
                found.others += 1
            continue
        priority, sequence, microseconds, flags, text = record.groups()
        if len(raw) > LONGEST_LINE:
            raw, text = raw[:LONGEST_LINE], text[:LONGEST_LINE]
            found.cut += 1
        level = int(priority)
        seconds: float | None = int(microseconds) / 1e6
        known: int | None = level & 7
        caller = ""
        if len(flags) > 1:
            caller = match[1] if (match := _CALLER.search(flags)) else ""
            seconds = None if NO_TIME in flags else seconds
            known = None if NO_PRIORITY in flags else known
        if "\\" in text:
            split(LogLine(unescape(text), seconds, known, int(sequence), level >> 3, caller), raw)
        else:
            lines.append(LogLine(text, seconds, known, int(sequence), level >> 3, caller))
            raws.append(raw)
    return found


def unescape(text: str) -> str:
    """Reverses the kernel's \\xNN, except for control characters such as a line feed."""
    return _ESCAPED.sub(_bytes, text)


def _bytes(match: re.Match[str]) -> str:
    return shown(bytes.fromhex(match[0].replace("\\x", "")).decode(errors="backslashreplace"))


def to_kmsg(log: BootLog) -> str:
    """The log's lines as records, for facts that read /dev/kmsg; `read` gives the same lines back. Without a
    time it carries that of the line before, or 0, and the flag `muster-notime`; without a priority 6 and
    `muster-nopriority`. Its number is the line's `sequence`."""
    records, last = [], 0
    for line in log.lines:
        flags = ["-"]
        if line.seconds is None:
            flags.append(NO_TIME)
        else:
            last = max(round(line.seconds * 1e6), 0)
        if line.priority is None:
            flags.append(NO_PRIORITY)
        if line.caller:
            flags.append(f"caller={line.caller}")
        level = line.facility << 3 | (6 if line.priority is None else line.priority)
        text = _TO_ESCAPE.sub(lambda match: f"\\x{ord(match[0]):02x}", line.text)
        records.append(f"{level},{line.sequence},{last},{','.join(flags)};{text}\n")
        if line.subsystem:
            records.append(f"{_SUBSYSTEM}{line.subsystem}\n")
    return "".join(records)
