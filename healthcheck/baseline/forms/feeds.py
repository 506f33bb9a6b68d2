"""Puts together again what a line feed in a user's text has parted, where a reader of the log gave each part a line of its own.

The kernel writes a record with line feeds to consoles, to netconsole and to syslog(2) as several lines of one time
(kernel/printk/printk.c, record_print_text); dmesg and journalctl indent the further ones, and leave them as they are where they print no
times. So a file's name with a line feed begins a line with whatever its owner likes. /dev/kmsg escapes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from healthcheck.baseline.forms.found import LINE_FEED, Found
from healthcheck.baseline.model import LONGEST_LINE
from healthcheck.kernellog.quoting import USER, blanked, forms_of

if TYPE_CHECKING:
    from healthcheck.kernellog.quoting import Form

_MOST = 8           # lines of one record


def rejoined(found: Found) -> None:
    """Afterwards each record that quotes a user is one line, as far as what is saved shows which lines are of one record.

    They bear one time of the kernel's own clock, which counts microseconds, or are known to go on with a record. Where lines have neither
    time nor indentation, only what a form of quoting lines begins and ends with tells that it is one.
    """
    texts = [line.text for line in found.lines]
    forms = forms_of(texts)
    quoting = _quoting(texts, forms)
    timed = not found.wall and any(line.seconds is not None for line in found.lines)
    kept, raw, at = [], [], 0
    while at < len(texts):
        end = _end(found, at, timed) if quoting[at] else at + 1
        sure = timed or at + 1 in found.continued
        count = _of_one_record(texts[at:end], forms, sure=sure) if end > at + 1 else 1
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
    found, last = [False] * len(texts), len(texts) + _MOST
    for at in range(len(texts) - 1, -1, -1):
        if any(form[1] in texts[at] for form in forms):
            last = at
        found[at] = last - at < _MOST
    return found


def _end(found: Found, at: int, timed: bool) -> int:
    """Behind the last line that may be of one record with this one."""
    end, most, seconds = at + 1, min(at + _MOST, len(found.lines)), found.lines[at].seconds
    if not timed and not found.wall:
        return most
    while end < most and (end in found.continued or (timed and seconds and found.lines[end].seconds == seconds)):
        end += 1
    return end


def _of_one_record(texts: Sequence[str], forms: Sequence[Form], *, sure: bool) -> int:
    """How many of these lines are one record that quotes a user; 1 where none is. `sure`: they are of one record in any case."""
    alone = blanked(texts[0], forms)
    if alone != texts[0]:
        return len(texts) if sure and alone.endswith(USER) else 1     # what the user chose is not ended
    for count in range(2, len(texts) + 1):
        joined = "\n".join(texts[:count])
        made = blanked(joined, forms)
        if made != joined and "\n" not in made:
            return count
    return 1
