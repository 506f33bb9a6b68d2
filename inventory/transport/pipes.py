"""Talks with a program through the pipes of a child process: the program itself, or an ssh that carries it to a node."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
import threading
import time
from contextlib import ExitStack, suppress
from typing import IO, Protocol

from inventory.transport.base import Limits
from inventory.transport.session import Dialogue
from inventory.transport.watch import NodeJob

_CHUNK = 64 * 1024
_GRACE_SECONDS = 2.0


class PipedProcess(Protocol):
    """What has three pipes and an end: a process, or a session on a connection that a process keeps."""

    @property
    def stdin(self) -> IO[bytes] | None: ...

    @property
    def stdout(self) -> IO[bytes] | None: ...

    @property
    def stderr(self) -> IO[bytes] | None: ...

    def wait(self, timeout: float | None = None) -> int:
        """The exit status, negative for a signal; raises subprocess.TimeoutExpired."""
        ...


class Ears:
    """What becomes of all that is not the program's output. This one is for a child that is the program itself."""

    log: int | None = None              # a descriptor to follow besides the pipes
    patience: float | None = None       # when `tired` is called, by time.monotonic
    ready: bool = True                  # whether what we write can reach the program

    def __init__(self, dialogue: Dialogue) -> None:
        self.dialogue = dialogue

    def errors(self, data: bytes) -> None:
        """Takes standard error."""
        self.dialogue.errors(data)

    def logged(self, data: bytes) -> None:
        """Takes what comes from `log`, always before what came on standard error after it."""

    def tired(self) -> None:
        """`patience` is over."""

    def ended(self, exit_status: int | None) -> None:
        """The output has ended; afterwards the dialogue is over. May raise instead."""
        self.dialogue.ended(exit_status)


def spawn(argv: list[str], environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Starts it with three pipes. Raises OSError."""
    # A session of its own: Ctrl-C at our terminal is ours to handle, and the group can be killed as one.
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
                            start_new_session=True, env=environment)


def converse(job: NodeJob, dialogue: Dialogue, process: PipedProcess, limits: Limits, ears: Ears | None = None) -> None:
    """Until the dialogue is over. Reads and writes in turn as each is possible, so that no full pipe can stop the others."""
    task = job.task
    ears = ears or Ears(dialogue)
    assert process.stdin and process.stdout and process.stderr  # noqa: S101  (narrowing: all three are pipes)
    with ExitStack() as stack:
        awake, alarm = (stack.enter_context(end) for end in socket.socketpair())
        task.on_abort(lambda: _ring(alarm))
        ready = stack.enter_context(selectors.DefaultSelector())
        ready.register(awake, selectors.EVENT_READ)
        for pipe in (process.stdin, process.stdout, process.stderr):
            os.set_blocking(pipe.fileno(), False)
        ready.register(process.stdout, selectors.EVENT_READ)
        ready.register(process.stderr, selectors.EVENT_READ)
        if ears.log is not None:
            ready.register(ears.log, selectors.EVENT_READ)
        unsent = dialogue.opening()
        working = False
        while not dialogue.over:
            _register(ready, process.stdin, bool(unsent) and (ears.ready or dialogue.python is not None))
            events = {key.fileobj for key, _ in ready.select(_seconds(ears))}
            task.check()
            _follow(ears)
            if ears.patience is not None and ears.patience <= time.monotonic():
                ears.tired()
            if process.stderr in events:
                if data := os.read(process.stderr.fileno(), _CHUNK):
                    ears.errors(data)
                else:
                    ready.unregister(process.stderr)
            if process.stdin in events:
                unsent = _write(process.stdin, unsent)
            ended = False
            if process.stdout in events:
                data = os.read(process.stdout.fileno(), _CHUNK)
                unsent += dialogue.output(data)
                ended = not data
            job.sent, job.received, job.python = dialogue.sent - len(unsent), dialogue.received, dialogue.python
            if dialogue.python is not None and not working:
                working = True
                task.step(limits.node_s, dialogue.timed_out)
            if ended and not dialogue.over:
                # First the status: whatever a child has said it has said before its end.
                status = _exit_status(process, task.left())
                task.check()
                _follow(ears)
                _drain(process.stderr, ears)
                if not dialogue.over:
                    ears.ended(status)


def let_go(process: subprocess.Popen[bytes], *, kill: bool = False) -> None:
    """Closes the lifeline at once, and kills the group if asked to; a thread sees to it that the child has gone, and nobody waits for
    one that cannot be killed."""
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    if kill:
        kill_group(process)
    threading.Thread(target=_bury, args=(process,), name="muster-bury", daemon=True).start()


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kills the child and what it has started in its session, unless it has ended already. Returns at once."""
    if process.returncode is None:
        # Through sudo the program is not ours to kill: it has the end of its input to go by.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _seconds(ears: Ears) -> float | None:
    return None if ears.patience is None else max(0.0, ears.patience - time.monotonic())


def _follow(ears: Ears) -> None:
    if ears.log is not None:
        with suppress(BlockingIOError):
            # One piece may be all that is ever read of a log that never ends; what it leads to is decided between pieces.
            while len(data := os.read(ears.log, _CHUNK)) == _CHUNK:
                ears.logged(data)
            ears.logged(data)


def _ring(alarm: socket.socket) -> None:
    with suppress(OSError):
        alarm.send(b"!")


def _register(ready: selectors.BaseSelector, stdin: IO[bytes], wanted: bool) -> None:
    registered = stdin.fileno() in ready.get_map()
    if wanted and not registered:
        ready.register(stdin, selectors.EVENT_WRITE)
    elif registered and not wanted:
        ready.unregister(stdin)


def _write(stdin: IO[bytes], data: bytes) -> bytes:
    """Writes what the pipe takes now; returns the rest, which is nothing once the program has closed its end."""
    try:
        return data[os.write(stdin.fileno(), data):]
    except BlockingIOError:
        return data
    except OSError:
        return b""


def _drain(pipe: IO[bytes], ears: Ears) -> None:
    """What is there already of the error output, which names the reason when the output has ended."""
    with suppress(BlockingIOError):
        while not ears.dialogue.over and (data := os.read(pipe.fileno(), _CHUNK)):
            ears.errors(data)


def _exit_status(process: PipedProcess, seconds: float) -> int | None:
    try:
        return process.wait(min(1.0, seconds))
    except subprocess.TimeoutExpired:
        return None


def _bury(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        kill_group(process)
        process.wait()
