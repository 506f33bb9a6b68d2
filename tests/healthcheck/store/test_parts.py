"""Where parts sit by the word of people and of controllers, beside what sweeps have read; and stores from
before parts were kept so."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.store import migrations, parts
from healthcheck.store.file import NAME, Store, opened
from healthcheck.store.history import whereabouts
from healthcheck.store.parts import ControllerPart, by_controller
from healthcheck.store.readings import Component, NodeReadings
from healthcheck.store.rmas import alarms, kind_of, rmas
from healthcheck.store.sweeps import SweepRecord, record
from tests.healthcheck.store.test_sweeps import GOOD, report
from tests.testbed.memory import in_memory
from tests.tries import tries


def sits(store: Store, serial: str) -> list[tuple[str, str]]:
    return [(seat.node, seat.slot) for seat in whereabouts(store, serial) if seat.ended is None]


def test_a_supply_that_a_controller_names_moves_with_its_number_and_leaves_an_empty_place(
    store: Store,
) -> None:
    assert by_controller(store, "n1", [ControllerPart("psu", "psu 1", "P1"),
                                       ControllerPart("psu", "psu 2", "P2")], 10) == 2
    by_controller(store, "n2", [ControllerPart("psu", "psu 1", "P2")], 20)
    assert (sits(store, "p1"), sits(store, "P2")) == ([("n1", "psu 1")], [("n2", "psu 1")])
    by_controller(store, "n1", [ControllerPart("psu", "psu 1", ""), ControllerPart("psu", "psu 2", "P3")], 30)
    assert (sits(store, "P1"), sits(store, "P3")) == ([], [("n1", "psu 2")])
    assert [(seat.node, seat.began, seat.ended) for seat in whereabouts(store, "P2")] == [
        ("n1", 10.0, 20.0), ("n2", 20.0, None)]


def test_what_a_sweep_has_met_in_the_node_stays_where_the_sweep_says(store: Store) -> None:
    record(store, SweepRecord(5, 6, False, "t", "d"), [report(GOOD)],
           {"n1": NodeReadings((Component("dimm", "A1", "D1", "module A1"),), (), frozenset({"dimm"}))})
    by_controller(store, "n1", [ControllerPart("dimm", "DIMM.Socket.A1", "D1")], 20)
    assert sits(store, "D1") == [("n1", "A1")]


@pytest.mark.parametrize(("slot", "kind"), [
    ("DIMM A3", "dimm"), ("PSU2", "psu"), ("psu 2", "psu"), ("board", "board"), ("0000:9a:00.0", "part"),
    ("door", "part"), ("", "part")])
def test_a_part_that_no_sweep_has_seen_is_called_by_the_first_word_of_its_place(slot: str, kind: str) -> None:
    assert kind_of(slot) == kind


WORDS = st.tuples(st.sampled_from(["n1", "n2"]), st.sampled_from(["psu 1", "psu 2"]),
                  st.sampled_from(["", "P1", "P2", "P3"]))


@settings(max_examples=tries(50), deadline=None)
@given(st.lists(st.tuples(WORDS, st.booleans()), max_size=10))
def test_whoever_says_what_no_part_is_in_two_places_and_no_place_has_two(
    said: list[tuple[tuple[str, str, str], bool]],
) -> None:
    with in_memory() as folder, opened(Path(folder), make=True) as store:
        for time, ((node, slot, serial), moves) in enumerate(said):
            if serial and not moves:
                with store.writing() as db:
                    parts.seat(db, node, slot, "psu", serial, time, moves=False)
            else:
                by_controller(store, node, [ControllerPart("psu", slot, serial)], time)
                if serial:
                    assert serial in [row[0] for row in store.rows(
                        "SELECT serial FROM seat JOIN component ON component.id = component "
                        "JOIN node ON node.id = seat.node WHERE name = ? AND ended IS NULL", node)]
            held = [tuple(row) for row in store.rows("SELECT component, node, slot FROM seat "
                                                     "WHERE ended IS NULL")]
            assert len({part for part, _, _ in held}) == len(held) == len({row[1:] for row in held})


def test_a_store_from_before_returns_could_be_closed_is_read_and_its_returns_go_on(tmp_path: Path) -> None:
    step = migrations.MIGRATIONS.index(migrations._PARTS)
    with closing(sqlite3.connect(tmp_path / NAME)) as old:
        for before in migrations.MIGRATIONS[:step]:
            for statement in before:
                old.execute(statement)
        with opened(tmp_path / "new", make=True) as fresh:
            (application,) = fresh.rows("PRAGMA application_id")[0]
        old.execute(f"PRAGMA application_id={application}")
        old.execute(f"PRAGMA user_version={step}")
        old.execute("INSERT INTO node (id, name) VALUES (1, 'n1'), (2, 'n2')")
        old.execute("INSERT INTO component VALUES (1, 'gpu', 'OLD')")
        old.execute("INSERT INTO seat (component, node, slot, began, seen) VALUES (1, 2, 's', 5, 30)")
        old.execute(
            "INSERT INTO rma (node, slot, kind, serial, why, who, reference, evidence, opened, shipped, "
            "returned, outcome) VALUES ('n1', 's', 'gpu', 'OLD', 'x', 'us', '', '', 1, 2, 10, "
            "'exchanged NEW')")
        old.commit()
    with opened(tmp_path) as store:
        (one,) = rmas(store)
        assert (one.closed, one.closed_why) == (None, "")
        assert {number: wrong.node for number, wrong in alarms(store, [one]).items()} == {1: "n2"}
