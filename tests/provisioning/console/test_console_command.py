"""`muster bmc console`: what is saved is printed with what is known of it, and a console that no one can
capture says why."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

from provisioning.console.log import CaptureMark, ConsoleLog
from tests.command import muster, running
from tests.documents import validate

PANIC = "[    3.000000] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "muster.yaml").write_text("version: 1\nnodes:\n  n[1-2]: {}\n")
    log = ConsoleLog(tmp_path / "state", "n1")
    log.mark(CaptureMark.BEGUN, "serial over LAN", 1e9)
    log.write(["GRUB", PANIC], 1e9)
    log.close()
    return tmp_path


def test_saved_lines_are_printed_with_what_the_catalogue_knows(home: Path) -> None:
    done = muster("bmc", "console", "n1", home=home)
    assert done.returncode == 1 and done.stdout.splitlines()[:3] == [
        "2001-09-09T01:46:40Z # begun: serial over LAN", "2001-09-09T01:46:40Z | GRUB",
        f"2001-09-09T01:46:40Z | {PANIC}"]
    assert "critical: panic-root (1x, " in done.stdout
    document = json.loads(muster("bmc", "console", "n1", "--format", "json", home=home).stdout)
    validate(document, "console-1")
    assert document["findings"][0]["entry"] == "panic-root" and document["capturing"] is False


def test_what_was_never_captured_is_no_success(home: Path) -> None:
    done = muster("bmc", "console", "n2", home=home)
    assert done.returncode == 3 and "nothing of n2's console is saved" in done.stderr
    followed = muster("bmc", "console", "n2", "--follow", home=home)
    assert followed.returncode == 3 and "# missing: it has no bmc in the inventory" in followed.stdout


@pytest.mark.parametrize(("words", "said"), [
    (("n[1-2]",), "a console is shown of one"), (("n1", "--follow", "--format", "json"), "leave one out"),
    (("n9",), "n9"),
])
def test_a_wrong_call_is_one_line(home: Path, words: tuple[str, ...], said: str) -> None:
    done = muster("bmc", "console", *words, home=home)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr


@pytest.mark.timeout(60)
def test_follow_prints_each_line_once_however_many_there_are_and_over_a_change_of_files(home: Path) -> None:
    log = ConsoleLog(home / "state", "n1")
    following = running("bmc", "console", "n1", "--follow", home=home, out=subprocess.PIPE,
                        err=subprocess.PIPE)
    with following:
        try:
            assert following.stdout is not None and following.stderr is not None
            assert "another muster captures n1" in following.stderr.readline()
            for first in range(0, 3000, 500):
                wanted = [f"{at:05d} {'x' * 200}" for at in range(first, first + 500)]
                log.write(wanted, time.time())
                assert [following.stdout.readline().rstrip("\n").partition(" | ")[2]
                        for _ in wanted] == wanted
            log.close()
            assert following.stdout.read() == "" and following.wait() == 0
        finally:
            following.kill()
