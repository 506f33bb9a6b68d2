"""How long nodes were in service and monitored: the base of failure rates. A node counts from its first to
its newest snapshot, without time in which no sweep ran or the whole node was at the vendor's. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from healthcheck.model.spans import Span


def watched(sweeps: Iterable[float], longest: float) -> list[Span]:
    """When sweeps ran: from the first to the last of those that are at most `longest` seconds apart."""
    found: list[Span] = []
    for start in sorted(sweeps):
        if found and start - found[-1][1] <= longest:
            found[-1] = (found[-1][0], start)
        else:
            found.append((start, start))
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


def within(time: float, spans: Iterable[Span]) -> bool:
    """Whether a time is in one of them."""
    return any(began <= time <= ended for began, ended in spans)
