"""Kubernetes as a back end: what is ours, faults, pods, new nodes; on a real API server, too."""

from __future__ import annotations

import json
import subprocess
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.store.cordons import CordonState, open_cordons
from healthcheck.store.file import Store, opened
from healthcheck.store.ledger import lines
from inventory.model import InKubernetes
from provisioning.actions.base import ActionError, Condition, Holder, ProbationNode, number_of
from provisioning.actions.kubeapi import Api, KubeApiError
from provisioning.actions.kubenode import (
    KEY,
    STARTUP,
    cordoned,
    gpu_pod,
    held_of,
    instant,
    proven,
    released,
    unproven,
)
from provisioning.actions.kuberights import RbacSubject, manifest
from provisioning.actions.kubernetes import Kubernetes
from provisioning.lease.cordoned import Cordoned
from provisioning.lease.take import LeaseManager, give_back, take
from tests.command import muster, running
from tests.testbed import apiserver
from tests.testbed.apiserver import applied
from tests.testbed.kubernetes import TOKEN, Cluster, Json, Serving, kubeconfig, relayed, serving
from tests.testbed.marks import plain
from tests.testbed.ports import free_port
from tests.testbed.sshd import wait_until
from tests.tries import tries

ANY = InKubernetes()
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
DEDICATED = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
OURS = {"key": KEY, "value": "1", "effect": "NoSchedule"}


@pytest.fixture
def bed(cluster: Serving) -> Serving:
    """A cluster of two nodes: gpu1 as it registered itself, gpu2 with a taint of its site's."""
    return _two(cluster)


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[Serving]:
    with serving(tmp_path) as one:
        yield _two(one)


def _two(bed: Serving) -> Serving:
    bed.add("gpu1")
    bed.add("gpu2", {"example.org/machine": "rack1-gpu2"}, [DEDICATED])
    return bed


def cluster_of(bed: Serving) -> Cluster:
    assert bed.cluster is not None
    return bed.cluster


def through(
    bed: Serving, there: InKubernetes = ANY, seconds: float = 20, waits: list[float] | None = None,
) -> Kubernetes:
    return Kubernetes(there, Api(str(bed.config), None, seconds, (waits if waits is not None else []).append))


def spec(bed: Serving, node: str) -> Any:
    return bed.node(node)["spec"]


def mark(bed: Serving, node: str) -> str | None:
    found = bed.node(node)["metadata"].get("annotations", {}).get(KEY)
    assert found is None or isinstance(found, str)
    return found


def keys(bed: Serving, node: str) -> list[str]:
    return [taint["key"] for taint in spec(bed, node).get("taints", [])]


def test_a_cordon_is_seen_by_everybody_and_takes_nothing_from_the_node(bed: Serving) -> None:
    before = bed.node("gpu2")
    back = through(bed)
    back.isolate("gpu2", "muster#1: fan \x1b 'ü'")
    found = bed.node("gpu2")
    assert (found["spec"]["unschedulable"] is True
            and found["metadata"]["annotations"][KEY] == "muster#1: fan \x1b 'ü'")
    assert {taint["key"] for taint in found["spec"]["taints"]} == {
        "nvidia.com/gpu", "node.kubernetes.io/not-ready", KEY}
    assert OURS in found["spec"]["taints"]
    held = back.held(["gpu1", "gpu2", "gpu3", "UPPER_case"])
    assert {node: (one.holder, one.number) for node, one in held.items()} == {
        "gpu1": (Holder.NO_ONE, None), "gpu2": (Holder.US, 1), "gpu3": (Holder.ABSENT, None),
        "UPPER_case": (Holder.ABSENT, None)}
    assert held["gpu2"].reason == "muster#1: fan \\x1b 'ü'"
    back.release("gpu2")
    after = bed.node("gpu2")
    assert (after["spec"] == before["spec"]
            and after["metadata"].get("annotations", {}) == before["metadata"].get("annotations", {}))
    assert (after["metadata"]["labels"] == before["metadata"]["labels"]
            and after["metadata"]["uid"] == before["metadata"]["uid"])


def test_an_upgrader_that_uncordons_a_node_of_ours_gives_nothing_back(bed: Serving) -> None:
    back = through(bed)
    back.isolate("gpu1", "muster#1: fan")
    bed.patch("gpu1", {"spec": {"unschedulable": None}}, "kured")
    assert (back.held(["gpu1"])["gpu1"].holder, back.held(["gpu1"])["gpu1"].number) == (
        Holder.US, 1) and KEY in keys(bed, "gpu1")
    back.release("gpu1")
    assert "unschedulable" not in spec(
        bed, "gpu1") and KEY not in keys(bed, "gpu1") and mark(bed, "gpu1") is None


