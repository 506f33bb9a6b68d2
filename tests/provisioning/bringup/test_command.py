"""`muster bringup` as typed: plan, status, report, skip, retry, mistakes, completion, speed."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import time
from pathlib import Path

import jsonschema
import pytest

from healthcheck.store import bringups
from healthcheck.store.file import opened
from provisioning.bringup.engine.model import ORDER
from provisioning.bringup.engine.site import LOCK
from provisioning.lease.runlock import alone
from tests.command import MUSTER, environment, muster, running, started, unread
from tests.documents import schema
from tests.provisioning.bringup.filled import many, small

INVENTORY = """version: 1
groups: {rack1: 'gpu[001-008]'}
defaults: {lifecycle: bringup, power: pdu-a}
nodes:
  gpu[001-008]: {rack: r01}
  gpu[009-012]: {rack: r02}
  gpu013: {lifecycle: service}
""" + "".join(f"  gpu{number:03d}: {{bmc: 192.0.2.{number}}}\n" for number in range(1, 13))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "muster.yaml").write_text(INVENTORY)
    return tmp_path


@pytest.fixture
def begun(home: Path) -> Path:
    small(home / "state")
    return home


def test_a_plan_touches_nothing_and_says_who_is_refused(home: Path) -> None:
    done = muster("bringup", "plan", "gpu[001-013]", home=home)
    assert done.returncode == 3 and not done.stderr
    assert done.stdout.startswith("gpu[001-012]: bmc to service, 15 steps\n")
    assert "gpu013: refused: its lifecycle is service" in done.stdout
    assert not (home / "state").exists()


def test_a_plan_of_machines_on_their_way_has_what_is_left(begun: Path) -> None:
    done = muster("bringup", "plan", "@rack1", home=begun)
    assert done.returncode == 0 and "gpu[004,006]: checks to service, 6 steps" in done.stdout


def test_status_is_the_page_of_the_store_and_its_exit_code_that_of_the_worst(begun: Path) -> None:
    done = muster("bringup", "status", home=begun)
    assert done.returncode == 1 and "gpu[003,012]  hardware" in done.stdout
    assert done.stdout.startswith("12 machines: 2 through, 5 in trouble, 3 waiting, 2 queued; no run is "
                                  "active: muster bringup resume\n")
    through = muster("bringup", "status", "gpu001", home=begun)
    assert (through.returncode, through.stdout.splitlines()[0]) == (
        0, "1 machine: 1 through, 0 in trouble, 0 waiting, 0 queued")
    assert muster("bringup", "status", "gpu007", home=begun).returncode == 3


def test_status_as_a_document(begun: Path) -> None:
    with alone(begun / "state", LOCK, "bringup run"):
        done = muster("bringup", "status", "@rack1", "--json", home=begun)
    found = json.loads(done.stdout)
    jsonschema.validate(found, schema("bringup-1"))
    assert [one["node"] for one in found["machines"]] == [
        f"gpu{number:03d}" for number in range(1, 9)] and found["running"] is True


def test_status_of_some_that_were_never_begun_shows_the_others(begun: Path) -> None:
    done = muster("bringup", "status", "gpu[012-013]", home=begun)
    assert done.returncode == 1 and done.stdout.startswith("1 machine: ")
    assert done.stderr == "note: gpu013: never started: muster bringup run NODES\n"


def test_watching_in_a_log_tells_each_change_once_and_ends_when_all_are_through(begun: Path) -> None:
    done = muster("bringup", "status", "gpu[001-002]", "--watch", home=begun)
    assert done.returncode == 0 and done.stderr.splitlines() == [
        "bringup: gpu001 service done", "bringup: gpu002 service done"]


def test_watching_ends_with_an_interrupt(begun: Path) -> None:
    with running("bringup", "status", "--watch", home=begun, err=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("bringup: gpu001 service done")
        process.terminate()
        rest = process.stderr.read()
        assert process.wait() == 130 and "Traceback" not in rest


def test_the_punch_list_is_written_whole_in_each_form(begun: Path) -> None:
    text = muster("bringup", "report", "--owner", "datacentre", home=begun)
    assert (text.returncode == 0
            and "[ ] rack r01  gpu003  psu PSU 2, serial PS-77, machine SN-3" in text.stdout)
    done = muster("bringup", "report", "--owner", "vendor", "--format", "csv", "-o", "rma.csv", home=begun)
    assert (
        done.returncode, done.stdout) == (0, "") and done.stderr.startswith("rma.csv: 12 machines: 2 through")
    assert (begun / "rma.csv").read_text().count(
        "\n") == 2 and (begun / "rma.csv").stat().st_mode & 0o777 == 0o644
    page = muster("bringup", "report", "--format", "html", home=begun).stdout
    assert page.startswith("<!DOCTYPE html>") and page.endswith("</html>\n")
    assert {path.name for path in begun.iterdir()} == {"muster.yaml", "state", "rma.csv"}


def test_without_an_inventory_the_list_says_that_racks_are_not_known(begun: Path) -> None:
    (begun / "muster.yaml").unlink()
    done = muster("bringup", "report", home=begun)
    assert (done.returncode == 0 and "rack not known  gpu003" in done.stdout
            and "no inventory was found" in done.stderr)


def test_a_step_is_skipped_with_a_reason_and_never_counts_as_passed(home: Path) -> None:
    done = muster("bringup", "skip", "gpu[001-002]", "--step", "bios", "--step", "boot", "--reason",
                  "no Redfish", home=home)
    assert done.stdout == "gpu[001-002]: bios will be skipped, and never counts as passed\n" \
                          "gpu[001-002]: boot will be skipped, and never counts as passed\n"
    assert "gpu[001-002]: bios is skipped: " in (
        plan := muster("bringup", "plan", "gpu[001-003]", home=home)).stdout
    assert ": no Redfish\n" in plan.stdout and "bios                1 " in plan.stdout


def test_a_retry_has_the_step_begin_anew_and_says_what_to_type(begun: Path) -> None:
    done = muster("bringup", "retry", "gpu003,gpu007", home=begun)
    assert (done.returncode, done.stderr) == (0, "then: muster bringup resume\n")
    assert done.stdout == "gpu003: hardware begins anew\ngpu007: is not in trouble: nothing to retry\n"
    with opened(begun / "state") as store:
        assert [one.stand for one in bringups.progress(store, ["gpu003"])] == ["queued"]
    assert muster("bringup", "retry", "gpu007", home=begun).returncode == 3


@pytest.mark.parametrize(("words", "message"), [
    (("status",), "no machine was ever started; to start: muster bringup run NODES --apply"),
    (("status", "--json", "--watch"), "--format json prints one document"),
    (("report",), "no machine was ever started; to start: muster bringup run NODES --apply"),
    (("resume",), "no machine was ever started; to start: muster bringup run NODES --apply"),
    (("plan", "gpu99"), "has no node gpu99"),
    (("run", "gpu013"), "no machine is left to bring up"),
    (("run", "gpu001", "--sku", "nope"), "--sku nope: no such SKU"),
    (("skip", "gpu001", "--step", "bios", "--reason", " "), "--reason is empty"),
    (("retry", "gpu001"), "no machine was ever started; to start: muster bringup run NODES --apply"),
])
def test_a_mistake_is_one_line_that_says_what_to_do(home: Path, words: tuple[str, ...], message: str) -> None:
    done = muster("bringup", *words, home=home)
    assert (done.returncode == 2 and message in done.stderr.splitlines()[-1]
            and not done.stdout and "Traceback" not in done.stderr)


@pytest.mark.parametrize(("words", "message"), [
    (("status", "gpu99"), "gpu99: never started: muster bringup run NODES"),
    (("report", "-o", "nowhere/x"), "--output nowhere/x: cannot be written: No such file or directory"),
])
def test_a_mistake_about_machines_that_were_begun_is_one_line(
    begun: Path, words: tuple[str, ...], message: str,
) -> None:
    done = muster("bringup", *words, home=begun)
    assert done.returncode == 2 and done.stderr == f"muster: {message}\n"


def test_a_reader_that_goes_away_is_no_failure_of_ours(begun: Path) -> None:
    assert unread("bringup", "status", home=begun) == 1
    assert unread("bringup", "report", home=begun) == 0


@pytest.mark.parametrize(
    ("line", "offered"),
    [("muster bringup pl", "plan"), ("muster bringup run gpu00", "gpu007"),
     ("muster bringup plan @ra", "@rack1"), ("muster bringup status gpu001,gpu01", "gpu001,gpu012"),
     ("muster bringup skip gpu001 --step cer", "certificate"),
     ("muster bringup run gpu001 --until har", "hardware"), ("muster bringup report --owner ven", "vendor")])
def test_the_shell_completes_steps_nodes_and_groups(home: Path, line: str, offered: str) -> None:
    words = {
        **environment(home), "_MUSTER_COMPLETE": "bash_complete", "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - 1)}
    done = subprocess.run([str(MUSTER)], env={**os.environ, **words}, cwd=home, capture_output=True,
                          text=True, timeout=60, check=False)
    assert f"plain,{offered}" in done.stdout.splitlines()


@pytest.mark.parametrize("command", ["", "plan", "run", "resume", "retry", "skip", "status", "report"])
def test_help_teaches_with_an_example(home: Path, command: str) -> None:
    done = muster("bringup", *([command] if command else []), "--help", home=home)
    assert done.returncode == 0 and f"\n  muster bringup {command}" in done.stdout


def test_how_a_thousand_machines_stand_is_said_within_bounds_of_time_and_memory(home: Path) -> None:
    many(home / "state", 1000)
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = started("bringup", "status", home=home)
    took, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.stdout.startswith("1000 machines: 300 through, 100 in trouble")
    # 1 s is aimed at, on the clock, on a machine that has nothing else to do (scripts/bench/bringup); tests
    # share theirs.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 3 and took < 30
    assert len(ORDER) == 16
