"""`muster triage --apply` with Kubernetes: what is not fit is cordoned, new nodes are given to jobs once proven, and nodes show how they are."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from healthcheck.outcome import Finding, NodeReport, Result, Severity, Status, state_of
from healthcheck.store.file import opened
from healthcheck.store.ledger import lines
from healthcheck.store.sweeps import Sweep, record
from provisioning.actions.kubenode import KEY, STARTUP
from tests.command import MUSTER, environment, muster
from tests.testbed import apiserver
from tests.testbed.kubernetes import Serving, serving

NODES = ["gpu1", "gpu2", "gpu3", "gpu4"]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    if not apiserver.found():
        pytest.skip(apiserver.WHY_NOT)
    with apiserver.apiserver(tmp_path_factory.mktemp("apiserver")) as bed:
        yield bed


@pytest.fixture(params=["fake", pytest.param("real", marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
def bed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Serving]:
    """Four nodes, each registered with the startup taint."""
    if request.param == "fake":
        with serving(tmp_path) as fake:
            yield _four(fake)
        return
    real: Serving = request.getfixturevalue("real")
    apiserver.emptied(real)
    yield _four(real)


def _four(bed: Serving) -> Serving:
    for node in NODES:
        bed.add(node, taints=[{"key": STARTUP, "effect": "NoSchedule"}])
    return bed


@pytest.fixture
def home(bed: Serving, tmp_path: Path) -> Path:
    (tmp_path / "muster.yaml").write_text(
        f"version: 1\ncordon: {{kubernetes: {{config: {bed.config}, condition: true}}}}\nnodes: {{'gpu[1-4]': }}\n")
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "policy.yaml").write_text("breaker: {number: 8, percent: 100}\n")
    return tmp_path


def swept(home: Path, minutes: float, *bad: str, but: str = "", profile: str = "") -> None:
    """What a sweep of all nodes but one found so many minutes ago."""
    reports = []
    for name in NODES:
        if name != but:
            findings = (Finding("GPU 0", 7, 0),) if name in bad else ()
            found = Result("kernel-xid", "kernel.xid", Status.FAIL if findings else Status.PASS, Severity.CRITICAL, findings)
            reports.append(NodeReport(name, state_of([found]), "", (found,)))
    when = time.time() - minutes * 60
    with opened(home / "state", make=True) as store:
        record(store, Sweep(when, when + 5, False, "test", "digest", (profile,) if profile else ()), reports)


def triage(home: Path, *words: str) -> str:
    done = muster("triage", "--rules", "rules", *words, home=home)
    assert done.returncode in (0, 1, 3) and done.stderr == "", done
    return done.stdout


def keys(bed: Serving, node: str) -> set[str]:
    return {taint["key"] for taint in bed.node(node)["spec"].get("taints", [])} - {"node.kubernetes.io/not-ready"}


def condition(bed: Serving, node: str) -> tuple[Any, ...]:
    found = next(one for one in bed.node(node)["status"]["conditions"] if one["type"] == "MusterHealthy")
    return found["status"], found["reason"], found["message"]


def test_new_nodes_are_given_to_jobs_when_they_are_proven_and_sick_ones_are_cordoned(bed: Serving, home: Path) -> None:
    swept(home, 60, profile="bringup", but="gpu4")
    said = triage(home)
    assert "gpu1: new, and kept from jobs: 1 of 2 clean looks since" in said and "gpu4: new, and kept from jobs: 0 of 2 clean looks" in said
    swept(home, 30, profile="bringup", but="gpu4")
    assert "gpu1: new, and would be given to jobs: clean in its last 2 looks under profile bringup" in triage(home)
    assert {node: keys(bed, node) for node in NODES} == {node: {STARTUP} for node in NODES}
    swept(home, 10, "gpu2", but="gpu4")
    said = triage(home, "--apply")
    assert "gpu1: new, and given to jobs" in said and "gpu2: cordoned in kubernetes as muster#1" in said
    assert {node: keys(bed, node) for node in NODES} == {"gpu1": set(), "gpu2": {STARTUP, KEY}, "gpu3": set(), "gpu4": {STARTUP}}
    with opened(home / "state") as store:
        assert sorted((line.action, line.node, line.outcome) for line in lines(store)) == [
            ("cordon", "gpu2", "cordoned"), ("give to jobs", "gpu1", "done"), ("give to jobs", "gpu3", "done")]
    assert condition(bed, "gpu1") == ("True", "Healthy", "muster found nothing that keeps jobs away")
    assert condition(bed, "gpu2")[0] == "False" and "kernel-xid of GPU 0" in condition(bed, "gpu2")[2]
    assert condition(bed, "gpu4")[:2] == ("Unknown", "NotMeasured")


def test_what_is_repaired_comes_back_and_is_no_longer_new(bed: Serving, home: Path) -> None:
    swept(home, 300, "gpu2")
    triage(home, "--apply")
    assert keys(bed, "gpu2") == {STARTUP, KEY}
    with opened(home / "state") as store, store.writing() as db:      # as if the cordon were of then
        db.execute("UPDATE cordon SET began = ?", (time.time() - 290 * 60,))
    swept(home, 60, profile="bringup")
    swept(home, 30, profile="bringup")
    said = triage(home, "--apply")
    assert "gpu2: muster#1 is released" in said and "gpu2: new, and given to jobs" in said
    assert keys(bed, "gpu2") == set() and condition(bed, "gpu2")[0] == "True"


@pytest.mark.parametrize("after", [False, True])
def test_killed_while_it_gives_a_new_node_to_jobs_the_next_run_finds_out(tmp_path: Path, after: bool) -> None:
    with serving(tmp_path) as fake:
        _four(fake)
        (tmp_path / "muster.yaml").write_text(f"version: 1\ncordon: {{kubernetes: {{config: {fake.config}}}}}\nnodes: {{'gpu[1-4]': }}\n")
        for minutes in (60, 30):
            swept(tmp_path, minutes, profile="bringup")
        cluster = fake.cluster
        assert cluster is not None
        running: list[subprocess.Popen[bytes]] = []

        def fault(method: str, path: str) -> object:
            if method != "PUT":
                return None
            cluster.faults = lambda method, path: None
            running[0].kill()
            running[0].wait()
            return "drop after" if after else "drop"

        with cluster.lock:
            cluster.faults = fault
            running.append(subprocess.Popen([str(MUSTER), "triage", "--apply"], cwd=tmp_path, env=environment(tmp_path),
                                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        assert running[0].wait(60) == -9
        assert (keys(fake, "gpu1") == set()) == after
        muster("triage", "--apply", home=tmp_path)
        assert all(keys(fake, node) == set() for node in NODES)
        with opened(tmp_path / "state") as store:
            told = [str(line.outcome) for line in lines(store) if line.node == "gpu1"]
        assert told == (["done; found so later"] if after else ["not done; found so later", "done"])
