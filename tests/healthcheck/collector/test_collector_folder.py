"""The run folder: whom it may be shared with, what is read from it, and what is left in it."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.console import Console

from healthcheck.model.coverage import RequestedProbes, coverage
from healthcheck.model.outcome import NodeReport, NodeState
from healthcheck.model.probes import Probe, ProbeKind
from healthcheck.model.recording import Outcome, from_json, to_json
from healthcheck.report import document, notjudged
from healthcheck.report.lines import TextPage
from tests.testbed import fuse
from tests.testbed.collector import collect
from tests.testbed.require import require


def records(tree: Path) -> list[str]:
    """What the run folder says its children are at."""
    folder = tree / "run/muster"
    return [json.loads(path.read_text())[0] for path in folder.iterdir()] if folder.exists() else []


@pytest.mark.usefixtures("needs_fuse")
def test_where_nothing_can_be_remembered_the_capture_reports_it(tree: Path) -> None:
    (tree / "run").rmdir()
    (tree / "run").write_text("no folder")
    (tree / "tmp").write_text("no folder")
    (tree / "hung").mkdir()
    probe = Probe("p", ProbeKind.COMMAND, argv=("cat", str(tree / "hung/file")), seconds=0.3)
    with fuse.hung(tree / "hung"):
        capture = collect([probe], tree, env={"XDG_RUNTIME_DIR": ""}).captures["p"]
    assert capture.outcome is Outcome.WEDGED
    assert capture.note.endswith("no safe run folder: the next run cannot see whether it is stuck")


def remember(tree: Path, pid: int, *, start: int | None = None, seconds: float = -1.0) -> None:
    """Writes what an earlier run would have; a limit below zero is past from the first moment, grace
    included."""
    folder = tree / "run/muster"
    folder.mkdir(mode=0o700, exist_ok=True)
    ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    (folder / f"child-{pid}").write_text(
        json.dumps(["probe p", ticks if start is None else start, time.time(), seconds]))


@pytest.fixture
def sleeper() -> Iterator[int]:
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process.pid
        process.kill()


ECHO = Probe("p", ProbeKind.COMMAND, argv=("echo", "ran"))


def a_link(path: Path) -> None:
    (path.parent / "elsewhere").mkdir()
    path.symlink_to(path.parent / "elsewhere")


def of_another(path: Path) -> None:
    require(os.geteuid() == 0, "only root can give a folder to another user")
    path.mkdir(0o700)
    os.chown(path, 65534, 65534)


def open_to_all(path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)


def a_file(path: Path) -> None:
    path.write_text("")


@pytest.mark.parametrize(("broken", "words"), [
    (a_link, "is a link"), (of_another, f"belongs to user 65534, not {os.geteuid()}"),
    (open_to_all, "has mode 0777: others may write to it"), (a_file, "cannot be used: Not a directory"),
])
def test_a_run_folder_that_is_not_ours_alone_is_reported_with_the_next_command_and_is_no_fault(
    tree: Path, broken: Callable[[Path], None], words: str,
) -> None:
    (tree / "tmp").mkdir()
    own = f"/tmp/muster-{os.geteuid()}"
    broken(tree / own[1:])
    broken(tree / "run/muster")
    recording = collect([ECHO], tree, env={"XDG_RUNTIME_DIR": ""})
    assert recording.host is not None and recording.captures["p"].text == "ran\n"
    said = recording.host.run_folder
    assert f"{own} {words}" in said and said.endswith(f"{own}") and "; see: ls -ld /" in said
    assert from_json(to_json(recording)) == recording
    found = coverage(recording, RequestedProbes.of([ECHO]))
    # Beside the results, whatever they are: no rule fails by it and no state comes from it.
    report = NodeReport("gpu001", NodeState.HEALTHY, "", (), probes=found)
    assert (document.node(report)["probes"]["run_folder"] == said
            and document.node(report)["state"] == "healthy")
    out = io.StringIO()
    notjudged.not_seen(TextPage(Console(file=out, width=80)), [report], lambda names: "gpu001", every=False)
    (line,) = out.getvalue().splitlines()
    assert said in line


def test_a_run_folder_of_ours_is_not_worth_a_word(tree: Path) -> None:
    recording = collect([ECHO], tree)
    assert recording.host is not None and recording.host.run_folder == ""
    assert "run_folder" not in to_json(recording)["host"]


def test_a_run_folder_on_a_full_disk_is_reported(tree: Path) -> None:
    require(os.geteuid() == 0 and shutil.which("mount"), "needs root, and mount(8) of util-linux")
    full = ["mount", "-t", "tmpfs", "-o", "size=4k,nr_inodes=3", "tmpfs", str(tree / "run")]
    require(subprocess.run(full, check=False, capture_output=True).returncode == 0,
            "no tmpfs can be mounted here")
    try:
        (tree / "run/muster").mkdir(0o700)
        (tree / "run/filler").write_bytes(b"x" * 4096)
        recording = collect([ECHO], tree)
    finally:
        subprocess.run(["umount", "-l", str(tree / "run")], check=True)
    assert recording.host is not None and recording.captures["p"].text == "ran\n"
    assert "run folder cannot be written to: No space left on device; see: df" in recording.host.run_folder


def test_another_sweeps_probe_within_its_limit_is_no_wedge(tree: Path, sleeper: int) -> None:
    remember(tree, sleeper, seconds=1000.0)
    assert collect([ECHO], tree).captures["p"].text == "ran\n"
    assert len(records(tree)) == 1


def test_a_predecessor_past_its_limit_is_killed_and_nothing_is_started_this_time(
    tree: Path, sleeper: int,
) -> None:
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
    for name, text in (("child-1", "{"), ("child-x", "{}"), ("child-2", "[1]"),
                       ("child-3", '["p", "x", 1, 1]'), ("child-6", '["p", 1, 1e300, 1]'), ("other", "")):
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
    assert collect([ECHO], tree, env={"XDG_RUNTIME_DIR": ""}).captures["p"].text == "ran\n"
