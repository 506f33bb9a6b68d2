"""Compares what a policy would have done with what was done: equal isolations, those of one side,
and their time. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from healthcheck.replay.record import StoreHistory
from healthcheck.replay.run import Hold, SimulatedRun

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
    was = [Hold(name, cordon.began,
                cordon.ended if cordon.ended is not None and cordon.ended <= now else None, cordon.why,
                "" if cordon.ended is None else "triage returned it" if cordon.back_by_triage
                else "a person ended it")
           for name, cordons in record.cordons.items() if name in known for cordon in cordons
           if cordon.by_triage and cordon.began <= now and (cordon.ended is None or cordon.ended > since)]
    sweeps = record.sweeps.broad
    gap = median(later - before for before, later in pairwise(sweeps)) if len(sweeps) > 1 else 0.0
    pairs = _paired(imagined.holds, was, max(_LEAST, 2 * gap))
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
        for cordon in cordons if name in known else ():
            if cordon.by_triage or cordon.began > now or (cordon.ended is not None and cordon.ended <= since):
                continue
            hold = Hold(name, cordon.began, cordon.ended if cordon.ended is not None and cordon.ended <= now
                        else None, cordon.why)
            made[name].append(hold)
            first = next((one for one in would[name] if _overlap(one, hold, apart)), None)
            agreed = (first is not None
                      or any(cordon.began - apart <= time
                             <= (cordon.ended if cordon.ended is not None else now)
                             for time in imagined.wanted.get(name, ())))
            earlier = cordon.began - first.began if first is not None and first.began < cordon.began else None
            theirs.append(PeopleCordon(hold, agreed, earlier))
    alone = sum(not any(_overlap(hold, one, apart) for one in made[hold.node]) for hold in imagined.holds)
    both = triage = people = 0.0
    for name in would.keys() | made.keys():
        ours, others = ([(max(hold.began, since), hold.ended if hold.ended is not None else now)
                         for hold in side[name]] for side in (would, made))
        shared = sum(max(0.0, min(one[1], other[1]) - max(one[0], other[0])) for one in ours
                     for other in others)
        both += shared
        triage += sum(end - began for began, end in ours) - shared
        people += sum(end - began for began, end in others) - shared
    return People(tuple(sorted(theirs, key=lambda one: (one.hold.began, one.hold.node))), alone, both / 3600,
                  triage / 3600, people / 3600)


def _side(holds: Sequence[Hold], openings: tuple[tuple[float, str], ...], since: float, now: float) -> Side:
    hours = sum((hold.ended if hold.ended is not None else now) - max(hold.began, since)
                for hold in holds) / 3600
    return Side(sum(hold.began > since for hold in holds), sum(hold.ended is not None for hold in holds),
                hours, openings)


def _paired(would: Iterable[Hold], was: Iterable[Hold], apart: float) -> Iterable[IsolationPair]:
    """Each isolation with the one of the other side that it overlaps, the first that is free;
    the same where both ends are near."""
    left: dict[str, list[Hold]] = defaultdict(list)
    for hold in sorted(was, key=lambda hold: hold.began):
        left[hold.node].append(hold)
    for hold in would:
        other = next((one for one in left[hold.node] if _overlap(hold, one, apart)), None)
        if other is not None:
            left[hold.node].remove(other)
        yield IsolationPair(hold, other, other is not None and _near(hold, other, apart))
    for rest in _rest(left):
        yield IsolationPair(None, rest, False)


def _rest(left: Mapping[str, Sequence[Hold]]) -> Iterable[Hold]:
    return (hold for holds in left.values() for hold in holds)


def _overlap(one: Hold, other: Hold, apart: float) -> bool:
    return ((one.ended is None or other.began <= one.ended + apart)
            and (other.ended is None or one.began <= other.ended + apart))


def _near(one: Hold, other: Hold, apart: float) -> bool:
    if abs(one.began - other.began) > apart or (one.ended is None) != (other.ended is None):
        return False
    return one.ended is None or other.ended is None or abs(one.ended - other.ended) <= apart
