"""No process of a burn-in outlives the head, the transport's lifeline, the agent or the nursery."""

from __future__ import annotations

import json
import os
import signal
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.healthcheck.burnin.workers import Nodes
from tests.testbed import badgpu, torches
from tests.testbed.processes import alive

SEATS = [("x", 0), ("x", 1)]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """One whose rank 1 is stopped in iteration 3, so that it can end nothing by itself, it least of all."""
    plan = tmp_path_factory.mktemp("badgpu") / "plan.json"
    plan.write_text(json.dumps([{"fault": "stopped", "gpu": 1, "iteration": 3}]))
    return [torches.python(), badgpu.__file__, str(plan)]


def family(pid: int) -> list[int]:
    """All descendants of a process."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[1]) == pid:
            child = int(path.parent.name)
            found += [child, *family(child)]
    return found


def eventually(held: Callable[[], bool], seconds: float = 20) -> bool:
    end = time.monotonic() + seconds
    while not held() and time.monotonic() < end:
        time.sleep(0.02)
    return held()


@pytest.fixture
def busy(python: list[str]) -> Iterator[tuple[Nodes, list[int]]]:
    """A node with a rank in a collective and a stopped one, and all processes of its agent."""
    with Nodes(["x"], python) as nodes:
        task = nodes.begin("allreduce", SEATS, bytes=4096, run_s=60)
        nodes.follow(task, 2, until=lambda came: {row["state"] for row in came.rows if row["rank"] == 1
                                                  and row["iteration"] == 3} == {"T"})
        pids = family(nodes.agents["x"].pid)
        assert len(pids) == 3
        yield nodes, pids
        for pid in filter(alive, pids):
            os.kill(pid, signal.SIGKILL)


def head_gone(nodes: Nodes) -> None:
    nodes.hang_up()


def lifeline_cut(nodes: Nodes) -> None:
    pipe = nodes.agents["x"].stdin
    assert pipe is not None
    pipe.close()


def lifeline_cut_with_the_nursery_stopped(nodes: Nodes) -> None:
    os.kill(family(nodes.agents["x"].pid)[0], signal.SIGSTOP)
    for _ in range(2000):       # more than a pipe holds
        nodes.tell_all({"go": "no such task" + 100 * "."})
    lifeline_cut(nodes)


def agent_killed(nodes: Nodes) -> None:
    nodes.agents["x"].kill()


def told_to_leave(nodes: Nodes) -> None:
    nodes.tell_all({"leave": True})


@pytest.mark.parametrize("end",
                         [*(pytest.param(end, marks=pytest.mark.slow)
                            for end in (head_gone, lifeline_cut, told_to_leave, agent_killed)),
                          lifeline_cut_with_the_nursery_stopped])
def test_nothing_is_left(busy: tuple[Nodes, list[int]], end: Callable[[Nodes], None]) -> None:
    nodes, pids = busy
    end(nodes)
    nodes.agents["x"].wait(20)
    assert eventually(lambda: not any(map(alive, pids)))


def test_a_nursery_that_dies_takes_its_ranks_along_and_the_agent_says_why_it_leaves(
    busy: tuple[Nodes, list[int]],
) -> None:
    nodes, pids = busy
    os.kill(pids[0], signal.SIGKILL)
    assert nodes.agents["x"].wait(20) == 0
    assert eventually(lambda: not any(map(alive, pids)))
    output = nodes.agents["x"].stdout
    assert output is not None
    assert json.loads(zlib.decompress(output.read().rpartition(b"\nmuster:")[2].partition(b"\n")[2])) == {
        "node": "x", "left": f"{torches.python()} ended with -9, and printed nothing"}
