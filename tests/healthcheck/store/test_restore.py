"""A copy of the store is put back: checked first, whole or not at all, under a new name;
a store that is there is never lost."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from healthcheck.store import cordons, runs
from healthcheck.store.cordons import mean, name
from healthcheck.store.file import NAME, opened
from healthcheck.store.ledger import lines
from healthcheck.store.migrations import MIGRATIONS
from healthcheck.store.restore import restore
from inventory.errors import MusterError, StoreError, UsageError
from tests.command import muster

NOW = 1_795_000_000.0


def made(folder: Path, *nodes: str, at: float = NOW) -> Path:
    """A state folder whose store holds cordons of these nodes."""
    with opened(folder, make=True) as store:
        for node in nodes:
            cordon = mean(store, node, "hostfile", "fan", "ann", at)
            assert cordon is not None
            cordons.settle(store, cordon, cordons.CordonState.HELD, "cordoned", at)
    return folder


def copied(folder: Path, to: Path) -> Path:
    with opened(folder) as store:
        store.backup(to)
    return to


def held(folder: Path) -> list[str]:
    with opened(folder) as store:
        assert store.check() == []
        return [one.node for one in cordons.open_cordons(store)]


def files(folder: Path) -> dict[str, bytes]:
    return ({path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} if folder.is_dir()
            else {})


def test_on_another_head_it_is_the_same_store_under_a_new_name_as_one_whole_file(tmp_path: Path) -> None:
    copy = copied(made(tmp_path / "a", "n1", "n2"), tmp_path / "copy.db")
    found = restore(copy, tmp_path / "b" / "state", "ann", NOW + 60)
    assert ((len(found.was), found.cordons, found.newest, found.aside) == (1, 2, None, None)
            and found.name not in found.was)
    assert (list(files(tmp_path / "b" / "state")) == [NAME]
            and (tmp_path / "b" / "state" / NAME).stat().st_mode & 0o777 == 0o600)
    assert [path.name for path in (tmp_path / "b" / "state").iterdir()] == [NAME]
    assert held(tmp_path / "b" / "state") == ["n1", "n2"]
    with opened(tmp_path / "b" / "state") as store, store.writing() as db:
        assert name(db) == found.name
        assert [row[0] for row in db.execute("SELECT store FROM name ORDER BY rowid")] == [
            *found.was, found.name]
    with opened(tmp_path / "b" / "state") as store:
        old, new = cordons.open_cordons(store)[0], mean(store, "n3", "hostfile", "fan", "ann", NOW)
        assert (new is not None and (old.store, new.store) == (found.was[0], found.name)
                and new.mark != old.mark)
        last = lines(store)[-2]
        assert (last.action, last.who, last.outcome, last.evidence) == (
            "restore", "ann", "restored", str(copy))


def test_restored_twice_each_head_has_a_name_of_its_own(tmp_path: Path) -> None:
    copy = copied(made(tmp_path / "a"), tmp_path / "copy.db")
    names = {restore(copy, tmp_path / str(at), "ann", NOW).name for at in range(4)}
    # Of 65536 names four are alike once in ten thousand times.
    assert len(names) == 4


def test_a_name_that_it_ever_had_is_not_taken_again(tmp_path: Path) -> None:
    folder = made(tmp_path / "a")
    with opened(folder) as store, store.writing() as db:
        db.executemany("INSERT OR IGNORE INTO name (store, since) VALUES (?, 0)",
                       [(f"{at:04x}",) for at in range(0xf000)])
    copy = copied(folder, tmp_path / "copy.db")
    assert all(restore(copy, tmp_path / str(at), "ann", NOW).name.startswith("f") for at in range(4))


def test_a_run_that_was_at_work_when_the_copy_was_made_has_ended(tmp_path: Path) -> None:
    with opened(made(tmp_path / "a")) as store:
        runs.begin(store, "triage (ann)", "head1", "{}", NOW)
    restore(copied(tmp_path / "a", tmp_path / "copy.db"), tmp_path / "b", "ann", NOW + 1)
    with opened(tmp_path / "b") as store:
        assert runs.unfinished(store) == [] and runs.last(store) is None


def test_a_store_that_is_there_is_refused_and_with_replace_kept_aside(tmp_path: Path) -> None:
    copy = copied(made(tmp_path / "a", "n1"), tmp_path / "copy.db")
    there = made(tmp_path / "b", "n7")
    before = files(there)
    with pytest.raises(UsageError, match="there is a store already; with --replace it is kept aside"):
        restore(copy, there, "ann", NOW)
    assert files(there) == before
    first = restore(copy, there, "ann", NOW, replace=True).aside
    second = restore(copy, there, "ann", NOW, replace=True).aside
    assert first is not None and second is not None and first != second and held(there) == ["n1"]
    (tmp_path / "c").mkdir()
    first.rename(tmp_path / "c" / NAME)
    assert held(tmp_path / "c") == ["n7"]


@pytest.mark.parametrize("spoil", ["text", "empty", "nothing", "foreign", "newer", "cut", "flipped",
                                   "reference"])
def test_what_is_no_whole_store_of_ours_is_refused_and_nothing_is_touched(tmp_path: Path, spoil: str) -> None:
    copy = copied(made(tmp_path / "a", *(f"n{at}" for at in range(50))), tmp_path / "copy.db")
    there = made(tmp_path / "b", "n7")
    if spoil == "text":
        copy.write_text("something else\n" * 1000)
    elif spoil == "empty":
        copy.write_bytes(b"")
    elif spoil == "nothing":
        copy.unlink()
    elif spoil == "foreign":
        copy.unlink()
        with closing(sqlite3.connect(copy)) as other:
            other.execute("CREATE TABLE mine (a)")
    elif spoil == "cut":
        copy.write_bytes(copy.read_bytes()[:20_000])
    elif spoil == "flipped":
        data = bytearray(copy.read_bytes())
        data[8192:40_960] = b"\xff" * (40_960 - 8192)
        copy.write_bytes(data)
    else:
        with closing(sqlite3.connect(copy)) as other:
            other.execute(f"PRAGMA user_version={len(MIGRATIONS) + 1}" if spoil == "newer"
                          else "UPDATE cordon SET line = 999")
            other.commit()
    before = files(there)
    for folder in (there, tmp_path / "none"):
        with pytest.raises(MusterError) as caught:
            restore(copy, folder, "ann", NOW, replace=True)
        assert (str(copy) in str(caught.value) and "\n" not in str(caught.value)
                and ".restore." not in str(caught.value))
    assert files(there) == before and not (tmp_path / "none" / NAME).exists()
    assert not [path for path in there.iterdir() if path.name.startswith(".restore.")]


@pytest.mark.parametrize("version", range(4, len(MIGRATIONS)))
def test_a_copy_of_an_older_muster_is_brought_up_to_date_and_stays_as_it_is(
    tmp_path: Path, version: int,
) -> None:
    copy = tmp_path / "copy.db"
    with closing(sqlite3.connect(copy)) as old:
        for statement in (statement for step in MIGRATIONS[:version] for statement in step):
            old.execute(statement)
        old.execute("INSERT INTO ledger (id, time, who, action, node, why, evidence) "
                    "VALUES (7, 1, 'ann', 'cordon', 'n1', 'fan', 'hostfile')")
        old.execute("INSERT INTO cordon (id, node, backend, why, who, state, began, line) "
                    "VALUES (7, 'n1', 'hostfile', 'fan', 'ann', 'held', 1, 7)")
        old.execute(f"PRAGMA user_version={version}")
        old.execute(f"PRAGMA application_id={0x6D737472}")
        old.commit()
    before = copy.read_bytes()
    restore(copy, tmp_path / "b", "ann", NOW)
    assert copy.read_bytes() == before
    with opened(tmp_path / "b") as store:
        assert store.check() == [] and [str(one.mark) for one in cordons.open_cordons(store)] == ["muster#7"]


def test_a_copy_by_other_means_with_its_journal_beside_it_is_whole(tmp_path: Path) -> None:
    folder = made(tmp_path / "a", "n1")
    with opened(folder) as store:
        assert mean(store, "n2", "hostfile", "fan", "ann", NOW) is not None
        (tmp_path / "copy").mkdir()
        for path in folder.iterdir():
            shutil.copyfile(path, tmp_path / "copy" / path.name)
    assert (tmp_path / "copy" / f"{NAME}-wal").stat().st_size
    restore(tmp_path / "copy" / NAME, tmp_path / "b", "ann", NOW)
    assert held(tmp_path / "b") == ["n1", "n2"]


def test_a_journal_that_another_store_left_is_not_played_into_the_copy(tmp_path: Path) -> None:
    copy = copied(made(tmp_path / "a", "n1"), tmp_path / "copy.db")
    there = made(tmp_path / "b", "n7")
    with opened(there) as store:
        assert mean(store, "n8", "hostfile", "fan", "ann", NOW) is not None
        left = {end: (there / f"{NAME}{end}").read_bytes() for end in ("-wal", "-shm")}
    (there / NAME).unlink()
    for end, data in left.items():
        (there / f"{NAME}{end}").write_bytes(data)
    aside = restore(copy, there, "ann", NOW).aside
    assert held(there) == ["n1"] and aside is not None and Path(f"{aside}-wal").read_bytes() == left["-wal"]


def test_a_damaged_store_is_kept_as_it_is_and_the_copy_takes_its_place(tmp_path: Path) -> None:
    copy = copied(made(tmp_path / "a", "n1"), tmp_path / "copy.db")
    there = made(tmp_path / "b", "n7")
    (there / NAME).write_bytes(b"\xff" * 9000)
    (there / f"{NAME}-wal").write_bytes(b"left")
    aside = restore(copy, there, "ann", NOW, replace=True).aside
    assert (aside is not None and aside.read_bytes() == b"\xff" * 9000
            and Path(f"{aside}-wal").read_bytes() == b"left")
    assert held(there) == ["n1"]


def test_a_store_that_another_process_has_open_is_not_replaced_under_it(tmp_path: Path) -> None:
    copy = copied(made(tmp_path / "a", "n1"), tmp_path / "copy.db")
    there = made(tmp_path / "b", "n7")
    program = ("import sqlite3, sys\nc = sqlite3.connect(sys.argv[1])\nc.execute('SELECT count(*) "
               "FROM node').fetchall()\n"
               "print(1, flush=True)\nsys.stdin.read()\n")
    with subprocess.Popen([sys.executable, "-c", program, str(there / NAME)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline()
        with pytest.raises(StoreError, match="another process has it open"):
            restore(copy, there, "ann", NOW, replace=True)
        assert other.stdin is not None
        other.stdin.close()
    assert held(there) == ["n7"]
    restore(copy, there, "ann", NOW, replace=True)
    assert held(there) == ["n1"]


class Killed(BaseException):
    """Stands for a kill."""


@pytest.mark.parametrize("after", range(12))
def test_killed_at_any_step_there_is_the_one_store_or_the_other_and_none_is_lost(
    tmp_path: Path, after: int, monkeypatch: pytest.MonkeyPatch,
) -> None:
    copy = copied(made(tmp_path / "a", "n1"), tmp_path / "copy.db")
    there = made(tmp_path / "b", "n7")
    left = [after]

    def dying(real: object) -> object:
        def step(*words: object, **more: object) -> object:
            if not left[0]:
                raise Killed
            left[0] -= 1
            return real(*words, **more)  # type: ignore[operator]
        return step

    with monkeypatch.context() as patch:
        for each in ("link", "rename", "replace", "fsync", "fchmod"):
            patch.setattr(os, each, dying(getattr(os, each)))
        with suppress(Killed):
            restore(copy, there, "ann", NOW, replace=True)
    kept = [path for path in there.iterdir() if path.name.startswith(f"{NAME}.") and path.suffix]
    assert held(there) in (["n7"], ["n1"])
    if held(there) == ["n1"]:
        assert len(kept) == 1


def test_as_it_is_typed(tmp_path: Path) -> None:
    state, copy = made(tmp_path / "state", "n1", at=time.time()), tmp_path / "copy.db"
    done = muster("store", "backup", str(copy), home=tmp_path)
    assert done.returncode == 0, done.stderr
    done = muster("store", "restore", str(copy), home=tmp_path)
    assert ((done.returncode, done.stdout) == (2, "") and done.stderr.count("\n") == 1
            and "--replace" in done.stderr)
    done = muster("store", "restore", str(copy), "--replace", home=tmp_path)
    assert (done.returncode == 0
            and done.stdout.startswith("restored: 1 cordon, no sweep; new marks are muster:")), (
                done.stdout, done.stderr)
    assert (f"the previous store is kept as {state}/{NAME}.2" in done.stdout
            and "no longer acts" in done.stdout)
    done = muster("store", "restore", str(tmp_path / "none.db"), "--replace", home=tmp_path)
    assert (done.returncode, done.stderr) == (
        2, f"muster: {tmp_path}/none.db: no such file; `muster store backup FILE` makes one\n")
