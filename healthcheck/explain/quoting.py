"""Finds the place in a file of a line taken from it, and makes quotes."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable

from healthcheck.explain.model import LONGEST_QUOTE, MOST_QUOTES, Quote
from inventory.text import clean

_TIME = re.compile(r"\[ {0,12}\d{1,12}\.\d{1,9}\] ")
_MARKED = 1 << 12       # lines between two marks


class LineIndex:
    """The text of a file, with line numbers by offset, counted from stored marks."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._marks: list[int] = []
        at, number = 0, 0
        while (at := text.find("\n", at)) >= 0:
            number += 1
            if number % _MARKED == 0:
                self._marks.append(at)
            at += 1

    def number(self, place: int) -> int:
        """The line that holds this character, from 1."""
        marked = bisect_left(self._marks, place)
        start = self._marks[marked - 1] if marked else 0
        return marked * _MARKED + self.text.count("\n", start, place) + (0 if marked else 1)

    def line(self, number: int) -> Quote:
        """The line of this number, from 1."""
        marked = min((number - 1) // _MARKED, len(self._marks))
        place = self._marks[marked - 1] + 1 if marked else 0
        for _ in range(number - 1 - marked * _MARKED):
            place = self.text.find("\n", place) + 1
            if not place:
                return Quote(number, "")
        return self.quote(place)

    def quote(self, place: int) -> Quote:
        """The line that holds this character."""
        start = (self.text.rfind("\n", max(0, place - LONGEST_QUOTE), place) + 1
                 or max(0, place - LONGEST_QUOTE))
        end = self.text.find("\n", place)
        return Quote(self.number(place), clean(self.text[start:end if end >= 0 else len(self.text)].strip(),
                                               LONGEST_QUOTE))

    def quotes(self, lines: Iterable[str], start: int = 0) -> tuple[Quote, ...]:
        """Quotes of the first few of these lines, which come from the text after `start`."""
        made = []
        for line in list(lines)[:MOST_QUOTES]:
            place = self._find(line, start)
            made.append(self.quote(place) if place >= 0 else Quote(0, clean(line.strip(), LONGEST_QUOTE)))
        return tuple(made)

    def _find(self, line: str, start: int) -> int:
        """The offset of the line that is equal once cleaned, with or without its time; else -1."""
        plain = line.replace("\\t", "\t").removesuffix("…")
        place = self.text.find(plain, start)
        return (place if place >= 0 or not (timed := _TIME.match(plain))
                else self.text.find(plain[timed.end():], start))
