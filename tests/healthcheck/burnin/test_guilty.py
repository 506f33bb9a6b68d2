"""Four real gloo ranks on two nodes: of every fault only the guilty is named, and in time."""

from __future__ import annotations

import contextlib
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from healthcheck.burnin import faults
from healthcheck.burnin.model import (
    Accusation,
    BurnInStage,
    Object,
    RankEnd,
    Seat,
    Task,
    TaskKind,
    TaskResult,
)
from healthcheck.burnin.watch import Patience
from inventory.model import BurnInSettings
from inventory.transport.remote import RemoteTransport
from provisioning.burnin.conductor import Conductor
from tests.healthcheck.burnin.workers import FaultyGpus, under_way
from tests.testbed import torches
from tests.testbed.collector import MARK, await_none_with, processes_with
from tests.testbed.require import require
from tests.testbed.sshd import SSHD, sshd, wait_until

BAD = "n1:1"


class Bed(FaultyGpus):
    def __init__(self, conductor: Conductor, plan: Path, nodes: int, gpus: int) -> None:
        super().__init__(conductor, plan)
        self.seats = tuple(Seat(f"n{node}", gpu) for node in range(nodes) for gpu in range(gpus))

    def reduced(self, fault: str = "", *, seats: tuple[Seat, ...] = (), seconds: float = 60,
                iteration: int = 5, row: Any = None, **params: Any) -> TaskResult:
        """What comes of an all-reduce in which one GPU has this fault."""
        node, _, gpu = BAD.partition(":")
        whole = {"fault": fault, "node": node, "gpu": int(gpu), "iteration": iteration, **(row or {})}
        rows = [{name: value for name, value in whole.items() if value is not None}] if fault else []
        result = self.result(rows, seats or self.seats,
                             {"bytes": 65536, "iterations": 20, "checks": 0, **params},
                             seconds=seconds)
        print(f"{fault or 'sound'}: {result.ended - result.began:.1f} s, named after {result.named_after}: "
              f"{result.accusations}")
        return result


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    with under_way(tmp_path_factory.mktemp("guilty"), patience=Patience(join=6)) as there:
        yield Bed(*there, nodes=2, gpus=2)


def only(result: TaskResult) -> Accusation:
    assert len(result.accusations) == 1, result.accusations
    return result.accusations[0]


def named(result: TaskResult) -> tuple[str, str]:
    """Who is accused of what, where exactly one is."""
    assert result.named_after is not None
    return only(result).name, only(result).fault


def test_without_a_fault_no_one_is_accused_and_every_rank_has_verified_every_iteration(bed: Bed) -> None:
    result = bed.reduced()
    assert result.whole and not result.accusations and result.named_after is None
    assert {report.figures["verified"] for report in result.reports} == {20}


def test_a_killed_rank_is_named_and_not_those_that_fail_after_it(bed: Bed) -> None:
    result = bed.reduced("killed")
    assert named(result) == (BAD, faults.DEAD)
    assert "SIGKILL" in only(result).why and "iteration 5" in only(result).why
    assert result.named_after is not None and result.named_after < 3
    ends = {str(report.seat): report.end for report in result.reports}
    assert ends.pop(BAD) is RankEnd.SIGNAL
    assert set(ends.values()) <= {RankEnd.RAISED, RankEnd.CALLED_OFF}


def test_a_stopped_rank_is_named_by_its_process_state(bed: Bed) -> None:
    result = bed.reduced("stopped")
    assert named(result) == (BAD, faults.STOPPED)
    assert "state T" in only(result).why
    assert result.named_after is not None and 1.5 <= result.named_after < 6


def test_a_rank_that_lives_and_hangs_is_named_by_its_progress(bed: Bed) -> None:
    result = bed.reduced("hung")
    assert named(result) == (BAD, faults.HUNG)
    assert "alive" in only(result).why and "compute of iteration 5" in only(result).why
    assert result.named_after is not None and 5 <= result.named_after < 12


def test_a_rank_that_never_comes_is_named_by_the_roll_call(bed: Bed) -> None:
    result = bed.reduced("never", iteration=0)
    assert named(result) == (BAD, faults.ABSENT)
    assert {report.end for report in result.reports if str(report.seat) != BAD} == {RankEnd.CALLED_OFF}
    assert result.named_after is not None and 6 <= result.named_after < 12


def test_a_slow_rank_is_named_by_who_waits_for_whom(bed: Bed) -> None:
    result = bed.reduced("slow", iteration=0, row={"seconds": 0.2}, iterations=12)
    assert result.whole
    assert named(result) == (BAD, faults.SLOW_COMPUTE)


