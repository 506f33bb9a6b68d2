"""`muster reboot` as typed: one line where it would be wrong, and the site's command where it can."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.testbed.marks import muster
from tests.testbed.planted import executable

# A site's command: it keeps who holds the one node, and restarts it in no time.
SITE = """#!{python}
import json, pathlib, sys
file = pathlib.Path({path!r})
node = json.loads(file.read_text()) if file.exists() else {{"holder": "nobody", "reason": "", "booted": 1000}}
asked = json.load(sys.stdin)
if asked["action"] == "isolate":
    node.update(holder="us", reason=asked["reason"])
if asked["action"] == "reboot":
    node["booted"] = 2000
file.write_text(json.dumps(node))
held = {{name: node for name in asked["nodes"]}}
more = {{"nodes": held}} if asked["action"] == "held" else {{"done": True}}
print(json.dumps({{"schema": "muster.action/1", **more}}))
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "muster.yaml").write_text("version: 1\ncordon: {hostfile: bad}\nnodes:\n  gpu001: {}\n")
    return tmp_path


@pytest.mark.parametrize(("words", "said"), [
    (("gpu001",), "--reason is missing"), (("gpu001", "--reason", " "), "--reason is missing"),
    (("gpu001", "--reason", "x", "--yes"), "hostfile cannot reboot nodes"),
    (("gpu009", "--reason", "x"), "gpu009"),
    (("gpu001", "--reason", "x"),
     "reboot: gpu001: nothing changed, since there is no terminal to ask on; --yes does it"),
])
def test_what_cannot_be_done_is_one_line(home: Path, words: tuple[str, ...], said: str) -> None:
    muster("cordon", "gpu001", "--reason", "fan", home=home)
    done = muster("reboot", *words, home=home)
    assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1 and done.stdout == ""


def test_nothing_under_way_is_said(home: Path) -> None:
    muster("cordon", "gpu001", "--reason", "fan", home=home)
    done = muster("reboot", home=home)
    assert (done.returncode, done.stdout) == (0, "no reboot is in progress\n")


def test_a_node_that_we_hold_is_rebooted_and_one_that_no_one_holds_is_not(home: Path) -> None:
    program = executable(home / "site", SITE.format(python=sys.executable, path=str(home / "site.json")))
    (home / "muster.yaml").write_text(
        f"version: 1\ncordon: {{command: [{program}]}}\nnodes:\n  gpu001: {{}}\n")
    refused = muster("reboot", "gpu001", "--reason", "Xid 79", "--yes", home=home)
    assert refused.returncode == 2 and "there is no store yet" in refused.stderr
    assert (muster("cordon", "gpu001", "--reason", "Xid 79", home=home).stdout
            == "gpu001: cordoned in command as muster#1\n")
    dry = muster("reboot", "gpu001", "--reason", "Xid 79", "--dry-run", home=home)
    assert (dry.returncode, dry.stdout) == (0, "gpu001: would be rebooted: Xid 79\n")
    done = muster("reboot", "gpu001", "--reason", "Xid 79", "--yes", home=home)
    assert (done.returncode, done.stdout) == (0, "gpu001: rebooted, and held still as muster#1\n")
