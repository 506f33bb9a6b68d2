"""What is one failure and what are several, which events a fault has outlived, and what flaps:
asked directly, to the second."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.triage.episodes import episodes, flapping, returns, score
from healthcheck.triage.faults import faults
from healthcheck.triage.policy import Climb, Flap, RepeatPolicy
from tests.healthcheck.triage.made import HOUR, NOW, at, past, policy, problem

CLIMB, FLAP, REPEAT = Climb(2, 30), Flap(3, 24, 12), RepeatPolicy(3, 14, 60, 6)
SECOND = 1 / HOUR


def test_without_serial_numbers_two_gpus_of_a_node_are_two_and_two_lines_of_one_gpu_are_of_one() -> None:
    lines = ("GPU at PCI 0000:18:00.0, Xid 79", "GPU at PCI 0000:18:00.0, Xid 48",
             "GPU at PCI 0000:2a:00.0, Xid 79")
    found = faults(past("n1", *(problem("kernel-xid", subject) for subject in lines)), policy(), NOW)
    assert sorted((fault.place, len(fault.problems)) for fault in found) == [
        ("GPU at PCI 0000:18:00.0", 2), ("GPU at PCI 0000:2a:00.0", 1)]


@pytest.mark.parametrize(("again", "count"), [(-3, 1), (-3 + SECOND, 2)])
def test_what_begins_at_most_so_long_after_a_failure_is_the_same(again: float, count: int) -> None:
    twice = (problem(began=-10, ended=-9), problem(began=again, ended=-1))
    assert len(episodes(twice, 6 * HOUR)) == count


def test_a_long_failure_lasts_to_its_own_end_whatever_short_one_there_was_within_it() -> None:
    long, short, next_ = (problem(began=-20, ended=-10), problem(began=-19, ended=-18),
                          problem(began=-9, ended=-8))
    assert episodes((long, short, next_), 6 * HOUR) == [(at(-20), at(-8))]


@pytest.mark.parametrize(("event", "outlived"), [
    (-1, 1),                # the first sweep after the reboot saw it again
    (-1 + SECOND, 0),       # no sweep has, since
    (-5, 0),                # it came with this boot
    (-5 + SECOND, 1)])
def test_a_fault_has_outlived_a_reboot_when_it_was_there_before_and_seen_after_it(
    event: float, outlived: int,
) -> None:
    assert returns([problem(began=-5, seen=-1)], [at(event)], CLIMB, NOW) == outlived


def test_what_was_over_before_the_days_that_count_has_outlived_no_reboot_in_them() -> None:
    month = 30 * 24
    for last, outlived in ((-month, 1), (-month - SECOND, 0)):
        assert returns([problem(began=-month - 9, ended=last), problem(began=-5, seen=-1)], [at(-10)], CLIMB,
                       NOW) == outlived
    for event, outlived in ((-month, 1), (-month - SECOND, 0)):
        assert returns([problem(began=-month - 9, seen=-1)], [at(event)], CLIMB, NOW) == outlived


@pytest.mark.parametrize(("first", "holds"), [(-29, True), (-29 - SECOND, False)])
def test_what_came_so_many_times_within_the_hours_that_count_before_it_came_last_flaps(
    first: float, holds: bool,
) -> None:
    over = [problem(began=hour, ended=hour + 0.5) for hour in (first, -9, -5)]
    assert bool(flapping(over, FLAP, NOW)) is holds


def test_the_time_that_is_there_now_counts_among_those_that_it_came() -> None:
    here, over = problem(began=-1), [problem(began=-hour, ended=0.5 - hour) for hour in (5, 3)]
    assert flapping([*over, here], FLAP, NOW).startswith("it came 3 times in 24 h, this one included; ")
    assert flapping(over, FLAP, NOW) == flapping([over[0], here], FLAP, NOW) == flapping([], FLAP, NOW) == ""
    away = flapping([problem(began=-7, ended=-6), *over], FLAP, NOW)
    assert away.startswith("it came 3 times in 24 h, and is away since 2027-01-15T05:30Z; ")


def test_it_holds_for_all_its_calm_hours_though_what_made_it_flap_leaves_the_hours_that_count_before(
) -> None:
    over = [problem(began=hour, ended=hour + 0.1) for hour in (-30, -29, -11)]
    assert "it came 3 times" in flapping(over, FLAP, NOW)
    often, seldom = [problem(began=-40 + n / 10, ended=-39.95 + n / 10) for n in range(5)], Flap(5, 2, 12)
    more = [problem(began=hour, ended=hour + 0.1) for hour in (-28, -17, -6)]
    assert "it came 5 times in 2 h" in flapping([*often, *more], seldom, NOW)       # never calm since
    assert flapping([*often, *more[1:]], seldom, NOW) == ""                         # calm before the last two


@pytest.mark.parametrize(("apart", "holds"), [(12, False), (12 - SECOND, True)])
def test_what_was_away_for_the_calm_hours_has_to_come_as_often_again(apart: float, holds: bool) -> None:
    often = [problem(began=-20 + n / 10, ended=-19.95 + n / 10) for n in range(5)]
    again = problem(began=-19.55 + apart, ended=-1)
    assert bool(flapping([*often, again], Flap(5, 2, 12), NOW)) is holds


def test_what_began_while_another_was_there_counts_from_when_that_began() -> None:
    first = [problem("port-state", "mlx5_0", began=-29 - SECOND, ended=-28.5),
             problem("port-rate", "mlx5_0", began=-28.8, ended=-28)]
    assert flapping([*first, problem(began=-9, ended=-8), problem(began=-5, ended=-4)], FLAP, NOW) == ""


def test_what_several_rules_find_at_one_time_came_once_and_so_did_what_changes_its_rule() -> None:
    rules = ("port-state", "port-rate", "port-width")
    once = [problem(rule, "mlx5_0", began=-3, ended=-2) for rule in rules]
    assert flapping(once, FLAP, NOW) == ""
    changing = [problem(rule, "mlx5_0", began=-4 + n, ended=-3 + n) for n, rule in enumerate(rules)]
    assert flapping(changing, FLAP, NOW) == ""
    within = [problem(rules[0], "mlx5_0", began=-9), *(problem(rules[1], "mlx5_0", began=-n, ended=0.5 - n)
                                                       for n in (7, 5, 3))]
    assert flapping(within, FLAP, NOW) == ""


def test_what_began_before_the_longest_of_several_at_one_time_was_over_is_the_same_occurrence() -> None:
    long, short, late = (problem(began=-20, ended=-10), problem(began=-19, ended=-18),
                         problem(began=-15, ended=-14))
    assert flapping([long, short, late, problem(began=-5, ended=-4)], FLAP, NOW) == ""
    assert flapping([short, late, problem(began=-5, ended=-4)], FLAP, NOW) != ""


_SPANS = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 30), st.booleans()), max_size=12)


@given(spans=_SPANS, times=st.integers(1, 4), hours=st.integers(1, 60), calm=st.integers(1, 40))
def test_it_flaps_as_someone_who_watches_the_place_hour_by_hour_would_say(
    spans: list[tuple[int, int, bool]], times: int, hours: int, calm: int,
) -> None:
    """A quarter of an hour before an end and a half after a start, so that no two are at one time."""
    problems = [problem(began=-start - 0.5, ended=None if there else min(0.0, length - start - 0.25))
                for start, length, there in spans]
    held, came, down_at = 0, list[float](), float("-inf")
    down = False
    for quarter in range(-201 * 4, 1):
        hour = quarter / 4
        now_down = any(one.began <= at(hour) and (one.ended is None or at(hour) < one.ended)
                       for one in problems)
        if now_down and not down:
            if hour - down_at >= calm:
                held = 0
            came.append(hour)
            lately = sum(hour - other <= hours for other in came)
            held = lately if lately >= times else held
        if now_down or down:
            down_at = hour
        down = now_down
    words = flapping(problems, Flap(times, hours, calm), NOW)
    if not held or (not down and -down_at >= calm):
        assert words == ""
    else:
        assert words.startswith(f"it came {held} times in {hours} h")
        assert ("this one included" in words) is down


@pytest.mark.parametrize(("gone", "holds"), [(-12, False), (-12 + SECOND, True)])
def test_it_holds_until_so_many_hours_after_the_sweep_that_found_the_last_of_it_gone(
    gone: float, holds: bool,
) -> None:
    over = [problem(began=hour, ended=hour + 0.1) for hour in (-15, -14)]
    # an hour lay between that sweep and the one before
    last = replace(problem(began=-13.5, ended=gone), seen=at(-13))
    assert bool(flapping([*over, last], FLAP, NOW)) is bool(flapping([last, *over], FLAP, NOW)) is holds


def test_only_failures_of_the_days_that_count_make_a_score() -> None:
    edge = -60 * 24
    for seen, count in ((edge, 2), (edge - SECOND, 1)):
        assert score((problem(began=edge - 1, ended=seen), problem(began=0)), REPEAT, NOW)[1] == count


@pytest.mark.parametrize(("again", "count"), [(-3, 1), (-3 + SECOND, 2)])
def test_of_failures_that_follow_within_the_hours_of_the_policy_one_counts(again: float, count: int) -> None:
    assert score((problem(began=-10, ended=-9), problem(began=again, ended=-1)), REPEAT, NOW)[1] == count
