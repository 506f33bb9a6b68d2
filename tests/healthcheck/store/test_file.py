"""The store's file: what becomes of it under kills, full disks, several writers, foreign and newer files,
and damage."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from healthcheck.model.outcome import Finding, LogEvidence, NodeReport, NodeState, Result, Severity, Status
from healthcheck.store import bringups, file, history, ledger, migrations, newest, screened, versions, watched
from healthcheck.store.file import NAME, Store, opened
from healthcheck.store.sweeps import SweepRecord, record
from inventory.errors import StoreError
from tests.testbed.olderstore import use_version
from tests.testbed.sshd import wait_until

# Stores sweeps of 40 nodes without end; every sweep has as many problems as nodes,
# and says when it is committed.
WRITER = """
import sys
from pathlib import Path
from healthcheck.model.outcome import Finding, NodeReport, NodeState, Result, Severity, Status
from healthcheck.store.file import opened
from healthcheck.store.sweeps import SweepRecord, record
with opened(Path(sys.argv[1]), make=True) as store:
    for time in range(1, 100000):
        status = Status.FAIL if time % 2 else Status.PASS
        reports = [NodeReport(f"n{n}", NodeState.UNHEALTHY if time % 2 else NodeState.HEALTHY, "", (
            Result("r", "r", status, Severity.CRITICAL, (Finding(time, 0, "GPU 1"),) if time % 2 else ()),)) for n in range(40)]
        record(store, SweepRecord(float(time), float(time), False, "w", ""), reports)
        print(time, flush=True)
"""  # noqa: E501


def count(store: Store, query: str) -> int:
    return int(store.rows(query)[0][0])


def whole(folder: Path) -> int:
    """Asserts that every sweep in the store is there with all that belongs to it;
    gives the last one's time."""
    with opened(folder) as store:
        assert store.check() == []
        last = count(store, "SELECT coalesce(max(started), 0) FROM sweep")
        assert count(store, "SELECT count(*) FROM sweep") == last
        # One problem a node in each odd sweep, which the next one ends.
        assert count(store, "SELECT count(*) FROM problem") == 40 * ((last + 1) // 2)
        assert count(store, "SELECT count(*) FROM problem WHERE ended IS NULL") == (40 if last % 2 else 0)
        return last


def killed(folder: Path, least: int) -> int:
    """Kills a writer that has said so many sweeps at least; gives the last one that it said."""
    with subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE,
                          text=True) as writer:
        assert writer.stdout is not None
        said = [int(writer.stdout.readline())]
        reader = threading.Thread(target=lambda out=writer.stdout: said.extend(map(int, out)))
        reader.start()
        wait_until(lambda: said[-1] >= least, what="some sweeps")
        writer.send_signal(signal.SIGKILL)
        reader.join()
    return said[-1]


@pytest.mark.parametrize("times", [4, pytest.param(12, marks=pytest.mark.slow)])
def test_killed_at_any_instant_it_reopens_whole_and_holds_what_was_committed(
    tmp_path: Path, times: int,
) -> None:
    chance = random.Random(7)
    for number in range(times):
        said = killed(tmp_path / str(number), chance.randrange(1, 30))
        # The last one may have been committed without having been said.
        assert said <= whole(tmp_path / str(number)) <= said + 1


def test_two_that_write_at_once_both_store_all_of_theirs(tmp_path: Path) -> None:
    code = WRITER.replace("range(1, 100000)", "range(int(sys.argv[2]), int(sys.argv[2]) + 20)").replace(
        "n{n}", "{sys.argv[2]}-{n}")
    writers = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), start], stdout=subprocess.DEVNULL)
               for start in ("1", "1001")]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    with opened(tmp_path) as store:
        assert store.check() == []
        assert (history.size(store).sweeps, history.size(store).problems, history.size(store).nodes) == (
            40, 2 * 20 * 20, 80)


def test_whoever_waits_too_long_for_another_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "WAIT_S", 0.1)
    with opened(tmp_path, make=True) as one, opened(tmp_path) as other, one.writing():
        with pytest.raises(StoreError, match="another muster has been writing to it"), other.writing():
            pass
        assert history.size(other).sweeps == 0     # readers are not blocked


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small disk")
    at = tmp_path / "small"
    at.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(at)], check=True)
    try:
        yield at
    finally:
        subprocess.run(["umount", str(at)], check=True)


@pytest.mark.root
def test_a_full_disk_loses_nothing_that_was_stored_and_is_reported_in_one_line(small_disk: Path) -> None:
    done = subprocess.run([sys.executable, "-c", WRITER, str(small_disk)], capture_output=True, text=True,
                          timeout=100, check=False)
    stored = int(done.stdout.split()[-1])
    last = done.stderr.strip().splitlines()[-1]
    assert ("the disk is full; nothing was changed, and what was stored is whole" in last
            and last.startswith("inventory.errors.StoreError: "))
    # The log of what was committed but not yet brought into the file may have no room to be written off,
    # and is read all the same.
    assert whole(small_disk) == stored


def test_a_store_that_is_not_there_is_reported_with_the_command_that_makes_one(tmp_path: Path) -> None:
    with (pytest.raises(StoreError, match=r"there is no store yet; `muster check --store` makes one"),
          opened(tmp_path)):
        pass
    assert list(tmp_path.iterdir()) == []


def test_the_store_is_its_owners_alone(tmp_path: Path) -> None:
    with opened(tmp_path / "state", make=True):
        pass
    assert ((tmp_path / "state" / NAME).stat().st_mode & 0o777 == 0o600
            and (tmp_path / "state").stat().st_mode & 0o777 == 0o700)


@pytest.mark.parametrize(("statements", "words"), [
    (("CREATE TABLE theirs (x)",), "is an SQLite database, but none of muster's"),
    (("PRAGMA user_version=3",), "is an SQLite database, but none of muster's"),
    ((f"PRAGMA application_id={0x6D737472}", "PRAGMA user_version=99"),
     "was written by a newer muster (schema 99; this one knows"),
])
def test_a_file_of_others_or_of_a_newer_muster_is_left_alone(
    tmp_path: Path, statements: tuple[str, ...], words: str,
) -> None:
    with closing(sqlite3.connect(tmp_path / NAME, isolation_level=None)) as theirs:
        for statement in statements:
            theirs.execute(statement)
    before = (tmp_path / NAME).read_bytes()
    with pytest.raises(StoreError) as error, opened(tmp_path, make=True):
        pass
    assert words in str(error.value) and (tmp_path / NAME).read_bytes() == before


def test_a_file_that_is_no_database_is_reported(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"not a database, but long enough to be taken for one" * 100)
    with (pytest.raises(StoreError,
                        match=r"is damaged \(file is not a database\); put a copy of .* back: muster store "
                              r"restore FILE"),
          opened(tmp_path)):
        pass


