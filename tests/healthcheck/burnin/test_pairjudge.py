"""Pairs judged as tests: beside their equals of all rounds so far, against a floor, and not at all where neither is there."""

from __future__ import annotations

from healthcheck.burnin.model import End, Kind, Place, Report, Seat, Stage, Task, TaskResult
from healthcheck.burnin.pairjudge import PairJudge, bandwidth
from healthcheck.burnin.weigh import Outcome

PLACES = [Place(f"n{at:02d}", 2, sku="big" if at < 24 else "small", leaf=f"leaf{at // 12}") for at in range(48)]
PASS, FAIL, UNKNOWN = Outcome.PASS, Outcome.FAIL, Outcome.UNKNOWN


def ran(number: int, one: int, two: int, *busbw: float, size: float = 1024, end: End = End.DONE) -> TaskResult:
    seats = tuple(Seat(f"n{node:02d}", gpu) for node in (one, two) for gpu in range(2))
    values = busbw if len(busbw) == 4 else busbw * 4
    reports = tuple(Report(seat, end, {"busbw_gb_s": value, "size_bytes": size}) for seat, value in zip(seats, values, strict=True))
    return TaskResult(Task(f"t{number}", Stage.LEAF_PAIRS, Kind.ALLREDUCE, seats, 60), reports)


def neighbours(speed: float = 100.0, slow: int | None = None) -> list[TaskResult]:
    return [ran(at, 2 * at, 2 * at + 1, speed * (0.9 if at == slow else 1) + at * 0.01) for at in range(12)]


def test_a_pair_behind_its_equals_fails_and_the_others_pass() -> None:
    found = PairJudge(PLACES).tests(neighbours(slow=7))
    assert [test.outcome for test in found] == [FAIL if at == 7 else PASS for at in range(12)]
    assert [test.test for test in found] == [f"t{at}" for at in range(12)] and found[7].pair == ("n14", "n15")


def test_the_few_pairs_of_a_later_round_are_judged_beside_those_of_the_earlier_ones() -> None:
    judge = PairJudge(PLACES)
    assert PairJudge(PLACES).tests([ran(50, 0, 3, 80.0)])[0].outcome is UNKNOWN
    judge.tests(neighbours())
    assert [test.outcome for test in judge.tests([ran(50, 0, 3, 80.0), ran(51, 4, 7, 99.0)])] == [FAIL, PASS]


def test_pairs_across_leaves_other_skus_and_other_sizes_are_no_equals() -> None:
    judge = PairJudge(PLACES)
    judge.tests(neighbours())
    others = [ran(60, 0, 13, 50.0), ran(61, 0, 3, 50.0, size=2048), ran(62, 24, 25, 50.0)]
    assert {test.outcome for test in judge.tests(others)} == {UNKNOWN}


def test_a_floor_judges_where_there_are_no_equals_and_binds_where_there_are() -> None:
    judge = PairJudge(PLACES, lambda _: 90.0)
    assert [test.outcome for test in judge.tests([ran(1, 0, 1, 89.0), ran(2, 2, 3, 91.0)])] == [FAIL, PASS]
    assert {test.outcome for test in PairJudge(PLACES, lambda _: 90.0).tests(neighbours(80.0))} == {FAIL}
    assert PairJudge(PLACES, lambda _: 50.0).tests(neighbours(slow=7))[7].outcome is FAIL


def test_what_is_not_whole_or_has_no_figure_is_unknown_and_nobodys_equal() -> None:
    broken = [ran(1, 0, 1, 100.0, end=End.CALLED_OFF), ran(2, 2, 3, 0.0), ran(3, 4, 5, 100.0, 100.0, 0.0, 100.0)]
    assert [bandwidth(result) for result in broken] == [None, None, None]
    judge = PairJudge(PLACES)
    assert [test.outcome for test in judge.tests([*broken, *neighbours()[3:7]])] == [UNKNOWN] * 7


def test_the_bandwidth_of_a_pair_is_the_median_of_its_ranks() -> None:
    assert bandwidth(ran(1, 0, 1, 90.0, 100.0, 102.0, 500.0)) == 101.0
