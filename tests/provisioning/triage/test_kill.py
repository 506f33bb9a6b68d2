"""`muster triage --apply` killed anywhere: the store is whole, and the next run finishes, once."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from healthcheck.config.rulesfolder import packaged
from healthcheck.model.outcome import Finding, NodeReport, Result, Severity, Status, state_of
from healthcheck.ruleset.ruleset import load_ruleset
from healthcheck.store.cordons import CordonState, open_cordons
from healthcheck.store.file import Store, opened
from healthcheck.store.ledger import lines
from healthcheck.store.sweeps import SweepRecord, record
from healthcheck.triage.gather import gather
from healthcheck.triage.plan import make
from healthcheck.triage.policyload import load_policy
from inventory.load import load_inventory
from provisioning.actions.base import number_of
from provisioning.actions.hostfile import HostFile
from provisioning.triage import apply as doing
from provisioning.triage.onerun import LOCK
from tests.command import muster, running
from tests.testbed.marks import files_moved
from tests.testbed.require import require

HOUR = 3600.0
WELL = [f"n{at:02d}" for at in range(1, 5)]         # held, and proven well: to be given back
SICK = [f"n{at:02d}" for at in range(11, 17)]       # to be isolated
THEIRS = "n20  # fan, Tuesday\n"
INVENTORY = "version: 1\ncordon: {hostfile: bad}\nnodes:\n  n[01-40]:\n"
COMPILER = shutil.which("cc") or shutil.which("gcc")
# Counts the calls that change files, a byte each in COUNT_TO, and kills its process before or after the one
# that it is told to.
KILLER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
static long made, last = -1;
static int told = -1;
static void point(void) {
    if (last < 0) {
        const char *at = getenv("KILL_AT"), *name = getenv("COUNT_TO");
        last = at ? atol(at) : 0;
        if (name) told = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    }
    if (told >= 0) syscall(SYS_write, told, ".", 1);
    if (++made == last) kill(getpid(), SIGKILL);
}
#define AROUND(type, name, parameters, arguments) \
    type name parameters { \
        static type (*real) parameters; \
        if (!real) real = (type (*) parameters) dlsym(RTLD_NEXT, #name); \
        point(); type got = real arguments; point(); return got; }
AROUND(int, fsync, (int a), (a))
AROUND(int, fdatasync, (int a), (a))
AROUND(int, rename, (const char *a, const char *b), (a, b))
AROUND(int, ftruncate64, (int a, off64_t b), (a, b))
AROUND(ssize_t, pwrite64, (int a, const void *b, size_t c, off64_t d), (a, b, c, d))
AROUND(ssize_t, write, (int a, const void *b, size_t c), (a, b, c))
"""


@dataclass(frozen=True)
class Work:
    """A folder with a store that triage has work in, and how many places there are to be killed at."""

    folder: Path
    lived: Path         # what a run that lived has left
    library: Path
    points: int
    seconds: float      # from the lock to the end, of a run that lives


def swept(store: Store, when: float, bad: list[str], profile: str = "") -> None:
    reports = []
    for name in (f"n{at:02d}" for at in range(1, 41)):
        findings = (Finding(7, 0, "GPU 0"),) if name in bad else ()
        found = Result(
            "kernel-xid", "kernel.xid", Status.FAIL if findings else Status.PASS, Severity.CRITICAL, findings)
        reports.append(NodeReport(name, state_of([found]), "", (found,)))
    record(
        store, SweepRecord(when, when + 5, False, "test", "digest", (profile,) if profile else ()), reports)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Work:
    require(COMPILER is not None, "no C compiler on this machine: apt-get install -y gcc libc6-dev")
    folder = tmp_path_factory.mktemp("work")
    (folder / "muster.yaml").write_text(INVENTORY)
    (folder / "bad").write_text(THEIRS)
    (folder / "rules").mkdir()
    (folder / "rules" / "policy.yaml").write_text("breaker: {number: 50, percent: 100}\n")
    now = time.time()
    folders = [packaged(), folder / "rules"]
    policy = load_policy(folders, load_ruleset(folders))
    there = load_inventory(folder / "muster.yaml")
    with opened(folder / "state", make=True) as store:
        swept(store, now - 9 * HOUR, WELL)
        then = now - 8 * HOUR
        doing.apply(store, HostFile(folder / "bad"), make(gather(store, there, policy, then), policy),
                    "triage", lambda: then, lambda _: None)
        for hours in (5, 4):
            swept(store, now - hours * HOUR, [], "bringup")
        swept(store, now - HOUR, SICK)
    library = folder / "killer.so"
    (folder / "killer.c").write_text(KILLER)
    subprocess.run(
        [str(COMPILER), "-shared", "-fPIC", "-o", str(library), str(folder / "killer.c"), "-ldl"], check=True)
    lived = tmp_path_factory.mktemp("lived")
    copied(folder, lived)
    count = folder / "count"
    process = started(lived, LD_PRELOAD=str(library), COUNT_TO=str(count))
    began = locked(process, lived)
    assert process.wait(60) == 1
    finished(lived)
    return Work(folder, lived, library, count.stat().st_size, time.monotonic() - began)


