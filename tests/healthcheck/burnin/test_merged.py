"""Accusations as one list: each object once, parts before the whole, and no one for another's fault."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.burnin import faults
from healthcheck.burnin.merged import merged, sharing
from healthcheck.burnin.model import Accusation, Object
from tests.healthcheck.burnin.made import place, places

PLACES = {place.node: place for place in places(8, per_leaf=4)}


def of(object_: Object, name: str, fault: str = faults.SLOW, tests: tuple[str, ...] = ("t",),
       against: tuple[str, ...] = ()) -> Accusation:
    return Accusation(object_, name, fault, f"why {name} {fault}", tests, against)


def test_the_same_object_is_accused_once_with_all_tests_and_the_graver_fault() -> None:
    (one,) = merged([of(Object.GPU, "gpu001:0", faults.SLOW, ("a",), ("c", "b")),
                     of(Object.GPU, "gpu001:0", faults.WRONG_DATA, ("b",))], PLACES)
    assert one.fault == faults.WRONG_DATA and one.tests_for == ("b", "a") and one.tests_against == ("c",)
    assert one.why == "why gpu001:0 wrong data; why gpu001:0 slow"


def test_a_test_is_a_task_whatever_is_reported_of_what_it_showed() -> None:
    (one,) = merged([of(Object.GPU, "gpu001:0", tests=("a", "b")),
                     of(Object.NODE, "gpu001", tests=("a: gpu001 - gpu002 slow",), against=("b: well",))],
                    PLACES)
    assert one.tests_for == ("a: gpu001 - gpu002 slow", "b") and one.tests_against == ()
    assert [one.name for one in merged([of(Object.UNEXPLAINED, "a", tests=("a",)), one],
                                       PLACES)] == ["gpu001:0"]


def test_a_gpu_or_rail_outranks_its_node_and_takes_its_tests() -> None:
    found = merged([of(Object.NODE, "gpu001", tests=("n",)), of(Object.GPU, "gpu001:3"),
                    of(Object.NODE, "gpu002"), of(Object.RAIL, "gpu002/rail1")], PLACES)
    assert {one.name for one in found} == {"gpu001:3", "gpu002/rail1"}
    assert next(one for one in found if one.name == "gpu001:3").tests_for == ("t", "n")


def test_a_node_whose_gpus_are_all_slow_is_accused_in_their_place() -> None:
    slow = [of(Object.GPU, f"gpu001:{gpu}", tests=(f"t{gpu}",), against=("t0", "well")) for gpu in range(8)]
    assert len(merged(slow[:-1], PLACES)) == 7
    (one,) = merged([*slow, of(Object.NODE, "gpu001", tests=("n",))], PLACES)
    assert (one.object, one.name, one.fault) == (Object.NODE, "gpu001", faults.SLOW)
    assert one.why == "why gpu001 slow; all of its 8 GPUs, as gpu001:0: why gpu001:0 slow"
    assert set(one.tests_for) == {*(f"t{gpu}" for gpu in range(8)), "n"} and one.tests_against == ("well",)


def test_a_rail_that_is_accused_explains_no_node_whose_gpus_are_all_slow() -> None:
    found = merged([*(of(Object.GPU, f"gpu001:{gpu}") for gpu in range(8)),
                    of(Object.RAIL, "gpu001/rail1", faults.SLOW_LINK)], PLACES)
    assert {(one.name, one.fault) for one in found} == {
        ("gpu001", faults.SLOW), ("gpu001/rail1", faults.SLOW_LINK)}


@pytest.mark.parametrize("fault", [faults.WRONG_DATA, faults.DEAD, faults.COUNTED])
def test_what_is_no_matter_of_speed_stays_each_gpus_own(fault: str) -> None:
    found = merged([of(Object.GPU, f"gpu001:{gpu}", fault) for gpu in range(8)], PLACES)
    assert {one.name for one in found} == {f"gpu001:{gpu}" for gpu in range(8)}


def test_the_only_gpu_of_a_node_is_accused_itself() -> None:
    (one,) = merged([of(Object.GPU, "gpu001:0")], {"gpu001": place("gpu001", gpus=1)})
    assert one.object is Object.GPU


def test_a_node_that_went_away_is_reported_beside_its_gpu() -> None:
    assert len(merged([of(Object.NODE, "gpu001", faults.LOST), of(Object.GPU, "gpu001:3")], PLACES)) == 2


@pytest.mark.parametrize(("part", "fault", "node"), [
    (Object.RAIL, faults.SLOW_LINK, faults.WRONG_DATA), (Object.RAIL, faults.COUNTED, faults.WRONG_DATA),
    (Object.RAIL, faults.COUNTED, faults.DEAD),
    (Object.GPU, faults.SLOW, faults.WRONG_DATA), (Object.GPU, faults.SLOW, faults.WRONG_STORAGE)])
def test_what_a_part_of_a_node_cannot_have_done_stays_the_nodes(part: Object, fault: str, node: str) -> None:
    of_part = of(part, "gpu001:3" if part is Object.GPU else "gpu001/rail3", fault)
    assert {(one.object, one.fault) for one in merged([of(Object.NODE, "gpu001", node), of_part],
                                                      PLACES)} == {(part, fault), (Object.NODE, node)}


def test_a_node_or_part_of_one_outranks_its_pairs_and_no_others() -> None:
    pairs = [of(Object.PAIR, "gpu001 - gpu002"), of(Object.PAIR, "gpu003 - gpu004")]
    for guilty in (of(Object.NODE, "gpu001"), of(Object.GPU, "gpu002:7"), of(Object.RAIL, "gpu002/rail0")):
        assert {one.name for one in merged([guilty, *pairs], PLACES)} == {guilty.name, "gpu003 - gpu004"}


def test_a_leaf_outranks_pairs_that_reach_behind_it() -> None:
    found = merged([of(Object.LEAF, "leaf02"), of(Object.PAIR, "gpu001 - gpu005"),
                    of(Object.PAIR, "gpu001 - gpu002")], PLACES)
    assert {one.name for one in found} == {"leaf02", "gpu001 - gpu002"}


def test_a_task_is_no_longer_unexplained_when_someone_is_named_for_it() -> None:
    open_ = of(Object.UNEXPLAINED, "all-1", tests=("all-1",))
    assert merged([open_], PLACES) == (open_,)
    assert [one.name for one in merged([open_, of(Object.GPU, "gpu001:0", tests=("all-1",))],
                                       PLACES)] == ["gpu001:0"]
    assert len(merged([open_, of(Object.GPU, "gpu001:0", tests=("all-2",))], PLACES)) == 2


def test_what_weighs_most_comes_first_and_the_unexplained_last() -> None:
    found = merged([of(Object.UNEXPLAINED, "x", faults.WRONG_DATA), of(Object.NODE, "gpu002", faults.JITTER),
                    of(Object.GPU, "gpu001:0", faults.WRONG_DATA), of(Object.NODE, "gpu003", faults.DEAD)],
                   PLACES)
    assert [one.name for one in found] == ["gpu001:0", "gpu003", "gpu002", "x"]


@given(st.lists(st.builds(of, st.sampled_from(Object), st.sampled_from(
                              ["gpu001", "gpu001:1", "gpu001/rail2", "leaf01", "gpu001 - gpu002", "t"]),
                          st.sampled_from(sorted(faults.MEANING)), st.tuples(st.sampled_from("abt")))))
def test_merging_twice_changes_nothing_and_loses_not_all(given_: list[Accusation]) -> None:
    once = merged(given_, PLACES)
    assert {one.name for one in merged(once, PLACES)} == {one.name for one in once}
    assert bool(once) == bool(given_)
    assert len({(one.object, one.name) for one in once}) == len(once)


def test_the_nodes_of_an_accusation_are_found_by_the_name_of_leaf_rail_domain_and_path() -> None:
    there = {**PLACES, **{one.node: one for one in (place("big1", leaf="leaf09", domain="d1"),
                                                    place("big2", leaf="leaf09", domain="d2"))}}
    first, second = ({f"gpu00{at}" for at in some} for some in (range(1, 5), range(5, 9)))
    assert sharing("leaf01", there) == sharing("leaf01, rail 3", there) == first
    assert sharing("leaf01 - leaf02", there) == first | second
    assert (sharing("NVLink domain d2", there) == {"big2"}
            and sharing("gpu001 - gpu005", there) == {"gpu001", "gpu005"})
    assert sharing("leaf77", there) == frozenset()
