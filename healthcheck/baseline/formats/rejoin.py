"""Rejoins records that a line feed in a user's text has split into several lines of a saved log.

The kernel writes a record with line feeds to consoles, to netconsole and to syslog(2) as several lines of one
time (kernel/printk/printk.c, record_print_text). dmesg and journalctl indent the further ones, unless they
print no times. A file's name with a line feed therefore begins a line with text of its owner's choice.
/dev/kmsg escapes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from healthcheck.baseline.formats.parsedlog import LINE_FEED, ParsedLog
from healthcheck.kernellog.model import LONGEST_LINE
from healthcheck.kernellog.quoting import USER, blanked, possible_patterns

if TYPE_CHECKING:
    from healthcheck.kernellog.quoting import QuotePattern

_RECORD = 2048      # bytes of one record at most: PRINTK_MESSAGE_MAX, kernel/printk/internal.h


def rejoin(found: ParsedLog) -> None:
    """Makes each record that quotes a user one line, as far as the saved log shows where it ends. Such lines
    have one time of the kernel's clock (microseconds), or are known to continue a record; else only a quoting
    pattern's begin and end, or an open quotation mark, shows it: a user's text that holds such an end is then
    taken for it."""
    texts = [line.text for line in found.lines]
    patterns = possible_patterns(texts)
    quoting = _quoting(texts, patterns)
    timed = not found.wall and any(line.seconds is not None for line in found.lines)
    kept, raw, at = [], [], 0
    while at < len(texts):
        count = 1
        if quoting[at]:
            certain = timed or at + 1 in found.continued
            count = _record_length(texts[at:_end(found, at, texts, certain=certain)], patterns,
                                   certain=certain)
        line, own = found.lines[at], found.raw[at]
        if count > 1:
            line = replace(line, text=LINE_FEED.join(texts[at:at + count])[:LONGEST_LINE])
            own = LINE_FEED.join(dict.fromkeys(found.raw[at:at + count]))[:LONGEST_LINE]
        kept.append(line)
        raw.append(own)
        at += count
    found.lines[:], found.raw[:] = kept, raw
    found.continued.clear()


def _quoting(texts: Sequence[str], patterns: Sequence[QuotePattern]) -> list[bool]:
    """For each line whether it, or a line that may be of its record, holds a pattern's needle."""
    if not patterns:
        return [False] * len(texts)
    found, behind = [False] * len(texts), _RECORD
    for at in range(len(texts) - 1, -1, -1):
        behind = 0 if any(form[1] in texts[at] for form in patterns) else behind + len(texts[at]) + 1
        found[at] = behind < _RECORD
    return found


def _end(found: ParsedLog, at: int, texts: Sequence[str], *, certain: bool) -> int:
    """The end of the lines that may be of one record with this one."""
    end, size, seconds = at + 1, len(texts[at]), found.lines[at].seconds
    while end < len(texts):
        size += len(texts[end]) + 1
        if (size > _RECORD or (certain and end not in found.continued
                               and not (seconds and found.lines[end].seconds == seconds))):
            break
        end += 1
    return end


def _record_length(texts: Sequence[str], patterns: Sequence[QuotePattern], *, certain: bool) -> int:
    """How many of these lines are one record that quotes a user; 1 if none is. `certain`: they are one record
    in any case, and the longest match counts, because a user's text may look like the end; else the
    shortest."""
    alone = blanked(texts[0], patterns)
    quotes = alone != texts[0]
    open_ended = quotes and alone.endswith(USER)
    if certain and open_ended:
        return len(texts)
    if quotes and not certain and not open_ended:
        return 1
    counts = range(2, len(texts) + 1)
    for count in reversed(counts) if certain else counts:
        joined = "\n".join(texts[:count])
        made = blanked(joined, patterns)
        if made != joined and "\n" not in made and not (open_ended and made.endswith(USER)):
            return count
    return _lines_to_quote(texts) if open_ended else 1


def _lines_to_quote(texts: Sequence[str]) -> int:
    """How many lines up to the one that closes the first line's open quotation mark; 1 if there is none."""
    for mark in ("'", '"'):
        if texts[0].count(mark) % 2:
            return next((count for count, text in enumerate(texts[1:], 2) if mark in text), 1)
    return 1
