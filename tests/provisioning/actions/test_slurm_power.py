"""Nodes that a real Slurm powers down or up: cordoned alike, and no job wakes a cordoned one."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from healthcheck.store.cordons import open_cordons
from healthcheck.store.file import opened
from provisioning.actions.base import Holder
from provisioning.actions.cordon import cordon, uncordon
from provisioning.actions.slurm import SlurmBackend as Backend
from provisioning.triage.apply import settle
from tests.testbed.newslurm import programs
from tests.testbed.require import require
from tests.testbed.slurm import WHY_NOT, Slurm, can_run
from tests.testbed.slurm import slurm as cluster
from tests.testbed.sshd import wait_until

NODES = ["gpu001", "gpu002", "gpu003", "gpu004", "gpu005", "gpu006"]
DARK = ["gpu001", "gpu003", "gpu004"]       # without power from the beginning


@pytest.fixture(scope="module",
                params=["22.05", pytest.param("24.11", marks=[pytest.mark.slow, pytest.mark.timeout(300)])])
def bed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    require(can_run(), WHY_NOT)
    newer = programs(tmp_path_factory.mktemp("trixie")) if request.param == "24.11" else None
    folder = tmp_path_factory.mktemp("slurm")
    for name in ("suspend", "resume"):
        (folder / name).write_text(f"#!/bin/sh\necho {name} \"$@\" >> {folder}/power.log\n")
        (folder / name).chmod(0o755)
    with cluster(folder, NODES,
                 extra=f"SuspendProgram={folder}/suspend\n"
                       f"ResumeProgram={folder}/resume\n"
                       "SuspendTime=3600\n"
                       "SuspendTimeout=2\n"
                       "NodeName=cloud1 NodeHostname=cloud1 State=CLOUD CPUs=1 RealMemory=100\n"
                       "ResumeTimeout=60\n"
                       "SchedulerParameters=bf_interval=1,sched_interval=1", programs=newer) as running:
        for node in DARK:
            running.ask("scontrol", "update", f"nodename={node}", "state=power_down")
        for node in DARK:
            wait_until(lambda node=node: "POWERED_DOWN" in states(running, node), 30, node)  # type: ignore[misc]
        yield running


@pytest.fixture(autouse=True)
def _asked(bed: Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in bed.environment.items():
        monkeypatch.setenv(key, value)


def states(bed: Slurm, node: str) -> set[str]:
    shown = bed.ask("scontrol", "--all", "-o", "show", "node", node).split(" State=", 1)[1].split()[0]
    return set(shown.split("+")) - {"NOT_RESPONDING"}


@pytest.mark.parametrize("node", ["gpu001", pytest.param("gpu002", marks=pytest.mark.slow)])
def test_a_node_without_power_is_cordoned_and_given_back_and_no_job_wakes_it_meanwhile(
    bed: Slurm, tmp_path: Path, node: str,
) -> None:
    if node not in DARK:
        bed.ask("scontrol", "update", f"nodename={node}", "state=power_down")
        wait_until(lambda: "POWERING_DOWN" in states(bed, node), 30, "a node that loses its power")
    assert Backend().held([node])[node].holder is Holder.NO_ONE
    with opened(tmp_path, make=True) as store:
        assert cordon(store, Backend(), [node], "Xid 79", "me", time.time)[
            0].message.startswith("cordoned in slurm as muster:")
        wait_until(lambda: states(bed, node) == {"IDLE", "DRAIN", "POWERED_DOWN"}, 30, "a node without power")
        subprocess.run(["sbatch", "-p", "main", "-w", node, "--wrap", "true", "-o", "/dev/null"],
                       env=bed.environment, check=True, capture_output=True)
        wait_until(lambda: bed.ask("squeue", "-h", "-o", "%r").strip() not in ("", "None", "Priority"), 30,
                   "the scheduler's word on the job")
        assert states(bed, node) == {"IDLE", "DRAIN", "POWERED_DOWN"}
        assert f"resume {node}" not in (bed.folder / "power.log").read_text()
        subprocess.run(["scancel", "-u", "root"], env=bed.environment, check=True)
        assert "is released" in uncordon(store, Backend(), [node], "", "me", time.time)[0].message
    assert states(bed, node) == {
        "IDLE", "POWERED_DOWN"} and f"resume {node}" not in (bed.folder / "power.log").read_text()


def test_a_node_that_is_being_woken_is_cordoned_and_keeps_on_waking(bed: Slurm, tmp_path: Path) -> None:
    bed.ask("scontrol", "update", "nodename=gpu003", "state=power_up")
    wait_until(lambda: "POWERING_UP" in states(bed, "gpu003"), 30, "a node that wakes")
    with opened(tmp_path, make=True) as store:
        assert cordon(store, Backend(), ["gpu003"], "Xid 79", "me", time.time)[
            0].message.startswith("cordoned in slurm as muster:")
        assert states(bed, "gpu003") == {"IDLE", "DRAIN", "POWERING_UP"}
        uncordon(store, Backend(), ["gpu003"], "", "me", time.time)
    assert states(bed, "gpu003") == {"IDLE", "POWERING_UP"}


def test_a_node_without_power_that_a_person_drained_is_theirs(bed: Slurm) -> None:
    bed.ask("scontrol", "update", "nodename=gpu004", "state=drain", "reason=sold")
    assert Backend().held(["gpu004"])["gpu004"].holder is Holder.OTHERS


@pytest.mark.parametrize(("node", "how"), [
    ("gpu005", "power_down"), pytest.param("gpu006", "power_down_force", marks=pytest.mark.slow)])
def test_a_cordon_that_slurm_drops_as_a_person_powers_the_node_down_is_made_again_under_its_mark(
    bed: Slurm, tmp_path: Path, node: str, how: str,
) -> None:
    with opened(tmp_path, make=True) as store:
        cordon(store, Backend(), [node], "Xid 79", "me", time.time)
        settle(store, Backend(), "me", time.time)       # a later run has seen it
        (one,) = open_cordons(store)
        bed.ask("scontrol", "update", f"nodename={node}", f"state={how}")
        wait_until(lambda: "POWERED_DOWN" in states(bed, node), 30, "a node without power")
        settle(store, Backend(), "me", time.time)
        held = Backend().held([node])[node]
        assert (held.holder, held.mark) == (
            Holder.US, one.mark) and [cordon.id for cordon in open_cordons(store)] == [one.id]
        assert states(bed, node) == {"IDLE", "DRAIN", "POWERED_DOWN"}
        # What a person gives back they give back, with power or without.
        bed.ask("scontrol", "update", f"nodename={node}", "state=undrain")
        # 24.11 leaves the reason, and so tells neither from the other
        if not Backend().held([node])[node].reason:
            assert settle(store, Backend(), "me", time.time) == [] and open_cordons(store) == []


def test_a_cloud_node_without_power_is_cordoned_where_slurm_shows_it_and_else_the_setting_that_does_is_named(
    bed: Slurm, tmp_path: Path,
) -> None:
    shown = "NodeName=cloud1 " in bed.ask("scontrol", "--all", "--oneliner", "show", "node")
    with opened(tmp_path, make=True) as store:
        (done,) = cordon(store, Backend(), ["cloud1"], "Xid 79", "me", time.time)
        assert done.held is shown and done.failed is not shown
        if shown:
            assert states(bed, "cloud1") == {"IDLE", "CLOUD", "DRAIN", "POWERED_DOWN"}
            uncordon(store, Backend(), ["cloud1"], "", "me", time.time)
        else:
            assert (done.message == ("is not known there (older Slurms show a CLOUD node without power only "
                                     "with PrivateData=cloud in slurm.conf)"))
