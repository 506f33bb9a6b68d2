"""`muster fabric check --jobs-from` and `--jobs`: a leaf's port to a host waits, and the jobs behind it are
named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from healthcheck.cli import fabriccheck
from healthcheck.subnet.cabling import CablingPlan, PlannedEnd
from healthcheck.subnet.check import page
from healthcheck.subnet.check.findings import FabricReport
from tests.command import muster
from tests.documents import validate
from tests.testbed import fabricoutputs
from tests.testbed.ibfabric import net_ports, node_guids, two_tiers

PLAN = two_tiers(24, 12, 2)
HOT = PlannedEnd("leaf01", "3")         # to gpu003
BUSY = 10**9
JOBS = ("41|RUNNING|gpu[001-004]\n42|RUNNING|gpu[003,020],cpu001\n43|RUNNING|gpu[005-006]\n"
        "44|RUNNING|gpu007\n"
        "45|PENDING|\n")


def tables(plan: CablingPlan) -> str:
    """What dump_fts prints: each leaf by its hosts' ports and else the first uplink, each spine by its
    leaves' ports."""
    guids, ports = node_guids(plan), net_ports(plan)
    lids = {key: at for at, key in enumerate(guids, 1)}
    below = {switch: {(cable.a.device, cable.a.port): ports[cable.b].number
                      for cable in plan.cables if cable.b.device == switch and cable.a.device[0] == "g"}
             for switch in ("leaf01", "leaf02")}
    made = []
    for switch in ("leaf01", "leaf02", "spine01", "spine02"):
        rows = [(lids[key], below[switch].get(key, 13) if switch in below
                 else 1 + (key not in below["leaf01"])) for key in guids if key[1]]
        made += [
            f"Unicast lids [0x0-0x30] of switch DR path slid 0; dlid 0; 0 guid 0x{guids[switch, '']} "
            f"({switch}):", "  Lid  Out   Destination", "       Port     Info",
            *(f"0x{lid:04x} {port:03d} : (Channel Adapter portguid 0x1: 'x')" for lid, port in rows),
            f"{len(rows)} valid lids dumped "]
    return "\n".join(made) + "\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "muster.yaml").write_text("version: 1\nnodes:\n  gpu[001-024]: {}\n")
    (tmp_path / "jobs.txt").write_text(JOBS)
    for name, time, waited in (("a", 1000, 0), ("b", 4600, BUSY)):
        folder = fabricoutputs.write(PLAN, tmp_path / name, {(HOT, "PortXmitWait"): waited})
        (folder / "snapshot.json").write_text(json.dumps({"schema": "muster.fabric.snapshot/1",
                                                          "time": time}))
        data = folder / "ibqueryerrors-data.txt"
        data.write_text(data.read_text().replace("PortXmitData == 0", f"PortXmitData == {waited}"))
    (tmp_path / "b" / "dump_fts.txt").write_text(tables(PLAN))
    return tmp_path


CHECK = ("fabric", "check", "--from", "b", "--since", "a", "--speed", "HDR")


def test_a_hot_port_has_the_jobs_that_pass_it_by_routes_and_each_job_its_hot_ports(home: Path) -> None:
    done = muster(*CHECK, "--jobs-from", "jobs.txt", home=home)
    lines = done.stdout.splitlines()
    at = next(number
              for number, line in enumerate(lines) if "congestion" in line and "leaf01 port 3 waits" in line)
    assert lines[at + 1].strip() == "jobs by routes: 41 (3 of 6 node pairs), 42 (1 of 1 node pair)"
    assert lines[-7:-1] == [
        "jobs (jobs.txt): 3 with several nodes; 1 with one node left out",
        "of 32 ports it is not known whether they are hot",
        "job 41: 4 nodes, 1 hot port by routes",
        "job 42: 3 nodes, 1 hot port by routes, where 1 of its nodes are is not known",
        "job 43: 2 nodes, 0 hot ports by routes", ""]
    document = json.loads(muster(*CHECK, "--jobs-from", "jobs.txt", "--format", "json", home=home).stdout)
    validate(document, "fabric-check-1")
    (spot,) = (one for one in document["findings"] if "jobs" in one)
    assert (spot["jobs"]["by"], [one["job"] for one in spot["jobs"]["jobs"]]) == ("routes", ["41", "42"])
    assert (document["jobs"]["single"], document["jobs"]["jobs"][1]) == (1, {
        "job": "42", "nodes": 3, "unplaced": 1, "hot_ports": {"routes": 1, "may": 0, "unknown": 0}})


def test_without_tables_the_jobs_are_those_that_may_pass(home: Path) -> None:
    (home / "b" / "dump_fts.txt").unlink()
    done = muster(*CHECK, "--jobs-from", "jobs.txt", home=home)
    assert ("jobs that may pass, by topology (no forwarding table): 41 (3 of 6 node pairs), 42 (1 of 1 "
            "node pair)\n") in done.stdout
    assert "job 41: 4 nodes, 0 hot ports by routes, 1 that it may pass\n" in done.stdout


def test_without_an_earlier_sample_no_job_is_said_to_pass_no_hot_port(home: Path) -> None:
    words = ("fabric", "check", "--from", "b", "--speed", "HDR", "--jobs-from", "jobs.txt")
    done = muster(*words, home=home)
    assert ("hot ports of the subnet are not known: there are no two samples" in done.stdout
            and "job 41" not in done.stdout)
    document = json.loads(muster(*words, "--format", "json", home=home).stdout)
    validate(document, "fabric-check-1")
    assert {one["hot_ports"] for one in document["jobs"]["jobs"]} == {None}


def test_where_squeue_does_not_answer_the_rest_is_reported_and_the_jobs_are_not_known(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    report = fabriccheck.by_job(FabricReport((), (("", 1, 2, 2),)), [], (), None)
    assert (report.subnets and report.jobs is not None
            and report.jobs.unknown.startswith("squeue was not found"))
    made = page.document(report)
    validate(made, "fabric-check-1")
    assert (made["jobs"]["jobs"], made["jobs"]["single"]) == (None, None)


def test_nothing_of_jobs_is_there_where_no_one_asks(home: Path) -> None:
    document = json.loads(muster(*CHECK, "--format", "json", home=home).stdout)
    assert "jobs" not in document and not any("jobs" in one for one in document["findings"])


@pytest.mark.parametrize(("words", "said"), [
    (("--jobs",), "with --from FOLDER give --jobs-from FILE alone"),
    (("--jobs-from", "none.txt"), "--jobs-from none.txt: No such file"),
    (("--jobs-from", "muster.yaml"), "muster.yaml:1: ")])
def test_what_cannot_be_read_is_one_line(home: Path, words: tuple[str, ...], said: str) -> None:
    done = muster(*CHECK, *words, home=home)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr
