"""A Python that has PyTorch, for tests of burn-in's ranks: this one, or the one that MUSTER_TEST_TORCH
names."""

from __future__ import annotations

import functools
import importlib.util
import os
import socket
import subprocess
import sys
from contextlib import suppress

from tests.testbed import torchfork
from tests.testbed.require import require


@functools.cache
def found() -> str | None:
    """Its path, or None where there is none."""
    if importlib.util.find_spec("torch") is not None:
        return sys.executable
    python = os.environ.get("MUSTER_TEST_TORCH")
    if python and subprocess.run([python, "-I", "-c", "import torch"], capture_output=True, check=False,
                                 timeout=110).returncode == 0:
        return python
    return None


def python() -> str:
    """Its path. Without one the test is skipped, or fails in CI."""
    path = found()
    require(path, "needs PyTorch: pip install torch, "
                  "or name a Python that has it in MUSTER_TEST_TORCH")
    assert path is not None
    return path


def _listening() -> tuple[int, str]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind("")       # an address of its own
        listener.listen()
        address = listener.getsockname()[1:].decode()
        return listener.detach(), address


# All workers, which are forks of the process that reads the tests, have one server; it ends with the last of
# them.
_LISTENER, _ADDRESS = _listening()
_NEEDED, _NEEDS = os.pipe()
_FIRST, _first = os.pipe()
os.set_blocking(_FIRST, False)
os.write(_first, b".")


def forked() -> tuple[str, ...]:
    """The words for one in which PyTorch is imported already (tests.testbed.torchfork)."""
    words = python(), "-IS", torchfork.__file__, _ADDRESS
    with suppress(BlockingIOError):
        os.read(_FIRST, 1)
        os.posix_spawn(words[0], [words[0], "-W", "ignore", torchfork.__file__],
                       {**os.environ, "OMP_NUM_THREADS": "1"}, file_actions=[
                           (os.POSIX_SPAWN_DUP2, _LISTENER, torchfork.LISTENER),
                           (os.POSIX_SPAWN_DUP2, _NEEDED, torchfork.NEEDED)])
    return words
