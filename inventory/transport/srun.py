"""Starts the program on nodes through Slurm: one allocation of each whole node,
with one step of one task in it.

By salloc(1) and srun(1) of Slurm 22.05, and tested on it: `srun --exclusive` alone would give its step one
CPU (it implies --exact), so the allocation is salloc's and the step, with --overlap, has all CPUs and GPUs of
it. srun hands its standard input to task 0, byte for byte, and its end of file too, which is the lifeline. A
killed (-9) srun does not, so we send SIGTERM where we can. What is still left of a run is cancelled: only its
own jobs, which have its identifier as their comment.

On a node where a job of ours already holds the reservation,
the program runs as a step of that job (srun --jobid --overlap).
"""

from __future__ import annotations

import math
import os
import secrets
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from inventory.discover import Run, output
from inventory.errors import InventoryError, MusterError
from inventory.model import Node
from inventory.nodeset import expand
from inventory.transport.base import Failure, Limits, Program, Reply, Stage
from inventory.transport.frame import shell_command
from inventory.transport.pipes import OutputHandler, converse, spawn
from inventory.transport.session import Dialogue, last_line
from inventory.transport.watch import NodeJob, TaskFailed, Watchdog, fan_out

# squeue(1): %A is the job's number, %T its state, %v its reservation, %k its comment and %N its nodes.
SQUEUE = ("squeue", "--noheader", "--format=%A|%T|%v|%k|%N")
SINFO = ("sinfo", "--all", "--noheader", "--Node", "--format=%N|%P")
# Variables that would override the command line of salloc or srun.
_FOREIGN_PREFIXES = ("SLURM_", "SALLOC_", "SBATCH_", "NCCL_", "TORCH_")
_KEPT_VARIABLES = ("SLURM_CONF", "SLURM_CONF_SERVER")
_STDERR_BYTES = 4096
_WAITS = 6
_END_S = 5.0        # for a program after its lifeline closed
_CANCEL_S = 15.0    # for one after SIGTERM


class SrunTransport:
    """`Transport` through this machine's cluster, in `reservation` if any. A node must be free: we wait six
    times `Limits.connect_s`, as the epilog of our last job may take long."""

    def __init__(self, reservation: str | None = None, run: Run | None = None) -> None:
        self._reservation = reservation
        self._ask = run

    def run(self, nodes: Iterable[Node], program: Program, limits: Limits) -> Iterator[Reply]:
        """See `Transport.run`. No job of ours is left. Raises UsageError without Slurm's partitions."""
        nodes = tuple(nodes)
        partitions = partitions_of(self._ask)
        queued = jobs_of(self._reservation, self._ask) if self._reservation is not None else []
        running = {node: one.number for one in queued if one.running and one.reservation == self._reservation
                   for node in one.nodes}
        sweep = _Sweep(program, limits, self._reservation, partitions, running)
        try:
            # What does not start is in Slurm's queue, and its order is Slurm's.
            yield from fan_out(nodes, replace(limits, twice=False), sweep.visit, Watchdog())
        finally:
            sweep.close(self._ask)


class _Sweep:
    def __init__(
        self, program: Program, limits: Limits, reservation: str | None, partitions: Mapping[str, str],
        jobs: Mapping[str, str],
    ) -> None:
        self._program = program
        self._limits = limits
        self._reservation = reservation
        self._partitions = partitions
        self._comment = secrets.token_hex(8)       # marks this run's own jobs among those of the same name
        self._jobs = jobs       # our job that is already on a node
        # Checks for jobs on leased nodes recognise ours by the lease's name, which is also the reservation's.
        self._name = reservation if reservation is not None else f"muster-{program.nonce}"
        self._environment = {key: value for key, value in os.environ.items() if key in _KEPT_VARIABLES
                             or not key.startswith(_FOREIGN_PREFIXES)}
        self._lock = threading.Lock()
        self._started: list[subprocess.Popen[bytes]] = []

    def visit(self, job: NodeJob) -> bytes | Failure:
        """The answer of one node; raises TaskFailed or Expired."""
        node = job.node
        job.attempts = 1
        if shutil.which("salloc") is None:
            raise TaskFailed(Stage.HEAD, "salloc was not found: run this where Slurm's commands are")
        if node.name not in self._partitions:
            raise TaskFailed(Stage.RESOLVE, "sinfo lists it in no partition; see: sinfo --all -N")
        limits = self._limits.of(node)
        dialogue = Dialogue(self._program.of(node.name), limits, python=node.python, become=node.become)
        handler = _SlurmOutput(dialogue, _end_mark(self._program))
        job.task.step(_wait_s(limits) + limits.login_s, handler.overdue)
        try:
            process = spawn(self.argv(node), self._environment)
        except OSError as error:
            raise TaskFailed(Stage.HEAD,
                             f"cannot run salloc: {error.strerror}; try a smaller --fanout?") from None
        with self._lock:
            self._started.append(process)
        try:
            converse(job, dialogue, process, limits, handler)
        finally:
            _close(process)
            if dialogue.body is None:
                with suppress(RuntimeError):    # no free thread: `close` ends it
                    threading.Thread(target=_end, args=(process,), name="muster-srun-end",
                                     daemon=True).start()
        if dialogue.failure is not None:
            return dialogue.failure
        assert dialogue.body is not None  # noqa: S101  (narrowing: once over, it has one or the other)
        return dialogue.body

    def argv(self, node: Node) -> list[str]:
        """The command for one node."""
        limits = self._limits.of(node)
        within = [f"--reservation={self._reservation}"] if self._reservation is not None else []
        command = shell_command(self._program, node.python, become=node.become,
                                words=self._program.arguments(node))
        where = [f"--nodelist={node.name}", f"--immediate={math.ceil(_wait_s(limits))}", "--chdir=/"]
        job = self._jobs.get(node.name)
        started = ["srun", f"--jobid={job}", *where] if job is not None else [
            "salloc", "--quiet", f"--job-name={self._name}", f"--comment={self._comment}", *within,
            f"--partition={self._partitions[node.name]}", "--nodes=1", *where, "--exclusive", "--mem=0",
            f"--time={math.ceil((limits.node_s + limits.login_s) / 60) + 1}", "srun"]
        return [
            *started, "--quiet", "--overlap", "--nodes=1", "--ntasks=1", "--input=all", "--output=all",
            "--error=all", "--mpi=none", "--cpu-bind=quiet,none", "--propagate=NONE", "--kill-on-bad-exit=0",
            "/bin/sh", "-c", f"({command}); s=$?; echo {_end_mark(self._program)} >&2; exit $s",
        ]

    def close(self, run: Run | None) -> None:
        """Waits until all has ended; cancels what does not."""
        end = time.monotonic() + _END_S
        with self._lock:
            started = list(self._started)
        for process in started:
            _close(process)
        for process in started:
            _wait(process, end - time.monotonic())
        left = [process for process in started if process.poll() is None or process.returncode < 0]
        if not left:
            return
        # A step in a lasting job ends through its srun;
        # jobs of that name may belong to another run of the same lease.
        for process in left:
            _terminate(process)
        with suppress(MusterError):
            ours = [one.number for one in jobs_of(self._name, run) if one.comment == self._comment]
            if ours:
                output(("scancel", "--quiet", *ours), run)
        end = time.monotonic() + _CANCEL_S
        for process in left:
            _wait(process, end - time.monotonic())


