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


Found = dict[int, list[WrongData]]


def rotated(owner_of: dict[int, int], check: str = OWNED, place: int = 7) -> list[WrongData]:
    """Failures by iteration, with the owner that the place had in each."""
    return [at(iteration, (place, owner), check=check) for iteration, owner in owner_of.items()]


ALTERED_BY_2 = {**everywhere([at(15, (7, 4))]), 2: [at(15, (7, 4), inputs=[7])]}
TWO_FAULTS = {**ALTERED_BY_2, 5: [at(15, (7, 4), (9, 1))]}
OWN = rotated(dict.fromkeys(range(8), 4))
PARTS = [at(iteration, (70, -1), check=SCATTERED) for iteration in range(6)]

# What the ranks found wrong, and who is blamed for it.
BLAMED: dict[str, tuple[Found, list[str]]] = {
    "right data accuses no one": ({}, []),
    # One iteration
    "who altered what it does not own is named by its own look and the owner is not":
        (ALTERED_BY_2, ["n1:0"]),
    "who altered what made no difference to the sum is named all the same":
        ({2: [at(15, inputs=[7])]}, ["n1:0"]),
    "elements wrong on one rank are that rank's": ({4: [at(15, (0, 0), (1, 1), (2, 2))]}, ["n2:0"]),
    "two faults in one iteration are two": (TWO_FAULTS, ["n1:0", "n2:1"]),
    "three faults in one iteration are three":
        ({**TWO_FAULTS, 1: [at(15, (7, 4), (30, 2), inputs=[30])], 0: [at(15, (7, 4), (30, 2))]},
         ["n0:1", "n1:0", "n2:1"]),
    "elements of one owner wrong on some ranks were spoilt on the way":
        ({rank: [at(15, (7, 4))] for rank in (0, 1, 2)}, ["unexplained"]),
    # What follows an owner
    "too few failures of an owner are still chance":
        (everywhere(rotated(dict.fromkeys((3, 5, 8, 11), 4))), ["unexplained"]),
    "two owners whom failures follow are both named":
        (everywhere(rotated({**dict.fromkeys(range(20), 4), **dict.fromkeys(range(20, 40), 1)})),
         ["n0:1", "n2:0"]),
    "an owner explains what is wrong in sums":
        (everywhere([*OWN, *rotated(dict.fromkeys(range(10, 30), -1), SUMMED)]), ["n2:0"]),
    "an owner explains not far more in sums than is its own":
        (everywhere([*OWN, *rotated(dict.fromkeys(range(10, 50), -1), SUMMED)]), ["n2:0", "unexplained"]),
    "of several in a row no one knows whose they were":
        (everywhere(rotated(dict.fromkeys(range(9), -1), OWNED + ", 8 in a row")), ["unexplained"]),
    # Reduce-scatter: each rank has a part of its own
    "one wrong part of a scattered sum is no one's":
        ({4: [at(9, (70, -1), check=SCATTERED)]}, ["unexplained"]),
    "parts that are wrong at one rank again and again are that rank's":
        ({4: [*PARTS, at(9, (71, -1), check=SCATTERED_HERE)]}, ["n2:0"]),
    "in place nobody could look at what was sent afterwards":
        ({4: [at(iteration, (70, -1), check=SCATTERED_HERE) for iteration in range(6)]}, ["unexplained"]),
    "where all-reduces are wrong too who gets the wrong part is not thereby guilty":
        ({**everywhere([at(20, (70, -1), check=SUMMED)]), 4: [*PARTS, at(20, (70, -1), check=SUMMED)]},
         ["unexplained"]),
    "where every part is wrong no one is named":
        ({rank: [at(each, (10 * rank, -1), check=SCATTERED) for each in range(9)] for rank in ALL},
         ["unexplained"]),
    # What is moved
    **{f"a sender that finds its own input wrong is named and no receiver: {check}":
       ({**{rank: [at(9, (3, 2), check=check)] for rank in (0, 1, 4)}, 2: [at(9, check=check, inputs=[3])]},
        ["n1:0"])
       for check in (GATHERED, SPREAD, SWAPPED, SENT)},
    **{f"who alone got a shared part wrong is named: {check}": ({4: [at(9, (3, 2), check=check)]}, ["n2:0"])
       for check in (GATHERED, SPREAD)},
    **{f"of two who got a shared part wrong none is named: {check}":
       ({rank: [at(9, (3, 2), check=check)] for rank in (4, 5)}, ["unexplained"])
       for check in (GATHERED, SPREAD)},
    "an own part that came back wrong is the rank's own fault":
        ({4: [at(9, (3, 4), check=SWAPPED)]}, ["n2:0"]),
    "of those who exchange the one is named who failed with several others":
        ({4: [at(9, (3, 1), (4, 2), (5, 3), check=SWAPPED)]}, ["n2:0"]),
    "of those who exchange the one is named with whom several others failed":
        ({rank: [at(9 + rank, (3, 1), check=SENT)] for rank in (0, 3, 4)}, ["n0:1"]),
    "what is between two others is left open":
        ({4: [at(9, (3, 0), (4, 1), (5, 2), check=SWAPPED)],
          5: [at(10, (3, 0), check=SENT), at(11, (3, 3), check=SENT)]},
         ["n2:0", "unexplained", "unexplained"]),
    "two who failed with the same third may both be at fault":
        ({rank: [at(9, (3, 0), check=SWAPPED)] for rank in (4, 2)}, ["unexplained"] * 2),
    "three in a circle may all be at fault":
        ({0: [at(9, (3, 2), check=SENT)], 2: [at(9, (3, 4), check=SENT)], 4: [at(9, (3, 0), check=SENT)]},
         ["unexplained"] * 3),
    # Reports without places are read as they were meant.
    "who found its own input wrong beside all others":
        ({rank: [WrongData(15, 8, (0, 1, 2, 3), own_input=rank == 4)] for rank in ALL}, ["n2:0"]),
    "all found the same wrong": (everywhere([WrongData(15, 8, (0, 1, 2, 3))]), ["unexplained"]),
    "one alone found it wrong": ({4: [WrongData(15, 8, (0, 1, 2))]}, ["n2:0"]),
}