def test_who_cordons_a_node_of_ours_keeps_it_when_we_release(bed: Serving) -> None:
    back = through(bed)
    back.isolate("gpu1", "muster#1: fan")
    bed.patch("gpu1", {"spec": {"unschedulable": None}})
    bed.patch("gpu1", {"spec": {"unschedulable": True}})
    held = back.held(["gpu1"])["gpu1"]
    assert (
        held.holder, held.number) == (Holder.OTHERS, 1) and held.reason == "unschedulable, by kubectl-cordon"
    back.release("gpu1")
    assert spec(bed, "gpu1")["unschedulable"] is True and KEY not in keys(bed, "gpu1")
    assert (back.held(["gpu1"])["gpu1"].holder, back.held(["gpu1"])["gpu1"].number) == (Holder.OTHERS, None)


def test_where_the_server_does_not_say_who_set_it_the_mark_decides(bed: Serving) -> None:
    for name in ("old1", "old2"):       # made without labels, so that no one's fields are tracked
        assert (bed.ask("POST", "/api/v1/nodes",
                        {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name}})[0] == 201)
    back = through(bed)
    back.isolate("old1", "muster#1: fan")
    bed.patch("old2", {"spec": {"unschedulable": True}})
    assert {node: (one.holder, one.reason) for node, one in back.held(["old1", "old2"]).items()} == {
        "old1": (Holder.US, "muster#1: fan"), "old2": (Holder.OTHERS, "unschedulable")}
    back.release("old1")
    assert "unschedulable" not in spec(bed, "old1") and keys(bed, "old1") == ["node.kubernetes.io/not-ready"]


def test_a_node_that_somebody_cordoned_is_theirs_also_when_they_were_faster_by_a_moment(bed: Serving) -> None:
    bed.patch("gpu1", {"spec": {"unschedulable": True}})
    back = through(bed)
    assert back.held(["gpu1"])["gpu1"].reason == "unschedulable, by kubectl-cordon"
    with pytest.raises(ActionError, match="gpu1: others hold it now: unschedulable, by kubectl-cordon"):
        back.isolate("gpu1", "muster#1: x")
    assert mark(bed, "gpu1") is None and KEY not in keys(bed, "gpu1")
    back.release("gpu1")
    assert spec(bed, "gpu1")["unschedulable"] is True


def test_a_replacement_of_an_old_object_is_a_conflict_and_a_bad_taint_invalid(bed: Serving) -> None:
    old = bed.node("gpu1")
    bed.patch("gpu1", {"metadata": {"annotations": {"a": "b"}}})
    assert bed.ask("PUT", "/api/v1/nodes/gpu1", old)[0] == 409
    new = bed.node("gpu1")
    for taint in ({"key": KEY, "value": "a b", "effect": "NoSchedule"},
                  {"key": "a b", "effect": "NoSchedule"}, {"key": KEY, "effect": "Never"}):
        status, shown = bed.ask("PUT", "/api/v1/nodes/gpu1", {**new, "spec": {"taints": [taint]}})
        assert (status, shown["reason"]) == (422, "Invalid"), shown
    status, shown = bed.ask(
        "PUT", "/api/v1/nodes/gpu1", {**new, "status": {"phase": "x"}, "spec": {"taints": [OURS, OURS]}})
    assert (status, shown["reason"]) == (422, "Invalid"), shown


def test_what_another_writes_while_we_change_a_node_is_kept(bed: Serving) -> None:
    back = through(bed)
    api = back._api
    changed = []

    def edit(document: Json) -> Json:
        if len(changed) < 3:
            bed.patch("gpu1", {"metadata": {"annotations": {f"other/{len(changed)}": "x"}}})
        changed.append(document["metadata"]["resourceVersion"])
        return cordoned(document, "muster#1: fan")

    api.change("/api/v1/nodes/gpu1", edit)
    assert len(set(changed)) == 4
    assert set(bed.node("gpu1")["metadata"]["annotations"]) >= {"other/0", "other/1", "other/2", KEY}


def test_whoever_is_always_faster_wins_and_that_is_reported(bed: Serving) -> None:
    def edit(document: Json) -> Json:
        bed.patch("gpu1", {"metadata": {"annotations": {"other": str(time.monotonic_ns())}}})
        return cordoned(document, "muster#1: fan")

    with pytest.raises(
        KubeApiError, match="gpu1 was changed by others whenever it was to be changed; try again"):
        through(bed)._api.change("/api/v1/nodes/gpu1", edit)
    assert mark(bed, "gpu1") is None


