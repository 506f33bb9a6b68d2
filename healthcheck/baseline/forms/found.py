"""What one reader found in a saved log, before it is parted into boots."""

from __future__ import annotations

from dataclasses import dataclass, field

from healthcheck.baseline.model import Line

NAMES_ITSELF = "Linux version "     # how the kernel's own line at a boot's start begins


@dataclass
class Found:
    """Lines in their order; `raw[i]` is where `lines[i]` was read from.

    `starts` gives the index of each line with which the log itself says that a boot begins, and that boot's id, if it names one. With
    `wall`, seconds are not since boot, and only their differences mean anything. `numbered` is true where `sequence` is the kernel's own
    number. `programs` counts lines of other programs, `others` those that are neither, `cut` those that were too long, and `blobs`
    messages that the file does not show.
    """

    form: str
    lines: list[Line] = field(default_factory=list)
    raw: list[str] = field(default_factory=list)
    starts: dict[int, str] = field(default_factory=dict)
    wall: bool = False
    numbered: bool = False
    programs: int = 0
    others: int = 0
    cut: int = 0
    blobs: int = 0
    caveats: list[str] = field(default_factory=list)

    def add(self, line: Line, raw: str) -> None:
        """A line that holds line feeds becomes as many lines: so consoles and syslog show such a record."""
        if "\n" in line.text:
            for part in line.text.split("\n"):
                if part:
                    self.lines.append(Line(part, line.seconds, line.priority, line.sequence, line.facility, line.caller))
                    self.raw.append(raw)
            return
        self.lines.append(line)
        self.raw.append(raw)

    def follow(self, text: str, raw: str, sequence: int) -> None:
        """A further line of the record before."""
        last = self.lines[-1]
        self.add(Line(text, last.seconds, last.priority, sequence, last.facility, last.caller), raw)
