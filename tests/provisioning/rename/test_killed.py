"""A rename that is killed before any of its writes, by a signal that nothing can catch, or that finds the
disk full there: the node that the inventory names is held all the while, and the same command finishes the
work."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from healthcheck.certify.certificate import numbered
from healthcheck.certify.manifest import load_manifest
from healthcheck.model.recording import Host, Recording
from healthcheck.store import renaming
from healthcheck.store.cordons import open_cordons
from healthcheck.store.file import Store, opened
from healthcheck.sweep.snapshots import KeptSnapshots
from inventory.errors import MusterError
from inventory.inventoryfile import InventoryFile
from inventory.load import load_inventory
from inventory.rename import renamed
from provisioning.actions.base import Backend, Holder
from provisioning.actions.cordon import cordon
from provisioning.actions.golden import GoldenSet
from provisioning.actions.hostfile import HostFile
from provisioning.bmc import pins
from provisioning.rename import run
from tests.healthcheck.certify.world import head
from tests.testbed.marks import files_moved

NOW = 1_795_000_000.0
OLD, NEW = "gpu1", "node9"
# Each a way in which a file or a folder comes to be another one.
CALLS = ("rename", "replace", "symlink", "link", "mkdir", "rmdir", "unlink", "open", "ftruncate",
         "pwrite", "fchmod")
STRIDE = 12     # of the fast form


def backend(world: Path, kind: str) -> Backend:
    return HostFile(world / "bad") if kind == "hostfile" else GoldenSet(world / "good")


def made(world: Path, kind: str) -> None:
    """A site with one cordoned node that has all that a node can have."""
    world.mkdir()
    (world / "muster.yaml").write_text(
        f"version: 1\ncordon: {{{kind}: {'bad' if kind == 'hostfile' else 'good'}}}\n"
        "groups: {all8: \"gpu[1-3]\"}\nnodes:\n  gpu[1-3]: {rack: r1}\n")
    (world / "good").write_text("gpu[1-3]\n")
    head(world / "state").certify(OLD, "gpu2")
    kept = KeptSnapshots(world / "state")
    kept.prepare()
    kept.write(Recording(OLD, NOW, Host("a", "boot1", NOW, 0, "3.11", "x86_64", 0.1), None), None)
    pins.write(world / "state", {OLD: "0" * 64}, {})
    (world / "state" / "evidence" / OLD / "20261101T000000Z").mkdir(parents=True)
    with opened(world / "state", make=True) as store:
        assert cordon(store, backend(world, kind), [OLD], "fan", "ann", lambda: NOW)[0].held
        with store.writing() as db:
            db.execute("INSERT INTO node (name) VALUES (?)", (OLD,))
            db.execute(
                "INSERT INTO spell (node, state, reason, began, seen, sweeps) VALUES (1, 'healthy', '', "
                "1, 2, 1)")


def rename(world: Path, kind: str) -> run.Renamed:
    """As the command does it."""
    given = InventoryFile.read(world / "muster.yaml")
    there = OLD in load_inventory(world / "muster.yaml").nodes
    text = renamed(given.text, "muster.yaml", OLD, NEW) if there else given.text
    want = run.RenameRequest(OLD, NEW, world / "state", [], [backend(world, kind)], "moved", "ann")
    if not there and not run.is_known(want):
        assert run.done_before(want)
        return run.Renamed((), ())
    return run.rename(want, lambda: given.write(text) if there else None, lambda: NOW + 1)


@contextmanager
def counted(step: Callable[[], None], *, after: bool = True) -> Iterator[None]:
    """`step` is called before each call that changes a file, before the end of each transaction of the store,
    and `after` it."""
    def before(real: Callable[..., Any]) -> Callable[..., Any]:
        def done(*args: Any, **more: Any) -> Any:
            step()
            return real(*args, **more)
        return done

    real = Store.writing

    @contextmanager
    def writing(store: Store) -> Iterator[sqlite3.Connection]:
        with real(store) as db:
            yield db
            step()
        if after:
            step()

    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, before(getattr(os, name)))
        patch.setattr(Store, "writing", writing)
        yield


def dies(world: Path, kind: str, after: int) -> bool:
    """Whether the rename came to its step `after`, before which it was killed."""
    left = after

    def step() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        code = 1
        try:
            with counted(step):
                rename(world, kind)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, "the rename failed"
    return False


def fails(world: Path, kind: str, after: int) -> bool:
    """Whether the rename came to its step `after`, at which the disk was full."""
    left = after

    def step() -> None:
        nonlocal left
        left -= 1
        if left == -1:
            raise OSError(errno.ENOSPC, "No space left on device")

    with counted(step, after=False):
        try:
            rename(world, kind)
        except MusterError as error:
            assert "\n" not in str(error)
    return left < 0


def check_between(world: Path, kind: str) -> None:
    """Whatever was done: who uses the inventory finds the node held, and the store is whole and says so."""
    nodes = load_inventory(world / "muster.yaml").nodes
    name, = {OLD, NEW} & set(nodes)
    assert backend(world, kind).held([name])[name].holder is Holder.US
    with opened(world / "state") as store:
        (one,) = open_cordons(store)
        assert backend(world, kind).held([one.node])[one.node].mark == one.mark
        assert store.check() == []


def check_done(world: Path, kind: str) -> None:
    assert set(load_inventory(world / "muster.yaml").nodes) == {NEW, "gpu2", "gpu3"}
    back, state = backend(world, kind), world / "state"
    with opened(state) as store:
        (one,) = open_cordons(store)
        assert (one.node, renaming.unfinished(store), renaming.knows(store, OLD)) == (NEW, [], False)
        assert [row[0] for row in store.rows("SELECT name FROM node")] == [NEW]
    held = back.held([OLD, NEW])
    assert held[NEW].mark == one.mark and held[OLD].mark is None
    assert (world / ("bad" if kind == "hostfile" else "good")).read_text().count(str(one.mark)) == 1
    manifest = load_manifest(state)
    assert set(manifest.nodes) == {NEW, "gpu2"} and manifest.nodes[NEW] == numbered(NEW, manifest.nodes[NEW])
    assert (pins.read(state) == {NEW: "0" * 64}
            and [path.name for path in (state / "snapshots").glob("*.json")] == [f"{NEW}.json"])
    assert [path.name for path in (state / "evidence").glob("*/*")] == ["20261101T000000Z"]
    assert (state / "evidence" / NEW).is_dir() and not (state / "evidence" / OLD).exists()


def ended_at(
    tmp_path: Path, kind: str, points: Iterator[int], ends: Callable[[Path, str, int], bool] = dies,
) -> int:
    """Tries each of these points until the work lives to its end; gives how many ended it."""
    made(tmp_path / "first", kind)
    deaths = 0
    for after in points:
        world = tmp_path / str(after)
        shutil.copytree(tmp_path / "first", world, symlinks=True)
        files_moved(world / "state" / "muster.db", tmp_path / "first", world)
        alive = not ends(world, kind, after)
        if not alive:
            deaths += 1
            check_between(world, kind)
            rename(world, kind)
        check_done(world, kind)
        shutil.rmtree(world)
        if alive:
            return deaths
    raise AssertionError("it never came to its end")


EVERY = [pytest.param(kind, range(10_000), 45, marks=pytest.mark.slow) for kind in ("hostfile", "golden")]


@pytest.mark.parametrize(("kind", "at", "times"), [
    ("hostfile", range(0, 10_000, STRIDE), 3), ("golden", range(7, 10_000, STRIDE), 3), *EVERY])
def test_killed_before_a_write_it_is_finished_by_the_same_command(
    tmp_path: Path, kind: str, at: range, times: int,
) -> None:
    assert ended_at(tmp_path, kind, iter(at)) > times


@pytest.mark.parametrize(("kind", "at", "times"), [("hostfile", range(2, 10_000, STRIDE), 3), *EVERY])
def test_on_a_full_disk_it_is_one_line_and_goes_on_later(
    tmp_path: Path, kind: str, at: range, times: int,
) -> None:
    assert ended_at(tmp_path, kind, iter(at), fails) > times
