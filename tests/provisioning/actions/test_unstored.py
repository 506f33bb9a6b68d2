"""Without a store nodes can be cordoned, and it takes in later what was done."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from healthcheck.store import file, waiting
from healthcheck.store.cordons import CordonState, mean, open_cordons
from healthcheck.store.file import NAME, opened
from healthcheck.store.ledger import lines
from healthcheck.store.marks import CordonMark, mark_of
from inventory.errors import StoreError
from provisioning.actions.cordon import resolve_pending
from provisioning.actions.hostfile import HostFile
from provisioning.actions.unstored import cordon_unstored
from tests.command import muster
from tests.testbed.disks import filled, remounted, small_disk

NOW = 1_795_000_000.0
WORDS = {"full": "the disk is full", "read-only": "its file system is read-only",
         "damaged": "is damaged", "not a store": "none of muster's", "newer": "was written by a newer muster"}


@contextmanager
def broken(home: Path, how: str) -> Iterator[Callable[[], None]]:
    """A home whose store held a cordon of n9 and cannot be opened now; gives what mends it."""
    with ExitStack() as stack:
        state = (stack.enter_context(small_disk(home / "state", 2048)) if how in ("full", "read-only")
                 else home / "state")
        with opened(state, make=True) as store:
            assert mean(store, "n9", "hostfile", "fan", "ann", NOW) is not None
        path, whole = state / NAME, (state / NAME).read_bytes()
        filler = None
        if how == "full":
            filler = filled(state)
        elif how == "read-only":
            remounted(state, "ro")
        elif how == "damaged":
            path.write_bytes(b"\xff" * 9000)
        else:
            with closing(sqlite3.connect(path)) as other:
                other.execute("PRAGMA journal_mode=DELETE")
                other.execute("PRAGMA user_version=99" if how == "newer" else "PRAGMA application_id=5")

        def mend() -> None:
            if how == "read-only":
                remounted(state, "rw")
            elif filler is not None:
                filler.unlink()
            else:
                path.write_bytes(whole)

        yield mend


def names(home: Path) -> dict[str, CordonMark]:
    """The open cordons of the store, by node: each once, with a line of the ledger, and no file waits."""
    with opened(home / "state") as store:
        assert store.check() == []
        found = open_cordons(store)
        assert len({one.node for one in found}) == len(found)
        assert waiting.waiting_cordons(home / "state") == []
        return {one.node: one.mark for one in found}


@pytest.mark.root
@pytest.mark.parametrize("how", WORDS)
def test_an_emergency_needs_no_store_and_the_store_takes_it_in_once_it_opens(tmp_path: Path,
                                                                             how: str) -> None:
    bad, run = tmp_path / "bad", {"XDG_RUNTIME_DIR": str(tmp_path)}
    with broken(tmp_path, how) as mend:
        words = ("--hostfile", str(bad))
        done = muster("cordon", "n1,n2", "--reason", "smoke", *words, home=tmp_path, **run)
        assert done.returncode == 0 and done.stderr.count("\n") == 1, (done.stdout, done.stderr)
        assert done.stderr.startswith(f"muster: {tmp_path / 'state' / NAME}: ") and WORDS[how] in done.stderr
        marks = {line.partition(" ")[0]: mark_of(line.partition("# ")[2])
                 for line in bad.read_text().splitlines()}
        assert sorted(marks) == ["n1", "n2"] and f"n1: cordoned in hostfile as {marks['n1']}" in done.stdout
        # Twice, and in the list: it is known all the same.
        again = muster("cordon", "n1", "--reason", "smoke", *words, home=tmp_path, **run)
        assert again.returncode == 0 and "left alone, it is held already" in again.stdout
        listed = muster("cordon", home=tmp_path, **run)
        assert f"n1  {marks['n1']}  hostfile" in listed.stdout
        mend()
        assert {node: mark for node, mark in names(tmp_path).items() if node != "n9"} == marks
        freed = muster("uncordon", "n1,n2", *words, home=tmp_path, **run)
        assert freed.returncode == 0 and bad.read_text() == "", (freed.stdout, freed.stderr)
        with opened(tmp_path / "state") as store:
            said = [(line.action, line.node) for line in lines(store) if line.node in ("n1", "n2")]
            assert said == [("cordon", "n1"), ("cordon", "n2"), ("uncordon", "n1"), ("uncordon", "n2")]
            assert all(line.outcome for line in lines(store) if line.node != "n9")


@pytest.fixture(autouse=True)
def _own_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


@pytest.mark.root
@pytest.mark.parametrize("how", ["full", "read-only"])
def test_a_store_that_cannot_be_written_can_be_read(tmp_path: Path, how: str) -> None:
    with broken(tmp_path, how):
        for words in (("store", "show"), ("cordon",), ("store", "check"), ("nodes",)):
            done = muster(*words, home=tmp_path, code=0)
        assert "n9" in muster("cordon", home=tmp_path).stdout
        done = muster("silence", "n9", "gpu-*", "--for", "1h", "--reason", "x", home=tmp_path)
        assert (done.returncode == 2 and WORDS[how] in done.stderr
                and done.stderr.count("\n") == 1), done.stderr


def test_a_locked_store_does_not_keep_a_node_from_being_cordoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(file, "WAIT_S", 0.05)
    with opened(tmp_path, make=True) as other, other.writing():
        with opened(tmp_path) as store, pytest.raises(StoreError, match="another muster has been writing"):
            mean(store, "n1", "hostfile", "smoke", "ann", NOW)
        (done,) = cordon_unstored(tmp_path, HostFile(tmp_path / "bad"), ["n1"], "smoke", "ann", lambda: NOW)
        assert done.held and not done.failed
        with opened(tmp_path):
            assert [one.node for one in waiting.waiting_cordons(tmp_path)] == ["n1"]    # it waits on
    assert list(names_in(tmp_path)) == ["n1"]


def names_in(folder: Path) -> dict[str, CordonState]:
    with opened(folder) as store:
        return {one.node: one.state for one in open_cordons(store)}


@pytest.mark.parametrize("cut", ["before it was asked", "before its outcome", "within the line"])
def test_killed_on_the_way_what_the_back_end_shows_decides(tmp_path: Path, cut: str) -> None:
    bad = HostFile(tmp_path / "bad")
    one = waiting.WaitingCordon(CordonMark("deadbeef", 1), "n1", "hostfile", "smoke", "ann", NOW)
    path = waiting.begin(tmp_path, one)
    if cut == "within the line":
        path.write_bytes(path.read_bytes()[:-20])
    if cut == "before its outcome":
        bad.isolate("n1", "muster:deadbeef#1: smoke")
    with opened(tmp_path, make=True) as store:
        assert not path.exists()
        resolve_pending(store, bad, lambda: NOW + 1)
    assert names_in(tmp_path) == ({"n1": CordonState.HELD} if cut == "before its outcome" else {})


def test_taken_in_twice_it_is_one_and_a_torn_line_spoils_none_after_it(tmp_path: Path) -> None:
    one = waiting.WaitingCordon(CordonMark("deadbeef", 1), "n1", "hostfile", "smoke", "ann", NOW)
    path = waiting.begin(tmp_path, one)
    with path.open("ab") as torn:
        torn.write(b'{"schema":"muster.waiting/1","kind":"cor')
    waiting.begin(tmp_path,
                  waiting.WaitingCordon(CordonMark("deadbeee", 1), "n2", "hostfile", "x", "ann", NOW))
    data = path.read_bytes()
    for _ in range(2):
        with opened(tmp_path, make=True):
            pass
        assert sorted(names_in(tmp_path)) == ["n1", "n2"]
        path.write_bytes(data)      # as if a kill had come before it was removed


def test_a_cordon_in_the_store_that_was_lost_meanwhile_makes_room_for_the_one_that_holds(
        tmp_path: Path) -> None:
    with opened(tmp_path, make=True) as store:
        assert mean(store, "n1", "hostfile", "fan", "ann", NOW) is not None
    one = waiting.WaitingCordon(CordonMark("deadbeef", 1), "n1", "hostfile", "smoke", "ann", NOW, held=True)
    waiting.begin(tmp_path, one)
    waiting.finish(tmp_path, one)
    with opened(tmp_path) as store:
        assert [str(one.mark) for one in open_cordons(store)] == ["muster:deadbeef#1"]


@pytest.mark.parametrize("line", [
    {"kind": "cordon", "mark": "muster:deadbeef#1"}, {"kind": "cordon", "mark": "gpu", "node": 5},
    {"kind": "sweep", "data": "AAAA"}, {"kind": "sweep"}, {"kind": "outcome", "mark": []}, {"kind": {}},
])
def test_a_line_that_makes_no_sense_is_left_out_and_the_store_opens(tmp_path: Path, line: object) -> None:
    assert isinstance(line, dict)
    (tmp_path / waiting.FILE).write_text(json.dumps({"schema": waiting.SCHEMA, **line}) + "\nnot json\n[1]\n")
    with opened(tmp_path, make=True) as store:
        assert open_cordons(store) == [] and not (tmp_path / waiting.FILE).exists()


def test_where_nothing_can_be_written_down_the_node_is_cordoned_and_the_line_says_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting, "RUN", tmp_path / "run")
    (tmp_path / "muster").write_text("no folder")
    (tmp_path / "state").write_text("no folder either")
    (done,) = cordon_unstored(tmp_path / "state", HostFile(tmp_path / "bad"), ["n1"], "smoke",
                              "ann", time.time)
    assert done.held and "muster cordon adopt n1 --reason TEXT" in done.message
    assert (tmp_path / "bad").read_text().startswith("n1  # muster:")


def test_a_cordon_without_the_store_is_listed_once_before_and_after_the_store_takes_it_in(
        tmp_path: Path) -> None:
    (tmp_path / "muster.yaml").write_text("version: 1\ncordon: {hostfile: bad}\nnodes:\n  n[1-3]:\n")
    assert muster("cordon", "n1", "--reason", "fan", home=tmp_path).returncode == 0
    path = tmp_path / "state" / NAME
    whole = path.read_bytes()
    path.write_bytes(b"something else" * 100)
    assert muster("cordon", "n2", "--reason", "smoke", home=tmp_path).returncode == 0
    assert muster("cordon", home=tmp_path).stdout.count("\nn2  ") + muster(
        "cordon", home=tmp_path).stdout.startswith("n2  ") == 1
    path.write_bytes(whole)
    for _ in range(2):
        lines = muster("cordon", home=tmp_path).stdout.splitlines()
        assert [line.split()[0] for line in lines] == ["n1", "n2"], lines
