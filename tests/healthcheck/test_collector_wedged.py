"""What cannot be killed is abandoned, named, and not started again: with processes that are truly in state D."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from healthcheck.probes import Kind, Probe
from healthcheck.recording import Outcome
from tests.testbed import fuse
from tests.testbed.collector import collect
from tests.testbed.fuse import Hung

needs_fuse = pytest.mark.skipif(fuse.usable() != "", reason=fuse.usable())


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A node's root, with a folder for what its children are remembered in."""
    (tmp_path / "run").mkdir()
    (tmp_path / "hung").mkdir()
    return tmp_path


@pytest.fixture
def hung(tree: Path) -> Iterator[Hung]:
    with Hung(tree / "hung") as mounted:
        yield mounted


def records(tree: Path) -> list[str]:
    """What the run folder says its children are at."""
    folder = tree / "run/muster"
    return [json.loads(path.read_text())[0] for path in folder.iterdir()] if folder.exists() else []


@needs_fuse
def test_a_file_that_hangs_costs_one_entry_and_is_not_touched_again_until_it_lets_go(tree: Path, hung: Hung) -> None:
    (tree / "a").write_text("1")
    (tree / "z").write_text("2")
    probe = Probe("p", Kind.FILES, paths=("/a", "/hung/file", "/z"), each_s=0.4)
    began = time.monotonic()
    capture = collect([probe], tree).captures["p"]
    assert time.monotonic() - began < 4
    assert {path: entry.outcome.value for path, entry in capture.files.items()} == {"/a": "done", "/hung/file": "wedged", "/z": "done"}
    assert capture.outcome is Outcome.DONE
    named = re.fullmatch(r"/hung/file: cannot be killed \(pid (\d+), state D\)", capture.note)
    assert named and records(tree) == ["/hung/file"]

    taken = hung.taken
    again = collect([probe], tree).captures["p"]
    assert again.files["/hung/file"].outcome is Outcome.WEDGED and again.files["/z"].outcome is Outcome.DONE
    assert re.fullmatch(rf"/hung/file: wedged since 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ \(pid {named[1]}\)", again.note)
    assert hung.taken == taken and again.seconds < 0.4

    hung.abort()
    (tree / "hung/file").write_text("back")
    third = collect([probe], tree).captures["p"]
    assert third.files["/hung/file"].text == "back" and third.note == ""
    assert records(tree) == []


@needs_fuse
def test_a_mount_that_hangs_costs_one_entry(tree: Path, hung: Hung) -> None:
    (tree / "proc/self").mkdir(parents=True)
    (tree / "proc/self/mountinfo").write_text("".join(f"1 1 0:{n} / {point} rw - xfs x rw\n" for n, point in enumerate(("/", "/hung", "/run"))))
    probe = Probe("p", Kind.MOUNTS, each_s=0.4)
    capture = collect([probe], tree).captures["p"]
    assert {path: entry.outcome.value for path, entry in capture.files.items()} == {
        "/proc/self/mountinfo": "done", "/": "done", "/hung": "wedged", "/run": "done",
    }
    assert "state D" in capture.note
    again = collect([probe], tree).captures["p"]
    assert again.files["/hung"].outcome is Outcome.WEDGED and again.files["/run"].outcome is Outcome.DONE


@needs_fuse
def test_a_folder_whose_listing_hangs_is_an_entry(tree: Path, hung: Hung) -> None:
    (tree / "a").write_text("1")
    capture = collect([Probe("p", Kind.FILES, paths=("/hung/*/state", "/hung/*", "/a"), each_s=0.4)], tree).captures["p"]
    assert {path: entry.outcome.value for path, entry in capture.files.items()} == {"/hung": "wedged", "/a": "done"}


@needs_fuse
def test_a_program_that_hangs_in_the_kernel_is_wedged_until_it_lets_go_and_the_others_are_on_time(tree: Path, hung: Hung) -> None:
    probes = [
        Probe("cat", Kind.COMMAND, argv=("cat", str(tree / "hung/file")), seconds=0.4),
        Probe("echo", Kind.COMMAND, argv=("echo", "hello")),
    ]
    began = time.monotonic()
    captures = collect(probes, tree).captures
    assert time.monotonic() - began < 4
    assert captures["cat"].outcome is Outcome.WEDGED and captures["echo"].text == "hello\n"
    named = re.fullmatch(r"cannot be killed \(pid (\d+), state D\)", captures["cat"].note)
    assert named

    taken = hung.taken
    again = collect(probes, tree).captures
    assert again["cat"].outcome is Outcome.WEDGED and again["echo"].text == "hello\n"
    assert re.fullmatch(rf"wedged since 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ \(pid {named[1]}\)", again["cat"].note)
    assert hung.taken == taken

    hung.abort()
    (tree / "hung/file").write_text("back")
    assert collect(probes, tree).captures["cat"].text == "back"


