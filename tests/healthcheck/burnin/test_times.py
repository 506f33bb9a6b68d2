"""How durations are summarised: quantiles, the longest, and how long several of them are."""

from __future__ import annotations

import random

import pytest

from healthcheck.burnin.onnode.times import MOST_TIMES, Durations


def of(values: list[float]) -> Durations:
    made = Durations()
    for value in values:
        made.add(value)
    return made


@pytest.mark.parametrize(("count", "needed"), [(10, 5), (50, 5), (100, 5), (101, 6), (300, 15), (1000, 50)])
def test_so_many_long_iterations_are_often_and_one_fewer_is_not(count: int, needed: int) -> None:
    assert of([1.6] * needed + [1.0] * (count - needed)).often() == 1.6
    assert of([1.0] * (count - needed + 1) + [1.6] * (needed - 1)).often() == 1.0


def test_of_fewer_than_ten_nothing_is_often() -> None:
    assert of([9.0] * 9).often() == 0.0 and of([]).often() == 0.0


def test_of_a_long_run_the_share_stays_what_it_was() -> None:
    chance = random.Random(1)
    many = of([2.0 if chance.random() < 0.1 else 1.0 for _ in range(3 * MOST_TIMES)])
    assert many.often() == 2.0 and many.at(0.5) == 1.0 and len(many.kept) <= MOST_TIMES
