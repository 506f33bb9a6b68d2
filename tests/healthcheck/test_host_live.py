"""Hosts that really have it: huge pages that no process has mapped, a control group that its quota stops, a
process that was left behind, another clock source.

The collector reads this machine, and the packaged rules judge what it read. What needs other hardware (EDAC,
frequencies, NUMA) is judged in the forms that the kernel documents (facts/test_edac.py, checks/test_cpu.py).
"""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from healthcheck.facts.cpuquota import QUOTA
from healthcheck.facts.host import CLOCK_SOURCE, MEMORY, SOURCE
from healthcheck.facts.owners import OWNERS
from healthcheck.model.outcome import Result, Status
from healthcheck.model.probes import Probe
from healthcheck.model.recording import Recording
from tests.healthcheck import machine
from tests.healthcheck.checks.verdicts import RULES, cohort, findings_of, verdict
from tests.testbed.collector import collect
from tests.testbed.require import require

pytestmark = [pytest.mark.root,
              pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to break a machine")]

PAGES = Path("/proc/sys/vm/nr_hugepages")
ONE = 2 << 20
UID = 23999         # no one's on this machine
_DETACH = 2


def look(*probes: Probe) -> Recording:
    """The healthy machine, of which these probes are read from this one."""
    seen = collect(probes, seconds=20)
    held = machine.recording()
    return replace(held, host=seen.host, captures={**held.captures, **seen.captures})


def judged(rule: str, now: Recording, earlier: Recording | None = None, **having: Any) -> Result:
    return verdict(rule, now, earlier, having={**RULES[rule].parameters, **having})


@contextmanager
def huge_pages(folder: Path, number: int) -> Iterator[Path]:
    """A hugetlbfs with so many pages of 2 MiB at least, which are given back."""
    require(PAGES.exists(), "this kernel has no huge pages")
    before = int(PAGES.read_text())
    PAGES.write_text(f"{before + number}\n")
    try:
        require(int(PAGES.read_text()) >= before + number,
                "this machine has no memory left in pieces of 2 MiB")
        mounted = subprocess.run(["mount", "-t", "hugetlbfs", "none", str(folder)], check=False)
        require(mounted.returncode == 0, "no hugetlbfs can be mounted on this machine")
        yield folder
    finally:
        ctypes.CDLL(None).umount2(os.fsencode(folder), _DETACH)
        PAGES.write_text(f"{before}\n")


def test_huge_pages_of_a_file_that_no_process_has_mapped_are_leaked_until_it_is_removed(
        tmp_path: Path) -> None:
    def leaked() -> Result:
        return judged("memory-hugepages-leaked", look(MEMORY, OWNERS), allow_mib=4)

    with huge_pages(tmp_path, 4) as folder:
        assert leaked().status is Status.PASS
        file = folder / "rtemap_0"
        with file.open("w+b") as opened:
            opened.truncate(4 * ONE)
            with mmap.mmap(opened.fileno(), 4 * ONE) as mapped:
                mapped[::ONE] = b"xxxx"
                assert leaked().status is Status.PASS      # this process has them
        result = leaked()
        assert ((result.status, findings_of(result).endswith("mapped by no process, expected at most 4 MiB"))
                == (Status.FAIL, True))
        file.unlink()
        assert leaked().status is Status.PASS
        # Reserved by a mapping that is gone, and never used.
        with (folder / "rtemap_1").open("w+b") as opened:
            opened.truncate(4 * ONE)
            mmap.mmap(opened.fileno(), 4 * ONE).close()
        assert "reserved, and no process has used any" in findings_of(leaked())


@contextmanager
def group(name: str) -> Iterator[Path]:
    """A control group with the CPU controller, of either version."""
    top = Path("/sys/fs/cgroup")
    path = (top / "cpu" if (top / "cpu").is_dir() else top) / name
    try:
        path.mkdir(parents=True)
    except OSError as error:
        require(False, f"no control group can be made on this machine: {error}")
    try:
        yield path
    finally:
        _end(path)
        for folder in (path, *list(path.parents)[:name.count("/")]):
            with suppress(OSError):
                folder.rmdir()


def _end(path: Path) -> None:
    """Ends what runs in the group, which then can be removed."""
    until = time.monotonic() + 5
    while numbers := (path / "cgroup.procs").read_text().split():
        for number in numbers:
            with suppress(ProcessLookupError):
                os.kill(int(number), signal.SIGKILL)
        if time.monotonic() > until:
            break
        time.sleep(0.01)


def _throttled(path: Path) -> int:
    lines = dict(line.split() for line in (path / "cpu.stat").read_text().splitlines())
    return int(lines.get("nr_throttled", 0))


def test_a_group_that_its_quota_stops_is_named_and_one_that_rests_is_not() -> None:
    with group("muster-quota") as path:
        if (path / "cpu.cfs_quota_us").exists():
            (path / "cpu.cfs_period_us").write_text("10000")
            (path / "cpu.cfs_quota_us").write_text("1000")
        else:
            require((path / "cpu.max").exists(),
                    "the CPU controller is not enabled at the top of the control groups")
            (path / "cpu.max").write_text("1000 10000")
        before = look(QUOTA)
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
            (path / "cgroup.procs").write_text(str(busy.pid))
            until = time.monotonic() + 20
            while _throttled(path) < 20 and time.monotonic() < until:
                time.sleep(0.02)
            busy.kill()
        now = look(QUOTA)
        result = judged("cpu-quota", now, before, least_periods=15)
        assert (result.status is Status.FAIL
                and "control group muster-quota: stopped by its quota in" in findings_of(result))
        later = judged("cpu-quota", look(QUOTA), now, least_periods=15)
        assert "muster-quota" not in findings_of(later)


# A parent that is called as Slurm's own is, and a child of a user.
_STEP = """\
import os, sys, time
open('/proc/self/comm', 'w').write('slurmstepd')
child = os.fork()
if not child:
    os.setuid(int(sys.argv[1]))
    os.execv(sys.argv[2], ['sleep', '60'])
print(child, flush=True)
time.sleep(60)
"""


def test_a_users_process_is_its_jobs_until_the_step_has_ended_and_is_then_left_behind() -> None:
    sleep = shutil.which("sleep")
    assert sleep is not None

    def left() -> str:
        result = judged("process-without-job", look(OWNERS), minutes=0)
        assert result.status in (Status.PASS, Status.FAIL), result.reason
        return "; ".join(str(found.observed) for found in result.findings if found.subject == f"user {UID}")

    with group(f"slurm/uid_{UID}/job_77") as path, subprocess.Popen(
            [sys.executable, "-c", _STEP, str(UID), sleep], stdout=subprocess.PIPE, text=True) as step:
        assert step.stdout is not None
        child = int(step.stdout.readline())
        (path / "cgroup.procs").write_text(str(child))
        assert left() == ""
        step.kill()
        step.wait()
        assert left().startswith(
            f"1 left: sleep ({child}); the oldest runs for 0.0 h, of Slurm job 77, which has ended")
        os.kill(child, signal.SIGKILL)


def test_the_clock_source_of_this_machine_is_read_and_the_odd_node_named() -> None:
    current, available = (Path(SOURCE,
                               "current_clocksource"), Path(SOURCE,
                                                            "available_clocksource").read_text().split())
    before = current.read_text().strip()
    others = [name for name in available if name != before]
    same = look(CLOCK_SOURCE)
    assert verdict("host-clock-source", same).status in (Status.PASS, Status.FAIL)
    require(bool(others), "this machine has one clock source")
    try:
        current.write_text(others[0])
        odd = look(CLOCK_SOURCE)
    finally:
        current.write_text(before)
    said = cohort("fleet-clock-source", same, same, same, odd)
    assert (said[3][1].startswith(f"clock source: {others[0]}, expected {before}, as on 3 of 4 nodes")
            or said[3][0] is Status.SKIPPED)