def test_a_page_that_was_overwritten_is_found_by_the_check(tmp_path: Path) -> None:
    writer = subprocess.run([sys.executable, "-c", WRITER.replace("100000", "30"), str(tmp_path)],
                            stdout=subprocess.DEVNULL, check=True)
    assert writer.returncode == 0
    path = tmp_path / NAME
    with opened(tmp_path) as store:
        store.rows("PRAGMA wal_checkpoint(TRUNCATE)")
        assert store.check() == []
    data = bytearray(path.read_bytes())
    for page in range(3, len(data) // 4096, 2):
        data[page * 4096 + 8:page * 4096 + 200] = os.urandom(192)
    path.write_bytes(bytes(data))
    try:
        with opened(tmp_path) as store:
            assert store.check() != []
    except StoreError as error:         # it was the page that says what tables there are
        assert "muster store" in str(error)


def test_an_older_store_is_brought_up_to_date_and_keeps_what_it_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    with opened(tmp_path, make=True) as store, store.writing() as db:
        db.execute("INSERT INTO node (name) VALUES ('n1')")
    step = ("ALTER TABLE node ADD COLUMN rack TEXT NOT NULL DEFAULT ''",)
    monkeypatch.setattr(file, "MIGRATIONS", (*migrations.MIGRATIONS, step))
    for _ in range(2):
        with opened(tmp_path) as store:
            assert [tuple(row) for row in store.rows("SELECT name, rack FROM node")] == [("n1", "")]
            assert count(store, "PRAGMA user_version") == len(migrations.MIGRATIONS) + 1


def test_a_store_from_before_logs_had_emitters_keeps_its_problems_and_takes_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    (at,) = [number for number, step in enumerate(migrations.MIGRATIONS)
             if any("ADD COLUMN emitter" in statement for statement in step)]
    report = NodeReport("n1", NodeState.UNHEALTHY, "", (
        Result("kernel-xid", "kernel.xid", Status.FAIL, Severity.CRITICAL, (
            Finding(1, 0, "GPU 3, Xid 48", log=LogEvidence("nvrm", "reset", 1, 50.0, 50.0)),)),))
    with monkeypatch.context() as patch:
        use_version(patch, at)
        with opened(tmp_path, make=True) as old, old.writing() as db:
            assert "emitter" not in [row[1] for row in old.rows("PRAGMA table_info(problem)")]
            db.execute("INSERT INTO node (id, name) VALUES (1, 'n1')")
            for rule, subject in (("kernel-xid", "GPU 3, Xid 48"), ("gpu-count", "node")):
                db.execute("INSERT INTO problem (node, rule, subject, status, severity, observed, expected, "
                           "reason, remedy, began, seen, sweeps) VALUES (1, ?, ?, 'fail', 'critical', '1', "
                           "'0', '', '', 1, 1, 1)", (rule, subject))
    for _ in range(2):
        with opened(tmp_path) as store:
            held = history.problems(store, None, 0)
            assert [(one.rule, one.subject, one.emitter, one.ends) for one in held] == [
                ("gpu-count", "node", None, None), ("kernel-xid", "GPU 3, Xid 48", None, None)]
            assert store.check() == []
    with opened(tmp_path) as store:
        record(store, SweepRecord(2.0, 2.0, False, "w", ""), [report])
        (other, xid) = history.problems(store, None, 0)
        assert (other.emitter, xid.emitter, xid.ends, xid.began,
                xid.sweeps) == (None, "nvrm", "reset", 1.0, 2)


def test_a_step_that_fails_leaves_the_older_store_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    with opened(tmp_path, make=True):
        pass
    with monkeypatch.context() as patch:
        patch.setattr(file, "MIGRATIONS",
                      (*migrations.MIGRATIONS,
                       ("ALTER TABLE node ADD COLUMN rack TEXT", "ALTER TABLE nobody ADD COLUMN x")))
        with pytest.raises(StoreError, match="no such table: nobody"), opened(tmp_path):
            pass
    with opened(tmp_path) as store:
        assert [row[1] for row in store.rows("PRAGMA table_info(node)")] == [
            "id", "name", "machine", "machine_since"]


def test_what_fails_inside_a_transaction_changes_nothing(store: Store) -> None:
    with pytest.raises(KeyboardInterrupt), store.writing() as db:
        db.execute("INSERT INTO node (name) VALUES ('n1')")
        raise KeyboardInterrupt
    assert history.known_nodes(store) == []


def test_a_backup_is_whole_and_as_of_one_moment_while_others_write(tmp_path: Path) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path / "state")], stdout=subprocess.PIPE,
                              text=True)
    try:
        assert writer.stdout is not None and writer.stdout.readline() == "1\n"
        for number in range(5):
            folder = tmp_path / f"copy{number}"
            folder.mkdir()
            with opened(tmp_path / "state") as store:
                store.backup(folder / NAME)
            assert sorted(path.name for path in folder.iterdir()) == [NAME]
            assert whole(folder) >= 1
            until = time.monotonic() + 0.05
            while time.monotonic() < until:
                writer.stdout.readline()
    finally:
        writer.kill()
        writer.wait()
        writer.stdout.close()


