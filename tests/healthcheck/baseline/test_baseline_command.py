"""`muster baseline` as a user runs it: learn from logs, review, approve, compare, explain; and what it
refuses."""

from __future__ import annotations

import gzip
import json
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from healthcheck.facts.kernel import KMSG, LOG
from healthcheck.model.probes import ProbeSet
from healthcheck.model.recording import Capture, FileCapture, Host, Outcome, Recording
from healthcheck.sweep.saved import Saver, SweepManifest
from inventory.model import Node
from inventory.transport.base import Failure, Stage
from provisioning.demo.fleet import DemoFleet
from tests.command import muster
from tests.testbed.memory import base_in_memory
from tests.testbed.require import require_fleet

HEALTHY = (
    "Linux version 6.5.0-1007-nvidia (buildd@x) #7-Ubuntu SMP", "Memory: {n}113000000K/2147483648K available",
    "random: crng init done", "pci 0000:{n}7:00.0: [10de:2330] type 00 class 0x030200",
    "Run /init as init process", "systemd[1]: Switching root.",
    "mlx5_core 0000:{n}8:00.0: firmware version: 28.39.1002", "cfg80211: failed to load regulatory.db",
)
XID = "NVRM: Xid (PCI:0000:17:00): 79, pid=4711, name=python, GPU has fallen off the bus."


def log(number: int, *more: str) -> str:
    lines = [*(text.format(n=number) for text in HEALTHY), *more]
    return "".join(f"[{at * 1.5 + number / 10:12.6f}] {text}\n" for at, text in enumerate(lines))


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """Logs of eight nodes; one of them has said what is its own, and all have lost a GPU."""
    for number in range(1, 9):
        own = ("nvme nvme0: 96/0/0 default/read/poll queues", XID) if number == 3 else (XID,)
        (tmp_path / f"gpu00{number}.dmesg").write_text(log(number, *own))
    return tmp_path


@pytest.fixture
def learnt(fleet: Path) -> Path:
    done = muster("baseline", "learn", "--sku", "dgx-h100", "-o", "b.yaml", "--from", *_logs(fleet),
                  home=fleet)
    assert done.returncode == 0, done.stderr
    return fleet


