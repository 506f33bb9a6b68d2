"""The last steps on real ranks, on this machine: burn-in, certificate, service."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from healthcheck.certify.keys import new_key
from healthcheck.certify.manifest import revoke
from healthcheck.model.hardware import Now
from healthcheck.model.outcome import Owner
from healthcheck.store.file import opened
from healthcheck.store.hardware import write_hardware
from inventory.load import load_inventory
from inventory.model import LifecycleState
from provisioning.bringup.engine.model import Observation, OperationResult, StepEffect, StepState
from provisioning.bringup.steps.burnin import BurnInStep
from provisioning.bringup.steps.certificate import Certify
from provisioning.bringup.steps.service import ServiceStep, set_lifecycle
from tests.provisioning.bringup.afteros import after, context, machines, step
from tests.provisioning.burnin.site import Site
from tests.testbed import torches


def bed(home: Path, nodes: int) -> Site:
    site = Site(home, torches.forked(), nodes)
    (home / "state").mkdir(exist_ok=True)
    text = json.loads((home / "muster.yaml").read_text())
    text["defaults"]["lifecycle"] = "bringup"
    (home / "muster.yaml").write_text(json.dumps(text, indent=1))
    return site


def test_whoever_passes_goes_on_to_a_certificate_and_to_service_and_whoever_is_accused_stays(
    tmp_path: Path,
) -> None:
    site = bed(tmp_path, 3)
    site.plant({"fault": "product", "node": "n3", "gpu": 0})
    of = context(tmp_path)
    there = machines(of, "n1", "n2", "n3")
    burn = BurnInStep(step("burnin"), of, "quick", "node,leaf-pairs")
    seen = dict(burn.observe(there))
    assert {one.stand for one in seen.values()} == {StepState.NOT_SO}
    operation = seen["n1"].operation
    assert operation is not None and operation.effect is StepEffect.DISRUPTIVE and operation.change == (
        "burn in, length quick, stages node,leaf-pairs",)
    made = burn.make_together(there)
    assert {name: one.done for name, one in made.items()} == {"n1": True, "n2": True, "n3": True}, made
    assert site.cordoned() == []
    there = [after(one, seen[one.name], made[one.name]) for one in there]
    seen = dict(burn.observe(there))
    assert {name: one.stand for name, one in seen.items()} == {
        "n1": StepState.SO, "n2": StepState.SO, "n3": StepState.TROUBLE}
    (trouble,) = seen["n3"].troubles
    assert (trouble.owner, trouble.part, trouble.slot) == (
        Owner.VENDOR, "gpu", "GPU 0") and "wrong data" in trouble.what
    # A burn-in of before a machine came to this step does not mention it.
    assert {
        one.stand for _, one in burn.observe(machines(of, "n1", began=time.time() + 5))} == {StepState.NOT_SO}

    well = [after(one, seen[one.name]) for one in there if one.name != "n3"]
    certify = Certify(step("certificate"), of)
    message = dict(certify.observe(well))
    assert {one.stand for one in message.values()} == {
        StepState.TROUBLE} and "muster certificate key new" in message["n1"].troubles[0].hand
    assert message["n1"].troubles[0].hand.endswith("muster bringup retry n1")
    new_key(of.folder, "test", "a test", time.time())
    ((_, bare),) = certify.observe(machines(of, "n1"))
    assert (bare.stand is StepState.TROUBLE
            and bare.troubles[0].hand.endswith("muster bringup skip n1 --step certificate --reason WHY"))
    message = dict(certify.observe(well))
    assert {one.stand for one in message.values()} == {StepState.NOT_SO}
    # No one has read their hardware yet: not certified, and said so.
    refused = certify.make_together(well)
    assert {one.done for one in refused.values()} == {
        False} and "no look has read its hardware" in refused["n1"].message
    again = dict(certify.observe([after(one, message[one.name], refused[one.name]) for one in well]))
    assert {one.stand for one in again.values()} == {StepState.TROUBLE}
    # This machine tells no serial number; theirs are of a look that is made here.
    with opened(of.folder, make=True) as store, store.writing() as db:
        for machine in well:
            db.execute("INSERT INTO node (name) VALUES (?) ON CONFLICT DO NOTHING", (machine.name,))
            (number,) = db.execute("SELECT id FROM node WHERE name = ?", (machine.name,)).fetchone()
            write_hardware(
                db, number, time.time(),
                Now({"chassis": {"serial": f"S-{machine.name}"}}, frozenset({"chassis"}), "boot", {}))
    done = certify.make_together(well)
    assert {one.done for one in done.values()} == {True}, done
    assert {one.stand for _, one in certify.observe(well)} == {StepState.SO}
    assert "passed no burn-in" in dict(certify.observe(machines(of, "n3")))["n3"].message
    # One that a person took back stays so, and is no one else's trouble.
    revoke(of.folder, ["n1"], "coolant leak", "ada", time.time() + 1)
    done = certify.make_together(well)
    assert (done["n1"].done, done["n2"].done) == (
        False, True) and "was revoked after this result" in done["n1"].message, done
    assert dict(certify.observe(well))["n1"].stand is StepState.NOT_SO

    service = ServiceStep(step("service"), of)
    request = dict(service.observe(well))
    assert (request["n1"].operation is not None
            and request["n1"].operation.change == ("lifecycle: bringup -> service",))
    assert {one.done for one in service.make_together(well).values()} == {True}
    assert {one.stand for _, one in service.observe(well)} == {StepState.SO}
    found = load_inventory(of.path, None)
    assert {node.name: node.lifecycle.state for node in found} == {
        "n1": LifecycleState.SERVICE, "n2": LifecycleState.SERVICE, "n3": LifecycleState.BRINGUP}


def refused(home: Path, cordon: dict[str, Any] | None) -> tuple[OperationResult, Observation]:
    """What comes of a burn-in where this is to keep jobs away, and how the step looks then."""
    bed(home, 1)
    text = json.loads((home / "muster.yaml").read_text())
    (home / "muster.yaml").write_text(json.dumps({**text, "cordon": cordon} if cordon else {
        key: value for key, value in text.items() if key != "cordon"}))
    of = context(home)
    burn = BurnInStep(step("burnin"), of, "quick", "node")
    (machine,) = machines(of, "n1")
    ((_, seen),) = burn.observe([machine])
    assert seen.operation is not None
    made = burn.make(machine, seen.operation)
    ((_, again),) = burn.observe([after(machine, seen, made)])
    return made, again


def test_without_anything_that_keeps_jobs_away_there_is_no_burn_in_and_no_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    made, again = refused(tmp_path, None)
    assert made.done is False and "scontrol was not found" in made.message
    # It does not come true by trying again: someone is told, and not an operation written every few seconds
    # for a day.
    assert again.stand is StepState.TROUBLE and again.troubles[0].hand.endswith("muster bringup retry n1")


def test_a_scheduler_that_does_not_answer_is_asked_again_in_minutes_and_its_words_are_reported(
    tmp_path: Path,
) -> None:
    made, again = refused(tmp_path, {"command": ["/bin/false"]})
    assert made.done is False
    assert (again.stand is StepState.NOT_SO and again.again_s >= 60 and made.message in again.message
            and made.message in again.troubles[0].what)


def test_an_older_burn_in_and_a_file_of_rubbish_are_passed_over(tmp_path: Path) -> None:
    bed(tmp_path, 1)
    of = context(tmp_path)
    folder = of.folder / "burnin"
    folder.mkdir()
    (folder / "x.burnin.json").write_text("{")
    os.utime(folder / "x.burnin.json", (time.time() + 60, time.time() + 60))
    ((_, seen),) = BurnInStep(step("burnin"), of, "quick", None).observe(machines(of, "n1"))
    assert seen.stand is StepState.NOT_SO


def test_a_node_that_left_the_inventory_is_not_put_into_service(tmp_path: Path) -> None:
    bed(tmp_path, 2)
    of = context(tmp_path)
    there = machines(of, "n1", "n2")
    text = json.loads((tmp_path / "muster.yaml").read_text())
    del text["nodes"]["n2"]
    (tmp_path / "muster.yaml").write_text(json.dumps(text, indent=1))
    service = ServiceStep(step("service"), of)
    seen = dict(service.observe(there))
    assert (seen["n1"].stand, seen["n2"].stand) == (StepState.NOT_SO, StepState.UNKNOWN)
    operation = seen["n1"].operation
    assert operation is not None
    before = of.path.read_text()
    made = service.make_together(there)
    assert {one.done for one in made.values()} == {
        False} and "n2" in made["n1"].message and of.path.read_text() == before
    set_lifecycle(of.path, ["n1"], LifecycleState.SERVICE, None)
    assert dict(service.observe(there))["n1"].stand is StepState.SO


def test_an_inventory_that_cannot_be_read_is_unknown_and_no_pass(tmp_path: Path) -> None:
    bed(tmp_path, 1)
    of = context(tmp_path)
    there = machines(of, "n1")
    of.path.write_text("nodes: [")
    ((_, seen),) = ServiceStep(step("service"), of).observe(there)
    assert seen.stand is StepState.UNKNOWN and "muster.yaml" in seen.message
