"""`muster fabric check --store`, and the commands that read what it keeps, as a user types them."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from healthcheck.subnet import plancsv
from healthcheck.sweep.fabricoutput import saved
from tests.command import muster
from tests.testbed import fabricoutputs
from tests.testbed.ibfabric import two_tiers

PLAN = replace(two_tiers(8, 4, 2),
               cables=tuple(replace(cable, speed="NDR") for cable in two_tiers(8, 4, 2).cables))
HOST = next(cable for cable in PLAN.cables if cable.a.device == "gpu003")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "plan.csv").write_text(plancsv.write(PLAN))
    (tmp_path / "muster.yaml").write_text("version: 1\nnodes:\n  gpu[001-008]: {rack: r7}\n")
    now = time.time()
    for name, ago, cables, errors in (("sound", 900, PLAN.cables, {}),
                                      ("sick", 600, PLAN.cables, {(HOST.b, "SymbolErrorCounter"): 9_000}),
                                      ("mended", 300, PLAN.cables, {(HOST.b, "SymbolErrorCounter"): 9_000})):
        fabricoutputs.write(replace(PLAN, cables=cables), tmp_path / name, errors)
        (tmp_path / name / "snapshot.json").write_text(json.dumps({"schema": "muster.fabric.snapshot/1",
                                                                   "time": now - ago}))
    return tmp_path


def run(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    done = muster(*words, home=home)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def check(home: Path, name: str, since: str) -> subprocess.CompletedProcess[str]:
    return run(home, "fabric", "check", "--from", name, "--since", since, "--plan", "plan.csv", "--store")


def test_what_is_found_is_an_incident_with_the_next_hand_and_is_over_when_it_was_mended(home: Path) -> None:
    done = check(home, "sick", "sound")
    assert done.returncode == 1 and done.stderr == "stored: 1 finding new, 0 again, 0 over\n"
    plan = run(home, "triage", "--hostfile", "bad", "--apply")
    (line,) = [line for line in plan.stdout.splitlines() if line.startswith("incident 1")]
    where = f"{HOST.b.device} port {HOST.b.port} to gpu003"
    assert (f"gpu003: {where}" in line and "bit-error rate" in line and "rack r7" in line
            and "clean and reseat" in line and line.endswith("(datacentre)"))
    assert plan.returncode in (0, 3) and "isolate" not in plan.stdout and not (home / "bad").exists()
    listed = run(home, "incident", "list").stdout
    assert f"link {where}" in listed and "subnet-link-errors" in listed
    assert "in incident 1" in run(home, "nodes", "gpu003").stdout
    assert "subnet-link-errors" in run(home, "ticket", "gpu003").stdout
    check(home, "mended", "sick")
    assert "incident 1 ends: a check of the subnet measured it" in run(home, "triage", "--hostfile", "bad",
                                                                       "--apply").stdout
    assert "no open incident" in run(home, "incident", "list").stdout


def test_history_explain_and_silences_know_the_rules_of_subnets(home: Path) -> None:
    check(home, "sick", "sound")
    (told,) = [json.loads(line)
               for line in run(home, "history", "--still", "--format", "jsonl").stdout.splitlines()]
    assert (told["node"], told["rule"], told["severity"],
            told["ended"]) == ("gpu003", "subnet-link-errors", "warning", None)
    assert "muster help fabric" in run(home, "explain", "subnet-link-errors").stdout
    assert run(home, "silence", "gpu003", "subnet-link-*", "--for", "2h", "--reason",
               "the cable is ordered").returncode == 0
    plan = run(home, "triage", "--hostfile", "bad")
    assert "incident" not in plan.stdout and "silenced" in plan.stdout


def test_outputs_without_a_device_store_nothing_and_say_so(home: Path) -> None:
    (home / "empty").mkdir()
    (home / "empty" / "ibnetdiscover.txt").write_text("")
    done = run(home, "fabric", "check", "--from", "empty", "--store")
    assert done.returncode == 3 and "nothing was read, and nothing of it stored" in done.stderr


def test_a_lot_whose_parts_fail_is_one_incident_of_the_vendor_until_a_check_measures_its_parts(
        tmp_path: Path) -> None:
    plan = replace(two_tiers(32, 8, 2),
                   cables=tuple(replace(cable, speed="NDR") for cable in two_tiers(32, 8, 2).cables))
    (tmp_path / "plan.csv").write_text(plancsv.write(plan))
    (tmp_path / "muster.yaml").write_text("version: 1\nnodes:\n  gpu[001-032]: {rack: r7}\n")
    bad = {(cable.b, "LinkDownedCounter"): 2
           for cable in [cable for cable in plan.cables if cable.a.device.startswith("gpu")][:24:4]}
    now = time.time()
    for name, ago, errors in (("sound", 900, {}), ("sick", 600, bad), ("mended", 300, bad),
                              ("again", 200, bad)):
        fabricoutputs.write(plan, tmp_path / name, errors)
        (tmp_path / name / "snapshot.json").write_text(json.dumps({"schema": "muster.fabric.snapshot/1",
                                                                   "time": now - ago}))
    guids = {device.description: device.guid for output in saved(tmp_path / "sick")
             for device in output.subnet().devices.values()}
    (tmp_path / "parts.csv").write_text("guid,part,lot\n" + "".join(
        f"0x{guids[f'gpu{number:03d} mlx5_0']},MCX75310,{'W12' if number % 4 == 1 else 'W20'}\n"
        for number in range(1, 33)))

    def lot_check(name: str, since: str, *more: str) -> str:
        return run(tmp_path, "fabric", "check", "--from", name, "--since", since, "--plan", "plan.csv",
                   "--store", *more).stderr

    assert lot_check("sick", "sound", "--delivery",
                     "parts.csv") == "stored: 7 findings new, 0 again, 0 over\n"
    triaged = run(tmp_path, "triage", "--hostfile", "bad", "--apply").stdout
    (line,) = [line for line in triaged.splitlines() if line.startswith("incident")
               and "lot adapter MCX75310 of W12" in line]
    assert ("link-flapping at 6 of its 8" in line and "next: ask the vendor" in line
            and line.endswith("(vendor)")), line
    assert "isolate" not in triaged and not (tmp_path / "bad").exists()
    assert "lot of adapter MCX75310 of W12" in run(tmp_path, "incident", "list").stdout
    # Without the list it is not known whose part anything is; with it, the parts were measured and are well.
    assert (lot_check("mended", "sick")
            == "stored: 0 findings new, 0 again, 6 over, 1 not measured this time, which stay open\n")
    (told,) = [line for line in run(tmp_path, "triage", "--hostfile", "bad", "--apply").stdout.splitlines()
               if "W12" in line]
    assert "no part of the lot was known" in told
    assert lot_check("again", "mended", "--delivery",
                     "parts.csv") == "stored: 0 findings new, 0 again, 1 over\n"
    run(tmp_path, "triage", "--hostfile", "bad", "--apply")
    assert "no open incident" in run(tmp_path, "incident", "list").stdout
