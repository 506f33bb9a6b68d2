"""The statistics of burn-in: who is slow among equals, and that no unmeasured value passes."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.burnin.stats import (
    LEAST_EQUALS,
    LEAST_RATIO,
    deviations,
    mad,
    median,
    normal,
    robust_z,
    slow,
)

RATES = st.dictionaries(st.text(max_size=4), st.floats(1e-3, 1e6), max_size=40)


def off(values: dict[str, float]) -> set[str]:
    return {name for name, found in slow(values).items() if found.off}


def eight(slow_one: float = 100.0) -> dict[str, float]:
    return {f"gpu{at}": 100 + at * 0.1 for at in range(7)} | {"gpu7": slow_one}


def test_one_slow_gpu_of_eight_is_named_where_three_sigma_cannot() -> None:
    values = eight(92.0)
    assert off(values) == {"gpu7"}
    sigma = (92 - statistics.mean(values.values())) / statistics.stdev(values.values())
    assert sigma > -3


def test_a_hundred_slow_nodes_of_five_hundred_are_all_named_and_no_other() -> None:
    chance = random.Random(1)
    values = {f"n{at}": chance.gauss(92 if at < 100 else 100, 0.5) for at in range(512)}
    assert off(values) == {f"n{at}" for at in range(100)}


LITTLE_SCATTER = {f"n{at}": 100 + at % 3 * 0.01 for at in range(50)} | {"odd": 98.0}
WIDE = {f"n{at}": 100.0 + at for at in range(-20, 21)}
NO_SCATTER = {f"n{at}": 100.0 for at in range(9)} | {"bad": 96.9, "nearly": 97.1}


@pytest.mark.parametrize(("values", "name", "z", "ratio", "is_off"), [
    (LITTLE_SCATTER, "odd", -50, 0.99, False),      # far off by z, but within three per cent
    (WIDE, "n-20", 0, 0.97, None),      # below 97 per cent, but within the scatter: not known to be sound
    # Where values do not scatter the ratio decides.
    (NO_SCATTER, "bad", None, 0.97, True), (NO_SCATTER, "nearly", None, 0.98, False),
    (NO_SCATTER, "n0", None, 1.01, False)])
def test_slow_is_who_is_off_by_both_z_and_ratio(
    values: dict[str, float], name: str, z: float | None, ratio: float, is_off: bool | None,
) -> None:
    found = slow(values)[name]
    assert (found.z is None) if z is None else (found.z is not None and found.z < z)
    assert found.ratio is not None and found.ratio < ratio and found.off is is_off


def test_too_few_equals_are_not_judged_and_it_is_reported() -> None:
    values = {"a": 100.0, "b": 100.0, "c": 100.0, "d": 10.0}
    assert len(values) < LEAST_EQUALS
    found = slow(values)
    assert all(each.off is None and f"fewer than the {LEAST_EQUALS}" in each.why for each in found.values())
    assert slow(values, least=4)["d"].off is True


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 0.0, -3.0])
def test_what_is_no_figure_is_neither_slow_nor_fine_and_moves_no_ones_median(bad: float) -> None:
    found = slow({**eight(), "broken": bad})
    assert found["broken"].off is None and found["broken"].why and found["broken"].median is None
    assert {name: each for name, each in found.items() if name != "broken"} == slow(eight())


def test_of_nothing_no_one_is_judged() -> None:
    assert slow({}) == {}
    assert [each.off for each in slow({"a": math.nan, "b": 0.0}).values()] == [None, None]


@given(RATES)
def test_all_are_answered_and_at_most_half_are_slow(values: dict[str, float]) -> None:
    found = slow(values)
    assert list(found) == list(values)
    few, best = len(values) < LEAST_EQUALS, max(values.values(), default=0.0)
    assert all(each.off is None if few else each.off is not None or each.value < LEAST_RATIO * best
               for each in found.values())
    assert 2 * len(off(values)) <= len(values)


@given(RATES, st.floats(1e-3, 1e3))
def test_the_unit_does_not_matter(values: dict[str, float], scale: float) -> None:
    ones, others = slow(values), slow({name: value * scale for name, value in values.items()})
    for name, one in ones.items():
        # At the very edge rounding decides.
        near = (slow({**values, name: values[name] * (1 + 1e-9)})[name].off,
                slow({**values, name: values[name] * (1 - 1e-9)})[name].off)
        assert near[0] != near[1] or one.z is None or others[name].off == one.off


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30))
def test_the_median_deviation_is_that_of_the_textbook(values: list[float]) -> None:
    middle = statistics.median(values)
    assert median(values) == middle
    assert mad(values) == statistics.median(abs(value - middle) for value in values)


def test_the_median_of_nothing_or_of_no_number_is_an_error() -> None:
    for values in ([], [1.0, math.nan]):
        with pytest.raises(ValueError, match="median"):
            median(values)


def test_z_is_in_standard_deviations_where_values_are_normal() -> None:
    chance = random.Random(7)
    values = [chance.gauss(50, 2) for _ in range(20000)]
    z = robust_z(44.0, median(values), mad(values))
    assert z is not None and z == pytest.approx(-3.0, abs=0.1)


@pytest.mark.parametrize("equals", [5, 8, 12, 16, 31, 32, 64, 512, 4096, 32768])
def test_the_fewer_equals_the_further_off_one_has_to_be(equals: int) -> None:
    assert deviations(equals) > normal(equals) > 4
    assert deviations(equals) >= deviations(min(32768, 2 * equals)) * 0.99


@pytest.mark.parametrize(("equals", "noise", "runs"), [(8, 0.005, 3000), (8, 0.01, 3000), (64, 0.005, 1000),
                                                       (64, 0.01, 1000), (512, 0.02, 200)])
def test_in_no_run_of_sound_equals_is_one_slow(equals: int, noise: float, runs: int) -> None:
    chance = random.Random(equals)
    for _ in range(runs):
        assert not off({str(at): chance.gauss(100, 100 * noise) for at in range(equals)})


@pytest.mark.parametrize("equals", [5, 8, 16])
@pytest.mark.parametrize("noise", [0.02, 0.03])
def test_where_few_equals_scatter_more_than_sound_ones_do_hardly_any_is_accused(
    equals: int, noise: float,
) -> None:
    """One run of ten accused a sound one of eight that scatter by 3 %: they look like 2 % then."""
    chance = random.Random(equals)
    runs = [slow({str(at): chance.gauss(100, 100 * noise) for at in range(equals)}) for _ in range(1500)]
    accused = sum(any(each.off for each in found.values()) for found in runs)
    unknown = sum(any(each.off is None for each in found.values()) for found in runs)
    assert accused <= 0.035 * len(runs) and accused <= unknown <= 0.15 * len(runs)


@pytest.mark.parametrize("equals", [8, 16, 64])
def test_among_equals_that_scatter_by_1_per_cent_who_is_8_per_cent_behind_is_never_known_to_be_sound(
    equals: int,
) -> None:
    chance = random.Random(equals)
    found = [slow({"slow": 92.0, **{str(at): chance.gauss(100, 1) for at in range(equals - 1)}})["slow"].off
             for _ in range(500)]
    assert found.count(False) <= 0.02 * len(found) and found.count(True) >= 0.3 * len(found)


@pytest.mark.parametrize(("equals", "slow_ones", "behind", "noise"),
                         [(8, 1, 0.08, 0.005), (64, 1, 0.07, 0.005), (512, 4, 0.08, 0.005),
                          (4096, 4, 0.05, 0.005), (512, 100, 0.08, 0.005)])
def test_who_is_slow_is_named_all_the_same(equals: int, slow_ones: int, behind: float, noise: float) -> None:
    chance = random.Random(equals)
    named = innocent = 0
    for _ in range(20):
        found = off({str(at): chance.gauss(100 * (1 - behind) if at < slow_ones else 100, 100 * noise)
                     for at in range(equals)})
        named += len(found & set(map(str, range(slow_ones))))
        innocent += len(found - set(map(str, range(slow_ones))))
    assert innocent == 0 and named >= 0.97 * 20 * slow_ones
