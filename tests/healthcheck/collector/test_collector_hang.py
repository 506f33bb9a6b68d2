"""Invariant 6 on the node: what can neither answer nor be killed costs its own entry, and is not touched a
second time.

The hung things hang in the kernel, in state D: they sit on a file system that takes a request and never
answers.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from healthcheck.model.probes import Probe, ProbeKind
from healthcheck.model.recording import FileCapture, Outcome, Recording
from tests.testbed import fuse
from tests.testbed.collector import await_none_with, collect

pytestmark = pytest.mark.usefixtures("needs_fuse")

SINCE = re.compile(r"wedged since 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ \(pid \d+\)")
NAMED = re.compile(r"cannot be killed \(pid \d+, state D\)")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("run", "mnt", "sys"):
        (tmp_path / name).mkdir()
    for name in ("a", "z"):
        (tmp_path / "sys" / name).write_text(name)
    return tmp_path


@pytest.fixture
def dead(tree: Path) -> Iterator[Path]:
    with fuse.hung(tree / "mnt"):
        yield tree / "mnt"


def timed(probes: Sequence[Probe], tree: Path, seconds: float = 20.0) -> tuple[Recording, float]:
    began = time.monotonic()
    recording = collect(probes, tree, seconds=seconds, mark=str(tree))
    return recording, time.monotonic() - began


FILES = Probe("files", ProbeKind.FILES, paths=("/sys/a", "/mnt/x", "/sys/z"), each_s=1.0)


def test_a_file_that_hangs_costs_its_entry_and_is_left_alone_until_it_is_free(tree: Path) -> None:
    with fuse.hung(tree / "mnt") as swallowed:
        recording, took = timed([FILES], tree)
        capture = recording.captures["files"]
        assert swallowed.is_set() and took < 10
        assert capture.files == {
            "/sys/a": FileCapture(Outcome.DONE, "a"), "/mnt/x": FileCapture(Outcome.WEDGED),
            "/sys/z": FileCapture(Outcome.DONE, "z"),
        }
        assert "/mnt/x" in capture.note and NAMED.search(capture.note)

        swallowed.clear()
        recording, took = timed([FILES], tree)
        capture = recording.captures["files"]
        assert not swallowed.is_set() and took < 10
        assert capture.files["/mnt/x"] == FileCapture(Outcome.WEDGED) and SINCE.search(capture.note)
        assert capture.files["/sys/z"] == FileCapture(Outcome.DONE, "z")
    await_none_with(str(tree))
    capture = timed([FILES], tree)[0].captures["files"]
    assert capture.outcome is Outcome.DONE and capture.note == ""
    assert capture.files["/mnt/x"] == FileCapture(Outcome.MISSING)
    assert list((tree / "run/muster").iterdir()) == []


def test_a_folder_that_cannot_be_listed_for_hanging_is_an_entry(tree: Path, dead: Path) -> None:
    capture = timed([Probe("files", ProbeKind.FILES, paths=("/mnt/*", "/sys/*"), each_s=0.3)],
                    tree)[0].captures["files"]
    assert list(capture.files) == ["/mnt", "/sys/a", "/sys/z"]
    assert capture.files["/mnt"] == FileCapture(Outcome.WEDGED)


def test_a_mount_that_hangs_costs_its_entry_and_is_left_alone(tree: Path, dead: Path) -> None:
    (tree / "proc/self").mkdir(parents=True)
    (tree / "proc/self/mountinfo").write_text("".join(f"1 0 0:1 / {point} rw shared:1 - {kind} none rw\n"
                                                      for point, kind in (
                                                          ("/", "ext4"), ("/mnt", "nfs4"), ("/sys", "xfs"))))
    probe = Probe("mounts", ProbeKind.MOUNTS, each_s=0.3)
    for note in (NAMED, SINCE):
        recording, took = timed([probe], tree)
        capture = recording.captures["mounts"]
        assert took < 10 and capture.outcome is Outcome.DONE
        assert {path: entry.outcome.value for path, entry in capture.files.items()} == {
            "/proc/self/mountinfo": "done", "/": "done", "/mnt": "wedged", "/sys": "done"}
        assert "/mnt" in capture.note and note.search(capture.note)


def test_a_command_that_cannot_be_killed_is_abandoned_named_and_not_started_again(tree: Path) -> None:
    probes = [
        Probe("cat", ProbeKind.COMMAND, argv=("cat", str(tree / "mnt/x")), seconds=2.0),
        Probe("echo", ProbeKind.COMMAND, argv=("echo", "fine")),
    ]
    with fuse.hung(tree / "mnt") as swallowed:
        recording, took = timed(probes, tree)
        assert took < 6
        assert (recording.captures["cat"].outcome is Outcome.WEDGED
                and NAMED.search(recording.captures["cat"].note))
        assert recording.captures["echo"].text == "fine\n"
        assert swallowed.is_set()

        swallowed.clear()
        recording, took = timed(probes, tree)
        assert (recording.captures["cat"].outcome is Outcome.WEDGED
                and SINCE.fullmatch(recording.captures["cat"].note))
        assert recording.captures["echo"].text == "fine\n"
        assert not swallowed.is_set() and took < 10
    await_none_with(str(tree))
    recording, _ = timed(probes, tree)
    assert recording.captures["cat"].outcome is Outcome.DONE and recording.captures["cat"].exit == 1
    assert list((tree / "run/muster").iterdir()) == []


def test_many_hung_files_cost_no_more_than_the_probes_time(tree: Path, dead: Path) -> None:
    paths = [*(f"/mnt/{number}" for number in range(40)), "/sys/a"]
    probe = Probe("files", ProbeKind.FILES, paths=tuple(paths), each_s=0.2, seconds=1.0)
    later = Probe("later", ProbeKind.FILES, paths=("/sys/z",), each_s=0.2)
    recording, took = timed([probe, later], tree)
    assert took < 7
    capture = recording.captures["files"]
    assert capture.outcome is Outcome.TIMEOUT
    assert 1 <= len(capture.files) <= 5 and set(capture.files.values()) == {FileCapture(Outcome.WEDGED)}
    assert recording.captures["later"].files == {"/sys/z": FileCapture(Outcome.DONE, "z")}


def test_after_too_many_hung_readers_the_rest_says_that_its_turn_never_came(tree: Path, dead: Path) -> None:
    probe = Probe("files", ProbeKind.FILES, paths=tuple(f"/mnt/{number}" for number in range(20)),
                  each_s=0.05, seconds=30.0)
    later = Probe("later", ProbeKind.FILES, paths=("/sys/z",), each_s=0.05)
    recording, took = timed([probe, later], tree)
    assert took < 25
    assert recording.captures["files"].outcome is Outcome.TIMEOUT
    assert len(recording.captures["files"].files) == 9
    assert recording.captures["later"].outcome is Outcome.TIMEOUT
    assert recording.captures["later"].note.startswith("its turn never came: /mnt/8: ")


def test_the_sets_own_time_ends_a_hung_reader(tree: Path, dead: Path) -> None:
    probe = Probe("files", ProbeKind.FILES, paths=("/mnt/x", "/sys/a"), each_s=30.0, seconds=30.0)
    recording, took = timed([probe], tree, 0.5)
    assert took < 10
    assert recording.captures["files"].outcome is Outcome.TIMEOUT
    assert recording.captures["files"].files == {"/mnt/x": FileCapture(Outcome.WEDGED)}


ECHO = Probe("echo", ProbeKind.COMMAND, argv=("echo", "fine"))


def test_without_a_place_under_run_the_users_own_is_used_and_left_empty(tree: Path) -> None:
    (tree / "run").rmdir()
    (tree / "tmp").mkdir()
    capture = collect([ECHO], tree, env={"XDG_RUNTIME_DIR": ""}).captures["echo"]
    assert (capture.text, capture.note) == ("fine\n", "")
    folder = tree / "tmp" / f"muster-{os.geteuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700 and list(folder.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[]", b"{}", b'["a",1,1e999,1]', b'[["a"],1,1,1]',
                                     b'["a",null,1,1]', b"[" * 9000])
def test_a_record_that_is_none_is_passed_over(tree: Path, content: bytes) -> None:
    (tree / "run/muster").mkdir(mode=0o700)
    (tree / "run/muster" / f"child-{os.getpid()}").write_bytes(content)
    assert collect([ECHO], tree).captures["echo"].text == "fine\n"
