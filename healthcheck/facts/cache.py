"""The cache of facts, by the exact content of the captures, or parts of captures, that they are built from.

Much of what a fleet's nodes return is identical (loaded modules, Docker's settings, NVLinks without errors),
and so is most of two snapshots of one node. The cache changes no result: a fact is a pure function of this
content, and without a cache it is built again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import count
from typing import Any, TypeVar

from healthcheck.facts.limits import CACHE, CACHE_ENTRY, CACHED_CAPTURE
from healthcheck.model.recording import Capture, Outcome

T = TypeVar("T")
Content = tuple[Any, ...]
_ABSENT = 0         # the number of no capture


class FactCache:
    """Holds facts and what they were made of, of at most `most` characters: beyond that it forgets all and
    begins anew."""

    def __init__(self, most: int = CACHE) -> None:
        self._most = most
        self._size = 0
        self._next = count(_ABSENT + 1)     # a number stands for the same content for ever
        self._numbers: dict[Content, int] = {}
        self._facts: dict[tuple[Hashable, ...], Any] = {}

    def number(self, capture: Capture | None) -> int | None:
        """What stands here for the content of a capture; None where that is not cached."""
        if capture is None:
            return _ABSENT
        content = content_of(capture)
        if content is None:
            return None
        known = self._numbers.get(content)
        if known is None:
            self._keep(content[0])
            known = self._numbers[content] = next(self._next)
        return known

    def fact(self, name: str, numbers: tuple[int | None, ...], make: Callable[[], Any]) -> Any:
        """The fact of this name for contents of these numbers, by `make` where it is not cached; exceptions
        are not cached."""
        return make() if None in numbers else self.part(name, numbers, make)

    def part(self, name: str, content: Hashable, make: Callable[[], T]) -> T:
        """As `fact`, for facts that depend on a part of a capture alone: one GPU's links, one port's
        counters."""
        key = name, content
        if key not in self._facts:
            made = make()
            self._keep(CACHE_ENTRY)
            self._facts[key] = made
        found: T = self._facts[key]
        return found

    def _keep(self, size: int) -> None:
        """Makes room for so many characters more."""
        self._size += size
        if self._size > self._most:
            self._numbers.clear()
            self._facts.clear()
            self._size = size


def content_of(capture: Capture) -> Content | None:
    """All of a capture that a fact can depend on, its number of characters first; equal contents give equal
    facts. None for one that is too long."""
    files = capture.files
    outcomes, texts = zip(*files.values(), strict=True) if files else ((), ())
    size = len(capture.text) + len(capture.stderr) + len("".join(files)) + len("".join(texts))
    if size > CACHED_CAPTURE:
        return None
    # Messages about timeouts name the seconds.
    seconds = capture.seconds if capture.outcome is Outcome.TIMEOUT else None
    return (size, capture.outcome, capture.exit, seconds, capture.text, capture.stderr, capture.note,
            tuple(files), texts, outcomes)
