"""What is said during a bring-up: a table that fits a terminal, a line for each change in a log."""

from __future__ import annotations

import io
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from healthcheck.store import bringupnotes as notes
from healthcheck.store.file import opened
from inventory.errors import StoreError
from inventory.nodeset import fold
from provisioning.bringup.engine.model import ORDER
from provisioning.bringup.engine.site import BY_POLICY
from provisioning.bringup.pages import live as lives
from provisioning.bringup.pages.live import LineReporter, Screen, live, table, watch
from provisioning.bringup.pages.progress import BringupStatus
from tests.command import MUSTER, environment
from tests.provisioning.bringup.filled import NOW, many, shown, small, walked


@pytest.fixture(scope="module")
def some(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("state")
    small(folder)
    return folder


def drawn(progress: BringupStatus, **how: object) -> str:
    console = Console(file=io.StringIO(), width=120, height=30, force_terminal=True, highlight=False,
                      markup=False, emoji=False, **how)  # type: ignore[arg-type]
    console.print(table(progress, fold, console))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_table_has_the_steps_and_whom_somebody_has_to_see_to_first(some: Path) -> None:
    text = drawn(shown(some), no_color=True, color_system=None)
    assert text.startswith("12 machines: 2 through, 5 in trouble")
    steps = [line.split()[0] for line in text.splitlines()[2:2 + len(ORDER)]]
    assert steps[0] == "bmc" and steps[-1] == "service"
    assert text.index("gpu005") < text.index("gpu[003,012]") < text.index("waits for the installer")
    assert "PSU 2 has no input voltage; next: reseat the cable" in text


def test_the_table_of_a_thousand_machines_fits_on_the_screen(tmp_path: Path) -> None:
    many(tmp_path, 1000)
    lines = drawn(shown(tmp_path), no_color=True, color_system=None).splitlines()
    assert len(lines) <= 30 and all(len(line) <= 120 for line in lines)
    assert lines[-1].strip().startswith("and ") and lines[-1].strip().endswith(" more: muster bringup status")


def test_it_is_coloured_unless_that_is_not_wanted(some: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[31m" in drawn(shown(some), color_system="standard")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[31m" not in drawn(shown(some), color_system="standard")


def test_nothing_that_a_machine_says_is_markup_or_acts_on_the_terminal(tmp_path: Path) -> None:
    with opened(tmp_path, make=True) as store:
        walked(store, "gpu001", "os", began=NOW, since=NOW, stand=notes.WAITING,
               message="[bold]\x1b]0;owned\x07[/bold]")
    text = drawn(shown(tmp_path), color_system="standard")
    assert "[bold]\\x1b]0;owned" in text and "\x1b]0" not in text


def test_a_log_has_a_line_for_each_change_and_not_for_each_look(
    capsys: pytest.CaptureFixture[str], some: Path,
) -> None:
    log = LineReporter(lambda: shown(some))
    for stand, said in (("operation", "power on"), ("made", "accepted"), ("waiting", "at 10%"),
                        ("waiting", "at 20%"), ("trouble", "no lease\x1b"), ("trouble", "no lease\x1b")):
        log.on_event("gpu001", "os", stand, said)
    log.on_event("", "os", "halted", "many are in trouble")
    log.on_event("gpu001", "agent", "skipped", BY_POLICY)
    assert capsys.readouterr().err.splitlines() == [
        "bringup: gpu001 os operation: power on", "bringup: gpu001 os made: accepted",
        "bringup: gpu001 os waiting: at 10%", "bringup: gpu001 os trouble: no lease\\x1b",
        "bringup: os halted: many are in trouble"]


def test_a_log_sums_up_once_a_minute_and_says_if_it_cannot(
    capsys: pytest.CaptureFixture[str], some: Path,
) -> None:
    now = 0.0
    log = LineReporter(lambda: shown(some), lambda: now)
    log.on_event("gpu001", "os", "waiting", "")
    now = lives.SUMMARY_S
    log.on_event("gpu001", "os", "waiting", "")
    log.on_event("gpu001", "os", "waiting", "")
    assert capsys.readouterr().err.splitlines() == [
        "bringup: gpu001 os waiting",
        "bringup: 12 machines: 2 through, 5 in trouble, 3 waiting, 2 queued; a run is active"]

    def lost() -> BringupStatus:
        raise StoreError("the disk is full")
    now = 0.0
    log = LineReporter(lost, lambda: now)
    now = lives.SUMMARY_S
    log.on_event("gpu002", "os", "waiting", "")
    assert (capsys.readouterr().err.splitlines()[-1]
            == "bringup: the state could not be read: the disk is full")


def test_watching_goes_on_until_all_are_through(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with opened(tmp_path, make=True) as store:
        walked(store, "gpu001", "service", began=NOW, since=NOW)
        sleeps: list[float] = []

        def sleep(seconds: float) -> None:
            sleeps.append(seconds)
            if len(sleeps) == 2:
                with store.writing() as db:
                    notes.left(db, "gpu001", "service", notes.SO, None, NOW)
        watch(lambda: shown(tmp_path), fold, sleep)
    assert sleeps == [lives.EVERY_S] * 2
    assert capsys.readouterr().err.splitlines() == [
        "bringup: gpu001 service queued", "bringup: gpu001 service done"]


def test_what_is_quiet_says_nothing_and_what_is_no_terminal_gets_lines(
    some: Path, capsys: pytest.CaptureFixture[str],
) -> None:
    with live(lambda: shown(some), fold, quiet=True) as silent:
        silent.on_event("gpu001", "os", "trouble", "x")
    assert capsys.readouterr().err == ""
    assert isinstance(live(lambda: shown(some), fold), LineReporter)


def test_a_screen_goes_on_where_the_store_cannot_be_read_for_once(some: Path) -> None:
    def lost() -> BringupStatus:
        raise StoreError("another muster has been writing")
    screen = Screen(lost, fold)
    assert screen._draw() == "muster: another muster has been writing"


@pytest.mark.parametrize(
    ("more", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, None)])
def test_on_a_terminal_status_is_drawn_anew_until_it_is_interrupted(
    tmp_path: Path, more: dict[str, str], coloured: bool | None,
) -> None:
    small(tmp_path / "state")
    ours, theirs = pty.openpty()
    words = {**environment(tmp_path, TERM="xterm", COLUMNS="120", LINES="40"), **more}
    with subprocess.Popen([str(MUSTER), "bringup", "status", "--watch"], env=words, cwd=tmp_path,
                          stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        text, end = "", time.monotonic() + 30
        while text.count(
            "waits for the installer") < (1 if coloured is None else 2) and time.monotonic() < end:
            if select.select([ours], [], [], 0.2)[0]:
                text += os.read(ours, 65536).decode("utf-8", "replace")
        process.terminate()
        assert process.wait(20) == 130
    os.close(ours)
    if coloured is None:
        assert "\x1b" not in text and "bringup: gpu007 os waiting: waits for the installer" in text
    else:
        assert ("\x1b[31m" in text) == coloured and "gpu[003,012]" in text


def test_rich_is_not_loaded_where_a_log_is_written() -> None:
    code = ("import sys, provisioning.bringup.pages.live as l; l.live(lambda: None, None); sys.exit('rich' "
            "in sys.modules)")
    assert subprocess.run(
        [sys.executable, "-c", code], stderr=subprocess.DEVNULL, check=False).returncode == 0
