"""Isolation by pairs: names only the guilty, with tests for and against; unknown stays unknown."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.burnin import faults
from healthcheck.burnin.isolate import DEPTHS, PairSearch
from healthcheck.burnin.isolate import pair_test as as_test
from healthcheck.burnin.model import (
    Accusation,
    BurnInStage,
    Object,
    Participant,
    RankEnd,
    RankReport,
    Seat,
    Task,
    TaskKind,
    TaskResult,
    WrongData,
)
from healthcheck.burnin.rounds import NodePair, Round, pair
from healthcheck.burnin.weigh import PairOutcome
from healthcheck.burnin.weigh import PairTest as Sample
from tests.tries import tries

PASS, FAIL, UNKNOWN = PairOutcome.PASS, PairOutcome.FAIL, PairOutcome.UNKNOWN
Answer = Callable[[NodePair, Round], PairOutcome]


def seeds(quick: int, slow: int) -> pytest.MarkDecorator:
    """A few, and the others in the slow tier: each takes some tenths of a second."""
    return pytest.mark.parametrize("seed",
                                   [*range(quick), *(pytest.param(seed, marks=pytest.mark.slow)
                                                     for seed in range(quick, slow))])


def node(at: int) -> str:
    return f"n{at:04d}"


def cluster(leaves: int, size: int, domain: int = 0) -> list[Participant]:
    return [Participant(node(leaf * size + at), 8, leaf=f"leaf{leaf:02d}",
                        domain=f"d{(leaf * size + at) // domain:02d}" if domain else None)
            for leaf in range(leaves) for at in range(size)]


def played(isolation: PairSearch, answer: Answer, most: int = 40, fault: str = faults.SLOW) -> list[Round]:
    rounds = []
    while (round_ := isolation.next()) is not None:
        nodes = [each for some in round_.pairs for each in some]
        assert len(set(nodes)) == len(nodes)
        rounds.append(round_)
        assert len(rounds) <= most
        isolation.add_results([Sample(each, f"{round_.stage.value}-{round_.number}-{at}",
                                      answer(each, round_), fault) for at, each in enumerate(round_.pairs)])
    return rounds


def bad(*nodes: int) -> Answer:
    names = {node(at) for at in nodes}
    return lambda each, _: FAIL if names & set(each) else PASS


def named(accusations: Iterable[Accusation]) -> set[tuple[Object, str]]:
    return {(accused.object, accused.name) for accused in accusations}


def leaf_of(places: Iterable[Participant]) -> dict[str, str]:
    return {place.node: place.leaf or "" for place in places}


@pytest.mark.parametrize("guilty", [(5,), (0, 1), (3, 17, 40), (0, 2, 5, 9, 33, 34, 62, 63)])
def test_nodes_that_fail_always_are_named_after_three_rounds_and_confirmed_with_a_proven_one(
    guilty: tuple[int, ...],
) -> None:
    isolation = PairSearch(cluster(4, 16), across=0)
    rounds = played(isolation, bad(*guilty))
    assert [round_.stage for round_ in rounds] == [BurnInStage.LEAF_PAIRS, BurnInStage.LEAF_PAIRS,
                                             BurnInStage.LEAF_CONFIRM]
    found = isolation.accusations()
    assert named(found) == {(Object.NODE, node(at)) for at in guilty}
    for accused in found:
        assert (accused.confirmed and accused.fault == faults.SLOW and len(accused.tests_for) >= 2
                and accused.tests_against == ())
        assert all(accused.name in line and "slow" in line for line in accused.tests_for)
    assert set(isolation.proven()) == {place.node for place in cluster(4, 16)} - {node(at) for at in guilty}


def test_the_accused_take_no_part_in_the_rounds_across() -> None:
    rounds = played(PairSearch(cluster(4, 16)), bad(5))
    cross = [round_ for round_ in rounds if round_.stage is BurnInStage.CROSS_PAIRS]
    assert len(cross) == 4 and all(node(5) not in each for round_ in cross for each in round_.pairs)


def test_where_nothing_fails_there_are_six_rounds_and_no_one_is_accused() -> None:
    isolation = PairSearch(cluster(6, 8))
    rounds = played(isolation, lambda *_: PASS)
    assert [round_.stage for round_ in rounds] == [BurnInStage.LEAF_PAIRS] * 2 + [BurnInStage.CROSS_PAIRS] * 4
    assert isolation.accusations() == () and isolation.notes == [] and len(isolation.proven()) == 48
    assert [round_.number for round_ in rounds] == [1, 2, 3, 4, 5, 6]


def test_one_failure_that_does_not_come_again_accuses_no_one_and_is_reported_as_a_doubt() -> None:
    isolation = PairSearch(cluster(4, 8))
    once: list[NodePair] = []

    def answer(each: NodePair, round_: Round) -> PairOutcome:
        if round_.number == 1 and node(3) in each:
            once.append(each)
            return FAIL
        return PASS

    rounds = played(isolation, answer)
    assert any(round_.stage is BurnInStage.LEAF_CONFIRM for round_ in rounds)
    assert isolation.accusations() == ()
    assert len(isolation.doubts()) == 1 and str(once[0]) in isolation.doubts()[0]


def test_wrong_data_once_is_never_a_mere_doubt() -> None:
    isolation = PairSearch(cluster(4, 8))
    played(isolation, lambda each, round_: FAIL if round_.number == 1 and node(3) in each else PASS,
           fault=faults.WRONG_DATA)
    (accused,) = isolation.accusations()
    assert (accused.object is Object.UNEXPLAINED and accused.fault == faults.WRONG_DATA
            and node(3) in accused.name)


def test_a_path_between_two_nodes_is_named_where_both_pass_with_others() -> None:
    places = cluster(4, 16)
    met = PairSearch(places).next()
    assert met is not None
    path = met.pairs[4]
    isolation = PairSearch(places)
    played(isolation, lambda each, _: FAIL if each == path else PASS)
    (accused,) = isolation.accusations()
    assert (accused.object, accused.name, accused.confirmed) == (Object.PAIR, str(path), True)
    assert len(accused.tests_for) >= 3


def test_a_path_across_two_leaves_is_named_though_there_is_no_third_to_try_them_with() -> None:
    places = cluster(2, 16)
    plan = PairSearch(places)
    across = [each for round_ in played(plan, lambda *_: PASS) if round_.stage is BurnInStage.CROSS_PAIRS
              for each in round_.pairs]
    isolation = PairSearch(places)
    played(isolation, lambda each, _: FAIL if each == across[5] else PASS)
    assert named(isolation.accusations()) == {(Object.PAIR, str(across[5]))}


def uplinks(places: list[Participant], share: float, guilty: set[str], seed: int = 1) -> Answer:
    leaf, chance = leaf_of(places), random.Random(seed)
    return lambda each, _: FAIL if leaf[each.first] != leaf[each.second] and any(
        leaf[name] in guilty and chance.random() < share for name in each) else PASS


@pytest.mark.parametrize(("guilty", "share"), [
    ({"leaf03"}, 1.0), ({"leaf00", "leaf07"}, 0.25),
    *(pytest.param(*each, marks=pytest.mark.slow)
      for each in (({"leaf03"}, 0.25), ({"leaf00", "leaf07"}, 1.0),
                   ({"leaf01", "leaf02", "leaf03"}, 0.25), ({"leaf01", "leaf02", "leaf03"}, 1.0)))])
def test_leaves_whose_uplinks_are_bad_are_named_and_no_node_or_other_leaf_is(
    guilty: set[str], share: float,
) -> None:
    places = cluster(8, 32)
    isolation = PairSearch(places)
    rounds = played(isolation, uplinks(places, share, guilty))
    found = isolation.accusations()
    assert named(found) == {(Object.LEAF, leaf) for leaf in guilty}
    assert len(rounds) <= 8
    assert all(len(accused.tests_for) <= 17 and accused.confirmed for accused in found)


@seeds(1, 6)
def test_a_leaf_that_met_only_guilty_ones_is_cleared_by_one_more_round_with_proven_leaves(seed: int) -> None:
    places = cluster(8, 32)
    leaf = leaf_of(places)
    isolation = PairSearch(places)
    met: dict[str, set[str]] = {}
    while (round_ := isolation.next()) is not None:
        for one, two in round_.pairs:
            for name in (one, two):
                met.setdefault(leaf[name], set()).update((leaf[one], leaf[two]))
        isolation.add_results(Sample(each, "t", PASS) for each in round_.pairs)
    guilty = met["leaf05"] - {"leaf05"}
    assert len(guilty) == 4
    isolation = PairSearch(places)
    rounds = played(isolation, uplinks(places, 0.25, guilty, seed))
    assert len(rounds) <= 10
    assert named(isolation.accusations()) == {(Object.LEAF, leaf) for leaf in guilty}


def test_a_leaf_in_which_everything_fails_is_named_instead_of_its_nodes() -> None:
    places = cluster(4, 16)
    leaf = leaf_of(places)
    isolation = PairSearch(places)
    played(isolation, lambda each, _: FAIL if "leaf02" in {leaf[name] for name in each} else PASS)
    assert named(isolation.accusations()) == {(Object.LEAF, "leaf02")}


def test_with_two_leaves_the_path_between_them_is_named_because_no_third_tells_which() -> None:
    places = cluster(2, 16)
    leaf = leaf_of(places)
    isolation = PairSearch(places)
    played(isolation, lambda each, _: FAIL if leaf[each.first] != leaf[each.second] else PASS)
    assert named(isolation.accusations()) == {(Object.PAIR, "leaf00 - leaf01")}


@pytest.mark.parametrize("seed", [0, pytest.param(3, marks=pytest.mark.slow),
                                  pytest.param(11, marks=pytest.mark.slow)])
def test_where_all_leaves_have_bad_uplinks_each_is_named_or_unexplained_and_none_is_acquitted(
    seed: int,
) -> None:
    places = cluster(3, 6)
    isolation = PairSearch(places, seed=seed)
    leaves = set(leaf_of(places).values())
    played(isolation, uplinks(places, 0.25, leaves, seed), most=60)
    found = isolation.accusations()
    open_ = " ".join(line for each in found if each.object is not Object.LEAF for line in each.tests_for)
    assert ({each.name for each in found if each.object is Object.LEAF}
            | {leaf for name, leaf in leaf_of(places).items() if name in open_} == leaves)


def test_bad_nodes_and_bad_uplinks_at_once_are_distinguished() -> None:
    places = cluster(8, 32)
    across = uplinks(places, 0.25, {"leaf01", "leaf06"})
    nodes = bad(3, 40, 100)
    isolation = PairSearch(places)
    played(isolation,
           lambda each, round_: FAIL if FAIL in (nodes(each, round_), across(each, round_)) else PASS)
    assert named(isolation.accusations()) == {(Object.LEAF, "leaf01"), (Object.LEAF, "leaf06"),
                                              *((Object.NODE, node(at)) for at in (3, 40, 100))}


def test_a_node_that_fails_only_across_leaves_is_named_with_its_passes_against() -> None:
    places = cluster(6, 16)
    leaf = leaf_of(places)
    isolation = PairSearch(places)
    played(isolation,
           lambda each, _: FAIL if node(20) in each and leaf[each.first] != leaf[each.second] else PASS)
    (accused,) = isolation.accusations()
    assert (accused.object, accused.name) == (Object.NODE, node(20))
    assert (len(accused.tests_for) >= 4 and len(accused.tests_against) >= 2
            and "outside its leaf" in accused.why)


def test_nvlink_domains_are_measured_inside_and_then_with_each_other_before_other_leaves() -> None:
    places = cluster(2, 16, domain=4)
    domain = {place.node: place.domain for place in places}
    isolation = PairSearch(places)
    rounds = played(isolation, lambda *_: PASS)
    assert [round_.stage for round_ in rounds] == [BurnInStage.LEAF_PAIRS] * 4 + [BurnInStage.CROSS_PAIRS] * 4
    assert all(domain[one] == domain[two] for round_ in rounds[:2] for one, two in round_.pairs)
    assert all(domain[one] != domain[two] for round_ in rounds[2:] for one, two in round_.pairs)


def test_a_domain_that_is_slow_only_out_of_it_is_named_as_such() -> None:
    places = cluster(1, 48, domain=8)
    domain = {place.node: place.domain for place in places}
    isolation = PairSearch(places, repeats=3)
    played(isolation, lambda each, _: FAIL if domain[each.first] != domain[each.second] and "d02" in (
        domain[each.first], domain[each.second]) else PASS)
    assert named(isolation.accusations()) == {(Object.LEAF, "NVLink domain d02")}


def test_where_no_pair_passes_one_thing_is_unexplained_and_no_one_accused() -> None:
    for places in (cluster(1, 2), cluster(1, 16), cluster(4, 8)):
        isolation = PairSearch(places)
        played(isolation, lambda *_: FAIL)
        (accused,) = isolation.accusations()
        assert accused.object is Object.UNEXPLAINED and "nothing to compare with" in accused.why
        assert isolation.proven() == ()


def test_too_few_proven_nodes_are_reported() -> None:
    isolation = PairSearch(cluster(1, 2))
    played(isolation, lambda *_: UNKNOWN)
    assert isolation.notes and "too few proven nodes" in isolation.notes[0] and node(0) in isolation.notes[0]


@pytest.mark.parametrize("count", [3, 4, 5])
def test_in_a_handful_of_nodes_the_bad_one_is_named(count: int) -> None:
    isolation = PairSearch(cluster(1, count))
    played(isolation, bad(1))
    assert named(isolation.accusations()) == {(Object.NODE, node(1))}


def test_a_node_without_any_result_is_unmeasured_and_never_proven() -> None:
    isolation = PairSearch(cluster(4, 8))
    rounds = played(isolation, lambda each, _: UNKNOWN if node(9) in each else PASS)
    assert isolation.unmeasured() == (node(9),) and node(9) not in isolation.proven()
    assert isolation.accusations() == ()
    assert sum(node(9) in each for round_ in rounds for each in round_.pairs) >= 3
    assert not any(node(9) in each for round_ in rounds if round_.stage is BurnInStage.CROSS_PAIRS
                   for each in round_.pairs)


def test_what_is_not_reported_is_unknown_and_passes_no_one() -> None:
    isolation = PairSearch(cluster(2, 8))
    while isolation.next() is not None:
        isolation.add_results([])
    assert isolation.proven() == () and len(isolation.unmeasured()) == 16 and isolation.accusations() == ()


def test_a_round_is_the_same_until_it_is_reported_and_takes_only_its_own_pairs_once() -> None:
    isolation = PairSearch(cluster(2, 8))
    round_ = isolation.next()
    assert round_ is not None and isolation.next() is round_
    for wrong in ([Sample(pair("x", "y"), "t", PASS)], [Sample(round_.pairs[0], "t", PASS)] * 2):
        with pytest.raises(ValueError, match="not in the round"):
            isolation.add_results(wrong)
    assert isolation.next() is round_
    isolation.add_results([])
    with pytest.raises(ValueError, match="no round"):
        isolation.add_results([])


@pytest.mark.parametrize("wrong", [{"repeats": 0}, {"tries": 0}, {"across": -1}, {"paths": -1}])
def test_a_plan_without_sense_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least one"):
        PairSearch(cluster(1, 4), **wrong)  # type: ignore[arg-type]


def shapes(largest: int, leaves: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(1, largest), min_size=1, max_size=leaves)


# Where every answer is by chance, each round weighs all causes of all nodes: that takes up to a second with
# 24 nodes, of up to 100 rounds. Six nodes here; of nine an example may take 10 s of CPU time.
@settings(max_examples=tries(8), deadline=None)
@given(shapes(2, 3), st.integers(0, 2), st.booleans(), st.integers(0, 2**32), st.floats(0, 1),
       st.floats(0, 0.5))
def test_whatever_is_answered_it_ends_and_everything_adds_up(
    sizes: list[int], domain: int, named_leaf: bool, seed: int, fails: float, silent: float,
) -> None:
    adds_up(sizes, domain, named_leaf, seed, fails, silent)


@pytest.mark.slow
@settings(max_examples=tries(8), deadline=None)
@given(shapes(6, 4), st.integers(0, 3), st.booleans(), st.integers(0, 2**32), st.floats(0, 1),
       st.floats(0, 0.5))
def test_so_it_does_with_more_nodes(sizes: list[int], domain: int, named_leaf: bool, seed: int, fails: float,
                                    silent: float) -> None:
    adds_up(sizes, domain, named_leaf, seed, fails, silent)


def adds_up(sizes: list[int], domain: int, named_leaf: bool, seed: int, fails: float, silent: float) -> None:
    chance = random.Random(seed)
    places = [Participant(f"{leaf}n{at}", 8, leaf=f"leaf{leaf}" if named_leaf else None,
                          domain=f"{leaf}d{at // domain}" if domain else None)
              for leaf, size in enumerate(sizes) for at in range(size)]
    isolation = PairSearch(places, seed=seed % 3)
    results: set[str] = set()

    def answer(each: NodePair, round_: Round) -> PairOutcome:
        found = UNKNOWN if chance.random() < silent else FAIL if chance.random() < fails else PASS
        results.update(() if found is UNKNOWN else each)
        return found

    played(isolation, answer, most=100)
    assert isolation.next() is None
    assert set(isolation.unmeasured()) == {place.node for place in places} - results
    accusations = isolation.accusations()
    accused = {each.name for each in accusations if each.object is Object.NODE}
    assert (not accused & set(isolation.proven())
            and not set(isolation.unmeasured()) & (accused | set(isolation.proven())))
    assert all(each.tests_for and each.why for each in accusations)
    assert len(named(accusations)) == len(accusations)


@settings(max_examples=tries(60), deadline=None)
@given(st.integers(2, 6), st.integers(6, 16), st.data())
def test_of_a_few_nodes_that_fail_always_each_is_named_and_no_other_whatever_the_shape(
    leaves: int, size: int, data: st.DataObject,
) -> None:
    guilty = data.draw(st.sets(st.integers(0, leaves * size - 1), max_size=2))
    isolation = PairSearch(cluster(leaves, size), seed=data.draw(st.integers(0, 5)))
    played(isolation, bad(*guilty))
    assert named(isolation.accusations()) == {(Object.NODE, node(at)) for at in guilty}


def result(*ends: RankEnd, wrong: int = 0, accused: tuple[Accusation, ...] = ()) -> TaskResult:
    seats = tuple(Seat(name, 0) for name in ("a", "b"))
    task = Task("leaf-pairs-1-0", BurnInStage.LEAF_PAIRS, TaskKind.ALLREDUCE, seats, 60)
    reports = tuple(RankReport(seat, end, wrong=(WrongData(1, wrong),) if wrong else (), wrong_total=wrong)
                    for seat, end in zip(seats, ends, strict=False))
    return TaskResult(task, reports, accused)


def test_a_task_is_a_test_whose_outcome_is_unknown_unless_it_is_whole_and_judged() -> None:
    done = result(RankEnd.DONE, RankEnd.DONE)
    assert as_test(done, False) == Sample(pair("a", "b"), "leaf-pairs-1-0", PASS)
    assert (as_test(done, True).outcome, as_test(done, None).outcome) == (FAIL, UNKNOWN)
    assert as_test(done, None).whole
    for broken in (result(RankEnd.DONE), result(), result(RankEnd.DONE, RankEnd.CALLED_OFF)):
        assert as_test(broken, False).outcome is UNKNOWN and not as_test(broken, None).whole


def test_nodes_whose_measured_pairs_could_not_be_judged_go_on_and_are_not_tried_again() -> None:
    isolation = PairSearch(cluster(4, 2))
    stages = []
    while (round_ := isolation.next()) is not None:
        stages.append(round_.stage)
        isolation.add_results(Sample(each, "t", UNKNOWN, whole=True) for each in round_.pairs)
    assert BurnInStage.LEAF_CONFIRM not in stages and stages.count(BurnInStage.CROSS_PAIRS) == 4
    assert isolation.accusations() == () and isolation.proven() == ()


def test_wrong_data_or_a_blamed_rank_is_a_failure_of_that_fault() -> None:
    wrong = as_test(result(RankEnd.DONE, RankEnd.DONE, wrong=3), False)
    assert (wrong.outcome, wrong.fault, wrong.hard) == (FAIL, faults.WRONG_DATA, True)
    blamed = as_test(result(RankEnd.DONE, RankEnd.SIGNAL,
                            accused=(Accusation(Object.GPU, "b:0", faults.DEAD, "died"),)), None)
    assert (blamed.outcome, blamed.fault) == (FAIL, faults.DEAD)


@pytest.mark.parametrize("answer", [
    bad(5, 100, 2000),
    *(pytest.param(answer, marks=pytest.mark.slow)
      for answer in (lambda *_: PASS, lambda each, _: FAIL if hash(each) % 200 == 0 else PASS))])
def test_4096_nodes_are_planned_and_weighed_in_well_under_a_second_a_round(answer: Answer) -> None:
    isolation = PairSearch(cluster(128, 32))
    began = time.process_time()
    rounds = played(isolation, answer)
    isolation.accusations()
    assert (time.process_time() - began) / len(rounds) < 0.5


def wrong_in(sizes: tuple[int, ...], guilty: set[int]) -> set[tuple[Object, str]]:
    """Whom isolation names in leaves of these sizes with these nodes bad for good."""
    numbers = iter(range(sum(sizes)))
    places = [Participant(node(next(numbers)), 8, leaf=f"leaf{leaf:02d}") for leaf, size in enumerate(sizes)
              for _ in range(size)]
    isolation = PairSearch(places)
    played(isolation, bad(*guilty), most=60)
    return named(isolation.accusations())


@pytest.mark.parametrize(("sizes", "count"), [
    ((5,), 2), ((16,), 4), ((8,) * 4, 2), ((8,) * 4, 5), ((5, 7, 3), 2),
    *(pytest.param(*each, marks=pytest.mark.slow)
      for each in (((6,), 2), ((8,), 2), ((5,) * 4, 2), ((6,) * 4, 2), ((8,) * 4, 4), ((8,) * 4, 6),
                   ((8,) * 4, 7), ((32,) * 4, 24)))])
@seeds(1, 5)
def test_several_bad_nodes_of_one_leaf_are_those_nodes_and_not_their_leaf(
    sizes: tuple[int, ...], count: int, seed: int,
) -> None:
    guilty = set(random.Random(seed).sample(range(sizes[0]), count))
    assert wrong_in(sizes, guilty) == {(Object.NODE, node(at)) for at in guilty}


@pytest.mark.parametrize("size", [7, *(pytest.param(size, marks=pytest.mark.slow) for size in (8, 9, 16))])
def test_where_all_nodes_of_a_leaf_fail_with_everyone_it_is_the_leaf(size: int) -> None:
    assert wrong_in((size,) * 4, set(range(size))) == {(Object.LEAF, "leaf00")}


def test_a_leaf_named_for_all_its_nodes_says_how_likely_they_are_instead_and_that_no_test_decides() -> None:
    isolation = PairSearch(cluster(3, 8))
    played(isolation, bad(*range(8)))
    (accused,) = isolation.accusations()
    assert (all(node(at) in accused.why for at in range(8))
            and "no test of two nodes can decide" in accused.why)
    assert 400 < float(accused.why.partition(" instead is ")[2].partition(" ")[0].replace(",", "")) < 5000


@pytest.mark.parametrize("size", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_where_all_of_a_few_nodes_of_a_leaf_fail_it_may_be_the_leaf_or_they_and_no_one_is_named(
    size: int,
) -> None:
    assert {accused[0] for accused in wrong_in((size,) * 4, set(range(size)))} == {Object.UNEXPLAINED}


def test_one_node_alone_has_no_pairs_and_two_tell_no_one_apart() -> None:
    assert PairSearch(cluster(1, 1)).next() is None
    assert wrong_in((2,), {0}) == {(Object.UNEXPLAINED, "all pairs")}
    assert wrong_in((3,), {1}) == {(Object.NODE, node(1))}


def at_times(places: list[Participant], guilty: set[str], share: float, noise: float, seed: int) -> set[str]:
    """Whom the rounds of the quick length name where these fail in a share of their tests."""
    chance = random.Random(seed)
    depth = DEPTHS["quick"]
    isolation = PairSearch(places, repeats=depth.repeats, across=depth.across, tries=depth.tries, seed=seed)
    played(isolation, lambda each, _: FAIL if any(name in guilty and chance.random() < share for name in each)
           or chance.random() < noise else PASS, most=80)
    return {each.name for each in isolation.accusations() if each.object is not Object.UNEXPLAINED}


@pytest.mark.parametrize(("runs", "most"), [(8, 13), pytest.param(20, 34, marks=pytest.mark.slow)])
def test_nodes_that_fail_in_three_of_ten_tests_are_mostly_found_and_no_other(runs: int, most: int) -> None:
    places, found = cluster(4, 16), 0
    for seed in range(runs):
        guilty = {node(at) for at in random.Random(seed).sample(range(64), 2)}
        accused = at_times(places, guilty, 0.3, 0.005, seed)
        assert accused <= guilty
        found += len(accused)
    assert found >= most


def test_noise_accuses_no_one() -> None:
    for seed in range(tries(20)):
        assert at_times(cluster(1, 8), set(), 0.0, 0.05, seed) == set()


def test_an_accusation_says_what_else_it_could_be_and_how_much_less_likely_that_is() -> None:
    isolation = PairSearch(cluster(2, 16))
    played(isolation, bad(7))
    (accused,) = isolation.accusations()
    assert "times less likely" in accused.why
