"""Worker processes: the results do not depend on their number, and one that dies costs its items only."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from healthcheck.sweep.workers import WorkerDied, distribute
from inventory.errors import UsageError
from tests.testbed.sshd import wait_until

ITEMS = list(range(200))


def double(item: int) -> int:
    return 2 * item


@pytest.mark.parametrize("jobs", [1, 2, 300])
@pytest.mark.parametrize("number", [0, 1, 16, 17, 60])
def test_every_item_is_worked_on_once_in_any_number_of_processes(jobs: int, number: int) -> None:
    items = ITEMS[:number]
    assert sorted(distribute(double, items, jobs)) == [2 * item for item in items]  # type: ignore[type-var]


def test_a_few_items_are_worked_on_in_this_process() -> None:
    assert set(distribute(lambda _: os.getpid(), ITEMS[:16], 8)) == {os.getpid()}
    assert os.getpid() not in set(distribute(lambda _: os.getpid(), ITEMS, 2))


@pytest.mark.parametrize(("end", "how"), [(lambda: os.kill(os.getpid(), signal.SIGKILL), "by signal 9"),
                                          (lambda: os._exit(3), "with exit status 3")])
def test_a_process_that_dies_costs_the_items_that_it_had_and_the_others_go_on(end: object, how: str) -> None:
    def fragile(item: int) -> int:
        if item == 100:
            end()  # type: ignore[operator]
        return item

    done = list(distribute(fragile, ITEMS, 2))
    dead = [one for one in done if isinstance(one, WorkerDied)]
    assert {one.how for one in dead} == {how} and 100 in {one.item for one in dead} and len(dead) <= 16
    assert sorted([one for one in done if isinstance(one, int)] + [one.item for one in dead]) == ITEMS


def test_processes_that_all_die_end_the_work() -> None:
    done = list(distribute(lambda _: os._exit(1), ITEMS[:60], 3))
    assert len(done) == 60 and all(isinstance(one, WorkerDied) for one in done)


def test_what_the_work_raises_is_raised_here_and_ends_all_processes() -> None:
    def refuses(item: int) -> int:
        if item == 150:
            raise UsageError("nodes/gpu150.json: not JSON")
        return item

    with pytest.raises(UsageError, match=r"nodes/gpu150.json: not JSON"):
        list(distribute(refuses, ITEMS, 3))


OWNER = """
import os, sys, time
from healthcheck.sweep.workers import distribute
def slow(item):
    os.write(1, f"{os.getpid()}\\n".encode())
    time.sleep(0.2)
    return item
list(distribute(slow, list(range(1000)), 3))
"""


def test_no_process_outlives_the_one_that_asked_however_that_ends() -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], cwd=Path(__file__).parents[3],
                          stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pids: set[int] = set()
        while len(pids) < 3:
            pids.add(int(owner.stdout.readline()))
        fds = [os.pidfd_open(pid) for pid in pids]
        owner.kill()
        for fd in fds:
            wait_until(lambda fd=fd: _ended(fd), what="the end of the workers")  # type: ignore[misc]
            os.close(fd)


def _ended(fd: int) -> bool:
    return bool(select.select([fd], [], [], 0)[0])
