"""Nothing is left running when no one waits any more: whatever ends the channel, and in the middle of
anything."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from healthcheck.collector import program
from healthcheck.collector.onnode import system
from healthcheck.model.probes import MIB, Probe, ProbeKind, ProbeSet
from tests.testbed import fuse
from tests.testbed.collector import MARK, PYTHON, Running, await_none_with, processes_with, running
from tests.testbed.require import require
from tests.testbed.sshd import wait_until
from tests.testbed.users import allow_sudo, throwaway_user


@pytest.fixture
def mark() -> str:
    """A word in the environment by which everything that a run has started is found again."""
    return uuid.uuid4().hex


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A root with a tool that hangs, has children in its own process group and in another, and ignores what
    can be ignored."""
    tool = tmp_path / "usr/bin/hang"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\ntrap '' HUP TERM INT PIPE\nsleep 1000 & timeout 1000 sleep 1000 &\ntouch "
                    "$MUSTER_ROOT/started\nsleep 1000\n")
    tool.chmod(0o755)
    return tmp_path


def hang(tree: Path) -> Probe:
    return Probe("hang", ProbeKind.COMMAND, argv=(str(tree / "usr/bin/hang"),), seconds=60.0)


def await_file(path: Path, timeout: float = 10.0) -> None:
    end = time.monotonic() + timeout
    while not path.exists():
        assert time.monotonic() < end, f"{path} did not appear"
        time.sleep(0.01)


def await_end(process: subprocess.Popen[bytes], timeout: float = 3.0) -> None:
    process.wait(timeout)


@pytest.fixture
def hanging(tree: Path, mark: str) -> Iterator[Running]:
    """A run in the middle of a command that hangs."""
    with running([hang(tree)], tree, seconds=60.0, mark=mark) as started:
        wait_until(lambda: len(processes_with(mark)) >= 6, 10,
                   "the program, the tool, two sleeps, timeout and its sleep")
        yield started


def test_the_end_of_standard_input_ends_everything_at_once(hanging: Running, mark: str) -> None:
    hanging.hang_up()
    await_end(hanging.process)
    await_none_with(mark)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT])
def test_a_signal_ends_everything_at_once(hanging: Running, mark: str, number: signal.Signals) -> None:
    hanging.process.send_signal(number)
    await_end(hanging.process)
    await_none_with(mark)


def test_a_blocked_signal_ends_everything_all_the_same(tree: Path, mark: str) -> None:
    blocked = ("import "
               "os,signal,sys;signal.pthread_sigmask(signal.SIG_BLOCK,[15,17]);os.execvp(sys.argv[1],"
               "sys.argv[1:])")
    with running([hang(tree)], tree, before=(sys.executable, "-c", blocked), mark=mark) as started:
        await_file(tree / "started")
        started.process.terminate()
        await_end(started.process)
        await_none_with(mark)


def test_a_client_that_is_killed_takes_everything_with_it(tree: Path, mark: str) -> None:
    built = program.build(ProbeSet((hang(tree),), 60.0))
    client = textwrap.dedent("""
        import subprocess, sys
        process = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process.stdin.write(open(sys.argv[1], "rb").read())
        process.stdin.flush()
        process.stdout.read()
    """)
    (tree / "payload").write_bytes(built.payload)
    words = [sys.executable, "-c", client, str(tree / "payload"), PYTHON, "-I", "-S", "-c", built.loader,
             built.nonce]
    with subprocess.Popen(words, env={**os.environ, MARK: mark, "MUSTER_ROOT": str(tree)}) as process:
        await_file(tree / "started")
        process.kill()
    await_none_with(mark)


def test_the_end_of_standard_input_before_the_program_has_arrived_ends_it() -> None:
    built = program.build(ProbeSet(()))
    words = [PYTHON, "-I", "-S", "-c", built.loader, built.nonce]
    cut = subprocess.run(words, input=built.payload[:-100], capture_output=True, check=False, timeout=10)
    assert cut.returncode != 0 and b"frame" not in cut.stdout


def test_the_end_of_standard_input_while_an_extra_is_awaited_ends_it(tmp_path: Path, mark: str) -> None:
    (tmp_path / "sys/module/nvidia").mkdir(parents=True)
    with running([Probe("gpu", ProbeKind.NVML, seconds=60.0)], tmp_path, seconds=60.0, mark=mark) as started:
        started.answer_to_wants = False
        assert started.reply(timeout=1.0).failure is not None and started.process.poll() is None
        started.hang_up()
        await_end(started.process)
        await_none_with(mark)


