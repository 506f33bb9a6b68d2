"""Reboots through a real Slurm: our cordon stays, and what others hold is not rebooted."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import pytest

from healthcheck.store.file import Store
from healthcheck.store.ledger import lines
from provisioning.actions.cordon import CordonResult, cordon, uncordon
from provisioning.actions.reboot import reboot, resolve_reboots
from provisioning.actions.slurm import SlurmBackend as Backend
from tests.testbed.planted import executable
from tests.testbed.require import require
from tests.testbed.slurm import WHY_NOT, Slurm, can_run
from tests.testbed.slurm import slurm as cluster
from tests.testbed.sshd import wait_until

NODES = [f"gpu00{n}" for n in range(1, 9)]
TIMEOUT_S = 5       # ResumeTimeout: how long Slurm waits for a node


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    require(can_run(), WHY_NOT)
    folder = tmp_path_factory.mktemp("slurm")
    program = executable(folder / "reboot", f"#!/bin/sh\necho rebooted >> {folder}/rebooted\n")
    with cluster(
        folder, NODES, extra=f"RebootProgram={program}\nResumeTimeout=3600\nSuspendTimeout=1") as running:
        yield running


@pytest.fixture
def slurm(bed: Slurm, monkeypatch: pytest.MonkeyPatch) -> Backend:
    for key, value in bed.environment.items():
        monkeypatch.setenv(key, value)
    # What a person likes to see does not mention what we read.
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    return Backend()


def asked(store: Store, slurm: Backend, nodes: Sequence[str], **more: bool) -> list[str]:
    return [f"{done.node}: {done.message}"
            for done in reboot(store, slurm, nodes, "driver", "me", time.time, **more)]


def shown(bed: Slurm, node: str) -> tuple[str, str]:
    """The state and the reason, as Slurm prints them, without what comes and goes."""
    text = bed.ask("scontrol", "-o", "show", "node", node)
    state = text.partition(" State=")[2].split()[0].replace("+NOT_RESPONDING", "")
    return state, text.partition(" Reason=")[2].partition(" [")[0]


def issued(bed: Slurm, node: str) -> None:
    wait_until(lambda: "REBOOT_ISSUED" in shown(bed, node)[0], what="the reboot")


def test_each_step_of_a_reboot_shows_our_mark_and_the_node_is_held_by_us_afterwards(
    bed: Slurm, slurm: Backend, store: Store,
) -> None:
    cordon(store, slurm, ["gpu001"], "fan", "me", time.time)
    assert shown(bed, "gpu001") == ("IDLE+DRAIN", "muster#1: fan")
    assert asked(store, slurm, ["gpu001"]) == ["gpu001: is being rebooted"]
    assert slurm.held(["gpu001"])["gpu001"].number == 1
    issued(bed, "gpu001")
    assert shown(bed, "gpu001") == ("DOWN+DRAIN+REBOOT_ISSUED", "muster#1: fan : reboot issued")
    assert resolve_reboots(
        store, slurm, time.time) == [CordonResult("gpu001", "is being rebooted", held=True)]
    assert asked(store, slurm, ["gpu001"]) == ["gpu001: a reboot is already requested"]
    assert cordon(
        store, slurm, ["gpu001"], "again", "me", time.time)[0].message == "cordoned already as muster#1: fan"
    before = slurm.boots(["gpu001"])["gpu001"]
    bed.booted("gpu001")
    wait_until(lambda: shown(bed, "gpu001")[0] == "IDLE+DRAIN", what="the node")
    assert shown(bed, "gpu001")[1] == "muster#1: fan : reboot issued"
    after = slurm.boots(["gpu001"])["gpu001"]
    assert before.under_way and not after.under_way and abs((after.booted or 0) - time.time()) < 60
    assert resolve_reboots(store, slurm, time.time) == [
        CordonResult("gpu001", "rebooted, and held still as muster#1", held=True)]
    assert resolve_reboots(store, slurm, time.time) == []
    assert [(line.action, line.outcome) for line in lines(store)] == [
        ("cordon", "cordoned"), ("reboot", "rebooted, and held still as muster#1")]
    assert uncordon(store, slurm, ["gpu001"], "", "me", time.time)[0].message == "muster#1 is released"
    wait_until(lambda: shown(bed, "gpu001")[0] == "IDLE", what="an idle node")


@pytest.mark.parametrize("theirs", ["bad DIMM", "muster: looks like ours", "muster#7: of another store"])
def test_what_others_hold_and_what_no_one_holds_is_not_rebooted(
    bed: Slurm, slurm: Backend, store: Store, theirs: str,
) -> None:
    bed.ask("scontrol", "update", "nodename=gpu002", "state=drain", f"reason={theirs}")
    said = asked(store, slurm, ["gpu002", "gpu003", "gpu099"])
    assert said[0].startswith("gpu002: NOT rebooted") and said[1:] == [
        "gpu003: NOT rebooted: there is no cordon of ours; cordon it first",
        "gpu099: NOT rebooted: it is not known there"]
    assert shown(bed, "gpu002") == (
        "IDLE+DRAIN", theirs) and shown(bed, "gpu003") == ("IDLE", "") and lines(store) == []


def test_a_node_that_a_person_took_over_is_not_rebooted(bed: Slurm, slurm: Backend, store: Store) -> None:
    cordon(store, slurm, ["gpu004"], "fan", "me", time.time)
    bed.ask("scontrol", "update", "nodename=gpu004", "state=drain", "reason=mine now")
    assert asked(store, slurm, ["gpu004"]) == ["gpu004: NOT rebooted, others hold it: mine now"]
    assert shown(bed, "gpu004") == ("IDLE+DRAIN", "mine now")


def test_a_job_that_runs_is_waited_for(bed: Slurm, slurm: Backend, store: Store) -> None:
    bed.ask("sbatch", "-p", "main", "-o", "/dev/null", "-w", "gpu005", "--wrap", "sleep 600")
    wait_until(lambda: bed.states()["gpu005"] in ("allocated", "mixed"), what="the job")
    cordon(store, slurm, ["gpu005"], "fan", "me", time.time)
    assert asked(store, slurm, ["gpu005"]) == ["gpu005: will be rebooted when its job has ended"]
    assert resolve_reboots(store, slurm, time.time)[0].message == "will be rebooted when its job has ended"
    state, reason = shown(bed, "gpu005")
    assert state.endswith("+DRAIN+REBOOT_REQUESTED") and reason == "muster#1: fan" and bed.ask(
        "squeue", "-h", "-t", "R").strip()
    bed.ask("scancel", "-u", "root")
    issued(bed, "gpu005")
    assert slurm.held(["gpu005"])["gpu005"].number == 1
    bed.booted("gpu005")
    wait_until(
        lambda: shown(bed, "gpu005") == ("IDLE+DRAIN", "muster#1: fan : reboot issued"), what="the node")


def test_several_nodes_are_one_call_and_a_dry_run_is_none(
    bed: Slurm, slurm: Backend, store: Store, monkeypatch: pytest.MonkeyPatch,
) -> None:
    cordon(store, slurm, ["gpu006", "gpu007"], "fan", "me", time.time)
    calls: list[tuple[str, ...]] = []
    ask = slurm._ask
    monkeypatch.setattr(slurm, "_ask", lambda *argv: (calls.append(argv), ask(*argv))[1])
    assert asked(store, slurm, ["gpu007", "gpu006"], dry=True) == [
        "gpu007: would be rebooted: driver", "gpu006: would be rebooted: driver"]
    assert not [argv for argv in calls if "reboot" in argv] and len(lines(store)) == 2
    assert asked(
        store, slurm, ["gpu007", "gpu006"]) == ["gpu007: is being rebooted", "gpu006: is being rebooted"]
    assert [argv for argv in calls if "reboot" in argv] == [("scontrol", "reboot", "gpu[006-007]")]
    for node in ("gpu006", "gpu007"):
        issued(bed, node)
    bed.booted("gpu006", "gpu007")
    wait_until(
        lambda: {shown(bed, node)[0] for node in ("gpu006", "gpu007")} == {"IDLE+DRAIN"}, what="the nodes")
    assert {slurm.held([node])[node].number for node in ("gpu006", "gpu007")} == {1, 2}


@pytest.mark.slow
def test_a_node_that_does_not_come_back_is_reported_and_stays_ours(
    bed: Slurm, slurm: Backend, store: Store,
) -> None:
    conf = bed.conf.read_text()
    bed.conf.write_text(conf.replace("ResumeTimeout=3600", f"ResumeTimeout={TIMEOUT_S}"))
    bed.ask("scontrol", "reconfigure")
    try:
        cordon(store, slurm, ["gpu008"], "fan", "me", time.time)
        bed.processes["gpu008"].terminate()
        asked(store, slurm, ["gpu008"])
        wait_until(lambda: "REBOOT" not in shown(bed, "gpu008")[0], 100, "the timeout")
        assert shown(bed, "gpu008") == ("DOWN", "muster#1: fan : reboot issued : reboot timed out")
        assert resolve_reboots(store, slurm, time.time)[0] == CordonResult(
            "gpu008",
            "NOT rebooted: no reboot is under way: muster#1: fan : reboot issued : reboot timed out",
            held=True, failed=True)
        assert shown(bed, "gpu008") == ("DOWN+DRAIN", "muster#1: fan")
        bed.booted("gpu008")
        wait_until(
            lambda: slurm.boots(["gpu008"])["gpu008"].booted > time.time() - 60, what="the node, too late")
        assert slurm.held(["gpu008"])["gpu008"].number == 1 and uncordon(
            store, slurm, ["gpu008"], "", "me", time.time)[0].message == "muster#1 is released"
    finally:
        bed.conf.write_text(conf)
        bed.ask("scontrol", "reconfigure")
