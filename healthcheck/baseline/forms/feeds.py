"""Puts together again what a line feed in a user's text has parted, where a console or syslog(2) gave each part the record's time.

The kernel writes a record with line feeds to consoles, to netconsole and to syslog(2) as several lines of one time (kernel/printk/printk.c,
record_print_text), so that a file's name with a line feed begins a line with whatever its owner likes. /dev/kmsg escapes it.
"""

from __future__ import annotations

from dataclasses import replace

from healthcheck.baseline.forms.found import LINE_FEED, Found
from healthcheck.baseline.model import LONGEST_LINE
from healthcheck.kernellog.quoting import USER, blanked

_MOST = 16          # lines of one record


def rejoined(found: Found) -> None:
    """Afterwards each record that quotes a user is one line, if its lines bear one time of the kernel's own clock, which counts microseconds."""
    lines, raw, at = found.lines, found.raw, 0
    while at < len(lines) - 1:
        seconds = lines[at].seconds
        if seconds and lines[at + 1].seconds == seconds:
            most = next((n for n in range(2, min(_MOST, len(lines) - at)) if lines[at + n].seconds != seconds), min(_MOST, len(lines) - at))
            count = _of_one_record([line.text for line in lines[at:at + most]])
            if count > 1:
                lines[at] = replace(lines[at], text=LINE_FEED.join(line.text for line in lines[at:at + count])[:LONGEST_LINE])
                raw[at] = LINE_FEED.join(raw[at:at + count])[:LONGEST_LINE]
                del lines[at + 1:at + count], raw[at + 1:at + count]
        at += 1


def _of_one_record(texts: list[str]) -> int:
    """How many of these lines are one record that quotes a user; 1 where none is."""
    alone = blanked(texts[0])
    if alone != texts[0] and alone.endswith(USER):
        return len(texts)       # what the user chose is not ended
    if alone == texts[0]:
        for count in range(2, len(texts) + 1):
            joined = "\n".join(texts[:count])
            made = blanked(joined)
            if made != joined and "\n" not in made:
                return count
    return 1
