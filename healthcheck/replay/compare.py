"""Compares what a policy would have done with what was done: equal isolations, those of one side,
and their time. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

from healthcheck.model.spans import Span, both, merged, seconds
from healthcheck.replay.record import PastCordon, StoreHistory
from healthcheck.replay.run import Hold, SimulatedRun

_Score = tuple[int, float, int, float]
_NONE: _Score = (0, 0.0, 0, 0.0)
_LEAST = 600.0      # isolations closer than this, or than two sweeps, are equal


@dataclass(frozen=True)
class IsolationPair:
    """One isolation, simulated and real; one of both may be None."""

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
    """One side's totals: isolations, returns, node-hours out of service, openings of the breaker."""

    isolations: int
    returns: int
    node_hours: float
    openings: tuple[tuple[float, str], ...]


@dataclass(frozen=True)
class PeopleCordon:
    """A node that people kept from jobs with muster; `agreed`: triage called it unfit meanwhile. `earlier` is
    by how many seconds triage would have isolated it before them, None where it would not have."""

    hold: Hold
    agreed: bool
    earlier: float | None = None


@dataclass(frozen=True)
class People:
    """What people did, beside what triage would have: their isolations by time; how many of triage's no one
    made; and the hours of nodes that both would have kept out of service, triage alone, and people alone."""

    theirs: tuple[PeopleCordon, ...]
    triage_alone: int
    both_hours: float
    triage_hours: float
    people_hours: float


@dataclass(frozen=True)
class PolicyComparison:
    """Both sides, from `since` to `now`. `pairs` by time, differences first. `withheld` isolations the
    breaker would have held back."""

    since: float
    now: float
    pairs: tuple[IsolationPair, ...]
    would: Side
    was: Side
    withheld: int
    moments: int
    people: People


def compare(
    record: StoreHistory, imagined: SimulatedRun, nodes: Iterable[str], since: float, now: float,
) -> PolicyComparison:
    """Beside each other what triage would have done with these nodes, what it did,
    and what people did with muster."""
    known = set(nodes)
    was = [hold for name, cordons in record.cordons.items() if name in known
           for hold in _as_one((cordon for cordon in cordons if cordon.by_triage), since, now)]
    sweeps = record.sweeps.broad
    gap = median(later - before for before, later in pairwise(sweeps)) if len(sweeps) > 1 else 0.0
    pairs = _paired(imagined.holds, was, max(_LEAST, 2 * gap), now)
    opened = tuple((one.opened, one.why) for one in record.breaker if since < one.opened <= now)
    would = _side(imagined.holds, imagined.openings, since, now)
    return PolicyComparison(since, now,
                            tuple(sorted(pairs, key=lambda pair: (pair.same, pair.began, pair.node))), would,
                            _side(was, opened, since, now), imagined.withheld, imagined.moments,
                            _people(record, imagined, known, since, now, max(_LEAST, 2 * gap)))


def _people(
    record: StoreHistory, imagined: SimulatedRun, known: Collection[str], since: float, now: float,
    apart: float,
) -> People:
    would: dict[str, list[Hold]] = defaultdict(list)
    for hold in imagined.holds:
        would[hold.node].append(hold)
    made: dict[str, list[Hold]] = defaultdict(list)
    theirs = []
    for name, cordons in record.cordons.items():
        if name not in known:
            continue
        made[name] = _as_one((cordon for cordon in cordons if not cordon.by_triage), since, now)
        for hold in made[name]:
            there = [one for one in would[name] if _overlap(one, hold, apart)]
            # One that really overlaps goes before one that was over just before.
            first = min(there, key=lambda one: (not _overlap(one, hold, 0.0), one.began), default=None)
            until = hold.ended if hold.ended is not None else now
            agreed = (first is not None
                      or any(hold.began - apart <= time <= until for time in imagined.wanted.get(name, ())))
            earlier = hold.began - first.began if first is not None and first.began < hold.began else None
            theirs.append(PeopleCordon(hold, agreed, earlier))
    alone = sum(not any(_overlap(hold, one, apart) for one in made[hold.node]) for hold in imagined.holds)
    shared = triage = people = 0.0
    for name in would.keys() | made.keys():
        ours, others = (merged(_span(hold, since, now) for hold in side[name]) for side in (would, made))
        together = seconds(both(ours, others))
        shared += together
        triage += seconds(ours) - together
        people += seconds(others) - together
    return People(tuple(sorted(theirs, key=lambda one: (one.hold.began, one.hold.node))), alone,
                  shared / 3600, triage / 3600, people / 3600)


