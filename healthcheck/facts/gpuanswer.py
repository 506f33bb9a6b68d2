"""The NVML reader's answer: its first line, and one of each GPU (healthcheck.facts.gpuline).

Two looks at nodes of one kind differ in a few values of each GPU, and lines of known forms make an answer of a known form. What is
made of it and reads none of the values that differ is then the very same for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar, cast

from healthcheck.facts.gpuline import Formed, Known, Line, Sent, sent
from healthcheck.facts.text import lines_of
from healthcheck.facts.values import Unread
from healthcheck.facts.wholeforms import Part, WholeForms

T = TypeVar("T")


class AnswerForm:
    """What is known of answers of one form: the first line, and of each other what is known of it and where its own values begin.

    `made` holds by the function what was made of the lines of such an answer: by those that read none of the values in which they differ.
    """

    def __init__(self, head: Line, known: Sequence[Known], starts: Sequence[int]) -> None:
        self.head = head
        self.lines = list(zip(known, starts, strict=True))
        self.made: dict[Callable[..., Any], Any] = {}

    def of_all(self, make: Callable[[Sequence[Line]], Any]) -> Any:
        """What `make` makes of the lines of every answer of this form; _EACH where it asks for a value of their own: none is given."""
        try:
            return make([Formed(known, _WITHHELD, _WITHHELD, start) for known, start in self.lines])  # type: ignore[arg-type]
        except _AskedForOwnError:
            return _EACH


class _AskedForOwnError(BaseException):
    """A value was asked for in which answers of one form differ. Nobody who makes facts of them catches it."""


class _Withheld:
    """In the place of the values in which answers differ."""

    def __getitem__(self, _: int) -> Any:
        raise _AskedForOwnError


_WITHHELD, _EACH = _Withheld(), object()


class Answer(NamedTuple):
    """What the reader said, and the form of it where it has one that is known."""

    head: Line
    gpus: Sequence[Line]
    form: AnswerForm | None

    def once(self, make: Callable[[Sequence[Line]], T]) -> T:
        """What `make` makes of the GPUs' lines; made once for all answers of this form where it reads nothing in which they differ."""
        form = self.form
        if form is None:
            return make(self.gpus)
        if make not in form.made:
            form.made[make] = form.of_all(make)
        known = form.made[make]
        return make(self.gpus) if known is _EACH else cast(T, known)


_FORMS: WholeForms[AnswerForm] = WholeForms()
_TUPLES: dict[tuple[int, ...], tuple[Any, ...]] = {}
_MOST_TUPLES, _LONGEST_TUPLE = 64, 512


def very_same(facts: tuple[T, ...]) -> tuple[T, ...]:
    """The tuple of the very same facts that was there before, if there was one: who knows it need not look at what is in it."""
    if len(facts) > _LONGEST_TUPLE:
        return facts
    key = tuple(map(id, facts))
    if key not in _TUPLES and len(_TUPLES) >= _MOST_TUPLES:
        _TUPLES.clear()
    return _TUPLES.setdefault(key, facts)       # which keeps them, so that no others get their numbers


@lru_cache(maxsize=2)
def read(text: str) -> Answer:
    """The reader's lines, parsed once for all the facts of one node; raises Unread where it has said nothing, ValueError for no JSON."""
    found = _FORMS.find(text)
    if found is not None:
        form, said, values = found
        return Answer(form.head, [Formed(known, said, values, start) for known, start in form.lines], form)
    texts = lines_of(text)
    lines = [sent(line) for line in texts]
    if not lines or not all(isinstance(line, (dict, Sent, Formed)) for line in lines):
        raise Unread("the NVML reader's answer is empty or not of our form")
    head, *gpus = lines
    known = [line.known for line in gpus if type(line) is Formed]
    if known and len(known) == len(gpus) and type(head) is not Formed and head.get("error") is None:
        parts = [Part("\n", line.cut) for line in known]
        parts[0] = Part(f"{texts[0]}\n", known[0].cut)
        _FORMS.learn(text, parts, "\n" if text.endswith("\n") else "", lambda starts: AnswerForm(head, known, starts))
    return Answer(head, gpus, None)
