"""nccl-tests: the table of every version, with what launchers put between, and the figures that cannot be right."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.explainfile.ncclperf import Run, read, read_json
from healthcheck.explainfile.perfjudge import explain
from healthcheck.explainfile.quoting import Lines
from tests.healthcheck.explainfile.cases import explained

HEAD = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
OLD = "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n"
DATED = HEAD.replace("#wrong\n", "#wrong  timestamp\n")
EACH = HEAD.replace("#wrong", "#wrong  i_min  i_max  i_p99  i_cv%")
ROW = "  1073741824     268435456     float     sum      -1   5808.0  184.87  365.90  {}   5882.2  182.54  361.28  {}{}\n"
FOOT = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 363.59\n"


def run(text: str) -> Run:
    return read(Lines(text))


@pytest.mark.parametrize("text", [
    HEAD + ROW.format(0, 3, ""), HEAD + ROW.format("N/A", 3, ""),
    DATED + ROW.format(0, 3, " 2026-11-20 10:00:00"), EACH + ROW.format("0 1 2 3 4.0", "3 1 2 3 4.0", ""),
    HEAD.replace("root", "    ") + ROW.format(0, 3, "").replace("-1", "  "),
    "[1,0]<stdout>:" + HEAD + "[1,0]<stdout>:" + ROW.format(0, 3, ""), HEAD + "gpu1:1:2 [0] NCCL INFO x\n" + ROW.format(0, 3, ""),
    HEAD + "1073741824     268435456     float     sum      -1   [1,0]<stdout>:5808.0  184.87  365.90  0 5882.2  182.54  361.28  3\n",
], ids=["2.13", "unchecked", "-S", "-I", "no-root", "mpirun-tags", "nccl-info", "mid-line-tag"])
def test_the_table_of_every_version_is_read(text: str) -> None:
    (row,) = run(text + FOOT).rows
    assert row.size == 1 << 30
    assert [half.busbw for half in row.halves] == [365.90, 361.28]
    assert row.halves[1].wrong == 3


def test_the_error_column_of_old_versions_is_no_count_of_wrong_values() -> None:
    (row,) = run(OLD + "  1073741824     268435456   float     sum   5808.0  184.87  365.90  2e-07   5882.2  182.54  361.28  1e-07\n" + FOOT).rows
    assert [half.wrong for half in row.halves] == [None, None]


def document(**changes: Any) -> dict[str, Any]:
    half = {"time": 5808.0, "alg_bw": 184.87, "bus_bw": 365.9, "nwrong": 0}
    return {
        "version": 3, "args": ["/opt/all_reduce_perf", "-b", "1G"], "env": ["SECRET=hunter2"], "nccl_version": 23203,
        "config": {"devices": [{"hostname": "worker-0", "name": "NVIDIA H100 80GB HBM3"}]},
        "results": [{"size": 1 << 30, "out_of_place": half, "in_place": {**half, "nwrong": 5}}],
        "out_of_bounds": {"count": 5, "okay": "false"}, "average_bus_bandwidth": {"bandwidth": 365.9, "okay": "true"}, **changes,
    }


def test_what_dash_J_wrote_is_read_and_its_environment_is_left_alone() -> None:
    told = explained(json.dumps(document()).encode())
    assert told.causes[0].meaning == "Data came out wrong: 5 elements at 1 of 1 sizes"
    assert "hunter2" not in repr(told)
    assert read_json(document(results=[3, {"size": "x"}, {"size": 8, "in_place": None}])).rows == ()


def ranks(count: int, hosts: int = 1, gpu: str = "NVIDIA H100 80GB HBM3") -> str:
    return "# Collective test starting: all_reduce_perf\n" + "".join(
        f"#  Rank {rank:2} Group  0 Pid   {1887 + rank} on   worker-{rank * hosts // count} device {rank % 8:2} [0000:8d:00] {gpu}\n"
        for rank in range(count))


def rows(*rates: float, of: int) -> str:
    made = ""
    for power, busbw in enumerate(rates, 29):
        algbw = busbw / (2 * (of - 1) / of)
        half = f"{(1 << power) / algbw / 1e3:.1f} {algbw:.4f} {busbw:.4f} 0"
        made += f" {1 << power} {1 << power - 2} float sum -1 {half} {half}\n"
    return made


def causes(text: str) -> list[str]:
    return [cause.by.removeprefix("nccl-tests ") for cause in explain(run(text))]


def test_a_run_of_fewer_ranks_than_devices_shows_in_its_figures() -> None:
    assert causes(ranks(8) + HEAD + rows(400, 440, 470, of=8) + FOOT) == []
    assert causes(ranks(8) + HEAD + rows(400, 440, 470, of=4) + FOOT) == ["ranks"]


def test_bandwidths_are_compared_with_what_such_gpus_reach() -> None:
    assert causes(ranks(8) + HEAD + rows(300, 310, 320, of=8) + FOOT) == ["slow"]
    assert causes(ranks(8) + HEAD + rows(900, 950, 999, of=8) + FOOT) == ["fast"]
    assert causes(ranks(16, 2) + HEAD + rows(40, 42, 44, of=16) + FOOT) == ["slow-between"]
    assert causes(ranks(8, gpu="Unheard Of") + HEAD + rows(3, 3, 3, of=8) + FOOT) == []


def test_a_fall_at_larger_sizes_is_told() -> None:
    assert causes(ranks(16, 2) + HEAD + rows(380, 385, 150, 386, 120, of=16) + FOOT) == ["dip"]


def test_one_rank_has_no_bandwidth_and_is_not_called_slow() -> None:
    text = ranks(1) + HEAD + " 1073741824 268435456 float sum -1 5808.0 184.87 0.00 0 5882.2 182.54 0.00 0\n" + FOOT
    assert causes(text) == []


@pytest.mark.parametrize("said", ["gpu3: Test NCCL failure all_reduce.cu:44 'unhandled cuda error'", "gpu3: Test timeout",
                                  "gpu3: Test CUDA failure common.cu:892 'no CUDA-capable device is detected'"])
def test_a_test_that_failed_says_so(said: str) -> None:
    assert causes(ranks(8) + HEAD + said + "\n .. gpu3 pid 1: Test failure common.cu:401\n") == ["failed"]


@given(st.floats(1, 1e6), st.floats(0.01, 5000), st.floats(0.01, 5000), st.integers(0, 10**6))
def test_whatever_numbers_are_printed_are_read_back(time: float, algbw: float, busbw: float, wrong: int) -> None:
    half = f"{time:.1f} {algbw:.2f} {busbw:.2f} {wrong}"
    (row,) = run(HEAD + f" 8388608 2097152 float sum -1 {half} {half}\n" + FOOT).rows
    assert math.isclose(row.halves[0].busbw, busbw, abs_tol=0.005)
    assert [half.wrong for half in row.halves] == [wrong, wrong]
