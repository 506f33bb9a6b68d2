"""One `srun --no-allocate`: starts the program on its nodes, and takes their output apart."""

from __future__ import annotations

import base64
import json
import os
import selectors
import shlex
import signal
import subprocess
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from inventory.model import Node
from inventory.transport.base import Failure, Limits, Program, Reply, Stage
from inventory.transport.lifelines import Lifelines
from inventory.transport.session import Dialogue, last_line, one_line
from inventory.transport.srunlines import Labelled, TaskRecords, carried, launch_failure

# From srun's start to the program's first line; srun gives up on a silent slurmd after 20 s.
START_S = 30.0
_TURN_S = 0.5           # for noticing that the run is over, and limits that have passed
_ARGUMENT = 100_000     # bytes; the kernel's MAX_ARG_STRLEN is 131072
_NOISE = 1 << 20        # bytes of a node that are not the program's output
_CHUNK = 1 << 16
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_KEPT = ("SLURM_CONF", "SLURM_CONF_SERVER")


class _Task:
    """One node of a step."""

    def __init__(self, node: Node, program: Program, limits: Limits) -> None:
        self.node = node
        become = node.become and os.geteuid() != 0
        self.limits = limits.of(node)
        self.dialogue = Dialogue(program, self.limits, python=node.python, become=become)
        self.number = -1
        self.started = 0.0          # by time.monotonic; 0 until its first line
        self.noise = 0
        self.over = False


