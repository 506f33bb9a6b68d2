"""nccl-tests as the engine of all-reduces, by a stand-in for all_reduce_perf that prints a recorded run:
there is no GPU here.

All else is real: what is sent to a node and what comes back, Slurm with its reservations, and PyTorch's
ranks. Slurm here has no PMIx library, which the stand-in does not need: where it shall start, a wrapper
before srun says --mpi=none.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from healthcheck.burnin.faults import HUNG, LOST, WRONG_DATA
from healthcheck.burnin.model import BurnInStage, Object, RankEnd, Seat, Task, TaskKind, TaskResult
from healthcheck.burnin.stages import StageStep
from healthcheck.model.lease import Granted, Lease
from inventory.model import Node
from inventory.transport.base import Failure, Limits, Reply
from inventory.transport.base import Stage as How
from inventory.transport.local import LocalTransport
from provisioning.burnin import headrun, nccltests
from provisioning.burnin.engines import left_to_torch
from provisioning.burnin.headrun import HeadCommand, in_parallel
from provisioning.burnin.nccltests import NcclTests, why_not
from tests.provisioning.burnin.site import Site
from tests.testbed import allreduceperf, torches
from tests.testbed.planted import executable
from tests.testbed.slurm import Slurm, fixture_of
from tests.testbed.sshd import wait_until

MIB = 1 << 20
bed = fixture_of(["n1", "n2"])


def task(*nodes: str, gpus: int = 8, seconds: float = 20.0, name: str = "t1", **more: Any) -> Task:
    return Task(name, BurnInStage.NODE, TaskKind.ALLREDUCE,
                tuple(Seat(node, gpu) for node in nodes for gpu in range(gpus)), seconds,
                MappingProxyType({"bytes": 64 * MIB, "iterations": 10}), **more)


class Bench:
    """nccl-tests on nodes that all are this machine, under a lease that no one questions."""

    def __init__(self, folder: Path | None, *names: str, transport: Any = None) -> None:
        names = names or ("n1",)
        self.lost: dict[str, str] = {}
        self.message: list[str] = []
        granted = Granted(transport or LocalTransport(), Limits(), Lease(frozenset(names), "muster-1"))
        self.perf = NcclTests(str(folder) if folder is not None else None,
                              [Node(name, python=sys.executable) for name in names], dict.fromkeys(names, 8),
                              granted, 4, self.lost.__setitem__, self.message.append)

    def run(self, *tasks: Task) -> list[TaskResult]:
        assert self.perf.sample() == {}
        return list(self.perf.run(tasks))


def test_a_sound_node_has_the_figures_of_its_all_reduce_on_every_gpu(tmp_path: Path) -> None:
    bench = Bench(allreduceperf.install(tmp_path / "build"))
    [result] = bench.run(task("n1"))
    assert result.whole and result.accusations == () and bench.message == [] and len(result.reports) == 8
    for report in result.reports:
        assert (report.figures["busbw_gb_s"] == 478.0
                and report.figures["size_bytes"] == 64 * MIB and report.figures["verified"] > 0)
        assert (report.facts["engine"] == "nccl-tests 2.19.6"
                and report.facts["device"] == "NVIDIA H100 80GB HBM3")


def test_it_gets_what_the_task_says_and_nothing_of_the_environment_that_would_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NCCL_P2P_DISABLE", "1")
    monkeypatch.setenv("NCCL_TESTS_MIN_BW", "1")
    folder = allreduceperf.install(tmp_path / "build")
    pair = Task("rail", BurnInStage.RAIL, TaskKind.ALLREDUCE, (Seat("n1", 2), Seat("n1", 3)), 20.0,
                MappingProxyType({"bytes": MIB, "dtype": "bf16"}),
                MappingProxyType({"NCCL_IB_HCA": "=mlx5_1 $(id)"}))
    assert Bench(folder).run(pair)[0].whole
    [start] = allreduceperf.started(folder)
    words = dict(zip(start["argv"][::2], start["argv"][1::2], strict=True))
    assert words == {
        "-b": str(MIB), "-e": str(MIB), "-g": "2", "-n": "50", "-w": "5", "-c": "1", "-d": "bfloat16",
        "-o": "sum", "-T": "20"}
    there = start["environment"]
    assert (there["NCCL_IB_HCA"] == "=mlx5_1 $(id)"
            and there["CUDA_VISIBLE_DEVICES"] == "2,3" and "PATH" in there)
    assert not {"NCCL_P2P_DISABLE", "NCCL_TESTS_MIN_BW"} & set(there)


def test_tasks_of_one_node_are_run_in_turn_and_each_has_its_own_result(tmp_path: Path) -> None:
    bench = Bench(allreduceperf.install(tmp_path / "build"), "n1", "n2")
    tasks = [task("n1", name="a", gpus=2), task("n1", name="b"), task("n2", name="c")]
    found = {result.task.id: len(result.reports) for result in bench.run(*tasks) if result.whole}
    assert found == {"a": 2, "b": 8, "c": 8}


def test_wrong_counts_are_unexplained_for_they_do_not_say_whose_they_are(tmp_path: Path) -> None:
    [result] = Bench(allreduceperf.install(tmp_path / "build", "wrong")).run(task("n1"))
    [one] = result.accusations
    assert (
        one.object, one.name, one.fault) == (Object.UNEXPLAINED, "t1",
                                             WRONG_DATA) and "pair tests can tell" in one.why
    assert all(report.wrong_total == 32 and not report.figures for report in result.reports)


@pytest.mark.parametrize(
    ("fault", "said"),
    [("fewer", "t1 does not count: nccl-tests: it lists 7 ranks, and 8 were started"),
     ("cut", "t1 does not count: nccl-tests: it has no footer: its table stops after size 67108864"),
     ("garbage",
      "t1 does not count: nccl-tests: it has no footer: its table stops before its first size "
      "([2J[red]nothing "
      "of the kind)"),
     ("crash", "t1 does not count: nccl-tests: it has no footer: its table stops before its first size")])
def test_what_cannot_count_has_no_figure_accuses_no_one_and_is_said(
    tmp_path: Path, fault: str, said: str,
) -> None:
    bench = Bench(allreduceperf.install(tmp_path / "build", fault))
    [result] = bench.run(task("n1"))
    assert not result.whole and result.accusations == () and not any(
        report.figures for report in result.reports)
    assert [line.replace("\\x1b", "").replace("\\x00", "") for line in bench.message] == [said]


def test_what_prints_without_end_is_stopped_by_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nccltests, "MOST_BYTES", MIB)
    [result] = Bench(allreduceperf.install(tmp_path / "build", "flood")).run(task("n1"))
    assert not result.whole and result.accusations == ()


def test_one_that_hangs_is_ended_when_its_time_is_over_and_its_node_hung(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nccltests, "OWN_END_S", 0.5)
    bench = Bench(allreduceperf.install(tmp_path / "build", "hang"))
    [result] = bench.run(task("n1", seconds=1.0))
    assert [(one.object, one.name, one.fault) for one in result.accusations] == [(Object.NODE, "n1", HUNG)]
    assert {
        report.end for report in result.reports} == {RankEnd.CALLED_OFF} and result.ended - result.began < 10


@pytest.mark.parametrize("folder", ["/no/such/build", None])
def test_where_it_is_not_there_the_node_is_told_what_to_do(folder: str | None) -> None:
    [why] = Bench(Path(folder) if folder else None).perf.sample().values()
    path = f"{folder}/all_reduce_perf" if folder else "all_reduce_perf"
    assert why == (f"all_reduce_perf is not there: {path}: No such file or directory; install nccl-tests, or "
                   f"name its folder with `burnin: {{nccl_tests: /opt/nccl-tests/build}}` in the inventory")


def test_one_that_does_not_start_says_why(tmp_path: Path) -> None:
    program = allreduceperf.install(tmp_path / "build") / "all_reduce_perf"
    program.write_text("#!/bin/sh\necho 'error while loading shared libraries: libnccl.so.2' >&2\nexit 127\n")
    assert Bench(tmp_path / "build").perf.sample() == {
        "n1": "all_reduce_perf --help does not list its options: error while loading shared libraries: "
              "libnccl.so.2"}


class Breaks:
    """The first look is answered; then every node fails at this stage."""

    def __init__(self, stage: How) -> None:
        self.stage, self.looks = stage, 0

    def run(self, nodes: Any, program: Any, limits: Limits) -> Any:
        self.looks += 1
        if self.looks == 1:
            yield from LocalTransport().run(nodes, program, limits)
            return
        yield from (Reply(node.name, None, Failure(self.stage, "it is gone"), 0.0, 0.0) for node in nodes)


@pytest.mark.parametrize(
    ("stage", "lost"),
    [(How.REPLY, True), (How.DEADLINE, True), (How.CONNECT, False), (How.LEASE, False), (How.TURN, False)])
def test_a_node_that_goes_away_under_the_test_is_accused_and_one_that_was_not_reached_is_not(
    tmp_path: Path, stage: How, lost: bool,
) -> None:
    bench = Bench(allreduceperf.install(tmp_path / "build"), transport=Breaks(stage))
    found = bench.run(task("n1", name="a"), task("n1", name="b"))
    assert [(one.object, one.fault) for result in found for one in result.accusations] == [
        (Object.NODE, LOST)] * (2 if lost else 0)
    assert bench.lost == ({} if lost else {"n1": f"{stage.value}: it is gone"})


def test_what_is_left_to_pytorch_is_said_with_the_reason() -> None:
    between, soak = task("n1", "n2"), Task("s", BurnInStage.SOAK, TaskKind.ALLREDUCE, (Seat("n1", 0),), 9.0,
                                           MappingProxyType({"run_s": 3600.0}))
    unlike = task(
        "n1", "n2", local=MappingProxyType({"n1": {"NCCL_IB_HCA": "=a"}, "n2": {"NCCL_IB_HCA": "=b"}}))
    assert why_not(
        between, slurm=True) == "" and "name their ports differently" in why_not(unlike, slurm=True)
    steps = [StageStep(stage, "1", (one,), 1.0) for stage, one in (
        (BurnInStage.NODE, task("n1")), (BurnInStage.ALL, between), (BurnInStage.SOAK, soak))]
    assert left_to_torch(steps, slurm=False) == [
        "all-reduce of all is left to PyTorch: between nodes nccl-tests needs MPI and something to start it: "
        "--launcher slurm",
        "all-reduce of soak is left to PyTorch: nccl-tests counts iterations, and this one lasts for a time"]
    assert len(left_to_torch(steps, slurm=True)) == 1


def test_commands_here_are_bounded_in_time_and_room_and_what_ignores_the_end_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(headrun, "TERM_S", 0.5)
    deaf = ("import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('here', flush=True); "
            "time.sleep(60)")
    words = {
        "well": "print('x' * 10)", "deaf": deaf, "flood": "while True: print('y' * 1000)",
        "bad": "raise SystemExit(3)"}
    commands = [HeadCommand(name, (sys.executable, "-c", text), {}, 1.0) for name, text in words.items()]
    found = {
        ran.name: ran for ran in in_parallel([*commands, HeadCommand("none", ("/no/such",), {}, 1.0)], 5000)}
    assert {name: ran.code for name, ran in found.items()} == {
        "well": 0, "deaf": None, "flood": None, "bad": 3, "none": 127}
    assert found["well"].output == b"xxxxxxxxxx\n" and len(
        found["flood"].output) == 5000 and b"No such file" in found["none"].output


def _site(tmp_path: Path, fault: str = "", python: str | None = None, ranks: int = 2, **more: Any) -> Site:
    site = Site(tmp_path, python or torches.forked(), ranks=ranks, **more)
    text = json.loads((tmp_path / "muster.yaml").read_text())
    text["burnin"]["nccl_tests"] = str(allreduceperf.install(tmp_path / "build", fault))
    if python is not None:
        text["defaults"]["burnin"]["python"] = [python]
    (tmp_path / "muster.yaml").write_text(json.dumps(text))
    return site


def _engines(found: Mapping[str, Any]) -> set[tuple[str, str, str]]:
    return {
        (one["stage"], one["kind"], one["reports"]["facts"].get("engine", "torch")) for one in found["tasks"]}


def test_in_nodes_it_runs_the_all_reduce_and_between_them_pytorch_does_and_the_page_says_so(
    tmp_path: Path,
) -> None:
    site = _site(tmp_path, nodes=2, ranks=1)
    done = site.run("--engine", "nccl-tests", "--stages", "node,leaf-pairs", code=0)
    left = ("all-reduce of leaf-pairs is left to PyTorch: between nodes nccl-tests needs MPI and something "
            "to start it: --launcher slurm")
    assert f"muster: {left}\n" in done.stderr and left in done.stdout
    found = site.document()
    assert (found["options"]["engine"] == "nccl-tests"
            and ("node", "allreduce", "nccl-tests 2.19.6") in _engines(found))
    assert ("leaf-pairs", "allreduce", "torch") in _engines(
        found) and ("node", "known", "torch") in _engines(found)
    assert "allreduce (nccl-tests 2.19.6)" in done.stdout and site.cordoned() == []


def test_where_pytorch_is_not_there_nothing_passes_by_nccl_tests_alone(tmp_path: Path) -> None:
    site = _site(tmp_path, python="/no/such/python", nodes=1)
    site.run("--engine", "nccl-tests", "--stages", "node", code=3)
    found = site.document()
    assert _engines(found) == {("node", "allreduce", "nccl-tests 2.19.6")} and found["accusations"] == []
    assert (found["nodes"][0]["outcome"] == "unknown"
            and "nothing was measured with PyTorch there" in found["nodes"][0]["why"][0])


def test_a_node_without_it_is_unknown_and_nothing_else_takes_its_place(tmp_path: Path) -> None:
    site = _site(tmp_path, nodes=1)
    (tmp_path / "build/all_reduce_perf").unlink()
    done = site.run("--engine", "nccl-tests", "--stages", "node")
    assert done.returncode == 3 and "all_reduce_perf is not there: " in done.stdout, (
        done.stdout, done.stderr)
    assert site.document()["tasks"] == [] and site.cordoned() == []


def _without_pmix(folder: Path, environment: Mapping[str, str], instead: str = "none") -> dict[str, str]:
    folder.mkdir()
    executable(
        folder / "srun", f"#!{sys.executable} -IS\n"
        "import os, sys\n"
        f"words = [w if w != '--mpi=pmix' else '--mpi={instead}' for w in sys.argv[1:]]\n"
        f"os.execv({shutil.which('srun')!r}, ['srun', *words])\n")
    return {**environment, "PATH": f"{folder}:{environment['PATH']}"}


@pytest.mark.slow
def test_through_a_real_slurm_ranks_of_both_nodes_are_one_run_within_the_lease_s_reservation(
    bed: Slurm, tmp_path: Path,
) -> None:
    site = _site(
        tmp_path, nodes=2, ranks=1, cordon="slurm", small={"allreduce.bytes": 64 * MIB, "sizes.bytes": 64})
    site.run("--engine", "nccl-tests", "--stages", "node,leaf-pairs,all", launcher="slurm",
             code=0, **_without_pmix(tmp_path / "bin", bed.environment))
    assert "ReservationName" not in bed.ask("scontrol", "show", "reservation")
    found = site.document()
    assert {(stage, engine) for stage, kind, engine in _engines(found) if kind == "allreduce"} == {
        (stage, "nccl-tests 2.19.6") for stage in ("node", "leaf-pairs", "all")}
    of_nodes = [
        one for one in found["tasks"] if one["stage"] in ("leaf-pairs", "all") and one["kind"] == "allreduce"]
    assert [one["reports"]["figures"]["busbw_gb_s"] for one in of_nodes] == [478] * 2
    of_two = [one["environment"] for one in allreduceperf.started(tmp_path / "build")
              if one["environment"].get("SLURM_NTASKS") == "2"]
    assert len(of_two) == 4 and all(one["SLURM_JOB_RESERVATION"].startswith("muster-") for one in of_two)


@pytest.mark.slow
def test_wrong_counts_between_two_nodes_accuse_neither_of_them(bed: Slurm, tmp_path: Path) -> None:
    site = _site(tmp_path, "wrong", nodes=2, ranks=1, cordon="slurm")
    site.run("--engine", "nccl-tests", "--stages", "leaf-pairs", launcher="slurm",
             code=1, **_without_pmix(tmp_path / "bin", bed.environment))
    found = site.document()
    assert {(one["object"], one["fault"]) for one in found["accusations"]} == {("unexplained", "wrong data")}
    assert {one["outcome"] for one in found["nodes"]} == {"unknown"}


def test_told_to_end_while_srun_is_at_work_it_leaves_no_job_and_no_process(
    bed: Slurm, tmp_path: Path,
) -> None:
    site = _site(tmp_path, "hang", nodes=2, ranks=1, cordon="slurm")
    environment = site.environment(**_without_pmix(tmp_path / "bin", bed.environment))
    head = subprocess.Popen(
        site.words("--engine", "nccl-tests", "--stages", "leaf-pairs", launcher="slurm"), cwd=tmp_path,
        env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True)
    wait_until(lambda: len(_starts(tmp_path / "build")) == 2, 30, "the test on both nodes")
    head.send_signal(signal.SIGTERM)
    out, err = head.communicate(timeout=60)
    assert head.returncode == 130 and "the burn-in was not finished" in out, (out, err)
    wait_until(lambda: set(bed.states().values()) == {"idle"}, what="idle nodes")
    assert "ReservationName" not in bed.ask("scontrol", "show", "reservation")
    assert not [pid for pid in _starts(tmp_path / "build") if Path(f"/proc/{pid}").exists()]


def _starts(folder: Path) -> list[str]:
    return [path.stem.partition("-")[2] for path in folder.glob("start-*.json")]


def test_where_srun_does_not_start_it_nothing_was_measured_and_it_is_said(bed: Slurm, tmp_path: Path) -> None:
    site = _site(tmp_path, nodes=2, ranks=1, cordon="slurm")
    done = site.run("--engine", "nccl-tests", "--stages", "leaf-pairs", launcher="slurm",
                    **_without_pmix(tmp_path / "bin", bed.environment, "pmix_v0"))
    assert done.returncode == 3 and site.document()["accusations"] == [], (done.stdout, done.stderr)
    assert ("leaf-pairs-1-0 was not measured: Slurm did not start all_reduce_perf: srun: error: Invalid MPI "
            "type 'pmix_v0'" in done.stdout)