def test_a_store_from_before_its_names_were_plain_keeps_all_that_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        use_version(patch, migrations.MIGRATIONS.index(migrations._PLAIN_NAMES))
        with opened(tmp_path, make=True) as old, old.writing() as db:
            for statement in (
                "INSERT INTO node (id, name) VALUES (1, 'n1')",
                "INSERT INTO look (node, profile, time, state) VALUES (1, 'service', 5.0, 'healthy')",
                "INSERT INTO newest (node, time, rules, look, kept) VALUES (1, 5.0, 'r', x'01', '{}')",
                "INSERT INTO screened (node, run, at, told) VALUES ('n1', 'one', 6.0, 1)",
                "INSERT INTO bringup (node, began, who, step, since, stand, said, kept) "
                "VALUES ('n1', 1.0, 'me', 'os', 2.0, 'waiting', 'it boots', '{}')",
                "INSERT INTO ledger (id, time, who, action, node, why, evidence) VALUES (3, 1, 'me', 'x', "
                "'n1', '', '')",
                "INSERT INTO bringup_deed (node, step, key, name, change, began, said, counts, line) "
                "VALUES ('n1', 'os', 'k', 'install', '[]', 2.0, 'accepted', 1, 3)",
                "INSERT INTO version (kind, name, digest, who, began, seen, said) "
                "VALUES ('policy', 'p', 'd', 'me', 1.0, 1.0, '{}')",
                "INSERT INTO watched (job, finding, node, ranks, pattern, cause, certainty, share, said, "
                "began, seen) "
                "VALUES ('7', 'f', 'n1', '[]', 'slow', 'disk', 'likely', 0.5, 'rank 3 is slow', 1.0, 2.0)",
            ):
                db.execute(statement)
    with opened(tmp_path) as store:
        assert [tuple(row) for row in store.rows("SELECT node, profile, time, state FROM snapshot")] == [
            (1, "service", 5.0, "healthy")]
        assert list(newest.rows(store)) == [("n1", 5.0, "r", b"\x01", "{}")]
        assert screened.newest(store) == {"n1": screened.Screened("one", 6.0, True)}
        assert [one.message for one in (*bringups.progress(store), *bringups.actions(store))] == [
            "it boots", "accepted"]
        assert versions.policies(store, 9.0) == [(1.0, "p", "{}")]
        assert [one.said for one in watched.between(store, 0, 9)] == ["rank 3 is slow"]
        assert store.check() == []


def test_lines_of_the_ledger_that_an_earlier_version_wrote_have_the_actions_name_of_today(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        use_version(patch, migrations.MIGRATIONS.index(migrations._RECONCILED))
        with opened(tmp_path, make=True) as old, old.writing() as db:
            ledger.done(db, 1.0, "me", "look", "n1", "muster:a-1 is not there any more", "slurm",
                        "others hold it now")
            ledger.done(db, 2.0, "me", "cordon", "n1", "look at its fan", "slurm", "done")
    with opened(tmp_path) as store:
        assert [(line.action, line.why) for line in ledger.lines(store)] == [
            ("reconcile", "muster:a-1 is not there any more"), ("cordon", "look at its fan")]
        assert store.check() == []


def test_an_older_store_becomes_what_a_new_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, version in (("new", len(migrations.MIGRATIONS)), ("old", 1)):
        with monkeypatch.context() as patch:
            if folder == "old":
                use_version(patch, version)
            with opened(tmp_path / folder, make=True) as store:
                assert count(store, "PRAGMA user_version") == version
    described: dict[str, list[tuple[object, ...]]] = {}
    for folder in ("new", "old"):
        with opened(tmp_path / folder) as store:
            tables = [row[0]
                      for row in store.rows(
                          "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
            assert store.check() == [] and count(store, "SELECT count(*) FROM name") == 1
            described[folder] = [
                *((table, *row) for table in tables for row in store.rows(f"PRAGMA table_info({table})")),
                *((table, *row) for table in tables
                  for row in store.rows(f"PRAGMA foreign_key_list({table})")),
                *(("without row id", table) for (table, sql) in store.rows(
                    "SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY name")
                  if "WITHOUT ROWID" in sql),
                *(tuple(" ".join(str(word).split()) for word in row) for row in store.rows(
                    "SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'index' ORDER BY name")),
            ]
    assert described["old"] == described["new"] and len(described["new"]) > 300
