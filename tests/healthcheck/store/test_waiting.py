"""A sweep that the store could not take is taken in later, and is then what it would have been."""

from __future__ import annotations

import json
import time
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from healthcheck.config import rulesfolder
from healthcheck.model.outcome import (
    Finding,
    LogEvidence,
    NodeReport,
    NodeState,
    Origin,
    Owner,
    Repair,
    Result,
    Severity,
    Status,
    Unjudged,
)
from healthcheck.ruleset.ruleset import load_ruleset
from healthcheck.store import waiting
from healthcheck.store.clock import head_clock, newest_sweep
from healthcheck.store.file import NAME, Store, opened
from healthcheck.store.ledger import lines
from healthcheck.store.plain import plain, typed
from healthcheck.store.readings import NodeReadings, readings
from healthcheck.store.sweeps import SweepRecord, record
from healthcheck.store.versions import Version
from healthcheck.store.waiting import FILE, keep_sweep
from healthcheck.sweep import saved, sweep
from inventory.errors import StoreError
from tests.command import muster

DEMO = Path(__file__).parents[2] / "recordings" / "demo-sweep"


@pytest.fixture(scope="module")
def found() -> tuple[tuple[NodeReport, ...], dict[str, NodeReadings]]:
    _, outcome = sweep.replay(DEMO, load_ruleset(rulesfolder.folders(None)), (), (), None)
    manifest = saved.load_manifest(DEMO)
    return outcome.assessed.reports, {one.node: readings(one) for one, _ in saved.recordings(DEMO, manifest)
                                      if one.host is not None}


def swept(at: float) -> SweepRecord:
    return SweepRecord(at, at + 5, False, "test", "digest", ("bringup",), False,
                       (Version("rule", "gpu-count", "d1"), Version("muster", "", "1")), "ann")


