"""What the head puts into the snapshot, from a real store and inventory; that it is signed,
numbered and whole; and the commands."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from healthcheck.burnin.document import write as write_burnin
from healthcheck.certify.certificate import CertificateManifest
from healthcheck.certify.manifest import load_manifest, revoke
from healthcheck.certify.policyload import load_certificate_policy
from healthcheck.config.rulesfolder import packaged
from healthcheck.gate.entries import entries
from healthcheck.gate.locate import Missing, load
from healthcheck.gate.nodestatus import gate_node
from healthcheck.gate.publish import publish
from healthcheck.gate.reading import snapshot_of
from healthcheck.model.outcome import (
    Finding,
    LogEvidence,
    LogView,
    NodeReport,
    NodeState,
    Origin,
    Result,
    Severity,
    Status,
    state_of,
)
from healthcheck.store import rmas
from healthcheck.store.cordons import mean
from healthcheck.store.file import Store, opened
from healthcheck.store.readings import readings
from healthcheck.store.sweeps import SweepRecord, record
from inventory.errors import CertificateError
from inventory.load import load_inventory
from inventory.model import Inventory
from inventory.transport.base import Stage
from tests.healthcheck import machine
from tests.healthcheck.burnin.made import burnin, places, sound
from tests.healthcheck.certify.world import NOW, POLICY, Head, Place, dying, entry, head, place
from tests.testbed.marks import muster, plain

ASKED = load_certificate_policy([packaged()])
INVENTORY = """version: 1
nodes:
  n1: {leaf: [leaf1], nvlink_domain: d1}
  n2: {leaf: [leaf1, leaf2]}
  n3: {lifecycle: maintenance}
