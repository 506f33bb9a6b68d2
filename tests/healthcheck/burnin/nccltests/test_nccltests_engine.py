"""How nccl-tests is started, and how a run becomes reports and accusations."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from healthcheck.burnin.faults import HUNG, RAISED, WRONG_DATA
from healthcheck.burnin.figures import FIGURES
from healthcheck.burnin.model import (
    Accusation,
    BurnInStage,
    Object,
    RankEnd,
    Seat,
    Task,
    TaskKind,
    TaskResult,
)
from healthcheck.burnin.nccltests import engine
from healthcheck.burnin.nccltests.formats import read
from healthcheck.burnin.nccltests.result import result
from inventory.errors import UsageError
from tests.healthcheck.burnin.nccltests.printer import RECORDINGS

USAGE = ("USAGE: all_reduce_perf \n\t[-b,--minbytes <min size in bytes>] \n\t"
         "[-N,--run_cycles <cycle count>] \n\t")
NEW = engine.options(USAGE + "[-T,--timeout <s>] \n\t[-I,--per_iter_timing <0/1>] \n\t"
                     "[-J,--output_file <file>] \n\t[-h,--help]\n")
OLD = engine.options(USAGE)
TEST = engine.Test("/opt/nccl-tests/build/all_reduce_perf", 1 << 33, seconds=120)


def task(*nodes: str, gpus: int = 8) -> Task:
    return Task("t1", BurnInStage.NODE, TaskKind.ALLREDUCE,
                tuple(Seat(node, gpu) for node in nodes for gpu in range(gpus)), 300)


def came(name: str, of: Task, code: int | None = 0) -> TaskResult:
    (run,) = read((RECORDINGS / name).read_text())
    return result(of, run, code, 1.0, 2.0)


def test_options_that_a_build_does_not_know_are_left_out() -> None:
    assert engine.words(TEST, OLD, 8) == (TEST.program, "-b", "8589934592", "-e", "8589934592", "-g", "8",
                                          "-n", "20", "-w", "5", "-c", "1", "-d", "float", "-o", "sum")
    assert engine.words(TEST, NEW, 8)[-4:] == ("-T", "120", "-I", "1")


def test_one_size_is_run_so_that_nothing_is_averaged_over_sizes() -> None:
    words = engine.words(TEST, NEW, 8)
    assert words[words.index("-b") + 1] == words[words.index("-e") + 1]


def test_only_what_is_needed_of_the_environment_comes_along() -> None:
    there = {"PATH": "/usr/bin", "NCCL_P2P_DISABLE": "1", "NCCL_TESTS_MIN_BW": "400",
             "AWS_SECRET_ACCESS_KEY": "x", "SLURM_JOB_ID": "7", "OMPI_MCA_btl": "tcp"}
    made = engine.environment(there, {"NCCL_ALGO": "RING"})
    assert made == {"PATH": "/usr/bin", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "OMPI_MCA_coll_hcoll_enable": "0",
                    "NCCL_ALGO": "RING"}


@pytest.mark.parametrize("name", ["nccl_algo", "A B", "LD PRELOAD", "", "A=B"])
def test_a_name_that_is_no_variables_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="no name of an environment variable"):
        engine.environment({}, {name: "1"})


def test_in_a_node_one_process_has_all_its_gpus() -> None:
    command = engine.in_node(TEST, NEW, 8, {})
    assert (command.argv[0], command.argv[command.argv.index("-g") + 1],
            command.ranks) == (TEST.program, "8", 8)


def test_slurm_starts_one_process_a_gpu_and_ends_all_with_one() -> None:
    command = engine.by_srun(TEST, NEW, ["gpu001", "gpu002"], 8, {}, extra=["--partition=burnin"])
    assert command.ranks == 16
    for word in ("--mpi=pmix", "--nodelist=gpu001,gpu002", "--ntasks=16", "--ntasks-per-node=8",
                 "--kill-on-bad-exit=1", "--partition=burnin"):
        assert word in command.argv[:command.argv.index("--")]
    rest = command.argv[command.argv.index("--") + 1:]
    assert rest == engine.words(TEST, NEW, 1)


@pytest.mark.parametrize("nodes", [[], ["-x"], ["a,b"], ["a:9"], ["a b"], ["$(id)"], ["gpu001", "gpu001"]])
def test_names_that_a_launcher_would_take_for_more_are_refused(nodes: list[str]) -> None:
    with pytest.raises(UsageError):
        engine.by_srun(TEST, NEW, nodes, 8, {})


def test_a_program_started_so_gets_these_words_and_this_environment_and_nothing_else(tmp_path: Path) -> None:
    program = tmp_path / "all reduce; perf"
    program.write_text(f"#!{sys.executable}\nimport json, os, sys\n"
                       "print(json.dumps([sys.argv[1:], dict(os.environ)]))\n")
    program.chmod(0o755)
    made = engine.environment({**os.environ, "SECRET": "x", "NCCL_P2P_DISABLE": "1"},
                              {"NCCL_IB_HCA": "=mlx5_0:1 $(id)"})
    command = engine.in_node(engine.Test(str(program), 1024), NEW, 2, made)
    ran = subprocess.run(command.argv, env=dict(command.environment), capture_output=True, text=True,
                         check=True, timeout=30)
    argv, there = json.loads(ran.stdout)
    assert tuple(argv) == command.argv[1:]
    assert there["NCCL_IB_HCA"] == "=mlx5_0:1 $(id)"
    assert not {"SECRET", "NCCL_P2P_DISABLE"} & set(there)


def test_a_run_that_counts_gives_every_seat_its_figures() -> None:
    came_of = came("2.19-json-8.json", task("worker-0"))
    assert came_of.whole and len(came_of.reports) == 8
    figures = came_of.reports[3].figures
    assert figures["busbw_gb_s"] == pytest.approx(478.25)
    assert figures["seconds_p50"] < figures["seconds_p99"] <= figures["seconds_max"]
    assert (figures["size_bytes"], figures["iterations"], figures["verified"]) == (float(1 << 33), 100.0, 2.0)
    assert set(figures) <= set(FIGURES)
    assert came_of.accusations == ()


def test_a_mean_is_not_given_for_a_median() -> None:
    assert "seconds_p50" not in came("2.13-h100-16.txt", task("node-a", "node-b")).reports[0].figures


@pytest.mark.parametrize(("name", "nodes", "code"), [
    ("2.13-h100-16.txt", ("node-a", "node-b", "node-c"), 0), ("2.13-h100-16.txt", ("node-a", "node-b"), 1),
    ("2.19-killed-16.txt", ("node-a", "node-b"), 0),
    ("2.13-h100-16.txt", ("node-a", "node-b"), None), ("2.13-h100-16.txt", ("node-a", "node-b"), -9),
], ids=["ranks", "exit", "cut", "called-off", "signal"])
def test_a_run_that_does_not_count_has_no_figures(name: str, nodes: tuple[str, ...],
                                                  code: int | None) -> None:
    came_of = came(name, task(*nodes), code)
    assert not came_of.whole
    assert all(not report.figures for report in came_of.reports)


def test_nothing_that_could_be_read_is_no_run() -> None:
    came_of = result(task("a"), None, 127, 0.0, 1.0)
    assert {report.end for report in came_of.reports} == {RankEnd.RAISED}
    assert came_of.reports[0].code == 127


@pytest.mark.parametrize(("nodes", "gpus", "object", "name"), [
    (("a",), 1, Object.GPU, "a:0"), (("a",), 8, Object.UNEXPLAINED, "t1"),
    (("a", "b"), 4, Object.UNEXPLAINED, "t1"),
], ids=["gpu", "node", "pair"])
def test_wrong_data_of_several_ranks_is_laid_on_no_one_for_whose_they_are_is_unknown(
    nodes: tuple[str, ...], gpus: int, object: Object, name: str,
) -> None:
    came_of = came("2.19-wrong-8.txt", task(*nodes, gpus=gpus), 7)
    (accusation,) = came_of.accusations
    assert (accusation.object, accusation.name, accusation.fault) == (object, name, WRONG_DATA)
    assert {report.wrong_total for report in came_of.reports} == {16777216}
    assert all(not wrong.owners for report in came_of.reports for wrong in report.wrong)


@pytest.mark.parametrize(("nodes", "object"), [(("a",), Object.NODE), (("a", "b"), Object.PAIR),
                                               (("a", "b", "c"), Object.UNEXPLAINED)])
def test_one_that_had_to_be_ended_hung_on_no_less_than_what_it_ran_on(
    nodes: tuple[str, ...], object: Object,
) -> None:
    came_of = result(task(*nodes), None, None, 0.0, 1.0)
    assert [(one.object, one.fault) for one in came_of.accusations] == [(object, HUNG)]
    assert {report.error for report in came_of.reports} == {"it did not end within its time limit"}


def test_a_timeout_that_every_host_prints_accuses_none_of_them() -> None:
    (accusation,) = came("2.19-timeout-16.txt", task("worker-0", "worker-1"), 4).accusations
    assert (accusation.object, accusation.name, accusation.fault) == (Object.PAIR, "worker-0 - worker-1",
                                                                      HUNG)


def test_a_host_whose_cuda_failed_is_accused_and_its_peers_are_not() -> None:
    assert came("2.19-cuda-failed-16.txt", task("worker-0", "worker-1"), 2).accusations == (
        Accusation(Object.NODE, "worker-1", RAISED, "worker-1: Test CUDA failure common.cu:501 'an illegal "
                   "memory access was encountered'", ("t1",)),)
