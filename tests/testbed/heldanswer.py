"""A program for a node that has done its work and is at its answer, which nobody reads yet."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from inventory.model import Node
from inventory.transport.base import Program
from inventory.transport.local import LocalTransport
from tests.testbed.sshd import wait_until


class _Taken(LocalTransport):
    """Runs nothing, and has the program."""

    def run(self, nodes: Any, program: Any, limits: Any) -> Iterator[Any]:
        self.program, self.nodes = program, list(nodes)
        return iter(())


@contextlib.contextmanager
def at_its_answer(send: Callable[[LocalTransport], Any]) -> Iterator[None]:
    """While this holds, what `send` sends to its one node waits with its answer, which then comes whole."""
    taken = _Taken()
    list(send(taken))
    program: Program = taken.program
    node: Node = taken.nodes[0]
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(writing, bytes(4096)):
            pass
    os.set_blocking(writing, True)
    # What says the version of Python comes before the work: it goes elsewhere.
    loader = program.loader.replace("o=sys.stdout;", "o=sys.stderr;")
    assert loader != program.loader
    words = [sys.executable, "-I", "-S", "-c", loader, program.nonce, *program.arguments(node)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=writing,
                          stderr=subprocess.DEVNULL) as running:
        os.close(writing)
        try:
            assert running.stdin is not None
            running.stdin.write(program.payload)
            running.stdin.flush()       # a program that sees its end gives up its work
            waits = Path(f"/proc/{running.pid}/wchan")
            wait_until(lambda: "pipe_write" in waits.read_text(), what="the answer")
            yield
        finally:
            with open(reading, "rb") as answer:
                running.stdin.close()
                assert b"frame" in answer.read()


def is_free(path: Path) -> bool:
    """Whether nobody holds this lock."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
