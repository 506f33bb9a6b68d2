"""Runs the real program as a transport would: loader on the command line, payload and lifeline on standard input."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from healthcheck import program as programs
from healthcheck import reply as replies
from healthcheck.probes import ProbeSet
from healthcheck.recording import Recording
from inventory.transport.base import Failure, Program, Reply, Stage
from inventory.transport.frame import Body, Broken, Framer, Wanted

LIMIT = 32 * 1024 * 1024


@contextmanager
def started(
    program: Program, root: Path | None = None, *, env: Mapping[str, str] | None = None, before: Sequence[str] = (),
    python: str = sys.executable, stdin: int = subprocess.PIPE,
) -> Iterator[subprocess.Popen[bytes]]:
    """The program under way, its payload sent. Whatever is left of it at the end is killed."""
    environment = {**os.environ, **(env or {})}
    if root is not None:
        environment["MUSTER_ROOT"] = str(root)
    argv = [*before, python, "-I", "-S", "-c", program.loader, program.nonce]
    child = subprocess.Popen(argv, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, bufsize=0)
    try:
        if child.stdin is not None:
            child.stdin.write(program.payload)
        yield child
    finally:
        child.kill()
        child.wait()
        for stream in (child.stdin, child.stdout, child.stderr):
            if stream is not None:
                stream.close()


def answer(program: Program, child: subprocess.Popen[bytes], seconds: float = 60.0) -> Reply:
    """Waits for the frame and answers requests on the way, as `inventory.transport` does."""
    assert child.stdin is not None and child.stdout is not None
    framer, began, received = Framer(program.nonce, LIMIT), time.time(), 0
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while selector.select(max(0.0, began + seconds - time.time())):
            chunk = os.read(child.stdout.fileno(), 65536)
            received += len(chunk)
            for event in framer.feed(chunk):
                if isinstance(event, Wanted):
                    extra = program.extras.get(event.name, b"")
                    child.stdin.write(b"%d\n%b" % (len(extra), extra))
                elif isinstance(event, Body):
                    return Reply("node", event.data, None, began, time.time(), received_bytes=received)
                elif isinstance(event, Broken):
                    return Reply("node", None, Failure(Stage.REPLY, event.reason), began, time.time())
            if not chunk:
                assert child.stderr is not None
                raise AssertionError(f"{framer.cut()}: {child.stderr.read().decode(errors='replace')}")
    raise AssertionError(f"no answer within {seconds} s")


def collect(
    probes: ProbeSet, root: Path | None = None, *, env: Mapping[str, str] | None = None, before: Sequence[str] = (),
    python: str = sys.executable, seconds: float = 60.0, extras: Mapping[str, bytes] | None = None,
) -> Recording:
    """One look at this machine, or at the tree under `root`."""
    program = programs.build(probes, nvml=extras is None)
    if extras is not None:
        program = Program(program.nonce, program.loader, program.payload, extras)
    with started(program, root, env=env, before=before, python=python) as child:
        return replies.decode(answer(program, child, seconds))
