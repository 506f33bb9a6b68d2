"""A store of many parts is read by what is asked, not whole: how a question is answered, as SQLite plans it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from healthcheck.model.outcome import NodeReport, NodeState
from healthcheck.store import history
from healthcheck.store.file import NAME, opened
from healthcheck.store.readings import Component, NodeReadings
from healthcheck.store.rmas import begin, give_back, outcome, seen_since, ship
from healthcheck.store.rmas import rmas as all_of
from healthcheck.store.schema import MIGRATIONS
from healthcheck.store.sweeps import SweepRecord, record

APPLICATION = 0x6D737472


def swept(folder: Path, node: str, *serials: str, now: float = 100.0) -> None:
    parts = tuple(Component("gpu", f"0000:{at:02x}:00.0", serial, f"GPU {at}") for at, serial in enumerate(serials))
    with opened(folder, make=True) as store:
        record(store, SweepRecord(now, now + 1, False, "test", "digest"), [NodeReport(node, NodeState.HEALTHY, "", ())],
               {node: NodeReadings(parts, (), frozenset({"gpu"}))})


def test_what_a_returned_part_is_asked_for_is_found_by_an_index(tmp_path: Path) -> None:
    swept(tmp_path, "n1", "a", "b")
    with opened(tmp_path) as store:
        rma, _ = begin(store, "n1", "0000:00:00.0", "gpu", "a", "worn", "op", "", "", 110.0)
        ship(store, rma, "op", 111.0)
        give_back(store, all_of(store)[0], outcome(same=False, new="c"), "op", 120.0)
    swept(tmp_path, "n1", "c", "b", now=130.0)
    swept(tmp_path, "n2", "a", now=140.0)
    asked: list[str] = []
    with opened(tmp_path) as store:
        store._connection.set_trace_callback(asked.append)
        found = seen_since(store, all_of(store)[0])
        assert [(seat.node, seat.serial) for seat in found] == [("n1", "c"), ("n2", "a")]
        store._connection.set_trace_callback(None)
        plans = [row[3] for one in asked for row in store.rows(f"EXPLAIN QUERY PLAN {one}")]
    assert not [plan for plan in plans if plan.startswith(("SCAN seat", "SCAN component"))], plans


def test_the_newest_state_of_a_node_that_is_seen_no_more_is_the_last_that_it_had(tmp_path: Path) -> None:
    for now, state in ((10.0, NodeState.HEALTHY), (20.0, NodeState.DEGRADED), (30.0, NodeState.UNHEALTHY)):
        with opened(tmp_path, make=True) as store:
            record(store, SweepRecord(now, now, False, "test", "d"),
                   [NodeReport("n1", state, "", (), stage="connect"), NodeReport("n2", NodeState.HEALTHY, "", (), stage="x")])
    with sqlite3.connect(tmp_path / NAME) as db:
        db.execute("UPDATE spell SET ended = seen WHERE node = 1 AND ended IS NULL")
    with opened(tmp_path) as store:
        newest = history.newest_spells(store)
    assert {node: (one.state, one.ended) for node, one in newest.items()} == {"n1": ("unhealthy", 30.0), "n2": ("healthy", None)}


def test_seats_are_taken_one_at_a_time_and_are_those_of_the_list(tmp_path: Path) -> None:
    swept(tmp_path, "n1", "a", "b", "c")
    with opened(tmp_path) as store:
        first = next(history.each_seat(store, None, 0))
        assert first == history.seats(store, None, 0)[0]
        assert len(history.seats(store, ["n1"], 0)) == 3 and not history.seats(store, ["n2"], 0)


def test_a_store_of_the_steps_before_is_read_and_gets_the_index(tmp_path: Path) -> None:
    steps = next(at for at, step in enumerate(MIGRATIONS) if any("seat_node" in statement for statement in step))
    with sqlite3.connect(tmp_path / NAME) as db:
        for statement in (statement for step in MIGRATIONS[:steps] for statement in step):
            db.execute(statement)
        db.execute(f"PRAGMA application_id={APPLICATION}")
        db.execute(f"PRAGMA user_version={steps}")
        db.execute("INSERT INTO node (id, name) VALUES (1, 'n1')")
        db.execute("INSERT INTO component (id, kind, serial) VALUES (1, 'gpu', 'a')")
        db.execute("INSERT INTO seat (component, node, slot, began, seen) VALUES (1, 1, '0000:00:00.0', 1, 2)")
    with opened(tmp_path) as store:
        assert [seat.serial for seat in history.seats(store, None, 0)] == ["a"]
        assert store.rows("SELECT 1 FROM sqlite_master WHERE name = 'seat_node'")
        assert store.rows("PRAGMA user_version")[0][0] == len(MIGRATIONS)
