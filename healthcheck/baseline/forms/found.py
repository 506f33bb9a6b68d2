"""What one reader found in a saved log, before it is parted into boots."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from healthcheck.kernellog.model import LONGEST_LINE, LogLine
from healthcheck.kernellog.quoting import blanked, goes_on, messages

NAMES_ITSELF = "Linux version "     # how the kernel's own line at a boot's start begins


LINE_FEED = "\\x0a"      # as the kernel writes it


@dataclass
class ParsedLog:
    """Lines in their order; `raw[i]` is where `lines[i]` was read from.

    `starts` gives the index of each line with which the log itself says that a boot begins, and that boot's id, if it names one. With
    `wall`, seconds are not since boot, and only their differences mean anything. `numbered` is true where `sequence` is the kernel's own
    number. `programs` counts lines of other programs, `others` those that are neither, `cut` those that were too long, and `blobs`
    messages that the file does not show. `continued` are the indices of lines that go on with the record of the line before.
    """

    form: str
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
        """A line that holds line feeds becomes as many lines: so consoles and syslog show such a record.

        Only lines that begin with one prefix are of one emitter: any other line feed may be a user's, and the record stays one line.
        """
        parts = [line.text]
        if "\n" in line.text:
            own = [part for part in line.text.split("\n") if part]
            parts = own if messages(line.text) == own else [line.text.replace("\n", LINE_FEED)]
        for part in parts:
            self.lines.append(line if part is line.text else replace(line, text=part))
            self.raw.append(raw)

    def follow(self, text: str, raw: str, sequence: int) -> bool:
        """A further line of the record before: one of its own (true) where it is of the same emitter, else a part of it."""
        last = self.lines[-1]
        if blanked(last.text) == last.text and goes_on(last.text, text) and "\n" not in text:
            self.continued.add(len(self.lines))
            self.lines.append(replace(last, text=text, sequence=sequence))
            self.raw.append(raw)
            return True
        self.lines[-1] = replace(last, text=f"{last.text}{LINE_FEED}{text}"[:LONGEST_LINE])
        return False