@pytest.mark.parametrize(("found", "guilty"), BLAMED.values(), ids=BLAMED)
def test_who_is_blamed(found: Found, guilty: list[str]) -> None:
    assert blamed(wrong_data(TASK, reports(found))) == guilty
# One iteration

def test_elements_of_one_owner_wrong_on_all_ranks_once_have_many_explanations() -> None:
    [found] = wrong_data(TASK, reports(everywhere([at(15, (7, 4))])))
    assert (found.object, found.name) == (Object.UNEXPLAINED, "t")
    assert "candidates: n0:0, n0:1, n1:0, n1:1, n2:0, n2:1; pair tests can tell" in found.why


def test_of_ranks_of_one_node_it_is_that_node_that_has_the_fault() -> None:
    alone = replace(TASK, seats=tuple(Seat("n7", gpu) for gpu in ALL))
    [found] = wrong_data(alone, reports(everywhere([at(15, (7, 4))])))
    assert (found.object, found.name) == (Object.NODE, "n7") and "one of its n7:0, n7:1" in found.why


def test_beside_someone_who_is_named_what_is_left_stays_open_whoever_is_accused_for_the_task() -> None:
    found = everywhere([at(15, (7, 4), (8, 2))])
    found[2] = [at(15, (7, 4), (8, 2), inputs=[7])]
    accusations = wrong_data(TASK, reports(found))
    assert blamed(accusations) == ["n1:0", "unexplained"]
    places = {name: Participant(name, 2) for name in ("n0", "n1", "n2")}
    assert [one.object for one in merged(accusations, places)] == [Object.GPU, Object.UNEXPLAINED]


def test_ranks_that_could_not_list_all_that_they_saw_are_not_taken_for_ranks_that_saw_it_right() -> None:
    many = tuple((place, -1) for place in range(32))
    seen = {rank: [WrongData(15, 1000, (), False, SUMMED, many)] for rank in ALL}
    seen[3] = [WrongData(15, 1001, (), False, SUMMED,
                         ((0, -1), *((place, -1) for place in range(1, 31)), (40, -1)))]
    assert (blamed(wrong_data(TASK, reports(seen))) == ["n1:1", "unexplained"]
            or blamed(wrong_data(TASK, reports(seen))) == ["unexplained"])


# What follows an owner

def test_failures_that_follow_an_owner_are_the_owners() -> None:
    found = wrong_data(TASK, reports(everywhere(rotated(dict.fromkeys((3, 5, 8, 11, 15), 4)))))
    assert blamed(found) == ["n2:0"] and "in 5 iterations, the first of them 3" in found[0].why


def test_a_place_that_is_wrong_whoever_owns_it_is_no_owners() -> None:
    chance = random.Random(5)
    for _ in range(300):
        count = chance.randrange(1, 40)
        owners = {iteration: chance.randrange(6) for iteration in range(count)}
        assert blamed(wrong_data(TASK, reports(everywhere(rotated(owners))))) == ["unexplained"], owners


# What is moved
def test_once_wrong_between_two_is_either_of_them() -> None:
    [found] = wrong_data(TASK, reports({4: [at(9, (3, 1), check=SENT)]}))
    assert found.object is Object.UNEXPLAINED and "candidates: n0:1, n2:0; pair tests" in found.why
    [found] = wrong_data(TASK, reports({4: [at(9, (3, 5), check=SENT)]}))
    assert (found.object, found.name) == (Object.NODE, "n2")


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
