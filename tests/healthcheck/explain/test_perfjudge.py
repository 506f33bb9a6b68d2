"""What muster explain says of an output of nccl-tests: wrong data, too few ranks,
and figures that cannot be right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from healthcheck.burnin.nccltests.parse import parse
from healthcheck.explain.model import FileKind
from healthcheck.explain.perfjudge import explain
from healthcheck.explain.quoting import LineIndex
from tests.healthcheck.explain.cases import explained

RUNS = Path(__file__).resolve().parents[2] / "recordings" / "nccltests"
HEAD = ("#       size         count      type   redop    root     time   algbw   busbw #wrong     time   "
        "algbw   busbw #wrong\n")
FOOT = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 363.59\n"


def document(**changes: Any) -> dict[str, Any]:
    half = {"time": 5808.0, "alg_bw": 184.873, "bus_bw": 365.9, "nwrong": 0.0}
    return {
        "version": 3, "args": ["/opt/all_reduce_perf", "-b", "1G"], "env": ["SECRET=hunter2"],
        "nccl_version": 23203,
        "config": {"devices": [{"hostname": "worker-0", "device_info": "NVIDIA H100 80GB HBM3"}]},
        "results": [{"size": 1 << 30, "out_of_place": half, "in_place": {**half, "nwrong": 5.0}}],
        "out_of_bounds": {"count": 5, "okay": "false"},
        "average_bus_bandwidth": {"bandwidth": 365.9, "okay": "true"}, **changes,
    }


def test_what_dash_J_wrote_is_read_and_its_environment_is_left_alone() -> None:
    told = explained(json.dumps(document()).encode())
    assert told.causes[0].meaning == "Data came out wrong: 5 elements at 1 of 1 sizes"
    assert "hunter2" not in repr(told)
    assert told.form is FileKind.NCCL_TESTS


def ranks(count: int, hosts: int = 1, gpu: str = "NVIDIA H100 80GB HBM3") -> str:
    return "# Collective test starting: all_reduce_perf\n" + "".join(
        f"#  Rank {rank:2} Group  0 Pid   {1887 + rank} on   worker-{rank * hosts // count} device "
        f"{rank % 8:2} "
        f"[0000:8d:00] {gpu}\n" for rank in range(count))


def rows(*rates: float, of: int) -> str:
    made = ""
    for power, busbw in enumerate(rates, 29):
        algbw = busbw / (2 * (of - 1) / of)
        half = f"{(1 << power) / algbw / 1e3:.1f} {algbw:.4f} {busbw:.4f} 0"
        made += f" {1 << power} {1 << power - 2} float sum -1 {half} {half}\n"
    return made


def causes(text: str) -> list[str]:
    return [cause.by.removeprefix("nccl-tests ") for cause in explain(parse(text)[0], LineIndex(text))]


ONE = " 1073741824 268435456 float sum -1 5808.0 184.87 0.00 0 5882.2 182.54 0.00 0\n"
ENDED = " .. gpu3 pid 1: Test failure common.cu:401\n"


@pytest.mark.parametrize(("text", "said"), [
    (ranks(8) + HEAD + rows(400, 440, 470, of=8) + FOOT, []),
    (ranks(8) + HEAD + rows(400, 440, 470, of=4) + FOOT, ["ranks"]),        # fewer ranks than devices
    (ranks(8) + HEAD + rows(300, 310, 320, of=8) + FOOT, ["slow"]),
    (ranks(8) + HEAD + rows(900, 950, 999, of=8) + FOOT, ["fast"]),
    (ranks(16, 2) + HEAD + rows(40, 42, 44, of=16) + FOOT, ["slow-between"]),
    (ranks(8, gpu="Unheard Of") + HEAD + rows(3, 3, 3, of=8) + FOOT, []),
    (ranks(16, 2) + HEAD + rows(380, 385, 150, 386, 120, of=16) + FOOT, ["dip"]),
    (ranks(1) + HEAD + ONE + FOOT, []),     # it has no bandwidth
    *((f"{ranks(8)}{HEAD}{said}\n{ENDED}", ["failed"]) for said in (
        "gpu3: Test NCCL failure all_reduce.cu:44 'unhandled cuda error'", "gpu3: Test timeout",
        "gpu3: Test CUDA failure common.cu:892 'no CUDA-capable device is detected'")),
])
def test_bandwidths_are_compared_with_what_such_gpus_and_so_many_ranks_reach_and_a_failure_says_so(
    text: str, said: list[str],
) -> None:
    assert causes(text) == said


@pytest.mark.parametrize(("name", "said", "about"), [
    ("2.19-json-killed.json", ["cut"],
     "all_reduce_perf, 8 ranks, 2 sizes, busbw 478.25 GB/s at 8589934592 bytes"),
    ("2.19-json-no-gpu.json", ["cut"], "all_reduce_perf, 0 sizes"),
    ("2.19-without-mpi.txt", ["ranks"], "all_reduce_perf, 1 rank, 4 sizes"),
    ("2.19-timeout-16.txt", ["failed"],
     "all_reduce_perf, 16 ranks, 1 size, busbw 360.2 GB/s at 536870912 bytes"),
    ("rccl-16.csv", [], "AllReduce, 16 ranks, 2 sizes, busbw 385.98 GB/s at 17179869184 bytes"),
    ("2.17-srun-timestamps-72.txt", [],
     "all_reduce_perf, 72 ranks, 3 sizes, busbw 846.82 GB/s at 8589934592 bytes"),
])
def test_every_form_that_the_program_writes_is_known_and_explained(
    name: str, said: list[str], about: str,
) -> None:
    told = explained((RUNS / name).read_bytes(), name)
    assert told.form is FileKind.NCCL_TESTS
    assert [cause.by for cause in told.causes] == [f"nccl-tests {word}" for word in said]
    assert told.about == about


def test_runs_of_one_file_are_all_told() -> None:
    text = (RUNS / "2.19-wrong-8.txt").read_text() + (RUNS / "2.13-h100-16.txt").read_text() * 4
    told = explained(text.encode())
    assert [cause.by for cause in told.causes] == ["nccl-tests wrong"]
    assert told.about.endswith("; and 2 more")


def test_an_ok_that_verified_nothing_is_reported_and_is_no_fault() -> None:
    text = ranks(8) + HEAD + rows(400, 440, 470, of=8).replace(" 0 ",
                                                               " N/A ").replace(" 0\n", " N/A\n") + FOOT
    told = explained(text.encode())
    assert [cause.by for cause in told.causes] == ["nccl-tests unverified"]
    assert told.exit_code == 0


def test_figures_that_contradict_each_other_are_reported() -> None:
    wrong = " 1073741824 268435456 float sum -1 5808.0 365.90 640.33 0 5808.0 365.90 640.33 0\n"
    assert "columns" in causes(ranks(8) + HEAD + wrong + FOOT)


def test_a_line_that_another_program_broke_is_reported() -> None:
    broken = " 8589934592 2147483648 float sum -1 warning: something\n"
    (cause,) = explained((ranks(8) + HEAD + rows(400, 440, of=8) + broken + FOOT).encode()).causes
    assert (cause.by, cause.quotes[0].line) == ("nccl-tests broken", 13)
