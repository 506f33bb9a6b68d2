"""Spans of time, from when to when: what lies in both, in any, and how long that is. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Span = tuple[float, float]


def merged(spans: Iterable[Span]) -> list[Span]:
    """The time that lies in any of them, sorted, and none of it twice."""
    found: list[Span] = []
    for began, ended in sorted(spans):
        if found and began <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], ended))
        else:
            found.append((began, ended))
    return found


def both(one: Sequence[Span], other: Sequence[Span]) -> list[Span]:
    """The time that lies in both; each is sorted and does not overlap itself."""
    found = []
    first = second = 0
    while first < len(one) and second < len(other):
        began, ended = max(one[first][0], other[second][0]), min(one[first][1], other[second][1])
        if began <= ended:
            found.append((began, ended))
        if one[first][1] <= other[second][1]:
            first += 1
        else:
            second += 1
    return found


def seconds(spans: Iterable[Span]) -> float:
    """How long they are together."""
    return sum(ended - began for began, ended in spans)
