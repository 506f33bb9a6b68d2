"""The catalogue of known faults: which entry, if any, knows a line. It reads no file and holds for what it was given alone.

A node says some thousand different lines, and hardly one is a fault: so what each pattern needs is looked for first. Of a needed word a
few runs of characters are kept, one of which begins at a multiple of STEP wherever the word stands in a text; a text is then asked for its
own runs at those places, not for every word. Making those runs costs what some dozens of texts cost without them, and healthy nodes alike
say no more than that which is new: so the first texts are asked for every word.
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

# How long a run is, and how far apart a text's runs are. A word has one of them if it has size + step - 1 characters: the longer ones are
# looked for by the first, the others by the second, or by themselves.
_RUNS = ((4, 4), (3, 2))
_WITHOUT_RUNS = 64      # texts
_WORST_FIRST = (Severity.CRITICAL, Severity.WARNING, Severity.INFO)
_Places = dict[str, frozenset[int]]     # by word, the entries that need it


class CompiledEntry:
    """An entry with its patterns, compiled when they are first needed."""

    __slots__ = ("_emitters", "_match", "_unless", "entry")

    def __init__(self, entry: CatalogueEntry) -> None:
        self.entry = entry
        self._emitters = entry.emitters or (KERNEL,)
        self._match = Pattern(entry.match)
        self._unless = Pattern(entry.unless) if entry.unless else None

    def possible(self, lower: str) -> bool:
        """Whether the text, in lower case, holds what the entry needs."""
        return all(any(word in lower for word in group) for group in self.entry.needs)

    def knows(self, text: str) -> bool:
        """Whether a line, what users chose in it blanked, is what the entry means."""
        return self.emitter(text) is not None

    def emitter(self, text: str) -> Emitter | None:
        """The emitter as whose message the entry knows this line, what users chose in it blanked; None where it does not.

        What fits into the name of a process is not enough, unless the line ends with it: there may be lines that begin with one and are of
        no form that we know.
        """
        for emitter in self._emitters:
            prefix = emitter.prefix(text)
            end = self._match.begins(text, prefix.end()) if prefix is not None else -1
            if prefix is not None and (end > COMM or end == len(text)) \
                    and not (self._unless is not None and self._unless.found(text, prefix.end())):
                return emitter
        return None


@dataclass(frozen=True)
class Catalogue:
    """All entries, in the order in which they stand. One that a site has disabled is there to be explained, and knows nothing."""

    entries: tuple[CatalogueEntry, ...]

    def find(self, text: str) -> CatalogueEntry | None:
        """The entry that knows this line: of several one that yields to none of them, the worst, and of equals the first; else None.

        What a user chose in the line counts for nothing.
        """
        found = [entry for message in messages(text[:LONGEST_LINE]) if (entry := self._find(message)) is not None]
        return min(found, key=lambda entry: _WORST_FIRST.index(entry.severity), default=None)

    def _find(self, text: str) -> CatalogueEntry | None:
        lower = text.lower()
        asked = self._of_words(lower, self._places) if next(self._asked) < _WITHOUT_RUNS else self._of_runs(lower)
        known = [one.entry for one in (self._ranked[place] for place in sorted(asked)) if one.possible(lower) and one.knows(text)]
        ids = {entry.id for entry in known}
        return next((entry for entry in known if ids.isdisjoint(entry.yields)), known[0] if known else None)

    @staticmethod
    def _of_words(lower: str, words: _Places) -> set[int]:
        asked: set[int] = set()
        for word, places in words.items():
            if word in lower:
                asked |= places
        return asked

    def _of_runs(self, lower: str) -> set[int]:
        asked = self._of_words(lower, self._alone)
        for (size, step), runs in zip(_RUNS, self._index, strict=True):
            for at in range(0, len(lower), step):
                for word, places in runs.get(lower[at:at + size], ()):
                    if word in lower:
                        asked |= places
        return asked

    def emitter(self, entry: CatalogueEntry, text: str) -> Emitter | None:
        """As whose message the entry knows this line; None where it does not."""
        known = self._by_entry[entry.id]
        return next(filter(None, map(known.emitter, messages(text[:LONGEST_LINE]))), None)

    def by_id(self, name: str) -> CatalogueEntry | None:
        """The entry of this id; None where there is none."""
        return self._by_id.get(name)

    @cached_property
    def _asked(self) -> Iterator[int]:
        """Counts the texts."""
        return itertools.count()

    @cached_property
    def _by_id(self) -> dict[str, CatalogueEntry]:
        return {entry.id: entry for entry in self.entries}

    @cached_property
    def _by_entry(self) -> dict[str, CompiledEntry]:
        return {known.entry.id: known for known in self._ranked}

    @cached_property
    def _ranked(self) -> list[CompiledEntry]:
        judged = (entry for entry in self.entries if not entry.disabled)
        return [CompiledEntry(entry) for entry in sorted(judged, key=lambda entry: _WORST_FIRST.index(entry.severity))]

    @cached_property
    def _places(self) -> _Places:
        places: dict[str, set[int]] = {}
        for place, known in enumerate(self._ranked):
            for word in known.entry.needs[0] if known.entry.needs else ("",):
                places.setdefault(word, set()).add(place)
        return {word: frozenset(held) for word, held in places.items()}

    @cached_property
    def _alone(self) -> _Places:
        """Words too short for a run; the empty one is that of entries which need none."""
        return {word: held for word, held in self._places.items() if _runs_of(word) is None}

    @cached_property
    def _index(self) -> tuple[dict[str, list[tuple[str, frozenset[int]]]], ...]:
        """For each of _RUNS, by run the words that hold it, with the entries that need them."""
        made: tuple[dict[str, list[tuple[str, frozenset[int]]]], ...] = tuple({} for _ in _RUNS)
        for which, (size, step) in enumerate(_RUNS):
            cut = {word: [word[at:at + size] for at in range(len(word) - size + 1)]
                   for word in self._places if _runs_of(word) == which}
            common = Counter(run for runs in cut.values() for run in set(runs))
            for word, runs in cut.items():
                # Of so many one after another one begins at a multiple of the step; those that few other words hold tell most.
                shared = [common[run] for run in runs]
                sums = list(map(sum, zip(*[shared[at:] for at in range(step)], strict=False)))
                best = sums.index(min(sums))
                for run in dict.fromkeys(runs[best:best + step]):
                    made[which].setdefault(run, []).append((word, self._places[word]))
        return made


def _runs_of(word: str) -> int | None:
    """Which of _RUNS it is looked for by; None where it is too short for any."""
    return next((which for which, (size, step) in enumerate(_RUNS) if len(word) >= size + step - 1), None)

