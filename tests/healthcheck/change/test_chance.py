"""The probabilities are those of tables, and of counting."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.change.chance import ALPHA, SHARES, at_least, one_sided, t_bound, t_inside


# Student's t, one side: NIST/SEMATECH e-Handbook of Statistical Methods, table 1.3.6.7.2.
@pytest.mark.parametrize(("beyond", "free", "bound"), [
    (0.05, 1, 6.314), (0.025, 2, 4.303), (0.01, 3, 4.541), (0.005, 4, 4.604), (0.001, 5, 5.894),
    (0.001, 10, 4.143), (0.01, 30, 2.457),
    (0.025, 100, 1.984)])
def test_the_bounds_of_t_are_those_of_the_table(beyond: float, free: int, bound: float) -> None:
    assert t_bound(beyond, free) == pytest.approx(bound, abs=0.001)


@given(st.floats(0, 50), st.integers(1, 400))
def test_the_probability_inside_grows_with_the_bound(t: float, free: int) -> None:
    assert 0 <= t_inside(t, free) <= t_inside(t + 0.5, free) + 1e-12 <= 1 + 1e-9


def test_the_binomial_tail_and_fishers_test_are_as_counted() -> None:
    assert (at_least(2, 4, 0.5) == pytest.approx(11 / 16) and at_least(0, 4, 0.1) == 1.0
            and at_least(1, 1, 0.01) == pytest.approx(0.01))
    assert one_sided(4, 4, 0, 4) == pytest.approx(1 / 70)
    chance = random.Random(3)
    hits = [sum(chance.sample([1] * 3 + [0] * 9, 5)) >= 2 for _ in range(20_000)]
    assert one_sided(2, 5, 1, 7) == pytest.approx(sum(hits) / len(hits), abs=0.015)


def test_the_kinds_of_evidence_share_what_is_allowed() -> None:
    assert sum(SHARES.values()) <= ALPHA + 1e-12