groups: {train: "n[1-2]", every: "n[1-3]"}
"""


@pytest.fixture
def inventory(tmp_path: Path) -> Inventory:
    (tmp_path / "muster.yaml").write_text(INVENTORY)
    return load_inventory(tmp_path / "muster.yaml")


@pytest.fixture
def made(tmp_path: Path) -> Head:
    return head(tmp_path / "state")


def report(node: str, *results: Result, stage: Stage | None = None) -> NodeReport:
    if stage is not None:
        return NodeReport(node, NodeState.UNKNOWN, f"{stage.value}: it is so", (), stage=stage.value)
    found = results or (Result("r", "c", Status.PASS, Severity.CRITICAL, ()),)
    return NodeReport(node, state_of(found), "why it is", found)


def swept(store: Store, *reports: NodeReport, at: float = NOW, boot: str = "b1", **changed: Any) -> None:
    found = {one.node: readings(machine.on_host(machine.recording(one.node, **changed), boot_id=boot))
             for one in reports if one.results}
    record(store, SweepRecord(at, at + 1, False, "test", "d"), reports, found)


def told(made: Head, inventory: Inventory, now: float = NOW + 60) -> dict[str, dict[str, Any]]:
    with opened(made.state, make=True) as store:
        return entries(store, inventory, load_manifest(made.state), ASKED, now)


def unknown(rule: str, origin: Origin) -> Result:
    return Result(rule, "c", Status.UNKNOWN, Severity.CRITICAL, (), "no word", origin)


def test_an_entry_says_all_that_a_gate_asks_for(made: Head, inventory: Inventory) -> None:
    with opened(made.state, make=True) as store:
        swept(store, report("n1"), report("n2"))
    found = told(made, inventory)
    assert found["n1"] == {
        "lifecycle": "service", "state": "healthy", "origin": None, "unknown": [], "isolation": "none",
        "why": "why it is", "cordoned": None, "groups": ["every", "train"], "leaf": ["leaf1"], "domain": "d1",
        "looked": NOW, "certificate": None,
        "versions": {"driver": "550.54.15", "kernel": "6.5.0-1019", "firmware": "96.00.74.00.01"}}
    assert found["n3"]["lifecycle"] == "maintenance" and found["n2"]["leaf"] == ["leaf1", "leaf2"]
    assert (found["n3"]["state"], found["n3"]["origin"], found["n3"]["looked"]) == ("unknown", "muster", None)
    for name, held in found.items():
        assert gate_node(name, json.loads(json.dumps(held))).name == name


def test_an_unknown_tells_whose_doing_it_is_and_which_rules_it_is_of(
    made: Head, inventory: Inventory,
) -> None:
    with opened(made.state, make=True) as store:
        swept(store, report("n1"), report("n2"), at=NOW - 500)
        swept(store, report("n1", unknown("a", Origin.NODE), unknown("b", Origin.MUSTER)),
              report("n2", unknown("b", Origin.MUSTER)))
        found = told(made, inventory)
        assert (found["n1"]["state"], found["n1"]["origin"], found["n1"]["unknown"]) == (
            "unknown", "node", ["a", "b"])
        assert (found["n2"]["origin"], found["n2"]["unknown"]) == ("muster", ["b"])
        swept(store, report("n1", stage=Stage.CONNECT), report("n2", stage=Stage.TURN), at=NOW + 30)
        found = told(made, inventory)
        assert (found["n1"]["origin"], found["n2"]["origin"]) == ("node", "muster")
        for number, stage in enumerate((Stage.JUMP, Stage.HEAD), 31):
            swept(store, report("n1", stage=stage), report("n2"), at=NOW + number)
            assert told(made, inventory)["n1"]["origin"] == "muster"
        swept(store, report("n1", stage=Stage.CONNECT), report("n2", stage=Stage.TURN), at=NOW + 40)
        # A look that did not reach it is none.
        assert (found["n1"]["looked"], found["n2"]["looked"]) == (NOW, NOW)
        with store.writing() as db:
            db.execute("INSERT INTO incident (kind, cause, nodes, why, owner, began, seen) "
                       "VALUES ('unreached', 'network', '[\"n1\"]', '', 'operator', 1, 2)")
        assert told(made, inventory)["n1"]["origin"] == "muster"


def test_a_look_of_a_time_that_is_still_to_come_is_none(made: Head, inventory: Inventory) -> None:
    with opened(made.state, make=True) as store:
        swept(store, report("n1"), at=NOW + 7200)
    assert told(made, inventory)["n1"]["looked"] is None


def test_isolation_cordons_and_returns_to_the_vendor_are_reported(made: Head, inventory: Inventory) -> None:
    with opened(made.state, make=True) as store:
        swept(store, report("n1"), report("n2"))
        assert mean(store, "n1", "slurm", "new cables", "root", NOW) is not None
        with store.writing() as db:
            number = db.execute("INSERT INTO verdict (node, fault, isolation, repair, owner, why, evidence, "
                                "began, seen) SELECT id, 'gpu-lost', 'evict', 'reboot', 'operator', 'GPU 3 "
                                "is gone', '[]', 1, 2 FROM node WHERE name = 'n2'").lastrowid
        assert mean(store, "n2", "slurm", "gpu-lost", "triage", NOW, number) is not None
        found = told(made, inventory)
        assert (plain(found["n1"]["cordoned"]) == "root: new cables (muster#1)"
                and found["n1"]["isolation"] == "none")
        assert (found["n2"]["isolation"], found["n2"]["why"], found["n2"]["cordoned"]) == (
            "evict", "GPU 3 is gone", None)
        rmas.begin(store, "n1", "", "chassis", "C1", "dead", "root", "", "", NOW)
        assert told(made, inventory)["n1"]["lifecycle"] == "rma"


def test_a_certificate_is_reported_as_it_stands(made: Head, inventory: Inventory) -> None:
    with opened(made.state, make=True) as store:
        swept(store, report("n1"), report("n2"))
        made.certify("n1", "n2", hardware=_hardware(store))
        found = told(made, inventory)
        held = load_manifest(made.state).nodes["n1"]
        assert found["n1"]["certificate"] == {"id": held.id, "stage": "standard", "at": NOW + 1,
                                              "hardware": found["n1"]["certificate"]["hardware"],
                                              "boot": "b1", "kind": "ok", "cause": None, "asks": None,
                                              "why": ""}
        swept(store, report("n1"), at=NOW + 10, boot="b2")
        swept(store, report("n2"), at=NOW + 10,
              gpu_nvml=machine.nvml(gpu2={"uuid": machine.reading("GPU-new")}))
        found = told(made, inventory)
        assert [found["n1"]["certificate"][key] for key in ("kind", "cause", "asks")] == [
            "requalify", "rebooted", "quick"]
        assert [found["n2"]["certificate"][key] for key in ("kind", "cause", "asks")] == [
            "requalify", "changed", "standard"]
        revoke(made.state, ["n1"], "a leak", "root", NOW)
        assert told(made, inventory)["n1"]["certificate"]["kind"] == "revoked"


def _hardware(store: Store) -> Any:
    from healthcheck.store.hardware import newest_hardware

    return newest_hardware(store)["n1"][1].hardware


def test_each_snapshot_has_a_higher_number_than_all_before_it_however_the_clock_is_set(made: Head) -> None:
    serials = [made.publish(now=now).serial for now in (NOW, NOW, NOW - 86400, 0, NOW + 1000, NOW - 7, 12)]
    assert serials == sorted(set(serials))
    (made.state / "gate/serial.json").unlink()      # the folder was put back without it
    assert made.publish(now=NOW + 1100).serial > serials[-1]


def test_killed_anywhere_publishing_leaves_the_old_snapshot_or_the_new_one_and_no_number_twice(
    made: Head, tmp_path: Path,
) -> None:
    node = place(tmp_path / "node", made)
    given = [made.publish().serial]
    for after in range(300):
        with dying(after) as dead:
            made.publish(now=NOW)
        found = load(str(made.state / "gate"), node.trusted).serial
        assert found >= given[-1]
        given.append(found)
        if not dead():
            break
    whole = [made.publish(now=NOW) for _ in range(2)]
    assert given[-1] < whole[0].serial < whole[1].serial
    assert len({one.data for one in whole}) == 2


def test_what_the_head_cannot_sign_leaves_the_snapshot_before(made: Head, tmp_path: Path) -> None:
    node, before = place(tmp_path / "node", made), made.publish()
    for odd, policy in (({"looked": float("nan")}, POLICY), ({"lifecycle": "service"}, POLICY),
                        (entry(), {})):
        with pytest.raises(CertificateError, match="the snapshot cannot be written"):
            publish(made.state, {"n1": odd}, policy, NOW)
    assert load(str(made.state / "gate"), node.trusted).serial == before.serial


def test_a_thousand_nodes_are_one_document_that_a_gate_reads_by_lines(made: Head) -> None:
    snapshot = made.publish(*(f"gpu{number:04d}" for number in range(1000)))
    found = snapshot_of(snapshot.data)
    assert len(found.names()) == 1000 and found.entry("gpu0999")["state"] == "healthy"
    assert json.loads(snapshot.data)["serial"] == snapshot.serial


def test_a_cluster_without_certificates_has_an_empty_manifest(made: Head) -> None:
    assert load_manifest(made.state) == CertificateManifest("alpha")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A head that has swept and burnt in eight nodes, of which all have passed."""
    folder = tmp_path_factory.mktemp("home")
    nodes = [place.node for place in places(8)]
    (folder / "muster.yaml").write_text(
        "version: 1\nnodes:\n" + "".join(f"  {node}: {{}}\n" for node in nodes))
    now = time.time()
    with opened(folder / "state", make=True) as store:
        swept(store, *(report(node) for node in nodes[:-1]), at=now - 700)
    write_burnin(folder / "state", burnin(places(8), sound(places(8)), began=now - 900))
    return folder


