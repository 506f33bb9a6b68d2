"""Splits the lines of a saved log into boots, counts seconds from their start, notes what is missing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from healthcheck.baseline.formats.parsedlog import (
    NAMES_ITSELF,
    NO_TIMES,
    START_MISSING,
    WALL_CLOCK,
    ParsedLog,
)
from healthcheck.kernellog.model import LONGEST_LINE, BootLog, LogLine
from healthcheck.kernellog.provenance import marked

MOST_BOOTS = 200        # of one file
_EARLY = 50             # lines that may come before a boot names its kernel: the first CPU, early microcode
_NEAR_ZERO = 1.0        # seconds since boot that only the start of a boot has
_STRAY = 3              # lines that one CPU may write with a time of its own
_SOON = 5.0
_FALL = 1.0             # seconds that lines of several CPUs may be out of order
_DROPPED = re.compile(
    r"\*\* (\d{1,9}) printk messages dropped|printk: (\d{1,9}) messages dropped|/dev/kmsg buffer overrun")


def boot_logs(found: ParsedLog) -> tuple[BootLog, ...]:
    """One BootLog for each boot, in the order of the file."""
    if not found.lines:
        return ()
    starts = _starts(found)
    kept = starts[:MOST_BOOTS]
    caveats = _of_the_file(found)
    if len(starts) > MOST_BOOTS:
        caveats.append(
            f"the file holds {len(starts)} boots; the last {len(starts) - MOST_BOOTS + 1} were read as one")
    ends = [*kept[1:], len(found.lines)]
    return tuple(
        _log(found, start, end, found.starts.get(start, ""), caveats)
        for start, end in zip(kept, ends, strict=True) if end > start
    )


def _starts(found: ParsedLog) -> list[int]:
    """The index of the first line of each boot: where the log marks it, where the kernel names itself, and
    where time falls back to nearly 0. Lines before the kernel names itself are of the boot only by another of
    these."""
    starts = [0]
    named = False
    last: float | None = None
    sequence = -1
    for index, line in enumerate(found.lines):
        seconds, begins = line.seconds, False
        if index in found.starts:
            begins = index > 0
        elif seconds is not None and last is not None and seconds < last - _FALL and not found.wall:
            begins = (line.sequence < sequence if found.numbered else seconds < _NEAR_ZERO
                      and not _time_continues(found.lines, index, last))
        if begins:
            starts.append(index)
            named = False
            last = None
        if line.text.startswith(NAMES_ITSELF) and line.facility == 0:
            if named or index - starts[-1] > _EARLY:
                starts.append(index)
            named = True
        if seconds is not None:
            last = seconds
        sequence = line.sequence
    return sorted(set(starts))


def _time_continues(lines: Sequence[LogLine], index: int, last: float) -> bool:
    """Whether time continues right after this line as before: a starting CPU may write with the time 0."""
    after = lines[index:index + 1 + _STRAY]
    return any(line.seconds is not None and last < line.seconds <= last + _SOON for line in after) \
        and not any(line.text.startswith(NAMES_ITSELF) for line in after)


def _log(found: ParsedLog, start: int, end: int, boot: str, caveats: Sequence[str]) -> BootLog:
    lines = [line if not line.facility else replace(line, text=marked(line.text, line.facility))
             for line in found.lines[start:end]]
    whole = any(line.text.startswith(NAMES_ITSELF) for line in lines[:_EARLY + 1])
    caveats_here = []
    if found.numbered and lines[0].sequence > 0:
        caveats_here.append(f"the {lines[0].sequence} oldest records of this boot are gone")
    elif not whole:
        caveats_here.append(START_MISSING)
    if found.numbered:
        caveats_here.extend(_gaps(lines))
    if found.wall:
        lines = _rebased(lines, whole)
        if not whole:
            caveats_here.append(WALL_CLOCK)
    elif all(line.seconds is None for line in lines):
        caveats_here.append(NO_TIMES)
    caveats_here.extend(_dropped(lines))
    notes = (f"{found.programs} lines of other programs were left out",) if found.programs else ()
    return BootLog(tuple(lines), tuple(found.raw[start:end]), found.format, (*caveats_here, *caveats),
                   boot, notes)


def _rebased(lines: Sequence[LogLine], whole: bool) -> list[LogLine]:
    """Seconds since the boot's first line if it is in the file, else None. Time never goes back."""
    first = next((line.seconds for line in lines if line.seconds is not None), None)
    at = 0.0
    found = []
    for line in lines:
        seconds = None
        if whole and first is not None and line.seconds is not None:
            seconds = at = max(at, round(line.seconds - first, 6))
        found.append(replace(line, seconds=seconds))
    return found


def _gaps(lines: Sequence[LogLine]) -> list[str]:
    # A record that holds line feeds is several lines of one number.
    lost = [later.sequence - line.sequence - 1 for line, later in pairwise(lines)
            if later.sequence - line.sequence > 1]
    return [f"{sum(lost)} records are missing, in {len(lost)} places"] if lost else []


def _dropped(lines: Sequence[LogLine]) -> list[str]:
    count = times = 0
    for line in lines:
        if ("dropped" in line.text or "overrun" in line.text) and (notes := _DROPPED.search(line.text)):
            times += 1
            count += int(notes[1] or notes[2] or 0)
    if not times:
        return []
    return [f"the kernel says that messages were dropped: {count or 'some'}, in {times} places"]


def _of_the_file(found: ParsedLog) -> list[str]:
    notes = list(found.caveats[:10])
    if found.others:
        notes.append(f"{found.others} lines of no known format were left out")
    if found.cut:
        notes.append(f"{found.cut} lines were longer than {LONGEST_LINE} characters, and cut")
    if found.blobs:
        notes.append(f"{found.blobs} messages are not in the file: journalctl shows them as blob data "
                     "(-o export has them, and --all)")
    return notes
