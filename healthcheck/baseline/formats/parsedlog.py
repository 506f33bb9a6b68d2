"""What a reader found in a saved log, before it is split into boots."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from healthcheck.kernellog.model import LONGEST_LINE, LogLine
from healthcheck.kernellog.quoting import blanked, messages, same_emitter

NAMES_ITSELF = "Linux version "     # the kernel's first line of a boot begins so
LINE_FEED = "\\x0a"                 # as the kernel escapes it

# What a log of any format may lack and still be ordinary; each is a caveat.
START_MISSING = "the start of this boot is missing"
WALL_CLOCK = "its times are of a wall clock, and the start of the boot is not known"
NO_TIMES = "it gives no times"
LAST_LINE_OPEN = "the last line has no end, and may be cut"
ORDINARY_GAPS = frozenset((START_MISSING, WALL_CLOCK, NO_TIMES, LAST_LINE_OPEN))


@dataclass
class ParsedLog:
    """Lines in their order; `raw[i]` is the line that `lines[i]` was read from. `starts` gives the index of
    each line at which the log marks a boot's begin, with the boot's id or "". With `wall`, seconds are not
    since boot and only their differences mean anything. `numbered`: `sequence` is the kernel's number.
    `programs` counts lines of other programs, `others` lines of no known format, `cut` those that were too
    long, `blobs` messages that the file does not contain. `continued` are the indices of lines that continue
    the record before."""

    format: str
    lines: list[LogLine] = field(default_factory=list)
    raw: list[str] = field(default_factory=list)
    starts: dict[int, str] = field(default_factory=dict)
    wall: bool = False
    numbered: bool = False
    programs: int = 0
    others: int = 0
    cut: int = 0
    blobs: int = 0
    caveats: list[str] = field(default_factory=list)
    continued: set[int] = field(default_factory=set)

    def add(self, line: LogLine, raw: str) -> None:
        """Adds a line; one with line feeds becomes as many, as on consoles and in syslog, if all have one
        prefix and so are of one emitter: any other line feed may be a user's, and the record stays one
        line."""
        parts = [line.text]
        if "\n" in line.text:
            own = [part for part in line.text.split("\n") if part]
            parts = own if messages(line.text) == own else [line.text.replace("\n", LINE_FEED)]
        for part in parts:
            self.lines.append(line if part is line.text else replace(line, text=part))
            self.raw.append(raw)

    def follow(self, text: str, raw: str, sequence: int) -> bool:
        """Adds a further line of the last record: as its own (true) if of the same emitter, else as part."""
        last = self.lines[-1]
        if blanked(last.text) == last.text and same_emitter(last.text, text) and "\n" not in text:
            self.continued.add(len(self.lines))
            self.lines.append(replace(last, text=text, sequence=sequence))
            self.raw.append(raw)
            return True
        self.lines[-1] = replace(last, text=f"{last.text}{LINE_FEED}{text}"[:LONGEST_LINE])
        return False
