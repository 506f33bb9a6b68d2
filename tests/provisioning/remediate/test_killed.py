"""A head killed anywhere: the next finds out, does nothing twice, and holds nothing well."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from healthcheck.store.cordons import open_cordons
from healthcheck.store.file import Store, opened
from healthcheck.store.leases import open_leases
from healthcheck.store.ledger import lines
from provisioning.remediate.execute import execute
from provisioning.remediate.resume import resume
from tests.provisioning.remediate.world import RULE, World
from tests.provisioning.triage.triageworld import Death


def run(world: World, store: Store) -> None:
    """One `muster remediate --apply`."""
    context = world.context(store)
    if not any(one.held for one in resume(context)):
        execute(context, world.works(*(name for name, one in world.machines.items() if RULE in one.wrong)))


def lived(folder: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], harm: str = "") -> int:
    """How many points there are at which it can be killed, of a run that no one kills."""
    with monkeypatch.context() as patched:
        world = made(folder, patched, names, harm)
        with opened(folder, make=True) as store:
            world.points = 0        # of making the store, which is no part of it
            run(world, store)
        return world.points


def made(folder: Path, patched: pytest.MonkeyPatch, names: tuple[str, ...], harm: str) -> World:
    world = World(folder, names, patched)
    for one in world.machines.values():
        one.breaks = "gpu-count" if harm == "breaks" else ""
        one.comes_back = harm != "goes"
    return world


def after_a_kill_at_each_point(
    folder: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], harm: str = "",
) -> Iterator[tuple[int, World, Store]]:
    """The point at which a run was killed, and what there is after the next one."""
    for at in range(1, lived(folder / "whole", monkeypatch, names, harm) + 1):
        with monkeypatch.context() as patched:
            world = made(folder / str(at), patched, names, harm)
            with opened(world.folder, make=True) as store:
                world.points, world.die_at = 0, at
                with pytest.raises(Death):
                    run(world, store)
                world.dead, world.die_at = False, 0
                run(world, store)
                yield at, world, store


def test_wherever_it_is_killed_the_next_run_ends_it_and_nothing_is_done_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = 0
    for at, world, store in after_a_kill_at_each_point(tmp_path, monkeypatch, ("n1", "n2")):
        assert [one.wrong for one in world.machines.values()] == [set(), set()], at
        assert all(len(one.took) == 1 for one in world.machines.values()), at
        assert world.backend.holds == {} and not open_cordons(store) and not open_leases(store), at
        assert all(line.outcome is not None for line in lines(store)), at
        ends = [str(line.outcome).split(":")[0] for line in lines(store) if line.action == "restart-service"]
        assert ends.count("done") == 2 and set(ends) <= {"done", "not done"}, at
    assert at > 20


@pytest.mark.parametrize(("harm", "word"), [("breaks", "worse"), ("goes", "not back")])
def test_wherever_it_is_killed_a_node_that_was_made_worse_stays_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str, word: str,
) -> None:
    for at, world, store in after_a_kill_at_each_point(tmp_path, monkeypatch, ("n1",), harm):
        assert list(world.backend.holds) == ["n1"] and not open_leases(store), at
        newest = [line for line in lines(store) if line.action == "restart-service"][-1]
        assert str(newest.outcome).startswith(f"{word}: "), at
        assert len(world.machines["n1"].took) == 1, at
