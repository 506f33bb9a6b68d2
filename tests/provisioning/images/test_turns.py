"""Whose turn it is to pull, and who is slow."""

from __future__ import annotations

import threading
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from inventory.model import Node
from inventory.transport.base import Failure, Limits, Stage
from inventory.transport.watch import NodeJob, Watchdog, fan_out
from provisioning.images.turns import PlaceTurns, interleaved, places, stragglers


def fleet(racks: int, each: int) -> list[Node]:
    return [Node(f"r{rack}n{at}", rack=f"r{rack}", leaf=(f"leaf{rack // 2}",)) for rack in range(racks)
            for at in range(each)]


def test_no_rack_and_no_leaf_has_more_at_work_than_it_may_and_everyone_has_a_turn() -> None:
    nodes, most, now, worst = fleet(4, 6), 2, Counter[str](), Counter[str]()
    lock = threading.Lock()

    def work(job: NodeJob) -> bytes | Failure:
        with lock:
            now.update(places(job.node))
            worst.update({place: max(0, now[place] - worst[place]) for place in places(job.node)})
        threading.Event().wait(0.005)
        with lock:
            now.subtract(places(job.node))
        if job.node.name.endswith("n3"):
            raise OSError("this one fails")
        return b""

    turns = PlaceTurns(nodes, most)
    replies = list(fan_out(nodes, Limits(fanout=16, turns=turns), work, Watchdog()))
    assert {one.node for one in replies} == {node.name for node in nodes}
    assert sum(one.failure is not None for one in replies) == 4
    assert max(worst.values()) == most and turns.at_work() == {}


def test_a_second_try_has_a_turn_of_its_own() -> None:
    turns, tries = PlaceTurns([Node("n1", rack="r1")], 1), []

    def work(job: NodeJob) -> bytes | Failure:
        tries.append(turns.at_work().keys())
        return Failure(Stage.CONNECT, "busy", Stage.CONNECT) if len(tries) == 1 else b""

    (reply,) = fan_out([Node("n1", rack="r1")], Limits(turns=turns), work, Watchdog())
    assert reply.failure is None and [set(one) for one in tries] == [{"n1"}, {"n1"}] and turns.at_work() == {}


def test_turns_that_let_no_one_begin_hold_up_no_run() -> None:
    class Never(PlaceTurns):
        def may_begin(self, node: Node) -> bool:
            return False

    nodes = fleet(1, 5)
    assert len(list(fan_out(nodes, Limits(turns=Never(nodes, 1)), lambda job: b"", Watchdog()))) == 5


def test_a_pull_begins_in_all_places_and_its_rounds_are_counted() -> None:
    nodes = fleet(3, 2)
    assert [node.name for node in interleaved(nodes)] == ["r0n0", "r1n0", "r2n0", "r0n1", "r1n1", "r2n1"]
    # Two racks share a leaf: its four nodes are more than a rack's.
    assert PlaceTurns(nodes, 1).rounds(64) == 1 + 4 and PlaceTurns([Node("a"), Node("b")], 4).rounds(1) == 2


@given(st.lists(st.builds(lambda at, rack: (at, rack), st.integers(0, 99), st.sampled_from(["", "a", "b"])),
                unique_by=lambda one: one[0]))
def test_no_node_is_lost_or_doubled_by_the_order(made: list[tuple[int, str]]) -> None:
    nodes = [Node(f"n{at}", rack=rack or None) for at, rack in made]
    assert sorted(node.name for node in interleaved(nodes)) == sorted(node.name for node in nodes)


def test_the_slow_are_named_once_enough_are_done() -> None:
    done = {"a": 10.0, "b": 12.0, "c": 11.0}
    assert stragglers(done, {"d": 30.0, "e": 13.0}) == (11.0, {"d": 30.0})
    assert stragglers({**done, "z": 100.0}, {}) == (11.5, {"z": 100.0})
    assert stragglers({"a": 1.0, "b": 1.0}, {"c": 99.0}) == (0.0, {})
    # A few seconds more are no lag, whatever the ratio.
    assert stragglers({"a": 0.1, "b": 0.1, "c": 0.1, "d": 3.0}, {})[1] == {}
    # No one is slow before half of those that began are done.
    assert stragglers(done, {f"n{at}": 60.0 for at in range(4)})[1] == {}
