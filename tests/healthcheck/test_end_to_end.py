"""The whole of `muster check` as it is typed, against a fleet of real sshd processes."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from healthcheck.model.outcome import Severity
from healthcheck.report.document import document
from healthcheck.report.progress import progress
from healthcheck.sweep import sweep
from healthcheck.sweep.snapshots import KeptSnapshots
from inventory.load import load_inventory
from inventory.sshconfig import SshConfig
from inventory.transport.ssh import SshTransport
from provisioning.demo.expected import compare
from provisioning.demo.fleet import DemoFleet
from tests.command import MUSTER, environment, muster
from tests.packagedrules import RULES
from tests.testbed.memory import base_in_memory
from tests.testbed.processes import alive
from tests.testbed.require import require, require_fleet
from tests.testbed.sshd import sshd, wait_until
from tests.testbed.users import allow_sudo, throwaway_user

PLANTED = {
    "gpu001": (), "gpu002": ("gpu-missing",), "gpu003": (), "gpu004": (), "gpu006": ("docker-hangs",),
    "gpu007": ("refused",), "gpu008": ("link-flapping",),
}
ESCAPE = "\x1b"
ONE = ("--only", "gpu-count")       # the rule of gpu002's fault: where the others say no more


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoFleet]:
    require_fleet()
    with DemoFleet(base=base_in_memory(tmp_path_factory.mktemp("base")), planted=PLANTED) as running:
        yield running


def by_name(text: str) -> dict[str, dict[str, Any]]:
    """The nodes of a muster.check/2 document."""
    return {node["node"]: node for node in json.loads(text)["nodes"]}


INFORMS = {rule.id for rule in RULES.rules if rule.severity is Severity.INFO}


def statuses(node: Mapping[str, Any]) -> dict[str, str]:
    return {result["rule"]: result["status"] for result in node["results"]}


# ---- dead nodes and the deadline

WAYS = ("refused", "silent", "host-key-changed", "host-key-unknown", "login-hangs", "python-missing",
        "docker-hangs")
PATIENCE_S = 2.0


def in_time(folder: Path, nodes: int, each: int, timeout: float) -> None:
    """A fleet with `each` nodes dead in every way, and one more that stops while our program is at work, ends
    in time and right."""
    require_fleet()
    names = [f"gpu{number:03d}" for number in range(1, nodes + 1)]
    planted = dict(zip(names, [(way,) for way in WAYS for _ in range(each)], strict=False))
    with DemoFleet(base=base_in_memory(folder),
                   planted={name: planted.get(name, ()) for name in names}) as fleet:
        stopped = names[-1]
        python = fleet.nodes[stopped].tree / "usr/bin/python3"
        python.unlink()
        python.write_text('#!/bin/sh\necho "muster:$5:python 3.11"\nexec sleep 600\n')
        python.chmod(0o755)
        plan = sweep.SweepPlan(tuple(load_inventory(fleet.inventory, RULES.skus)), RULES)
        began = time.monotonic()
        outcome = sweep.live(plan, SshTransport(SshConfig.parse("")), sweep.limits(timeout, 24),
                             progress(0, "", quiet=True),
                             snapshots=KeptSnapshots(folder / "state"))
        seconds = time.monotonic() - began
    assert timeout <= seconds < timeout + PATIENCE_S
    told = document(outcome.assessed.reports, started="", finished="", partial=outcome.partial, full=True)
    nodes_told = {node["node"]: node for node in told["nodes"]}
    assert nodes_told[stopped]["reason"].startswith("deadline: "), nodes_told[stopped]["reason"]
    rest = {name: faults for name, faults in fleet.planted.items() if name != stopped}
    told["nodes"] = [node for node in told["nodes"] if node["node"] != stopped]
    assert compare(told, rest) == []
    for name, faults in rest.items():
        if not faults:
            assert set(statuses(nodes_told[name])) == {rule.id for rule in RULES.rules}
            told_of = statuses(nodes_told[name])
            assert {status for rule, status in told_of.items() if rule not in INFORMS} <= {"pass", "skipped"}


def test_a_sweep_with_nodes_dead_in_each_way_ends_within_its_deadline(tmp_path: Path) -> None:
    in_time(tmp_path, 9, 1, 20)


@pytest.mark.slow
def test_a_sweep_with_5_per_cent_of_40_nodes_dead_in_each_way_ends_within_its_deadline(
        tmp_path: Path) -> None:
    in_time(tmp_path, 40, 2, 30)


# ---- replay


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {str(path.relative_to(folder)): (path.stat().st_mtime_ns,
                                            path.read_bytes() if path.is_file() else b"")
            for path in (folder, *sorted(folder.rglob("*")))}


def test_replay_gives_what_the_live_sweep_gave_byte_for_byte_and_writes_nothing(fleet: DemoFleet,
                                                                                tmp_path: Path) -> None:
    words = ("check", "-i", str(fleet.inventory), "gpu[007-008]", "--format", "json", "--full")
    muster(*words, home=tmp_path)
    fleet.advance()
    live = muster(*words, "--save", "saved", home=tmp_path)
    assert statuses(by_name(live.stdout)["gpu008"])["port-link-downed"] == "fail", live.stderr
    assert (tmp_path / "saved" / "previous" / "gpu008.json").is_file()
    before = contents(tmp_path)
    again = muster("check", "--replay", "saved", "--format", "json", "--full", home=tmp_path)
    assert (again.stdout, again.returncode) == (live.stdout, live.returncode)
    assert again.stderr == "" and contents(tmp_path) == before
    shutil.rmtree(tmp_path / "state")
    page = muster("check", "--replay", "saved", home=tmp_path)
    assert "port-link-downed" in page.stdout and not (tmp_path / "state").exists()


# ---- interrupted, and killed


def on_node(tree: Path) -> list[int]:
    """Every living process that runs in a node's environment."""
    mark = f"MUSTER_ROOT={tree}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if (entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0")
                and alive(int(entry.name))):
                found.append(int(entry.name))
    return found


