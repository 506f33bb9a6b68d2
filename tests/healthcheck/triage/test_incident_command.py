"""`muster incident`, and the incident in what other commands say, as they are typed."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from healthcheck.cli.main import root
from healthcheck.model.outcome import Finding, NodeReport, Severity, Status, state_of
from healthcheck.model.outcome import Result as Result_
from healthcheck.model.verdict import IncidentMember, StoredIncident
from healthcheck.report.incident import lines, page
from healthcheck.store.file import opened
from healthcheck.store.marks import CordonMark
from healthcheck.store.sweeps import SweepRecord, record
from inventory.errors import MusterError
from tests.testbed.marks import plain

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
INVENTORY = "version: 1\nnodes:\n" + "".join(f"  gpu[{first:03d}-{first + 7:03d}]: {{rack: r{first // 8}, "
                                             f"leaf: leaf-{first // 16}}}\n" for first in range(0, 128, 8))
EVIL = "r3\x1b[31m\n| `@all`"


def run(*words: str) -> Result:
    done = CliRunner().invoke(root, words)
    assert done.exception is None or isinstance(done.exception, (MusterError, SystemExit)), done.exc_info
    return done


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MUSTER_STATE", str(tmp_path / "state"))
    (tmp_path / "muster.yaml").write_text(INVENTORY + f"cordon: {{hostfile: {tmp_path / 'bad'}}}\n")
    with opened(tmp_path / "state", make=True) as store:
        for ago in (1200, 900, 600):
            reports = []
            for number in range(128):
                bad = 24 <= number < 32 and ago < 1000
                one = Result_("gpu-count", "gpu.count", Status.FAIL if bad else Status.PASS,
                              Severity.CRITICAL, (Finding(7, 8, "GPUs"),) if bad else ())
                reports.append(NodeReport(f"gpu{number:03d}", state_of([one]), "", (one,)))
            record(store, SweepRecord(time.time() - ago, time.time() - ago + 5, False, "test", "digest"),
                   reports)
    return tmp_path


@pytest.mark.usefixtures("home")
def test_an_incident_is_listed_shown_named_by_the_other_commands_and_closed() -> None:
    assert run("incident", "list").stdout == "no open incident\n"
    plan = run("triage")
    assert plan.stdout.count(
        "incident 1  gpu[024-031]: rack r3: gpu-count of GPUs on 8 of its 8 nodes in service") == 1
    done = run("triage", "--apply")
    assert done.stdout.count("cordoned in hostfile") == 8       # one failure, also in the rack
    line = run("incident", "list").stdout.splitlines()[1]
    assert (line.startswith("1   rack r3  datacentre") and "gpu[024-031]" in line
            and line.endswith("gpu-count of GPUs"))
    shown = run("incident", "show", "1").stdout
    assert ("chance would do this once in" in shown and plain(shown).count("muster#") == 8
            and "gpu031" in shown)
    told = json.loads(run("incident", "list", "--format", "json").stdout)
    (one,) = told["incidents"]
    assert (told["schema"], one["id"], one["kind"], one["place"], len(one["nodes"])) == (
        "muster.incidents/1", 1, "rack", "r3", 8)
    assert run("nodes").stdout.count("incident 1: rack r3") == 8
    ticket = run("ticket", "gpu024").stdout
    assert (ticket.startswith("# gpu024: incident, GPUs\n\nTo the data centre.")
            and "incident 1, one cause with 7 other nodes" in ticket)
    assert json.loads(run("triage", "--format", "json").stdout)["incidents"][0]["id"] == 1
    done = run("incident", "close", "1", "--reason", "bad sensors")
    assert done.stdout == "incident 1 is closed; next: muster check --store && muster triage --apply\n"
    assert ("by" in str(run("incident", "close", "1", "--reason", "again").exception)
            and "bad sensors" in run("incident", "show", "1").stdout)
    assert run("incident", "list", "--since", "1h").stdout.count("closed ") == 1
    assert "gpu-lost" in run("triage").stdout and "incident" not in run("triage").stdout


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(("words", "said"), [
    (("show", "7"), "there is no incident 7; see: muster incident list --since 30d"),
    (("close", "7", "--reason", "x"), "there is no incident 7"),
    (("close", "7"), "--reason is missing: muster incident close 7 --reason 'the leaf was exchanged'"),
    (("close", "7", "--reason", " "), "--reason is missing"),
])
def test_a_mistake_is_one_line_with_what_to_type(words: tuple[str, ...], said: str) -> None:
    assert str(run("incident", *words).exception).startswith(said)


def test_the_pages_of_an_incident_are_as_they_were_and_foreign_text_stays_on_its_line() -> None:
    members = tuple(IncidentMember(f"gpu{number:03d}", 1_800_000_000.0 + number, 1_800_000_900.0,
                                   1_800_009_000.0 if number % 2 else None) for number in (9, 10, 2))
    known = [StoredIncident(12, "leaf", "leaf-3", ("port-state", "kernel-xid of GPU, Xid 79"), "network",
                            "leaf leaf-3: port-state on 3 of its 4 nodes", 3412.0,
                            1_800_000_000.0, 1_800_000_900.0, members),
             StoredIncident(13, "rack", EVIL, (EVIL,), "datacentre", EVIL, 0.0, 1_800_000_000.0,
                            1_800_000_900.0, (), 1_800_010_000.0, EVIL, EVIL)]
    text = "\n".join([*lines(known, 1_800_003_600.0), "",
                      *page(known[0], {"gpu009": CordonMark("7f3a", 7)}), "", *page(known[1], {})]) + "\n"
    assert "\x1b" not in text
    golden = GOLDEN / "incident.txt"
    if os.environ.get("MUSTER_GOLDEN") == "update":
        golden.write_text(text)
    assert text == golden.read_text()
