"""A head whose clock was wrong: nothing ends before it begins, no state is of the future, no node is
accused."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from healthcheck.exporter.stored import Nodes, StoreSource
from healthcheck.model.outcome import (
    Finding,
    NodeReport,
    NodeState,
    Result,
    Severity,
    Status,
    state_of,
)
from healthcheck.store import ledger
from healthcheck.store.ahead import LEFT_ALONE, PUT_RIGHT
from healthcheck.store.clock import head_clock, newest_sweep
from healthcheck.store.file import Store, opened
from healthcheck.store.readings import NodeReadings
from healthcheck.store.sweeps import SweepRecord, record
from healthcheck.store.telemetry import Telemetry
from healthcheck.store.versions import Version, history
from inventory.errors import StoreError
from tests.command import muster
from tests.tries import tries

DAY = 86400.0


def swept(store: Store, at: float, *sick: str) -> None:
    reports = []
    for node in ("n1", "n2", "n3"):
        found = (Finding(79, 0, "GPU 0"),) if node in sick else ()
        result = Result("kernel-xid", "kernel.xid", Status.FAIL if found else Status.PASS,
                        Severity.CRITICAL, found)
        reports.append(NodeReport(node, state_of([result]), "", (result,)))
    record(store, SweepRecord(at, at + 5, False, "test", "digest", ("bringup",)), reports)


def backwards(store: Store) -> list[tuple[object, ...]]:
    return [tuple(row) for table in ("spell", "problem") for row in store.rows(
        f"SELECT '{table}', began, seen, ended FROM {table} WHERE ended < began OR seen < began OR "  # noqa: S608
        f"ended < seen")]


@settings(max_examples=tries(15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.floats(-3 * DAY, 3 * DAY), st.sets(st.sampled_from(["n1", "n2", "n3"]))),
                min_size=1,
                max_size=8))
def test_whatever_the_clock_did_nothing_ends_before_it_begins_and_a_right_sweep_is_the_newest(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[float, set[str]]],
) -> None:
    now = time.time()
    with opened(tmp_path_factory.mktemp("s"), make=True) as store:
        for number, (off, sick) in enumerate(steps):
            swept(store, now - (len(steps) - number) * 600 + off, *sick)
            assert backwards(store) == []
        swept(store, now, "n2")
        assert backwards(store) == [] and head_clock(store, now) == ""
        assert newest_sweep(store, now) is not None and newest_sweep(
            store, now) <= now + 300  # type: ignore[operator]
        states = {row[0]: tuple(row)[1:] for row in store.rows(
            "SELECT name, state, seen FROM spell JOIN node ON node.id = node WHERE ended IS NULL")}
        assert states == {"n1": ("healthy", now), "n2": ("unhealthy", now), "n3": ("healthy", now)}
        assert store.rows("SELECT count(*) FROM snapshot WHERE time > ?", now + 300)[0][0] == 0
        # what is over by then waits for no time to come
        assert store.rows("SELECT count(*) FROM problem WHERE ended > ?", now + 300)[0][0] == 0


def test_as_it_is_typed_the_head_is_reported_once_and_no_state_is_of_the_future(tmp_path: Path) -> None:
    (tmp_path / "muster.yaml").write_text("version: 1\ncordon: {hostfile: bad}\nnodes:\n  n[1-3]:\n")
    now = time.time()
    with opened(tmp_path / "state", make=True) as store:
        swept(store, now - 3600)
        swept(store, now + DAY, "n1", "n2", "n3")
    for words in (("nodes",), ("triage",), ("history",)):
        done = muster(*words, home=tmp_path)
        assert done.stderr.count("this head's clock was ahead then, or is behind now") == 1, (words, done)
        assert "Traceback" not in done.stderr
    shown = muster("nodes", "--all", home=tmp_path)
    assert "unhealthy?" in shown.stdout and "not checked by a right clock" in shown.stdout
    assert "1 h old" in shown.stderr or "60 min old" in shown.stderr
    # The clock is right again, and one sweep later so is the store.
    with opened(tmp_path / "state") as store:
        swept(store, now - 60, "n1")
    assert "clock" not in muster("nodes", home=tmp_path).stderr
    shown = muster("nodes", "--all", home=tmp_path)
    assert "unhealthy?" not in shown.stdout and shown.stdout.count("no-new-jobs") == 1


def test_what_changed_while_the_clock_was_ahead_is_noted_by_the_next_right_sweep(tmp_path: Path) -> None:
    now = time.time()
    with opened(tmp_path, make=True) as store:
        for at, digest, driver in ((now - 7200, "a", "570"), (now + DAY, "a", "570"), (now - 60, "b", "580")):
            shown = {"n1": NodeReadings((), (), frozenset(), "boot", Telemetry(driver=driver, kernel="6.8"))}
            record(store,
                   SweepRecord(at, at + 5, False, "t", "d", versions=(Version("policy", "x", digest),)),
                   [NodeReport("n1", NodeState.HEALTHY, "", ())], shown)
        found = {(one.kind, one.was, one.digest, one.began) for one in history(store, now - DAY)}
        assert ("policy", "a", "b", now - 60) in found and ("driver", "570", "580", now - 60) in found


def test_the_exporter_counts_by_no_sweep_of_the_future(tmp_path: Path) -> None:
    now = time.time()
    with opened(tmp_path, make=True) as store:
        swept(store, now - 3600)
        swept(store, now + DAY)
    seen = StoreSource(tmp_path, Nodes(None)).read(now)
    assert seen is not None and seen.head is not None and seen.head.sweep_started == now - 3600


def test_a_clock_that_no_one_has_set_stores_nothing_and_says_so(store: Store) -> None:
    swept(store, time.time())
    with pytest.raises(StoreError,
                       match=r"this head's clock is not set, it says 1970-01-01 \(see: timedatectl"):
        swept(store, 60.0, "n1")
    assert store.rows("SELECT count(*) FROM sweep")[0][0] == 1


@pytest.mark.parametrize(("table", "columns"), [
    ("node", ("machine_since",)), ("problem", ("ended",)), ("seat", ("ended",)), ("boot", ("seen",)),
    ("cordon", ("began",)),
    ("ledger", ("time", "finished")), ("rma", ("opened", "shipped", "returned")), ("bringup", ("ended",)),
    ("silence", ("began",)), ("silence", ("ended",)), ("incident", ("began", "seen")),
    ("member", ("began", "seen")),
    ("verdict", ("began", "seen")), ("breaker", ("opened",)), ("lease", ("began", "until")),
    ("bringup", ("looked", "again")),
    ("cordon", ("ended",)),
])
def test_what_nodes_are_given_back_by_did_not_happen_later_than_the_next_right_sweep(
    table: str, columns: tuple[str, ...], tmp_path: Path,
) -> None:
    now = time.time()
    ahead = now + DAY
    with opened(tmp_path, make=True) as store:
        swept(store, ahead, "n1")
        with store.writing() as db:
            db.execute("INSERT INTO component (id, kind, serial) VALUES (1, 'gpu', 'G1')")
            line = ledger.begin(db, ahead, "op", "repaired", "n1", "", "")
            for name, value in {
                "node": {"name": "n9"},
                "seat": {"component": 1, "node": 1, "slot": "0", "began": now, "seen": now},
                "problem": {"node": 1, "rule": "kernel-xid", "subject": "GPU 7", "status": "fail",
                            "severity": "critical", "observed": "",
                            "expected": "", "reason": "", "remedy": "", "began": now,
                            "seen": now, "sweeps": 1},
                "boot": {"node": 1, "boot": "b", "began": now, "seen": now},
                "cordon": {"node": "n1", "backend": "hostfile", "why": "", "who": "", "state": "held",
                           "began": now, "line": line},
                "rma": {"node": "n1", "kind": "gpu", "slot": "0", "serial": "G1", "why": "", "who": "",
                        "reference": "",
                        "evidence": "", "opened": now},
                "silence": {"nodes": '["n1"]', "rule": "*", "why": "", "who": "", "began": now,
                            "until": now + 9 * DAY},
                "bringup": {"node": "n1", "began": now, "who": "", "step": "ssh", "since": now,
                            "stand": "done", "message": "", "kept": ""},
                "incident": {"kind": "leaf", "cause": "l1", "nodes": "[]", "why": "", "owner": "network",
                             "symptoms": "[]", "likelihood": 9.0,
                             "began": now, "seen": now},
                "member": {"incident": 1, "node": "n1", "began": now, "seen": now},
                "verdict": {"node": 1, "isolation": "none", "repair": "watch", "fault": "f",
                            "owner": "operator", "why": "",
                            "evidence": "[]", "began": now, "seen": now},
                "breaker": {"opened": now, "why": ""},
                "lease": {"kind": "burnin", "backend": "hostfile", "name": "", "nodes": "[]", "why": "",
                          "who": "", "holder": "{}",
                          "began": now, "until": now, "line": line},
            }.items():
                if name == table or (name, table) == ("incident", "member"):
                    row = {**value, **dict.fromkeys(columns if name == table else (), ahead)}
                    db.execute(f"INSERT INTO {name} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})",  # noqa: S608
                               [*row.values()])
            ledger.finish(db, line, "done", ahead)
        later = (f"SELECT count(*) FROM {table} WHERE "  # noqa: S608
                 f"{' OR '.join(f'{column} > ?1' for column in columns)}")
        assert store.rows(later, now)[0][0] >= 1
        swept(store, now)
        assert store.rows(later, now)[0][0] == 0


def test_of_every_time_in_the_store_it_is_known_what_becomes_of_one_that_lies_in_the_future(
        tmp_path: Path) -> None:
    with opened(tmp_path, make=True) as store:
        tables = [row[0] for row in store.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
        times = {f"{table}.{row[1]}" for table in tables
                 for row in store.rows(f"PRAGMA table_info({table})") if row[2].upper() == "REAL"}
    assert times == PUT_RIGHT | LEFT_ALONE.keys()
    assert not PUT_RIGHT & LEFT_ALONE.keys()
