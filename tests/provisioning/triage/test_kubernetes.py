"""`muster triage --apply` with Kubernetes: cordons, new nodes once proven, and conditions."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from healthcheck.model.outcome import Finding, NodeReport, Result, Severity, Status, state_of
from healthcheck.store.cordons import open_cordons
from healthcheck.store.file import opened
from healthcheck.store.ledger import lines
from healthcheck.store.sweeps import SweepRecord, record
from provisioning.actions.kubenode import KEY, STARTUP, instant
from tests.command import muster, running
from tests.testbed.kubernetes import Serving, relayed, serving
from tests.testbed.marks import plain
from tests.testbed.sshd import wait_until

NODES = ["gpu1", "gpu2", "gpu3", "gpu4"]


@pytest.fixture
def bed(cluster: Serving) -> Serving:
    """Four nodes, each registered with the startup taint."""
    return _four(cluster)


def _four(bed: Serving) -> Serving:
    for node in NODES:
        bed.add(node, taints=[{"key": STARTUP, "effect": "NoSchedule"}])
    return bed


def site(home: Path, bed: Serving) -> None:
    """An inventory of the four nodes, and a policy with room."""
    (home / "muster.yaml").write_text(
        "version: 1\n"
        f"cordon: {{kubernetes: {{config: {bed.config}, condition: true}}}}\n"
        f"nodes: {{'gpu[1-4]': }}\n")
    (home / "rules").mkdir()
    (home / "rules" / "policy.yaml").write_text(
        "breaker: {number: 8, percent: 100}\nrequalify: {apart_minutes: 0}\n")


@pytest.fixture
def home(bed: Serving, tmp_path: Path) -> Path:
    site(tmp_path, bed)
    return tmp_path


def swept(home: Path, when: float, *bad: str, but: str = "", profile: str = "") -> None:
    """What a sweep of all nodes but one found then; it waits until that is over."""
    wait_until(lambda: time.time() > when, what="the time of a sweep")
    reports = []
    for name in NODES:
        if name != but:
            findings = (Finding(7, 0, "GPU 0"),) if name in bad else ()
            found = Result("kernel-xid", "kernel.xid", Status.FAIL if findings else Status.PASS,
                           Severity.CRITICAL, findings)
            reports.append(NodeReport(name, state_of([found]), "", (found,)))
    with opened(home / "state", make=True) as store:
        record(store, SweepRecord(when, when + 0.01, False, "test", "digest", (profile,) if profile else ()),
               reports)


def there_since(bed: Serving, *nodes: str) -> float:
    """When the last of these nodes registered, to the second, as the server keeps it."""
    return max(instant(bed.node(node)["metadata"]["creationTimestamp"]) or 0 for node in nodes or NODES)


def triage(home: Path, *words: str) -> str:
    done = muster("triage", "--rules", "rules", *words, home=home)
    assert done.returncode in (0, 1, 3) and done.stderr == "", done
    return plain(done.stdout)


def keys(bed: Serving, node: str) -> set[str]:
    return {
        taint["key"] for taint in bed.node(node)["spec"].get("taints", [])} - {"node.kubernetes.io/not-ready"}


def condition(bed: Serving, node: str) -> tuple[Any, ...]:
    found = next(one for one in bed.node(node)["status"]["conditions"] if one["type"] == "MusterHealthy")
    return found["status"], found["reason"], found["message"]


def test_new_nodes_are_given_to_jobs_when_they_are_proven_and_sick_ones_are_cordoned(
    bed: Serving, home: Path,
) -> None:
    began = there_since(bed)
    swept(home, began, profile="bringup", but="gpu4")
    said = triage(home)
    assert "1970" not in said
    assert ("gpu1: new, and kept from jobs: 1 of 2 clean looks since" in said
            and "gpu4: new, and kept from jobs: 0 of 2 clean looks" in said)
    swept(home, began + 0.1, profile="bringup", but="gpu4")
    assert "gpu1: new, and would be given to jobs: clean in its last 2 looks under profile bringup" in triage(
        home)
    assert {node: keys(bed, node) for node in NODES} == {node: {STARTUP} for node in NODES}
    swept(home, began + 0.2, "gpu2", but="gpu4")
    said = triage(home, "--apply")
    assert "gpu1: new, and given to jobs" in said and "gpu2: cordoned in kubernetes as muster#1" in said
    assert {node: keys(bed, node) for node in NODES} == {
        "gpu1": set(), "gpu2": {STARTUP, KEY}, "gpu3": set(), "gpu4": {STARTUP}}
    with opened(home / "state") as store:
        assert sorted((line.action, line.node, line.outcome) for line in lines(store)) == [
            ("cordon", "gpu2", "cordoned"), ("give to jobs", "gpu1", "done"),
            ("give to jobs", "gpu3", "done")]
    assert condition(bed, "gpu1") == ("True", "Healthy", "muster found nothing that keeps jobs away")
    assert condition(bed, "gpu2")[0] == "False" and "kernel-xid of GPU 0" in condition(bed, "gpu2")[2]
    assert condition(bed, "gpu4")[:2] == ("Unknown", "NotMeasured")


def test_what_is_repaired_comes_back_and_is_no_longer_new(bed: Serving, home: Path) -> None:
    began = there_since(bed)
    swept(home, began, "gpu2")
    triage(home, "--apply")
    assert keys(bed, "gpu2") == {STARTUP, KEY}
    with opened(home / "state") as store, store.writing() as db:      # as if the cordon were of then
        db.execute("UPDATE cordon SET began = ?", (began + 0.1,))
    swept(home, began + 0.2, profile="bringup")
    swept(home, began + 0.3, profile="bringup")
    said = triage(home, "--apply")
    assert "gpu2: muster#1 is released" in said and "gpu2: new, and given to jobs" in said
    assert keys(bed, "gpu2") == set() and condition(bed, "gpu2")[0] == "True"


@pytest.mark.parametrize("between", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_sick_node_that_registers_again_is_cordoned_again_and_was_given_back_by_no_one(
    bed: Serving, home: Path, between: bool,
) -> None:
    for node in NODES:
        bed.untaint(node, STARTUP)
    began = there_since(bed)
    swept(home, began, "gpu2")
    assert "gpu2: cordoned in kubernetes as muster#1" in triage(home, "--apply")
    bed.delete("gpu2")
    if between:         # a run that finds it gone
        said = triage(home, "--apply")
        assert "by hand" not in said and "given to jobs" not in said
    bed.add("gpu2")
    assert keys(bed, "gpu2") == set()
    said = triage(home, "--apply")
    assert "gpu2: cordoned in kubernetes as muster#2" in said and "by hand" not in said, said
    assert keys(bed, "gpu2") == {KEY}
    with opened(home / "state") as store:
        (one,) = open_cordons(store)
        assert one.identity == bed.node("gpu2")["metadata"]["uid"]
    assert "gpu2" not in {line.partition(":")[0] for line in triage(home, "--apply").splitlines()}


@pytest.mark.parametrize("judged", [pytest.param(False, marks=pytest.mark.slow), True])
def test_what_was_seen_before_a_cordoned_node_registered_again_releases_nothing(
    bed: Serving, home: Path, judged: bool,
) -> None:
    for node in NODES:
        bed.untaint(node, STARTUP)
    began = there_since(bed)
    swept(home, began, "gpu2")
    triage(home, "--apply")
    swept(home, began + 0.1, profile="bringup")
    if judged:          # by when only the cordon holds it: its fault is over, and it is not proven well
        triage(home, "--apply")
    swept(home, began + 0.2, profile="bringup")
    with opened(home / "state") as store, store.writing() as db:      # as if the cordon were of then
        db.execute("UPDATE cordon SET began = ?", (began + 0.05,))
    bed.delete("gpu2")
    bed.add("gpu2")
    planned = triage(home)
    said = triage(home, "--apply")
    assert ("gpu2: cordoned in kubernetes as muster#2" in said
            and "registered or was installed anew before it had shown" in said), said
    assert "registered or was installed anew before it had shown" in planned, planned
    assert keys(bed, "gpu2") == {KEY} and "gpu2: muster#" not in triage(home, "--apply")
    for _ in range(2):
        swept(home, time.time(), profile="bringup")
    assert "gpu2: muster#2 is released" in triage(home, "--apply") and keys(bed, "gpu2") == set()


def test_snapshots_of_before_it_registered_give_no_node_to_jobs(bed: Serving, home: Path) -> None:
    began = there_since(bed)
    for after in (-3600.0, -1800.0, -60.0):
        swept(home, began + after, profile="bringup")
    said = triage(home, "--apply")
    assert "gpu1: new, and kept from jobs: 0 of 2 clean looks since" in said and "1970" not in said
    assert {node: keys(bed, node) for node in NODES} == {node: {STARTUP} for node in NODES}
    swept(home, began + 0.1, profile="bringup")
    swept(home, began + 0.2, profile="bringup")
    bed.delete("gpu1")
    wait_until(lambda: time.time() > began + 1.2, what="another second")
    bed.add("gpu1", taints=[{"key": STARTUP, "effect": "NoSchedule"}])
    said = triage(home, "--apply")
    assert ("gpu1: new, and kept from jobs: 0 of 2 clean looks since" in said
            and "gpu2: new, and given to jobs" in said)
    assert keys(bed, "gpu1") == {STARTUP} and keys(bed, "gpu2") == set()
    assert condition(bed, "gpu1")[:2] == ("Unknown", "Registered") and condition(bed, "gpu2")[0] == "True"


def test_a_node_that_stays_new_for_long_points_at_what_daemon_sets_must_tolerate(tmp_path: Path) -> None:
    with serving(tmp_path) as bed:      # a real server sets the time of registration itself
        _four(bed)
        assert bed.cluster is not None
        site(tmp_path, bed)
        bed.cluster.nodes["gpu1"]["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
        swept(tmp_path, there_since(bed, "gpu2"))
        told = {line.partition(":")[0]: line for line in triage(tmp_path).splitlines()}
    assert told["gpu1"].endswith(
        "; new for days: do its DaemonSets tolerate the taint? See: muster privilege kubernetes")
    assert "DaemonSets" not in told["gpu2"]


@pytest.mark.parametrize("anew", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_new_node_that_is_deleted_before_it_is_proven_is_reported_as_gone(
    bed: Serving, home: Path, anew: bool,
) -> None:
    for after in (0, 0.1):
        swept(home, there_since(bed) + after, profile="bringup")
    over: list[str] = []

    def hook(method: str, path: str, done: bool) -> None:
        if method == "PUT" and "gpu1" in path and not done and not over:
            over.append(path)
            bed.delete("gpu1")
            if anew:
                bed.add("gpu1", taints=[{"key": STARTUP, "effect": "NoSchedule"}])

    with relayed(bed, home / "way", hook) as config:
        (home / "muster.yaml").write_text(
            f"version: 1\ncordon: {{kubernetes: {{config: {config}}}}}\nnodes: {{'gpu[1-4]': }}\n")
        done = muster("triage", "--apply", "--rules", "rules", home=home)
    words = ("another node of its name has registered in kubernetes meanwhile" if anew
             else "it is not known in kubernetes any more")
    assert (f"gpu1: NOT given to jobs: {words}" in done.stdout
            and "gpu2: new, and given to jobs" in done.stdout), done
    with opened(home / "state") as store:
        assert [line.outcome for line in lines(store, ["gpu1"])] == [f"not done: {words}"]
    if anew:
        assert keys(bed, "gpu1") == {STARTUP}


@pytest.mark.parametrize("after", [pytest.param(False, marks=pytest.mark.slow), True])
def test_killed_while_it_gives_a_new_node_to_jobs_the_next_run_finds_out(tmp_path: Path, after: bool) -> None:
    with serving(tmp_path) as fake:
        _four(fake)
        site(tmp_path, fake)
        for after_s in (0, 0.1):
            swept(tmp_path, there_since(fake) + after_s, profile="bringup")
        cluster = fake.cluster
        assert cluster is not None
        begun: list[subprocess.Popen[str]] = []

        def fault(method: str, path: str) -> object:
            if method != "PUT" or "gpu1" not in path:
                return None
            cluster.faults = lambda method, path: None
            begun[0].kill()
            begun[0].wait()
            return "drop after" if after else "drop"

        with cluster.lock:
            cluster.faults = fault
            begun.append(running("triage", "--rules", "rules", "--apply", home=tmp_path))
        assert begun[0].wait(60) == -9
        assert (keys(fake, "gpu1") == set()) == after
        muster("triage", "--rules", "rules", "--apply", home=tmp_path)
        assert all(keys(fake, node) == set() for node in NODES)
        with opened(tmp_path / "state") as store:
            told = [str(line.outcome) for line in lines(store) if line.node == "gpu1"]
        assert told == (["done; found so later"] if after else ["not done; found so later", "done"])
