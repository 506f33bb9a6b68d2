"""Rounds of pairs and ring orders: who meets whom, for clusters of every shape."""

from __future__ import annotations

import itertools
import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.burnin.model import BurnInStage, Participant, Rail, Seat, TaskKind
from healthcheck.burnin.rounds import (
    NodePair,
    Round,
    Sites,
    between,
    circle,
    inside,
    pair,
    rings,
    seats,
    tasks,
    turns,
    with_proven,
)
from tests.tries import tries

SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=12)


def leaves(sizes: list[int]) -> list[list[str]]:
    return [[f"l{leaf}n{at}" for at in range(size)] for leaf, size in enumerate(sizes)]


def placed(sizes: list[int], domain: int = 0) -> list[Participant]:
    return [Participant(name, 8, leaf=f"leaf{leaf:02d}", domain=f"{leaf}-{at // domain}" if domain else None)
            for leaf, nodes in enumerate(leaves(sizes)) for at, name in enumerate(nodes)]


def check_once(pairs: list[NodePair]) -> None:
    assert all(count == 1 for count in Counter(node for each in pairs for node in each).values())


@pytest.mark.parametrize("count", range(13))
def test_the_circle_lets_all_meet_all_exactly_once(count: int) -> None:
    met = Counter(frozenset(each) for turn in range(turns(count)) for each in circle(count, turn))
    assert met == Counter(map(frozenset, itertools.combinations(range(count), 2)))


@given(SIZES)
def test_in_every_leaf_all_are_paired_but_one_of_an_odd_leaf_who_is_paired_in_the_next_round(
    sizes: list[int],
) -> None:
    groups = leaves(sizes)
    first, second = inside(groups, 0), inside(groups, 1)
    check_once(first)
    check_once(second)
    assert not set(first) & set(second)
    one, two = ({node for each in some for node in each} for some in (first, second))
    for group in groups:
        left = set(group) - one
        assert len(left) == len(group) % 2
        if len(group) > 2:
            assert len(set(group) - two) == len(group) % 2
            assert left <= two


@given(SIZES)
def test_partners_of_a_leaf_round_are_of_one_leaf_and_those_of_a_cross_round_of_two(sizes: list[int]) -> None:
    groups = leaves(sizes)
    leaf = {node: at for at, group in enumerate(groups) for node in group}
    assert all(leaf[one] == leaf[two] for turn in range(3) for one, two in inside(groups, turn))
    met: list[NodePair] = []
    for turn in range(4):
        pairs = between(groups, turn, met)
        check_once(pairs)
        assert all(leaf[one] != leaf[two] for one, two in pairs)
        assert not set(pairs) & set(met)
        met += pairs


@given(st.integers(2, 16), st.integers(4, 40))
def test_equal_leaves_meet_as_wholes_and_each_meets_as_many_leaves_as_there_are_rounds(
    count: int, size: int,
) -> None:
    groups = leaves([size] * count)
    leaf = {node: at for at, group in enumerate(groups) for node in group}
    met: list[NodePair] = []
    partners: dict[int, set[int]] = {at: set() for at in range(count)}
    for turn in range(4):
        pairs = between(groups, turn, met)
        meetings = Counter(frozenset((leaf[one], leaf[two])) for one, two in pairs)
        assert len(meetings) == count // 2 and set(meetings.values()) == {size}
        for one, two in map(tuple, meetings):
            partners[one].add(two)
            partners[two].add(one)
        met += pairs
    # Of an odd number one leaf sits out each round.
    assert all(len(found) >= min(4, count - 1) - count % 2 for found in partners.values())


def test_nodes_left_over_by_leaves_of_unequal_size_are_paired_with_each_other() -> None:
    pairs = between(leaves([10, 2, 6, 2]), 0)
    check_once(pairs)
    left = ({node for nodes in leaves([10, 2, 6, 2]) for node in nodes}
            - {node for each in pairs for node in each})
    assert {node[:2] for node in left} == {"l0"} and len(left) == 4


def test_one_leaf_has_no_rounds_across_and_leaves_of_one_node_none_inside() -> None:
    assert between(leaves([8]), 0) == [] == between([], 0)
    assert inside(leaves([1, 1, 1]), 0) == []
    assert len(between(leaves([1, 1, 1, 1]), 0)) == 2


def test_two_nodes_of_a_leaf_meet_once() -> None:
    assert inside(leaves([2]), 0) == [NodePair("l0n0", "l0n1")]
    assert inside(leaves([2]), 1) == []


@settings(max_examples=tries(30))
@given(st.integers(1, 5000), st.integers(1, 200))
def test_any_number_of_nodes_in_leaves_of_any_size_is_paired_up(count: int, size: int) -> None:
    sizes = [min(size, count - begin) for begin in range(0, count, size)]
    groups = leaves(sizes)
    for turn in range(2):
        pairs = inside(groups, turn)
        check_once(pairs)
    pairs = between(groups, 0)
    check_once(pairs)
    # With at least two equal leaves only the one that sits out, and the rest of the last, smaller one, stay
    # without a partner.
    assert len({node for each in pairs for node in each}) >= (count - 2 * size if len(sizes) > 2 else 0)


