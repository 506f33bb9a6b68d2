"""Eight machines through boot and os, killed at every point: nothing twice, the same end."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from healthcheck.store import bringups
from healthcheck.store.file import opened
from tests.provisioning.bringup.osworld import HAS_A_SYSTEM, NAMES, ON, bring_up

# What each machine needs: where it boots from, off where it is on, the installation, and on again.
WANTED = Counter({(name, key): 1 for name in NAMES if name not in HAS_A_SYSTEM
                  for key in ("pxe", "install", "on", *(("off",) if name in ON else ()))})


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where that can be: a process is killed, not this machine, so nothing rests on what fsync
    costs."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        yield Path(made)


def effects(folder: Path) -> Counter[tuple[str, str]]:
    return Counter((path.name, line.split()[0]) for path in (folder / "world").iterdir()
                   for line in path.read_text().splitlines())


def ended(folder: Path) -> None:
    """All are through; each effect is in the store and was made once; the proof is kept."""
    assert effects(folder) == WANTED, effects(folder) - WANTED or WANTED - effects(folder)
    with opened(folder / "state") as store:
        assert store.check() == []
        rows = bringups.progress(store)
        assert [(row.node, row.stand) for row in rows] == [(name, "done") for name in NAMES]
        assert {row.kept["os.host_keys"] for row in rows} == {"ssh-ed25519 AAAA"}
        written = Counter((one.node, one.key) for one in bringups.actions(store))
        assert all(one.ended is not None for one in bringups.actions(store))
        # One that was through before the kill goes through again, and nothing is done to it.
        passed = {(one.node, one.step, one.outcome) for one in bringups.steps(store, set(NAMES))}
    assert {(name,
             {"boot:pxe": "pxe", "on:os": "on",
              "off:boot:pxe": "off"}.get(key, "install" if key.startswith("install:") else key))
            for name, key in written} == set(WANTED)
    assert passed == {(name, step, "so") for name in NAMES for step in ("boot", "os")}


def test_undisturbed_each_operation_is_made_once_and_a_machine_with_a_system_is_left_alone(
        folder: Path) -> None:
    assert bring_up(folder, 0).exit_code == 0
    ended(folder)


@pytest.mark.timeout(600)
# 8 meets operations before their effect, after it and when they are answered.
@pytest.mark.parametrize("step", [8, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_at_points_of_every_operation_it_comes_to_the_same_end(folder: Path, step: int) -> None:
    done = subprocess.run([sys.executable, "-m", "tests.provisioning.bringup.osworld",
                           str(folder), str(step)],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=580)
    assert done.returncode == 0, done.stderr[-3000:]
    points = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    # Before each effect, after it, and when its answer is there.
    assert [at for at, _ in points] == list(range(1, 3 * WANTED.total() + 1, step))
    assert {code for _, code in points} == {0}
    for at, _ in points:
        ended(folder / str(at))
