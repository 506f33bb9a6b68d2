"""A Python that has PyTorch, for tests of burn-in's ranks: this one, or the one that MUSTER_TEST_TORCH names."""

from __future__ import annotations

import functools
import importlib.util
import os
import subprocess
import sys

from tests.testbed.require import require


@functools.cache
def found() -> str | None:
    """Its path, or None where there is none."""
    if importlib.util.find_spec("torch") is not None:
        return sys.executable
    python = os.environ.get("MUSTER_TEST_TORCH")
    if python and subprocess.run([python, "-I", "-c", "import torch"], capture_output=True, check=False, timeout=110).returncode == 0:
        return python
    return None


def python() -> str:
    """Its path. Without one the test is skipped, or fails in CI."""
    path = found()
    require(path, "needs PyTorch: pip install torch, "
                  "or name a Python that has it in MUSTER_TEST_TORCH")
    assert path is not None
    return path