def said(home: Path, *words: str, code: int = 0) -> str:
    done = muster(*words, home=home)
    assert done.returncode == code, (words, done.stdout, done.stderr)
    return done.stdout + done.stderr


def test_from_a_burn_in_to_a_gate_by_commands_alone(home: Path, tmp_path: Path) -> None:
    assert "there is no key yet; muster certificate key new" in said(home, "gate", "publish", code=2)
    private = said(home, "certificate", "key", "new", "--cluster", "alpha")
    assert "PRIVATE" not in private and "key1 of alpha: SHA256:" in private
    (result,) = (home / "state/burnin").glob("*.burnin.json")
    out = said(home, "certificate", "issue", str(result), code=3)
    assert (out.count(": certified, quick of ") == 7
            and "no look has read its hardware: muster check gpu008 --store" in out)
    assert said(home, "certificate", "verify").startswith("valid: number ")
    assert said(home, "certificate", "show", "gpu001").startswith("gpu001: valid: quick of ")
    assert said(home, "certificate", "show", "gpu008", code=1) == "gpu008: none\n"
    assert said(home, "certificate", "due", code=1) == "nothing is due\n"
    assert "8 nodes, 7 certified" in said(home, "gate", "publish")
    trust = said(home, "certificate", "key", "show", "--trusted")
    (tmp_path / "gate.pub").write_text(trust)
    checked = subprocess.run(["ssh-keygen", "-Y", "verify", "-f", tmp_path / "gate.pub", "-I", "muster", "-n",
                              "muster-gate", "-s", home / "state/gate/gate.json.sig"],
                             input=(home / "state/gate/gate.json").read_bytes(), capture_output=True,
                             check=False)
    assert checked.returncode == 0, checked.stderr
    where = ("--folder", str(tmp_path / "gate"), "--keys", str(tmp_path / "gate.pub"))
    assert said(home, "gate", "fetch", str(home / "state/gate"), *where).startswith("snapshot ")
    said(home, "gate", "gpu[001-007]", *where)
    assert "no certificate" in said(home, "gate", "gpu008", *where, code=1)
    assert "gpu001: revoked" in said(home, "certificate", "revoke", "gpu001", "--reason", "a leak")
    assert "REVOKED" in said(home, "certificate", "show", "gpu001", code=1)
    said(home, "gate", "publish")
    said(home, "gate", "fetch", str(home / "state/gate"), *where)
    assert "its certificate was revoked: a leak" in said(home, "gate", "gpu[001-002]", *where, code=1)
    document = json.loads(said(home, "certificate", "show", "--json", code=1))
    assert [one["kind"] for one in document["nodes"]] == ["revoked", *["ok"] * 6]