def test_nodes_are_found_by_a_template_or_a_label(bed: Serving) -> None:
    bed.add("gpu9.example.org")
    named = through(bed, InKubernetes(name="{node}.example.org"))
    named.isolate("GPU9", "muster#1: x")
    assert named.held(["gpu9"])["gpu9"].number == 1 and mark(bed, "gpu9.example.org") == "muster#1: x"
    label = through(bed, InKubernetes(label="example.org/machine"))
    label.isolate("rack1-gpu2", "muster#2: y")
    assert label.held(
        ["rack1-gpu2", "gpu1", "a b"])["rack1-gpu2"].number == 2 and mark(bed, "gpu2") == "muster#2: y"
    assert {label.held(["gpu1", "a b"])[node].holder for node in ("gpu1", "a b")} == {Holder.ABSENT}
    with pytest.raises(
        ActionError, match=r"gpu1 is not known in kubernetes; see: kubectl get nodes -L example.org/machine"):
        label.isolate("gpu1", "muster#3: z")
    bed.add("twin", {"example.org/machine": "rack1-gpu2"})
    assert label.held(
        ["rack1-gpu2"])["rack1-gpu2"].reason == "2 nodes of kubernetes carry its name: gpu2, twin"
    with pytest.raises(ActionError, match="2 nodes of kubernetes carry its name: gpu2, twin"):
        label.release("rack1-gpu2")
    assert mark(bed, "gpu2") == "muster#2: y"


def test_a_pod_that_has_a_gpu_is_a_job_until_it_is_over(bed: Serving) -> None:
    back = through(bed)
    bed.pod("exporter", "gpu1")
    assert back.running(["gpu1", "gpu2"]) == {}
    bed.pod("waits", "gpu1", gpus=8, phase="Pending")
    bed.pod("ended", "gpu2", gpus=8, phase="Succeeded")
    bed.pod("failed", "gpu2", gpus=8, phase="Failed")
    assert back.running(["gpu1", "gpu2"]) == {"gpu1": "pod default/waits has nvidia.com/gpu: 8 there"}
    bed.pod("runs", "gpu2", gpus=1)
    assert back.running(["gpu2", *(f"other{n}" for n in range(20))]) == {
        "gpu2": "pod default/runs has nvidia.com/gpu: 1 there"}


def test_a_pod_that_asks_for_a_gpu_and_cannot_be_placed_waits_and_no_other_does(bed: Serving) -> None:
    back = through(bed)
    bed.pod("bound", "gpu1", gpus=8, phase="Pending")
    bed.pod("of-cpus", "", phase="Pending", unplaced="Unschedulable")
    bed.pod("gated", "", gpus=8, phase="Pending", unplaced="SchedulingGated")
    assert back.waiting(["gpu1"]) == ""
    bed.pod("training", "", gpus=8, phase="Pending", unplaced="Unschedulable")
    assert back.waiting(["gpu1"]) == "pod default/training has nvidia.com/gpu: 8, and waits for a node"


def manager(store: Store, bed: Serving) -> LeaseManager:
    return LeaseManager(store, Cordoned(store, through(bed), time.time), "me", time.time)


def test_a_lease_is_a_cordon_on_a_node_whose_gpus_no_pod_has(bed: Serving, tmp_path: Path) -> None:
    bed.pod("runs", "gpu2", gpus=1)
    bed.pod("exporter", "gpu1")
    with opened(tmp_path / "leases", make=True) as store:
        ours = manager(store, bed)
        taken = take(ours, ["gpu1", "gpu2", "gpu3"], 600, "diag")
        assert taken.nodes == ("gpu1",) and taken.unknown == frozenset() and taken.entry is not None
        assert taken.refused == {
            "gpu2": "pod default/runs has nvidia.com/gpu: 1 there", "gpu3": "kubernetes does not know it"}
        assert plain(mark(bed, "gpu1") or "").startswith(
            f"muster#1: {taken.entry.name}: diag") and mark(bed, "gpu2") is None
        assert give_back(ours, taken.entry, "over") == ""
        assert mark(
            bed, "gpu1") is None and KEY not in keys(bed, "gpu1") and "unschedulable" not in spec(bed, "gpu1")


def test_a_pod_that_comes_while_a_lease_is_taken_ends_it_for_that_node(fake: Serving, tmp_path: Path) -> None:
    cluster = cluster_of(fake)

    def fault(method: str, path: str) -> None:
        if method == "PUT":
            cluster.pods["late"] = {
                "metadata": {"name": "late", "namespace": "a"}, "status": {"phase": "Pending"},
                "spec": {
                    "nodeName": "gpu1", "containers": [{"resources": {"limits": {"nvidia.com/gpu": "8"}}}]}}

    cluster.faults = fault
    with opened(tmp_path / "leases", make=True) as store:
        taken = take(manager(store, fake), ["gpu1"], 600, "diag")
        assert taken.nodes == () and taken.refused == {"gpu1": "pod a/late has nvidia.com/gpu: 8 there"}
        assert mark(fake, "gpu1") is None and open_cordons(store) == []


