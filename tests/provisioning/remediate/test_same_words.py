"""What is asked for on one node is the same in `nodes`, `triage`, `ticket`, `remediate` and `rma list`."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from healthcheck.cli.main import root
from healthcheck.model.outcome import Finding, NodeReport, NodeState, Result, Severity, Status
from healthcheck.store.file import opened
from healthcheck.store.sweeps import SweepRecord, record
from inventory.errors import MusterError
from tests.packagedrules import RULES
from tests.provisioning.remediate.test_rma import (
    GPU3,
    OPEN,
    home,  # noqa: F401  (a fixture)
    look,
    run,
)
from tests.testbed.marks import plain

_ACT = ("triage", "remediate")
pytestmark = pytest.mark.usefixtures("home")


def printed(*words: str) -> str:
    """What a command prints; the error, if it ends with one, as `main` prints it."""
    Path("busy").touch()
    done = CliRunner().invoke(root, [*words, *(("--hostfile", "busy") if words[0] in _ACT else ())])
    assert done.exception is None or isinstance(done.exception, (MusterError, SystemExit)), done.exc_info
    error = f"muster: {done.exception}\n" if isinstance(done.exception, MusterError) else ""
    return plain(done.stdout + done.stderr + error)


def in_all(words: str) -> None:
    """They stand in all five commands; the node's line names repair and owner, as the ticket does."""
    for command in (("nodes", "gpu001"), ("triage",), ("ticket", "gpu001"), ("remediate", "gpu001")):
        assert words in printed(*command), (command, printed(*command))
    (node,) = json.loads(printed("nodes", "gpu001", "--format", "json"))["nodes"]
    assert (node["repair"], node["owner"], node["fault"]) == ("replace", "vendor", "rma")
    assert printed("nodes", "gpu001").count(words) == 1
    text = printed("ticket", "gpu001")
    assert text.startswith(
        f"# gpu001: rma, gpu OLD at {GPU3}\n\nTo the vendor. Please replace it, and give the "
        "serial number of the new one.")
    assert f"- RMA: gpu OLD at {GPU3}\n" in text


def test_a_board_that_came_back_the_same_is_the_same_words_everywhere(tmp_path: Path) -> None:
    run(tmp_path, *OPEN, "--yes")
    run(tmp_path, "ship", "1")
    in_all("RMA 1 is shipped: rows are used up")
    run(tmp_path, "return", "1", "--yes")
    look(tmp_path, "OLD")
    words = "the SAME gpu came back: serial OLD, and it was said to be exchanged"
    assert words in run(tmp_path, "list")
    in_all(words)
    look(tmp_path, "OLD", fails=True)       # type: ignore[arg-type]
    in_all(words)


@pytest.mark.parametrize(("rule", "subject", "repair", "step"), [
    ("gpu-row-remap-pending", "GPU 3", "reset-gpu", "reset-gpu is for it"),
    ("kernel-xid", "GPU at PCI 0000:9a:00, Xid 119", "inspect", "there is no step for it; inspect"),
    ("gpu-c2c", "GPU 3", "reboot", "reboot is for it"),
    ("disk-smart-wear", "nvme0", "replace", "there is no step for it; replace"),
    ("bmc-fan", "FAN 3", "replace", "there is no step for it; replace"),
    ("service-expected", "sshd", "restart-service", "there is no step for it; restart-service"),
    ("service-expected", "docker", "restart-service", "restart-docker"),
    ("netdev-link", "eth0", "watch", "nothing to do")])
def test_a_rules_remedy_is_the_same_repair_everywhere(
    tmp_path: Path, rule: str, subject: str, repair: str, step: str,
) -> None:
    known = next(one for one in RULES.rules if one.id == rule)
    result = Result(rule, known.checked.name, Status.FAIL, known.severity,
                    (Finding("wrong", "right", subject),), "", None, known.remedy, known.owner)
    state = NodeState.UNHEALTHY if known.severity is Severity.CRITICAL else NodeState.DEGRADED
    with opened(tmp_path / "state") as store:
        for ago in (30, 20, 10):
            record(store, SweepRecord(time.time() - ago, time.time(), False, "t", "d"),
                   [NodeReport("gpu002", state, "", (result,))])
    (node,) = json.loads(printed("nodes", "gpu002", "--format", "json"))["nodes"]
    assert (node["repair"], node["owner"]) == (repair, known.owner.value)
    written = json.loads(printed("ticket", "gpu002", "--format", "json"))
    assert (written["repair"], written["owner"]) == (repair, known.owner.value)
    assert written["remedies"][0].startswith(known.remedy[:40])
    assert step in printed("remediate", "gpu002"), printed("remediate", "gpu002")
    (verdict,) = (one for one in json.loads(printed("triage", "--format", "json"))["verdicts"]
                  if one["node"] == "gpu002")
    assert (verdict["repair"], verdict["owner"]) == (repair, known.owner.value)
