"""`muster ticket`, as it is typed."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from healthcheck.cli.main import root
from healthcheck.model.outcome import NodeReport, NodeState, Origin, Severity, Status
from healthcheck.model.outcome import Result as Result_
from healthcheck.store.file import opened
from healthcheck.store.silences import silence
from healthcheck.store.sweeps import SweepRecord, record
from healthcheck.sweep.evidence import newest_bundle
from inventory.errors import MusterError
from tests.healthcheck.triage.test_nodes import home  # noqa: F401  (a fixture)

pytestmark = pytest.mark.usefixtures("home")


def run(*words: str) -> Result:
    done = CliRunner().invoke(root, ["ticket", *words])
    assert done.exception is None or isinstance(done.exception, (MusterError, SystemExit)), done.exc_info
    return done


def test_the_ticket_of_a_node_is_printed_for_its_owner(tmp_path: Path) -> None:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    bundle = tmp_path / "state" / "evidence" / "gpu001" / stamp
    bundle.mkdir(parents=True)
    (bundle / "manifest.json").write_text("{}")
    text = run("gpu001").stdout
    assert text.startswith("# gpu001: gpu-worn-out, GPU 0 at 0000:1a:00.0, serial S1\n\nTo the vendor.")
    assert text.endswith(f"Evidence: `{bundle}`\n") and "- Rack: r01" in text and "- What was" not in text
    told = json.loads(run("gpu001", "--format", "json").stdout)
    assert ((told["schema"], told["owner"], told["bundle"]) == ("muster.ticket/1", "vendor", str(bundle))
            and told["text"] == text)
    assert run("gpu003").stdout.startswith("# gpu003: unreachable\n\nTo the data centre.")


@pytest.mark.parametrize(("node", "said"), [
    ("gpu007", "gpu007: there is nothing to repair: it has no problem that the policy covers"),
    ("gpu004", "gpu004: there is nothing to repair: 1 problem is silenced"),
    ("gpu005", "'gpu005': no stored sweep has seen this node; did you mean gpu"),
    ("a b", "'a b': no stored sweep has seen this node"),
])
def test_where_there_is_nothing_to_repair_it_says_why(node: str, said: str) -> None:
    done = run(node)
    assert done.stdout == "" and str(done.exception).startswith(said)


def test_what_many_nodes_have_is_no_ones_ticket(tmp_path: Path) -> None:
    unread = Result_("gpu-count", "x", Status.UNKNOWN, Severity.CRITICAL, (), "no nvidia-smi", Origin.NODE)
    with opened(tmp_path / "state") as store:
        for ago in (30, 20, 10):
            record(store, SweepRecord(time.time() - ago, time.time(), False, "t", "d"),
                   [NodeReport(f"gpu{n:03d}", NodeState.UNKNOWN, "", (unread,)) for n in range(7, 11)])
    assert str(run("gpu007").exception).startswith(
        "gpu007: there is nothing to repair: 4 of 10 nodes in service cannot measure gpu-count")


def test_what_is_silenced_is_not_asked_for(tmp_path: Path) -> None:
    with opened(tmp_path / "state") as store:
        silence(store, ["gpu001"], "gpu-*", "known", "us", time.time(), time.time() + 60)
    assert "1 problem is silenced" in str(run("gpu001").exception)


def test_evidence_is_taken_only_whole_and_only_as_young_as_the_fault(tmp_path: Path) -> None:
    kept = tmp_path / "evidence" / "gpu001"
    for name in ("20260101T000000Z", "20260102T000000Z", "20260103T000000Z", "notes"):
        (kept / name).mkdir(parents=True)
        if name != "20260103T000000Z":
            (kept / name / "manifest.json").write_text("{}")
    assert newest_bundle(tmp_path, "gpu001", 0) == str(kept / "20260102T000000Z")
    assert newest_bundle(tmp_path, "gpu001", 1767312000) == str(kept / "20260102T000000Z")
    assert newest_bundle(tmp_path, "gpu001", 1767312001) == newest_bundle(tmp_path, "gpu002", 0) == ""