def test_where_pods_cannot_be_listed_nothing_is_leased(fake: Serving, tmp_path: Path) -> None:
    cluster_of(fake).faults = lambda method, path: 403 if path.startswith("/api/v1/pods") else None
    with opened(
        tmp_path / "leases", make=True) as store, pytest.raises(ActionError, match="does not allow it"):
        take(manager(store, fake), ["gpu1"], 600, "diag")
    assert mark(fake, "gpu1") is None


@pytest.mark.parametrize(
    ("pod", "why"),
    [({"spec": {"containers": [{"resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "0"}}}]}}, ""),
     ({
          "spec": {
              "containers": [{}],
              "initContainers": [{"resources": {"limits": {"nvidia.com/mig-1g.10gb": 1}}}]}},
      "has nvidia.com/mig-1g.10gb: 1"),
     ({"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu.shared": "2"}}}]}},
      "has nvidia.com/gpu.shared: 2"),
     ({"spec": {"containers": [{}], "resourceClaims": [{"name": "gpu"}]}}, "has resource claims"),
     ({
          "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "2"}}}]},
          "status": {"phase": "Failed"}}, ""), ({"spec": {}}, "is not known"), ({}, "is not known")])
def test_what_a_pod_may_use(pod: Json, why: str) -> None:
    shown = gpu_pod({"metadata": {"namespace": "a", "name": "b"}, **pod})
    assert (why in shown) if why else shown == ""


def test_the_startup_taint_goes_when_a_node_is_proven_and_is_no_hold(bed: Serving) -> None:
    bed.add(
        "new",
        taints=[{"key": STARTUP, "effect": "NoSchedule"}, {"key": STARTUP, "effect": "NoExecute"}, DEDICATED])
    back = through(bed)
    registered = bed.node("new")["metadata"]
    new = back.unproven(["new", "gpu1", "none"])
    assert new == {"new": ProbationNode(registered["uid"], instant(registered["creationTimestamp"]))} and abs(
        (new["new"].registered or 0) - time.time()) < 60
    assert back.held(["new"])["new"].holder is Holder.NO_ONE
    back.isolate("new", "muster#1: x")
    back.prove("new", registered["uid"])
    assert back.unproven(["new"]) == {} and back.held(["new"])["new"].number == 1
    assert set(keys(bed, "new")) == {"nvidia.com/gpu", "node.kubernetes.io/not-ready", KEY}
    back.prove("new", registered["uid"])


def test_a_condition_is_written_when_it_changes_and_beside_those_of_the_kubelet(bed: Serving) -> None:
    ready = {
        "type": "Ready", "status": "True", "reason": "KubeletReady",
        "message": "kubelet is posting ready status"}
    assert (bed.ask("PATCH", "/api/v1/nodes/gpu1/status", {"status": {"conditions": [ready]}},
                    kind="application/merge-patch+json")[0] == 200)
    back = through(bed, InKubernetes(condition=True))
    back.set_conditions({
        "gpu1": Condition("False", "GpuEccUncorrected", "GPU 3: 12 (expected at most 0)"),
        "none": Condition("True", "Healthy", "")})
    first = {one["type"]: one for one in bed.node("gpu1")["status"]["conditions"]}
    assert (first["Ready"]["reason"] == "KubeletReady"
            and first["MusterHealthy"]["message"] == "GPU 3: 12 (expected at most 0)")
    version = bed.node("gpu1")["metadata"]["resourceVersion"]
    back.set_conditions({"gpu1": Condition("False", "GpuEccUncorrected", "GPU 3: 12 (expected at most 0)")})
    assert bed.node("gpu1")["metadata"]["resourceVersion"] == version
    back.set_conditions({"gpu1": Condition("False", "Fan", "x")})
    second = {one["type"]: one for one in bed.node("gpu1")["status"]["conditions"]}["MusterHealthy"]
    assert (second["reason"] == "Fan"
            and second["lastTransitionTime"] == first["MusterHealthy"]["lastTransitionTime"])
    through(bed).set_conditions({"gpu1": Condition("True", "Healthy", "")})
    assert {one["type"]: one for one in bed.node("gpu1")["status"]["conditions"]}[
        "MusterHealthy"]["status"] == "False"


@pytest.mark.slow       # of the fake the thousands below are
def test_many_nodes_are_read_in_pages(bed: Serving) -> None:
    names = [f"n{at:04d}" for at in range(260)]
    for name in names:
        bed.add(name)
    back = through(bed)
    back.isolate("n0259", "muster#7: x")
    held = back.held(names)
    assert (len(held) == 260 and held["n0259"].number == 7
            and {one.holder for one in held.values()} == {Holder.NO_ONE, Holder.US})


