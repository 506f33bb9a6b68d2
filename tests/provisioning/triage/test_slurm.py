"""`muster triage --apply` with a real Slurm: drains in our name, returns, and people first."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from healthcheck.model.outcome import Finding, NodeReport, Result, Severity, Status, state_of
from healthcheck.store.cordons import open_cordons
from healthcheck.store.file import opened
from healthcheck.store.ledger import lines
from healthcheck.store.sweeps import SweepRecord, record
from provisioning.triage.onerun import LOCK
from tests.command import muster, running
from tests.testbed.marks import plain
from tests.testbed.slurm import Slurm, fixture_of
from tests.testbed.sshd import wait_until

NODES = [f"gpu00{n}" for n in range(1, 9)]
STRANGER = "gpu099"     # in the inventory, and not known to Slurm
POLICY = "breaker: {number: 8, percent: 100}\nrequalify: {apart_minutes: 0}\n"


bed = fixture_of(NODES)


@pytest.fixture(autouse=True)
def all_idle(bed: Slurm) -> Iterator[None]:
    yield
    bed.idle_again()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "muster.yaml").write_text(
        f"version: 1\ncordon: slurm\nnodes:\n  gpu[001-008]:\n  {STRANGER}:\n")
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "policy.yaml").write_text(POLICY)
    return tmp_path


def swept(home: Path, minutes: float, bad: dict[str, str], profile: str = "") -> None:
    """What a sweep so many minutes ago found: `bad` gives a rule for each node that is not well."""
    reports = []
    for name in (*NODES, STRANGER):
        found = tuple(
            Result(rule, rule.replace("-", ".", 1), Status.FAIL if bad.get(name) == rule else Status.PASS,
                   Severity.CRITICAL, (Finding(7, 0, "GPU 0"),) if bad.get(name) == rule else ())
            for rule in ("gpu-count", "kernel-xid"))
        reports.append(NodeReport(name, state_of(found), "", found))
    when = time.time() - minutes * 60
    with opened(home / "state", make=True) as store:
        record(store, SweepRecord(when, when + 5, False, "test", "digest", (profile,) if profile else ()),
               reports)


def triage(bed: Slurm, home: Path, *words: str, **more: str) -> tuple[int, str, str]:
    done = muster("triage", *words, "--rules", "rules", home=home, timeout=100, **{**bed.environment, **more})
    return done.returncode, plain(done.stdout), plain(done.stderr)


def apply(bed: Slurm, home: Path) -> str:
    """What a run that acts says; whether nodes are unfit is another question."""
    code, said, trouble = triage(bed, home, "--apply")
    assert code in (0, 1) and trouble == "", (code, said, trouble)
    return said


def away(bed: Slurm) -> set[str]:
    return {node for node in NODES if bed.state(node) != "idle"}


def test_nodes_that_are_not_fit_are_drained_in_our_name_and_no_others(bed: Slurm, home: Path) -> None:
    swept(home, 1, {"gpu001": "gpu-count", "gpu003": "kernel-xid"})
    code, said, _ = triage(bed, home)
    assert code == 1 and "isolate   gpu001: gpu-lost" in said and away(bed) == set()
    said = apply(bed, home)
    assert "gpu001: cordoned in slurm as muster#1\ngpu003: cordoned in slurm as muster#2\n" in said
    assert away(bed) == {"gpu001", "gpu003"} and bed.state("gpu001") == "drained"
    assert re.match(r"muster#2: triage/[0-9a-f]{4}: gpu-error: kernel-xid of GPU 0: 7 \(expected 0\)",
                    bed.reason("gpu003"))
    said = apply(bed, home)
    assert "cordoned in" not in said and said.count("held      ") == 2


def test_a_persons_drain_stays_theirs_and_is_reported(bed: Slurm, home: Path) -> None:
    bed.ask("scontrol", "update", "nodename=gpu002", "state=drain", "reason=bad DIMM")
    swept(home, 1, {"gpu002": "gpu-count", "gpu003": "gpu-count"})
    assert "withheld  isolate gpu002: others hold it: bad DIMM\n" in apply(bed, home)
    assert bed.reason("gpu002") == "bad DIMM" and away(bed) == {"gpu002", "gpu003"}
    for minutes in (0.5, 0.4):
        swept(home, minutes, {}, "bringup")
    apply(bed, home)
    assert bed.reason("gpu002") == "bad DIMM" and bed.state("gpu002") == "drained"


def test_a_node_that_slurm_does_not_know_costs_no_other(bed: Slurm, home: Path) -> None:
    swept(home, 1, {STRANGER: "gpu-count", "gpu004": "gpu-count"})
    said = apply(bed, home)
    assert (f"withheld  isolate {STRANGER}: it is not known to the back end (older Slurms show a CLOUD node"
            in said and away(bed) == {"gpu004"})


def test_a_node_comes_back_after_two_clean_looks_and_not_after_one(bed: Slurm, home: Path) -> None:
    swept(home, 5, {"gpu006": "gpu-count"})
    apply(bed, home)
    swept(home, 0, {}, "bringup")
    assert "withheld  release gpu006: 1 of 2 clean looks since" in apply(
        bed, home) and bed.state("gpu006") == "drained"
    swept(home, 0, {})
    apply(bed, home)
    assert bed.state("gpu006") == "drained"
    swept(home, 0, {}, "bringup")
    assert "gpu006: muster#1 is released\n" in apply(bed, home)
    wait_until(lambda: bed.states()["gpu006"] == "idle", what="the node in use")
    with opened(home / "state") as store:
        assert [(line.action, line.node, line.outcome) for line in lines(store)] == [
            ("cordon", "gpu006", "cordoned"), ("uncordon", "gpu006", "released")]


def test_a_node_that_a_person_noted_upon_is_not_released_whatever_it_proves_and_is_listed(
    bed: Slurm, home: Path,
) -> None:
    swept(home, 5, {"gpu006": "kernel-xid"})
    apply(bed, home)
    mark = bed.ask("sinfo", "-h", "-n", "gpu006", "-o", "%E").split(": ")[0]
    bed.ask("scontrol", "update", "nodename=gpu006", "state=drain",
            f"reason={mark}: KEEP DOWN - riser change until Friday")
    for minutes in (2, 1, 0):
        swept(home, minutes, {}, "bringup")
    for words in (["--apply"], []):
        code, said, beside = triage(bed, home, *words)
        assert code == 0 and "is released" not in said and bed.state("gpu006") == "drained"
        assert (beside == ("note: gpu006: beside our mark a person wrote: KEEP DOWN - riser change until "
                           "Friday; it belongs to a person until muster cordon adopt|forget gpu006 "
                           "--reason TEXT\n"))
    done = muster("nodes", home=home)
    assert ("note: gpu006: beside our mark a person wrote: KEEP DOWN - riser change until Friday"
            in done.stderr)
    assert bed.reason("gpu006") == "muster#1: KEEP DOWN - riser change until Friday"


def test_a_cordon_that_a_killed_controller_had_not_saved_is_made_again_and_told(
    bed: Slurm, home: Path,
) -> None:
    swept(home, 5, {"gpu005": "kernel-xid"})
    file = bed.saved()
    before = file.read_bytes()
    apply(bed, home)
    bed.kill()
    file.write_bytes(before)
    bed.start()
    wait_until(lambda: bed.state("gpu005") == "idle", what="the node in use")
    code, _, beside = triage(bed, home)
    assert (code == 1 and "note: slurm lost our cordon on gpu005, as slurmctld started at " in beside
            and bed.state("gpu005") == "idle")
    assert "gpu005: cordoned again as muster#1: slurm lost it, as slurmctld started at " in apply(
        bed, home)
    assert bed.state("gpu005") == "drained" and "cordoned" not in apply(bed, home).replace("held", "")


def test_marks_of_another_store_are_listed_with_what_settles_them_and_are_left_alone(
    bed: Slurm, home: Path,
) -> None:
    for node in ("gpu003", "gpu004"):
        bed.ask("scontrol", "update", f"nodename={node}", "state=drain", "reason=muster:beef#7: fan")
    swept(home, 1, {"gpu003": "gpu-count"})
    _, said, beside = triage(bed, home, "--apply")
    assert (beside == ("note: marks of an unknown store on gpu[003-004] (muster#7): "
                       "muster cordon adopt|forget gpu[003-004] --reason TEXT\n"))
    assert ("withheld  isolate gpu003: muster#7 holds it, a mark of a store that this one does not know"
            in said)
    done = muster("cordon", "forget", "gpu004", "--reason", "mended", home=home, **bed.environment)
    assert (done.returncode, plain(done.stdout)) == (
        0, "gpu004: muster#7 is removed; it goes back to jobs\n"), done.stderr
    done = muster("cordon", "adopt", "gpu003", "--reason", "mine", home=home, **bed.environment)
    assert (done.returncode, plain(done.stdout)) == (
        0, "gpu003: adopted as muster#1; it was muster#7: fan\n"), done.stderr
    assert (bed.state("gpu004") == "idle" and bed.reason("gpu003") == "muster#1: mine"
            and triage(bed, home)[2] == "")


def test_what_a_person_gave_back_stays_so_until_the_verdict_is_another(bed: Slurm, home: Path) -> None:
    swept(home, 5, {"gpu007": "kernel-xid"})
    apply(bed, home)
    bed.ask("scontrol", "update", "nodename=gpu007", "state=resume")
    for minutes in (4, 3):
        said = apply(bed, home)
        assert "withheld  isolate gpu007: " in said and "against muster#1, whose verdict holds" in said
        assert bed.state("gpu007") == "idle"
        swept(home, minutes, {"gpu007": "kernel-xid"})
    swept(home, 2, {"gpu007": "gpu-count"})
    assert "gpu007: cordoned in slurm as muster#2\n" in apply(bed, home) and bed.state("gpu007") == "drained"


def test_without_a_controller_nothing_is_lost_and_the_next_run_acts(bed: Slurm, home: Path) -> None:
    swept(home, 5, {"gpu008": "kernel-xid"})
    apply(bed, home)
    swept(home, 1, {"gpu001": "gpu-count", "gpu008": "kernel-xid"})
    (home / "slurm.conf").write_text(bed.conf.read_text() + "MessageTimeout=3\n")
    bed.processes["slurmctld"].send_signal(signal.SIGSTOP)
    try:
        code, said, trouble = triage(bed, home, "--apply", SLURM_CONF=str(home / "slurm.conf"))
        note, error = trouble.splitlines()
        assert code == 2 and "isolate   gpu001: gpu-lost" in said and note.startswith(
            "note: the holders of nodes come from the store")
        assert ("by hand   gpu001: end the jobs that still run there; muster ends none: scancel "
                "--nodelist=gpu001") in said
        assert error.startswith("muster: scontrol ") and error.endswith(
            "nothing was done. Run muster triage --apply again")
        code, said, trouble = triage(bed, home, SLURM_CONF=str(home / "slurm.conf"))
        assert code == 1 and "isolate   gpu001: gpu-lost" in said and "held      gpu008" in said
        assert trouble.startswith("note: the holders of nodes come from the store alone: scontrol ")
    finally:
        bed.processes["slurmctld"].send_signal(signal.SIGCONT)
    wait_until(lambda: bed.states().get("gpu001") == "idle", what="the controller")
    with opened(home / "state") as store:
        assert [(one.node, one.id) for one in open_cordons(store)] == [("gpu008", 1)]
        assert (sorted(tuple(row)
                       for row in store.rows("SELECT fault, isolation FROM verdict WHERE ended IS NULL"))
                == [("gpu-error", "no-new-jobs"), ("gpu-lost", "evict")])
        assert all(line.outcome for line in lines(store))
    apply(bed, home)
    assert away(bed) == {"gpu001", "gpu008"}


def test_of_two_at_once_one_acts(bed: Slurm, home: Path) -> None:
    swept(home, 1, {"gpu001": "gpu-count", "gpu002": "gpu-count"})
    slow, go = home / "slow", home / "go"
    slow.mkdir()
    (slow / "scontrol").write_text(f"#!/bin/sh\nuntil [ -e {go} ]; do sleep 0.05; done\n"
                                   f"exec {shutil.which('scontrol', path=bed.environment['PATH'])} \"$@\"\n")
    (slow / "scontrol").chmod(0o755)
    first = running("triage", "--apply", "--rules", "rules", home=home, out=subprocess.PIPE,
                    **{**bed.environment, "PATH": f"{slow}:{bed.environment['PATH']}"})
    try:
        wait_until(lambda: held(home / "state" / LOCK), what="the lock")
        code, said, trouble = triage(bed, home, "--apply")
        assert (
            code, said) == (2, "") and trouble.startswith("muster: another muster triage --apply is running")
    finally:
        go.touch()
        out, _ = first.communicate(timeout=60)
    assert first.returncode == 1 and out.count("cordoned in slurm") == 2
    with opened(home / "state") as store:
        assert [line.node for line in lines(store)] == ["gpu001", "gpu002"]


def held(path: Path) -> bool:
    """Whether another process has the lock."""
    if not path.exists():
        return False
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
