"""An agent and a PyTorch in different Pythons or containers, and a node without PyTorch."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.healthcheck.burnin.workers import Nodes
from tests.testbed import torches
from tests.testbed.require import require

OLD = "3.8"
ROOT = Path(__file__).resolve().parents[3]


def old_python() -> str | None:
    """A Python 3.8 of this machine, if it has one."""
    named = [shutil.which("python3.8"), *map(str, Path.home().glob(f".pyenv/versions/{OLD}.*/bin/python3.8"))]
    for path in filter(None, named):
        if subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0:
            return path
    return None


@pytest.mark.root
def test_ranks_with_process_numbers_of_their_own_as_in_a_container_are_watched_equally() -> None:
    require(os.geteuid() == 0 and shutil.which("unshare"), "needs root, and unshare(1) of util-linux")
    python = ["unshare", "--pid", "--mount", "--fork", "--mount-proc", torches.python()]
    with Nodes(["x"], python) as nodes:
        came = nodes.task("allreduce", [("x", 0), ("x", 1)], bytes=4096, run_s=1.5)
        assert [came.reports[rank]["end"] for rank in (0, 1)] == ["done", "done"]
        assert {row["state"] for row in came.rows} & {"R", "S"}
        assert [came.ended[rank]["code"] for rank in (0, 1)] == [0, 0]


def test_an_agent_of_python_3_8_serves_ranks_of_another_python() -> None:
    python = old_python()
    if python is None:
        pytest.skip("no Python 3.8 on this machine: pyenv install 3.8")
    with Nodes(["x"], torches.forked(), agent=python) as nodes:
        came = nodes.task("allreduce", [("x", 0), ("x", 1)], bytes=4096)
        assert {report["end"] for report in came.reports.values()} == {"done"}


@pytest.mark.parametrize(("python", "why"), [
    (["/no/such/python"], "/no/such/python: No such file or directory"),
    ([sys.executable, "-S"], "ModuleNotFoundError: No module named 'torch'"),
    (["sh", "-c", "exit 3"], "sh ended with 3, and printed nothing"),
    (["sh", "-c", "echo No such container: torch >&2; exit 1"],
     "sh ended with 1, and printed No such container: torch"),
])
def test_without_pytorch_the_node_says_why_and_a_task_ends_at_once(python: list[str], why: str) -> None:
    with Nodes(["x"], python) as nodes:
        assert (nodes.here["x"]["torch"], nodes.here["x"]["why"]) == (None, why)
        came = nodes.task("copy", [("x", 0)])
        assert came.ended[0]["code"] != 0
        assert "torch" in (came.ended[0]["output"] + came.reports.get(0, {}).get("error", "")).lower()


@pytest.mark.parametrize(("child", "why"), [
    ("None", "PyTorch 9.9 sees 0 of this node's 8 NVIDIA GPUs"),
    ("os.kill(os.getpid(), 9)", "CUDA did not list the GPUs"),
    ("time.sleep(60)", "CUDA did not list the GPUs"),
])
def test_a_node_whose_gpus_pytorch_does_not_see_is_not_measured_on_its_cpu_instead(
    tmp_path: Path, child: str, why: str,
) -> None:
    for gpu in range(8):
        (tmp_path / str(gpu)).touch()
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(
        "import os, time, types\n"
        "__version__ = '9.9'\n"
        "version = types.SimpleNamespace(cuda='13.0')\n"
        f"def available():\n    {child}\n    return False\n"
        "cuda = types.SimpleNamespace(is_available=available)\n")
    (tmp_path / "torch" / "distributed.py").touch()
    script = ("import json\n"
              "from healthcheck.burnin.onnode import snapshot\n"
              f"snapshot.DRIVERS_GPUS = {str(tmp_path / '[0-9]')!r}\n"
              "snapshot.CUDA_S = 1\n"
              "print(json.dumps(snapshot.snapshot()))")
    done = subprocess.run([sys.executable, "-c", script], env={"PYTHONPATH": f"{tmp_path}:{ROOT}"},
                          capture_output=True, text=True, check=False, timeout=60)
    found = json.loads(done.stdout)
    assert (found["torch"], found["why"]) == (None, why)


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    """A node that was started in an environment with settings of somebody else's."""
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("NCCL_P2P_DISABLE", "1")
            patch.setenv("GLOO_SOCKET_IFNAME", "no-such-interface")
            started = stack.enter_context(Nodes(["x"], torches.forked()))
        yield started


def test_what_was_inherited_is_scrubbed_and_reported_and_a_wrong_task_is_one_line(nodes: Nodes) -> None:
    seats = [("x", 0), ("x", 1)]
    came = nodes.task("allreduce", seats, bytes=4096, environment={"NCCL_ALGO": "Ring"})
    facts = came.reports[0]["facts"]
    assert facts["scrubbed"] == "GLOO_SOCKET_IFNAME NCCL_P2P_DISABLE"
    assert "NCCL_ALGO=Ring" in facts["environment"] and "GLOO_SOCKET_IFNAME=lo" in facts["environment"]
    assert (facts["backend"], facts["device"]) == ("gloo", "cpu")
    for environment, params, said in (
        ({"LD_PRELOAD": "/tmp/x.so"}, {}, "ValueError: a task may not set 'LD_PRELOAD'"),
        ({}, {"bites": 3}, "ValueError: 'bites' is no parameter of allreduce, expected one of bytes"),
        ({}, {"dtype": "int8"}, "ValueError: dtype 'int8', expected fp32, bf16 or fp16"),
    ):
        came = nodes.task("allreduce", seats, environment=environment, **params)
        assert {report["end"] for report in came.reports.values()} == {"raised"}
        assert came.reports[0]["error"].startswith(said)


def test_every_kind_of_work_has_the_figures_that_it_promises(nodes: Nodes) -> None:
    seats = [("x", 0), ("x", 1)]
    promised = {"known": {"verified", "check_share"}, "random": {"verified", "check_share"},
                "memory": {"memory_gb_s", "verified", "check_share"},
                "rate": {"tflops_fp64", "tflops_fp32", "tflops_bf16"},
                "copy": {"copy_to_gb_s", "copy_from_gb_s", "verified", "check_share"},
                "allreduce": {"size_bytes", "iterations", "verified", "seconds_p50", "seconds_p99",
                              "seconds_max", "seconds_often", "compute_p50", "compute_p10", "algbw_gb_s",
                              "busbw_gb_s", "sustained_gb_s", "overhead_share", "check_share", "checks"}}
    small: dict[str, dict[str, Any]] = {"known": {"n": 64}, "random": {"n": 64},
                                        "rate": {"n": 64, "run_s": 0.01}, "copy": {"bytes": 4096},
                                        "memory": {"bytes": 65536},
                                        "allreduce": {"bytes": 65536, "ramp_s": 0.2, "dtype": "bf16"}}
    for kind, names in promised.items():
        came = nodes.task(kind, seats, **small[kind])
        assert [came.reports[rank]["end"] for rank in (0, 1)] == ["done",
                                                                  "done"], came.reports[0]["error"]
        assert set(came.reports[0]["figures"]) == names, kind
        assert all(value > 0 for value in came.reports[0]["figures"].values()), kind
    came = nodes.task("allreduce", [("x", 0)], bytes=4096)
    assert came.reports[0]["figures"]["busbw_gb_s"] == 0
