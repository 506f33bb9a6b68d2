"""kill -9 and a full disk at every write of restore, of move and of what waits for the store: there is a
whole store at any time, nothing of it is lost, and the same command goes on."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from healthcheck.store import cordons, waiting
from healthcheck.store.cordons import CordonState, mean
from healthcheck.store.file import NAME, Store, opened
from healthcheck.store.marks import CordonMark
from healthcheck.store.move import keep_here, move_to
from healthcheck.store.restore import restore
from inventory.errors import MusterError, StoreMoved
from provisioning.actions.hostfile import HostFile
from provisioning.actions.reconcile import reconcile
from tests.testbed.disks import remounted, small_disk
from tests.testbed.killing import changes

NOW = 1_795_000_000.0
SLOW = (pytest.mark.slow, pytest.mark.timeout(900))


def made(folder: Path, *nodes: str) -> Path:
    with opened(folder, make=True) as store:
        for node in nodes:
            one = mean(store, node, "hostfile", "fan", "ann", NOW - 100)
            assert one is not None
            cordons.settle(store, one, CordonState.HELD, "cordoned", NOW - 100)
    return folder


def held(folder: Path, *, moved: bool = False) -> list[str]:
    with opened(folder, moved=moved) as store:
        assert store.check() == []
        return [one.node for one in cordons.open_cordons(store)]


class Ready:
    """A copy with n1, a store that is there with n1 and n7, and a file that shows n1 and n7 as cordoned."""

    def __init__(self, at: Path) -> None:
        self.at, self.copy, self.there = at, at / "copy.db", at / "b"
        made(at / "a", "n1")
        shutil.copytree(at / "a", self.there)
        with opened(at / "a") as store:
            store.backup(self.copy)
        made(self.there, "n7")
        self.bad = HostFile(at / "bad")
        with opened(self.there) as store:
            for one in cordons.open_cordons(store):
                self.bad.isolate(one.node, f"{one.mark}: fan")

    def restore(self) -> None:
        def also(store: Store) -> None:
            reconcile(store, [self.bad], ["n1", "n7"], "ann", lambda: NOW)

        restore(self.copy, self.there, "ann", NOW, replace=True, also=also)

    def again(self, keep: Path) -> None:
        """As it was at first."""
        shutil.rmtree(self.there)
        shutil.copytree(keep, self.there)


def check(ready: Ready) -> None:
    """Whatever was done of it: one of the two stores is there and whole, and each knows both cordons."""
    kept = [path for path in ready.there.iterdir() if path.name.startswith(f"{NAME}.")
            and "-" not in path.name]
    assert held(ready.there) == ["n1", "n7"]
    with opened(ready.there) as store:
        restored = bool(store.rows("SELECT 1 FROM ledger WHERE action = 'restore'"))
    assert len(kept) >= restored


def every(work: Callable[[], None], fresh: Callable[[], None], verify: Callable[[], None], step: int) -> int:
    """Kills the work at each `step`-th of its changes, beside the first and the last ones."""
    fresh()
    number = changes(work)
    verify()
    assert number > 5
    for at in sorted({0, 1, *range(2, number, step), number - 2, number - 1}):
        fresh()
        assert changes(work, at) == at
        verify()
    return number


@pytest.mark.parametrize("step", [pytest.param(23, id="some"), pytest.param(1, id="all", marks=SLOW)])
def test_killed_at_any_write_of_a_restore_a_store_is_there_and_knows_all_cordons(tmp_path: Path,
                                                                                 step: int) -> None:
    ready = Ready(tmp_path)
    shutil.copytree(ready.there, tmp_path / "keep")

    def verify() -> None:
        check(ready)
        ready.restore()     # and once more it goes through
        check(ready)
        assert not list(ready.there.glob(".restore.*"))

    every(ready.restore, lambda: ready.again(tmp_path / "keep"), verify, step)


@pytest.mark.parametrize("step", [pytest.param(23, id="some"), pytest.param(1, id="all", marks=SLOW)])
def test_killed_at_any_write_of_a_move_exactly_one_head_acts(tmp_path: Path, step: int) -> None:
    keep, here, target = made(tmp_path / "keep", "n1", "n2"), tmp_path / "here", tmp_path / "moved.db"

    def fresh() -> None:
        shutil.rmtree(here, ignore_errors=True)
        shutil.copytree(keep, here)
        target.unlink(missing_ok=True)

    def work() -> None:
        with opened(here, moved=True) as store:
            move_to(store, target, "ann", NOW)

    def verify() -> None:
        acts = True
        try:
            assert held(here) == ["n1", "n2"]
        except StoreMoved as error:
            acts = False
            assert "muster store move" in str(error)
        if not acts:        # the same command goes on, and the new head has all of it
            with suppress(MusterError):     # it had been finished
                work()
            restore(target, tmp_path / "new", "ann", NOW + 1, replace=True)
            assert held(tmp_path / "new") == ["n1", "n2"]
            with opened(here, moved=True) as store:
                keep_here(store, "ann", NOW + 2)
        assert held(here) == ["n1", "n2"]

    every(work, fresh, verify, step)


@pytest.mark.parametrize("step", [pytest.param(4, id="some"), pytest.param(1, id="all", marks=SLOW)])
def test_killed_at_any_write_while_it_takes_in_what_waited_each_is_there_once(tmp_path: Path,
                                                                              step: int) -> None:
    keep, here = made(tmp_path / "keep"), tmp_path / "here"
    for at in range(3):
        one = waiting.WaitingCordon(CordonMark(f"dead{at:04x}", 1), f"n{at}", "hostfile", "smoke", "ann",
                                    NOW, held=True)
        waiting.begin(keep, one)
        waiting.finish(keep, one)

    def fresh() -> None:
        shutil.rmtree(here, ignore_errors=True)
        shutil.copytree(keep, here)

    def work() -> None:
        with opened(here):
            pass

    def verify() -> None:
        assert held(here) == ["n0", "n1", "n2"] and not (here / waiting.FILE).exists()
        with opened(here) as store:
            assert store.rows("SELECT count(*) FROM cordon")[0][0] == 3

    every(work, fresh, verify, step)


@pytest.mark.root
def test_a_disk_that_is_full_at_any_write_of_a_restore_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 8192) as at:
        ready = Ready(at)
        shutil.rmtree(at / "a")
        shutil.copytree(ready.there, tmp_path / "keep")
        used = sum(path.stat().st_size for path in at.rglob("*") if path.is_file()) // 1024
        refused = 0
        for more in range(8, 2400, 60):
            remounted(at, f"size={used + more}k")
            try:
                ready.restore()
                done = True
            except MusterError as error:
                done, refused = False, refused + 1
                said = str(error)
                assert "\n" not in said and ("disk is full" in said or "No space left" in said), said
            remounted(at, "size=8192k")
            check(ready)
            assert not [path for path in ready.there.iterdir() if path.name.startswith(".restore")]
            if done:
                break
        assert refused > 3 and done


@pytest.mark.root
def test_a_disk_that_is_full_at_any_write_of_a_move_loses_nothing(tmp_path: Path) -> None:
    here = made(tmp_path / "here", "n1", "n2")
    with small_disk(tmp_path / "disk", 8) as at:
        for size in range(8, 900, 120):
            remounted(at, f"size={size}k")
            with opened(here, moved=True) as store:
                try:
                    move_to(store, at / "moved.db", "ann", NOW)
                    break
                except MusterError as error:
                    said = str(error)
                    assert "disk is full" in said or "No space left" in said, said
            assert list(at.iterdir()) == [] and held(here, moved=True) == ["n1", "n2"]
            with pytest.raises(StoreMoved, match="the copy is not whole: muster store move"):
                held(here)
        remounted(at, "size=8192k")
        restore(at / "moved.db", tmp_path / "new", "ann", NOW + 1)
        assert held(tmp_path / "new") == ["n1", "n2"]
