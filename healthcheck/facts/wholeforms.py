"""Texts that consist of parts of known forms (healthcheck.facts.forms) and what stands between them, known at sight as a whole.

One look at a whole text costs a fraction of looks at its parts, and what does not depend on the values that differ is known with its form.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from healthcheck.facts.forms import Cut, Step, fitting, steps, values_of

T = TypeVar("T")
_MOST_FORMS, _VAIN, _LONGEST = 6, 64, 128 * 1024


class _Whole:
    """A form of whole texts: its pieces, what is known of it, and when it was last met."""

    def __init__(self, first: str, rest: Sequence[Step], base: Any) -> None:
        self.first, self.rest, self.base = first, rest, base
        self.used = 0


class Part(NamedTuple):
    """A part of a text: what stands before it, and where it is cut."""

    before: str
    cut: Cut


class WholeForms(Generic[T]):
    """Forms of texts, those first in which less may differ: of what fits several the most is then known."""

    def __init__(self) -> None:
        self._forms: list[_Whole] = []
        self._vain = 0
        self._clock = itertools.count(1)

    def __len__(self) -> int:
        return len(self._forms)

    def clear(self) -> None:
        """Forgets all of them."""
        self._forms, self._vain = [], 0

    def find(self, text: str) -> tuple[T, list[str], list[Any]] | None:
        """What is known of the form that the text has, and all values, as text and as JSON has them; None where it has none."""
        for form in self._forms:
            said = fitting(form.first, form.rest, text)
            if said is None:
                continue
            # A value that holds the end of a line, or the like, may be the end of a part.
            values = values_of(said) if "".join(said).isprintable() else None
            if values is None:
                return None
            self._vain, form.used = 0, next(self._clock)
            return form.base, said, values
        return None

    def learn(self, text: str, parts: Sequence[Part], end: str, make: Callable[[list[int]], T]) -> None:
        """Takes a text that has no form yet, and consists of these parts. `make` gives what is to be known of its form; it is told where
        among all values those of each part begin.
        """
        if self._vain >= _VAIN or len(text) > _LONGEST:
            return
        self._vain += 1
        pieces, tail, starts, count = [], "", [], 0
        for before, cut in parts:
            *whole, tail = tail + before + cut.first, *cut.rest
            pieces += whole
            starts.append(count)
            count += len(cut.rest)
        first, *rest = *pieces, tail + end
        said = fitting(first, steps(rest, [""] * len(rest)), text)
        if said is None:
            return
        form = _Whole(first, steps(rest, said), make(starts))
        form.used = next(self._clock)
        others = sorted(self._forms, key=lambda form: form.used)[-(_MOST_FORMS - 1):]
        self._forms = sorted([*others, form], key=lambda form: len(form.rest))
