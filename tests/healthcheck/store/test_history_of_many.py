"""A store of many parts is read by what is asked, not whole: how a question is answered, as SQLite plans
it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from healthcheck.model.outcome import NodeReport, NodeState
from healthcheck.store import history
from healthcheck.store.file import NAME, opened
from healthcheck.store.readings import Component, NodeReadings
from healthcheck.store.sweeps import SweepRecord, record


def swept(folder: Path, node: str, *serials: str, now: float = 100.0) -> None:
    parts = tuple(Component("gpu", f"0000:{at:02x}:00.0", serial, f"GPU {at}")
                  for at, serial in enumerate(serials))
    with opened(folder, make=True) as store:
        record(store, SweepRecord(now, now + 1, False, "test", "digest"),
               [NodeReport(node, NodeState.HEALTHY, "", ())],
               {node: NodeReadings(parts, (), frozenset({"gpu"}))})


def test_the_newest_state_of_a_node_that_is_seen_no_more_is_the_last_that_it_had(tmp_path: Path) -> None:
    for now, state in ((10.0, NodeState.HEALTHY), (20.0, NodeState.DEGRADED), (30.0, NodeState.UNHEALTHY)):
        with opened(tmp_path, make=True) as store:
            record(store, SweepRecord(now, now, False, "test", "d"),
                   [NodeReport("n1", state, "", (), stage="connect"),
                    NodeReport("n2", NodeState.HEALTHY, "", (), stage="x")])
    with sqlite3.connect(tmp_path / NAME) as db:
        db.execute("UPDATE spell SET ended = seen WHERE node = 1 AND ended IS NULL")
    with opened(tmp_path) as store:
        newest = history.newest_spells(store)
    assert {node: (one.state, one.ended)
            for node, one in newest.items()} == {"n1": ("unhealthy", 30.0), "n2": ("healthy", None)}


def test_seats_are_taken_one_at_a_time_and_are_those_of_the_list(tmp_path: Path) -> None:
    swept(tmp_path, "n1", "a", "b", "c")
    with opened(tmp_path) as store:
        first = next(history.each_seat(store, None, 0))
        assert first == history.seats(store, None, 0)[0]
        assert len(history.seats(store, ["n1"], 0)) == 3 and not history.seats(store, ["n2"], 0)
