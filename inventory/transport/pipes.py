"""Exchanges data with a program through a child's pipes: the program itself, or an ssh to a node."""

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
_KILLED_SECONDS = 0.5


class PipedProcess(Protocol):
    """Something with three pipes and an exit status: a process, or a session on a shared ssh connection."""

    @property
    def stdin(self) -> IO[bytes] | None: ...

    @property
    def stdout(self) -> IO[bytes] | None: ...

    @property
    def stderr(self) -> IO[bytes] | None: ...

    def wait(self, timeout: float | None = None) -> int:
        """The exit status, negative for a signal; raises subprocess.TimeoutExpired."""
        ...


class OutputHandler:
    """Handles everything but the program's output. This one is for a child that is the program itself."""

    log: int | None = None              # a descriptor to follow besides the pipes
    deadline: float | None = None       # when to call `timed_out_waiting`, by time.monotonic

    def __init__(self, dialogue: Dialogue) -> None:
        self.dialogue = dialogue

    def errors(self, data: bytes) -> None:
        """Takes standard error."""
        self.dialogue.errors(data)

    def logged(self, data: bytes) -> None:
        """Takes what comes from `log`, always before what came on standard error after it."""

    def timed_out_waiting(self) -> None:
        """Called once `deadline` is over."""

    def ended(self, exit_status: int | None) -> None:
        """The output has ended; afterwards the dialogue is over. May raise instead."""
        self.dialogue.ended(exit_status)


def spawn(argv: list[str], environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Starts it with three pipes. Raises OSError."""
    # In its own session: we handle Ctrl-C at our terminal, and can kill the group as one.
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            bufsize=0, start_new_session=True, env=environment)


def converse(
    job: NodeJob, dialogue: Dialogue, process: PipedProcess, limits: Limits,
    handler: OutputHandler | None = None,
) -> None:
    """Runs until the dialogue is over; reads and writes whatever it can, so that no full pipe blocks."""
    task = job.task
    handler = handler or OutputHandler(dialogue)
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
        if handler.log is not None:
            ready.register(handler.log, selectors.EVENT_READ)
        unsent = b""
        working = False
        while not dialogue.over:
            _register(ready, process.stdin, bool(unsent))
            events = {key.fileobj for key, _ in ready.select(_seconds(handler))}
            task.check()
            _follow(handler)
            if handler.deadline is not None and handler.deadline <= time.monotonic():
                handler.timed_out_waiting()
            if process.stderr in events:
                if data := os.read(process.stderr.fileno(), _CHUNK):
                    handler.errors(data)
                else:
                    ready.unregister(process.stderr)
            if process.stdin in events:
                unsent = _write(process.stdin, unsent)
            ended = False
            if process.stdout in events:
                data = os.read(process.stdout.fileno(), _CHUNK)
                unsent += dialogue.output(data)
                ended = not data
            job.sent, job.received, job.python = (dialogue.sent - len(unsent), dialogue.received,
                                                  dialogue.python)
            if dialogue.python is not None and not working:
                working = True
                job.begun()
                task.step(limits.work_s, dialogue.timed_out)
            if ended and not dialogue.over:
                # The status first: after it, no more output can arrive.
                status = _exit_status(process, task.left())
                task.check()
                _follow(handler)
                _drain(process.stderr, handler)
                if not dialogue.over:
                    handler.ended(status)


def close_process(process: subprocess.Popen[bytes], *, kill: bool = False) -> None:
    """Closes the lifeline at once, and kills the group if `kill`. A thread reaps the child, so the caller
    never waits for one that cannot be killed."""
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    if kill:
        kill_group(process)
    try:
        threading.Thread(target=_reap, args=(process,), name="muster-reap", daemon=True).start()
    except RuntimeError:
        # No free thread may cost an answer that is here. What has not ended by now is reaped when the next
        # process is started.
        kill_group(process)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_KILLED_SECONDS)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kills the child and what it started in its session, unless it has ended; returns at once."""
    if process.returncode is None:
        # We may not kill a program under sudo; it ends at the end of its input.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _seconds(handler: OutputHandler) -> float | None:
    return None if handler.deadline is None else max(0.0, handler.deadline - time.monotonic())


def _follow(handler: OutputHandler) -> None:
    if handler.log is not None:
        with suppress(BlockingIOError):
            # Handle each piece as it comes, because the log may never end.
            while len(data := os.read(handler.log, _CHUNK)) == _CHUNK:
                handler.logged(data)
            handler.logged(data)


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
    """Writes what the pipe takes now; returns the rest, nothing once the program closed its end."""
    try:
        return data[os.write(stdin.fileno(), data):]
    except BlockingIOError:
        return data
    except OSError:
        return b""


def _drain(pipe: IO[bytes], handler: OutputHandler) -> None:
    """Reads the pending error output, which names the reason for the end."""
    with suppress(BlockingIOError):
        while not handler.dialogue.over and (data := os.read(pipe.fileno(), _CHUNK)):
            handler.errors(data)


def _exit_status(process: PipedProcess, seconds: float) -> int | None:
    if isinstance(process, subprocess.Popen):
        return _unreaped(process, min(1.0, seconds))
    try:
        return process.wait(min(1.0, seconds))
    except subprocess.TimeoutExpired:
        return None


def _unreaped(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """The exit status of a child that keeps its number, so that what it started can still be killed: an ssh
    that ends by itself leaves behind what its ProxyCommand has in the background."""
    end = time.monotonic() + seconds
    with suppress(ChildProcessError):
        while (found := os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is None:
            if time.monotonic() >= end:
                return None
            time.sleep(0.005)
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
    return process.returncode


def _reap(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        kill_group(process)
        process.wait()
