"""What MPI launchers say of how processes ended. Files of openmpi-recorded are of Open MPI 4.1.4; PRRTE's
forms are those of openpmix/prrte."""

from __future__ import annotations

from pathlib import Path

import pytest

from healthcheck.joblog.model import JobEvent, JobEventKind
from healthcheck.model.outcome import Owner
from tests.healthcheck.explain.cases import first_line
from tests.healthcheck.joblog.told import CLOCK, culprit, log, told

RECORDED = Path(__file__).parents[2] / "recordings" / "blame" / "openmpi-recorded"


def events(text: str) -> list[JobEvent]:
    return [event for event in log(text).events if event.kind is not JobEventKind.SAID]


def recorded(name: str) -> str:
    return (RECORDED / f"{name}.log").read_text()


@pytest.mark.parametrize(("name", "kind", "rank", "node", "code"), [
    ("kill", JobEventKind.EXIT, 2, "gpu003", -9), ("exit", JobEventKind.EXIT, 1, "", 3),
    ("abort", JobEventKind.ABORT, 1, "", 7)])
def test_a_recorded_end_has_its_rank_node_and_signal_or_code(
    name: str, kind: JobEventKind, rank: int, node: str, code: int,
) -> None:
    (event,) = events(recorded(name))
    assert (event.kind, event.rank, event.node, event.code) == (kind, rank, node, code)


@pytest.mark.parametrize(("text", "kind", "rank", "node", "code"), [
    ("prterun noticed that process rank 3 with PID 2345 on node gpu003 exited on\nsignal 9 (Killed).\n",
     JobEventKind.EXIT, 3, "gpu003", -9),
    ("mpirun noticed that process rank 3 with PID 2345 on node\ngpu003 exited on signal 11 (Segmentation "
     "fault).\n", JobEventKind.EXIT, 3,
     "gpu003", -11),
    ("mpiexec noticed that process rank 0 with PID 0 on node gpu003.cluster exited on signal 6 (Aborted).\n",
     JobEventKind.EXIT, 0, "gpu003.cluster", -6),
    ("prterun detected that one or more processes exited with non-zero status,\nthus causing the job to be "
     "terminated. The first process to do so\n"
     "was:\n\n   Process name: [prterun-gpu01-4711@1,3]\n   Exit code:    1\n", JobEventKind.EXIT, 3, "", 1),
    ("MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD\n  Proc: [[1234,1],0]\n  Errorcode: 1\n",
     JobEventKind.ABORT, 0, "", 1),
    ("application called MPI_Abort(MPI_COMM_WORLD, 1) - process 5\n", JobEventKind.ABORT, 5, "", None),
    ("ORTE has lost communication with a remote daemon.\n\n  HNP daemon   : [[59124,0],0] on node gpu001\n  "
     "Remote daemon: [[59124,0],2] on node gpu003\n",
     JobEventKind.DAEMON, None, "gpu003", None),
    ("PRTE has lost communication with a remote daemon.\n\n  HNP daemon   : [prterun-gpu01-4711@0,0] on node "
     "gpu001\n"
     "  Remote daemon: [prterun-gpu01-4711@0,2] on node gpu003\n", JobEventKind.DAEMON, None, "gpu003", None),
    ("An ORTE daemon has unexpectedly failed after launch and before\ncommunicating back to mpirun.\n",
     JobEventKind.DAEMON_START, None, "", None),
    ("An PRTE daemon has unexpectedly failed after launch and before\ncommunicating back to mpirun.\n",
     JobEventKind.DAEMON_START, None, "", None),
    ("=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK 2 PID 4711 RUNNING AT gpu003\n=   "
     "KILLED BY SIGNAL: 9 (Killed)\n",
     JobEventKind.EXIT, 2, "gpu003", -9),
    ("=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 4711 RUNNING AT gpu003\n=   EXIT "
     "CODE: 139\n", JobEventKind.EXIT,
     None, "gpu003", 139),
])
def test_each_launchers_notice_is_read(
    text: str, kind: JobEventKind, rank: int | None, node: str, code: int | None,
) -> None:
    (event,) = events(f"{'-' * 74}\n{text}{'-' * 74}\n")
    assert (event.kind, event.rank, event.node, event.code) == (kind, rank, node, code)


@pytest.mark.parametrize(("name", "begins"), [
    ("kill", "gpu003, rank 2: A process was killed from outside (SIGKILL)"),
    ("exit", "rank 1: A process ended with an error"),
    ("abort", "rank 1: This rank gave up and ended the job by MPI_ABORT"),
    ("daemon", "mpirun could not start its daemons on all nodes"),
])
def test_a_recorded_abort_is_explained(name: str, begins: str) -> None:
    assert first_line(recorded(name).encode()).startswith(begins)


def test_a_daemon_that_was_lost_is_its_nodes_and_an_operators() -> None:
    first = culprit("ORTE has lost communication with a remote daemon.\n\n  HNP daemon   : [[5,0],0] on node "
                  "gpu001\n  Remote daemon: [[5,0],2] on node gpu003\n")
    assert (first.who.node, first.meaning.owner) == ("gpu003", Owner.OPERATOR)


def test_an_abort_is_what_an_error_before_it_led_to() -> None:
    text = ("[gpu003:1:0:1] ib_mlx5_log.c:143  Transport retry count exceeded on mlx5_0:1/IB (synd 0x15)\n"
            + recorded("abort"))
    assert [(charge.meaning.id, charge.symptom) for charge in told(text) if charge.wrong] == [
        ("ucx-retry", False), ("mpi-abort", True)]


def test_tags_of_mpirun_give_ranks_and_the_notice_their_node() -> None:
    text = recorded("kill") + "Mon Nov 23 04:38:55 2026[1,2]<stderr>:ValueError: x\n"
    found = [event for event in log(text).events if event.kind is JobEventKind.EXCEPTION]
    assert [(event.rank, event.node, event.time) for event in found] == [
        (2, "gpu003", CLOCK.at(2026, 11, 23, "04:38:55"))]


def test_what_a_program_says_of_an_abort_is_no_notice() -> None:
    assert not events("calling MPI_Abort soon\nexited with exit code 3\nnode gpu1 noticed that "
                      "process\nRUNNING AT full speed\n")
