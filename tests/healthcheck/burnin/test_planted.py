"""Faults of arithmetic planted at random in every collective of real gloo ranks.

The guilty rank is named or among the candidates, and no one else is named. Many faults are planted in one
process group, and each is judged by itself.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import pytest

from healthcheck.burnin.faults import WRONG_DATA
from healthcheck.burnin.model import Accusation, Object, Seat, TaskResult
from healthcheck.burnin.wrongdata import wrong_data
from tests.healthcheck.burnin.workers import FaultyGpus, under_way
from tests.testbed import badgpu
from tests.tries import WHOLE

WORLD = 8 if WHOLE else 4
OF_NODE = WORLD // 2
SEATS = tuple(Seat(f"n{rank // OF_NODE}", rank % OF_NODE) for rank in range(WORLD))
FIRST, TIMED = 2, 4         # iterations to warm up, and timed ones
WARM = FIRST + TIMED
NAMED, EITHER, ANYBODY = "named", "one of two", "anybody"


@dataclass(frozen=True)
class Planted:
    """One fault, or two, at one call of a collective."""

    op: str
    call: int
    rows: tuple[dict[str, Any], ...]


class Bed(FaultyGpus):
    """A burn-in under way, and its plan of faults."""

    def run(
        self, rows: list[dict[str, Any]], checks: int, *, seats: tuple[Seat, ...] = SEATS,
        iterations: int = TIMED,
    ) -> TaskResult:
        """What comes of a task with these faults."""
        for log in self.plan.parent.glob(f"{self.plan.name}.*"):
            log.unlink()
        params = {"bytes": 8192, "iterations": iterations, "checks": checks, "check_bytes": 8192}
        result = self.result(rows, seats, params)
        assert result.whole, [report.error for report in result.reports]
        return result

    def happened(self) -> dict[int, set[int]]:
        """The iterations in which each row altered something."""
        found: dict[int, set[int]] = {}
        for log in self.plan.parent.glob(f"{self.plan.name}.*"):
            for line in log.read_text().splitlines():
                number, iteration = json.loads(line)
                found.setdefault(number, set()).add(iteration)
        return found


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    with under_way(tmp_path_factory.mktemp("planted")) as there:
        yield Bed(*there)


def only(result: TaskResult, iterations: set[int]) -> tuple[Accusation, ...]:
    """What is said of these iterations alone."""
    reports = []
    for report in result.reports:
        wrong = tuple(each for each in report.wrong if each.iteration in iterations)
        reports.append(replace(report, wrong=wrong, wrong_total=sum(each.count for each in wrong)))
    return wrong_data(result.task, reports)


def accused(result: TaskResult) -> list[Accusation]:
    """Who is accused of wrong data: on a busy machine ranks are late, too."""
    return [one for one in result.accusations if one.fault == WRONG_DATA]


def candidates(one: Accusation) -> set[str]:
    """The seats that an accusation names: its own, or those that it says it may be."""
    if one.object is Object.GPU:
        return {one.name}
    return set(re.findall(r"n[01]:[0-3]", one.why))


def expected(check: str, when: str) -> str:
    """What is known of a fault that happened once, in this collective, in this moment."""
    op = check.partition(" ")[0]
    kept = check.endswith("out of place") or op in ("all-gather", "broadcast")
    if when == "made" or (when == "entry" and kept):
        return NAMED
    if when == "exit" and op != "reduce-scatter":
        return NAMED if op in ("all-reduce", "all-gather", "broadcast") else EITHER
    return ANYBODY


def check_of(result: TaskResult, iterations: set[int]) -> str:
    wrong = [each for report in result.reports for each in report.wrong if each.iteration in iterations]
    [check] = {each.check for each in wrong}
    return check


CALLS = {  # by collective, in how many manners it is run
    "all_reduce": 8, "reduce_scatter_tensor": 16, "all_gather_into_tensor": 2, "all_to_all_single": 1,
    "broadcast": 1, "batch_isend_irecv": 1,
}


def plantings(chance: random.Random, checks: int, each: int) -> list[Planted]:
    """So many of each collective, moment and kind of element, each at a call of its own."""
    found = []
    for op, manners in CALLS.items():
        first = WARM if op == "all_reduce" else 0
        calls = list(range(first, first + manners * checks))
        chance.shuffle(calls)
        for when in ("entry", "exit"):
            for what in ("own", "foreign"):
                for _ in range(each):
                    call = calls.pop()
                    # Who sends a broadcast, and so can alter it, changes with the iteration: all try.
                    rank = chance.randrange(WORLD)
                    row = {"fault": "alters", "op": op, "call": call, "when": when, "what": what,
                           "at": chance.random(), "rank": rank}
                    found.append(Planted(op, call, (row,)))
    return found


def weighed(bed: Bed, planted: list[Planted], checks: int) -> list[str]:
    """Plants them all in one process group and checks each by itself; what each came to."""
    rows = [{**row, "number": number} for number, one in enumerate(planted) for row in one.rows]
    result = bed.run(rows, checks)
    happened = bed.happened()
    found = []
    for number, one in enumerate(planted):
        if number not in happened:
            # Who does not send a broadcast has nothing to alter at its entry, and who does gets nothing.
            assert one.op == "broadcast"
            continue
        iterations = happened[number]
        accusations = only(result, iterations)
        guilty = {str(SEATS[row["rank"]]) for row in one.rows}
        if not accusations:
            raise AssertionError(f"not found: {one}")
        check = check_of(result, iterations)
        said = f"{check}: {one.rows}: {accusations}"
        assert all(each.fault == WRONG_DATA for each in accusations), said
        named = {each.name for each in accusations if each.object is Object.GPU}
        assert named <= guilty, said
        know = {expected(check, row["when"]) for row in one.rows}
        if know == {NAMED}:
            assert named == guilty, said
            assert all(each.object is Object.GPU for each in accusations), said
        else:
            assert guilty <= set().union(*map(candidates, accusations)), said
            if know == {EITHER}:
                # Where it was its own part there is no other.
                assert all(len(candidates(each)) == 1 + (each.object is not Object.GPU)
                           for each in accusations), said
        found.append(f"{check.partition(' ')[0]} {'/'.join(sorted(know))}")
    return found


def test_one_fault_of_each_sort_in_each_collective_is_its_ranks_or_has_its_candidates(bed: Bed) -> None:
    found = weighed(bed, plantings(random.Random(21), 4, 1), 4)
    assert {each.partition(" ")[0] for each in found} == {
        "all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast", "send-receive"}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(10))
def test_twenty_faults_of_each_sort_in_each_collective(bed: Bed, seed: int) -> None:
    found = weighed(bed, plantings(random.Random(seed), 9, 2), 9)
    print(f"{len(found)} faults: {sorted(set(found))}")
    assert len(found) >= 40


def pairs(chance: random.Random, checks: int, each: int) -> list[Planted]:
    """Two faults of different ranks at one call, of moments that each name theirs, or of which one does."""
    found = []
    for one in plantings(chance, checks, each):
        [row] = one.rows
        other = chance.choice([rank for rank in range(WORLD) if rank != row["rank"]])
        when = chance.choice(["entry", "exit"])
        found.append(replace(one, rows=(row, {**row, "rank": other, "at": chance.random(), "when": when})))
    return [one for one in found if one.op != "broadcast"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [8, *range(20, 24)])
def test_two_faults_in_one_collective_are_two_and_neither_hides_the_other(bed: Bed, seed: int) -> None:
    planted = pairs(random.Random(seed), 4, 1)
    result = bed.run([{**row, "number": number} for number, one in enumerate(planted) for row in one.rows], 4)
    happened = bed.happened()
    for number, one in enumerate(planted):
        accusations = only(result, happened[number])
        check = check_of(result, happened[number])
        guilty = {str(SEATS[row["rank"]]) for row in one.rows}
        named = {each.name for each in accusations if each.object is Object.GPU}
        sure = {str(SEATS[row["rank"]]) for row in one.rows if expected(check, row["when"]) == NAMED}
        assert sure <= named <= guilty, (check, one, accusations)
        assert guilty <= set().union(*map(candidates, accusations)), (check, one, accusations)


@pytest.mark.slow       # test_guilty.py has one, as has test_wrongdata.py
@pytest.mark.parametrize("rank", [WORLD - 2, 1])
def test_an_owner_whose_elements_are_wrong_again_and_again_is_named_alone(bed: Bed, rank: int) -> None:
    row = {"fault": "alters", "op": "all_reduce", "when": "entry", "what": "own", "at": 0.4, "every": True,
           "rank": rank}
    result = bed.run([row], 1, iterations=12)
    [accusation] = accused(result)
    assert accusation.name == str(SEATS[rank]) and "its own elements were wrong" in accusation.why


@pytest.mark.slow
@pytest.mark.parametrize("rank", [WORLD - 3, 2])
def test_who_alters_one_place_whosever_it_is_is_a_candidate_and_no_owner(bed: Bed, rank: int) -> None:
    row = {"fault": "alters", "op": "all_reduce", "when": "entry", "at": 0.4, "every": True, "rank": rank}
    [accusation] = accused(bed.run([row], 1, iterations=30))
    assert accusation.object is Object.UNEXPLAINED and str(SEATS[rank]) in candidates(accusation)
    node = tuple(seat for seat in SEATS if seat.node == SEATS[rank].node)
    [accusation] = accused(bed.run([{**row, "rank": rank % OF_NODE}], 1, seats=node, iterations=30))
    assert (accusation.object, accusation.name) == (Object.NODE, SEATS[rank].node)


# Each adder, of all ranks or of one: the least wrong of one rank here, all of both in the slow tier.
FEW = [(badgpu.ADDERS[3], {"rank": 3})]
ADDERS = [pytest.param(adder, whose, marks=[] if (adder, whose) in FEW else [pytest.mark.slow])
          for adder in badgpu.ADDERS for whose in ({}, {"rank": 3})]


@pytest.mark.parametrize(("adder", "whose"), ADDERS)
def test_a_sum_that_is_made_wrongly_is_found_and_no_gpu_is_named(
    bed: Bed, adder: str, whose: dict[str, int],
) -> None:
    result = bed.run([{"fault": "adder", "adder": adder, **whose}], 1)
    [accusation] = accused(result)
    assert accusation.object is Object.UNEXPLAINED and candidates(accusation) == set(map(str, SEATS))
    found = {tuple(each.check.split()[:2]) for report in result.reports for each in report.wrong}
    assert set(product(("all-reduce", "reduce-scatter"), ("float32", "float16", "bfloat16"))) <= found


def test_sums_of_whole_numbers_and_of_floats_are_tested_each_by_themselves(bed: Bed) -> None:
    result = bed.run([], 1)
    assert not accused(result)
    assert {report.figures["checks"] for report in result.reports} == {float(sum(CALLS.values()))}
    assert {report.facts["arithmetic"] for report in result.reports} == {
        "all-reduce, reduce-scatter, all-gather, all-to-all, broadcast, send-receive"}
    assert all("tests no other adder" in report.facts["arithmetic_not"] for report in result.reports)


def made(chance: random.Random, count: int, checks: int) -> list[Planted]:
    """Faults in a rank's memory before it looks, in whatever collective comes then."""
    iterations = chance.sample(range(WARM, WARM + checks * sum(CALLS.values())), count)
    rows = [{"fault": "alters", "iteration": at, "when": "made", "what": chance.choice(["own", "foreign"]),
             "at": chance.random(), "rank": chance.randrange(WORLD)} for at in iterations]
    return [Planted("", row["iteration"], (row,)) for row in rows]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_twenty_wrong_adders_of_chance_are_found_and_no_gpu_is_named(bed: Bed) -> None:
    chance = random.Random(17)
    for _ in range(20):
        row = {"fault": "adder", "adder": chance.choice(badgpu.ADDERS), "rank": chance.randrange(WORLD)}
        [accusation] = accused(bed.run([row], 1))
        assert (accusation.object is Object.UNEXPLAINED
                and str(SEATS[row["rank"]]) in candidates(accusation)), row


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_twenty_faults_of_chance_that_stay_are_named_and_no_one_else(bed: Bed) -> None:
    chance = random.Random(18)
    for _ in range(20):
        rank = chance.randrange(WORLD)
        row = {"fault": "alters", "iteration": chance.randrange(10),
               "when": chance.choice(["made", "entry", "exit"]), "what": chance.choice(["own", "foreign"]),
               "at": chance.random(), "every": True, "rank": rank}
        found = accused(bed.run([row], 2, iterations=20))
        assert [one.name for one in found] == [str(SEATS[rank])], (row, found)


@pytest.mark.parametrize("seed", [8, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(20, 24))])
def test_what_was_altered_in_memory_before_it_is_sent_is_the_altering_ranks(bed: Bed, seed: int) -> None:
    planted = made(random.Random(seed), 20, 2)
    rows = [{**row, "number": number} for number, one in enumerate(planted) for row in one.rows]
    result = bed.run(rows, 2)
    happened = bed.happened()
    assert len(happened) >= 18      # but for a broadcast that the rank does not send
    for number, iterations in happened.items():
        [accusation] = only(result, iterations)
        guilty = str(SEATS[planted[number].rows[0]["rank"]])
        assert (accusation.object, accusation.name) == (Object.GPU, guilty), planted[number]
