"""The catalogue of known faults: which entry, if any, knows a line. It reads no file.

A node writes some thousand different lines, and hardly one is a fault: the words that a pattern needs are
searched first. Of each word a few runs of characters are indexed, one of which begins at a multiple of the
step wherever the word stands in a text. A text is then looked up by its own runs at those places, not
searched for every word. Building that index costs as much as some dozens of texts, and similar healthy nodes
have fewer new ones: the first texts are searched for every word.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from healthcheck.config.pattern import Pattern
from healthcheck.kernellog.emitter import KERNEL, Emitter
from healthcheck.kernellog.model import LONGEST_LINE, CatalogueEntry
from healthcheck.kernellog.quoting import COMM, messages
from healthcheck.model.outcome import Severity

# Length of a run, and distance of a text's runs. A word needs size + step - 1 characters to contain one for
# certain: long words use the first pair, shorter ones the second, the shortest are searched.
_RUNS = ((4, 4), (3, 2))
_WITHOUT_RUNS = 64      # texts
WORST_FIRST = (Severity.CRITICAL, Severity.WARNING, Severity.INFO)
_WordIndex = dict[str, frozenset[int]]     # by word, the entries that need it


class CompiledEntry:
    """An entry with its patterns, compiled on first use."""

    __slots__ = ("_emitters", "_match", "_unless", "entry")

    def __init__(self, entry: CatalogueEntry) -> None:
        self.entry = entry
        self._emitters = entry.emitters or (KERNEL,)
        self._match = Pattern(entry.match)
        self._unless = Pattern(entry.unless) if entry.unless else None

    def possible(self, lower: str) -> bool:
        """Whether the lower-case text holds the words that the entry needs."""
        return all(any(word in lower for word in group) for group in self.entry.needs)

    def knows(self, text: str) -> bool:
        """Whether the entry knows a line in which users' parts are blanked."""
        return self.emitter(text) is not None

    def emitter(self, text: str) -> Emitter | None:
        """The emitter of this line (users' parts blanked) if the entry knows it; else None. A match that fits
        into the name of a process counts only if the line ends with it: unknown lines may begin with a
        name."""
        for emitter in self._emitters:
            prefix = emitter.prefix(text)
            end = self._match.begins(text, prefix.end()) if prefix is not None else -1
            if prefix is not None and (end > COMM or end == len(text)) \
                    and not (self._unless is not None and self._unless.found(text, prefix.end())):
                return emitter
        return None


@dataclass(frozen=True)
class Catalogue:
    """All entries in their order. One that a site has disabled can be explained, and knows no line."""

    entries: tuple[CatalogueEntry, ...]

    def find(self, text: str) -> CatalogueEntry | None:
        """The entry that knows this line (but for what a user chose in it), or None. Of several: one that
        yields to none of the others, then the worst, then the first."""
        found = [entry for message in messages(text[:LONGEST_LINE])
                 if (entry := self._find(message)) is not None]
        return min(found, key=lambda entry: WORST_FIRST.index(entry.severity), default=None)

    def _find(self, text: str) -> CatalogueEntry | None:
        lower = text.lower()
        few = next(self._lookups) < _WITHOUT_RUNS
        candidates = self._by_words(lower, self._entries_by_word) if few else self._by_runs(lower)
        known = [one.entry for one in (self._compiled[place] for place in sorted(candidates))
                 if one.possible(lower) and one.knows(text)]
        ids = {entry.id for entry in known}
        return next((entry for entry in known if ids.isdisjoint(entry.yields)), known[0] if known else None)

    @staticmethod
    def _by_words(lower: str, words: _WordIndex) -> set[int]:
        candidates: set[int] = set()
        for word, places in words.items():
            if word in lower:
                candidates |= places
        return candidates

    def _by_runs(self, lower: str) -> set[int]:
        candidates = self._by_words(lower, self._short_words)
        for (size, step), runs in zip(_RUNS, self._index, strict=True):
            for at in range(0, len(lower), step):
                for word, places in runs.get(lower[at:at + size], ()):
                    if word in lower:
                        candidates |= places
        return candidates

    def emitter(self, entry: CatalogueEntry, text: str) -> Emitter | None:
        """The emitter of this line if the entry knows it; else None."""
        known = self._by_entry[entry.id]
        return next(filter(None, map(known.emitter, messages(text[:LONGEST_LINE]))), None)

    def by_id(self, name: str) -> CatalogueEntry | None:
        """The entry of this id, or None."""
        return self._by_id.get(name)

    @cached_property
    def _lookups(self) -> Iterator[int]:
        """Counts the texts."""
        return itertools.count()

    @cached_property
    def _by_id(self) -> dict[str, CatalogueEntry]:
        return {entry.id: entry for entry in self.entries}

    @cached_property
    def _by_entry(self) -> dict[str, CompiledEntry]:
        return {known.entry.id: known for known in self._compiled}

    @cached_property
    def _compiled(self) -> list[CompiledEntry]:
        judged = (entry for entry in self.entries if not entry.disabled)
        return [CompiledEntry(entry)
                for entry in sorted(judged, key=lambda entry: WORST_FIRST.index(entry.severity))]

    @cached_property
    def _entries_by_word(self) -> _WordIndex:
        places: dict[str, set[int]] = {}
        for place, known in enumerate(self._compiled):
            for word in known.entry.needs[0] if known.entry.needs else ("",):
                places.setdefault(word, set()).add(place)
        return {word: frozenset(held) for word, held in places.items()}

    @cached_property
    def _short_words(self) -> _WordIndex:
        """Words too short for a run; the empty one belongs to entries that need no word."""
        return {word: held for word, held in self._entries_by_word.items() if _runs_of(word) is None}

    @cached_property
    def _index(self) -> tuple[dict[str, list[tuple[str, frozenset[int]]]], ...]:
        """For each of _RUNS, by run, the words that hold it with the entries that need them."""
        made: tuple[dict[str, list[tuple[str, frozenset[int]]]], ...] = tuple({} for _ in _RUNS)
        for which, (size, step) in enumerate(_RUNS):
            cut = {word: [word[at:at + size] for at in range(len(word) - size + 1)]
                   for word in self._entries_by_word if _runs_of(word) == which}
            common = Counter(run for runs in cut.values() for run in set(runs))
            for word, runs in cut.items():
                # Of so many consecutive runs one begins at a multiple of the step; rare ones select best.
                shared = [common[run] for run in runs]
                sums = list(map(sum, zip(*[shared[at:] for at in range(step)], strict=False)))
                best = sums.index(min(sums))
                for run in dict.fromkeys(runs[best:best + step]):
                    made[which].setdefault(run, []).append((word, self._entries_by_word[word]))
        return made


def _runs_of(word: str) -> int | None:
    """Which of _RUNS the word uses; None if it is too short for any."""
    return next((which for which, (size, step) in enumerate(_RUNS) if len(word) >= size + step - 1), None)