@needs_fuse
def test_too_many_reads_that_hang_end_the_reading_within_the_time(tree: Path, hung: Hung) -> None:
    paths = tuple(f"/hung/{n}" for n in range(30))
    began = time.monotonic()
    capture = collect([Probe("p", Kind.FILES, paths=paths, each_s=0.1, seconds=3.0)], tree).captures["p"]
    assert time.monotonic() - began < 5
    assert capture.outcome is Outcome.TIMEOUT
    assert all(entry.outcome is Outcome.WEDGED for entry in capture.files.values()) and len(capture.files) < 10


@needs_fuse
def test_where_nothing_can_be_remembered_the_capture_says_so(tree: Path, hung: Hung) -> None:
    (tree / "run").rmdir()
    (tree / "run").write_text("no folder")
    (tree / "tmp").write_text("no folder")
    capture = collect([Probe("p", Kind.COMMAND, argv=("cat", str(tree / "hung/file")), seconds=0.3)], tree, XDG_RUNTIME_DIR="").captures["p"]
    assert capture.outcome is Outcome.WEDGED
    assert capture.note.endswith("no safe run folder: the next look cannot tell whether it is stuck")


def remember(tree: Path, pid: int, *, start: int | None = None, seconds: float = -1.0) -> None:
    """Writes what an earlier run would have; a limit below zero is past from the first moment, grace included."""
    folder = tree / "run/muster"
    folder.mkdir(mode=0o700, exist_ok=True)
    ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    (folder / f"child-{pid}").write_text(json.dumps(["probe p", ticks if start is None else start, time.time(), seconds]))


@pytest.fixture
def sleeper() -> Iterator[int]:
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process.pid
        process.kill()


ECHO = Probe("p", Kind.COMMAND, argv=("echo", "ran"))


def test_another_sweeps_probe_within_its_limit_is_no_wedge(tree: Path, sleeper: int) -> None:
    remember(tree, sleeper, seconds=1000.0)
    assert collect([ECHO], tree).captures["p"].text == "ran\n"
    assert len(records(tree)) == 1


def test_a_predecessor_past_its_limit_is_killed_and_nothing_is_started_this_time(tree: Path, sleeper: int) -> None:
    remember(tree, sleeper)
    capture = collect([ECHO], tree).captures["p"]
    assert capture.outcome is Outcome.WEDGED and f"(pid {sleeper})" in capture.note
    os.waitid(os.P_PID, sleeper, os.WEXITED | os.WNOWAIT)
    assert collect([ECHO], tree).captures["p"].text == "ran\n"


def test_a_process_that_only_has_the_number_of_a_predecessor_is_left_alone(tree: Path, sleeper: int) -> None:
    remember(tree, sleeper, start=1)
    assert collect([ECHO], tree).captures["p"].text == "ran\n"
    assert records(tree) == []
    assert os.waitid(os.P_PID, sleeper, os.WEXITED | os.WNOHANG) is None


def test_a_damaged_record_is_no_reason_to_stop(tree: Path) -> None:
    folder = tree / "run/muster"
    folder.mkdir(mode=0o700)
    for name, text in (("child-1", "{"), ("child-x", "{}"), ("child-2", "[1]"), ("child-3", '["p", "x", 1, 1]'), ("child-6", '["p", 1, 1e300, 1]'), ("other", "")):
        (folder / name).write_text(text)
    os.mkfifo(folder / "child-4")
    (folder / "child-5").symlink_to("/etc/passwd")
    assert collect([ECHO], tree).captures["p"].text == "ran\n"


def test_after_a_run_without_trouble_nothing_is_left_in_the_run_folder(tree: Path) -> None:
    assert collect([ECHO], tree).captures["p"].outcome is Outcome.DONE
    assert (tree / "run/muster").stat().st_mode & 0o777 == 0o700
    assert records(tree) == []


@pytest.mark.parametrize("trap", ["writable", "symlink", "foreign"])
def test_a_run_folder_that_others_may_have_prepared_is_not_used(tree: Path, sleeper: int, trap: str) -> None:
    if trap == "foreign" and os.geteuid() != 0:
        pytest.skip("needs root")
    remember(tree, sleeper)
    folder = tree / "run/muster"
    if trap == "writable":
        folder.chmod(0o777)
    elif trap == "foreign":
        os.chown(folder, 65534, 65534)
    else:
        folder.rename(tree / "run/elsewhere")
        folder.symlink_to("elsewhere")
    assert collect([ECHO], tree, XDG_RUNTIME_DIR="").captures["p"].text == "ran\n"