def test_no_one_without_the_right_to_changes_anything(bed: Serving, tmp_path: Path) -> None:
    stranger = Api(str(kubeconfig(tmp_path / "stranger", bed.url, bed.trust, token="wr0ng-t0ken")))
    with pytest.raises(ActionError) as caught:
        Kubernetes(InKubernetes(), stranger).held(["gpu1"])
    assert (str(caught.value) == f"kubernetes ({bed.url}): does not accept the credentials (401): "
                                 "Unauthorized; try: kubectl get nodes")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_rights_that_we_say_we_need_are_enough_and_without_them_it_is_reported(
    real: Serving, tmp_path: Path,
) -> None:
    apiserver.emptied(real)
    _two(real)
    real.pod("runs", "gpu2", gpus=1)
    applied(real, manifest(RbacSubject("User", "warden"), condition=True))
    backs = {
        who: Kubernetes(InKubernetes(condition=True),
                        Api(str(kubeconfig(tmp_path / who, real.url, real.trust, token=who))))
            for who in ("stranger", "warden")}
    with pytest.raises(ActionError,
                       match=r"does not allow it \(403\): nodes \"gpu1\" is forbidden: User \"stranger\" "
                             r"cannot get resource"):
        backs["stranger"].held(["gpu1"])
    back = backs["warden"]
    wait_until(lambda: _allowed(back), 30, "the role")
    back.isolate("gpu1", "muster#1: fan")
    back.set_conditions({"gpu1": Condition("False", "Fan", "x")})
    assert (back.held(["gpu1", *(f"n{at}" for at in range(20))])["gpu1"].number == 1
            and set(back.running(["gpu1", "gpu2"])) == {"gpu2"})
    back.release("gpu1")
    assert mark(real, "gpu1") is None and {
        one["type"] for one in real.node("gpu1")["status"]["conditions"]} == {"MusterHealthy"}
    assert sorted(one["reason"] for one in real.events("gpu1")) == ["MusterCordoned", "MusterReleased"]
    for path, body in (("/api/v1/nodes", {"metadata": {"name": "x"}}),
                       ("/api/v1/namespaces/default/pods", {"metadata": {"name": "x"}})):
        assert Serving(real.url, real.config, None, real.trust, "warden").ask("POST", path, body)[0] == 403


def _allowed(back: Kubernetes) -> bool:
    with suppress(ActionError):
        return bool(back.held(["gpu1"]))
    return False


def test_marks_are_found_by_the_inventorys_names_wherever_template_or_label_take_them(bed: Serving) -> None:
    reason = "muster:beef#7: fan"
    for name, labels in (("w1.example.org", {}), ("gpu-7.example.org", {}), ("other", {}),
                         ("m", {"site/machine": "GPU9"})):
        bed.add(name, labels)
        Kubernetes(InKubernetes(), Api(str(bed.config))).isolate(name, reason)

    def found(there: InKubernetes, *names: str) -> set[str]:
        return set(Kubernetes(there, Api(str(bed.config))).marked(names))

    by_template = InKubernetes(name="{node}.example.org")
    assert found(by_template, "W1", "x") == {"W1", "gpu-7", "other", "m"}
    assert found(by_template) == {"w1", "gpu-7", "other", "m"}
    assert found(InKubernetes(label="site/machine")) == {"w1.example.org", "gpu-7.example.org",
                                                         "other", "GPU9"}


def agree(bed: Serving, home: Path) -> None:
    """After the next run what the node shows is what the store says; then no one holds it."""
    muster("cordon", "gpu1", "--reason", "again", home=home, code=0)
    with opened(home / "state") as store:
        (one,) = open_cordons(store)
        assert one.state is CordonState.HELD and number_of(
            mark(bed, "gpu1") or "") == one.id and all(line.outcome for line in lines(store))
    assert muster("uncordon", "gpu1", home=home).stdout.endswith("is released\n")
    assert mark(
        bed, "gpu1") is None and "unschedulable" not in spec(bed, "gpu1") and KEY not in keys(bed, "gpu1")
    with opened(home / "state") as store:
        assert open_cordons(store) == []


# Of the others test_backends.py has a twin, whose process lives.
@pytest.mark.parametrize(("action", "after"), [
    ("cordon", True), *(pytest.param(*one, marks=pytest.mark.slow) for one in (
        ("cordon", False), ("uncordon", False), ("uncordon", True)))])
