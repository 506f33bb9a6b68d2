"""A lost head: its store, restored elsewhere, knows the cordons from before the copy alone."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from healthcheck.model.outcome import Finding, NodeReport, Result, Severity, Status, state_of
from healthcheck.store.cordons import open_cordons
from healthcheck.store.file import opened
from healthcheck.store.marks import CordonMark, mark_of
from healthcheck.store.sweeps import SweepRecord, record
from tests.command import muster

NODES = [f"n{at}" for at in range(1, 41)]
INVENTORY = "version: 1\ncordon: {hostfile: BAD}\nnodes:\n  n[1-40]:\n"
_HOUR = 3600.0


class Head:
    """A machine with muster on it; all heads see one file of hosts that jobs leave out."""

    def __init__(self, home: Path, bad: Path) -> None:
        self.home, self.bad = home, bad
        home.mkdir()
        (home / "muster.yaml").write_text(INVENTORY.replace("BAD", str(bad)))
        (home / "rules").mkdir()
        (home / "rules" / "policy.yaml").write_text("breaker: {number: 20, percent: 100}\n")

    def swept(self, hours: float, *sick: str, profile: str = "") -> None:
        with opened(self.home / "state", make=True) as store:
            when = time.time() - hours * _HOUR
            reports = []
            for name in NODES:
                found = (Finding(79, 0, "GPU 0"),) if name in sick else ()
                result = Result("kernel-xid", "kernel.xid", Status.FAIL if found else Status.PASS,
                                Severity.CRITICAL, found)
                reports.append(NodeReport(name, state_of([result]), "", (result,)))
            record(store, SweepRecord(when, when + 5, False, "test", "digest", (profile,) if profile else ()),
                   reports)

    def muster(self, *words: str, code: tuple[int, ...] = (0, 1, 3)) -> str:
        done = muster(*words, home=self.home)
        assert done.returncode in code, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def shown(self) -> dict[str, CordonMark]:
        """What the file shows of nodes with a mark, whoever's it is."""
        found = (line.partition("#") for line in self.bad.read_text().splitlines())
        return {
            node.strip(): mark for node, _, reason in found if (mark := mark_of(reason.strip())) is not None}


@pytest.fixture
def heads(tmp_path: Path) -> tuple[Head, Head]:
    """The first cordoned n1 and n2, was copied, then cordoned n3; the second has the copy."""
    (tmp_path / "bad").write_text("n30  # fan, Tuesday\n")
    first, second = Head(tmp_path / "first", tmp_path / "bad"), Head(tmp_path / "second", tmp_path / "bad")
    first.swept(9, "n1", "n2")
    first.muster("triage", "--apply", "--rules", "rules")
    with opened(first.home / "state") as store, store.writing() as db:      # eight hours and a half ago
        db.execute("UPDATE cordon SET began = began - 8.5 * 3600")
        db.execute("UPDATE verdict SET began = began - 8.5 * 3600")
    first.muster("store", "backup", str(tmp_path / "copy.db"))
    first.swept(8, "n1", "n2", "n3")
    first.muster("triage", "--apply", "--rules", "rules")
    assert sorted(first.shown()) == ["n1", "n2", "n3"]
    shutil.rmtree(first.home / "state")
    assert "restored: 2 cordons" in second.muster("store", "restore", str(tmp_path / "copy.db"))
    return first, second


def test_old_cordons_are_released_when_their_nodes_are_well_and_later_ones_by_a_person(
    heads: tuple[Head, Head],
) -> None:
    _, second = heads
    before = second.shown()
    for hours in (7, 3, 1):
        second.swept(hours, profile="bringup")
    said = second.muster("triage", "--apply", "--rules", "rules")
    assert f"n1: {before['n1']} is released" in said and f"n2: {before['n2']} is released" in said, said
    assert second.shown() == {"n3": before["n3"]} and "n30  # fan, Tuesday" in second.bad.read_text()
    assert f"n3  {before['n3']}  hostfile" in second.muster("cordon")
    assert f"n3: {before['n3']} is released" in second.muster("uncordon", "n3")
    assert second.shown() == {} and second.muster("cordon") == "no cordons\n"


@pytest.mark.parametrize("edited", [False, True])
def test_a_cordon_of_triage_that_was_made_after_the_copy_is_released_by_triage_unless_a_person_edited_it(
    heads: tuple[Head, Head], edited: bool,
) -> None:
    first, second = heads
    first.swept(7, "n5")
    first.muster("triage", "--apply", "--rules", "rules")
    text = second.bad.read_text()
    assert ": triage/" in next(line for line in text.splitlines() if line.startswith("n5 "))
    if edited:
        second.bad.write_text("".join(f"{line.rstrip()}; and the fan\n" if line.startswith("n5 ") else line
                                      for line in text.splitlines(keepends=True)))
    mark = second.shown()["n5"]
    with opened(second.home / "state") as store, store.writing() as db:     # as of the head that was lost
        db.execute("INSERT INTO name (store, since) VALUES (?, 0)", (mark.store,))
        newest = db.execute("SELECT store FROM name ORDER BY rowid DESC LIMIT 1").fetchone()[0]
        assert newest == mark.store
    said = second.muster("store", "reconcile", "--hostfile", str(second.bad))
    assert "taken in" in said and f"({mark})" in said, said
    assert ("triage made them" in said.replace(chr(10), " ")) or edited
    with opened(second.home / "state") as store, store.writing() as db:
        db.execute("UPDATE cordon SET began = began - 6.9 * 3600 WHERE node = 'n5'")
    for hours in (6, 3, 1):
        second.swept(hours, profile="bringup")
    second.muster("triage", "--apply", "--rules", "rules")
    assert ("n5" in second.shown()) is edited


def test_what_the_lost_head_holds_is_listed_under_its_mark_and_new_ones_have_names_and_numbers_of_their_own(
    heads: tuple[Head, Head],
) -> None:
    _, second = heads
    before = second.shown()
    second.swept(2, "n1", "n2", "n3", "n4")
    second.muster("triage", "--apply", "--rules", "rules", code=(0, 1, 3, 4))
    after = second.shown()
    assert {node: after[node] for node in before} == before
    assert after["n4"].store != before["n3"].store and after["n4"].number > before["n3"].number
    with opened(second.home / "state") as store:
        assert sorted((one.node, one.mark) for one in open_cordons(store)) == sorted(
            (node, after[node]) for node in ("n1", "n2", "n3", "n4"))
    for _ in range(2):
        second.muster("triage", "--apply", "--rules", "rules", code=(0, 1, 3, 4))
    assert second.shown() == after


def test_the_lost_head_that_comes_back_releases_nothing_of_the_new_one(
    heads: tuple[Head, Head], tmp_path: Path,
) -> None:
    first, second = heads
    second.swept(2, "n1", "n2", "n4")
    second.muster("triage", "--apply", "--rules", "rules", code=(0, 1, 3, 4))
    of_second = second.shown()["n4"]
    # As it was when it was copied, under the name that it had.
    (first.home / "state").mkdir()
    shutil.copyfile(tmp_path / "copy.db", first.home / "state" / "muster.db")
    for hours in (1.5, 1, 0.2):
        first.swept(hours, profile="bringup")
    first.muster("triage", "--apply", "--rules", "rules")
    assert second.shown()["n4"] == of_second