@given(SIZES, st.integers(1, 6))
def test_an_nvlink_domain_is_a_unit_that_meets_others_as_a_whole(sizes: list[int], domain: int) -> None:
    sites = Sites(placed(sizes, domain))
    near = sites.grouped(sites.order, sites.near)
    assert all(sites.near[one] == sites.near[two] for one, two in inside(near.values(), 0))
    whole = [nodes for nodes in near.values() if len(nodes) == domain]
    pairs = between(whole, 0)
    assert all(sites.near[one] != sites.near[two] for one, two in pairs)
    for nodes in whole:
        others = {sites.near[each.other(node)] for node in nodes for each in pairs if node in each}
        assert len(others) <= 1


@given(st.lists(st.integers(1, 12), min_size=1, max_size=5), st.integers(1, 8), st.integers(0, 4))
def test_no_two_rings_have_a_link_between_two_units_in_common(
    sizes: list[int], count: int, domain: int,
) -> None:
    places = placed(sizes, domain)
    sites = Sites(places)
    unit = {node: sites.near[node] if domain else node for node in sites.order}
    found = rings(places, count)
    number = len(set(unit.values()))
    assert len(found) == min(count, max(1, (number - 1) // 2))
    links: list[frozenset[object]] = []
    for order in found:
        assert sorted(order) == sorted(sites.order)
        around = [unit[node] for node in order]
        hops = [(one, two) for one, two in zip(around, (*around[1:], around[0]), strict=True) if one != two]
        assert len(hops) == (number if number > 1 else 0)       # a domain's nodes stay together
        links += {frozenset(hop) for hop in hops}
    assert len(set(links)) == len(links)
    assert found[0] == sites.order


def test_without_nodes_or_without_being_asked_there_are_no_rings() -> None:
    assert rings([], 3) == () == rings(placed([4]), 0)
    assert rings(placed([1]), 3) == (("l0n0",),)


def test_inside_a_node_gpus_are_in_the_order_of_their_rails() -> None:
    rails = tuple(Rail(number, f"0000:{address}:00.0")
                  for number, address in ((2, "0a"), (0, "1a"), (1, "2a")))
    places = {"a": Participant("a", 3, rails=rails), "b": Participant("b", 2)}
    assert seats(["b", "a"], places) == (Seat("b", 0), Seat("b", 1), Seat("a", 1), Seat("a", 2), Seat("a", 0))


def test_the_tasks_of_a_round_are_ring_all_reduces_over_all_gpus_of_both_nodes() -> None:
    places = {place.node: place for place in placed([4])}
    the = Round(BurnInStage.LEAF_PAIRS, 3, tuple(inside(leaves([4]), 0)))
    found = tasks(the, places, 60.0, {"bytes": 1024}, {"NCCL_NET": "IB"})
    assert [task.id for task in found] == ["leaf-pairs-3-0", "leaf-pairs-3-1"]
    assert [task.nodes for task in found] == [tuple(each) for each in the.pairs]
    for task in found:
        assert (task.kind is TaskKind.ALLREDUCE and task.stage is BurnInStage.LEAF_PAIRS
                and len(task.seats) == 16 and task.seconds == 60)
        assert task.environment == {"NCCL_NET": "IB", "NCCL_ALGO": "RING"} and task.params == {"bytes": 1024}


def test_a_suspect_is_tried_with_a_proven_neighbour_whom_it_has_not_met() -> None:
    sites = Sites(placed([4, 4]))
    met = [pair("l0n0", "l0n1")]
    found, without = with_proven(["l0n0"], ["l1n0", "l0n1", "l0n2"], sites, met)
    assert found == [pair("l0n0", "l0n2")] and without == []
    found, without = with_proven(["l0n0"], ["l1n0", "l0n1"], sites, met)
    assert found == [pair("l0n0", "l1n0")] and without == []


@given(st.sets(st.integers(0, 31)), st.sets(st.integers(0, 31)))
def test_a_proven_node_serves_one_suspect_and_who_has_none_is_reported(
    suspects: set[int], proven: set[int],
) -> None:
    sites = Sites(placed([16, 16]))
    named = [sites.order[at] for at in sorted(suspects)]
    found, without = with_proven(named, [sites.order[at] for at in sorted(proven)], sites)
    check_once(found)
    assert len(found) == min(len(named), len(proven - suspects)) and len(without) == len(named) - len(found)
    assert {node for each in found for node in each} & set(named) == set(named) - set(without)


def test_another_seed_pairs_others_and_the_same_seed_the_same() -> None:
    orders = [Sites(placed([32]), seed).order for seed in (0, 1, 1, 2)]
    assert orders[1] == orders[2] and len(set(orders)) == 3


def test_no_one_is_its_own_partner() -> None:
    with pytest.raises(ValueError, match="own partner"):
        pair("a", "a")


def test_4096_nodes_are_paired_across_leaves_within_a_second() -> None:
    groups = leaves([32] * 128)
    began = time.process_time()
    met: list[NodePair] = []
    for turn in range(4):
        met += between(groups, turn, met)
    assert len(met) == 4 * 2048 and time.process_time() - began < 1.0
