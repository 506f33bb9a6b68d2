"""The steps of a comparison restore the plan, and are as few as trying everything finds."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.subnet.cabled import CabledFabric, SeenCable
from healthcheck.subnet.cabling import CablingPlan, PlannedCable, PlannedDevice, PlannedEnd, Tier
from healthcheck.subnet.difference import compare
from healthcheck.subnet.worklist import work_list
from tests.healthcheck.subnet.bruteforce import fewest
from tests.healthcheck.subnet.technician import Board
from tests.tries import tries


def planned(count: int) -> CablingPlan:
    """A leaf with `count` hosts, each with an adapter; hosts stand in racks of four."""
    devices = {f"gpu{at}": PlannedDevice(f"gpu{at}", Tier.HOST, f"r{at // 4}") for at in range(count)}
    cables = tuple(PlannedCable(PlannedEnd(f"gpu{at}", "mlx5_0"), PlannedEnd("leaf1", str(at + 1)))
                   for at in range(count))
    return CablingPlan({**devices, "leaf1": PlannedDevice("leaf1", Tier.LEAF, "r0")}, cables)


def repaired(plan: CablingPlan, cables: tuple[SeenCable, ...]) -> Board:
    """The board after all steps of the comparison."""
    board = Board(cables)
    for item in work_list(compare(plan, CabledFabric(cables, frozenset(plan.devices))), plan):
        board.do(item.step)
    return board


def links(plan: CablingPlan) -> set[frozenset[PlannedEnd]]:
    return {frozenset((cable.a, cable.b)) for cable in plan.cables}


@given(st.integers(1, 60).flatmap(lambda count: st.permutations(range(count))))
def test_any_permutation_of_leaf_ends_is_repaired_with_one_plug_for_each_end_that_is_wrong(
        order: list[int]) -> None:
    plan = planned(len(order))
    there = tuple(SeenCable(cable.a, plan.cables[to].b) for cable, to in zip(plan.cables, order, strict=True))
    board = repaired(plan, there)
    assert board.joined() == links(plan)
    assert board.plugged == sum(at != to for at, to in enumerate(order))


ENDS = [*(PlannedEnd(f"gpu{at}", "mlx5_0") for at in range(3)),
        *(PlannedEnd("leaf1", str(at + 1)) for at in range(3))]
FREE = [PlannedEnd("gpu9", "mlx5_0"), PlannedEnd("leaf1", "9")]


@st.composite
def any_cabling(draw: st.DrawFn) -> tuple[SeenCable, ...]:
    """Up to three cables between any ports of three hosts, a leaf and two ports that the plan does not
    use."""
    ports = draw(st.permutations([*ENDS, *FREE]))
    return tuple(SeenCable(ports[2 * at], ports[2 * at + 1]) for at in range(draw(st.integers(0, 3))))


@settings(max_examples=tries(60), deadline=None)
@given(any_cabling())
def test_whatever_is_cabled_is_repaired_with_as_few_plugs_as_trying_everything_finds(
        there: tuple[SeenCable, ...]) -> None:
    plan = planned(3)
    board = repaired(plan, there)
    assert board.joined() == links(plan)
    word = str.join
    assert board.plugged == fewest([tuple(word(" ", (end.device, end.port)) for end in cable.ends)
                                    for cable in there],
                                   [tuple(word(" ", (end.device, end.port)) for end in (cable.a, cable.b))
                                    for cable in plan.cables])


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_trying_everything_agrees_for_each_permutation_of_three(order: tuple[int, ...]) -> None:
    there = [(f"h{at}", f"p{to}") for at, to in enumerate(order)]
    assert fewest(there, [(f"h{at}", f"p{at}") for at in range(3)]) == sum(at != to
                                                                           for at, to in enumerate(order))


@given(st.integers(2, 12).flatmap(lambda count: st.tuples(st.permutations(range(count)),
                                                          st.sets(st.integers(0, count - 1)))))
def test_with_cables_gone_the_rest_is_repaired_and_those_are_connected(found: tuple[list[int],
                                                                                    set[int]]) -> None:
    order, gone = found
    plan = planned(len(order))
    there = tuple(SeenCable(cable.a, plan.cables[to].b)
                  for at, (cable, to) in enumerate(zip(plan.cables, order, strict=True)) if at not in gone)
    board = repaired(plan, there)
    assert board.joined() == links(plan)
