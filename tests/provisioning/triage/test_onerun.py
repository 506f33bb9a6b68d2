"""One triage at a time: who holds the lock is told, and a killed run closed by the next."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from healthcheck.store import runs
from healthcheck.store.file import opened
from healthcheck.store.history import prune
from healthcheck.store.runs import TriageRun
from inventory.cli.chosen import who
from inventory.errors import StoreError, UsageError
from provisioning.lease.holder import me
from provisioning.lease.runlock import LockHolder, age, alone, here, taken
from provisioning.triage.onerun import DEAD_AFTER_S, LOCK, RunResult, one_run
from tests.command import MUSTER, environment, muster
from tests.testbed.sshd import wait_until

NOW = 1_795_000_000.0
FOREIGN = json.dumps({"boot": "another-boot", "pid": 4711, "start": 5})


def began(folder: Path, ago: float, host: str, holder: str) -> None:
    """A run that never said that it ended."""
    with opened(folder, make=True) as store:
        runs.begin(store, "triage (ann)", host, holder, NOW - ago)


@contextmanager
def running(folder: Path, take_over: str | None = None) -> Iterator[RunResult]:
    with opened(
        folder, make=True) as store, one_run(store, folder, "triage (me)", lambda: NOW, take_over) as report:
        yield report


def rows(folder: Path) -> list[TriageRun]:
    with opened(folder) as store:
        return [TriageRun(**dict(row)) for row in store.rows("SELECT * FROM triage_run ORDER BY id")]


def refused(folder: Path, take_over: str | None = None) -> str:
    before = rows(folder)
    with pytest.raises(UsageError) as caught, running(folder, take_over):
        pass
    assert rows(folder) == before
    return str(caught.value)


def test_a_run_is_written_down_with_who_where_and_what_came_of_it(tmp_path: Path) -> None:
    with running(tmp_path) as report:
        (row,) = rows(tmp_path)
        assert (row.began, row.finished, row.who, row.host, row.outcome, row.holder) == (
            NOW, None, "triage (me)", here(), "", me())
        report.outcome = "done: isolated 3, released 1, withheld 2, failed 0"
    (row,) = rows(tmp_path)
    assert (row.finished, row.outcome, row.success) == (
        NOW, "done: isolated 3, released 1, withheld 2, failed 0", True)


def test_one_that_fails_says_why_and_the_next_goes_on(tmp_path: Path) -> None:
    with pytest.raises(StoreError), running(tmp_path):
        raise StoreError("the disk is full")
    with pytest.raises(KeyboardInterrupt), running(tmp_path):
        raise KeyboardInterrupt
    with running(tmp_path):
        pass
    assert [(row.outcome, row.success) for row in rows(tmp_path)] == [
        ("failed: the disk is full", False), ("failed: KeyboardInterrupt", False), ("done", True)]


def test_who_finds_the_lock_taken_is_told_by_whom_where_and_since_when(tmp_path: Path) -> None:
    with running(tmp_path):
        said = refused(tmp_path)
    assert said.startswith(
        f"another muster triage --apply is running: {who()} on {here()}, process {os.getpid()}, for ")
    assert " (since 20" in said and said.endswith("; wait until it has ended") and "\n" not in said


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"who": 1}', "\x00" * 10_000,
     *(f'{{"who": "a", "host": "b", "holder": "c", "began": {time}}}'
       for time in ('"x"', "NaN", "1e300", "-1"))])
def test_a_lock_that_says_nothing_yet_or_nonsense_is_taken_all_the_same(tmp_path: Path, text: str) -> None:
    with alone(tmp_path, "x.lock", "remediate"):
        (tmp_path / "x.lock").write_text(text)
        with pytest.raises(
            UsageError, match=r"^another muster remediate --apply is running; wait until it has ended$"
        ), alone(tmp_path, "x.lock", "remediate"):
            pass


def test_whoever_has_a_lock_that_said_more_before_is_named_with_their_command(tmp_path: Path) -> None:
    (tmp_path / "x.lock").write_text("x" * 2000)
    with alone(tmp_path, "x.lock", "triage", "store move"), pytest.raises(
            UsageError, match=rf"^another muster store move is running: {who()} on "
    ), alone(tmp_path, "x.lock", "triage"):
        pass


def test_no_one_else_reads_a_lock(tmp_path: Path) -> None:
    with alone(tmp_path, "x.lock", "triage"):
        assert (tmp_path / "x.lock").stat().st_mode & 0o777 == 0o600


def test_hostile_words_in_a_lock_cannot_move_the_cursor(tmp_path: Path) -> None:
    (tmp_path / "x.lock").write_text(
        json.dumps({"who": "\x1b[2J" + "a" * 500, "host": "b\nc", "holder": "[]", "began": 0}))
    said = taken(tmp_path / "x.lock", "triage")
    assert "\x1b" not in said and "\n" not in said and len(said) < 400


def test_a_lock_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "x.lock").mkdir()
    with pytest.raises(UsageError, match="Is a directory"), alone(tmp_path, "x.lock", "triage"):
        pass


def test_whose_process_is_gone_is_closed_and_the_next_goes_on(tmp_path: Path) -> None:
    dead = subprocess.Popen(["sleep", "60"])
    holder = {**json.loads(me()), "pid": dead.pid}
    dead.kill()
    dead.wait()
    began(tmp_path, 60, here(), json.dumps(holder))
    began(tmp_path, 30, here(), FOREIGN)        # of this machine, before it was booted
    with running(tmp_path):
        pass
    assert [row.outcome for row in rows(tmp_path)] == [
        "ended without a word", "ended without a word: the machine has booted since", "done"]
    assert all(row.finished == NOW for row in rows(tmp_path))


def test_a_process_that_lives_is_waited_for_though_no_lock_shows_it(tmp_path: Path) -> None:
    began(tmp_path, 9 * DEAD_AFTER_S, here(), me())
    assert f"is running: triage (ann) on {here()}, process {os.getpid()}, for 9 h" in refused(tmp_path)
    assert "is running" in refused(tmp_path, here())


def test_a_run_on_another_machine_is_waited_for_and_then_a_person_may_say_that_it_is_dead(
    tmp_path: Path,
) -> None:
    began(tmp_path, DEAD_AFTER_S - 1, "head1", FOREIGN)
    said = refused(tmp_path, "head1")
    assert ("running on another machine: triage (ann) on head1, process 4711, for 59 min" in said
            and "until it is 60 min old" in said)
    began(tmp_path / "old", DEAD_AFTER_S, "head1", FOREIGN)
    said = refused(tmp_path / "old")
    assert "counts as dead: triage (ann) on head1, process 4711" in said and said.endswith(
        "muster triage --apply --take-over head1")
    assert "--take-over head2: no run of that machine is unfinished" in refused(tmp_path / "old", "head2")
    with running(tmp_path / "old", "head1"):
        pass
    assert rows(tmp_path / "old")[0].outcome == f"ended without a word: taken over from {here()}"


def test_a_clock_that_ran_ahead_keeps_no_one_waiting_for_its_time_to_come(tmp_path: Path) -> None:
    began(tmp_path, -60, "head1", FOREIGN)
    assert "running on another machine" in refused(tmp_path, "head1")
    began(tmp_path / "far", -9e6, "head1", FOREIGN)
    assert "counts as dead" in refused(tmp_path / "far")
    with running(tmp_path / "far", "head1"):
        pass


def test_forgetting_old_runs_keeps_the_newest(tmp_path: Path) -> None:
    with opened(tmp_path, make=True) as store:
        for at in (1.0, 2.0, 3.0):
            runs.finish(store, runs.begin(store, "a", "b", me(), at), "done", at)
        prune(store, 9.0)
        found = runs.last(store)
        assert found is not None and found.finished == 3.0 and len(
            store.rows("SELECT 1 FROM triage_run")) == 1


def test_ages_are_said_as_people_say_them() -> None:
    assert [age(seconds) for seconds in (-5, 0, 119, 120, 7199, 7200, 172_800)] == [
        "0 s", "0 s", "119 s", "2 min", "119 min", "2 h", "2 days"]
    assert LockHolder(
        "ann", "head1", "no JSON", 0.0).words(7200.0) == "ann on head1, for 2 h (since 1970-01-01T00:00Z)"


def test_what_is_long_ago_or_failed_is_a_note_and_what_never_ran_is_none(tmp_path: Path) -> None:
    with opened(tmp_path, make=True) as store:
        assert runs.overdue(store, NOW) == ""
        runs.begin(store, "a", "b", me(), NOW)
        assert runs.overdue(store, NOW + 9e6) == "" and runs.last(store) is None
        runs.finish(store, 1, runs.SILENT, NOW)
        assert runs.overdue(store, NOW + 9e6) == ""
        number = runs.begin(store, "a", "b", me(), NOW)
        runs.finish(store, number, "done: isolated 0", NOW + 10)
        assert runs.overdue(store, NOW + 3600) == "" and runs.overdue(
            store, NOW + 7300).startswith("triage --apply last ran 2 h ago")
        number = runs.begin(store, "a", "b", me(), NOW + 20)
        runs.finish(store, number, "incomplete: isolated 0, failed 1", NOW + 30)
        assert (runs.overdue(store, NOW + 40)
                == "the last triage --apply did not do all of it: incomplete: isolated 0, failed 1")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "muster.yaml").write_text("version: 1\ncordon: {hostfile: bad}\nnodes:\n  n[1-4]:\n")
    (tmp_path / "bad").write_text("")
    with opened(tmp_path / "state", make=True):
        pass
    return tmp_path


def test_a_run_that_is_killed_leaves_a_row_that_the_next_run_closes(home: Path) -> None:
    # It has a process group of its own, and ends soon where nobody ends it.
    (home / "muster.yaml").write_text(
        "version: 1\ncordon: {command: [/bin/sh, -c, exec sleep 30]}\nnodes:\n  n[1-4]:\n")
    with opened(home / "state", make=True) as store, store.writing() as db:
        db.execute("INSERT INTO node (name) VALUES ('n1')")
    first = subprocess.Popen(
        [str(MUSTER), "triage", "--apply"], cwd=home, env=environment(home), stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_until(lambda: any(row.finished is None for row in rows(home / "state")), what="the run's row")
        second = muster("triage", "--apply", home=home)
        assert second.returncode == 2 and f"process {first.pid}, for " in second.stderr, second.stderr
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
    (home / "muster.yaml").write_text("version: 1\ncordon: {hostfile: bad}\nnodes:\n  n[1-4]:\n")
    third = muster("triage", "--apply", home=home)
    assert third.returncode in (0, 3), third.stderr
    assert [row.outcome for row in rows(home / "state")] == [
        "ended without a word", "done: isolated 0, released 0, withheld 0, failed 0"]


def test_triage_and_nodes_say_that_triage_has_not_run_for_long(home: Path) -> None:
    assert "last ran" not in muster("triage", home=home).stderr
    with opened(home / "state") as store:
        runs.finish(store, runs.begin(store, "a", "b", me(), 1.0), "done", time.time() - 26 * 3600)
    for words in (("triage",), ("nodes",), ("triage", "--format", "json")):
        done = muster(*words, home=home)
        assert ("note: triage --apply last ran 26 h ago, and nothing was isolated or released since"
                in done.stderr), done
        if "json" in words:
            json.loads(done.stdout)
    muster("triage", "--apply", home=home)
    assert "last ran" not in muster("nodes", home=home).stderr


def test_taking_over_goes_with_apply(home: Path) -> None:
    done = muster("triage", "--take-over", "head1", home=home)
    assert (done.returncode, done.stderr) == (
        2, "muster: --take-over ends another --apply: give --apply, too\n")
    assert not (home / "state" / LOCK).exists()
