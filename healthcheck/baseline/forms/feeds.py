"""Puts together again what a line feed in a user's text has parted, where a reader of the log gave each part a line of its own.

The kernel writes a record with line feeds to consoles, to netconsole and to syslog(2) as several lines of one time
(kernel/printk/printk.c, record_print_text); dmesg and journalctl indent the further ones, and leave them as they are where they print no
times. So a file's name with a line feed begins a line with whatever its owner likes. /dev/kmsg escapes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from healthcheck.baseline.forms.found import LINE_FEED, ParsedLog
from healthcheck.kernellog.model import LONGEST_LINE
from healthcheck.kernellog.quoting import USER, blanked, forms_of

if TYPE_CHECKING:
    from healthcheck.kernellog.quoting import Form

_RECORD = 2048      # bytes of one record at most: PRINTK_MESSAGE_MAX, kernel/printk/internal.h


def rejoined(found: ParsedLog) -> None:
    """Afterwards each record that quotes a user is one line, as far as what is saved shows which lines are of one record.

    They bear one time of the kernel's own clock, which counts microseconds, or are known to go on with a record. Where lines have neither,
    only what a form of quoting lines begins and ends with tells that it is one, and a quotation mark that is not closed: a user's text that
    holds such an end is then taken for it.
    """
    texts = [line.text for line in found.lines]
    forms = forms_of(texts)
    quoting = _quoting(texts, forms)
    timed = not found.wall and any(line.seconds is not None for line in found.lines)
    kept, raw, at = [], [], 0
    while at < len(texts):
        count = 1
        if quoting[at]:
            sure = timed or at + 1 in found.continued
            count = _of_one_record(texts[at:_end(found, at, texts, sure=sure)], forms, sure=sure)
        line, own = found.lines[at], found.raw[at]
        if count > 1:
            line = replace(line, text=LINE_FEED.join(texts[at:at + count])[:LONGEST_LINE])
            own = LINE_FEED.join(dict.fromkeys(found.raw[at:at + count]))[:LONGEST_LINE]
        kept.append(line)
        raw.append(own)
        at += count
    found.lines[:], found.raw[:] = kept, raw
    found.continued.clear()


def _quoting(texts: Sequence[str], forms: Sequence[Form]) -> list[bool]:
    """Of each line whether it, or one of those that may be of its record, holds a needle of some form."""
    if not forms:
        return [False] * len(texts)
    found, behind = [False] * len(texts), _RECORD
    for at in range(len(texts) - 1, -1, -1):
        behind = 0 if any(form[1] in texts[at] for form in forms) else behind + len(texts[at]) + 1
        found[at] = behind < _RECORD
    return found


def _end(found: ParsedLog, at: int, texts: Sequence[str], *, sure: bool) -> int:
    """Behind the last line that may be of one record with this one."""
    end, size, seconds = at + 1, len(texts[at]), found.lines[at].seconds
    while end < len(texts):
        size += len(texts[end]) + 1
        if size > _RECORD or (sure and end not in found.continued and not (seconds and found.lines[end].seconds == seconds)):
            break
        end += 1
    return end


def _of_one_record(texts: Sequence[str], forms: Sequence[Form], *, sure: bool) -> int:
    """How many of these lines are one record that quotes a user; 1 where none is. `sure`: they are of one record in any case.

    Then as many as fit a form are, for a user's text may look like its end. Else as few as do.
    """
    alone = blanked(texts[0], forms)
    quotes = alone != texts[0]
    open_ended = quotes and alone.endswith(USER)
    if sure and open_ended:
        return len(texts)
    if quotes and not sure and not open_ended:
        return 1
    counts = range(2, len(texts) + 1)
    for count in reversed(counts) if sure else counts:
        joined = "\n".join(texts[:count])
        made = blanked(joined, forms)
        if made != joined and "\n" not in made and not (open_ended and made.endswith(USER)):
            return count
    return _to_the_quote(texts) if open_ended else 1


def _to_the_quote(texts: Sequence[str]) -> int:
    """How many lines there are up to that with the quotation mark which the first one opens and does not close; 1 where none is."""
    for mark in ("'", '"'):
        if texts[0].count(mark) % 2:
            return next((count for count, text in enumerate(texts[1:], 2) if mark in text), 1)
    return 1