def hung_tools(fleet: DemoFleet, name: str) -> list[int]:
    """The processes of the node's Docker client, which ignores polite signals and has a child."""
    found = []
    for pid in on_node(fleet.nodes[name].tree):
        with contextlib.suppress(OSError):
            if b"docker" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


@contextlib.contextmanager
def sweeping(*words: str, home: Path) -> Iterator[subprocess.Popen[str]]:
    """A sweep under way."""
    with subprocess.Popen([str(MUSTER), "check", *words], cwd=home, env=environment(home),
                          stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
def test_interrupted_a_sweep_says_what_it_has_and_leaves_nothing_running(fleet: DemoFleet, tmp_path: Path,
                                                                         number: signal.Signals) -> None:
    with sweeping("-i", str(fleet.inventory), "gpu[001-002,006-007]", "--format", "json", "--full", "--save",
                  "saved", home=tmp_path) as process:
        looks = tmp_path / "state" / "snapshots"
        wait_until(lambda: len(list(looks.glob("*.json"))) == 2 and hung_tools(fleet, "gpu006"), 30,
                   "two answers and a hung tool")
        process.send_signal(number)
        out, err = process.communicate(timeout=10)
    assert process.returncode == 130 and "Traceback" not in err, err
    assert json.loads(out)["partial"] is True
    nodes = by_name(out)
    for name in ("gpu001", "gpu002"):
        assert set(statuses(nodes[name])) == {rule.id for rule in RULES.rules}
    assert nodes["gpu001"]["state"] == "healthy" and nodes["gpu002"]["state"] == "unhealthy"
    assert nodes["gpu006"] == {"node": "gpu006", "state": "unknown",
                               "reason": "interrupted before this node had answered",
                               "origin": "muster", "service": True, "sku": None, "probes": None,
                               "counts": {"pass": 0, "fail": 0, "unknown": 0, "skipped": 0}, "results": []}
    for name in ("gpu001", "gpu006"):
        wait_until(lambda: not on_node(fleet.nodes[name].tree), 10,  # noqa: B023
                   "the end of all that ran on the node")
    again = muster("check", "--replay", "saved", "--format", "json", "--full", home=tmp_path)
    assert again.stdout == out and again.returncode == 1


def test_the_page_of_an_interrupted_sweep_says_that_it_is_partial(fleet: DemoFleet, tmp_path: Path) -> None:
    with sweeping("-i", str(fleet.inventory), "gpu[001,006]", home=tmp_path) as process:
        wait_until(lambda: (tmp_path / "state/snapshots/gpu001.json").exists()
                   and hung_tools(fleet, "gpu006"), 30, "a hung tool")
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=10)
    assert (process.returncode == 130 and "PARTIAL" in out.splitlines()[0]
            and "interrupted before this node had answered" in out)