def _end_mark(program: Program) -> str:
    """What our shell on the node writes as it ends. salloc ends with 0 where its srun was killed, so that the
    status alone does not tell."""
    return f"muster:{program.nonce}:ended"


def _wait_s(limits: Limits) -> float:
    """How long to wait for a free node."""
    return max(1.0, _WAITS * limits.connect_s)


class _SlurmOutput(OutputHandler):
    """Before the program's output, messages are Slurm's: no allocation, or a node that does not answer."""

    def __init__(self, dialogue: Dialogue, end_mark: str) -> None:
        super().__init__(dialogue)
        self._end_mark = f"{end_mark}\n".encode()
        self._shell_ended = False
        self._stderr = b""

    def errors(self, data: bytes) -> None:
        self._stderr = (self._stderr + data)[-_STDERR_BYTES:]
        self._shell_ended = self._shell_ended or self._end_mark in self._stderr
        self._stderr = self._stderr.replace(self._end_mark, b"")
        super().errors(data.replace(self._end_mark, b""))

    def ended(self, exit_status: int | None) -> None:
        if exit_status is not None and exit_status <= 0 and not self._shell_ended:
            who = "srun" if not exit_status else f"Slurm's command (signal {-exit_status})"
            began = "before it had started our program" if self.dialogue.stage is Stage.LOGIN else (
                "while our program ran")
            raise TaskFailed(Stage.HEAD, f"{who} was killed here {began}")
        if self.dialogue.stage is Stage.LOGIN:
            raise TaskFailed(Stage.CONNECT, "Slurm did not start our program: "
                                            f"{last_line(self._stderr) or f'exit {exit_status}'}")
        super().ended(exit_status)

    def overdue(self, seconds: float) -> Failure:
        """The failure when the time is over."""
        if self.dialogue.stage is not Stage.LOGIN:
            return self.dialogue.timed_out(seconds)
        said = last_line(self._stderr)
        return Failure(Stage.CONNECT, f"Slurm has not started our program after {seconds:.3g} "
                                      f"s{f': {said}' if said else ''}")


@dataclass(frozen=True)
class QueuedJob:
    """A job of ours that is in the queue."""

    number: str
    running: bool
    reservation: str
    comment: str
    nodes: tuple[str, ...]


def jobs_of(name: str, run: Run | None) -> list[QueuedJob]:
    """The queued jobs of this name; unreadable lines are not ours. Raises UsageError without an answer."""
    found = []
    for line in output((*SQUEUE, f"--name={name}"), run).decode("utf-8", "backslashreplace").splitlines():
        number, state, reservation, comment, nodes = (line.strip().split("|") + [""] * 5)[:5]
        if number.isdigit():
            with suppress(InventoryError):
                found.append(QueuedJob(number, state == "RUNNING", reservation, comment,
                                       tuple(expand(nodes)) if nodes else ()))
    return found


def partitions_of(run: Run | None) -> dict[str, str]:
    """A partition for each node: the cluster's default one (*), else the first in which it is."""
    found: dict[str, str] = {}
    for line in output(SINFO, run).decode("utf-8", "backslashreplace").splitlines():
        node, bar, partition = line.strip().partition("|")
        if bar and (node not in found or partition.endswith("*")):
            found[node] = partition.rstrip("*")
    return found


def _close(process: subprocess.Popen[bytes]) -> None:
    """Closes the lifeline, at once."""
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends an abandoned program: by its input's end, then by SIGTERM, at which salloc lets go."""
    _wait(process, _END_S)
    if process.poll() is None:
        _terminate(process)
        _wait(process, _CANCEL_S)


def _terminate(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    with suppress(subprocess.TimeoutExpired):
        process.wait(max(0.0, seconds))
