"""What commands print with --format json is a document as its schema says, and says what the table says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from healthcheck.burnin.document import write
from healthcheck.config.rulesfolder import packaged
from healthcheck.ruleset.ruleset import load_ruleset
from healthcheck.store.file import opened
from healthcheck.triage.policyload import load_policy
from healthcheck.triage.remediation import RemediationStep
from provisioning.cli.remediate import _document
from provisioning.remediate.choose import ExcludedNode, PlannedStep
from tests.command import muster
from tests.documents import validate
from tests.healthcheck.burnin import made
from tests.provisioning.bringup.filled import small

INVENTORY = """version: 1
cordon: {hostfile: bad}
groups: {rack1: 'gpu[001-008]'}
defaults: {lifecycle: bringup, power: pdu-a, sku: hgx-h100}
nodes:
  gpu[001-008]: {rack: r01, leaf: leaf01}
  gpu[009-012]: {rack: r02, leaf: leaf02}
  gpu013: {lifecycle: {state: service, until: 2020-01-01}}
""" + "".join(f"  gpu{number:03d}: {{bmc: 192.0.2.{number}}}\n" for number in range(1, 13))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "muster.yaml").write_text(INVENTORY)
    return tmp_path


def printed(home: Path, *words: str, code: int = 0) -> dict[str, Any]:
    """The document that the command prints, which its schema takes."""
    done = muster(*words, "--format", "json", home=home)
    assert done.returncode == code, done
    found: dict[str, Any] = json.loads(done.stdout)
    validate(found, found["schema"].removeprefix("muster.").replace("/", "-"))
    return found


def test_a_bringup_plan(home: Path) -> None:
    small(home / "state")
    muster("bringup", "skip", "gpu011", "--step", "bios", "--reason", "no Redfish", home=home)
    found = printed(home, "bringup", "plan", "gpu[001-013]", code=3)
    assert [one["node"] for one in found["refused"]] == ["gpu013"] and "gpu013" in found["refused"][0]["type"]
    steps = {one["node"]: one["steps"] for one in found["machines"]}
    assert steps["gpu004"][0] == "checks" and len(steps["gpu004"]) == 6
    assert {"step": "bios", "why": "root: no Redfish"}.items() <= next(
        one["skipped"][0] for one in found["machines"] if one["node"] == "gpu011").items()
    checks = next(one for one in found["steps"] if one["step"] == "checks")
    assert checks["machines"] == sum("checks" in these for these in steps.values()) and found["seconds"] > 0


def test_a_punch_list(home: Path) -> None:
    small(home / "state")
    found = printed(home, "bringup", "report")
    text = muster("bringup", "report", home=home).stdout
    assert found["lines"] and text.count("[ ]") == len(found["lines"]) and found["machines"] == 12
    assert all(one["what"] in text and one["next_hand"] in text for one in found["lines"])


def test_a_burnin_plan(home: Path) -> None:
    found = printed(home, "burnin", "plan", "@rack1", "--max-kw", "60")
    text = muster("burnin", "plan", "@rack1", "--max-kw", "60", home=home).stdout
    assert len(found["nodes"]) == 8 and found["steps"][0]["stage"] == "node" and found["kw"] > 1
    assert f"{len(found['steps'])} steps" in text and all(f"note: {note}" in text for note in found["notes"])


def test_a_burnin_is_shown_as_its_document_and_written_beside_its_page(home: Path) -> None:
    there = made.places(2)
    write(home / "state", made.burnin(there, made.sound(there)))
    document = printed(home, "burnin", "show", code=3)
    done = muster("burnin", "show", "--output", "b.json", home=home)
    assert (done.returncode == 3 and json.loads((home / "b.json").read_text()) == document
            and document["run"] in done.stdout)
    old = muster("burnin", "show", "--json", "old.json", home=home)
    assert (old.stderr == "muster: --json is now --output\n"
            and (home / "old.json").read_bytes() == (home / "b.json").read_bytes())
    assert json.loads(muster("burnin", "show", "--json", "-", home=home).stdout) == document
    assert muster("burnin", "show", "--list", "--format", "json", home=home).returncode == 2


def test_a_manifest_that_verifies(home: Path) -> None:
    muster("certificate", "key", "new", home=home)
    found = printed(home, "certificate", "verify")
    assert found.pop("cluster").startswith("muster-")
    assert found == {"schema": "muster.manifest-check/1", "valid": True, "serial": 0,
                     "certificates": 0, "revoked": 0}


def test_a_store_that_is_whole_and_one_that_is_not(home: Path) -> None:
    with opened(home / "state", make=True) as store:
        file = store.path
    assert printed(home, "store", "check") == {
        "schema": "muster.store-check/1", "file": str(file), "whole": True, "wrong": []}
    with opened(home / "state") as store, store.writing() as db:
        db.execute("PRAGMA ignore_check_constraints = ON")
        db.execute("CREATE TABLE t (a INTEGER CHECK (a > 0))")
        db.execute("INSERT INTO t VALUES (-1)")
    found = printed(home, "store", "check", code=2)
    assert not found["whole"] and "CHECK constraint failed" in found["wrong"][0]


def test_an_inventory_in_numbers(home: Path) -> None:
    found = printed(home, "inventory", "check")
    assert (found["nodes"], found["groups"], found["lifecycle"], found["rack"], found["cordon"],
            found["overdue"]) == (
                13, 1, {"bringup": 12, "service": 1}, {"r01": 8, "r02": 4, "": 1}, "hostfile", ["gpu013"])
    assert found["skus_known"] and sum(found["ssh"].values()) == 13


def test_cordons_ours_and_others(home: Path) -> None:
    done = printed(home, "cordon", "gpu[001-002]", "--reason", "fan", "--dry-run")
    assert [(one["node"], one["held"]) for one in done["nodes"]] == [("gpu001", False), ("gpu002", False)]
    assert all(one["held"] for one in printed(home, "cordon", "gpu[001-002]", "--reason", "fan")["nodes"])
    with (home / "bad").open("a") as file:
        file.write("gpu005  # muster:dead#8: loud\n")
    (home / "muster.yaml").write_text(
        INVENTORY.replace("gpu[001-008]", "gpu[002-008]").replace("  gpu001: {bmc: 192.0.2.1}\n", ""))
    found = printed(home, "cordon")
    table = muster("cordon", home=home).stdout.splitlines()
    gone, ours, stray = found["cordons"]
    assert (gone["node"], gone["notes"], gone["end"]) == ("gpu001", ["not in the inventory"],
                                                          "muster uncordon gpu001")
    assert table[0].endswith("  fan  (not in the inventory: muster uncordon gpu001)")
    assert (ours["kind"], ours["node"], ours["why"], ours["notes"],
            ours["end"]) == ("ours", "gpu002", "fan", [], None)
    assert (stray["kind"], stray["mark"], stray["since"],
            stray["why"]) == ("stray", "muster:dead#8", None, "loud")
    assert table[2].endswith(f"{stray['notes'][0]}: loud; to end it: {stray['end']}")
    given = printed(home, "uncordon", "gpu002")
    assert [(one["node"], one["held"], one["failed"]) for one in given["nodes"]] == [("gpu002", False, False)]


def test_reboots_under_way(home: Path) -> None:
    muster("cordon", "gpu001", "--reason", "fan", home=home)
    assert printed(home, "reboot") == {"schema": "muster.outcomes/1", "nodes": []}


def test_a_plan_of_remediation(home: Path) -> None:
    with opened(home / "state", make=True):
        pass
    assert printed(home, "remediate")["steps"] == []
    assert printed(home, "remediate", "--apply") == {"schema": "muster.outcomes/1", "nodes": []}
    policy = load_policy([packaged()], load_ruleset([packaged()]))
    step = PlannedStep("gpu001", RemediationStep.RESTART_DOCKER, "containers", ("docker-answers",),
                       "it hangs", "rack r01")
    with opened(home / "state") as store:
        found = _document([step], [ExcludedNode("gpu002", "no step for it")], store, policy)
    validate(found, "remediation-1")
    assert (found["steps"][0]["runs"] and found["steps"][0]["step"] == "restart-docker"
            and found["left"][0]["node"] == "gpu002")


@pytest.mark.parametrize("words", [("store", "show"), ("sku", "list"), ("explain", "gpu-count"),
                                   ("bringup", "report")])
def test_the_old_word_for_a_table_is_taken_and_says_so(words: tuple[str, ...], home: Path) -> None:
    small(home / "state")
    now, old = (muster(*words, "--format", one, home=home) for one in ("table", "text"))
    assert (old.returncode, old.stderr) == (0,
                                            f"muster: --format text is now --format table\n{now.stderr}"), old
    assert old.stdout[:40] == now.stdout[:40]
