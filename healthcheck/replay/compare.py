"""Lays what a policy would have done beside what was done: isolations that are the same, those of one side alone, their time. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from healthcheck.replay.record import Record
from healthcheck.replay.run import Hold, Imagined

_LEAST = 600.0      # what is no further apart than this, or than two sweeps, is the same deed


@dataclass(frozen=True)
class Pair:
    """One isolation as it would have been and as it was; one of both may be None."""

    would: Hold | None
    was: Hold | None
    same: bool

    @property
    def node(self) -> str:
        """Whose it is."""
        found = self.would or self.was
        return found.node if found is not None else ""

    @property
    def began(self) -> float:
        """When the earlier of both began."""
        return min(hold.began for hold in (self.would, self.was) if hold is not None)


@dataclass(frozen=True)
class Side:
    """What one side came to: isolations begun, nodes that came back, hours of nodes out of service, openings of the breaker."""

    isolations: int
    returns: int
    node_hours: float
    openings: tuple[tuple[float, str], ...]


@dataclass(frozen=True)
class Compared:
    """Both sides, from `since` to `now`. `pairs` by time, differences first. `withheld` isolations the breaker would have held back."""

    since: float
    now: float
    pairs: tuple[Pair, ...]
    would: Side
    was: Side
    withheld: int
    moments: int


def compare(record: Record, imagined: Imagined, nodes: Iterable[str], since: float, now: float) -> Compared:
    """Beside each other what triage would have done with these nodes, and what it did; what people cordoned is on neither side."""
    known = set(nodes)
    was = [Hold(name, deed.began, deed.ended if deed.ended is not None and deed.ended <= now else None, deed.why,
                "" if deed.ended is None else "triage returned it" if deed.back_by_triage else "a person ended it")
           for name, deeds in record.deeds.items() if name in known for deed in deeds
           if deed.by_triage and deed.began <= now and (deed.ended is None or deed.ended > since)]
    sweeps = record.sweeps.broad
    gap = median(later - before for before, later in pairwise(sweeps)) if len(sweeps) > 1 else 0.0
    pairs = _paired(imagined.holds, was, max(_LEAST, 2 * gap))
    opened = tuple((one.opened, one.why) for one in record.breaker if since < one.opened <= now)
    would = _side(imagined.holds, imagined.openings, since, now)
    return Compared(since, now, tuple(sorted(pairs, key=lambda pair: (pair.same, pair.began, pair.node))), would,
                    _side(was, opened, since, now), imagined.withheld, imagined.moments)


def _side(holds: Sequence[Hold], openings: tuple[tuple[float, str], ...], since: float, now: float) -> Side:
    hours = sum((hold.ended if hold.ended is not None else now) - max(hold.began, since) for hold in holds) / 3600
    return Side(sum(hold.began > since for hold in holds), sum(hold.ended is not None for hold in holds), hours, openings)


def _paired(would: Iterable[Hold], was: Iterable[Hold], apart: float) -> Iterable[Pair]:
    """Each isolation with the one of the other side that it overlaps, the first that is free; the same where both ends are near."""
    left: dict[str, list[Hold]] = defaultdict(list)
    for hold in sorted(was, key=lambda hold: hold.began):
        left[hold.node].append(hold)
    for hold in would:
        other = next((one for one in left[hold.node] if _overlap(hold, one, apart)), None)
        if other is not None:
            left[hold.node].remove(other)
        yield Pair(hold, other, other is not None and _near(hold, other, apart))
    for rest in _rest(left):
        yield Pair(None, rest, False)


def _rest(left: Mapping[str, Sequence[Hold]]) -> Iterable[Hold]:
    return (hold for holds in left.values() for hold in holds)


def _overlap(one: Hold, other: Hold, apart: float) -> bool:
    return (one.ended is None or other.began <= one.ended + apart) and (other.ended is None or one.began <= other.ended + apart)


def _near(one: Hold, other: Hold, apart: float) -> bool:
    if abs(one.began - other.began) > apart or (one.ended is None) != (other.ended is None):
        return False
    return one.ended is None or other.ended is None or abs(one.ended - other.ended) <= apart
