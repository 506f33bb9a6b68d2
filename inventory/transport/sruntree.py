"""Sweeps through Slurm: one `srun --no-allocate` starts the program on many nodes, busy and drained ones too.

By srun(1) of Slurm 22.05, and tested on it. Such a step has no job: slurmctld is not asked, and only root
and SlurmUser may start one. srun's launch goes through its tree of slurmds; each node's output comes back
over a connection of its own, labelled with the number of its task. A slurmd that is dead costs the others
nothing: they have started and answer while srun still tries (10 s where the connection is refused, 20 s where
nothing answers). What srun does not reach goes over SSH in the same sweep, as soon as that is known.

On the node `sruntask` runs the program; its lifeline is a connection back to us, because srun hands on no end
of input and, without a job, kills nothing.
"""

from __future__ import annotations

import os
import queue
import resource
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from inventory.discover import Run
from inventory.model import Node
from inventory.nodeset import fold
from inventory.transport.base import Failure, Halt, Limits, Program, Reply, Stage, Transport
from inventory.transport.hung import HungLogins
from inventory.transport.lifelines import Lifelines
from inventory.transport.remote import RemoteTransport
from inventory.transport.session import one_line
from inventory.transport.srunaccess import elsewhere, nodes_of_slurm, require_srun
from inventory.transport.srunstep import SrunStep

PER_STEP = 256          # nodes of one srun; one connection each, in srun and here
AT_ONCE = 8             # sruns
_SPARE_FILES = 256      # for SSH, files and pipes


class SlurmTransport:
    """`Transport` for sweeps: through srun where a slurmd answers, elsewhere over what `ssh` makes. `ways`
    has the reason for each node without srun, `summary` in words. With `every` (seconds between sweeps) nodes
    whose last login over SSH hung are left alone there."""

    def __init__(
        self, run: Run | None = None, ssh: Callable[[], Transport] | None = None, every: float | None = None,
    ) -> None:
        hung = None if every is None else HungLogins(every)
        self._ask = run
        self._ssh = ssh or (lambda: RemoteTransport(hung=hung))
        self.ways: dict[str, str] = {}
        self.through_srun: set[str] = set()

    def run(self, nodes: Iterable[Node], program: Program, limits: Limits) -> Iterator[Reply]:
        """See `Transport.run`. Raises UsageError where this user may not, or srun is not here."""
        require_srun(self._ask)
        self.ways, self.through_srun = {}, set()
        sweep = _TreeSweep(tuple(nodes), program, limits, self._ssh)
        try:
            yield from sweep.replies(elsewhere(nodes_of_slurm(self._ask)))
        finally:
            self.ways, self.through_srun = sweep.ways, sweep.through_srun
            sweep.close()

    def summary(self) -> list[str]:
        """Which way the nodes of the last run went, in a few lines."""
        lines = [f"through srun: {fold(sorted(self.through_srun)) or 'no node'}"]
        reasons: dict[str, list[str]] = {}
        for name, why in self.ways.items():
            reasons.setdefault(why, []).append(name)
        return lines + [f"over SSH, as {why}: {fold(sorted(names))}"
                        for why, names in sorted(reasons.items())]


