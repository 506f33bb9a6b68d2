"""The catalogue of known faults: which entry, if any, knows a line. It reads no file and holds for what it was given alone.

A node says some thousand different lines, and hardly one is a fault: so what each pattern needs is looked for first. Of each needed
word four runs of four characters are kept, one of which begins at a multiple of four wherever the word stands in a text; a text is then
asked for every fourth of its own runs, not for every word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from healthcheck.baseline.model import LONGEST_LINE, Entry
from healthcheck.baseline.pattern import Pattern
from healthcheck.outcome import Severity

_STEP = 4
_WINDOW = 2 * _STEP - 1
_WORST_FIRST = (Severity.CRITICAL, Severity.WARNING, Severity.INFO)


class Known:
    """An entry with its patterns, compiled when they are first needed."""

    __slots__ = ("_match", "_unless", "entry")

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self._match = Pattern(entry.match)
        self._unless = Pattern(entry.unless) if entry.unless else None

    def knows(self, text: str) -> bool:
        """Whether the text of a line is what the entry means."""
        return self._match.found(text) and not (self._unless is not None and self._unless.found(text))


@dataclass(frozen=True)
class Catalogue:
    """All entries, in the order in which they stand. One that a site has disabled is there to be explained, and knows nothing."""

    entries: tuple[Entry, ...]

    def find(self, text: str) -> Entry | None:
        """The entry that knows this line: of several the worst, and of equals the first; None where none does."""
        text = text[:LONGEST_LINE]
        lower = text.lower()
        runs, short, always = self._index
        asked = set(always)
        for at in range(0, len(lower), _STEP):
            for word, places in runs.get(lower[at:at + _STEP], ()):
                if word in lower:
                    asked |= places
        for word, places in short:
            if word in lower:
                asked |= places
        for place in sorted(asked):
            if self._ranked[place].knows(text):
                return self._ranked[place].entry
        return None

    def by_id(self, name: str) -> Entry | None:
        """The entry of this id; None where there is none."""
        return self._by_id.get(name)

    @cached_property
    def _by_id(self) -> dict[str, Entry]:
        return {entry.id: entry for entry in self.entries}

    @cached_property
    def _ranked(self) -> list[Known]:
        judged = (entry for entry in self.entries if not entry.disabled)
        return [Known(entry) for entry in sorted(judged, key=lambda entry: _WORST_FIRST.index(entry.severity))]

    @cached_property
    def _index(self) -> tuple[dict[str, list[tuple[str, frozenset[int]]]], list[tuple[str, frozenset[int]]], frozenset[int]]:
        """By run of characters the words that hold it, with the places of the entries that need them; short words; and who needs none."""
        places: dict[str, set[int]] = {}
        always = set()
        for place, known in enumerate(self._ranked):
            for word in known.entry.needs:
                places.setdefault(word, set()).add(place)
            if not known.entry.needs:
                always.add(place)
        common = Counter(run for word in places for run in set(_runs(word)))
        runs: dict[str, list[tuple[str, frozenset[int]]]] = {}
        short = []
        for word, held in places.items():
            item = (word, frozenset(held))
            if len(word) < _WINDOW:
                short.append(item)
                continue
            # What few other words hold tells most.
            window = min((word[at:at + _WINDOW] for at in range(len(word) - _WINDOW + 1)),
                         key=lambda window: sum(common[run] for run in _runs(window)))
            for run in dict.fromkeys(_runs(window)):
                runs.setdefault(run, []).append(item)
        return runs, short, frozenset(always)


def _runs(word: str) -> Iterator[str]:
    return (word[at:at + _STEP] for at in range(len(word) - _STEP + 1))
