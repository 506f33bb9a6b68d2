"""Isolations of a replay and of the store lie beside each other as a person would lay them, and hours count
once."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.replay.compare import PolicyComparison, compare
from healthcheck.replay.record import PastCordon, StoreHistory, Sweeps
from healthcheck.replay.run import Hold, SimulatedRun

HOUR = 3600.0
NOW = 100.0
Held = tuple[float, float | None]


def compared(
    would: Iterable[Held], was: Iterable[Held], people: Iterable[Held] = (), since: float = 0.0,
) -> PolicyComparison:
    """Of one node, in hours; sweeps every five minutes, so that ten minutes are nothing."""
    record = StoreHistory(Sweeps((hour * HOUR, hour * HOUR, "", 1)
                                 for hour in (step / 12 for step in range(int(NOW) * 12 + 1))))
    for by_triage, each in ((True, was), (False, people)):
        record.cordons["n1"] += [PastCordon(number, "n1", "hostfile", "why", began * HOUR,
                                            ended and ended * HOUR,
                                            1 if by_triage else None, by_triage)
                                 for number, (began, ended) in enumerate(each)]
    run = SimulatedRun(tuple(Hold("n1", began * HOUR, ended and ended * HOUR, "why")
                             for began, ended in would),
                       (), 0, 0)
    return compare(record, run, ["n1"], since * HOUR, NOW * HOUR)


def pairs(found: PolicyComparison) -> list[tuple[float | None, float | None]]:
    """When both of each pair began, in hours, in the order of time."""
    return sorted(((began(pair.would), began(pair.was)) for pair in found.pairs),
                  key=lambda pair: min(time for time in pair if time is not None))


def began(hold: Hold | None) -> float | None:
    """In hours."""
    return hold.began / HOUR if hold is not None else None


def close(*pairs: tuple[float, float]) -> bool:
    """Whether the numbers of each pair are equal, but for what adding hours up loses."""
    return all(one == pytest.approx(other) for one, other in pairs)


@pytest.mark.parametrize(("would", "was", "found"), [
    # What was given back too early and held again: the long one is the one that was meant.
    ([(10, 40)], [(10, 11), (12, 40)], [(None, 10), (10, 12)]),
    ([(10, 11), (12, 40)], [(10, 40)], [(10, None), (12, 10)]),
    # Just before the end of one another begins; the first that touches it is not the best.
    ([(1, 10), (10.1, 20)], [(9.95, 21)], [(1, None), (10.1, 9.95)]),
    ([(1, 10), (10.1, 20)], [(1, 10), (10.1, 20)], [(1, 1), (10.1, 10.1)]),
    ([(1, 5), (6, None)], [(5.1, None)], [(1, None), (6, 5.1)]),
    ([(1, 5)], [(5.1, 9)], [(1, 5.1)]),             # within two sweeps: they are of one thing
    ([(1, 5)], [(6, 9)], [(1, None), (None, 6)]),
    ([(1, 50), (51, 60)], [(2, 3), (4, 49), (52, 60)], [(1, 4), (None, 2), (51, 52)]),
    ([], [(1, 2)], [(None, 1)]), ([(1, 2)], [], [(1, None)]), ([], [], [])])
def test_each_isolation_is_laid_beside_the_one_most_like_it(
    would: list[Held], was: list[Held], found: list[tuple[float | None, float | None]],
) -> None:
    assert pairs(compared(would, was)) == found


def test_one_that_is_the_same_goes_before_one_that_lasted_longer_with_it() -> None:
    found = compared([(10, 11), (11.5, 40)], [(10.1, 11.1), (11.6, 40.1)])
    assert [pair.same for pair in found.pairs] == [True, True]
    found = compared([(10, 11)], [(10.05, 11.05), (11.1, 40)])
    assert [(pair.same, pair.would is None) for pair in found.pairs] == [(False, True), (True, False)]


def test_what_two_back_ends_hold_at_once_is_one_isolation_whose_hours_count_once() -> None:
    found = compared([(10, 20)], [(10, 20), (10.01, 19), (15, 25)])
    assert (found.was.isolations, found.was.returns) == (1, 1) and close((found.was.node_hours, 15))
    assert pairs(found) == [(10, 10)] and found.pairs[0].was == Hold("n1", 10 * HOUR, 25 * HOUR, "why",
                                                                    "triage returned it")
    lasts = compared([], [(10, None), (15, 25)])
    assert (lasts.was.isolations, lasts.was.returns) == (1, 0) and close((lasts.was.node_hours, 90))


def test_the_hours_of_people_count_once_and_add_up() -> None:
    found = compared([(10, 20), (30, 40)], [], people=[(12, 18), (12.5, 35), (50, None)])
    assert close((found.people.both_hours, 8 + 5), (found.people.triage_hours, 2 + 5),
                 (found.people.people_hours, 23 + 50 - 13))
    assert [one.hold.began / HOUR for one in found.people.theirs] == [12, 50]
    assert [one.earlier for one in found.people.theirs] == [2 * HOUR, None] and found.people.triage_alone == 0


def test_triage_was_earlier_by_the_hold_that_still_held_then() -> None:
    found = compared([(1, 9.9), (9.95, 20)], [], people=[(10, 20)])
    assert [one.earlier for one in found.people.theirs] == [pytest.approx(0.05 * HOUR)]
    found = compared([(1, 9.9)], [], people=[(10, 20)])
    assert [one.earlier for one in found.people.theirs] == [9 * HOUR]


def test_only_the_time_that_is_compared_counts() -> None:
    found = compared([(0.5, 20)], [(0.5, 8), (1, 9), (12, 120)], since=10)
    assert found.was.isolations == 1 and close((found.was.node_hours, 88), (found.would.node_hours, 10))


def apart(ends: list[int], open_end: bool) -> list[Held]:
    """Holds that do not overlap, of these sorted times."""
    held: list[Held] = [(float(low), float(high)) for low, high in zip(ends[::2], ends[1::2], strict=False)]
    return [*held[:-1], (held[-1][0], None)] if held and open_end else held


sides = st.builds(apart, st.lists(st.integers(1, 99), max_size=8, unique=True).map(sorted), st.booleans())


def both(one: Held, other: Held) -> float:
    ends = [NOW if end is None else end for _, end in (one, other)]
    return min(ends) - max(one[0], other[0])


@settings(deadline=None)
@given(sides, sides)
def test_no_other_match_has_more_time_in_common(would: list[Held], was: list[Held]) -> None:
    found = compared(would, was)
    assert sum(pair.would is not None for pair in found.pairs) == len(would)
    assert sum(pair.was is not None for pair in found.pairs) == len(was)
    matched = [(pair.would, pair.was) for pair in found.pairs if pair.would and pair.was]
    same = sum(pair.same for pair in found.pairs)
    time = sum(both((one.began / HOUR, one.ended and one.ended / HOUR),
                    (other.began / HOUR, other.ended and other.ended / HOUR)) for one, other in matched)
    # Every match that keeps the order, tried one by one.
    for size in range(min(len(would), len(was)) + 1):
        for ours in combinations(would, size):
            for theirs in combinations(was, size):
                each = [both(*pair) for pair in zip(ours, theirs, strict=True)]
                if all(together >= 0 for together in each):
                    equal = sum(one == other for one, other in zip(ours, theirs, strict=True))
                    assert (equal, sum(each)) <= (same, time + 1e-6)
