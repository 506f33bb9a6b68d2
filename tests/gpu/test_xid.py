"""Xids as a real driver writes them: kernels that break, and what muster says of the node."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.command import muster
from tests.testbed.require import require

pytestmark = [pytest.mark.gpu, pytest.mark.root]

BROKEN = Path(__file__).with_name("broken.cu")


@pytest.fixture(scope="module")
def breaks(tmp_path_factory: pytest.TempPathFactory, nvidia_smi: str) -> Callable[[str], list[str]]:
    """Breaks a kernel in that way; the lines that the driver then wrote to the kernel's log."""
    require(shutil.which("nvcc"), "needs CUDA's compiler nvcc")
    program = tmp_path_factory.mktemp("broken") / "broken"
    subprocess.run(["nvcc", "-o", str(program), str(BROKEN)], check=True, capture_output=True, timeout=110)

    def told() -> list[str]:
        return subprocess.run(["dmesg"], capture_output=True, text=True, check=True,
                              timeout=20).stdout.splitlines()

    def broken(way: str) -> list[str]:
        before = len(told())
        subprocess.run([str(program), way], capture_output=True, check=False, timeout=60)
        return [line for line in told()[before:] if "NVRM" in line]
    return broken


@pytest.mark.parametrize(("way", "xid"),
                         [("unmapped", 31), ("misaligned", 13), ("traps", 43), ("beyond-shared", 13)])
def test_a_program_s_own_error_is_an_xid_that_takes_no_gpu_from_jobs(
    tmp_path: Path, breaks: Callable[[str], list[str]], way: str, xid: int,
) -> None:
    lines = breaks(way)
    assert any(f"): {xid}, " in line for line in lines), lines
    done = muster("check", "--local", "--sku", "single-gpu", "--only", "*xid*", "--format", "json", "--full",
                  home=tmp_path)
    (node,) = json.loads(done.stdout)["nodes"]
    assert node["state"] != "unhealthy", node
