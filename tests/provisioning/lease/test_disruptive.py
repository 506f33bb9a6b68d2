"""`muster check --disruptive` as typed: real Slurm, real sshd, a diagnostic that leaves a note."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from healthcheck.store.file import opened
from healthcheck.store.leases import open_leases
from healthcheck.store.ledger import lines
from provisioning.demo.fleet import DemoFleet
from tests.command import MUSTER, environment, muster
from tests.testbed.marks import plain
from tests.testbed.memory import base_in_memory
from tests.testbed.processes import alive
from tests.testbed.require import require_fleet
from tests.testbed.slurm import Slurm, fixture_of
from tests.testbed.sshd import wait_until

NODES = [f"gpu00{n}" for n in range(1, 9)]
QUICK = ("--only", "dcgm-diag-quick", "--only", "gpu-count")
DCGMI = """#!/bin/sh
echo began >> "$MUSTER_ROOT/ran"
while [ -e "$MUSTER_ROOT/hold" ]; do sleep 0.1; done
echo ended >> "$MUSTER_ROOT/ran"
cat "$MUSTER_ROOT/dcgm.json"
"""
TIMEOUT = '#!/bin/sh\nshift 3\nexec "$@"\n'


def diagnostic() -> str:
    """What DCGM 4 says of eight good GPUs, in the form of dcgm_diag_schema.json."""
    results = [
        {"entity_group": "GPU", "entity_group_id": 1, "entity_id": gpu, "status": "Pass"} for gpu in range(8)]
    return json.dumps({
        "DCGM Diagnostic": {"test_categories": [{"category": "Deployment", "tests": [
            {"name": "software", "results": results, "test_summary": {"status": "Pass"}}]}]},
        "entity_groups": [{"entity_group": "GPU", "entity_group_id": 1, "entities": [
            {"device_id": "2330", "entity_id": gpu, "serial_num": f"16{gpu}"} for gpu in range(8)]}],
        "metadata": {"Driver Version Detected": "550.54.15", "version": "4.2.3"},
    })


bed = fixture_of(NODES)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoFleet]:
    require_fleet()
    with DemoFleet(
        base=base_in_memory(tmp_path_factory.mktemp("base")), planted=dict.fromkeys(NODES, ())) as running:
        for node in running.nodes.values():
            for name, script in (("dcgmi", DCGMI), ("timeout", TIMEOUT)):
                (node.tree / "usr/bin" / name).write_text(script)
                (node.tree / "usr/bin" / name).chmod(0o755)
            (node.tree / "dcgm.json").write_text(diagnostic())
        yield running


@pytest.fixture(autouse=True)
def as_before(bed: Slurm, fleet: DemoFleet) -> Iterator[None]:
    yield
    bed.idle_again()
    for node in fleet.nodes.values():
        for name in ("ran", "hold"):
            (node.tree / name).unlink(missing_ok=True)


def words(fleet: DemoFleet, nodes: str, *more: str) -> list[str]:
    return [str(MUSTER), "check", nodes, "--inventory", str(fleet.inventory), "--disruptive", "--format",
            "json", "--full", *more, *QUICK]


def check(
    bed: Slurm, fleet: DemoFleet, home: Path, nodes: str, *more: str,
) -> tuple[int, dict[str, Any], str]:
    """The exit code, each node's dcgm result (its entry where not reached), and what was said beside."""
    done = muster(*words(fleet, nodes, *more)[1:], home=home, timeout=100, **bed.environment)
    assert done.stdout, done.stderr
    return done.returncode, told(done.stdout), done.stderr


def told(text: str) -> dict[str, Any]:
    return {
        node["node"]: next((r for r in node["results"] if r["rule"] == "dcgm-diag-quick"), node)
        for node in json.loads(text)["nodes"]}