def test_a_rank_that_was_stopped_and_continued_does_its_work_to_the_end(bed: Bed) -> None:
    result = bed.reduced("paused")
    assert result.whole and not result.accusations


def test_ranks_in_step_that_are_merely_slow_are_slow_and_none_is_hung(bed: Bed) -> None:
    result = bed.reduced("slow", row={"seconds": 0.1, "node": None, "gpu": None}, seconds=5, iterations=200)
    assert not result.whole
    assert (only(result).object, only(result).fault) == (Object.UNEXPLAINED, faults.SLOW)
    assert "not done after the task's 5 s, and it went on" in only(result).why


@pytest.mark.parametrize(("fault", "every", "words"), [
    ("flip", True, "its own elements were wrong"),
    pytest.param("receive", False, "it alone found wrong elements", marks=pytest.mark.slow),
    pytest.param("buffer", False, "its own input was wrong", marks=pytest.mark.slow),
])
def test_wrong_data_names_the_gpu_that_made_it(bed: Bed, fault: str, every: bool, words: str) -> None:
    result = bed.reduced(fault, row={"every": every})
    assert result.whole
    assert named(result) == (BAD, faults.WRONG_DATA)
    assert words in only(result).why


@pytest.mark.slow
def test_what_was_wrong_once_as_it_was_sent_has_many_explanations_and_names_no_gpu(bed: Bed) -> None:
    accusation = only(bed.reduced("flip"))
    assert accusation.object is Object.UNEXPLAINED and BAD in accusation.why
    node = tuple(seat for seat in bed.seats if seat.node == "n1")
    accusation = only(bed.reduced("flip", seats=node))
    assert (accusation.object, accusation.name) == (Object.NODE, "n1") and BAD in accusation.why


@pytest.mark.parametrize(("fault", "blamed", "words"), [
    pytest.param("raises", faults.RAISED, "illegal memory access", marks=pytest.mark.slow),
    ("exits", faults.DEAD, "exit 3"),
])
def test_a_rank_that_fails_by_itself_is_named_and_not_those_that_notice(
    bed: Bed, fault: str, blamed: str, words: str,
) -> None:
    result = bed.reduced(fault)
    assert named(result) == (BAD, blamed)
    assert words in only(result).why


def test_ranks_of_a_node_that_all_die_are_that_node(bed: Bed) -> None:
    bed.plan.write_text(json.dumps([{"fault": "killed", "node": "n1", "iteration": 5}]))
    (result,) = bed.conductor.run([Task("node", BurnInStage.ALL, TaskKind.ALLREDUCE, bed.seats, 60,
                                        {"bytes": 65536, "iterations": 20, "checks": 0})])
    assert named(result) == ("n1", faults.DEAD)
    assert only(result).object is Object.NODE


def test_tasks_on_disjoint_seats_run_at_the_same_time_and_a_fault_in_one_is_none_of_the_other(
    bed: Bed,
) -> None:
    bed.plan.write_text(json.dumps([{"fault": "killed", "node": "n1", "gpu": 1, "iteration": 5}]))
    pairs = [Task(f"pair{pair}", BurnInStage.LEAF_PAIRS, TaskKind.ALLREDUCE,
                  tuple(Seat(f"n{node}", pair) for node in (0, 1)), 60,
                  {"bytes": 65536, "iterations": 20, "checks": 0}) for pair in range(2)]
    results = {result.task.id: result for result in bed.conductor.run(pairs)}
    assert [result.whole for _, result in sorted(results.items())] == [True, False]
    assert named(results["pair1"]) == (BAD, faults.DEAD)
    assert not any(result.accusations for name, result in results.items() if name != "pair1")


@pytest.mark.slow
def test_work_of_single_ranks_names_the_gpu_that_multiplies_wrongly(bed: Bed) -> None:
    bed.plan.write_text(json.dumps([{"fault": "product", "node": "n1", "gpu": 1, "iteration": 1}]))
    (result,) = bed.conductor.run(
        [Task("known", BurnInStage.NODE, TaskKind.KNOWN, bed.seats, 60, {"n": 64, "repeats": 3})])
    assert named(result) == (BAD, faults.WRONG_DATA)


# The head and its nodes

ALONE = """
    import sys
    from provisioning.burnin.conductor import Conductor
    from healthcheck.burnin.model import TaskKind, Seat, BurnInStage, Task
    from inventory.model import BurnInSettings, Node
    from inventory.transport.local import LocalTransport

    seconds, *python = sys.argv[1:]
    node = Node("n0", python=sys.executable, burnin=BurnInSettings(tuple(python)))
    with Conductor(LocalTransport(), [node]) as conductor:
        assert conductor.ready(100).whole
        seats = tuple(Seat("n0", gpu) for gpu in range(2))
        params = {"bytes": 65536, "run_s": float(seconds)}
        task = Task("t", BurnInStage.SOAK, TaskKind.ALLREDUCE, seats, 300, params)
        (result,) = conductor.run([task])
        assert result.whole, result
"""


