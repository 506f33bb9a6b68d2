"""The cache of facts, by the exact content of the captures, or parts of captures, that they are built from.

Much of what a fleet's nodes return is identical (loaded modules, Docker's settings, NVLinks without errors),
and so is most of two snapshots of one node. The cache changes no result: a fact is a pure function of this
content, and without a cache it is built again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from healthcheck.facts.limits import CACHE, CACHE_ENTRY, CACHED_CAPTURE
from healthcheck.model.recording import Capture, Outcome

T = TypeVar("T")
Content = tuple[Any, ...]
_DONE = Outcome.DONE


class FactCache:
    """Holds facts for at most `most` characters of captures, the most recently used ones."""

    def __init__(self, most: int = CACHE) -> None:
        self._most = most
        self._size = 0
        self._facts: dict[Content, tuple[Any, int]] = {}

    def fact(self, name: str, contents: Sequence[Content | None], make: Callable[[], Any]) -> Any:
        """The fact of this name for these contents, by `make` where it is not cached; exceptions are not
        cached."""
        if None in contents:
            return make()
        key = (name, *contents)
        known = self._facts.pop(key, None)
        if known is None:
            size = CACHE_ENTRY + sum([content[0] for content in contents if content])
            known = make(), size
            self._size += size
        self._facts[key] = known        # as the last one
        while self._size > self._most:
            self._size -= self._facts.pop(next(iter(self._facts)))[1]
        return known[0]


    def part(self, name: str, content: Hashable, make: Callable[[], T]) -> T:
        """As `fact`, for facts that depend on a part of a capture alone: one GPU's links, one port's
        counters."""
        found: T = self.fact(name, [(0, content)], make)
        return found


def content_of(capture: Capture | None) -> Content | None:
    """All of a capture that a fact can depend on, its number of characters first; equal contents give equal
    facts. Empty where there is no capture; None for one that is too long."""
    if capture is None:
        return ()
    files = capture.files
    texts = tuple([entry.text for entry in files.values()])
    size = len(capture.text) + len(capture.stderr) + sum(map(len, files)) + sum(map(len, texts))
    if size > CACHED_CAPTURE:
        return None
    ended = tuple([(path, entry.outcome.value) for path, entry in files.items()
                   if entry.outcome is not _DONE])
    # Messages about timeouts name the seconds.
    seconds = capture.seconds if capture.outcome is Outcome.TIMEOUT else 0.0
    return (size, capture.outcome.value, capture.exit, seconds, capture.text, capture.stderr, capture.note,
            tuple(files), texts, ended)
