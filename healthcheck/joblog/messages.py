"""Known messages of job logs: their meaning, whom they accuse, and their places in a text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from healthcheck.config.pattern import Pattern
from healthcheck.joblog.meaning import Meaning

_LONGEST = 8192         # characters of one line that are looked at
_COMMON = 4             # letters of words that may stand in every line, so that it pays to count them
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


@dataclass(frozen=True, kw_only=True)
class KnownMessage(Meaning):
    """One kind of line, from `line` of `file`; of each group of words in `needs`, in lower case, one stands
    in every line that it matches."""

    match: str
    source: str
    examples: tuple[str, ...]
    needs: tuple[tuple[str, ...], ...]
    file: str = ""
    line: int = 0
    overridden: tuple[str, ...] = ()
    disabled: str = ""

    @property
    def by(self) -> str:
        """The source's name on a page."""
        return f"joblog {self.id}"

    @cached_property
    def _pattern(self) -> Pattern:
        return Pattern(self.match)

    def knows(self, text: str) -> bool:
        """Whether this is such a line."""
        return self._pattern.found(text)


@dataclass(frozen=True)
class MessageMatch:
    """A line that matches a known message, and its offset in the text."""

    message: KnownMessage
    place: int
    text: str


def find(text: str, messages: Sequence[KnownMessage]) -> Iterator[MessageMatch]:
    """All known lines, each by the first message that matches; in the order of the messages, then of the
    lines. What each message needs is looked for in the whole text, so that an unknown line costs next to
    nothing."""
    lower = (text if text.isascii() else _NOT_ASCII.sub("?", text)).lower()
    taken: set[int] = set()
    for message in messages:
        if message.disabled:
            continue
        rarest = max(message.needs, key=lambda words: min(map(len, words)))
        if len(message.needs) > 1 and min(map(len, rarest)) <= _COMMON:
            rarest = min(message.needs, key=lambda words: sum(map(lower.count, words)))
        others = [words for words in message.needs if words is not rarest]
        for start, end in sorted(set(_lines(lower, rarest))):
            if (start in taken or not all(any(lower.find(word, start, end) >= 0 for word in words)
                                          for words in others)):
                continue
            if message.knows(line := text[start:end]):
                taken.add(start)
                yield MessageMatch(message, start, line)


def _lines(lower: str, words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Start and end of each line with one of these words; without line ends, of the part around it."""
    for word in words:
        at = lower.find(word)
        while at >= 0:
            start = lower.rfind("\n", max(0, at - _LONGEST), at) + 1 or max(0, at - _LONGEST)
            end = lower.find("\n", at)
            end = len(lower) if end < 0 else end
            yield start, min(end, start + 2 * _LONGEST)
            at = lower.find(word, end)