def _span(hold: Hold, since: float, now: float) -> Span:
    """What of a hold lies in the time that is compared."""
    return max(hold.began, since), hold.ended if hold.ended is not None else now


def _as_one(cordons: Iterable[PastCordon], since: float, now: float) -> list[Hold]:
    """The isolations of one node in that time; what two back ends hold at once is one."""
    found: list[Hold] = []
    for cordon in sorted(cordons, key=lambda cordon: cordon.began):
        if cordon.began > now or (cordon.ended is not None and cordon.ended <= since):
            continue
        ended = cordon.ended if cordon.ended is not None and cordon.ended <= now else None
        back = ("" if cordon.ended is None else "triage returned it" if cordon.back_by_triage
                else "a person ended it")
        before = found[-1] if found else None
        if before is None or (before.ended is not None and cordon.began >= before.ended):
            found.append(Hold(cordon.node, cordon.began, ended, cordon.why, back))
        elif before.ended is not None and (ended is None or ended > before.ended):
            found[-1] = replace(before, ended=ended, back=back)
    return found


def _side(holds: Sequence[Hold], openings: tuple[tuple[float, str], ...], since: float, now: float) -> Side:
    hours = sum((hold.ended if hold.ended is not None else now) - max(hold.began, since)
                for hold in holds) / 3600
    return Side(sum(hold.began > since for hold in holds), sum(hold.ended is not None for hold in holds),
                hours, openings)


def _paired(
    would: Iterable[Hold], was: Iterable[Hold], apart: float, now: float,
) -> Iterable[IsolationPair]:
    """Each isolation with that of the other side which is most like it, so that of all pairs of a node most
    are the same, and then most time is in both; the same where both ends are near."""
    sides: dict[str, tuple[list[Hold], list[Hold]]] = defaultdict(lambda: ([], []))
    for at, side in enumerate((would, was)):
        for hold in sorted(side, key=lambda hold: hold.began):
            sides[hold.node][at].append(hold)
    for ours, theirs in sides.values():
        yield from _matched(ours, theirs, apart, now)


def _matched(
    would: Sequence[Hold], was: Sequence[Hold], apart: float, now: float,
) -> Iterable[IsolationPair]:
    """The best match of one node's isolations. Neither side overlaps itself: pairs keep the order of time."""
    best: list[list[_Score]] = [[_NONE] * (len(was) + 1) for _ in range(len(would) + 1)]
    for i, one in enumerate(would):
        for j, other in enumerate(was):
            best[i + 1][j + 1] = max(best[i][j + 1], best[i + 1][j],
                                     _with(best[i][j], _score(one, other, apart, now)))
    pairs: list[IsolationPair] = []
    i, j = len(would), len(was)
    while i or j:
        if i and best[i][j] == best[i - 1][j]:
            pairs.append(IsolationPair(would[i - 1], None, False))
            i -= 1
        elif j and best[i][j] == best[i][j - 1]:
            pairs.append(IsolationPair(None, was[j - 1], False))
            j -= 1
        else:
            i, j = i - 1, j - 1
            pairs.append(IsolationPair(would[i], was[j], _near(would[i], was[j], apart)))
    return reversed(pairs)


def _score(one: Hold, other: Hold, apart: float, now: float) -> _Score | None:
    """How like two isolations are: whether they are the same, for how long both held, and how far apart they
    began; None where they have nothing to do with each other."""
    if not _overlap(one, other, apart):
        return None
    ends = [hold.ended if hold.ended is not None else now for hold in (one, other)]
    together = max(0.0, min(ends) - max(one.began, other.began))
    return int(_near(one, other, apart)), together, 1, -abs(one.began - other.began)


def _with(before: _Score, score: _Score | None) -> _Score:
    if score is None:
        return _NONE
    return before[0] + score[0], before[1] + score[1], before[2] + score[2], before[3] + score[3]


def _overlap(one: Hold, other: Hold, apart: float) -> bool:
    return ((one.ended is None or other.began <= one.ended + apart)
            and (other.ended is None or one.began <= other.ended + apart))


def _near(one: Hold, other: Hold, apart: float) -> bool:
    if abs(one.began - other.began) > apart or (one.ended is None) != (other.ended is None):
        return False
    return one.ended is None or other.ended is None or abs(one.ended - other.ended) <= apart
