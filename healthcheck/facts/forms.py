"""JSON texts that devices of one kind send again and again, known at sight: but for a few values they are equal to the letter.

Which values those are (a serial number, a temperature) is learned from the texts. A form is a text cut at them: a text that consists of
the form's pieces, with one JSON value between each two, says what the form says with these values in their places, for whether a value
may stand somewhere in JSON does not depend on which it is. What has no form is read as if there were none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from healthcheck.facts.text import remembered

T = TypeVar("T")
Path = tuple[str, ...]      # the keys that lead to a value, from the outermost
_MOST_KEYS, _MOST_FORMS, _VAIN = 256, 4, 64
_LONGEST, _LONGEST_VALUE, _SHORT, _DEEPEST = 32 * 1024, 4096, 256, 4
_COLON = '": '
_HOLE = "NaN"               # which no text that is learned from holds


class Cut(NamedTuple):
    """What stands before the first value and after each one, where in the document each is, and which part of the text begins with it."""

    first: str
    rest: tuple[str, ...]
    paths: tuple[Path, ...]
    numbers: tuple[int, ...]


class _Form(NamedTuple):
    """A text that was met, cut at the values that may differ."""

    text: str
    cut: Cut
    rest: list[Step]            # of the cut
    base: Any                   # what is known of it; None: the text was met once, and nothing is made of it yet


class Forms(Generic[T]):
    """Forms by a key that tells devices apart (a GPU's place, say); `allowed` says of which values a text may differ from its form."""

    def __init__(self, allowed: Callable[[Path], bool]) -> None:
        self._allowed = allowed
        self._known: dict[str, list[_Form]] = {}
        self._vain: dict[str, int] = {}

    def clear(self) -> None:
        """Forgets all of them."""
        self._known.clear()
        self._vain.clear()

    def find(self, key: str, text: str) -> tuple[T, list[str], list[Any]] | None:
        """What is known of the form that the text has, and the values, as text and as JSON has them; None where it has none."""
        for form in self._known.get(key, ()):
            if form.base is not None and (said := fitting(form.cut.first, form.rest, text)) is not None:
                values = values_of(said)
                if values is None:
                    return None
                if self._vain:
                    self._vain.pop(key, None)
                return form.base, said, values
        return None

    def learn(self, key: str, text: str, make: Callable[[Cut], T | None]) -> None:
        """Takes a text that has no form yet. `make` gives what is to be known of it where it is so cut; None: it may have no form."""
        vain = self._vain.get(key, 0)
        if vain >= _VAIN or len(key) > _SHORT or len(text) > _LONGEST or _HOLE in text or "Infinity" in text:
            return                      # the first: no two are alike, and learning costs more than reading
        if len(self._known) >= _MOST_KEYS:
            self.clear()
        self._vain[key] = vain + 1
        forms = self._known.get(key, [])
        for form in forms:
            cut = form.cut if form.text == text else _cut(form, text)
            if cut is not None and all(map(self._allowed, cut.paths)) and (base := make(cut)) is not None:
                rest = steps(cut.rest, [""] * len(cut.rest))
                self._known[key] = [_Form(text, cut, rest, base), *(other for other in forms if other is not form)]
                return
        self._known[key] = [_Form(text, Cut(text, (), (), ()), [], None), *forms[:_MOST_FORMS - 1]]


class Step(NamedTuple):
    """What stands behind a value, and how long both were when they were met."""

    piece: str
    length: int
    width: int


def steps(rest: Sequence[str], said: Sequence[str]) -> list[Step]:
    """The steps through a text of a form of these pieces, in which these values were met."""
    return [Step(piece, len(piece), len(value)) for piece, value in zip(rest, said, strict=True)]


def fitting(first: str, rest: Sequence[Step], text: str) -> list[str] | None:
    """What stands between these pieces in the text, which need not be JSON; None where the text does not consist of them.

    Where it may be cut in several ways this is one of them, and no value may be JSON in it.
    """
    if not text.startswith(first):
        return None
    at, said = len(first), []
    for piece, length, width in rest:
        end = at + width        # most values are as long as the one that was met
        if not text.startswith(piece, end):
            end = text.find(piece[0], at, at + _LONGEST_VALUE)
            if end < 0 or not text.startswith(piece, end):
                return None
        said.append(text[at:end])
        at = end + length
    return said if at == len(text) else None


def values_of(said: Sequence[str]) -> list[Any] | None:
    """The values that these texts are in JSON; None where one is none."""
    together = "".join(said)
    try:
        if not together.isascii() or not together.isprintable() or "\\" in together:
            return list(map(_parsed, said))
        # Whole numbers and strings, as most are, cost less than to ask JSON.
        return [int(one) if one.isdigit() and len(one) < 20 and (one[0] != "0" or one == "0")
                else one[1:-1] if one[:1] == '"' and one.find('"', 1) == len(one) - 1
                else _parsed(one) for one in said]
    except (ValueError, RecursionError):
        return None


@remembered(most=4096, longest=_SHORT)
def _parsed(text: str) -> Any:
    return json.loads(text)


def _cut(form: _Form, text: str) -> Cut | None:
    """The text cut where it differs from the form, and where the form is cut; None where that is not at values."""
    before, now = form.text.split(_COLON), text.split(_COLON)
    if len(before) != len(now):
        return None
    differ = {number for number, (one, other) in enumerate(zip(before, now, strict=True)) if one != other}
    numbers = tuple(sorted(differ.union(form.cut.numbers)))
    pieces, start, tail = [], 0, ""
    for number in numbers:
        held, said = before[number], now[number]
        ends = _end(held), _end(said)
        if not all(ends) or held[ends[0]:] != said[ends[1]:] or ends[1] == len(said) or said[ends[1]] in said[:ends[1]] or not number:
            return None
        pieces.append(_COLON.join([tail, *now[start + 1:number], ""]) if start else _COLON.join([*now[:number], ""]))
        start, tail = number, said[ends[1]:]
    pieces.append(_COLON.join([tail, *now[start + 1:]]))
    paths = _paths(pieces)
    return None if paths is None or not numbers else Cut(pieces[0], tuple(pieces[1:]), paths, numbers)


_decode = json.JSONDecoder().raw_decode


def _end(text: str) -> int:
    """Where the JSON value ends with which the text begins; 0 where it begins with none."""
    try:
        return _decode(text)[1]
    except (ValueError, RecursionError):
        return 0


def _paths(pieces: list[str]) -> tuple[Path, ...] | None:
    """Where the values between these pieces are, which must be JSON with any value between them; None where one is in no object."""
    holes: list[object] = []

    def hole(_: str) -> object:
        holes.append(object())
        return holes[-1]

    try:
        document = json.loads(_HOLE.join(pieces), parse_constant=hole)
    except (ValueError, RecursionError):
        return None
    found = dict(_walk(document, (), {id(one): at for at, one in enumerate(holes)}))
    return tuple(found[at] for at in range(len(holes))) if len(found) == len(holes) == len(pieces) - 1 else None


def _walk(document: Any, path: Path, holes: Mapping[int, int]) -> Iterator[tuple[int, Path]]:
    if type(document) is dict and len(path) < _DEEPEST:
        for key, value in document.items():
            if type(value) is dict:
                yield from _walk(value, (*path, key), holes)
            elif id(value) in holes:
                yield holes[id(value)], (*path, key)
