"""What tests on a real GPU share: `scripts/test --gpu`, on a machine with an NVIDIA GPU, its driver, and a
PyTorch with CUDA."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.testbed import torches
from tests.testbed.require import require


@pytest.fixture(scope="session")
def cuda_python() -> str:
    """A Python whose PyTorch reaches a GPU."""
    python = os.environ.get("MUSTER_TEST_TORCH") or torches.python()
    seen = subprocess.run([python, "-W", "ignore", "-c", "import torch; print(torch.cuda.device_count())"],
                          capture_output=True, text=True,
                          check=False, timeout=110)
    require(seen.returncode == 0 and int(seen.stdout or 0),
            "needs a GPU that PyTorch reaches (MUSTER_TEST_TORCH names its Python)")
    return python


@pytest.fixture(scope="session")
def nvidia_smi() -> str:
    """NVIDIA's own command, which reads the same GPUs by its own code."""
    path = shutil.which("nvidia-smi")
    require(path, "needs an NVIDIA GPU and its driver with nvidia-smi")
    assert path is not None
    return path