def copied(source: Path, folder: Path) -> None:
    """What a run starts from."""
    for name in ("muster.yaml", "bad"):
        shutil.copy(source / name, folder / name)
    for name in ("rules", "state"):
        shutil.copytree(source / name, folder / name)
    files_moved(folder / "state" / "muster.db", source, folder)


def started(folder: Path, **more: str) -> subprocess.Popen[str]:
    """A triage that acts."""
    return running("triage", "--apply", "--rules", "rules", home=folder, **more)


def locked(process: subprocess.Popen[str], folder: Path) -> float:
    """When it began to act, or had ended."""
    while process.poll() is None and not (folder / "state" / LOCK).exists():
        time.sleep(0.001)
    return time.monotonic()


def marks(folder: Path) -> list[tuple[str, int]]:
    """The lines of the file that are ours."""
    found = [(line.split()[0], number_of(line.partition("#")[2].strip()))
             for line in (folder / "bad").read_text().splitlines()]
    return [(node, number) for node, number in found if number is not None]


def whole(folder: Path) -> None:
    """What holds at any moment."""
    with opened(folder / "state") as store:
        assert store.check() == []
        known = [(one.node, one.id) for one in open_cordons(store)]
    shown = marks(folder)
    assert len({node for node, _ in known}) == len(known) and len({node for node, _ in shown}) == len(shown)
    assert set(shown) <= set(known)
    assert (folder / "bad").read_text().startswith(THEIRS)


def finished(folder: Path) -> None:
    """All that was to be done is done, each operation once."""
    whole(folder)
    with opened(folder / "state") as store:
        held = open_cordons(store)
        told = lines(store)
        assert sorted(one.node for one in held) == SICK and {one.state for one in held} == {CordonState.HELD}
        assert all(one.verdict is not None for one in held)
        assert sorted(marks(folder)) == sorted((one.node, one.id) for one in held)
        assert all(line.outcome is not None and line.finished is not None for line in told)
        done = sorted((line.action, line.node) for line in told
                      if str(line.outcome).startswith(("cordoned", "released")))
        assert done == sorted(
            [("cordon", node) for node in (*WELL, *SICK)] + [("uncordon", node) for node in WELL])
        assert {str(line.outcome) for line in told} <= {
            "cordoned", "released", "cordoned; found so later", "released; found so later",
            "not done; found so later", "not done: it was cut short before hostfile was asked"}
        assert len(
            store.rows("SELECT 1 FROM verdict WHERE ended IS NULL AND isolation != 'none'")) == len(SICK)


def survived(work: Work, folder: Path, *, point: int = 0, delay: float = 0.0) -> None:
    """Kills a run, looks, and has another finish."""
    copied(work.folder, folder)
    if point:
        process = started(folder, LD_PRELOAD=str(work.library), KILL_AT=str(point))
        # A run may have a few calls fewer than the one that was counted.
        assert process.wait(60) == -signal.SIGKILL or point > 0.9 * work.points, point
    else:
        process = started(folder)
        locked(process, folder)
        time.sleep(delay)
        process.kill()
        assert process.wait(60) in (-signal.SIGKILL, 1)
    whole(folder)
    again(folder)
    finished(folder)


def again(folder: Path) -> None:
    """A run that comes to its end."""
    muster("triage", "--apply", "--rules", "rules", home=folder, code=1)


def test_a_run_that_lives_does_all_of_it_and_the_next_one_nothing(work: Work) -> None:
    before = (work.lived / "bad").read_bytes()
    again(work.lived)
    finished(work.lived)
    assert (work.lived / "bad").read_bytes() == before


# The slow tier kills it at more moments.
@pytest.mark.timeout(300)
def test_killed_at_a_change_of_a_file_the_next_run_finishes(work: Work, tmp_path: Path) -> None:
    survived(work, tmp_path, point=work.points * 5 // 8)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_killed_at_a_hundred_points(work: Work, tmp_path: Path) -> None:
    assert work.points > 100
    for part in range(100):
        folder = tmp_path / str(part)
        folder.mkdir()
        if part % 4:
            survived(work, folder, point=1 + work.points * part // 100)
        else:
            survived(work, folder, delay=work.seconds * part / 100)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_killed_twice_and_at_other_places_it_still_finishes(work: Work, tmp_path: Path) -> None:
    chance = random.Random(5)
    for part in range(20):
        folder = tmp_path / str(part)
        folder.mkdir()
        copied(work.folder, folder)
        for _ in range(3):
            process = started(
                folder, LD_PRELOAD=str(work.library), KILL_AT=str(chance.randint(1, work.points)))
            assert process.wait(60) in (-signal.SIGKILL, 1)
            whole(folder)
        again(folder)
        finished(folder)


def test_the_points_are_those_of_every_action(work: Work) -> None:
    # Each of ten operations writes two transactions and a file, and each of these is synced.
    assert work.points > 10 * 3 * 2
