"""Pairs judged as tests: beside equals of all planned rounds, by a floor, or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from healthcheck.burnin.floors import Floors, LearnedFloor
from healthcheck.burnin.model import BurnInStage, RankEnd, TaskResult
from healthcheck.burnin.pairjudge import PairJudge
from healthcheck.burnin.setting import setting_of
from healthcheck.burnin.weigh import PairOutcome
from tests.healthcheck.burnin.made import FLOORS, collective, pair, place, result

# Of these nothing is published: two makes of node, the last half of them with fewer ports.
PLACES = {f"n{at:02}": place(f"n{at:02}", gpus=2, leaf="leaf01", sku=None, rails=8 if at < 24 else 4)
          for at in range(48)}
PASS, FAIL, UNKNOWN = PairOutcome.PASS, PairOutcome.FAIL, PairOutcome.UNKNOWN


def ran(number: int, one: int, two: int, busbw: float, *, size: int = 2**30,
        stage: BurnInStage = BurnInStage.LEAF_PAIRS, end: RankEnd = RankEnd.DONE) -> TaskResult:
    done = result(pair(f"t{number}", f"n{one:02}", f"n{two:02}", 2, stage),
                  collective(busbw, ranks=4, size=size))
    return replace(done, reports=(replace(done.reports[0], end=end), *done.reports[1:]))


def neighbours(speed: float = 100.0, slow: int | None = None) -> list[TaskResult]:
    return [ran(at, 2 * at, 2 * at + 1, speed * (0.9 if at == slow else 1) + at * 0.01) for at in range(12)]


def judge(floor: float | None = None) -> PairJudge:
    setting = setting_of(neighbours()[0], PLACES, {}).learned_from
    learned = (() if floor is None
               else (LearnedFloor(setting, (2, 2), 100.0, 1.0, 10, floor, by="ops", at="2026-11-01"),))
    return PairJudge(PLACES, Floors(FLOORS.rules, learned), {})


def outcomes(of: PairJudge, results: Iterable[TaskResult]) -> list[PairOutcome]:
    return [test.outcome for test in of.tests(results)]


def planned(of: PairJudge, results: list[TaskResult]) -> list[PairOutcome]:
    of.keep(results)
    return outcomes(of, results)


def test_a_pair_behind_its_equals_fails_and_the_others_pass() -> None:
    of = judge()
    of.keep(neighbours(slow=7))
    found = of.tests(neighbours(slow=7))
    assert [test.outcome for test in found] == [FAIL if at == 7 else PASS for at in range(12)]
    assert [test.test for test in found] == [f"t{at}" for at in range(12)] and found[7].pair == ("n14", "n15")


def test_the_few_pairs_of_a_later_round_are_judged_beside_those_of_the_earlier_ones() -> None:
    assert outcomes(judge(), [ran(50, 0, 3, 80.0)]) == [UNKNOWN]
    of = judge()
    of.keep(neighbours())
    assert outcomes(of, [ran(50, 0, 3, 80.0), ran(51, 4, 7, 99.9)]) == [FAIL, PASS]


def test_tries_of_a_suspect_that_are_not_kept_are_judged_and_are_no_measure_for_others() -> None:
    of = judge()
    of.keep(neighbours())
    tries = [ran(60 + at, 0, at, 50.0, stage=BurnInStage.LEAF_CONFIRM) for at in range(1, 20)]
    assert outcomes(of, tries) == [FAIL] * 19
    assert outcomes(of, [ran(90, 0, 3, 50.0), ran(91, 4, 7, 99.9)]) == [FAIL, PASS]


def test_pairs_of_other_ports_and_of_other_sizes_are_no_equals() -> None:
    of = judge()
    of.keep(neighbours())
    assert outcomes(of, [ran(61, 0, 3, 50.0, size=2**20), ran(62, 24, 25, 50.0)]) == [UNKNOWN] * 2


def test_a_floor_judges_where_there_are_no_equals_and_binds_where_there_are() -> None:
    assert outcomes(judge(90.0), [ran(1, 0, 1, 89.0), ran(2, 2, 3, 91.0)]) == [FAIL, PASS]
    assert set(planned(judge(90.0), neighbours(80.0))) == {FAIL}
    assert planned(judge(50.0), neighbours(slow=7))[7] is FAIL


def test_what_is_not_whole_or_has_no_figure_is_unknown_and_no_ones_equal() -> None:
    broken = [ran(1, 0, 1, 100.0, end=RankEnd.CALLED_OFF), result(pair("t2", "n02", "n03", 2), {})]
    assert planned(judge(), [*broken, *neighbours()[3:7]]) == [UNKNOWN] * 6
