"""Reads a saved kernel log in any published format, which its content shows and never its name.

    bytes -> unpack -> lines -> the format of most lines -> ParsedLog -> one BootLog for each boot

Formats: /dev/kmsg; dmesg, with -x, -r, -T, -d, -H, -t, -J, --time-format; journalctl -o short and its
variants, cat, json, export, verbose; syslog (RFC 3164, RFC 5424, rsyslog's ISO times); Ubuntu's
/var/log/dmesg; consoles; the dmesg in nvidia-bug-report.log; packed by gzip, xz or bzip2. Only its prefix
makes a line a record of its own: whatever a record's text imitates stays part of that text.

No `LogLine.text` and no `raw` holds a line end, or a control character but tabs. A record that holds line
feeds is several lines.

Times are seconds since boot. If a format has only a wall clock, they are seconds since the boot's first line,
if that is in the file (the kernel names itself there), else None.
"""

from __future__ import annotations

import re

from healthcheck.baseline.formats.boots import boot_logs
from healthcheck.baseline.formats.journal import EXPORT, read_dmesg_json, read_export, read_json, read_verbose
from healthcheck.baseline.formats.kmsg import RECORD, read_kmsg, to_kmsg
from healthcheck.baseline.formats.lines import FORMATS, MONOTONIC, PLAIN, LineFormat, read_lines, read_text
from healthcheck.baseline.formats.parsedlog import LAST_LINE_OPEN, ParsedLog
from healthcheck.baseline.formats.rejoin import rejoin
from healthcheck.baseline.formats.unpack import MIB, MOST_BYTES, plain, unpack
from healthcheck.kernellog.model import LONGEST_LINE, BootLog
from inventory.errors import UsageError

__all__ = ["MIB", "MOST_BYTES", "read", "to_kmsg"]

_SAMPLE = 500           # lines at the start, and as many over the whole
_ENTRY = re.compile(r"(?P<json>(?:data: |\\x1e)?\{\"|\{$)|(?P<export>__(?:CURSOR|REALTIME_TIMESTAMP)=)"
                    r"|(?P<verbose>\S{1,12} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6} .{0,20}"
                    r"\[s=[0-9a-f]{1,32};i=)")
_DMESG_JSON = re.compile(r"\s{0,8}\"dmesg\": ?\[")
_KERNEL = re.compile(r"\] (?:\S{1,255} )?kernel: ")
# A node's name before a line of dmesg or of /dev/kmsg.
_NODE_PREFIX = re.compile(r"([A-Za-z0-9][\w.-]{0,252}:) ?(?=(?:<\d{1,4}>)?\[[ <]{0,12}\d{1,12}\.\d{1,9}[\] ]"
                        r"|\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]?\d \d\d:"
                        r"|\d{1,4},\d{1,20},\d{1,20},)", re.ASCII)
_NVIDIA = "Start of NVIDIA bug report log file"
_SECTION = re.compile(r"^_{20,60}\n\n?(?:\S{0,40}/)?dmesg\b[^\n]{0,40}\n", re.MULTILINE)


def read(data: bytes, name: str) -> tuple[BootLog, ...]:
    """The boots that the file holds, in its order; none if no line is the kernel's. UsageError if the file,
    by `name`, is longer than MOST_BYTES unpacked, or damaged."""
    data, caveats = unpack(data, name)
    text, changed = plain(data)
    if _NVIDIA in text[:4000]:
        text = _bug_report(text)
    if text and not text.endswith("\n"):
        changed.append(LAST_LINE_OPEN)
    rows = _without_node_name(text.split("\n"), name)
    found = _read(rows, data, console=data.count(b"\r\n") * 2 > len(rows))
    if not found.numbered:
        rejoin(found)
    # An export counts its bytes, and holds any.
    found.caveats[:0] = caveats if found.format == EXPORT else caveats + changed
    return boot_logs(found)


def _without_node_name(rows: list[str], name: str) -> list[str]:
    """The lines without the node's name that pdsh and clush put before each; UsageError for several nodes."""
    sample = [row for row in rows[:_SAMPLE] if row]
    if sum(_NODE_PREFIX.match(row) is not None for row in sample) * 2 <= len(sample):
        return rows
    nodes = {found[1] for row in rows if (found := _NODE_PREFIX.match(row))}
    if len(nodes) > 1:
        raise UsageError(
            f"{name}: holds lines of {len(nodes)} nodes; give one file a node (dshbak -d FOLDER writes them)")
    (node,) = nodes
    return [row.removeprefix(node).removeprefix(" ") if row.startswith(node) else row for row in rows]


def _read(rows: list[str], data: bytes, *, console: bool) -> ParsedLog:
    form = _detect_format(rows)
    if isinstance(form, LineFormat):
        return read_lines(form, rows, console=console)
    if form == "export":
        return read_export(data)
    readers = {"kmsg": read_kmsg, "json": read_json, "verbose": read_verbose, "dmesg --json": read_dmesg_json}
    return readers.get(form, read_text)(rows)


def _detect_format(rows: list[str]) -> LineFormat | str:
    """The format of most lines that have one."""
    if any(_DMESG_JSON.match(row) for row in rows[:10]):
        return "dmesg --json"
    votes: dict[LineFormat | str, int] = {}
    sample = rows[:_SAMPLE] + rows[_SAMPLE::max(1, len(rows) // _SAMPLE)]
    named = 0
    for row in sample:
        row = row[:LONGEST_LINE]
        kind = _format_of(row)
        if kind:
            votes[kind] = votes.get(kind, 0) + 1
        named += kind is PLAIN and _KERNEL.search(row[:300]) is not None
    if not votes:
        return "text"
    # A line with a host and a program after the time is also plain dmesg, whose text may hold a colon.
    if named * 2 > votes.get(PLAIN, 0):
        votes[MONOTONIC] = votes.pop(PLAIN)
    return max(votes, key=lambda form: votes[form])


def _format_of(row: str) -> LineFormat | str:
    if RECORD.match(row):
        return "kmsg"
    if entry := _ENTRY.match(row):
        return entry.lastgroup or ""
    return next((form for form in FORMATS if form is not MONOTONIC and form.pattern.match(row)), "")


def _bug_report(text: str) -> str:
    """The section of NVIDIA's report that holds what dmesg printed (nvidia-bug-report.sh)."""
    section = _SECTION.search(text)
    if section is None:
        return ""
    end = text.find("\n____________________", section.end())
    return text[section.end():end + 1 if end >= 0 else len(text)]