def _logs(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.dmesg"))


def _shown(home: Path, name: str = "b.yaml") -> dict[str, dict[str, dict[str, Any]]]:
    done = muster("baseline", "show", name, "--format", "json", home=home)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == "muster.baseline/1"
    return {kind: {one["template"]: one for one in document[kind]}
            for kind in ("approved", "expired", "proposed")}


def _id(home: Path, begins: str) -> str:
    return next(str(one["id"]) for text, one in _shown(home)["proposed"].items() if text.startswith(begins))


def test_a_baseline_is_learned_reviewed_approved_and_judges(learnt: Path) -> None:
    said = muster("baseline", "review", "b.yaml", home=learnt).stdout
    assert said.splitlines()[0].startswith(
        "b, for SKU dgx-h100, kernel 6.5.0-1007-nvidia: 0 approved, 10 proposed (3 flagged); of 8 nodes and")
    assert said.index("NVRM: Xid") < said.index("regulatory.db") < said.index("nvme nvme<*>") < said.index(
        "random: crng")
    assert "on 1 of 8 nodes (gpu003)" in said
    dry = muster("baseline", "approve", "b.yaml", "--seen-on", "95%", "--boots", "3",
                 "--reason", "acceptance",
                 "--dry-run", home=learnt)
    assert (
        "7 would be approved, 3 stay proposed; 2 that meet the rule are flagged; see: muster baseline review "
        "b.yaml --flagged" in dry.stdout)
    assert not _shown(learnt)["approved"]
    done = muster("baseline", "approve", "b.yaml", "--seen-on", "95%", "--boots", "3",
                  "--reason", "acceptance",
                  "--by", "anna", home=learnt)
    assert done.returncode == 0
    assert "7 approved, 3 stay proposed" in done.stdout
    shown = _shown(learnt)
    assert {(one["by"], one["why"]) for one in shown["approved"].values()} == {("anna", "acceptance")}
    known, novel = "[    9.5] random: crng init done", "[    9.5] random: something that nobody has said"
    assert muster("baseline", "explain", "b.yaml", known, home=learnt).returncode == 0
    explained = muster("baseline", "explain", "b.yaml", novel, home=learnt)
    assert explained.returncode == 1
    assert "novel: no node of this baseline has said it" in explained.stdout


def test_a_baseline_can_never_hide_a_known_fault(learnt: Path) -> None:
    before = (learnt / "b.yaml").read_bytes()
    xid = _id(learnt, "NVRM: Xid")
    for words in ((xid, "--flagged"), ("NVRM: Xid", "--flagged"), ("random: crng", xid)):
        done = muster("baseline", "approve", "b.yaml", *words, "--reason", "it is always there", home=learnt)
        assert done.returncode == 2
        assert "no baseline can accept one" in done.stderr
        assert (learnt / "b.yaml").read_bytes() == before, "either all named templates are approved, or none"
    text = before.decode()
    start = text.index("- template: 'NVRM: Xid")
    block = text[start:text.index("- template", start + 5)]
    moved = "".join(line + "\n" for line in block.splitlines()
                    if "flags:" not in line) + "  by: 'x'\n  why: 'y'\n"
    (learnt / "edited.yaml").write_text(
        text.replace(block, "").replace("approved: []\n", f"approved:\n{moved}"))
    line = (learnt / "edited.yaml").read_text().split("NVRM: Xid")[0].count("\n") + 1
    for command in (("show", "edited.yaml"), ("review", "edited.yaml"),
                    ("check", "gpu001.dmesg", "--baseline", "edited.yaml")):
        done = muster("baseline", *command, home=learnt)
        assert done.returncode == 2, command
        assert f"edited.yaml:{line}:" in done.stderr
        assert "is a known fault" in done.stderr
    explained = muster("baseline", "explain", "b.yaml", XID, home=learnt)
    assert explained.returncode == 1
    assert "known fault" in explained.stdout


def test_what_is_flagged_is_approved_by_its_id_when_it_is_meant(learnt: Path) -> None:
    one = _id(learnt, "cfg<*>: failed")
    refused = muster("baseline", "approve", "b.yaml", one, "--reason", "no wireless here", home=learnt)
    assert refused.returncode == 2
    assert f"muster baseline approve b.yaml {one} --flagged" in refused.stderr
    done = muster("baseline", "approve", "b.yaml", one, "--flagged", "--reason",
                  "no wireless here", home=learnt)
    assert "1 approved" in done.stdout
    assert muster("baseline", "explain", "b.yaml", "cfg80211: failed to load regulatory.db",
                  home=learnt).returncode == 0


def test_merging_adds_boots_and_counts_none_twice(learnt: Path) -> None:
    muster("baseline", "approve", "b.yaml", "--seen-on", "95%", "--reason", "acceptance", home=learnt)
    (learnt / "gpu001.dmesg").write_text(log(7, "loop: module loaded"))
    done = muster("baseline", "learn", "--merge", "--sku", "dgx-h100", "-o", "b.yaml", "--from",
                  *_logs(learnt), home=learnt)
    assert done.returncode == 0, done.stderr
    assert "of 8 nodes and 9 boots, 7 of the 8 boots were known already" in done.stdout
    shown = _shown(learnt)
    assert shown["approved"]["random: crng init done"]["boots"] == 9
    assert "loop: module loaded" in shown["proposed"]


def test_packed_logs_of_several_boots_count_by_boot(tmp_path: Path) -> None:
    (tmp_path / "gpu001.kern.log.gz").write_bytes(gzip.compress((log(1) + log(2)).encode()))
    done = muster("baseline", "learn", "-o", "b.yaml", "--from", "gpu001.kern.log.gz", home=tmp_path)
    assert "of 1 node and 2 boots" in done.stdout


def test_two_baselines_are_compared(learnt: Path) -> None:
    shutil.copy(learnt / "b.yaml", learnt / "old.yaml")
    (learnt / "gpu009.dmesg").write_text(log(9, "loop: module loaded"))
    muster("baseline", "learn", "--merge", "--sku", "dgx-h100", "-o", "b.yaml", "--from", "gpu009.dmesg",
           home=learnt)
    done = muster("baseline", "diff", "old.yaml", "b.yaml", home=learnt)
    assert done.returncode == 0
    assert "new: 1\n" in done.stdout
    assert "loop: module loaded" in done.stdout
    found = json.loads(muster("baseline", "diff", "old.yaml", "b.yaml", "--format", "json",
                              home=learnt).stdout)["differences"]
    assert [(one["change"], one["template"]) for one in found if one["change"] == "new"] == [
        ("new", "loop: module loaded")]
    assert "no difference" in muster("baseline", "diff", "b.yaml", "b.yaml", home=learnt).stdout


def test_several_kernels_want_a_folder_or_a_wider_scope(fleet: Path) -> None:
    (fleet / "gpu008.dmesg").write_text(log(8).replace("6.5.0-1007", "6.5.0-1008"))
    learn = ("baseline", "learn", "--sku", "dgx-h100")
    refused = muster(*learn, "-o", "b.yaml", "--from", *_logs(fleet), home=fleet)
    assert refused.returncode == 2
    assert "these nodes have 2 scopes" in refused.stderr
    assert muster(*learn, "--scope", "series", "-o", "b.yaml", "--from", *_logs(fleet),
                  home=fleet).returncode == 0
    assert "for SKU dgx-h100, kernel 6.5:" in muster("baseline", "review", "b.yaml", home=fleet).stdout
    other = muster(*learn, "--merge", "-o", "b.yaml", "--from", "gpu001.dmesg", home=fleet)
    assert other.returncode == 2
    assert ("b.yaml is for SKU dgx-h100, kernel 6.5, and these nodes are SKU dgx-h100, kernel "
            "6.5.0-1007-nvidia" in other.stderr)
    (fleet / "books").mkdir()
    assert muster(*learn, "-o", "books", "--from", *_logs(fleet), home=fleet).returncode == 0
    assert sorted(path.name for path in (fleet / "books").iterdir()) == [
        "dgx-h100-6.5.0-1007-nvidia.yaml", "dgx-h100-6.5.0-1008-nvidia.yaml"]


def test_it_is_learned_from_a_saved_sweep(tmp_path: Path) -> None:
    nodes = [Node(name=f"n{number}", sku="dgx-h100") for number in range(3)]
    saver = Saver(tmp_path / "monday")
    records = "".join(f"6,{at},{at * 1000},-;{text.format(n=1)}\n" for at, text in enumerate(HEALTHY))
    for node in nodes[:2]:
        capture = Capture(Outcome.DONE, seconds=0.1, bytes=1,
                          files={KMSG: FileCapture(Outcome.DONE, records)})
        host = Host(node.name, f"boot-of-{node.name}", time.time(), 0, "3.11", "x86_64", 0.1)
        saver.add(Recording(node.name, time.time(), host, None, {LOG.id: capture}), None)
    saver.add(Recording("n2", time.time(), None, Failure(Stage.CONNECT, "no route to host")), None)
    saver.finish(replace(SweepManifest("2026-11-21T10:00:00Z", "2026-11-21T10:00:01Z", False, "test",
                                       tuple(nodes), None, (), (), "", {}),
                         probes=ProbeSet.of((LOG,)).to_json()))
    done = muster("baseline", "learn", "--replay", "monday", "-o", "b.yaml", home=tmp_path)
    assert done.returncode == 3, done.stderr
    assert "not learned from n2: connect: no route to host" in done.stderr
    assert "for SKU dgx-h100, kernel 6.5.0-1007-nvidia" in done.stdout
    assert "of 2 nodes and 2 boots" in done.stdout


def test_it_is_learned_from_nodes_over_ssh(tmp_path: Path) -> None:
    require_fleet()
    with DemoFleet(base=base_in_memory(tmp_path),
                   planted={"gpu001": (), "gpu002": (), "gpu003": ("refused",)}) as fleet:
        done = muster("baseline", "learn", "--inventory", str(fleet.inventory), "-o", "b.yaml", home=tmp_path)
    assert done.returncode == 3, done.stderr
    assert "not learned from gpu003: " in done.stderr
    assert "of 2 nodes and 2 boots" in done.stdout
    assert not (tmp_path / "state").exists(), "nothing of the sweep is kept"
    common = [text for text, one in _shown(tmp_path)["proposed"].items() if one["nodes"] == 2
              and not one["flags"]]
    assert any(text.startswith("Linux version") for text in common)


@pytest.mark.parametrize(("words", "said"), [
    (("learn", "-o", "x.yaml"), "no inventory found"),
    (("learn", "-o", "no/x.yaml", "n1"), "no folder no"),
    (("learn", "a", "b", "-o", "x.yaml"), "give files after --from"),
    (("learn", "-o", "x.yaml", "--from", "none"), "--from 'none': No such file"),
    (("learn", "-o", "x.yaml", "--from", "/dev/null"), "is a device"),
    (("learn", "-o", "x.yaml", "--from", "prose.txt"), "no kernel log"),
    (("learn", "-o", "prose.txt", "--from", "prose.txt"), "exists already; --merge adds to it"),
    (("show", "none.yaml"), "no such file"),
    (("learn", "-o", "x.yaml", "--sku", "dgx", "--from", "prose.txt"), "--sku dgx: no such SKU"),
    (("show", "prose.txt"), "expected a map"), (("explain", "b.yaml"), "Missing argument 'LINE'"),
    (("aprove", "b.yaml"), "did you mean approve?"), (("approve", "b.yaml"), "Missing option '--reason'"),
])
def test_a_mistake_is_one_line(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    (tmp_path / "prose.txt").write_text("")
    if words[0] == "show" and words[1] == "prose.txt":
        (tmp_path / "prose.txt").write_text("a\n")
    done = muster("baseline", *words, home=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words",
                         [("--reason", " "), ("--reason", "x", "--seen-on", "0%"),
                          ("--reason", "x", "--seen-on", "195%"), ("--reason", "x"),
                          ("--reason", "x", "nothing of that name"), ("--reason", "x", "--by", "")])
def test_an_approval_that_says_too_little_leaves_the_file_as_it_is(
    learnt: Path, words: tuple[str, ...],
) -> None:
    before = (learnt / "b.yaml").read_bytes()
    assert muster("baseline", "approve", "b.yaml", *words, home=learnt).returncode == 2
    assert (learnt / "b.yaml").read_bytes() == before


def test_what_a_node_said_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "n1.dmesg").write_bytes(
        log(1).encode() + b"[   99.000000] evil \x1b]0;owned\x07 \xff 'quoted': [x] failed\n")
    assert muster("baseline", "learn", "-o", "b.yaml", "--from", "n1.dmesg", home=tmp_path).returncode == 0
    for command in ("review", "show"):
        done = muster("baseline", command, "b.yaml", home=tmp_path)
        assert done.returncode == 0
        assert "\x1b" not in done.stdout
    assert b"\x1b" not in (tmp_path / "b.yaml").read_bytes()


@pytest.mark.parametrize("command", ["learn", "review", "approve", "diff", "show", "explain"])
def test_help_teaches_by_an_example(tmp_path: Path, command: str) -> None:
    done = muster("baseline", command, "--help", home=tmp_path)
    assert done.returncode == 0
    assert f"\n  muster baseline {command} " in done.stdout
