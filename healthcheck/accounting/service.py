"""How long nodes were in service and monitored: the base of failure rates. Pure.

The store has no past lifecycles: a node counts from its first to its newest snapshot, without time in which
no sweep ran and without time in which the whole node was at the vendor's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Span = tuple[float, float]


def watched(sweeps: Iterable[float], longest: float) -> list[Span]:
    """When sweeps ran: from the first to the last of those that are at most `longest` seconds apart."""
    found: list[Span] = []
    for start in sorted(sweeps):
        if found and start - found[-1][1] <= longest:
            found[-1] = (found[-1][0], start)
        else:
            found.append((start, start))
    return found


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


def without(spans: Sequence[Span], away: Sequence[Span]) -> list[Span]:
    """These spans without that time."""
    left = list(spans)
    for gone, back in away:
        left = [piece for span in left for piece in _cut(span, gone, back)]
    return left


def _cut(span: Span, gone: float, back: float) -> Iterable[Span]:
    began, ended = span
    if ended < gone or began >= back:
        yield span
        return
    if began < gone:
        yield began, gone
    if back <= ended:
        yield back, ended


def seconds(spans: Iterable[Span]) -> float:
    """How long they are together."""
    return sum(ended - began for began, ended in spans)


def within(time: float, spans: Iterable[Span]) -> bool:
    """Whether a time is in one of them."""
    return any(began <= time <= ended for began, ended in spans)