def _room() -> tuple[int, int]:
    """How many sruns at once, and nodes of each: as our open files allow, of which each node takes one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = AT_ONCE * PER_STEP + _SPARE_FILES
    if soft == resource.RLIM_INFINITY:
        return AT_ONCE, PER_STEP
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    at_once = max(1, min(AT_ONCE, (soft - _SPARE_FILES) // PER_STEP))
    return at_once, max(1, min(PER_STEP, (soft - _SPARE_FILES) // at_once))


class _TreeSweep:
    def __init__(self, nodes: tuple[Node, ...], program: Program, limits: Limits,
                 ssh: Callable[[], Transport]) -> None:
        self._nodes = nodes
        self._program = program
        self._limits = limits
        self._ssh = ssh
        self._end = time.monotonic() + limits.sweep_s
        self._queue: queue.SimpleQueue[Reply | None] = queue.SimpleQueue()
        self._halt = Halt()
        self._over = threading.Event()
        self._lifelines: Lifelines | None = None
        at_once, self._per_step = _room()
        self._steps = threading.Semaphore(at_once)
        self.ways: dict[str, str] = {}
        self.through_srun: set[str] = set()

    def replies(self, elsewhere: Callable[[str], str]) -> Iterator[Reply]:
        """One reply for each node, in time."""
        waiting = {node.name: node for node in self._nodes}
        if self._limits.halt is not None:
            self._limits.halt.follow(self.close)
        aside: dict[str, list[Node]] = {}
        groups: dict[tuple[str, ...], list[Node]] = {}
        for node in self._nodes:
            why = ("the program has parts of its own for it" if node.name in self._program.own
                   else elsewhere(node.name))
            if why:
                aside.setdefault(why, []).append(node)
            else:
                groups.setdefault(self._command(node), []).append(node)
        try:
            self._lifelines = Lifelines() if groups else None
        except OSError as error:
            why = f"this machine has no free port for lifelines ({error.strerror})"
            aside.setdefault(why, []).extend(node for group in groups.values() for node in group)
            groups = {}
        for why, nodes in aside.items():
            self.hand_over(nodes, why)
        for group in groups.values():
            for at in range(0, len(group), self._per_step):
                threading.Thread(target=self._step, args=(group[at:at + self._per_step],), name="muster-srun",
                                 daemon=True).start()
        while waiting:
            try:
                reply = self._queue.get(timeout=max(0.0, self._end + 1.0 - time.monotonic()))
            except queue.Empty:
                reply = None
            if reply is None:
                break
            if waiting.pop(reply.node, None) is not None:
                yield reply
        now = time.time()
        for name in waiting:
            begun = name in self.through_srun or name in self.ways
            what = ("the run was stopped" if time.monotonic() < self._end
                    else f"the sweep's {self._limits.sweep_s:g} s were over")
            yield Reply(name, None, Failure(Stage.DEADLINE if begun else Stage.TURN,
                                            f"{what} before it had answered; allow more time (--timeout)"),
                        now, now, attempts=int(begun))

    def close(self) -> None:
        """Ends all that runs, here and on the nodes."""
        self._over.set()
        self._halt.call()
        self._queue.put(None)
        if self._lifelines is not None:
            self._lifelines.close()

    def left(self) -> float:
        """Seconds of the sweep that are left."""
        return max(0.0, self._end - time.monotonic())

    def hand_over(self, nodes: Sequence[Node], why: str) -> None:
        """Sends these over SSH, in what is left of the sweep."""
        if not nodes or self._over.is_set():
            return
        self.ways.update({node.name: why for node in nodes})
        self.through_srun.difference_update(node.name for node in nodes)
        threading.Thread(target=self._over_ssh, args=(nodes, why), name="muster-srun-ssh",
                         daemon=True).start()

    def _over_ssh(self, nodes: Sequence[Node], why: str) -> None:
        limits = replace(self._limits, sweep_s=max(1.0, self.left()), halt=self._halt)
        try:
            # One of its own: several runs of one would close each other's connections.
            for reply in self._ssh().run(nodes, self._program, limits):
                if reply.failure is not None:
                    reason = f"{reply.failure.reason} (over SSH, as {why})"
                    reply = replace(reply, failure=replace(reply.failure, reason=reason))
                self._queue.put(reply)
        except Exception as error:  # noqa: BLE001  (these nodes must get an answer, whatever is wrong with ssh here)
            now, failure = time.time(), Failure(Stage.HEAD, one_line(str(error)))
            for node in nodes:
                self._queue.put(Reply(node.name, None, failure, now, now))

    def _command(self, node: Node) -> tuple[str, ...]:
        words = [node.python, "-I", "-S", "-c", self._program.loader, self._program.nonce,
                 *self._program.arguments(node)]
        return tuple(["sudo", "-n", "--", *words] if node.become and os.geteuid() else words)

    def _step(self, nodes: list[Node]) -> None:
        with self._steps:
            if self._over.is_set() or not self.left():
                return
            assert self._lifelines is not None  # noqa: S101  (there are groups)
            step = SrunStep(nodes, self._command(nodes[0]), self._program, self._limits, self._lifelines,
                            self.through_srun.add, self._queue.put, self.hand_over)
            try:
                step.run(self._over)
            except Exception as error:  # noqa: BLE001  (a defect of ours costs this step its nodes, not the sweep)
                step.give_up(one_line(f"srun failed: {type(error).__name__}: {error}"))
            finally:
                step.close()
