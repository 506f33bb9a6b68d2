"""What our own programs on a node lack is told apart from what the node has: by errors, by messages, by
limits."""

from __future__ import annotations

import errno
import signal
import subprocess
from pathlib import Path

import pytest

from healthcheck.collector.onnode import shortage
from healthcheck.model.probes import Probe, ProbeKind
from healthcheck.model.recording import Capture, Outcome
from tests.testbed.collector import collect


def ran(script: str, tree: Path) -> Capture:
    probe = Probe("it", ProbeKind.COMMAND, argv=("sh", "-c", script))
    return collect([probe], tree, seconds=20.0).captures["it"]


@pytest.mark.parametrize(("message", "name"), [
    ("docker: dial unix /var/run/docker.sock: socket: too many open files", "EMFILE"),
    ("x: error while loading shared libraries: libc.so.6: cannot open shared object file: Error 24",
     "EMFILE"),
    ("open /proc/stat: too many open files in system", "ENFILE"),
    ("ctr: cannot allocate memory", "ENOMEM"),
    ("libnvidia-ml.so.1: failed to map segment from shared object", "ENOMEM"),
    ("terminate called after throwing an instance of 'std::bad_alloc'", "ENOMEM"),
    ("runtime: failed to create new OS thread (have 2 already; errno=11)", "EAGAIN"),
    ("sh: 1: Cannot fork", "EAGAIN"),
    ("dcgmi: write /tmp/x: No space left on device", "ENOSPC"),
    ("Cannot send dump request: No buffer space available", "ENOBUFS"),
])
def test_a_program_that_fails_for_want_of_something_has_measured_nothing(tree: Path, message: str,
                                                                         name: str) -> None:
    capture = ran(f'echo "{message}" >&2; exit 1', tree)
    assert capture.outcome is Outcome.UNABLE and name in capture.note and capture.exit == 1


@pytest.mark.parametrize("script", [
    "echo 'docker: Error response from daemon: write /var/lib/docker/x: no space left on device.' >&2; "
    "exit 125",
    "echo 'ctr: rpc error: code = Unknown desc = cannot allocate memory' >&2; exit 1",
    "echo 'libnvidia-ml.so.1: failed to map segment from shared object: Operation not permitted' >&2; exit 1",
    "echo 'Driver/library version mismatch'; exit 18",
    "echo 'cannot allocate memory' >&2; exit 0",
])
def test_what_the_node_answers_stays_its_answer(tree: Path, script: str) -> None:
    assert ran(script, tree).outcome is Outcome.DONE


def test_a_kill_from_outside_is_no_crash_of_the_program(tree: Path) -> None:
    capture = ran("kill -9 $$", tree)
    assert capture.outcome is Outcome.UNABLE and "SIGKILL" in capture.note
    assert ran("kill -11 $$", tree).outcome is Outcome.CRASHED


@pytest.mark.parametrize("number", sorted(shortage.LACKING))
def test_each_error_of_ours_has_its_name_and_every_other_is_the_nodes(number: int) -> None:
    assert shortage.own_failure(OSError(number, "")).startswith(errno.errorcode[number])
    for other in (errno.EIO, errno.ENOENT, errno.EACCES, errno.ESTALE, errno.ENOTCONN, errno.EINVAL,
                  errno.ETIMEDOUT):
        assert shortage.own_failure(OSError(other, "")) == ""


def test_an_error_of_python_is_named(tree: Path) -> None:
    assert shortage.own_failure(MemoryError()).startswith("ENOMEM")
    assert "lacks a module" in shortage.own_failure(ModuleNotFoundError("No module named '_ctypes'"))
    assert shortage.own_failure(
        ImportError("x.so: cannot open shared object file: Error 24")).startswith("EMFILE")


@pytest.mark.parametrize(("status", "short", "words"), [
    (0, "this login may open only 12 files (ulimit -n)", ""),
    (9, "this login may open only 12 files (ulimit -n)", "may open only 12 files"),
    (-signal.SIGSEGV, "this login may use only 64 KiB of stack (ulimit -s)", "64 KiB of stack"),
    (-signal.SIGSEGV, "", ""), (9, "", ""),
])
def test_under_a_low_limit_only_success_is_believed(status: int, short: str, words: str) -> None:
    found = shortage.why_ended(status, "", short, False)
    assert (words in found) if words else found == ""


@pytest.mark.parametrize(("line", "path", "text", "found"), [
    ("0::/system.slice/agent.service", "system.slice/pids.max", "64\n", "/system.slice has pids.max = 64"),
    ("0::/system.slice/agent.service", "system.slice/agent.service/pids.max", "max\n", ""),
    ("8:pids:/user.slice/user-7", "pids/user.slice/user-7/pids.max", "33\n",
     "/user.slice/user-7 has pids.max = 33"),
])
def test_the_limit_of_the_control_group_is_named(tmp_path: Path, line: str, path: str, text: str,
                                                 found: str) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text(line + "\n")
    (tmp_path / "cg" / path).parent.mkdir(parents=True)
    (tmp_path / "cg" / path).write_text(text)
    assert shortage.group_limit("pids.max", str(tmp_path), str(tmp_path / "cg")).endswith(found)
    assert bool(shortage.group_limit("pids.max", str(tmp_path), str(tmp_path / "cg"))) == bool(found)


def test_a_reader_of_files_that_is_killed_accuses_no_mount(tree: Path) -> None:
    """The out-of-memory killer takes our reader while it asks a file system: no fault of that file system."""
    (tree / "proc" / "self").mkdir(parents=True)
    (tree / "proc" / "self" / "mountinfo").write_text("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n")
    shim = tree / "shim.c"
    shim.write_text("#include <signal.h>\n#include <unistd.h>\n#include <sys/statvfs.h>\n"
                    "int statvfs(const char *p, struct statvfs *s) { kill(getpid(), 9); return -1; }\n"
                    "int statvfs64(const char *p, void *s) { kill(getpid(), 9); return -1; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", tree / "shim.so", shim], check=True)
    capture = collect([Probe("it", ProbeKind.MOUNTS)], tree, seconds=20.0,
                      env={"LD_PRELOAD": f"{tree}/shim.so"}).captures["it"]
    assert capture.outcome is Outcome.UNABLE and "SIGKILL" in capture.note
