"""nccl-tests at work: within nodes over the ordinary transport, like a sweep, and between nodes by Slurm
within the lease's reservation.

On a node it is started by that node's Python, which leaves of the environment only what is needed, so that no
NCCL_* of a profile decides what is measured; no shell reads anything of it.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from healthcheck.burnin.faults import LOST
from healthcheck.burnin.model import Accusation, Object, RankEnd, RankReport, Task, TaskKind, TaskResult
from healthcheck.burnin.nccltests import engine
from healthcheck.burnin.nccltests.formats import read
from healthcheck.burnin.nccltests.result import result
from healthcheck.burnin.params import PARAMS
from healthcheck.collector import program, reply
from healthcheck.model.lease import Granted
from healthcheck.model.probes import MIB, Effect, Probe, ProbeSet
from healthcheck.model.probes import ProbeKind as Does
from healthcheck.model.recording import Capture, Outcome
from inventory.model import Node
from inventory.text import clean
from inventory.transport.base import Failure, Limits, Stage
from inventory.transport.deadline import bounded
from inventory.transport.srun import partitions_of
from provisioning.burnin.headrun import HeadCommand, in_parallel

NAME = "all_reduce_perf"
HELP_S = 30.0
# Far more than it prints: the collector lets a command write files of four times this, and NCCL's shared
# memory is such files.
MOST_BYTES = 16 * MIB
OWN_END_S = 15.0    # between the test's own giving up (-T) and ours
AWAY_S = 150.0      # to reach a node, and for Slurm to give it
_TYPES = {"fp32": "float", "bf16": "bfloat16", "fp16": "half"}
_LACKS = "muster: there is no "
# The program that the node's Python is given: argv[1] names what is kept, NAME=VALUE words are set, what
# follows -- is run.
_CLEAN = f"""\
import os, sys
at = sys.argv.index("--")
kept = {{name: os.environ[name] for name in sys.argv[1].split(",") if name in os.environ}}
kept.update(word.split("=", 1) for word in sys.argv[2:at])
try:
    os.execvpe(sys.argv[at + 1], sys.argv[at + 1:], kept)
except OSError as error:
    sys.exit({_LACKS!r} + sys.argv[at + 1] + ": " + str(error.strerror))
