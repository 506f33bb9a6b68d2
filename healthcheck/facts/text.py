"""What builders of facts share for reading text."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

T = TypeVar("T")


def remembered(most: int, longest: int) -> Callable[[Callable[[str], T]], Callable[[str], T]]:
    """For pure functions of texts that nodes and looks say alike: the last `most` results of texts up to `longest` are kept."""

    def of(parse: Callable[[str], T]) -> Callable[[str], T]:
        known = lru_cache(maxsize=most)(parse)

        @wraps(parse)
        def read(text: str) -> T:
            return known(text) if len(text) <= longest else parse(text)

        return read

    return of


def lines_of(text: str) -> list[str]:
    """As str.splitlines, at a fraction of the cost for long ASCII text of plain lines."""
    if not text.isascii() or any(map(text.__contains__, _OTHER_ENDS)):
        return text.splitlines()
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


_OTHER_ENDS = "\r\v\f\x1c\x1d\x1e"


# More paths than any honest node has: a node that sends them is read, and its paths are not kept.
MOST_PATHS = 2048


def of_paths(most: int) -> Callable[[Callable[[tuple[str, ...]], T]], Callable[[tuple[str, ...]], T]]:
    """For pure functions of all paths of a capture, which nodes of one kind have alike: the last `most` results are kept."""

    def of(find: Callable[[tuple[str, ...]], T]) -> Callable[[tuple[str, ...]], T]:
        known = lru_cache(maxsize=most)(find)

        @wraps(find)
        def found(paths: tuple[str, ...]) -> T:
            return known(paths) if len(paths) <= MOST_PATHS else find(paths)

        return found

    return of
