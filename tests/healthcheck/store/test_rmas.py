"""Boards that are exchanged and move about: an old one accuses the node where it was seen last, and no other,
however the operator turns it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.model.outcome import NodeReport, NodeState, Result, Severity, Status
from healthcheck.store.file import opened
from healthcheck.store.readings import Component, NodeReadings
from healthcheck.store.rmas import alarms, begin, close, exchange, give_back, outcome, rmas, ship
from healthcheck.store.sweeps import SweepRecord, record
from tests.testbed.memory import in_memory
from tests.tries import tries

NODES = ("n1", "n2", "n3")
SLOT = "0000:18:00.0"
GOOD = Result("gpu-ecc", "gpu.ecc", Status.PASS, Severity.CRITICAL)
ACTION = st.tuples(st.sampled_from(["swap", "shelf", "look", "look", "look", "exchange", "return", "close"]),
                   st.sampled_from(NODES), st.sampled_from(NODES), st.booleans())


@dataclass
class Expected:
    """An exchange of which the old board may show up."""

    old: str
    back: float
    live: bool = True


@settings(max_examples=tries(40), deadline=None)
@given(st.lists(ACTION, max_size=14))
def test_an_old_board_accuses_the_node_where_it_was_seen_last_and_no_other(
    story: list[tuple[str, str, str, bool]],
) -> None:
    there = {node: f"s{number}" for number, node in enumerate(NODES)}
    shelf = ["x0", "x1"]
    shown: dict[str, tuple[str, float]] = {}       # what the last look at a node met, and when
    expected: dict[int, Expected] = {}
    with in_memory() as folder, opened(Path(folder), make=True) as store:
        for now, (what, node, other,
                  announced) in enumerate([("look", name, "", False) for name in NODES] + story, 1):
            if what == "swap":
                there[node], there[other] = there[other], there[node]
            elif what == "shelf":
                shelf.append(there[node])
                there[node] = shelf.pop(0)
            elif what == "look":
                record(store, SweepRecord(now, now, False, "t", "d"),
                       [NodeReport(node, NodeState.HEALTHY, "", (GOOD,))],
                       {node: NodeReadings((Component("gpu", SLOT, there[node], "GPU 0"),), (),
                                           frozenset({"gpu"}))})
                shown = {name: at for name, at in shown.items() if at[0] != there[node]}
                shown[node] = there[node], now
            elif what in ("exchange", "return") and node in shown:
                old, new = shown[node][0], shelf[0] if announced else ""
                if what == "exchange":
                    one, _ = exchange(store, node, SLOT, "gpu", old, "x", "us", "", "",
                                      outcome(same=False, new=new), now)
                else:
                    one, _ = begin(store, node, SLOT, "gpu", old, "x", "us", "", "", now)
                    give_back(store, one, outcome(same=False, new=new), "us", now)
                for before in expected.values():
                    before.live &= before.old not in (old, new)
                expected[one.id] = Expected(old, now)
            elif what == "close" and expected:
                (number, *_) = sorted(expected)
                close(store, rmas(store)[number - 1], "it may stay", "us", now)
                expected[number].live = False
            seats = [tuple(row) for row in store.rows("SELECT component, node FROM seat WHERE ended IS NULL")]
            assert len({part for part, _ in seats}) == len(seats)
            wrong = {number: one.node for number, one in alarms(store, rmas(store)).items()
                     if one.said.startswith("the SAME")}
            assert wrong == {number: name for number, one in expected.items() if one.live
                             for name, (serial, at) in shown.items() if serial == one.old and at > one.back}


def test_a_board_that_is_away_and_was_put_into_another_node_accuses_that_one_until_it_leaves() -> None:
    def look(now: float, **boards: str) -> dict[int, tuple[str, str]]:
        record(store, SweepRecord(now, now, False, "t", "d"),
               [NodeReport(node, NodeState.HEALTHY, "", (GOOD,)) for node in boards],
               {node: NodeReadings((Component("gpu", SLOT, board, "GPU 0"),), (), frozenset({"gpu"}))
                for node, board in boards.items()})
        return {number: (one.node, one.said) for number, one in alarms(store, rmas(store)).items()}

    with in_memory() as folder, opened(Path(folder), make=True) as store:
        look(1, n1="old", n2="two")
        one, _ = begin(store, "n1", SLOT, "gpu", "old", "x", "us", "", "", 2)
        assert look(3, n1="old", n2="two") == {}             # it has not gone yet
        assert look(4, n1="new", n2="old") == {
            1: ("n2", f"the gpu that is to go to the vendor sits in n2, slot {SLOT}: serial old")}
        ship(store, one, "us", 5)
        assert look(6, n2="old")[1][1].startswith("the gpu that went to the vendor sits in n2")
        assert look(7, n2="two") == {}
        assert look(8, n2="old") != {}
        close(store, rmas(store)[0], "it stays there", "us", 9)
        assert look(10, n2="old") == {}
