"""Facts by the exact content of the captures that they are made of: whoever brought the same bytes is told the same.

Much of what a fleet's nodes answer is equal to the letter (which modules are loaded, how Docker is set), and so is most of two snapshots of
one node. It changes no result: a fact is a pure function of these captures, and without a cache it is made again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from healthcheck.model.recording import Capture, Outcome

Content = tuple[Any, ...]
# Characters of one capture: what is longer (a GPU driver's answer, a log) holds times and temperatures, and is never met twice.
_LONGEST = 32 * 1024
_MOST, _EACH = 8 * 1024 * 1024, 512       # the latter for an entry itself
_DONE = Outcome.DONE


class FactCache:
    """Holds at most `most` characters of captures with what was made of them, and of more those that were asked for last."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._size = 0
        self._facts: dict[Content, tuple[Any, int]] = {}

    def fact(self, name: str, contents: Sequence[Content | None], make: Callable[[], Any]) -> Any:
        """What `make` makes of captures of these contents, for the fact of this name; what it raises is not kept."""
        if None in contents:
            return make()
        key = (name, *contents)
        known = self._facts.pop(key, None)
        if known is None:
            size = _EACH + sum([content[0] for content in contents if content])
            known = make(), size
            self._size += size
        self._facts[key] = known        # as the last one
        while self._size > self._most:
            self._size -= self._facts.pop(next(iter(self._facts)))[1]
        return known[0]


def content_of(capture: Capture | None) -> Content | None:
    """All of a capture that a fact can depend on, beginning with how many characters that is: equal for equal ones alone. Empty where there
    is no capture; None for one that is too long."""
    if capture is None:
        return ()
    files = capture.files
    texts = tuple([entry.text for entry in files.values()])
    size = len(capture.text) + len(capture.stderr) + sum(map(len, files)) + sum(map(len, texts))
    if size > _LONGEST:
        return None
    ended = tuple([(path, entry.outcome.value) for path, entry in files.items() if entry.outcome is not _DONE])
    # How long it took is told where it took too long.
    seconds = capture.seconds if capture.outcome is Outcome.TIMEOUT else 0.0
    return size, capture.outcome.value, capture.exit, seconds, capture.text, capture.stderr, capture.note, tuple(files), texts, ended
