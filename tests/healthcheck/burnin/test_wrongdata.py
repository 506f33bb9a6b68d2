"""Who is at fault for wrong data: each row of the table, what follows an owner, and the cases between."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.burnin.faults import WRONG_DATA
from healthcheck.burnin.merged import merged
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
    WrongData,
)
from healthcheck.burnin.wrongdata import wrong_data

SEATS = tuple(Seat(f"n{rank // 2}", rank % 2) for rank in range(6))
TASK = Task("t", BurnInStage.ALL, TaskKind.ALLREDUCE, SEATS, 60)
ALL = range(6)
OWNED, SUMMED = "all-reduce float32 owner-coded in place", "all-reduce float32 summed in place"
SCATTERED, SCATTERED_HERE = ("reduce-scatter float32 summed out of place",
                             "reduce-scatter float32 summed in place")
GATHERED, SPREAD = "all-gather int32 moved out of place", "broadcast int32 moved in place"
SWAPPED, SENT = "all-to-all int32 moved out of place", "send-receive int32 moved out of place"


def at(iteration: int, *places: tuple[int, int], check: str = OWNED, inputs: Sequence[int] = ()) -> WrongData:
    """What a rank saw: these elements, each with its owner."""
    owners = sorted({owner for _, owner in places if owner >= 0})
    return WrongData(iteration, len(places) or len(inputs), tuple(owners), bool(inputs), check, tuple(places),
                     tuple(inputs))


def reports(wrong: dict[int, list[WrongData]], *, ends: dict[int, RankEnd] | None = None) -> list[RankReport]:
    """What six ranks say, with what each found wrong."""
    return [RankReport(seat, (ends or {}).get(rank, RankEnd.DONE), wrong=tuple(wrong.get(rank, ())),
                       wrong_total=sum(each.count for each in wrong.get(rank, ())))
            for rank, seat in enumerate(SEATS)]


def everywhere(wrongs: Iterable[WrongData]) -> dict[int, list[WrongData]]:
    return {rank: list(wrongs) for rank in ALL}


def blamed(found: tuple[Accusation, ...]) -> list[str]:
    assert all(each.fault == WRONG_DATA and each.tests_for == ("t",) and each.why for each in found)
    return [each.object.value if each.object is Object.UNEXPLAINED else each.name for each in found]


def test_right_data_accuses_no_one() -> None:
    assert wrong_data(TASK, reports({})) == ()


# One iteration

def test_elements_of_one_owner_wrong_on_all_ranks_once_have_many_explanations() -> None:
    [found] = wrong_data(TASK, reports(everywhere([at(15, (7, 4))])))
    assert (found.object, found.name) == (Object.UNEXPLAINED, "t")
    assert "candidates: n0:0, n0:1, n1:0, n1:1, n2:0, n2:1; pair tests can tell" in found.why


def test_of_ranks_of_one_node_it_is_that_node_that_has_the_fault() -> None:
    alone = replace(TASK, seats=tuple(Seat("n7", gpu) for gpu in ALL))
    [found] = wrong_data(alone, reports(everywhere([at(15, (7, 4))])))
    assert (found.object, found.name) == (Object.NODE, "n7") and "one of its n7:0, n7:1" in found.why


def test_who_altered_what_it_does_not_own_is_named_by_its_own_look_and_the_owner_is_not() -> None:
    found = everywhere([at(15, (7, 4))])
    found[2] = [at(15, (7, 4), inputs=[7])]
    assert blamed(wrong_data(TASK, reports(found))) == ["n1:0"]


def test_who_altered_what_made_no_difference_to_the_sum_is_named_all_the_same() -> None:
    assert blamed(wrong_data(TASK, reports({2: [at(15, inputs=[7])]}))) == ["n1:0"]


def test_elements_wrong_on_one_rank_are_that_ranks() -> None:
    assert blamed(wrong_data(TASK, reports({4: [at(15, (0, 0), (1, 1), (2, 2))]}))) == ["n2:0"]


def test_two_faults_in_one_iteration_are_two() -> None:
    found = everywhere([at(15, (7, 4))])
    found[2] = [at(15, (7, 4), inputs=[7])]
    found[5] = [at(15, (7, 4), (9, 1))]
    assert blamed(wrong_data(TASK, reports(found))) == ["n1:0", "n2:1"]
    found[1] = [at(15, (7, 4), (30, 2), inputs=[30])]
    assert blamed(wrong_data(TASK,
                             reports({**found, 0: [at(15, (7, 4), (30, 2))]}))) == ["n0:1", "n1:0", "n2:1"]


def test_beside_someone_who_is_named_what_is_left_stays_open_whoever_is_accused_for_the_task() -> None:
    found = everywhere([at(15, (7, 4), (8, 2))])
    found[2] = [at(15, (7, 4), (8, 2), inputs=[7])]
    accusations = wrong_data(TASK, reports(found))
    assert blamed(accusations) == ["n1:0", "unexplained"]
    places = {name: Participant(name, 2) for name in ("n0", "n1", "n2")}
    assert [one.object for one in merged(accusations, places)] == [Object.GPU, Object.UNEXPLAINED]


def test_elements_of_one_owner_wrong_on_some_ranks_were_spoilt_on_the_way() -> None:
    assert blamed(wrong_data(TASK,
                             reports({rank: [at(15, (7, 4))] for rank in (0, 1, 2)}))) == ["unexplained"]


def test_ranks_that_could_not_list_all_that_they_saw_are_not_taken_for_ranks_that_saw_it_right() -> None:
    many = tuple((place, -1) for place in range(32))
    seen = {rank: [WrongData(15, 1000, (), False, SUMMED, many)] for rank in ALL}
    seen[3] = [WrongData(15, 1001, (), False, SUMMED,
                         ((0, -1), *((place, -1) for place in range(1, 31)), (40, -1)))]
    assert (blamed(wrong_data(TASK, reports(seen))) == ["n1:1", "unexplained"]
            or blamed(wrong_data(TASK, reports(seen))) == ["unexplained"])


# What follows an owner

def rotated(owner_of: dict[int, int], check: str = OWNED, place: int = 7) -> list[WrongData]:
    """Failures by iteration, with the owner that the place had in each."""
    return [at(iteration, (place, owner), check=check) for iteration, owner in owner_of.items()]


def test_failures_that_follow_an_owner_are_the_owners() -> None:
    found = wrong_data(TASK, reports(everywhere(rotated(dict.fromkeys((3, 5, 8, 11, 15), 4)))))
    assert blamed(found) == ["n2:0"] and "in 5 iterations, the first of them 3" in found[0].why


def test_too_few_failures_of_an_owner_are_still_chance() -> None:
    assert blamed(wrong_data(TASK, reports(everywhere(rotated(dict.fromkeys((3, 5, 8, 11), 4)))))) == [
        "unexplained"]


def test_a_place_that_is_wrong_whoever_owns_it_is_no_owners() -> None:
    chance = random.Random(5)
    for _ in range(300):
        count = chance.randrange(1, 40)
        owners = {iteration: chance.randrange(6) for iteration in range(count)}
        assert blamed(wrong_data(TASK, reports(everywhere(rotated(owners))))) == ["unexplained"], owners


def test_two_owners_whom_failures_follow_are_both_named() -> None:
    both = rotated({**dict.fromkeys(range(20), 4), **dict.fromkeys(range(20, 40), 1)})
    assert blamed(wrong_data(TASK, reports(everywhere(both)))) == ["n0:1", "n2:0"]


def test_an_owner_explains_what_is_wrong_in_sums_and_not_far_more_than_that() -> None:
    own, few = rotated(dict.fromkeys(range(8), 4)), rotated(dict.fromkeys(range(10, 30), -1), SUMMED)
    assert blamed(wrong_data(TASK, reports(everywhere([*own, *few])))) == ["n2:0"]
    many = rotated(dict.fromkeys(range(10, 50), -1), SUMMED)
    assert blamed(wrong_data(TASK, reports(everywhere([*own, *many])))) == ["n2:0", "unexplained"]


def test_of_several_in_a_row_no_one_knows_whose_they_were() -> None:
    rows = rotated(dict.fromkeys(range(9), -1), OWNED + ", 8 in a row")
    assert blamed(wrong_data(TASK, reports(everywhere(rows)))) == ["unexplained"]


# Reduce-scatter: each rank has a part of its own

def test_one_wrong_part_of_a_scattered_sum_is_no_ones() -> None:
    assert blamed(wrong_data(TASK, reports({4: [at(9, (70, -1), check=SCATTERED)]}))) == ["unexplained"]


def test_parts_that_are_wrong_at_one_rank_again_and_again_are_that_ranks() -> None:
    wrongs = [at(iteration, (70, -1), check=SCATTERED) for iteration in range(6)]
    assert blamed(wrong_data(TASK,
                             reports({4: [*wrongs, at(9, (71, -1), check=SCATTERED_HERE)]}))) == ["n2:0"]
    # In place nobody could look at what was sent afterwards.
    here = [at(iteration, (70, -1), check=SCATTERED_HERE) for iteration in range(6)]
    assert blamed(wrong_data(TASK, reports({4: here}))) == ["unexplained"]


def test_where_all_reduces_are_wrong_too_who_gets_the_wrong_part_is_not_thereby_guilty() -> None:
    wrongs = [at(iteration, (70, -1), check=SCATTERED) for iteration in range(6)]
    found = everywhere([at(20, (70, -1), check=SUMMED)])
    found[4] = [*wrongs, *found[4]]
    assert blamed(wrong_data(TASK, reports(found))) == ["unexplained"]


def test_where_every_part_is_wrong_no_one_is_named() -> None:
    parts = {rank: [at(each, (10 * rank, -1), check=SCATTERED) for each in range(9)] for rank in ALL}
    assert blamed(wrong_data(TASK, reports(parts))) == ["unexplained"]


# What is moved

@pytest.mark.parametrize("check", [GATHERED, SPREAD, SWAPPED, SENT])
def test_a_sender_that_finds_its_own_input_wrong_is_named_and_no_receiver(check: str) -> None:
    found = {rank: [at(9, (3, 2), check=check)] for rank in (0, 1, 4)}
    assert blamed(wrong_data(TASK, reports({**found, 2: [at(9, check=check, inputs=[3])]}))) == ["n1:0"]


@pytest.mark.parametrize("check", [GATHERED, SPREAD])
def test_who_alone_got_a_shared_part_wrong_is_named(check: str) -> None:
    assert blamed(wrong_data(TASK, reports({4: [at(9, (3, 2), check=check)]}))) == ["n2:0"]
    assert blamed(wrong_data(TASK, reports({4: [at(9, (3, 2), check=check)],
                                            5: [at(9, (3, 2), check=check)]}))) == ["unexplained"]


def test_an_own_part_that_came_back_wrong_is_the_ranks_own_fault() -> None:
    assert blamed(wrong_data(TASK, reports({4: [at(9, (3, 4), check=SWAPPED)]}))) == ["n2:0"]


def test_once_wrong_between_two_is_either_of_them() -> None:
    [found] = wrong_data(TASK, reports({4: [at(9, (3, 1), check=SENT)]}))
    assert found.object is Object.UNEXPLAINED and "candidates: n0:1, n2:0; pair tests" in found.why
    [found] = wrong_data(TASK, reports({4: [at(9, (3, 5), check=SENT)]}))
    assert (found.object, found.name) == (Object.NODE, "n2")


def test_of_those_who_exchange_the_one_is_named_with_whom_several_others_failed() -> None:
    assert blamed(wrong_data(TASK, reports({4: [at(9, (3, 1), (4, 2), (5, 3), check=SWAPPED)]}))) == ["n2:0"]
    found = {rank: [at(9 + rank, (3, 1), check=SENT)] for rank in (0, 3, 4)}
    assert blamed(wrong_data(TASK, reports(found))) == ["n0:1"]
    two = {4: [at(9, (3, 0), (4, 1), (5, 2), check=SWAPPED)],
           5: [at(10, (3, 0), check=SENT), at(11, (3, 3), check=SENT)]}
    assert blamed(wrong_data(TASK, reports(two))) == ["n2:0", "unexplained", "unexplained"]


def test_two_who_failed_with_the_same_third_may_both_be_at_fault() -> None:
    found = wrong_data(TASK, reports({4: [at(9, (3, 0), check=SWAPPED)], 2: [at(9, (3, 0), check=SWAPPED)]}))
    assert blamed(found) == ["unexplained", "unexplained"]
    circle = {0: [at(9, (3, 2), check=SENT)], 2: [at(9, (3, 4), check=SENT)], 4: [at(9, (3, 0), check=SENT)]}
    assert blamed(wrong_data(TASK, reports(circle))) == ["unexplained"] * 3


# Reports that are not whole

def test_ranks_that_ended_early_have_not_verified_and_prove_nothing() -> None:
    ended = {0: RankEnd.RAISED, 5: RankEnd.CALLED_OFF}
    five = rotated(dict.fromkeys((3, 5, 8, 11, 15), 4))
    assert blamed(wrong_data(TASK, reports(dict.fromkeys((1, 2, 3, 4), five), ends=ended))) == ["n2:0"]
    gone = dict.fromkeys((0, 1, 2, 3, 5), RankEnd.CALLED_OFF)
    assert blamed(wrong_data(TASK, reports({4: [at(15, (7, 4))]}, ends=gone))) == ["unexplained"]


def test_a_list_of_iterations_that_was_cut_short_hides_no_one() -> None:
    # Rank 5 had more to report than there was room for: it may have seen the later ones, too.
    later = rotated(dict.fromkeys((20, 21, 22, 23, 24), 1))
    found = reports(dict.fromkeys(range(5), later) | {5: [at(each, (3, 2)) for each in range(4)]})
    found[5] = replace(found[5], wrong_total=99)
    assert blamed(wrong_data(TASK, found)) == ["n0:1", "n2:1"]


def test_a_count_without_particulars_is_wrong_all_the_same() -> None:
    found = reports({})
    found[2] = replace(found[2], wrong_total=7)
    assert blamed(wrong_data(TASK, found)) == ["n1:0"]


def test_reports_without_places_are_read_as_they_were_meant() -> None:
    mixed = {rank: [WrongData(15, 8, (0, 1, 2, 3), own_input=rank == 4)] for rank in ALL}
    assert blamed(wrong_data(TASK, reports(mixed))) == ["n2:0"]
    assert blamed(wrong_data(TASK, reports({rank: [WrongData(15, 8, (0, 1, 2, 3))] for rank in ALL}))) == [
        "unexplained"]
    assert blamed(wrong_data(TASK, reports({4: [WrongData(15, 8, (0, 1, 2))]}))) == ["n2:0"]


@pytest.mark.parametrize("kind", [kind for kind in TaskKind if not (kind.together or kind.of_node)])
def test_who_works_alone_and_is_wrong_is_guilty(kind: TaskKind) -> None:
    assert blamed(wrong_data(replace(TASK, kind=kind),
                             reports({1: [WrongData(0, 3)], 4: [WrongData(2, 1)]}))) == ["n0:1", "n2:0"]


def test_a_rank_all_by_itself_is_guilty_of_what_it_finds() -> None:
    alone = replace(TASK, seats=SEATS[:1])
    assert blamed(wrong_data(alone, [RankReport(SEATS[0], RankEnd.DONE, wrong=(WrongData(3, 1, (0,)),),
                                                wrong_total=1)])) == ["n0:0"]


PLACES = st.lists(st.tuples(st.integers(0, 40), st.integers(-1, 9)), max_size=4).map(tuple)


@given(st.dictionaries(st.sampled_from(ALL), st.lists(st.builds(
    WrongData, st.integers(-1, 5), st.integers(0, 9), st.lists(st.integers(0, 9), max_size=4).map(tuple),
    st.booleans(),
    st.sampled_from(["", OWNED, SUMMED, SCATTERED, SCATTERED_HERE, GATHERED, SPREAD, SWAPPED, SENT, "new x"]),
    PLACES,
    st.lists(st.integers(0, 40), max_size=3).map(tuple)), min_size=1, max_size=4)),
    st.dictionaries(st.sampled_from(ALL), st.sampled_from(RankEnd)))
def test_wrong_data_is_never_passed_over_and_no_gpu_is_named_twice(
    wrong: dict[int, list[WrongData]], ends: dict[int, RankEnd],
) -> None:
    found = wrong_data(TASK, reports(wrong, ends=ends))
    assert bool(found) == bool(wrong)
    named = [one.name for one in found if one.object is Object.GPU]
    assert len(named) == len(set(named))