def test_killed_a_sweep_leaves_nothing_running_on_a_node_with_a_hung_tool(fleet: DemoFleet,
                                                                          tmp_path: Path) -> None:
    with sweeping("-i", str(fleet.inventory), "gpu006", home=tmp_path) as process:
        wait_until(lambda: hung_tools(fleet, "gpu006"), 30, "a hung tool")
        process.kill()
        process.wait(10)
    wait_until(lambda: not on_node(fleet.nodes["gpu006"].tree), 10, "the end of all that ran on the node")


HANGS = ("#!/bin/sh\ntrap '' TERM HUP INT\nid -u > {note}.uid\nsleep 3600 &\necho $$ $! > {note}.new\nmv "
         "{note}.new {note}\nwait\nwait\n")


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to create a user and to write a sudoers file")
def test_killed_a_sweep_leaves_nothing_running_behind_sudo(tmp_path: Path) -> None:
    require(shutil.which("sudo"), "no sudo on this machine: apt-get install -y sudo")
    # Not under pytest's folder, which only root may enter.
    with tempfile.TemporaryDirectory() as name, throwaway_user() as user:
        folder = Path(name)
        folder.chmod(0o755)
        note, tool = folder / "note", folder / "bin" / "docker"
        tool.parent.mkdir()
        tool.write_text(HANGS.format(note=note))
        tool.chmod(0o755)
        allow_sudo(user, f'Defaults:{{}} secure_path="{tool.parent}:/usr/bin:/bin"',
                   "{} ALL=(root) NOPASSWD: ALL")
        with sshd(folder / "sshd", user=user) as server:
            (tmp_path / "muster.yaml").write_text(
                f"version: 1\nnodes: {{n1: {{address: 127.0.0.1, port: {server.port}, user: {user}, "
                f"become: true, "
                f"identity_file: {server.user_key}, known_hosts_file: {server.known_hosts}, sku: "
                f"hgx-h100}}}}\n")
            with sweeping("--only", "docker-answers", home=tmp_path) as process:
                wait_until(lambda: note.exists() or process.poll() is not None, 30, "a hung tool")
                assert process.poll() is None, process.communicate()
                pids = [int(word) for word in note.read_text().split()]
                assert (folder / "note.uid").read_text() == "0\n" and all(map(alive, pids)) and len(pids) == 2
                process.kill()
                process.wait(10)
            wait_until(lambda: not any(map(alive, pids)), 10, "the end of the tool and its child")


# ---- without an inventory

FOUR = "gpu[001-004]"


@pytest.fixture
def home(fleet: DemoFleet, tmp_path: Path) -> Path:
    """The home of somebody whose ssh knows four of the nodes."""
    (tmp_path / ".ssh").mkdir(mode=0o700)
    user = load_inventory(fleet.inventory, RULES.skus).nodes["gpu001"].user
    (tmp_path / ".ssh" / "config").write_text("".join(
        f"Host {name}\n  HostName 127.0.0.1\n  Port {fleet.nodes[name].port}\n"
        for name in sorted(PLANTED)[:4]
    ) + f"Host gpu*\n  User {user}\n  IdentityFile {fleet.folder}/id_ed25519\n  UserKnownHostsFile "
        f"{fleet.folder}/known_hosts\n")
    return tmp_path


def test_with_nothing_but_names_the_page_names_the_node_that_differs_from_the_others(home: Path) -> None:
    done = muster("check", FOUR, home=home)
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("4 nodes (names on the command line), ")
    assert "No SKU was named" in lines[1] and "gpu_count 8" in lines[1]
    at = next(number
              for number, line in enumerate(lines)
              if re.fullmatch(r".*differ.* from the other 3, in this:", line))
    assert lines[at + 1] == "  gpu002: gpu-count, numa-rails"
    assert "unhealthy      1  gpu002" in lines and "healthy        3  gpu[001,003-004]" in lines


def test_from_slurm_asks_sinfo_for_the_nodes(home: Path) -> None:
    (home / "bin").mkdir()
    sinfo = home / "bin" / "sinfo"
    sinfo.write_text("#!/bin/sh\necho \"$@\" > asked\nfor n in 003 001 002 001; do echo gpu$n; done\n")
    sinfo.chmod(0o755)
    done = muster("check", "--from-slurm", *ONE, home=home, PATH=f"{home}/bin:{os.environ['PATH']}")
    assert done.returncode == 1, done.stderr
    assert (done.stdout.startswith("3 nodes (nodes of Slurm), ")
            and "unhealthy      1  gpu002" in done.stdout.splitlines())
    assert (home / "asked").read_text() == "-h -N -o %N %T\n"


