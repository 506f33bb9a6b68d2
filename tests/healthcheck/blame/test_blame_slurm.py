"""`muster blame` with a real Slurm that keeps no accounts: slurmctld still remembers the job."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import muster
from tests.testbed.require import require
from tests.testbed.slurm import WHY_NOT, Slurm, can_run
from tests.testbed.slurm import slurm as cluster
from tests.testbed.sshd import wait_until


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    require(can_run(), WHY_NOT)
    with cluster(tmp_path_factory.mktemp("slurm"), ["gpu001", "gpu002"]) as running:
        yield running


def run(bed: Slurm, folder: Path, script: str) -> str:
    """The number of a job on both nodes that ran the script, and has ended."""
    (folder / "job.sh").write_text(f"#!/bin/sh\n{script}\n")
    number = bed.ask("sbatch", "--parsable", "-p", "main", "-N2", "-D", str(folder), "-o",
                     str(folder / "job.out"), str(folder / "job.sh")).strip()
    wait_until(lambda: not bed.ask("squeue", "-h", "-j", number).strip(), 60, "the end of the job")
    return number


def blame(bed: Slurm, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return muster("blame", *words, home=folder, **bed.environment)


def test_the_node_of_the_task_that_was_killed_is_named(bed: Slurm, tmp_path: Path) -> None:
    number = run(bed, tmp_path, "srun -K -N2 sh -c 'test $SLURM_PROCID = 1 && kill -9 $$; sleep 30'")
    done = blame(bed, tmp_path, number, "--log", "job.out")
    # srun may still write of the other task, which it then kills itself,
    # before the job's last look at its output
    first = done.stdout.split("\n")[0].replace(", the first of 2", "")
    assert first == "gpu002: rank 1 was ended by signal 9; likely; owner operator", done.stderr
    assert "the record of scontrol show job" in done.stdout
    assert done.returncode == 1


def test_a_job_that_went_well_has_nothing_to_blame(bed: Slurm, tmp_path: Path) -> None:
    number = run(bed, tmp_path, "srun -N2 true")
    done = blame(bed, tmp_path, number)
    assert (done.stdout.split("\n")[0], done.returncode) == (f"job {number} completed: nothing to blame",
                                                             0), done.stderr


def test_a_job_that_slurm_does_not_know_is_one_line(bed: Slurm, tmp_path: Path) -> None:
    done = blame(bed, tmp_path, "99999")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == ("muster: job 99999 is unknown: sacct failed (exit 1): Slurm accounting storage "
                           "is disabled; scontrol failed (exit 1): slurm_load_jobs error: Invalid job id "
                           "specified; without a record: muster blame --nodes N --since T --until T\n")
