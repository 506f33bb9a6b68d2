"""`muster demo`, as a person runs it: it finds what was planted, says so, and clears up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from provisioning.cli.demo import verdict
from tests.testbed.memory import in_memory

ROOT = Path(__file__).resolve().parents[3]


def command(tmp_path: Path, *options: str) -> tuple[list[str], dict[str, str]]:
    """The command line and environment of a demo whose files are all below `tmp_path`."""
    program = "from healthcheck.cli.main import main; main()"
    environment = {
        **os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config")}
    return [sys.executable, "-c", program, "demo", *options], environment


def run(tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    words, environment = command(tmp_path, *options)
    return subprocess.run(
        words, cwd="/", env=environment, capture_output=True, text=True, timeout=110, check=False)


@dataclass
class Ended:
    """A demo that is over: its exit code, what it printed, and what it was to find."""

    code: int
    out: bytes
    err: bytes
    planted: str


@pytest.fixture(scope="module", params=[
    pytest.param(("3 faults, one to a node; 3", "--nodes", "6", "--seed", "299", "--keep"), id="6"),
    pytest.param(("25 faults, one to a node; 7",), id="32", marks=pytest.mark.slow)])
def ended(request: pytest.FixtureRequest) -> Ended:
    """The demo with three faults, of which one shows as time passes, one only beside other nodes and one is
    a hostile node, kept until it is told to end; and as it comes, with 32 nodes and every fault. Its folder
    for temporary files is empty afterwards."""
    planted, *options = request.param
    with in_memory(512) as name:
        folder = Path(name)
        words, environment = command(folder, *options)
        with subprocess.Popen(
            words, cwd="/", env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as demo:
            told = stays_until_told(demo) if "--keep" in options else b""
            out, err = demo.communicate(timeout=110)
        assert list(folder.iterdir()) == []
    return Ended(demo.returncode, out, told + err, planted)


def stays_until_told(demo: subprocess.Popen[bytes]) -> bytes:
    """What it says until it tells how its fleet is checked; it is told to end then."""
    assert demo.stderr is not None
    told = []
    for line in demo.stderr:
        told.append(line)
        if b"muster check --inventory" in line:
            break
    assert Path(told[-1].decode().split()[-1]).is_file()
    assert demo.poll() is None
    demo.send_signal(signal.SIGINT)
    return b"".join(told)


def test_every_fault_is_found_and_no_healthy_node_is_accused(ended: Ended) -> None:
    assert ended.out.decode().splitlines()[-1:] == [
        f"Planted: {ended.planted} nodes healthy. Every fault was found, and nothing else was "
        "accused."], (ended.out + ended.err).decode()
    assert ended.code == 0


def test_nothing_that_a_hostile_node_printed_reaches_the_terminal_as_it_was(ended: Ended) -> None:
    printed = ended.out + ended.err
    assert b"owned" in printed
    for poison in (b"\x1b", b"\x07", b"\x00", b"\x9b", "\u202e".encode()):
        assert poison not in printed


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3, 4])
def test_the_same_holds_for_another_seed(seed: int, tmp_path: Path) -> None:
    done = run(tmp_path, "--seed", str(seed))
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


@pytest.mark.parametrize("name", ["INT", pytest.param("TERM", marks=pytest.mark.slow)])
def test_interrupted_it_clears_up_and_says_130(name: str, tmp_path: Path) -> None:
    words, environment = command(tmp_path, "--nodes", "2", "--keep")
    with subprocess.Popen(
        words, cwd="/", env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as demo:
        assert demo.stderr is not None
        assert b"2 nodes on 127.0.0.1" in demo.stderr.readline()
        demo.send_signal(signal.Signals[f"SIG{name}"])
        demo.communicate(timeout=60)
    assert demo.returncode == 130
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("nodes", ["1", "2"])
def test_a_small_fleet_is_judged_as_well_and_kept_it_stays_until_it_is_told_to_end(
    nodes: str, tmp_path: Path,
) -> None:
    words, environment = command(tmp_path, "--nodes", nodes, "--keep")
    with subprocess.Popen(
        words, cwd="/", env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as demo:
        stays_until_told(demo)
        demo.communicate(timeout=60)
    assert demo.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_without_sshd_one_line_says_what_to_type(tmp_path: Path) -> None:
    words, environment = command(tmp_path)
    program = ("import shutil; which = shutil.which; shutil.which = lambda name, *a, **k: None if name == "
               "'sshd' else which(name, *a, **k); ")
    words[2] = program + words[2]
    done = subprocess.run(
        words, cwd="/", env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr == "muster: the demo needs OpenSSH's server; type: apt-get install -y openssh-server\n"
    assert list(tmp_path.iterdir()) == []


def test_the_verdict_counts_and_lists() -> None:
    planted: dict[str, tuple[str, ...]] = {"gpu001": ("xid",), "gpu002": ()}
    assert verdict(
        planted, []).startswith("Planted: 1 fault, one to a node; 1 node healthy. Every fault was found")
    assert verdict(planted, ["gpu002: accused"]).splitlines() == [
        "Planted: 1 fault, one to a node; 1 node healthy. Not as expected in 1 respect:", "  gpu002: accused",
    ]
