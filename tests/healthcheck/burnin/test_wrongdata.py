"""Whose fault wrong data is: each row of the table, and what lies between the rows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.burnin.faults import WRONG_DATA
from healthcheck.burnin.model import Accusation, End, Kind, Object, Report, Seat, Stage, Task, Wrong
from healthcheck.burnin.wrongdata import wrong_data

SEATS = tuple(Seat(f"n{rank // 2}", rank % 2) for rank in range(6))
TASK = Task("t", Stage.ALL, Kind.ALLREDUCE, SEATS, 60)
ALL = range(6)


def reports(wrong: dict[int, list[Wrong]], *, ends: dict[int, End] | None = None) -> list[Report]:
    """What six ranks say, with what each found wrong."""
    return [Report(seat, (ends or {}).get(rank, End.DONE), wrong=tuple(wrong.get(rank, ())), wrong_total=sum(each.count for each in wrong.get(rank, ())))
            for rank, seat in enumerate(SEATS)]


def blamed(found: tuple[Accusation, ...]) -> list[str]:
    assert all(each.fault == WRONG_DATA and each.tests_for == ("t",) and each.why for each in found)
    return [each.name if each.object is Object.GPU else each.object.value for each in found]


def test_right_data_accuses_nobody() -> None:
    assert wrong_data(TASK, reports({})) == ()


def test_elements_of_one_owner_wrong_on_all_ranks_are_the_owners() -> None:
    assert blamed(wrong_data(TASK, reports({rank: [Wrong(15, 1, (4,))] for rank in ALL}))) == ["n2:0"]


def test_elements_wrong_on_one_rank_are_that_ranks() -> None:
    assert blamed(wrong_data(TASK, reports({4: [Wrong(15, 8, (0, 1, 2))]}))) == ["n2:0"]


def test_elements_of_all_owners_wrong_everywhere_are_the_ranks_whose_own_input_is_wrong_too() -> None:
    found = {rank: [Wrong(15, 8, (0, 1, 2, 3), own_input=rank == 4)] for rank in ALL}
    assert blamed(wrong_data(TASK, reports(found))) == ["n2:0"]


def test_elements_of_all_owners_wrong_everywhere_and_no_input_are_nobodys() -> None:
    found = wrong_data(TASK, reports({rank: [Wrong(15, 8, (0, 1, 2, 3))] for rank in ALL}))
    assert blamed(found) == ["unexplained"]
    assert found[0].name == "t" and "pairs tell" in found[0].why


def test_elements_of_one_owner_wrong_on_some_ranks_were_spoilt_on_the_way() -> None:
    assert blamed(wrong_data(TASK, reports({rank: [Wrong(15, 1, (4,))] for rank in (0, 1, 2)}))) == ["unexplained"]


def test_two_guilty_in_different_iterations_are_both_named() -> None:
    found = {rank: [Wrong(3, 1, (1,))] for rank in ALL}
    found[5].append(Wrong(9, 2, (0,)))
    assert blamed(wrong_data(TASK, reports(found))) == ["n0:1", "n2:1"]


def test_one_guilty_and_something_else_are_both_told() -> None:
    found = {rank: [Wrong(3, 1, (1,)), Wrong(4, 5, (0, 2))] for rank in ALL}
    assert blamed(wrong_data(TASK, reports(found))) == ["n0:1", "unexplained"]


def test_a_guilty_that_is_wrong_often_is_named_once_with_how_often() -> None:
    (found,) = wrong_data(TASK, reports({rank: [Wrong(at, 1, (4,)) for at in (3, 5, 8)] for rank in ALL}))
    assert "in 3 iterations, the first of them 3" in found.why


def test_ranks_that_ended_early_have_not_verified_and_prove_nothing() -> None:
    ended = {0: End.RAISED, 5: End.CALLED_OFF}
    assert blamed(wrong_data(TASK, reports({rank: [Wrong(15, 1, (4,))] for rank in (1, 2, 3, 4)}, ends=ended))) == ["n2:0"]
    assert blamed(wrong_data(TASK, reports({4: [Wrong(15, 1, (4,))]}, ends=dict.fromkeys((0, 1, 2, 3, 5), End.CALLED_OFF)))) == ["unexplained"]


def test_a_list_that_was_cut_short_hides_nobody() -> None:
    # Rank 5 had more to say than there was room for: it may have seen iteration 20, too.
    found = reports({rank: [Wrong(20, 1, (1,))] for rank in range(5)} | {5: [Wrong(at, 1, (2,)) for at in range(4)]})
    found[5] = replace(found[5], wrong_total=99)
    assert "n0:1" in blamed(wrong_data(TASK, found))


def test_a_count_without_particulars_is_wrong_all_the_same() -> None:
    found = reports({})
    found[2] = replace(found[2], wrong_total=7)
    assert blamed(wrong_data(TASK, found)) == ["n1:0"]


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.ALLREDUCE])
def test_who_works_alone_and_is_wrong_is_guilty(kind: Kind) -> None:
    assert blamed(wrong_data(replace(TASK, kind=kind), reports({1: [Wrong(0, 3)], 4: [Wrong(2, 1)]}))) == ["n0:1", "n2:0"]


def test_a_rank_all_by_itself_is_guilty_of_what_it_finds() -> None:
    alone = replace(TASK, seats=SEATS[:1])
    assert blamed(wrong_data(alone, [Report(SEATS[0], End.DONE, wrong=(Wrong(3, 1, (0,)),), wrong_total=1)])) == ["n0:0"]


@given(st.dictionaries(st.sampled_from(ALL), st.lists(st.builds(
    Wrong, st.integers(-1, 5), st.integers(0, 9), st.lists(st.integers(0, 9), max_size=4).map(tuple), st.booleans()), min_size=1, max_size=4)),
    st.dictionaries(st.sampled_from(ALL), st.sampled_from(End)))
def test_wrong_data_is_never_passed_over_and_no_gpu_is_named_twice(wrong: dict[int, list[Wrong]], ends: dict[int, End]) -> None:
    found = blamed(wrong_data(TASK, reports(wrong, ends=ends)))
    assert bool(found) == bool(wrong)
    assert len(found) == len(set(found))