def test_a_burn_in_from_before_a_rename_certifies_the_node_under_its_new_name(tmp_path: Path) -> None:
    (tmp_path / "muster.yaml").write_text(
        "version: 1\ncordon: {hostfile: bad}\nnodes:\n" + "".join(
            f"  {place.node}: {{}}\n" for place in places(8)))
    now = time.time()
    with opened(tmp_path / "state", make=True) as store:
        swept(store, *(report(place.node) for place in places(8)), at=now - 700)
    write_burnin(tmp_path / "state", burnin(places(8), sound(places(8)), began=now - 900))
    said(tmp_path, "certificate", "key", "new", "--cluster", "alpha")
    said(tmp_path, "inventory", "rename", "gpu001", "gpu101", "--reason", "moved", "--yes")
    (result,) = (tmp_path / "state/burnin").glob("*.burnin.json")
    out = said(tmp_path, "certificate", "issue", str(result), "--nodes", "gpu101,gpu002")
    assert "gpu101: certified" in out and "gpu002: certified" in out and "gpu001" not in out


def test_who_was_rebooted_is_due_where_it_is_idle_and_a_quick_burn_in_renews_it(
    made: Head, home: Path,
) -> None:
    now = time.time()
    with opened(made.state, make=True) as store:
        swept(store, report("n1"), report("n2"), at=now - 500)
        made.now = now - 400
        parts = _hardware(store)
        made.certify("n1", "n2", hardware=parts)
        swept(store, report("n1"), report("n2"), at=now - 300, boot="b2")
    where = ("--state", str(made.state))
    out = said(home, "certificate", "due", *where)
    assert [line.partition(": booted since")[0] for line in out.splitlines()] == ["n1: quick", "n2: quick"]
    assert said(home, "certificate", "due", "--stage", "quick", *where) == "n[1-2]\n"
    (home / "names.yaml").write_text("version: 1\nnodes: {n1: {}, n2: {}}\n")
    assert said(home, "certificate", "due", "--idle", "n2", "--stage", "quick", "-i",
                str(home / "names.yaml"), *where) == "n2\n"
    made.certify("n1", stage="quick", boot="b2", hardware=parts)
    assert said(home, "certificate", "due", "--stage", "quick", *where) == "n2\n"
    (one,) = json.loads(said(home, "certificate", "due", "--json", *where))["nodes"]
    assert (one["node"], one["stage"], one["cause"]) == ("n2", "quick", "rebooted")


