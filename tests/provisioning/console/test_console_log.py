"""What is kept of a console: lines out of bytes, files of bounded size, marks that no machine can forge, and
what the catalogue knows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.baseline.catalogue import Catalogue
from healthcheck.config.rulesfolder import packaged
from healthcheck.ruleset.ruleset import load_ruleset
from provisioning.console.lines import LONGEST, ConsoleLines
from provisioning.console.log import FOLDER, MOST_BYTES, CaptureMark, ConsoleLog, tail
from provisioning.console.verdict import judged, message
from provisioning.console.view import view

UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_whatever_bytes_come_in_whatever_pieces_the_lines_are_safe_and_bounded(pieces: list[bytes]) -> None:
    lines = ConsoleLines()
    found = [line for piece in pieces for line in lines.feed(piece)] + lines.rest()
    assert all(line and len(line) <= LONGEST and not UNSAFE.search(line) for line in found)


@given(st.lists(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40),
                max_size=8),
       st.integers(1, 50))
def test_lines_are_the_same_however_they_are_cut(written: list[str], size: int) -> None:
    data = "".join(f"{line}\r\n" for line in written).encode()
    lines = ConsoleLines()
    assert [line for at in range(0, len(data), size) for line in lines.feed(data[at:at + size])] == written


def test_a_menu_of_firmware_is_read_without_its_colours_and_a_line_without_an_end_is_cut() -> None:
    lines = ConsoleLines()
    assert lines.feed(b"\x1b[2J\x1b[1;1H\x1b[37;40mPress F2\x1b[0m\x1b[5;1HBoot: NIC\r\n") == ["Press F2",
                                                                                               "Boot: NIC"]
    assert [len(line) for line in lines.feed(b"x" * 20_000)] == [LONGEST, LONGEST]


@given(st.text(max_size=200))
def test_no_text_of_a_machine_is_taken_for_a_mark(text: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        log = ConsoleLog(Path(folder), "n1")
        log.write([text, f"\n2026-11-28T01:02:03Z # ended: {text}"], 1e9)
        log.close()
        assert all(one.mark is None for one in tail(Path(folder), "n1"))


def test_a_machine_has_two_files_of_bounded_size_which_only_their_owner_reads(tmp_path: Path) -> None:
    log = ConsoleLog(tmp_path, "n1")
    for at in range(3000):
        log.write([f"{at} {'x' * 900}"], 1e9 + at)
    log.close()
    found = {path.name: path.stat() for path in (tmp_path / FOLDER).iterdir()}
    assert set(found) == {"n1.log", "n1.1.log", "n1.lock"}
    assert all(one.st_size <= MOST_BYTES and one.st_mode & 0o777 == 0o600 for one in found.values())
    assert tail(tmp_path, "n1")[-1].text.startswith("2999 ")
    assert [one.text.split()[0] for one in tail(tmp_path, "n1", since=1e9 + 2998)] == ["2997", "2998", "2999"]


def test_a_line_that_a_killed_writer_tore_does_not_take_the_next_one_along(tmp_path: Path) -> None:
    log = ConsoleLog(tmp_path, "n1")
    log.write(["whole"], 1e9)
    log.close()
    with (tmp_path / FOLDER / "n1.log").open("a") as file:
        file.write("2001-09-09T01:46:41Z | to")
    log = ConsoleLog(tmp_path, "n1")
    log.write(["next"], 1e9)
    log.close()
    assert [one.text for one in tail(tmp_path, "n1")] == ["whole", "to", "next"]


def test_of_two_writers_the_second_is_refused(tmp_path: Path) -> None:
    log = ConsoleLog(tmp_path, "n1")
    with pytest.raises(BlockingIOError):
        ConsoleLog(tmp_path, "n1")
    log.close()
    ConsoleLog(tmp_path, "n1").close()


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    kernel = load_ruleset([packaged()]).kernel
    assert kernel is not None
    return kernel.catalogue


LINES = [
    "Press F2 to enter setup", "[    0.000000] Linux version 6.1.0-18-amd64",
    "[   12.345678] VFS: Cannot open root device \"sda1\" or unknown-block(0,0): error -6",
    "[   12.345678][    T1] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)",
    "[FAILED] Failed to mount /data.", "[  OK  ] Started Journal Service.",
]


def test_what_the_catalogue_knows_is_found_and_healthy_lines_are_not(catalogue: Catalogue) -> None:
    found = {one.entry.id: one for one in judged(LINES, catalogue)}
    assert set(found) == {"root-not-opened", "panic-root", "systemd-unit-failed"}
    assert found["panic-root"].line == LINES[3] and found["panic-root"].count == 1
    assert not judged([LINES[0], LINES[1], LINES[5]], catalogue)


@given(st.text(max_size=300))
def test_the_message_of_any_line_is_a_part_of_it(line: str) -> None:
    assert line.endswith(message(line).removeprefix("systemd[1]: "))


def test_what_is_shown_of_a_console_says_what_was_not_captured(tmp_path: Path, catalogue: Catalogue) -> None:
    def shown() -> list[str]:
        return view(tmp_path, "n1", 1e9, lambda: catalogue).lines()

    assert shown() == ["console: not captured"]
    log = ConsoleLog(tmp_path, "n1")
    log.mark(CaptureMark.MISSING, "its console is in use by another session", 1e9)
    assert shown() == ["console: not captured: its console is in use by another session"]
    log.mark(CaptureMark.BEGUN, "serial over LAN", 1e9)
    log.write(LINES, 1e9)
    log.mark(CaptureMark.GAP, "the controller ended the session", 1e9)
    log.close()
    lines = shown()
    assert (lines[0]
            == ("console (not all of it: its console is in use by another session; the controller ended "
                "the session):"))
    assert [line[:4] for line in lines[1:]] == ["  ! "] * 3 + ["  | "] * 5 and "panic-root" in "".join(lines)
    assert lines[-1] == f"  | {LINES[-1]}"
    later = view(tmp_path, "n1", 2e9, lambda: catalogue)
    assert not later.captured and later.lines() == ["console: not captured"]