def test_killed_at_the_very_request_the_mark_and_the_books_agree_afterwards(
    bed: Serving, tmp_path: Path, action: str, after: bool,
) -> None:
    def site(config: Path) -> None:
        (tmp_path / "muster.yaml").write_text(
            f"version: 1\ncordon: {{kubernetes: {{config: {config}}}}}\nnodes: {{gpu1: }}\n")

    site(bed.config)
    if action == "uncordon":
        assert muster("cordon", "gpu1", "--reason", "fan", home=tmp_path).returncode == 0
    words = ["cordon", "gpu1", "--reason", "fan"] if action == "cordon" else ["uncordon", "gpu1"]
    known = threading.Event()
    begun: list[subprocess.Popen[str]] = []

    def hook(method: str, path: str, done: bool) -> None:
        if method == "PUT" and done == after:
            known.wait(60)
            begun[0].kill()
            begun[0].wait()
            raise ConnectionAbortedError

    with relayed(bed, tmp_path / "way", hook) as config:
        site(config)
        begun.append(running(*words, home=tmp_path))
        known.set()
        assert begun[0].wait(60) == -9
    site(bed.config)
    assert (KEY in keys(bed, "gpu1")) == ((action == "cordon") == after)
    agree(bed, tmp_path)


@pytest.mark.parametrize("kind", ["drop", "drop after", 500, 502, 503, 429])
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_fault_that_passes_costs_a_moment(fake: Serving, method: str, kind: object) -> None:
    cluster = cluster_of(fake)
    left = [kind, kind]
    cluster.faults = lambda reads, path: left.pop() if reads == method and left else None
    cluster.retry_after = "3"
    waits: list[float] = []
    through(fake, waits=waits).isolate("gpu1", "muster#1: x")
    assert mark(
        fake, "gpu1") == "muster#1: x" and len(waits) == (1 if (method, kind) == ("PUT", "drop after") else 2)
    assert [key for key in keys(fake, "gpu1") if key == KEY] == [KEY]
    assert kind != 429 or waits == [3.0, 3.0]


@pytest.mark.parametrize(
    ("fault", "shown"),
    [(400, "bad request (400): an injected \\x1b[31m fault"),
     (403,
      "does not allow it (403): an injected \\x1b[31m fault; the rights that muster needs: muster privilege "
      "kubernetes"), (422, "the change is invalid (422): an injected \\x1b[31m fault"),
     (418, "refused it (418): an injected \\x1b[31m fault"),
     (429, "is overloaded (429): an injected \\x1b[31m fault"),
     (503, "is not available (503): an injected \\x1b[31m fault"), ("drop", "cannot be reached: ")])
def test_a_fault_that_stays_is_one_line_and_soon(fake: Serving, fault: object, shown: str) -> None:
    cluster = cluster_of(fake)
    cluster.faults = lambda method, path: fault
    for ask in (lambda back: back.held(["gpu1"]), lambda back: back.isolate("gpu1", "muster#1: x"),
                lambda back: back.running(["gpu1"])):
        with pytest.raises(ActionError) as caught:
            ask(through(fake))
        line = str(caught.value)
        assert line.startswith(f"kubernetes ({fake.url}): {shown}") and line.isprintable() and len(
            line) < 500 and TOKEN not in line
    assert len(cluster.seen) <= 3 * 6 + 2


def _answering(status: int, body: bytes, chunks: int = 1) -> Any:
    def answer(handler: Any) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Location", "https://127.0.0.1:1/")
        handler.send_header("Content-Length", str(len(body) * chunks))
        handler.end_headers()
        for _ in range(chunks):
            handler.wfile.write(body)

    return answer


@pytest.mark.parametrize(
    ("status", "body", "shown"),
    [(200, b"<html>login</html>", "answered no JSON object to /api/v1/nodes/gpu1; is this the API server?"),
     (200, b"[1]", "answered no JSON object"), (200, b"[" * 100_000, "answered no JSON object"),
     (200, b"", "answered no JSON object"),
     (302, b"", "refused it (302): no details for /api/v1/nodes/gpu1"),
     (403, b"\xff", "does not allow it (403): no details for"),
     (200, b'{"metadata": {"name": "../x"}}', "a node came with the name '../x', which is none"),
     (200, b'{"metadata": {}}', "a node came with the name 'None', which is none")])
def test_what_no_api_server_says_is_one_line(fake: Serving, status: int, body: bytes, shown: str) -> None:
    cluster_of(fake).faults = lambda method, path: _answering(status, body)
    with pytest.raises(ActionError) as caught:
        through(fake).held(["gpu1"])
    assert shown in str(caught.value) and str(caught.value).isprintable()


def test_a_server_that_is_slow_or_says_without_end_is_left_in_time(
    fake: Serving, monkeypatch: pytest.MonkeyPatch,
) -> None:
    import provisioning.actions.kubeapi as kubeapi

    end = threading.Event()
    cluster_of(fake).faults = lambda method, path: lambda handler: end.wait(30)
    began = time.monotonic()
    with pytest.raises(ActionError, match=r"did not answer within 0.5 s; try: kubectl get nodes"):
        through(fake, seconds=0.5).held(["gpu1"])
    assert time.monotonic() - began < 10
    end.set()
    monkeypatch.setattr(kubeapi, "MAX_ANSWER", 1000)
    cluster_of(fake).faults = lambda method, path: _answering(200, b" " * 500, 20)
    with pytest.raises(ActionError, match="answered over 1000 bytes to /api/v1/nodes/gpu1"):
        through(fake).held(["gpu1"])