@contextmanager
def running(
    bed: Slurm, fleet: DemoFleet, home: Path, nodes: str, *more: str,
) -> Iterator[subprocess.Popen[str]]:
    """A check whose diagnostics do not end before they are let go."""
    for node in fleet.nodes.values():
        (node.tree / "hold").touch()
    process = subprocess.Popen(
        words(fleet, nodes, *more), env=environment(home, **bed.environment), cwd=home, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def ran(fleet: DemoFleet, node: str) -> list[str]:
    path = fleet.nodes[node].tree / "ran"
    return path.read_text().split() if path.exists() else []


def reservations(bed: Slurm) -> list[str]:
    return [line.split()[0].removeprefix("ReservationName=")
            for line in bed.ask("scontrol", "--oneliner", "show", "reservation").splitlines()
            if line.startswith("ReservationName=")]


def job(bed: Slurm, node: str) -> None:
    bed.ask("sbatch", "-p", "main", "-o", "/dev/null", "-w", node, "--wrap", "sleep 600")
    wait_until(lambda: bed.states()[node].rstrip("*") in ("allocated", "mixed"), what="the job")


def holds(state: Path) -> list[Mapping[str, object]]:
    with opened(state) as store:
        return [vars(entry) for entry in open_leases(store)]


def test_an_idle_node_is_leased_tested_and_given_back(bed: Slurm, fleet: DemoFleet, tmp_path: Path) -> None:
    code, found, said = check(bed, fleet, tmp_path, "gpu[001-002]")
    assert (code, {node: result["status"] for node, result in found.items()}) == (
        0, {"gpu001": "pass", "gpu002": "pass"}), said
    assert said == "muster: 2 nodes, to be held for at most 9 min (dcgm.diag_quick 3 min)\n"
    assert ran(fleet, "gpu001") == ran(fleet, "gpu002") == ["began", "ended"]
    assert reservations(bed) == [] and holds(tmp_path / "state") == []
    with opened(tmp_path / "state") as store:
        assert [(line.action, line.node, line.outcome) for line in lines(store)] == [
            ("lease", "gpu[001-002]", "held, 2 of 2"), ("unlease", "gpu[001-002]", "released")]


def test_what_is_busy_drained_or_reserved_is_kept_and_refused_and_the_others_go_on(
    bed: Slurm, fleet: DemoFleet, tmp_path: Path,
) -> None:
    job(bed, "gpu001")
    bed.ask("scontrol", "update", "nodename=gpu004", "state=drain", "reason=bad DIMM")
    bed.ask("scontrol", "create", "reservation", "ReservationName=course", "StartTime=now+2minutes",
            "Duration=60", "Users=root", "Nodes=gpu005")
    code, found, _ = check(bed, fleet, tmp_path, "gpu[001-002,004-005]", "--save", "saved")
    assert code == 3 and found["gpu002"]["status"] == "pass"
    refused = {node: found[node] for node in ("gpu001", "gpu004", "gpu005")}
    assert {(one["status"], one["origin"]) for one in refused.values()} == {("unknown", "muster")}
    assert re.fullmatch(r"needs a lease: job \d+ \(RUNNING\) is on it", refused["gpu001"]["reason"])
    assert refused["gpu004"]["reason"] == "needs a lease: others hold it: bad DIMM"
    assert refused["gpu005"]["reason"] == "needs a lease: reservation 'course' has it soon"
    assert not any(ran(fleet, node) for node in refused) and bed.ask("squeue", "-h", "-t", "R").strip()
    assert reservations(bed) == ["course"] and bed.state("gpu004") == "drained"
    assert bed.reason("gpu004") == "bad DIMM"
    replayed = muster("check", "--replay", "saved", "--format", "json", "--full", home=tmp_path)
    assert replayed.returncode == 3 and told(replayed.stdout) == found


@pytest.mark.parametrize(("processes", "reason"), [
    ("4711:1048576", "needs a lease: process 4711 runs on GPU 3"), ("?9", ".* is not known.*")])
def test_gpus_with_a_process_that_no_job_has_and_those_of_which_nothing_is_known_are_a_refusal(
    bed: Slurm, fleet: DemoFleet, tmp_path: Path, processes: str, reason: str,
) -> None:
    scenario = fleet.nodes["gpu003"].tree / ".muster/nvml"
    before = scenario.read_text()
    scenario.write_text(before + f"gpu.3.processes = {processes}\n")
    try:
        code, found, _ = check(bed, fleet, tmp_path, "gpu003")
    finally:
        scenario.write_text(before)
    assert code == 3 and found["gpu003"]["status"] == "unknown", found
    assert re.fullmatch(reason, found["gpu003"]["reason"]), found
    assert ran(fleet, "gpu003") == [] and reservations(bed) == []


@pytest.mark.parametrize("how", ["reservation", pytest.param("cordon", marks=pytest.mark.slow)])
def test_a_node_that_we_cordoned_is_tested_and_stays_cordoned(
    bed: Slurm, fleet: DemoFleet, tmp_path: Path, how: str,
) -> None:
    muster("cordon", "gpu007", "--reason", "slow", home=tmp_path, **bed.environment, code=0)
    code, found, said = check(bed, fleet, tmp_path, "gpu[007-008]", "--lease", how)
    assert (code, found["gpu007"]["status"], found["gpu008"]["status"]) == (0, "pass", "pass"), said
    assert {node: bed.states()[node].rstrip("*") for node in ("gpu007", "gpu008")} == {
        "gpu007": "drained", "gpu008": "idle"}
    assert (plain(bed.ask("sinfo", "-h", "-n", "gpu007", "-o", "%E")).strip() == "muster#1: slow"
            and reservations(bed) == [])


def test_while_it_is_held_no_one_else_has_it_and_no_job_starts_and_one_that_waits_starts_afterwards(
    bed: Slurm, fleet: DemoFleet, tmp_path: Path,
) -> None:
    with running(bed, fleet, tmp_path, "gpu001") as process:
        wait_until(lambda: ran(fleet, "gpu001") == ["began"], 60, "the diagnostic")
        bed.ask("sbatch", "-p", "main", "-o", "/dev/null", "-w", "gpu001", "--wrap", "sleep 600")
        code, found, _ = check(bed, fleet, tmp_path, "gpu001")       # with the same store
        assert code == 3 and found["gpu001"]["reason"].startswith("needs a lease: reservation 'muster-1-")
        (fleet.nodes["gpu001"].tree / "hold").unlink()
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and told(out)["gpu001"]["status"] == "pass", err
    assert ran(fleet, "gpu001") == ["began", "ended"]
    wait_until(lambda: bed.states()["gpu001"].rstrip("*") == "allocated", 60, "the job that waited")


@pytest.mark.parametrize("how", ["reservation", pytest.param("cordon", marks=pytest.mark.slow)])
def test_told_to_end_it_gives_back_what_it_holds(
    bed: Slurm, fleet: DemoFleet, tmp_path: Path, how: str,
) -> None:
    with running(bed, fleet, tmp_path, "gpu001", "--lease", how) as process:
        wait_until(lambda: ran(fleet, "gpu001") == ["began"], 60, "the diagnostic")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and told(out)["gpu001"].get("status") != "pass", err
    assert reservations(
        bed) == [] and holds(tmp_path / "state") == [] and bed.states()["gpu001"].rstrip("*") == "idle"


@pytest.mark.parametrize("how", ["reservation", pytest.param("cordon", marks=pytest.mark.slow)])
def test_killed_it_leaves_a_lease_that_the_next_run_gives_back(
    bed: Slurm, fleet: DemoFleet, tmp_path: Path, how: str,
) -> None:
    with running(bed, fleet, tmp_path, "gpu001", "--lease", how) as process:
        wait_until(lambda: ran(fleet, "gpu001") == ["began"], 60, "the diagnostic")
        process.kill()
    [left] = holds(tmp_path / "state")
    assert bed.states()["gpu001"].rstrip(
        "*") != "idle" and reservations(bed) == ([left["name"]] if how == "reservation" else [])
    listed = muster("lease", "list", home=tmp_path, **bed.environment)
    assert "holder dead" in listed.stdout and str(left["name"]) in listed.stdout, listed
    (fleet.nodes["gpu001"].tree / "hold").unlink()
    code, found, said = check(bed, fleet, tmp_path, "gpu001", "--lease", how)
    assert (code, found["gpu001"]["status"]) == (0, "pass"), said
    assert reservations(
        bed) == [] and holds(tmp_path / "state") == [] and bed.states()["gpu001"].rstrip("*") == "idle"
    with opened(tmp_path / "state") as store:
        assert all(line.outcome for line in lines(store))


@pytest.mark.slow
def test_a_lease_that_is_ended_by_hand_ends_the_work_and_what_it_brought_is_not_believed(
    bed: Slurm, fleet: DemoFleet, tmp_path: Path,
) -> None:
    with running(bed, fleet, tmp_path, "gpu[001-002]") as process:
        wait_until(lambda: ran(fleet, "gpu001") == ran(fleet, "gpu002") == ["began"], 60, "the diagnostics")
        [left] = holds(tmp_path / "state")
        done = muster("lease", "release", str(left["name"]), home=tmp_path, **bed.environment)
        assert done.stdout == f"{left['name']}: given back: by hand\n"
        # this one's answer comes before anybody has noticed
        (fleet.nodes["gpu001"].tree / "hold").unlink()
        out, err = process.communicate(timeout=90)
    assert process.returncode == 3, err
    found = told(out)
    assert found["gpu001"].get("status") == "unknown" or found["gpu001"]["state"] == "unknown"
    assert re.fullmatch(
        f"lease: lease {left['name']} was ended by someone else", found["gpu002"]["reason"]), found
    assert ran(fleet, "gpu002") == ["began"] and not [pid for pid in _sleepers(fleet, "gpu002") if alive(pid)]


def _sleepers(fleet: DemoFleet, node: str) -> list[int]:
    """Processes that run the node's diagnostic."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if str(
                    fleet.nodes[node].tree / "usr/bin/dcgmi").encode() in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
            except OSError:
                continue
    return found


def test_without_a_scheduler_a_file_of_hosts_holds_and_the_gpus_prove(
    fleet: DemoFleet, tmp_path: Path,
) -> None:
    inventory = fleet.inventory.with_name("by-file.yaml")
    inventory.write_text(fleet.inventory.read_text().replace(
        "version: 1\n", f"version: 1\ncordon: {{hostfile: {tmp_path}/bad}}\n"))
    done = muster("check", "gpu[001-002]", "--inventory", str(inventory), "--disruptive", "--format", "json",
                  "--full", *QUICK, home=tmp_path, timeout=100)
    assert done.returncode == 0 and {
        result["status"] for result in told(done.stdout).values()} == {"pass"}, done.stderr
    assert (tmp_path / "bad").read_text() == ""
    with opened(tmp_path / "state") as store:
        assert [line.action for line in lines(store)] == [
            "lease", "cordon", "cordon", "unlease", "uncordon", "uncordon"]


@pytest.mark.parametrize(
    ("more", "said"),
    [(("--only", "gpu-count"),
      "muster: --disruptive: none of the rules that are judged is disruptive; `muster rules list` shows "
      "which are\n"),
     (("--every", "30s"), "muster: --disruptive takes nodes from jobs; it does not go with --every\n")])
def test_what_cannot_be_meant_is_reported_before_anything_is_done(
    bed: Slurm, fleet: DemoFleet, tmp_path: Path, more: tuple[str, ...], said: str,
) -> None:
    done = muster("check", "gpu001", "--inventory", str(fleet.inventory), "--disruptive", *more,
                  home=tmp_path,
                  **bed.environment)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


def test_without_a_controller_nothing_is_sent(bed: Slurm, fleet: DemoFleet, tmp_path: Path) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text(bed.conf.read_text() + "MessageTimeout=3\n")
    bed.processes["slurmctld"].send_signal(signal.SIGSTOP)
    try:
        done = muster(*words(fleet, "gpu001")[1:], home=tmp_path, timeout=100,
                      **{**bed.environment, "SLURM_CONF": str(conf)})
    finally:
        bed.processes["slurmctld"].send_signal(signal.SIGCONT)
    assert done.returncode == 2 and done.stdout == "" and "see: scontrol ping" in done.stderr.lower() and ran(
        fleet, "gpu001") == []
    wait_until(lambda: bed.states().get("gpu001", "").rstrip("*") == "idle", 60, "the controller")
    assert reservations(bed) == [] and os.environ.get("SLURM_CONF") is None