def test_names_that_nothing_knows_are_unknown_with_the_stage(home: Path) -> None:
    done = muster("check", "gpu001,no-such-node.invalid", home=home)
    assert done.returncode == 3 and "resolve: " in done.stdout


# ---- exit codes, and what is printed where


@pytest.mark.parametrize(("words", "code"), [
    (("gpu[001,003]", *ONE), 0), (("gpu[002,007]", *ONE), 1), (("gpu009",), 2),
    (("gpu008", "--only", "port-*"), 0), (("gpu006", "--only", "docker-answers"), 3),
    (("gpu[001,007]", *ONE), 3),
])
def test_the_exit_code_says_what_was_found(fleet: DemoFleet, tmp_path: Path, words: tuple[str, ...],
                                           code: int) -> None:
    done = muster("check", "-i", str(fleet.inventory), *words, home=tmp_path)
    assert done.returncode == code, done.stdout + done.stderr


def test_a_node_that_is_not_in_service_is_shown_and_does_not_count(fleet: DemoFleet, tmp_path: Path) -> None:
    text = fleet.inventory.read_text()
    port = fleet.nodes["gpu002"].port
    away = fleet.folder / "away.yaml"
    away.write_text(text.replace(f"{{port: {port}, ",
                                 f"{{port: {port}, lifecycle: {{state: rma, owner: vendor}}, "))
    done = muster("check", "-i", str(away), "gpu[001-002]", *ONE, "--format", "json", home=tmp_path)
    node = by_name(done.stdout)["gpu002"]
    assert (done.returncode, node["state"], node["service"]) == (0, "unhealthy", False)
    assert "not in service" in muster("check", "-i", str(away), "gpu002", *ONE, home=tmp_path).stdout


def test_json_lines_hold_one_node_each_and_the_summary_last(fleet: DemoFleet, tmp_path: Path) -> None:
    done = muster("check", "-i", str(fleet.inventory), "gpu[001-002]", *ONE, "--format", "jsonl",
                  home=tmp_path)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["node"] for line in lines[:-1]] == ["gpu001", "gpu002"]
    assert (lines[-1]["schema"] == "muster.check/2" and lines[-1]["summary"]
            == {"healthy": 1, "degraded": 0, "unhealthy": 1, "unknown": 0}), done.stdout
    assert done.stderr == ""


def terminal(*words: str, home: Path, stdout_too: bool = True, **more: str) -> tuple[str, str]:
    """Standard output and standard error of a run, each a terminal of its own (standard output only if
    asked)."""
    errors, error_end = pty.openpty()
    output, output_end = pty.openpty() if stdout_too else os.pipe()
    with subprocess.Popen([str(MUSTER), *words], stdin=subprocess.DEVNULL, stdout=output_end,
                          stderr=error_end, cwd=home,
                          env=environment(home, TERM="xterm", COLUMNS="150", **more)):
        os.close(error_end)
        os.close(output_end)
        said = {errors: b"", output: b""}
        open_ = set(said)
        while open_:
            for fd in select.select(list(open_), [], [], 60)[0]:
                data = b""
                with contextlib.suppress(OSError):      # a terminal whose other end is closed answers EIO
                    data = os.read(fd, 65536)
                said[fd] += data
                if not data:
                    open_.discard(fd)
                    os.close(fd)
    return said[output].decode(), said[errors].decode()


def test_on_a_terminal_there_are_colours_and_a_bar_on_standard_error(fleet: DemoFleet,
                                                                     tmp_path: Path) -> None:
    out, err = terminal("check", "-i", str(fleet.inventory), "gpu[001-002]", *ONE, home=tmp_path)
    assert re.search(r"\x1b\[[0-9;]*31m", out) and "unhealthy" in out, out + err
    assert "2/2" in err and "not reached" in err and "not reached" not in out


def test_a_pipe_gets_no_escape_codes_even_where_standard_error_is_a_terminal(fleet: DemoFleet,
                                                                             tmp_path: Path) -> None:
    words = ("check", "-i", str(fleet.inventory), "gpu[001-002]", *ONE)
    out, err = terminal(*words, home=tmp_path, stdout_too=False)
    assert "unhealthy" in out and ESCAPE not in out and "2/2" in err, out + err
    shutil.rmtree(tmp_path / "state")     # the same first look again
    done = muster(*words, home=tmp_path)
    assert done.stdout.splitlines()[1:] == out.splitlines()[1:] and ESCAPE not in done.stderr