def test_a_key_that_no_snapshot_has_announced_is_not_used_unless_that_is_meant(
    home: Path, made: Head,
) -> None:
    where = ("--state", str(made.state))
    made.publish()
    said(home, "certificate", "key", "new", *where)
    out = said(home, "certificate", "key", "use", "key2", *where, code=2)
    assert "does not name key2, so nodes would refuse its signatures: muster gate publish" in out
    made.publish()
    assert "key2 signs from now on" in said(home, "certificate", "key", "use", "key2", *where)
    said(home, "certificate", "key", "new", *where)
    said(home, "certificate", "key", "use", "key3", "--unannounced", *where)
    assert "'key7': no such key" in said(home, "certificate", "key", "use", "key7", *where, code=2)


def test_no_command_ever_prints_a_private_key(home: Path) -> None:
    state = home / "never"
    for words in (("key", "new"), ("key", "new"), ("key", "show"), ("key", "show", "--trusted"),
                  ("key", "use", "key2"), ("key", "retire", "key1"), ("show",), ("verify",)):
        out = said(home, "certificate", *words, "--state", str(state))
        secret = (b"".join((state / "keys/key2.key").read_bytes().split(b"\n")[1:-2])
                  if (state / "keys/key2.key").exists() else b"-")
        assert ("PRIVATE" not in out
                and secret.decode() not in out.replace("\n", "-" if secret == b"-" else "").replace("-", ""))


def test_a_fetch_that_is_refused_is_one_line_and_leaves_what_was_kept(
    home: Path, made: Head, tmp_path: Path,
) -> None:
    node: Place = place(tmp_path / "node", made)
    made.publish()
    other = head(tmp_path / "other")
    other.publish()
    where = ("--folder", node.folder, "--keys", node.trusted)
    said(home, "gate", "fetch", str(made.state / "gate"), *where)
    assert "it was not signed by a key trusted here" in said(home, "gate", "fetch", str(other.state / "gate"),
                                                             *where, code=2)
    assert "no source: muster gate fetch SOURCE" in said(home, "gate", "fetch", *where, code=2)
    assert load(node.folder, node.trusted).cluster == "alpha"
    with pytest.raises(Missing):
        load(str(tmp_path / "nowhere"), node.trusted)


def test_a_fault_of_a_kernel_log_closes_the_gate_before_triage_ran_though_the_newest_sweep_no_longer_shows_it(
    made: Head, inventory: Inventory,
) -> None:
    log = LogEvidence("nvrm", "reset", 1, 5.0, 5.0, (7,))
    failed = Result("kernel-xid", "kernel.xid", Status.FAIL, Severity.CRITICAL,
                    (Finding("48", "none", "GPU at PCI 0000:18:00, Xid 48", log=log),))
    passed = Result("kernel-xid", "kernel.xid", Status.PASS, Severity.CRITICAL)

    def look(result: Result, at: float, view: LogView) -> dict[str, Any]:
        with opened(made.state, make=True) as store:
            swept(store, dataclasses.replace(report("n1", result), log=view), report("n2"), at=at)
        return told(made, inventory, at + 60)["n1"]

    assert look(failed, NOW, LogView("b1", 0))["state"] == "unhealthy"
    found = look(passed, NOW + 60, LogView("b1", 900))          # it rotated
    assert found["state"] == "unhealthy" and "nothing shows that it ended" in found["why"]
    assert look(passed, NOW + 120, LogView("", 0, since=9, now=10, whole=False))["state"] == "unhealthy"
    assert look(passed, NOW + 180, LogView("b1", 900, resets=(("0000:19:00", 950),)))["state"] == "unhealthy"
    assert look(passed, NOW + 240, LogView("b1", 900, resets=(("0000:18:00", 950),)))["state"] == "healthy"
