"""The gate in front of the jobs of a real Slurm: they start, are held, go on after the head is gone, and no
node is ever drained by it."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.command import MUSTER, muster
from tests.healthcheck.gate.fleet import Place, fleet
from tests.testbed.require import require
from tests.testbed.slurm import WHY_NOT, Slurm, can_run, slurm
from tests.testbed.sshd import wait_until

NODES = ["gpu001", "gpu002"]
HOUR = 3600


@dataclass
class Gated:
    """A cluster whose jobs go through the hook that `muster gate --print slurm` printed."""

    bed: Slurm
    place: Place
    folder: Path
    serial: int = 10

    def publish(self, *, hours_ago: int = 0, **odd: dict[str, object]) -> None:
        """A new snapshot, in which single nodes are otherwise."""
        self.serial += 1
        at = int(time.time()) - hours_ago * HOUR
        self.place.put(fleet(2, at, **odd), now=at, serial=self.serial)

    def submit(self, *more: str) -> str:
        """A job on both nodes, which leaves a file named as its number when it has run."""
        return self.bed.ask("sbatch", "--parsable", "-p", "main", "-N2", "-D", str(self.folder), "-o",
                            "/dev/null", *more, "--wrap", f"touch {self.folder}/$SLURM_JOB_ID").strip()

    def ran(self, job: str) -> bool:
        return (self.folder / job).exists()

    def job(self, job: str) -> dict[str, str]:
        """Some of what Slurm says of a job."""
        words = self.bed.ask("scontrol", "-o", "show", "job", job)
        return {key: words.partition(f"{key}=")[2].partition(" ")[0]
                for key in ("JobState", "Reason", "Priority")} | {"all": words}

    def held(self, job: str) -> bool:
        found = self.job(job)
        return (found["JobState"], found["Priority"], found["Reason"]) == (
            "PENDING", "0", "job_requeued_in_held_state")

    def await_held(self, job: str) -> None:
        """Fails with what Slurm says of the job, and the ends of its daemons' logs."""
        try:
            wait_until(lambda: self.held(job), 90, "the hold")
        except AssertionError as error:
            logs = "\n".join(f"{log.name}: {log.read_text(errors='replace')[-2000:]}"
                             for log in sorted((self.folder / "slurm").glob("*.log")))
            raise AssertionError(f"{error}: {self.job(job)['all']}\n{logs}") from None

    def undrained(self) -> bool:
        return all("drain" not in state and "down" not in state for state in self.bed.states().values())


@contextlib.contextmanager
def gated(folder: Path, lines: str, hook: str | None = None) -> Iterator[Gated]:
    """`lines` of slurm.conf name the hook HOOK; `hook` is another than the printed one."""
    place = Place(folder / "gate")
    wrapped = folder / "muster"       # points the hook's muster at this snapshot
    wrapped.write_text(
        f"#!/bin/sh\nMUSTER_GATE={folder}/gate MUSTER_GATE_KEYS={place.keys} exec {MUSTER} \"$@\"\n")
    printed = muster("gate", "--print", "slurm", home=folder, SLURM_CONF=str(folder / "slurm" / "slurm.conf"))
    assert printed.returncode == 0 and printed.stdout.startswith("#!/bin/sh\n")
    script = folder / "hook"
    script.write_text((hook or printed.stdout).replace(str(MUSTER), str(wrapped)))
    for each in (wrapped, script):
        each.chmod(0o755)
    (folder / "slurm").mkdir()
    # A node that is asked while the cores are busy has time to answer: it is asked again only after minutes.
    quick = "MessageTimeout=60\nSchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1"
    with slurm(folder / "slurm", NODES, cred_expire=5,
               extra=f"{quick}\n{lines}".replace("HOOK", str(script))) as bed:
        yield Gated(bed, place, folder)


HOOKS = {"controller": "PrologSlurmctld=HOOK", "prolog": "Prolog=HOOK\nPrologFlags=Alloc,DeferBatch"}


@pytest.fixture(scope="module", params=HOOKS.values(), ids=HOOKS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gated]:
    require(can_run(), WHY_NOT)
    with gated(tmp_path_factory.mktemp("gated"), request.param) as found:
        yield found


def test_a_job_is_held_on_a_closed_gate_and_starts_when_it_opens_and_no_node_is_drained(
    cluster: Gated,
) -> None:
    cluster.publish(gpu002={"lifecycle": "rma"})
    job = cluster.submit()
    cluster.await_held(job)
    assert "gpu002: not in service: rma" in cluster.job(job)["all"]
    wait_until(lambda: set(cluster.bed.states().values()) == {"idle"}, what="idle nodes")
    assert not cluster.ran(job)
    cluster.publish()
    cluster.bed.ask("scontrol", "release", job)
    wait_until(lambda: cluster.ran(job), 120, "the job, released")
    assert cluster.undrained()


def test_both_nodes_may_be_closed_at_once_and_the_job_is_held_all_the_same(cluster: Gated) -> None:
    cluster.publish(gpu001={"certificate": None}, gpu002={"certificate": None})
    job = cluster.submit()
    cluster.await_held(job)
    assert cluster.undrained()
    cluster.bed.ask("scancel", job)


def test_jobs_start_while_the_head_has_been_gone_for_eight_hours(cluster: Gated) -> None:
    cluster.publish(hours_ago=8)
    job = cluster.submit()
    wait_until(lambda: cluster.ran(job), 120, "the job")
    assert cluster.undrained()


def test_jobs_start_where_the_gate_cannot_tell(cluster: Gated) -> None:
    cluster.place.snapshot.unlink()
    job = cluster.submit()
    wait_until(lambda: cluster.ran(job), 120, "the job")
    assert cluster.undrained()


def test_a_job_that_cannot_be_requeued_is_cancelled_on_a_closed_gate(cluster: Gated) -> None:
    cluster.publish(gpu002={"lifecycle": "rma"})
    job = cluster.submit("--no-requeue")
    wait_until(lambda: cluster.job(job)["JobState"] in ("CANCELLED", "FAILED"), 120, "the end of the job")
    assert not cluster.ran(job)
    wait_until(lambda: set(cluster.bed.states().values()) == {"idle"}, what="idle nodes")


def test_what_slurm_does_where_the_gate_itself_is_the_prolog_is_to_drain(tmp_path: Path) -> None:
    require(can_run(), WHY_NOT)
    with gated(tmp_path, "Prolog=HOOK", hook=f"#!/bin/sh\nexec {MUSTER} gate --slurm-prolog\n") as found:
        found.publish(gpu001={"lifecycle": "rma"})       # where the batch script starts
        job = found.submit()
        wait_until(lambda: "drain" in found.bed.states()["gpu001"], 60, "Slurm's own drain")
        assert "Prolog error" in found.bed.ask("sinfo", "-h", "-N", "-n", "gpu001", "-o", "%E")
        subprocess.run(["scancel", job], env=found.bed.environment, check=False)