def test_a_list_that_grows_old_is_begun_anew_and_not_for_ever(fake: Serving) -> None:
    names = [f"n{at:04d}" for at in range(300)]
    cluster = cluster_of(fake)
    for name in names:
        cluster.made("nodes", name, {})
    cluster.expire = 2
    assert len([one for one in through(fake).held(names).values() if one.holder is Holder.NO_ONE]) == 300
    cluster.expire = 3
    with pytest.raises(ActionError, match="the list of /api/v1/nodes was out of date 3 times"):
        through(fake).held(names)
    page = {"items": [], "metadata": {"continue": "same"}}
    cluster.faults = lambda method, path: _answering(200, json.dumps(page).encode())
    with pytest.raises(ActionError, match="the list of /api/v1/nodes has no end"):
        through(fake).held(names)
    cluster.faults = lambda method, path: _answering(200, b'{"items": {}}')
    with pytest.raises(ActionError, match="is no list"):
        through(fake).held(names)


def test_thousands_of_nodes_are_read_within_bounded_memory(fake: Serving) -> None:
    cluster = cluster_of(fake)
    names = [f"n{at:05d}" for at in range(4_000)]
    images = [
        {"names": [f"registry.example.org/image-{at}@sha256:{'0' * 64}"], "sizeBytes": 1} for at in range(3)]
    for name in names:
        cluster.nodes[name] = {
            "metadata": {"name": name, "resourceVersion": "1"}, "spec": {"taints": [NOT_READY]},
            "status": {"images": images}}
    cluster.nodes["n00007"] = cordoned(cluster.nodes["n00007"], "muster#1: x")
    back = through(fake, seconds=60)
    back.held(["n00001"])
    tracemalloc.start()
    try:
        held = back.held(names)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(held) == 4_000 and held["n00007"].number == 1
    # The server's pages are made in this process, too; all nodes at once are 12 MB.
    assert most < 6 * 1024 * 1024, most
    assert len([path for _, path in cluster.seen if "limit=" in path]) == 17


def test_a_server_that_is_not_there_is_reported_as_such(fake: Serving, tmp_path: Path) -> None:
    waits: list[float] = []
    gone = kubeconfig(tmp_path / "gone", f"https://127.0.0.1:{free_port()}", fake.trust)
    with pytest.raises(ActionError, match=r"cannot be reached: .*Connection refused; try: kubectl get nodes"):
        Kubernetes(InKubernetes(), Api(str(gone), pause=waits.append)).held(["gpu1"])
    assert len(waits) == 5


