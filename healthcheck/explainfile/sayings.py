"""Sayings: what lines of a job's log mean, whom they accuse, and where in a text they stand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from healthcheck.baseline.pattern import Pattern
from healthcheck.explainfile.model import Sure
from healthcheck.outcome import Owner, Severity

_LONGEST = 8192         # characters of one line that are looked at
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


class Accused(Enum):
    """Whose fault a line tells of."""

    NODE = "node"           # the node, or the rank on it, that said it
    PEER = "peer"           # the other end that it names
    ADAPTER = "adapter"     # the network adapter of that node that it names


@dataclass(frozen=True)
class Saying:
    """One kind of line; `needs` are groups of words in lower case, of each of which one stands in every line that it matches.

    `symptom` and `job` are those of `model.Cause`. `file` and `line` say where it is from.
    """

    id: str
    match: str
    sure: Sure
    severity: Severity
    meaning: str
    remedy: str
    owner: Owner
    source: str
    examples: tuple[str, ...]
    needs: tuple[tuple[str, ...], ...]
    accuses: Accused = Accused.NODE
    symptom: bool = False
    job: bool = False
    file: str = ""
    line: int = 0
    overridden: tuple[str, ...] = ()
    disabled: str = ""

    @cached_property
    def _pattern(self) -> Pattern:
        return Pattern(self.match)

    def knows(self, text: str) -> bool:
        """Whether this is such a line."""
        return self._pattern.found(text)


@dataclass(frozen=True)
class Found:
    """A line that a saying knows, and the place of its first character in the text."""

    saying: Saying
    place: int
    text: str


def find(text: str, sayings: Sequence[Saying]) -> Iterator[Found]:
    """All lines that are known, each by the first saying that knows it; in the order of the sayings, then of the lines.

    What each saying needs is looked for in the whole text, so that a line that nobody knows costs next to nothing.
    """
    lower = (text if text.isascii() else _NOT_ASCII.sub("?", text)).lower()
    taken: set[int] = set()
    for saying in sayings:
        if saying.disabled:
            continue
        rarest = max(saying.needs, key=lambda words: min(map(len, words)))
        for start, end in sorted(set(_lines(lower, rarest))):
            if start not in taken and saying.knows(line := text[start:end]):
                taken.add(start)
                yield Found(saying, start, line)


def _lines(lower: str, words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Start and end of each line that holds one of these words; of a line without end, the part around the word."""
    for word in words:
        at = lower.find(word)
        while at >= 0:
            start = lower.rfind("\n", max(0, at - _LONGEST), at) + 1 or max(0, at - _LONGEST)
            end = lower.find("\n", at)
            end = len(lower) if end < 0 else end
            yield start, min(end, start + 2 * _LONGEST)
            at = lower.find(word, end)
