"""Runs the program on this machine: the same conversation, stages, lifeline and deadlines as over SSH, with pipes for a channel."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from typing import IO

from inventory.model import Node
from inventory.transport.base import Failure, Limits, Program, Reply, Stage
from inventory.transport.session import Dialogue
from inventory.transport.watch import Job, Refused, Watch, fan_out

_CHUNK = 64 * 1024
_GRACE_SECONDS = 2.0


class LocalTransport:
    """`Transport` for the machine we run on, whatever a node's address says. `become` goes through sudo unless we are root already."""

    def run(self, nodes: Iterable[Node], program: Program, limits: Limits) -> Iterator[Reply]:
        """See `Transport.run`."""
        return fan_out(nodes, limits, lambda job: _visit(job, program, limits), Watch())


def _visit(job: Job, program: Program, limits: Limits) -> bytes | Failure:
    node = job.node
    job.attempts = 1
    become = node.become and os.geteuid() != 0
    dialogue = Dialogue(program, limits, python=node.python, become=become, shell=False)
    job.task.step(limits.login_s, dialogue.timed_out)
    process = _start([*(("sudo", "-n", "--") if become else ()), node.python, "-I", "-S", "-c", program.loader, program.nonce])
    try:
        _converse(job, dialogue, process, limits)
    finally:
        _let_go(process)
    if dialogue.failure is not None:
        return dialogue.failure
    assert dialogue.body is not None  # noqa: S101  (narrowing: a conversation that is over has one or the other)
    return dialogue.body


def _start(argv: list[str]) -> subprocess.Popen[bytes]:
    try:
        # A session of its own: Ctrl-C at our terminal is ours to handle, and the group can be killed as one.
        return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
                                start_new_session=True)
    except OSError as error:
        if argv[0] == "sudo":
            raise Refused(Stage.BECOME, f"cannot run sudo: {error.strerror}") from None
        raise Refused(Stage.PYTHON, f"cannot run {argv[0]}: {error.strerror}; install it or name another with `python:` "
                                    "in the inventory") from None


def _converse(job: Job, dialogue: Dialogue, process: subprocess.Popen[bytes], limits: Limits) -> None:
    """Until the dialogue is over. Reads and writes in turn as each is possible, so that no full pipe can stop the others."""
    task = job.task
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
        unsent = dialogue.opening()
        working = False
        while not dialogue.over:
            _register(ready, process.stdin, bool(unsent))
            events = {key.fileobj for key, _ in ready.select()}
            task.check()
            if process.stderr in events:
                if data := os.read(process.stderr.fileno(), _CHUNK):
                    dialogue.errors(data)
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
                _drain(process.stderr, dialogue)
                dialogue.ended(_exit_status(process, task.left()))


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


def _drain(pipe: IO[bytes], dialogue: Dialogue) -> None:
    """What is there already of the error output, which names the reason when the output has ended."""
    with suppress(BlockingIOError):
        while not dialogue.over and (data := os.read(pipe.fileno(), _CHUNK)):
            dialogue.errors(data)


def _exit_status(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    try:
        return process.wait(min(1.0, seconds))
    except subprocess.TimeoutExpired:
        return None


def _let_go(process: subprocess.Popen[bytes]) -> None:
    """Closes the lifeline at once; a thread sees to it that the program has gone, and nobody waits for one that cannot be killed."""
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    threading.Thread(target=_bury, args=(process,), name="muster-bury", daemon=True).start()


def _bury(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        # Through sudo the program is not ours to kill: it has the end of its input to go by.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
