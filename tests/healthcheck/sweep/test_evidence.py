"""`muster evidence`: a full snapshot and the vendor's report over a real sshd, from stand-ins for
nvidia-bug-report.sh, good and bad.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import pwd
import shutil
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.facts.base import FACTS
from healthcheck.facts.kernel import LOG
from healthcheck.model.probes import MIB, Effect
from healthcheck.model.recording import Capture, Outcome, Recording
from healthcheck.ruleset import plugins
from healthcheck.sweep import evidence
from healthcheck.sweep.evidence import (
    BugReport,
    bug_report_of,
    bug_report_probe,
    bug_report_probes,
    collect,
    snapshot_probes,
    why_not,
)
from healthcheck.sweep.rootprobes import root_probes
from inventory.model import Node, Privilege
from inventory.transport.base import Failure, Stage
from inventory.transport.remote import RemoteTransport
from tests.command import muster
from tests.healthcheck import machine
from tests.testbed.ports import free_port
from tests.testbed.require import require
from tests.testbed.sshd import SSHD, Sshd, sshd, wait_until
from tests.testbed.users import throwaway_user

REPORT = os.urandom(200_000)     # as little compressible as a gzip file
GOOD = 'echo "collecting"\ncp "$HERE/report" "$2.gz"\n'


@dataclass
class Stand:
    """A node with a folder of programs before all others in its PATH."""

    server: Sshd
    programs: Path

    def stand_in(self, text: str, mode: int = 0o755) -> None:
        """Installs a script that is called nvidia-bug-report.sh; `$2` is where it is to write."""
        path = self.programs / "nvidia-bug-report.sh"
        path.write_text(f"#!/bin/sh\nHERE={self.programs}\n{text}")
        path.chmod(mode)

    def report(self, *, limit_s: int = 30, limit: int = evidence.LIMIT_BYTES,
               safe: bool = False) -> BugReport:
        probe = bug_report_probe(safe=safe, limit_s=limit_s, limit=limit)
        return bug_report_of(collect(self.server.node(), bug_report_probes(probe), RemoteTransport(), 60.0),
                             probe)

    def inventory(self, home: Path, **more: object) -> str:
        path = home / "muster.yaml"
        extra = "".join(f", {key}: {value}" for key, value in more.items())
        server = self.server
        path.write_text(f"version: 1\nnodes:\n  n1: {{address: 127.0.0.1, port: {server.port}, "
                        f"user: {server.user}, identity_file: {server.user_key}, "
                        f"known_hosts_file: {server.known_hosts}, sku: cpu-only{extra}}}\n")
        return str(path)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    require(SSHD, "no sshd on this machine: apt-get install -y openssh-server")
    monkeypatch.setenv("HOME", str(tmp_path))    # no ssh_config of whoever runs this
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "report").write_bytes(REPORT)
    where = f"SetEnv HOME={tmp_path}/home PATH={programs}:/usr/local/bin:/usr/bin:/bin TMPDIR={tmp_path}/home"
    with sshd(tmp_path / "sshd", config=where) as server:
        (tmp_path / "home").mkdir()
        yield Stand(server, programs)
        left = list((tmp_path / "home").glob("muster-bug-report*"))
        assert not left, f"left on the node: {left}"


def test_what_the_script_wrote_comes_back_byte_for_byte(node: Stand) -> None:
    node.stand_in(GOOD)
    report = node.report()
    assert (report.outcome, report.reason, report.name) == ("written", "", "nvidia-bug-report.log.gz")
    assert report.data == REPORT


def test_without_gzip_the_file_has_the_other_name(node: Stand) -> None:
    node.stand_in('echo text > "$2"\n')
    assert (report := node.report()).name == "nvidia-bug-report.log" and report.data == b"text\n"


def test_the_safe_mode_is_passed_on_and_nothing_that_traces_every_cpu(node: Stand) -> None:
    node.stand_in('echo "$@" > "$2"\n')
    assert node.report().data.split()[2:] == []
    assert node.report(safe=True).data.split()[2:] == [b"--safe-mode"]


def test_one_that_hangs_is_stopped_and_what_it_wrote_is_kept(node: Stand) -> None:
    mark = f"77{os.getpid()}"
    node.stand_in(f'trap "" TERM\necho half > "$2.gz"\nsleep {mark} &\nwait\nsleep {mark}\n')
    report = node.report(limit_s=1)
    assert report.outcome == "partial" and report.data == b"half\n"
    assert report.reason.startswith("it did not end within 1 s and was stopped; --safe-mode")
    wait_until(lambda: not _running("sleep", mark), what="the end of what it had started")


def test_one_that_hangs_at_once_brings_nothing(node: Stand) -> None:
    node.stand_in("exec sleep 100\n")
    report = node.report(limit_s=1)
    assert (report.outcome, report.data) == ("timeout", b"") and "nothing had been written" in report.reason


@pytest.mark.parametrize(("text", "outcome", "words"), [
    ("exit 0\n", "empty", "exit status 0 and wrote nothing"),
    (': > "$2.gz"\n', "empty", "wrote nothing"), ('echo "no space left on device"\nexit 1\n', "empty",
                                                  "exit status 1 and wrote nothing: no space left on device"),
    ('echo "ERROR: Please run nvidia-bug-report.sh as root."\nexit 1\n',
     "denied", "ERROR: Please run nvidia-bug-report.sh as root."),
    ('echo part > "$2.gz"\necho "nvidia-smi failed"\nexit 3\n', "partial",
     "exit status 3: nvidia-smi failed"), ('kill -9 $$\n', "timeout", "nothing had been written")])
def test_one_that_fails_says_why(node: Stand, text: str, outcome: str, words: str) -> None:
    node.stand_in(text)
    report = node.report()
    assert report.outcome == outcome and words in report.reason


def test_one_that_is_missing_or_may_not_be_run_is_distinguished(node: Stand) -> None:
    assert node.report().outcome == "missing"
    node.stand_in(GOOD, mode=0o644)
    assert node.report().outcome == "denied"


def test_one_that_is_too_large_is_not_fetched_and_says_how_large(node: Stand) -> None:
    node.stand_in('dd if=/dev/zero of="$2.gz" bs=1024 count=2048 2>&1\n')
    report = node.report(limit=MIB)
    assert (report.outcome, report.data) == ("too-large", b"")
    assert report.reason.startswith("2.0 MiB, and at most 1 MiB are fetched")


def test_one_that_fills_the_disk_is_stopped_by_the_kernel(node: Stand) -> None:
    node.stand_in('exec cat /dev/zero > "$2.gz"\n')
    assert node.report(limit=MIB).outcome == "too-large"


@pytest.mark.parametrize("limit", [MIB, pytest.param(evidence.LIMIT_BYTES, marks=pytest.mark.slow)])
def test_the_largest_that_is_fetched_comes_whole(node: Stand, limit: int) -> None:
    node.stand_in(f'head -c {limit} /dev/urandom > "$2.gz"\n')
    report = node.report(limit=limit)
    assert report.outcome == "written" and len(report.data) == limit


def test_a_node_that_is_gone_is_a_value(node: Stand) -> None:
    probe = bug_report_probe()
    gone = replace(node.server.node(), port=free_port())
    assert bug_report_of(collect(gone, bug_report_probes(probe), RemoteTransport(), 60.0),
                         probe).outcome == "unreached"


def _running(*words: str) -> bool:
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes().split(b"\0"))
        except OSError:
            continue
    return any(all(word.encode() in line for word in words) for line in lines)


# --- The command, as it is typed.


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the report is only collected as root")
def test_the_folder_holds_the_snapshot_the_report_and_what_became_of_each(node: Stand,
                                                                          tmp_path: Path) -> None:
    node.stand_in(GOOD)
    done = muster("evidence", "n1", "-i", node.inventory(tmp_path), "--bug-report", "-o", "out",
                  home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "out"
    assert "nvidia-bug-report.log.gz  written, 195 KiB" in done.stdout
    assert done.stderr == "muster: running nvidia-bug-report.sh on n1, for at most 300 s\n"
    folder = tmp_path / "out"
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()} == dict.fromkeys(
        ("recording.json", "nvidia-bug-report.log.gz", "manifest.json"), 0o600)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "nvidia-bug-report.log.gz").read_bytes() == REPORT
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["schema"], manifest["node"], manifest["reached"]) == ("muster.evidence/1", "n1", True)
    assert manifest["bug_report"]["outcome"] == "written"
    assert manifest["bug_report"]["command"] == ["nvidia-bug-report.sh"]
    for file in manifest["files"]:
        data = (folder / file["name"]).read_bytes()
        assert (file["bytes"], file["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    assert manifest["probes"]["kernel.log"]["limit_bytes"] == evidence.LOG_BYTES
    assert not manifest["not_captured"]
    assert node.server.log.count("Starting session: command") == 2
    again = muster("check", "--replay", "out/recording.json", "--only", "host-memory", "--format",
                   "json", "--full",
                   home=tmp_path)
    results = json.loads(again.stdout)["nodes"][0]["results"]
    assert next(result["status"] for result in results
                if result["rule"] == "host-memory") in ("pass", "skipped")
    refused = muster("evidence", "n1", "-i", node.inventory(tmp_path), "-o", "out", home=tmp_path)
    assert refused.returncode == 2 and refused.stderr == "muster: out: exists and is not an empty folder\n"


def test_without_being_asked_for_the_report_is_not_run(node: Stand, tmp_path: Path) -> None:
    node.stand_in(f'touch "{tmp_path}/ran"\n')
    done = muster("evidence", "n1", "-i", node.inventory(tmp_path), home=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.splitlines()[0])
    assert folder.parent == tmp_path / "state" / "evidence" / "n1"
    assert sorted(p.name for p in folder.iterdir()) == ["manifest.json", "recording.json"]
    assert json.loads((folder / "manifest.json").read_text())["bug_report"] == {"outcome": "not-asked"}
    assert not (tmp_path / "ran").exists()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the report is only collected as root")
def test_a_report_that_is_not_there_leaves_the_snapshot_and_ends_with_3(node: Stand, tmp_path: Path) -> None:
    done = muster("evidence", "n1", "-i", node.inventory(tmp_path), "--bug-report", "--safe-mode", "-o",
                  "out", home=tmp_path)
    assert done.returncode == 3 and "nvidia-bug-report.log.gz  missing, " in done.stdout
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["manifest.json", "recording.json"]
    message = json.loads((tmp_path / "out" / "manifest.json").read_text())["bug_report"]
    assert message["outcome"] == "missing" and message["command"] == ["nvidia-bug-report.sh", "--safe-mode"]


def test_a_node_that_is_not_reached_leaves_that_in_the_folder(node: Stand, tmp_path: Path) -> None:
    path = Path(node.inventory(tmp_path))
    path.write_text(path.read_text().replace(f"port: {node.server.port}", f"port: {free_port()}"))
    done = muster("evidence", "n1", "-i", str(path), "--bug-report", "-o", "out", home=tmp_path)
    assert done.returncode == 3 and "recording.json            not reached: connect: " in done.stdout
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert not manifest["reached"] and manifest["failure"]["stage"] == "connect"
    assert manifest["bug_report"]["outcome"] == "unreached"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to create a user")
def test_without_root_the_report_is_not_run_and_says_what_would_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    require(SSHD, "no sshd on this machine: apt-get install -y openssh-server")
    monkeypatch.setenv("HOME", str(tmp_path))
    with throwaway_user() as user, tempfile.TemporaryDirectory() as folder, sshd(Path(folder),
                                                                                 user=user) as server:
        run_folder = Path(f"/tmp/muster-{pwd.getpwnam(user).pw_uid}")
        reached = Stand(server, tmp_path)
        done = muster("evidence", "n1", "-i", reached.inventory(tmp_path, privilege="helper"), "--bug-report",
                      "-o", "out", home=tmp_path)
        assert done.returncode == 3, done.stdout
        assert ("not-run, nvidia-bug-report.sh needs root, and the root-owned helper runs known probes only"
                in done.stdout), done.stdout
        shutil.rmtree(run_folder, ignore_errors=True)


@pytest.mark.parametrize(("words", "message"), [([], "no node named: muster evidence gpu017, or --local"),
                                             (["n1", "--safe-mode"], "--safe-mode goes with --bug-report"),
                                             (["--local", "--sku", "toaster"], "--sku toaster: no such SKU"),
                                             (["n[1-2]"], "n[1-2] names 2 nodes, expected one")])
def test_a_mistake_is_one_line(tmp_path: Path, words: list[str], message: str) -> None:
    done = muster("evidence", *words, home=tmp_path)
    assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "state").exists()


# --- What is decided without a node.


def test_the_script_belongs_to_no_rule_and_the_helper_does_not_know_it() -> None:
    plugins.load()
    probe = bug_report_probe()
    assert probe.id not in {known.id for spec in FACTS.values() for known in (*spec.probes, *spec.besides)}
    assert probe.id not in {known.id for known in root_probes()} and not probe.root
    assert "--extra-system-data" not in " ".join(bug_report_probe(safe=True).argv)


@pytest.mark.parametrize(("privilege", "uid", "words"), [
    (Privilege.UNPRIVILEGED, 0, ""), (Privilege.BECOME, 0, ""), (Privilege.HELPER, 0, ""),
    (Privilege.UNPRIVILEGED, 1000, "this snapshot was made as uid 1000"),
    (Privilege.HELPER, 1000, "the root-owned helper runs known probes only")])
def test_it_is_run_as_root_or_not_at_all(privilege: Privilege, uid: int, words: str) -> None:
    message = why_not(Node(name="n1", privilege=privilege), replace(machine.HOST, uid=uid))
    assert (words in message) if words else message == ""


def test_the_snapshot_is_of_every_passive_probe_with_the_whole_kernel_log() -> None:
    probes = {probe.id: probe for probe in snapshot_probes(Node(name="n1")).probes}
    known = {probe.id for spec in FACTS.values() for probe in (*spec.probes, *spec.besides)
             if probe.effect is Effect.PASSIVE}
    assert probes.keys() == known and probes[LOG.id].limit == evidence.LOG_BYTES
    asked = {probe.id: probe for probe in snapshot_probes(Node(name="n1", privilege=Privilege.HELPER)).probes}
    assert asked[LOG.id] == LOG


def answered(text: str, *, stderr: str = "", **changes: Any) -> BugReport:
    probe = bug_report_probe()
    capture = replace(Capture(Outcome.DONE, exit=0, seconds=9.0, bytes=1, text=text, stderr=stderr),
                      **changes)
    return bug_report_of(Recording("n1", 1.0, machine.HOST, None, {probe.id: capture}), probe)


@pytest.mark.parametrize(("text", "words"), [
    ("", "has another format"), ("muster-bug-report 0 x nvidia-bug-report.log.gz\n", "has another format"),
    ("\x1b[2J\n", "has another format: '\\x1b[2J"),
    ("muster-bug-report 0 4 nvidia-bug-report.log.gz\nAAA\n", "not base64"),
    ("muster-bug-report 0 4 nvidia-bug-report.log.gz\nQUJD\n", "3 bytes of 4"),
    ("muster-bug-report 0 4 nvidia-bug-report.log.gz\n", "0 bytes of 4"),
    ("muster-bug-report 0 4 nvidia-bug-report.log.gz\n!!!!\n", "not base64")])
def test_an_answer_that_is_damaged_is_no_report(text: str, words: str) -> None:
    report = answered(text)
    assert (report.outcome, report.data) == ("failed", b"") and words in report.reason


def test_no_name_that_the_node_says_becomes_a_file() -> None:
    assert answered("muster-bug-report 0 3 ../../etc/passwd\nQUJD\n").data == b""
    assert answered("muster-bug-report 0 3 nvidia-bug-report.log\nQUJD\n").data == b"ABC"


@pytest.mark.parametrize(("capture", "outcome", "words"), [
    ({"outcome": Outcome.TIMEOUT, "exit": None, "seconds": 330.0}, "timeout", "did not answer within 330 s"),
    ({"outcome": Outcome.WEDGED, "exit": None}, "wedged", "is wedged"),
    ({"outcome": Outcome.TRUNCATED}, "truncated", "gave more than"),
    ({"exit": 75}, "failed", "ended with exit status 75"),
    ({"outcome": Outcome.CRASHED, "exit": -9}, "crashed", "crashed (signal 9)")])
def test_a_run_that_did_not_end_well_is_no_report(capture: dict[str, Any], outcome: str, words: str) -> None:
    report = answered("muster-bug-report 0 3 nvidia-bug-report.log\nQUJD\n", **capture)
    assert (report.outcome, report.data) == (outcome, b"")
    assert f"nvidia-bug-report.sh {words}" in report.reason


def test_a_recording_without_the_capture_is_no_report() -> None:
    probe = bug_report_probe()
    assert bug_report_of(machine.recording(), probe).outcome == "failed"
    failed = Recording("n1", 1.0, None, Failure(Stage.DEADLINE, "the time ran out"))
    assert bug_report_of(failed, probe) == BugReport("unreached", "deadline: the time ran out")


@given(st.text(), st.text(max_size=50))
def test_whatever_a_node_answers_is_read_or_refused(text: str, stderr: str) -> None:
    for whole in (text, f"muster-bug-report {text}",
                  f"muster-bug-report 0 3 nvidia-bug-report.log.gz\n{text}"):
        report = answered(whole, stderr=stderr)
        assert report.data == b"" or len(report.data) == 3
        assert "\n" not in report.reason and "\x1b" not in report.reason


def test_this_machine_is_checked_without_ssh(tmp_path: Path) -> None:
    done = muster("evidence", "--local", "--sku", "cpu-only", "-o", "out", home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["node"] == (
        socket.gethostname().partition(".")[0])


def test_a_real_report_is_a_gzip_file_to_us_and_nothing_more(node: Stand) -> None:
    """We never open it: what it holds is for the vendor."""
    (node.programs / "report").write_bytes(gzip.compress(b"Start of NVIDIA bug report log file.\n"))
    node.stand_in(GOOD)
    assert gzip.decompress(node.report().data).startswith(b"Start of NVIDIA")