def test_a_certificate_that_no_one_vouches_for_ends_it(fake: Serving, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with serving(tmp_path / "other") as other:
        trusting = kubeconfig(tmp_path / "wrong", fake.url, other.trust)
        with pytest.raises(ActionError) as caught:
            Kubernetes(InKubernetes(), Api(str(trusting))).held(["gpu1"])
    assert "certificate verify failed" in str(caught.value) and cluster_of(fake).seen[-1][0] != "GET"


@pytest.mark.parametrize(
    ("text", "shown"),
    [("", "Invalid kube-config"), ("a: [", "cannot be used (ParserError)"), ("[1]", "cannot be used"),
     ("apiVersion: v1\n"
      "kind: Config\n"
      "clusters: []\n"
      "users: [{name: u, user: {token: s3cret-t0ken}}]\n"
      "contexts: []\n", "Invalid kube-config"),
     ("token: s3cret-t0ken\n  x: y", "cannot be used (ScannerError)")])
def test_a_kubeconfig_that_is_none_is_one_line_without_its_secrets(
    tmp_path: Path, text: str, shown: str,
) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(ActionError) as caught:
        Kubernetes(InKubernetes(), Api(str(tmp_path / "config"))).held(["gpu1"])
    line = str(caught.value)
    assert line.startswith(
        f"kubernetes: {tmp_path}/config") and shown in line and line.isprintable() and "s3cret" not in line


def test_a_context_that_is_not_there_and_no_configuration_at_all_are_reported(
    fake: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ActionError, match="Expected object with name no-such in"):
        Kubernetes(InKubernetes(), Api(str(fake.config), "no-such")).held(["gpu1"])
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    for variable in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(
        ActionError,
        match=r"neither a kubeconfig .* nor a pod's service account; name a file in the inventory"):
        Kubernetes(InKubernetes(), Api()).held(["gpu1"])
    monkeypatch.setenv("KUBECONFIG", str(fake.config))
    assert Kubernetes(InKubernetes(), Api(context="train")).held(["gpu1"])["gpu1"].holder is Holder.NO_ONE


def test_in_a_pod_its_own_account_is_used(
    fake: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    import kubernetes.config.incluster_config as places

    (tmp_path / "token").write_text(TOKEN)
    monkeypatch.setattr(places, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(places, "SERVICE_CERT_FILENAME", str(fake.trust))
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    host, _, port = fake.url.removeprefix("https://").partition(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    back = Kubernetes(InKubernetes(), Api())
    back.isolate("gpu1", "muster#1: x")
    assert back.held(["gpu1"])["gpu1"].number == 1


def test_without_the_official_client_a_line_says_how_to_get_it(
    fake: Serving, monkeypatch: pytest.MonkeyPatch,
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "kubernetes.config", None)
    with pytest.raises(
        ActionError, match=r"needs the official client: pip install 'cluster-muster\[kubernetes\]'"):
        through(fake).held(["gpu1"])


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8)
        | st.sampled_from(["muster#12: x", "12", KEY, STARTUP, "muster", "f:spec"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(
            ["metadata", "spec", "taints", "annotations", "key", "value", "effect", "unschedulable",
             "managedFields", "manager", "fieldsV1", "f:spec", "f:unschedulable", KEY, "containers",
             "resources", "limits", "requests", "nvidia.com/gpu", "phase", "status"]), inner, max_size=4),
    max_leaves=12)


@settings(max_examples=tries(400), deadline=None)
@given(st.fixed_dictionaries({}, optional={"metadata": JSON, "spec": JSON, "status": JSON}))
def test_no_document_breaks_the_reading_of_it(document: Json) -> None:
    held = held_of(document)
    assert held.reason.isprintable() and len(
        held.reason) <= 200 and (held.holder is not Holder.US or held.number is not None)
    assert gpu_pod(document).isprintable() and unproven(document) in (True, False)


TAINT = st.fixed_dictionaries({
    "key": st.sampled_from([KEY, STARTUP, "a", "node.kubernetes.io/not-ready"]),
    "effect": st.sampled_from(["NoSchedule", "NoExecute"])},
                              optional={"value": st.sampled_from(["1", "12", "x", ""])})


@settings(max_examples=tries(400), deadline=None)
@given(taints=st.lists(TAINT, max_size=4), closed=st.booleans(),
       words=st.none() | st.sampled_from(["", "fan", "muster#12: x", "muster#1: y"]),
       setter=st.none() | st.sampled_from(["muster", "kubectl"]),
       other=st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2))
def test_a_node_that_no_one_holds_is_the_same_after_a_cordon_and_its_release(
    taints: list[Json], closed: bool, words: str | None, setter: str | None, other: dict[str, str],
) -> None:
    node: Json = {
        "metadata": {"name": "n", "annotations": {**other, **({} if words is None else {KEY: words})}},
        "spec": {"podCIDR": "x"}}
    if taints:
        node["spec"]["taints"] = taints
    if closed:
        node["spec"]["unschedulable"] = True
    if setter and closed:
        node["metadata"][
            "managedFields"] = [{"manager": setter, "fieldsV1": {"f:spec": {"f:unschedulable": {}}}}]
    before = json.dumps(node)
    held = held_of(node)
    ours = cordoned(node, "muster#7: z")
    back = released(ours)
    assert json.dumps(node) == before
    if held.holder is Holder.NO_ONE:
        assert (held_of(ours).holder, held_of(ours).number) == (Holder.US, 7)
        assert back["spec"] == node["spec"] and {**back["metadata"]["annotations"]} == other
    if held.number is not None:
        assert held_of(released(node)).number is None
        assert [taint for taint in released(node)["spec"].get("taints", []) if taint["key"] != KEY] == [
            taint for taint in taints if taint["key"] != KEY]
    if held.holder is Holder.OTHERS and closed and setter == "kubectl":
        assert released(node)["spec"]["unschedulable"] is True
    if unproven(node):
        assert not unproven(proven(node)) and len(proven(node)["spec"]["taints"]) < len(taints)


def test_the_command_that_ends_jobs_names_the_cluster_and_the_nodes_as_kubectl_does() -> None:
    def command(there: InKubernetes) -> str:
        return Kubernetes(there, Api(None, None, 20)).end_jobs(["GPU1", "gpu2"])

    ends = "--ignore-daemonsets --delete-emptydir-data"
    assert command(InKubernetes()) == f"kubectl drain gpu1 gpu2 {ends}"
    assert command(InKubernetes(config="/etc/a b", context="prod", name="{node}.example")) == (
        f"kubectl --kubeconfig '/etc/a b' --context prod drain gpu1.example gpu2.example {ends}")
    assert command(InKubernetes(label="example.org/machine")) == (
        f"kubectl drain --selector 'example.org/machine in (GPU1,gpu2)' {ends}")
