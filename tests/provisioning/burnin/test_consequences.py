"""A burn-in with real ranks that finds a bad GPU in a node in service: triage isolates it, its certificate is
gone, its gate is shut."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from healthcheck.certify.certificate import Passed
from healthcheck.certify.keys import NAMESPACES, load_keys, new_key
from healthcheck.certify.manifest import issue, load_manifest
from healthcheck.gate.decide import answer
from healthcheck.gate.locate import load
from healthcheck.model.outcome import NodeReport, NodeState, Result, Severity, Status
from healthcheck.store.file import opened
from healthcheck.store.history import problems
from healthcheck.store.readings import Component, NodeReadings
from healthcheck.store.sweeps import SweepRecord, record
from tests.provisioning.burnin.site import Site
from tests.testbed import torches

BAD = {"fault": "product", "node": "n3", "gpu": 1}


def swept(site: Site, at: float, profile: str = "") -> None:
    """A sweep that finds every node healthy, with its two GPUs."""
    passed = Result("kernel-xid", "kernel.xid", Status.PASS, Severity.CRITICAL)
    with opened(site.home / "state", make=True) as store:
        record(store, SweepRecord(at, at + 1, False, "test", "digest", (profile,) if profile else ()),
               [NodeReport(name, NodeState.HEALTHY, "", (passed,)) for name in site.names],
               {
                   name: NodeReadings(
                       tuple(Component("gpu", f"0000:{at + 1}b:00.0", f"{name}-{at}", f"GPU {at}")
                             for at in range(2)), (), frozenset({"gpu"}), "b1") for name in site.names})


def hours_ago(site: Site, hours: float) -> None:
    """All that the store knows of nodes was so many hours ago."""
    times = {
        "snapshot": ("time",), "spell": ("began", "seen"), "problem": ("began", "seen", "ended"),
        "cordon": ("began", "ended"), "verdict": ("began", "seen"), "boot": ("began", "seen"),
        "newest": ("time",), "hardware": ("time",), "sweep": ("started", "finished")}
    with opened(site.home / "state") as store, store.writing() as db:
        for table, columns in times.items():
            earlier = ", ".join(f"{column} = {column} - {hours * 3600}" for column in columns)
            db.execute(f"UPDATE {table} SET {earlier}")  # noqa: S608  (ours)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Three nodes in service, certified a day ago."""
    made = Site(tmp_path, torches.forked(), nodes=3, ranks=2)
    now = time.time()
    new_key(tmp_path / "state", "alpha", "test", now)
    hardware = {"gpu 0000:1b:00.0": {"serial": "1"}}
    issue(tmp_path / "state", [Passed(name, "quick", int(now - 86400), boot="b1") for name in made.names],
          dict.fromkeys(made.names, hardware), now)
    swept(made, now - 60)
    return made


def stands(site: Site) -> dict[str, str]:
    said = json.loads(site.muster("certificate", "show", "--json").stdout)
    return {one["node"]: one["kind"] for one in said["nodes"]}


def gate(site: Site) -> dict[str, tuple[int, str]]:
    """By node whether the gate opens for it, by a snapshot that is published now, and its words."""
    site.muster("gate", "publish", code=0)
    (site.home / "gate.pub").write_text(
        "".join(key.public.line(NAMESPACES) for key in load_keys(site.home / "state").trusted))
    snapshot = load(str(site.home / "state/gate"), str(site.home / "gate.pub"))
    found = {name: answer(snapshot, [name], time.time()) for name in site.names}
    return {name: (one.gate.value, "; ".join(why.why for why in one.whys)) for name, one in found.items()}


pytestmark = pytest.mark.timeout(300)