def rows(store: Store) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table; of packed ones what they hold."""
    tables = [row[0] for row in store.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {
        table: sorted((tuple(
            zlib.decompress(value) if isinstance(value, bytes) and value[:1] == b"x" else value
            for value in row) for row in store.rows(f"SELECT * FROM {table}")),  # noqa: S608  (our own names)
                      key=repr)
        for table in tables if table != "name"}


def test_taken_in_later_it_is_what_it_would_have_been(
    tmp_path: Path, found: tuple[tuple[NodeReport, ...], dict[str, NodeReadings]],
) -> None:
    reports, read = found
    assert len(reports) > 3 and any(report.results for report in reports) and read
    for folder, waits in ((tmp_path / "a", False), (tmp_path / "b", True)):
        with opened(folder, make=True) as store:
            record(store, swept(1000.0), reports, read)
        for at in (2000.0, 3000.0):
            if waits:
                keep_sweep(folder, swept(at), reports, read)
            else:
                with opened(folder) as store:
                    record(store, swept(at), reports, read)
    assert (tmp_path / "b" / FILE).stat().st_size < 200_000
    with opened(tmp_path / "a") as direct, opened(tmp_path / "b") as late:
        assert not (tmp_path / "b" / FILE).exists() and late.check() == []
        one, other = rows(direct), rows(late)
        assert one.keys() == other.keys() and len(one["sweep"]) == 3 and one["problem"] and one["newest"]
        for table, held in one.items():
            assert other[table] == held, table


def test_one_that_is_older_than_what_the_store_has_by_then_does_not_stand_for_the_newest(
        tmp_path: Path) -> None:
    with opened(tmp_path, make=True) as store:
        record(store, swept(2000.0), [])
    for at in (1000.0, 2000.0, 3000.0):
        keep_sweep(tmp_path, swept(at), [], {})
    data = (tmp_path / FILE).read_bytes()
    for _ in range(2):      # twice, as after a kill before the file was removed
        with opened(tmp_path) as store:
            assert [row[0] for row in store.rows("SELECT started FROM sweep")] == [2000.0, 3000.0]
            (line,) = [one for one in lines(store) if one.action == waiting.NOT_STORED]
            assert "the sweep of 1970-01-01T00:16Z" in line.why and line.outcome is not None
        (tmp_path / FILE).write_bytes(data)


def test_what_waits_in_two_places_is_stored_in_the_order_of_its_time_and_what_a_fast_clock_dated_is_put_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:
    now, state = time.time(), tmp_path / "state"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with opened(state, make=True) as store:
        record(store, swept(now - 5000), [])
        record(store, swept(now + 86400), [])   # a day ahead
    keep_sweep(state, swept(now - 1000), [], {})
    keep_sweep(state, swept(now + 90000), [], {})
    (state / FILE).rename(tmp_path / "later")
    keep_sweep(state, swept(now - 2000), [], {})
    (beside,) = [one for one in waiting._places(state) if one.is_relative_to(tmp_path / "muster")]
    beside.parent.mkdir()
    (state / FILE).rename(beside)
    (tmp_path / "later").rename(state / FILE)
    with opened(state) as store:
        assert [round(row[0] - now) for row in store.rows("SELECT started FROM sweep ORDER BY id")] == [
            -5000, 86400, 90000, -2000, -1000]
        assert newest_sweep(store, now) == now - 1000 and head_clock(store, now) == ""
    assert not beside.exists() and not (state / FILE).exists() and capsys.readouterr().err == ""
    keep_sweep(state, swept(now - 3000), [], {})
    with opened(state):
        pass
    assert "which waited for the store, is older than its newest" in capsys.readouterr().err


def test_the_file_grows_only_so_far_and_what_is_in_it_stays_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting, "LARGEST", 2000)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(waiting, "RUN", tmp_path / "run")
    kept = 0
    with pytest.raises(StoreError, match="File too large"):
        for at in range(1, 100):
            keep_sweep(tmp_path, replace(swept(float(at)), source=f"test {at}"), [], {})
            kept = at
    with opened(tmp_path, make=True) as store:
        assert 1 < kept < 20 and store.rows("SELECT count(*) FROM sweep")[0][0] == kept


def test_as_it_is_typed_a_sweep_without_a_store_reports_as_ever_and_is_in_the_history_later(
    tmp_path: Path,
) -> None:
    state = tmp_path / "state"
    words = ("check", "--local", "--sku", "cpu-only", "--only", "host-swap", "--only",
             "host-memory", "--format",
             "jsonl")
    plain = muster(*words, home=tmp_path)
    assert muster(*words, "--store", home=tmp_path).returncode == plain.returncode
    whole = (state / NAME).read_bytes()
    (state / NAME).write_bytes(b"something else" * 100)
    done = muster(*words, "--store", home=tmp_path)
    assert done.returncode == plain.returncode and done.stdout.count("\n") == plain.stdout.count("\n")
    assert "is damaged" in done.stderr and f"it waits in {state / FILE}" in done.stderr
    # Without --store it does not matter what the store is like.
    beside = muster(*words, home=tmp_path)
    assert (beside.returncode, beside.stderr) == (plain.returncode, plain.stderr)
    (state / NAME).write_bytes(whole)
    assert '"sweeps": 2' in muster("store", "show", "--format", "json", home=tmp_path).stdout


def test_a_report_with_all_that_a_result_may_have_comes_back_as_it_was() -> None:
    finding = Finding(1, "0", "GPU 3", "Reset it.", Owner.OPERATOR, Repair.RESET_GPU, ("NVRM: Xid",),
                      LogEvidence("kernel", "reset", 2, 1.5, 2.5, (7, 8)))
    parts = (Unjudged("GPU 4: no answer", ("GPU 4",), cause="GPU 4", rule="gpu-answers"),
             Unjudged("a note", note=True))
    report = NodeReport("n1", NodeState.UNHEALTHY, "why", (
        Result("a", "gpu.a", Status.FAIL, Severity.CRITICAL, (finding,), "why", None, "Reset it.",
               Owner.VENDOR),
        Result("b", "gpu.b", Status.UNKNOWN, Severity.WARNING, (), "why", Origin.NODE, unjudged=parts)),
        True)
    assert typed(NodeReport, json.loads(json.dumps(plain(report)))) == report