def test_the_end_of_standard_input_while_the_answer_is_not_read_ends_it(tmp_path: Path, mark: str) -> None:
    (tmp_path / "big").write_bytes(os.urandom(3 * MIB))
    with running([Probe("p", ProbeKind.FILES, paths=("/big",), limit=4 * MIB)], tmp_path,
                 mark=mark) as started:
        _await_blocked(started)
        started.hang_up()
        await_end(started.process)
        await_none_with(mark)


def test_an_answer_that_no_one_reads_is_not_offered_for_ever(tmp_path: Path, mark: str) -> None:
    (tmp_path / "big").write_bytes(os.urandom(3 * MIB))
    with running([Probe("p", ProbeKind.FILES, paths=("/big",), limit=4 * MIB)], tmp_path, seconds=1.0,
                 mark=mark) as started:
        await_end(started.process, timeout=60.0)
        await_none_with(mark)


def _await_blocked(started: Running) -> None:
    """Waits until the frame has begun and the pipe is full."""
    assert started.process.stdout is not None
    seen = b""
    while b":frame " not in seen:
        read = os.read(started.process.stdout.fileno(), 256)
        assert read, "it ended without an answer"
        seen += read


@pytest.mark.usefixtures("needs_fuse")
def test_a_child_that_cannot_be_killed_keeps_neither_the_program_nor_the_channel(
    tmp_path: Path, mark: str,
) -> None:
    (tmp_path / "hung").mkdir()
    (tmp_path / "run").mkdir()
    probe = Probe("cat", ProbeKind.COMMAND, argv=("cat", str(tmp_path / "hung/file")), seconds=60.0)
    with fuse.hung(tmp_path / "hung") as taken, running([probe], tmp_path, mark=mark) as started:
        assert taken.wait(10)
        started.hang_up()
        await_end(started.process)
        assert started.process.stdout is not None and started.process.stderr is not None
        # ends: no one holds the other end any more
        assert started.process.stdout.read().count(b"\n") == 1
        assert started.process.stderr.read() == b""
        assert len(list((tmp_path / "run/muster").iterdir())) == 1
    await_none_with(mark)


def test_a_child_that_is_forked_while_the_others_are_killed_is_killed_too(
    monkeypatch: pytest.MonkeyPatch, mark: str,
) -> None:
    """Of the session, one in a group of its own forks after the processes have been listed."""
    in_its_own_group = (
        "import os, subprocess, sys; os.setpgid(0, 0); print(flush=True); sys.stdin.readline(); "
        "subprocess.Popen(['sleep', '1000']); print(flush=True); sys.stdin.read()")
    leader = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    with subprocess.Popen([PYTHON, "-c", leader, in_its_own_group], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE,
                          env={**os.environ, MARK: mark}, start_new_session=True) as process:
        assert process.stdin is not None and process.stdout is not None
        to_child, from_child = process.stdin, process.stdout
        from_child.readline()
        listing = os.listdir
        listed: list[str] = []

        def list_and_let_it_fork(folder: str) -> list[str]:
            names = listing(folder)
            if not listed:
                to_child.write(b"\n")
                to_child.flush()
                from_child.readline()
            listed.append(folder)
            return names

        monkeypatch.setattr(os, "listdir", list_and_let_it_fork)
        system.kill_all([process.pid])
    assert listed
    await_none_with(mark)


@pytest.fixture
def sudo_user() -> Iterator[str]:
    """A throw-away user who may become root without a password; removed in the end."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to create a user and to write a sudoers file")
    require(shutil.which("sudo") and shutil.which("useradd"),
            "no sudo on this machine: apt-get install -y sudo")
    with throwaway_user() as name:
        yield name


@pytest.mark.parametrize("options", ["!use_pty", "use_pty"])
@pytest.mark.parametrize("how", ["end of input", "sudo is killed and input ends", "hang up"])
def test_it_ends_through_sudo_too(tree: Path, mark: str, sudo_user: str, options: str, how: str) -> None:
    for folder in (tree, *tree.parents):
        if folder.is_relative_to("/tmp") and folder != Path("/tmp"):
            folder.chmod(0o755)
    allow_sudo(sudo_user, f'Defaults:{{}} {options}, env_keep += "{MARK} MUSTER_ROOT", !requiretty',
               "{} ALL=(ALL) NOPASSWD: ALL")
    user = pwd.getpwnam(sudo_user)
    before = ("setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "sudo",
              "-n", "--")
    with running([hang(tree)], tree, seconds=60.0, before=before, mark=mark) as started:
        await_file(tree / "started")
        if how == "hang up":
            started.process.send_signal(signal.SIGHUP)
        elif how != "end of input":
            started.process.kill()
        started.hang_up()
        await_end(started.process)
        await_none_with(mark)
