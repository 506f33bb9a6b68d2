"""Cordons in a real Slurm: ours are found and released; a person's or Slurm's own never touched."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from healthcheck.store.cordons import open_cordons
from healthcheck.store.file import opened
from healthcheck.store.ledger import lines
from tests import command
from tests.command import MUSTER, environment
from tests.testbed.marks import plain
from tests.testbed.slurm import Slurm, fixture_of
from tests.testbed.sshd import wait_until

NODES = [f"gpu00{n}" for n in range(1, 9)]


bed = fixture_of(NODES)


@pytest.fixture(autouse=True)
def all_idle(bed: Slurm) -> Iterator[None]:
    yield
    bed.idle_again()


def muster(bed: Slurm, home: Path, *words: str) -> tuple[int, str, str]:
    done = command.muster(*words, home=home, **bed.environment)
    return done.returncode, plain(done.stdout), plain(done.stderr)


def test_a_node_is_drained_with_our_mark_and_given_back(bed: Slurm, tmp_path: Path) -> None:
    assert muster(bed, tmp_path, "cordon", "gpu001", "--reason", "fan 3 is loud") == (
        0, "gpu001: cordoned in slurm as muster#1\n", "")
    assert bed.state("gpu001") == "drained" and bed.reason("gpu001") == "muster#1: fan 3 is loud"
    assert muster(bed, tmp_path, "cordon", "gpu001", "--reason", "again") == (
        0, "gpu001: cordoned already as muster#1: fan 3 is loud\n", "")
    code, said, _ = muster(bed, tmp_path, "cordon")
    assert code == 0 and said.startswith("gpu001  muster#1  slurm  20") and said.endswith("  fan 3 is loud\n")
    assert muster(bed, tmp_path, "uncordon", "gpu001") == (0, "gpu001: muster#1 is released\n", "")
    assert bed.state("gpu001") == "idle" and muster(bed, tmp_path, "cordon") == (0, "no cordons\n", "")
    with opened(tmp_path / "state") as store:
        assert [(line.action, line.node, line.outcome) for line in lines(store)] == [
            ("cordon", "gpu001", "cordoned"), ("uncordon", "gpu001", "released")]


def test_a_node_that_is_down_is_left_to_whoever_brings_it_up(bed: Slurm, tmp_path: Path) -> None:
    bed.ask("scontrol", "update", "nodename=gpu004", "state=down", "reason=Not responding")
    assert (muster(bed, tmp_path, "cordon", "gpu004", "--reason", "x")[1]
            == "gpu004: left alone, others hold it: Not responding\n")
    assert bed.state("gpu004") == "down"


def test_a_node_that_went_down_under_our_cordon_is_not_brought_back_with_it(
    bed: Slurm, tmp_path: Path,
) -> None:
    muster(bed, tmp_path, "cordon", "gpu004", "--reason", "x")
    bed.ask("scontrol", "update", "nodename=gpu004", "state=down",
            f"reason={bed.ask('sinfo', '-h', '-n', 'gpu004', '-o', '%E').strip()}")
    assert muster(bed, tmp_path, "uncordon", "gpu004") == (
        1, "gpu004: muster#1 is released; slurm starts no job on it, for a reason of its own\n", "")
    assert bed.state("gpu004") == "down"


def test_a_job_that_runs_goes_on_and_the_next_one_does_not_start(bed: Slurm, tmp_path: Path) -> None:
    wait_until(lambda: bed.states()["gpu005"].rstrip("*") == "idle", what="an idle node")
    bed.ask("sbatch", "-p", "main", "-o", "/dev/null", "-w", "gpu005", "--wrap", "sleep 600")
    wait_until(lambda: bed.state("gpu005") in ("allocated", "mixed"), what="the job")
    assert muster(bed, tmp_path, "cordon", "gpu005", "--reason", "later")[0] == 0
    assert (bed.state("gpu005") == "draining" and "sleep" not in bed.reason("gpu005")
            and bed.ask("squeue", "-h", "-t", "R").strip())
    assert muster(bed, tmp_path, "uncordon", "gpu005")[1] == "gpu005: muster#1 is released\n"
    assert bed.state("gpu005") in ("allocated", "mixed")


def test_a_dry_run_changes_nothing_and_remembers_nothing(bed: Slurm, tmp_path: Path) -> None:
    assert muster(bed, tmp_path, "cordon", "gpu007", "--reason", "x", "--dry-run") == (
        0, "gpu007: would be cordoned in slurm: x\n", "")
    assert bed.state("gpu007") == "idle"
    with opened(tmp_path / "state") as store:
        assert lines(store) == [] and open_cordons(store) == []


def test_without_a_controller_nothing_is_done_and_it_is_reported_in_one_line(bed: Slurm,
                                                                             tmp_path: Path) -> None:
    bed.processes["slurmctld"].send_signal(signal.SIGSTOP)
    try:
        slow = {**bed.environment, "SLURM_CONF": str(_impatient(bed, tmp_path))}
        done = subprocess.run(
            [str(MUSTER), "cordon", "gpu007", "--reason", "x"], env=environment(tmp_path, **slow),
            capture_output=True, text=True, timeout=100, check=False, cwd=tmp_path)
    finally:
        bed.processes["slurmctld"].send_signal(signal.SIGCONT)
    assert done.returncode == 2 and done.stderr.startswith(
        "muster: scontrol ") and "see: scontrol ping" in done.stderr.lower()
    wait_until(lambda: bed.states().get("gpu007") == "idle", what="the controller")


def _impatient(bed: Slurm, folder: Path) -> Path:
    conf = folder / "slurm.conf"
    conf.write_text(bed.conf.read_text() + "MessageTimeout=3\n")
    return conf


def test_a_renamed_node_is_drained_under_its_new_name_and_the_old_one_stays_so(bed: Slurm,
                                                                               tmp_path: Path) -> None:
    for name in ("gpu001", "gpu002"):
        if bed.state(name) != "idle":
            bed.ask("scontrol", "update", f"nodename={name}", "state=resume")
    wait_until(lambda: {bed.state(name) for name in ("gpu001", "gpu002")} == {"idle"}, what="idle nodes")
    (tmp_path / "muster.yaml").write_text("version: 1\ncordon: slurm\nnodes:\n  gpu001:\n")
    muster(bed, tmp_path, "cordon", "gpu001", "--reason", "fan")
    code, said, noted = muster(bed, tmp_path, "inventory", "rename", "gpu001", "gpu002", "--yes")
    assert code == 1 and said.endswith("gpu001 -> gpu002: muster#1 in slurm, the store, muster.yaml\n")
    assert noted.startswith("note: slurm still has gpu001, which stays held as muster#1: ")
    assert [(bed.state(name), bed.reason(name))
            for name in ("gpu001", "gpu002")] == [("drained", "muster#1: fan")] * 2
    assert muster(bed, tmp_path, "uncordon", "gpu002") == (0, "gpu002: muster#1 is released\n", "")
    bed.ask("scontrol", "update", "nodename=gpu001", "state=resume")