class SrunStep:
    """One srun, with its nodes: all have the same command."""

    def __init__(
        self, nodes: Sequence[Node], command: Sequence[str], program: Program, limits: Limits,
        lifelines: Lifelines, started: Callable[[str], None], answer: Callable[[Reply], None],
        hand_over: Callable[[Sequence[Node], str], None],
    ) -> None:
        """`started` gets the name of each node where the program starts, `answer` each node's reply, and
        `hand_over` the nodes that srun did not reach, and why."""
        self._started = started
        self._answer = answer
        self._give = hand_over
        self._lifelines = lifelines
        self._name = f"{id(self):x}"
        self._mark = f"={program.nonce} ".encode()
        self._records = TaskRecords()
        self._tasks = {node.name: _Task(node, program, limits) for node in nodes}
        self._numbered: dict[int, _Task] = {}
        self._refused: dict[str, list[Node]] = {}
        self._left = len(self._tasks)       # tasks that are not over
        self._began = time.time()
        self._process: subprocess.Popen[bytes] | None = None
        self._errors = b""
        self._argv = self._srun(nodes, command, program)

    def unstarted(self) -> list[Node]:
        """The nodes that have not answered and whose program has not started."""
        return [task.node for task in self._tasks.values() if not task.over and not task.started]

    def run(self, over: threading.Event) -> None:
        """Until every node has answered or is handed over."""
        try:
            self._process = process = subprocess.Popen(
                self._argv, bufsize=0, start_new_session=True, env=_environment(), stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        except OSError as error:
            self._hand_over(self.unstarted(), f"srun cannot be run: {error.strerror}")
            return
        began = time.monotonic()
        start_end = began + START_S
        parsers = {pipe.fileno(): (Labelled(), handle) for pipe, handle in (
            (process.stdout, self._line), (process.stderr, self._message)) if pipe is not None}
        with selectors.DefaultSelector() as ready:
            for fd in parsers:
                ready.register(fd, selectors.EVENT_READ)
            expire_at = began + _TURN_S
            while ready.get_map() and not over.is_set() and self._left:
                for key, _ in ready.select(_TURN_S):
                    data = os.read(key.fd, _CHUNK)
                    if not data:
                        ready.unregister(key.fd)
                    parser, handle = parsers[key.fd]
                    for number, line in parser.feed(data):
                        handle(number, line)
                self._hand_over_refused()
                if (now := time.monotonic()) >= expire_at:
                    expire_at = now + _TURN_S
                    self._expire(now, start_end)
        if not over.is_set():
            with suppress(subprocess.TimeoutExpired):
                process.wait(1.0)
            killed = (f"srun was killed here (signal {-process.returncode})"
                      if process.returncode is not None and process.returncode < 0 else "")
            said = killed or last_line(self._errors)
            self.give_up(f"srun did not start it{f': {said}' if said else ''}", killed)

    def give_up(self, why: str, killed: str = "") -> None:
        """Hands over what has not started, and fails what has started and is not done; `killed` is why, where
        no node is to blame."""
        self._hand_over(self.unstarted(), why)
        for task in self._tasks.values():
            if not task.over:
                if killed:
                    task.dialogue.failure = Failure(Stage.HEAD, f"{killed} while the program ran there")
                task.dialogue.lost(f"{task.node.name} through srun")
                self._finish(task)

    def close(self) -> None:
        """Ends srun and what it left on the nodes."""
        for number in range(len(self._tasks)):
            self._lifelines.close_one(self._name, number)
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(0.2)
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            for pipe in (self._process.stdout, self._process.stderr):
                assert pipe is not None  # noqa: S101  (narrowing: they are pipes)
                pipe.close()

    def _expire(self, now: float, start_end: float) -> None:
        if now >= start_end:
            self._hand_over(self.unstarted(), f"srun had not started it after {START_S:g} s")
        for task in self._tasks.values():
            if not task.over and task.started and now >= task.started + task.limits.work_s:
                task.dialogue.failure = task.dialogue.timed_out(now - task.started)
                self._finish(task)

    def _message(self, number: int, line: bytes) -> None:
        """A line of srun's own, or of a task's error output."""
        if number in self._numbered:
            self._numbered[number].dialogue.errors(line + b"\n")
            return
        self._errors = (self._errors + line + b"\n")[-4096:]
        failed = launch_failure(line)
        task = self._tasks.get(failed.node) if failed is not None else None
        if failed is not None and task is not None and not task.over and not task.started:
            why = f"srun could not start it: {one_line(failed.reason)}"
            # Many come at once: one run of SSH takes them all.
            self._refused.setdefault(why, []).append(task.node)

    def _hand_over_refused(self) -> None:
        for why, nodes in self._refused.items():
            self._hand_over([node for node in nodes if not self._tasks[node.name].started], why)
        self._refused.clear()

    def _line(self, number: int, line: bytes) -> None:
        """A line of a task's output."""
        record = self._records.add(number, line)
        if record is not None:
            self._record(number, record)

    def _record(self, number: int, line: bytes) -> None:
        task = self._numbered.get(number)
        if task is None:
            if line.startswith(self._mark + b"at "):
                self._claim(number, line[len(self._mark) + 3:].strip().decode("ascii", "replace"))
            return
        if task.over:
            return
        dialogue = task.dialogue
        if line.startswith((b".", b"!")):
            data = carried(line)
            if data is None:
                dialogue.failure = Failure(Stage.REPLY, "a line of its answer was damaged on the way")
            elif line.startswith(b"."):
                dialogue.output(data)
            else:
                dialogue.errors(data)
        elif line.startswith(self._mark + b"no "):
            self._hand_over([task.node], one_line(line[len(self._mark) + 3:]))
            return
        elif line.startswith(self._mark + b"exit "):
            status = line[len(self._mark) + 5:].strip()
            dialogue.ended(int(status) if status.isdigit() and len(status) < 5 else None)
        else:
            # Not the program's: the shell's, or Python's before it runs.
            dialogue.output(line + b"\n")
            if not line.startswith(b"muster:"):
                dialogue.errors(line + b"\n")
            task.noise += len(line)
            if task.noise > _NOISE:
                dialogue.failure = Failure(Stage.REPLY, "over 1 MiB of output that is not our program's")
        if dialogue.over:
            self._finish(task)

    def _claim(self, number: int, name: str) -> None:
        """Task `number` says which node it is on. Two that say the same are both not believed."""
        task = self._tasks.get(name)
        if task is None or task.over:
            self._lifelines.close_one(self._name, number)
        elif task.started:
            self._hand_over([task.node], "two tasks of srun claim to be on it")
        else:
            task.number, task.started = number, time.monotonic()
            self._numbered[number] = task
            self._started(name)

    def _hand_over(self, nodes: Sequence[Node], why: str) -> None:
        for node in nodes:
            task = self._tasks[node.name]
            self._end(task)
            if task.number >= 0:
                self._lifelines.close_one(self._name, task.number)
        self._give(nodes, why)

    def _end(self, task: _Task) -> None:
        self._left -= not task.over
        task.over = True

    def _finish(self, task: _Task) -> None:
        self._end(task)
        self._lifelines.close_one(self._name, task.number)
        dialogue = task.dialogue
        failure = dialogue.failure
        if failure is not None:
            failure = Failure(failure.stage, one_line(f"{failure.reason} (through srun)", 1500))
        self._answer(Reply(
            task.node.name, dialogue.body if failure is None else None, failure, self._began, time.time(),
            sent_bytes=dialogue.sent, received_bytes=dialogue.received, python=dialogue.python))

    def _srun(self, nodes: Sequence[Node], command: Sequence[str], program: Program) -> list[str]:
        """The argument list: srun, its options, and a shell that starts `sruntask` with all that it needs."""
        count, names = str(len(nodes)), sorted(program.extras)
        document = {"argv": list(command), "nonce": program.nonce, "port": self._lifelines.port,
                    "token": self._lifelines.greeting(self._name), "extras": names}
        parts = [json.dumps(document).encode(), _relay_source(), program.payload,
                 *(program.extras[name] for name in names)]
        sizes = " ".join(str(len(part)) for part in parts)
        bundle = base64.b64encode(b"".join(parts)).decode()
        words = [bundle[at:at + _ARGUMENT] for at in range(0, len(bundle), _ARGUMENT)]
        script = (f"echo {self._mark.decode()}at $SLURMD_NODENAME~; echo muster:{program.nonce}:login; "
                  f"{shlex.join([nodes[0].python, '-I', '-S', '-c', _START, sizes])} \"$@\" 2>&1; "
                  f"echo {self._mark.decode()}exit $?~")
        return ["srun", "--quiet", "--no-allocate", f"--nodelist={','.join(node.name for node in nodes)}",
                f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1", "--label", "--input=none",
                "--job-name=muster", "--chdir=/", f"--export=PATH={_PATH},LC_ALL=C", "--mpi=none",
                "--cpu-bind=quiet,none", "--propagate=NONE", "--kill-on-bad-exit=0", "--wait=0",
                "/bin/sh", "-c", script, "sh", *words]


# Code without double quotes: the sizes of the parts, then the parts in pieces, as arguments.
_START = ("import sys,base64,json,zlib;d=base64.b64decode(str().join(sys.argv[2:]));p=[]\n"
          "for n in map(int,sys.argv[1].split()):p.append(d[:n]);d=d[n:]\n"
          "g=dict(__name__=str(1));exec(zlib.decompress(p[1]),g);g[str('relay')](json.loads(p[0].decode()),p[2:])")


def _relay_source() -> bytes:
    return zlib.compress(Path(__file__).with_name("sruntask.py").read_bytes(), 9)


def _environment() -> dict[str, str]:
    """The caller's, without what would override srun's command line."""
    return {key: value for key, value in os.environ.items()
            if key in _KEPT or not key.startswith(("SLURM_", "SALLOC_", "SBATCH_"))}