def conducts(seconds: float, *python: str, **more: str) -> subprocess.Popen[bytes]:
    """A process that conducts a burn-in of two ranks."""
    words = [sys.executable, "-c", textwrap.dedent(ALONE), str(seconds), *python]
    root = Path(__file__).resolve().parents[3]
    return subprocess.Popen(words, cwd=root, env={**os.environ, **more, "PYTHONPATH": str(root)},
                            stdin=subprocess.DEVNULL)


def test_when_the_head_is_killed_the_ranks_end_by_themselves_and_a_second_run_starts_clean() -> None:
    mark = secrets.token_hex(8)
    head = conducts(200, torches.python(), **{MARK: mark})
    try:
        wait_until(lambda: len(processes_with(mark)) >= 5 or head.poll() is not None, 60,
                   "head, agent, nursery and two ranks")
        assert head.poll() is None
    finally:
        head.kill()
        head.wait()
    began = time.monotonic()
    await_none_with(mark, 10)
    print(f"the last rank was gone {time.monotonic() - began:.1f} s after the head")
    again = secrets.token_hex(8)
    assert conducts(0.2, *torches.forked(), **{MARK: again}).wait(100) == 0
    await_none_with(again, 10)


def test_over_ssh_a_node_that_goes_away_is_named_and_nothing_is_left_on_either(tmp_path: Path) -> None:
    require(SSHD, "no sshd on this machine: apt-get install -y openssh-server")
    mark = secrets.token_hex(8)
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/sh\nexport {MARK}={mark}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)

    def kill_an_agent() -> None:
        wait_until(lambda: len(processes_with(mark)) >= 6, 60, "two agents, two nurseries and two ranks")
        for pid in processes_with(mark):
            with contextlib.suppress(OSError):      # one may have ended
                if b"node=n1" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                    os.kill(pid, signal.SIGKILL)

    with sshd(tmp_path / "sshd") as server:
        transport = RemoteTransport()
        pair = [server.node(name, python=str(python), burnin=BurnInSettings((torches.python(),)))
                for name in ("n0", "n1")]
        with Conductor(transport, pair) as conductor:
            ready_nodes = conductor.ready(100)
            assert ready_nodes.whole, ready_nodes.missing
            killer = threading.Thread(target=kill_an_agent)
            killer.start()
            seats = tuple(Seat(node.name, 0) for node in pair)
            (result,) = conductor.run(
                [Task("t", BurnInStage.ALL, TaskKind.ALLREDUCE, seats, 100, {"bytes": 65536, "run_s": 60.0})])
            killer.join()
            assert named(result) == ("n1", faults.LOST)
            assert {report.end for report in result.reports if report.seat.node == "n1"} == {RankEnd.LOST}
            assert result.named_after is not None and result.named_after < 5
            assert set(conductor.ready(0).missing) == {"n1"}
        transport.close()
        await_none_with(mark, 10)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("planting", range(20))
def test_wherever_and_whenever_a_rank_is_stopped_and_continued_no_one_is_accused(
    bed: Bed, planting: int,
) -> None:
    chance = random.Random(planting)
    where = {"node": f"n{chance.randrange(2)}", "gpu": chance.randrange(2),
             "seconds": chance.uniform(0.05, 1.2)}
    result = bed.reduced("paused", row=where, iteration=chance.randrange(20))
    assert result.whole and not result.accusations


# 64 ranks

@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    with under_way(tmp_path_factory.mktemp("large"), 8, Patience(join=60), ready_s=300) as there:
        yield Bed(*there, nodes=8, gpus=8)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("fault", "blamed"), [
    ("", ""), ("killed", faults.DEAD), ("stopped", faults.STOPPED), ("hung", faults.HUNG),
    ("never", faults.ABSENT), ("slow", faults.SLOW_COMPUTE),
    ("receive", faults.WRONG_DATA), ("buffer", faults.WRONG_DATA),
])
def test_of_64_ranks_the_guilty_is_named(large: Bed, fault: str, blamed: str) -> None:
    result = large.reduced(fault, seconds=200, iteration=0 if fault in ("never", "slow") else 3,
                           row={"seconds": 1.0}, iterations=8)
    assert named(result) == (BAD, blamed) if fault else not result.accusations