"""


def why_not(task: Task, slurm: bool) -> str:
    """Why nccl-tests cannot run a task, which then is left to PyTorch; "" where it can. Of what is no
    all-reduce no one expects it."""
    if task.params.get("run_s"):
        return "nccl-tests counts iterations, and this one lasts for a time"
    if len(task.nodes) == 1:
        return ""
    if not slurm:
        return "between nodes nccl-tests needs MPI and something to start it: --launcher slurm"
    if task.local:
        return "nodes name their ports differently, and srun gives all of them one environment"
    if len({sum(seat.node == node for seat in task.seats) for node in task.nodes}) > 1:
        return "nodes have different numbers of GPUs, and srun starts as many ranks on each"
    return ""


class NcclTests:
    """nccl-tests on these nodes, under the lease that `granted` tells of. `folder` is where nodes have it;
    None: in their PATH. `lost` is called with a node that could not be reached, and why, `remark` with what a
    person should know of a task without figures."""

    def __init__(
        self, folder: str | None, nodes: Sequence[Node], gpus: Mapping[str, int], granted: Granted,
        fanout: int, lost: Callable[[str, str], None], remark: Callable[[str], None],
    ) -> None:
        self.program = f"{folder.rstrip('/')}/{NAME}" if folder is not None else NAME
        self._nodes = {node.name: node for node in nodes}
        self._gpus, self._granted, self._fanout = gpus, granted, fanout
        self._lost, self._remark = lost, remark
        self._known: dict[str, frozenset[str]] = {}     # by node the options of its build

    def sample(self) -> dict[str, str]:
        """Asks all nodes for what their builds can do; by node why it cannot be used there."""
        why = {}
        for node, [found] in self._sent(
            {name: (self._argv(name, {}, (self.program, "--help")),) for name in self._nodes}, [HELP_S],
            Effect.PASSIVE):
            if isinstance(found, Failure):
                why[node] = f"{found.stage.value}: {found.reason}"
                continue
            self._known[node] = engine.options(found.text + found.stderr)
            last = _last(found)
            if not self._known[node]:
                absent = last.startswith(_LACKS)
                why[node] = (
                    f"{NAME} is not there: {last.removeprefix(_LACKS)}; install nccl-tests, or name its "
                    f"folder with `burnin: {{nccl_tests: /opt/nccl-tests/build}}` in the inventory" if absent
                    else f"{NAME} --help does not list its options: "
                         f"{last or f'{found.outcome.value}, exit {found.exit}'}")
        return why

    def run(self, tasks: Sequence[Task]) -> Iterator[TaskResult]:
        """Runs them, those of one node in turn; what could not be started has no result."""
        yield from self._in_nodes([task for task in tasks if len(task.nodes) == 1])
        yield from self._between([task for task in tasks if len(task.nodes) > 1])

    def _in_nodes(self, tasks: Sequence[Task]) -> Iterator[TaskResult]:
        of: dict[str, list[Task]] = {}
        for task in tasks:
            of.setdefault(task.nodes[0], []).append(task)
        seconds = [task.seconds + OWN_END_S for task in max(of.values(), key=len, default=[])]
        commands = {node: tuple(self._command(node, task) for task in own) for node, own in of.items()}
        for node, found in self._sent(commands, seconds, Effect.DISRUPTIVE):
            for task, one in zip(of[node], found, strict=True):
                if isinstance(one, Failure):
                    yield from self._failed(task, node, one)
                    continue
                late = one.outcome in (Outcome.TIMEOUT, Outcome.WEDGED)
                code = None if late else one.exit if one.exit is not None else 126
                yield self._read(task, one.text, code, one.seconds, _last(one))

    def _command(self, node: str, task: Task) -> tuple[str, ...]:
        own = {"CUDA_VISIBLE_DEVICES": ",".join(str(seat.gpu) for seat in task.seats)} if len(
            task.seats) < self._gpus[node] else {}
        variables = engine.environment({}, {**task.on(node), **own})
        command = engine.in_node(_test(self.program, task), self._known[node], len(task.seats), variables)
        return self._argv(node, command.environment, command.argv)

    def _argv(self, node: str, settings: Mapping[str, str], words: Sequence[str]) -> tuple[str, ...]:
        given = (f"{name}={value}" for name, value in settings.items())
        return (
            self._nodes[node].python, "-I", "-S", "-c", _CLEAN, ",".join(engine.KEPT), *given, "--", *words)

    def _sent(
        self, commands: Mapping[str, tuple[tuple[str, ...], ...]], seconds: Sequence[float], effect: Effect,
    ) -> Iterator[tuple[str, list[Capture | Failure]]]:
        """By node what each of its commands brought, or why there is nothing. Nodes with the same commands
        are sent them together."""
        groups: dict[tuple[tuple[str, ...], ...], list[Node]] = {}
        for node, argvs in commands.items():
            groups.setdefault(argvs, []).append(self._nodes[node])
        for argvs, nodes in groups.items():
            probes = ProbeSet.of([Probe(f"{NAME}-{at:03}", Does.COMMAND, argv=argv, seconds=seconds[at],
                                        limit=MOST_BYTES, effect=effect) for at, argv in enumerate(argvs)],
                                 sum(seconds) + 5.0, lease=self._granted.lease)
            each = sum(seconds) + AWAY_S
            bounds = bounded(nodes, Limits(node_s=each, fanout=self._fanout), None)
            for answer in self._granted.transport.run(nodes, program.build(probes, nvml=False), bounds):
                recording = reply.within(reply.decode(answer, limit=bounds.reply_bytes), probes)
                nothing = recording.failure or Failure(Stage.REPLY, "its reply lacks what was requested")
                yield answer.node, [recording.captures.get(probe.id, nothing) for probe in probes.probes]

    def _failed(self, task: Task, node: str, failure: Failure) -> Iterator[TaskResult]:
        """Who was reached and then said no more is lost; who could not be reached was not measured."""
        why = f"{failure.stage.value}: {clean(failure.reason)}"
        if failure.stage not in (Stage.REPLY, Stage.DEADLINE):
            self._lost(node, why)
            return
        now = time.monotonic()
        accusation = Accusation(Object.NODE, node, LOST, f"while {NAME} ran there: {why}", (task.id,))
        yield TaskResult(task, tuple(RankReport(seat, RankEnd.LOST, error=why) for seat in task.seats),
                         (accusation,), now, now)

    def _between(self, tasks: Sequence[Task]) -> Iterator[TaskResult]:
        if not tasks:
            return
        partitions = partitions_of(None)
        by_name = {task.id: task for task in tasks}
        for ran in in_parallel([self._started(task, partitions) for task in tasks], MOST_BYTES):
            text = ran.output.decode("utf-8", "replace")
            last = clean((text.strip().split("\n") or [""])[-1], 300)
            if not read(text) and ran.code is not None and ran.code > 0:
                self._remark(
                    f"{ran.name} was not measured: Slurm did not start {NAME}: {last or f'exit {ran.code}'}")
                continue
            yield self._read(by_name[ran.name], text, ran.code, ran.seconds, last)

    def _started(self, task: Task, partitions: Mapping[str, str]) -> HeadCommand:
        """The command for a task of several nodes: an allocation of all of each, as the ranks of PyTorch have
        it, and one step in it."""
        lease, nodes = self._granted.lease.holder, task.nodes
        known = frozenset.intersection(*(self._known[node] for node in nodes))
        each = len(task.seats) // len(nodes)
        own = ({"CUDA_VISIBLE_DEVICES": ",".join(sorted({str(seat.gpu) for seat in task.seats}))}
               if each < self._gpus[nodes[0]] else {})
        variables = engine.environment(os.environ, {**task.environment, **own})
        command = engine.by_srun(_test(self.program, task), known, nodes, each, variables,
                                 extra=("--quiet", "--overlap", "--cpu-bind=none", f"--job-name={lease}"))
        among = ",".join(dict.fromkeys(partitions[node] for node in nodes if node in partitions))
        minutes = math.ceil((task.seconds + OWN_END_S) / 60) + 1
        held = ("salloc", "--quiet", f"--job-name={lease}", f"--reservation={lease}",
                *([f"--partition={among}"] if among else []), f"--nodes={len(nodes)}",
                f"--nodelist={','.join(nodes)}", "--exclusive", "--mem=0",
                f"--immediate={math.ceil(AWAY_S / 2)}", f"--time={minutes}", "--chdir=/")
        return HeadCommand(
            task.id, (*held, *command.argv), command.environment, task.seconds + OWN_END_S + AWAY_S)

    def _read(self, task: Task, text: str, code: int | None, seconds: float, last: str) -> TaskResult:
        runs = read(text)
        now = time.monotonic()
        made = result(task, runs[0] if len(runs) == 1 else None, code, now - seconds, now)
        error = made.reports[0].error
        if error and not made.accusations:
            self._remark(
                f"{task.id} does not count: nccl-tests: {error}{f' ({last})' if last and not runs else ''}")
        return made


def _test(name: str, task: Task) -> engine.Test:
    given = {name: task.params.get(name, row[0]) for name, row in PARAMS[TaskKind.ALLREDUCE.value].items()}
    return engine.Test(name, int(given["bytes"]), int(given["iterations"]), int(given["warmup"]),
                       seconds=math.ceil(task.seconds), type=_TYPES[str(given["dtype"])])


def _last(capture: Capture) -> str:
    """The last line that was said, of the errors where there are any."""
    lines = (capture.stderr.strip() or capture.text.strip()).split("\n")
    return clean(lines[-1], 300)