def test_a_bad_gpu_of_a_node_in_service_is_isolated_uncertified_and_shut_out_and_the_others_are_not(
    site: Site,
) -> None:
    site.plant(BAD)
    done = site.run("--stages", "node", nodes="n[2-3]", code=1)
    run = site.document()["run"]
    assert "accused for certain: n3; muster triage shows what is done" in done.stderr
    # Only triage cordons, within its bound: until then the node is free, and what to type is said.
    assert ("jobs may start on those in service until triage has isolated them, within its bound; next: "
            "muster triage --apply" in done.stderr)
    assert list(site.cordoned()) == []
    assert ("certificates of n3 are revoked; gates close on them with the next: muster gate publish"
            in done.stderr)
    # Before triage has run.
    assert stands(site) == {"n1": "ok", "n2": "ok", "n3": "revoked"}
    revoked = load_manifest(site.home / "state").revoked
    assert [one.node for one in revoked] == ["n3"] and f"burn-in {run} found wrong data" in revoked[0].why
    gates = gate(site)
    assert {name: code for name, (code, _) in gates.items()} == {"n1": 0, "n2": 0, "n3": 1}
    assert f"its certificate was revoked: burn-in {run} found wrong data" in gates["n3"][1]
    plan = json.loads(site.muster("triage", "--format", "json").stdout)
    assert [(step["act"], step["node"]) for step in plan["steps"]] == [("isolate", "n3")]
    applied = site.muster("triage", "--apply")
    assert applied.returncode == 1 and list(site.cordoned()) == ["n3"], (applied.stdout, applied.stderr)
    with opened(site.home / "state") as store:
        (verdict,) = store.rows("SELECT fault, isolation, repair, owner, why FROM verdict WHERE ended IS "
                                "NULL AND isolation != 'none'")
        (problem,) = problems(store, ["n3"], 0, still=True)
    assert tuple(verdict)[:4] == (
        "wrong-arithmetic", "evict", "replace", "vendor") and "burnin-wrong-data of GPU 1" in verdict[4]
    assert (
        problem.subject, problem.serial) == ("GPU 1", "n3-1") and f"burn-in {run}, for it: " in problem.reason
    assert "burnin-wrong-data  GPU 1: wrong data" in site.muster("history", "n3").stdout

    # Sweeps under the profile of requalification see nothing, and end nothing.
    for _ in range(2):
        swept(site, time.time(), "bringup")
    assert site.muster("triage", "--apply").returncode == 1 and list(site.cordoned()) == ["n3"]

    # Mended, it passes, and is returned by clean sweeps; its certificate is a new one, or none.
    site.plant()
    again = site.run("--stages", "node", nodes="n3")
    assert again.returncode == 0 and "passed where an earlier burn-in had failed: n3" in again.stderr, (
        again.stdout, again.stderr)
    assert stands(site)["n3"] == "revoked" and gate(site)["n3"][0] == 1
    hours_ago(site, 3)
    for ago in (7200, 10):
        swept(site, time.time() - ago, "bringup")
    released = site.muster("triage", "--apply")
    assert released.returncode == 0 and list(site.cordoned()) == [], (released.stdout, released.stderr)
    with opened(site.home / "state") as store:
        assert problems(store, None, 0, still=True) == []


@pytest.mark.slow
def test_a_burn_in_that_is_cut_short_has_no_consequence(site: Site) -> None:
    site.plant(BAD)
    head = site.come_to("leaf-pairs", "--stages", "node,leaf-pairs")     # the bad GPU has been named by then
    head.send_signal(signal.SIGTERM)
    out, err = head.communicate(timeout=60)
    assert head.returncode == 130 and "n3" in out, (out, err)
    assert set(stands(site).values()) == {"ok"}
    with opened(site.home / "state") as store:
        assert problems(store, None, 0) == []
    assert json.loads(site.muster("triage", "--format", "json").stdout)["steps"] == []


@pytest.mark.slow
def test_a_node_that_is_not_in_service_is_not_isolated_and_is_not_certified_either(site: Site) -> None:
    text = json.loads((site.home / "muster.yaml").read_text())
    text["nodes"]["n3"]["lifecycle"] = "bringup"
    (site.home / "muster.yaml").write_text(json.dumps(text))
    site.plant(BAD)
    assert site.run("--stages", "node").returncode == 1
    assert json.loads(
        site.muster("triage", "--format", "json").stdout)["steps"] == [] and stands(site)["n3"] == "revoked"
    text["nodes"]["n3"]["lifecycle"] = "service"
    (site.home / "muster.yaml").write_text(json.dumps(text))
    assert ([step["node"] for step in json.loads(site.muster("triage", "--format", "json").stdout)["steps"]]
            == ["n3"])


@pytest.mark.slow
def test_where_nothing_can_be_signed_the_store_alone_keeps_the_certificate_from_standing(site: Site) -> None:
    (site.home / "state/keys").rename(site.home / "elsewhere")
    site.plant(BAD)
    done = site.run("--stages", "node")
    assert (done.returncode == 1
            and "certificates of the accused are NOT revoked, and do not stand by what the store says"
            in done.stderr)
    (site.home / "elsewhere").rename(site.home / "state/keys")
    assert load_manifest(site.home / "state").revoked == () and stands(
        site) == {"n1": "ok", "n2": "ok", "n3": "revoked"}
    assert {name: code for name, (code, _) in gate(site).items()} == {
        "n1": 0, "n2": 0, "n3": 1}
