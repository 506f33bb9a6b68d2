"""A run killed anywhere: the next one goes on to the same end, and does what is due once, once."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from healthcheck.store import bringups, ledger
from healthcheck.store.file import opened
from tests.provisioning.bringup.scripted import bring_up
from tests.testbed.sshd import wait_until

NUMBER = 24
STUCK = [f"n{number:03d}" for number in (3, 13, 23)]
ONCE = ("write", "off", "on")
WELL = NUMBER - len(STUCK)
# Of every operation there are three points: before its effect, after it, and when its answer is there.
POINTS = WELL * 5 * 3


def started(folder: Path, at: int = 0) -> subprocess.Popen[str]:
    """A run in a process of its own, which dies at this point."""
    process = subprocess.Popen([sys.executable, "-m", "tests.provisioning.bringup.scripted", str(folder),
                                str(NUMBER), str(at)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    return process


def killed(folder: Path, at: int = 0, after_s: float = 0.0) -> bool:
    """Whether it died before its end."""
    with started(folder, at) as process:
        if not at:
            time.sleep(after_s)     # a random time is what is wanted
            process.kill()
        return process.wait(60) == -signal.SIGKILL


def whole(folder: Path) -> None:
    """At any moment: each effect has its operation in the store, and none due once was done twice."""
    with opened(folder / "state") as store:
        assert store.check() == []
        written = {(one.node, one.key) for one in bringups.actions(store)}
    effects = done(folder)
    assert set(effects) <= written
    assert {number for (_, key), number in effects.items() if key in ONCE} <= {1}


def done(folder: Path) -> Counter[tuple[str, str]]:
    """How often each operation came true on each machine."""
    return Counter((path.name, line.split()[1]) for path in (folder / "world").iterdir()
                   for line in path.read_text().splitlines())


def finished(folder: Path) -> None:
    """The end, the same whatever happened on the way."""
    whole(folder)
    effects = done(folder)
    well = {f"n{number:03d}" for number in range(NUMBER)} - set(STUCK)
    assert set(effects) == {(name, key) for name in well for key in (*ONCE, "pxe", "service")}
    with opened(folder / "state") as store:
        found = bringups.progress(store)
        assert {one.node for one in found if one.stand == "done"} == well
        assert [(one.node, one.step, one.kept.get("serial")) for one in found if one.stand == "trouble"] == [
            (name, "hardware", None) for name in STUCK]
        assert [(one.node, one.what, one.ended) for one in bringups.troubles(store)] == [
            (name, "no GPU 3", None) for name in STUCK]
        assert all(one.kept["serial"] == f"S{int(one.node[1:])}" for one in found if one.stand == "done")
        # Each machine was through each step once, and what the policy leaves out never counts as passed.
        passed = Counter((one.node, one.step, one.outcome) for one in bringups.steps(store, well))
        assert set(passed.values()) == {
            1} and {step for _, step, how in passed if how == "skipped"} == {"credentials"}
        assert len(passed) == 8 * len(well)
        assert all(line.outcome is not None for line in ledger.lines(store)) and all(
            one.ended is not None for one in bringups.actions(store))


def test_a_run_that_lives_does_each_action_once_and_the_next_one_nothing(tmp_path: Path) -> None:
    outcome = bring_up(tmp_path, NUMBER)
    assert outcome.exit_code == 1 and list(outcome.trouble) == STUCK
    finished(tmp_path)
    assert set(done(tmp_path).values()) == {1}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_in_the_midst_of_actions_again_and_again_it_comes_to_the_same_end(
    tmp_path: Path, seed: int,
) -> None:
    chance = random.Random(seed)
    died = 0
    # Five times at a point of an operation; a run that comes after another has fewer of them.
    for _ in range(5):
        died += killed(tmp_path, at=chance.randint(1, POINTS // 5))
        whole(tmp_path)
    assert died >= 3
    bring_up(tmp_path, NUMBER)
    finished(tmp_path)


@pytest.mark.timeout(120)
def test_killed_at_any_time_it_comes_to_the_same_end(tmp_path: Path) -> None:
    chance = random.Random(11)
    for _ in range(3):
        killed(tmp_path, after_s=chance.random() * 0.5)
        whole(tmp_path)
    bring_up(tmp_path, NUMBER)
    finished(tmp_path)


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
def test_interrupted_it_begins_nothing_more_and_writes_down_what_is_under_way(
    tmp_path: Path, number: signal.Signals,
) -> None:
    with started(tmp_path) as process:
        wait_until(lambda: (tmp_path / "world").exists() and len(done(tmp_path)) > 5, what="some deeds")
        process.send_signal(number)
        assert process.wait(30) == 130
    with opened(tmp_path / "state") as store:
        assert all(one.ended is not None for one in bringups.actions(store))
        assert any(one.on_its_way and one.stand != "trouble" for one in bringups.progress(store))
    bring_up(tmp_path, NUMBER)
    finished(tmp_path)


HANGS = """
import sys, time
from pathlib import Path
from provisioning.bringup.engine.model import Observation, StepState
from provisioning.bringup.engine.run import run
from provisioning.bringup.engine.site import RunContext
from tests.provisioning.bringup.scripted import Acts, Plan, operation, node, step

def make(machine, what):
    print("begun", flush=True)
    time.sleep(600)

no = Observation(StepState.NOT_SO, "no", operation("it", once=True))
bios = Acts(step("bios"), lambda machine: no, make)
on_event = lambda event: print(event.stand, event.message, flush=True)
run(RunContext(Path(sys.argv[1]), "ada"), [node("n1")], {"bios": bios}, Plan({"bios": bios.step}), on_event)
"""


def test_the_second_interrupt_leaves_at_once_and_no_one_knows_of_the_action(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HANGS, str(tmp_path)], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        said = [process.stdout.readline(), process.stdout.readline()]
        process.send_signal(signal.SIGINT)
        said.append(process.stdout.readline())
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(10) != 0
    assert (said == ["operation do it\n", "begun\n",
                     "interrupted waiting for 1 running operations; press again to leave at once\n"])
    with opened(tmp_path) as store:
        assert [one.ended for one in bringups.actions(store)] == [None]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_at_points_all_over_a_run(tmp_path: Path) -> None:
    for at in range(1, POINTS, 7):
        folder = tmp_path / str(at)
        folder.mkdir()
        killed(folder, at=at)
        whole(folder)
        bring_up(folder, NUMBER)
        finished(folder)
