"""Controls are like the canary and the same each time; rings double until no node is left."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from healthcheck.change.choose import controls, rings, twice
from inventory.model import Lifecycle, LifecycleState, Node

FLEET = [Node(name=f"gpu{number:03}", sku="h100" if number <= 48 else "b200", rack=f"r{(number - 1) // 8:02}")
         for number in range(1, 65)]


def test_controls_have_the_canarys_skus_and_its_mix_of_racks() -> None:
    canary = [*FLEET[:4], *FLEET[8:12], FLEET[50]]
    found = controls("driver", canary, FLEET)
    assert (Counter(node.sku for node in found) == {"h100": 8, "b200": 1}
            and not {node.name for node in found} & {node.name for node in canary})
    assert Counter(node.rack for node in found if node.sku == "h100") == {"r00": 4, "r01": 4}
    # a rack with too few nodes is filled up from others
    assert len(controls("driver", FLEET[:6], FLEET)) == 8


def test_nodes_that_are_not_in_service_are_no_controls_and_in_no_ring() -> None:
    away = [Node(name=f"x{number}", sku="h100", lifecycle=Lifecycle(LifecycleState.RMA))
            for number in range(9)]
    assert controls("a", FLEET[:1], away) == () and rings(FLEET[:1], away) == ()


def test_rings_double_and_hold_every_other_node_of_the_sku_once() -> None:
    found = rings(FLEET[:2], FLEET)
    assert [len(ring) for ring in found] == [4, 8, 16, 18] and twice([["gpu001"], *found]) is None
    assert {name for ring in found for name in ring} == {node.name for node in FLEET[2:48]}


@given(st.sets(st.integers(0, 47), min_size=1, max_size=20), st.text(max_size=8), st.randoms())
def test_the_choice_does_not_depend_on_the_order_of_the_inventory(picked: set[int], name: str,
                                                                  chance: object) -> None:
    canary = [FLEET[number] for number in sorted(picked)]
    other = FLEET[:]
    chance.shuffle(other)       # type: ignore[attr-defined]
    found = controls(name, canary, FLEET)
    assert found == controls(name, canary[::-1], other) and len(found) >= len(canary)
