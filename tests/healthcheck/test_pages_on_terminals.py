"""What `muster nodes`, triage, history and explain print on terminals of 40, 80 and 200 columns: golden
files, and no line beyond the width.

After a change that is meant, run with MUSTER_GOLDEN=update and read the diff.
"""

from __future__ import annotations

import os
import pty
import re
import time
from pathlib import Path

import pytest
from rich.cells import cell_len

from healthcheck.report.lines import wrapped
from tests import forked
from tests.command import MUSTER, environment, muster
from tests.healthcheck.statuspage.made import world

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
PAGES = {
    "nodes": ("nodes", "--all"), "triage": ("triage", "--hostfile", "none"),
    "history": ("history", "--since", "30d"),
    "explain-rule": ("explain", "gpu-row-remap-failed"), "explain-xid": ("explain", "xid", "79"),
}
WIDTHS = (40, 80, 200)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    forked.import_all()
    world(folder, 12, now=time.time(), sick=5)      # which is its own state folder
    return folder


def on_terminal(words: tuple[str, ...], home: Path, width: int) -> str:
    """What the command shows on a terminal of this width."""
    child, terminal = pty.fork()
    if child == 0:
        forked.become({"argv": [str(MUSTER), *words], "cwd": str(home),
                       "env": environment(home, MUSTER_STATE=str(home), COLUMNS=str(width), NO_COLOR="1",
                                          TERM="xterm")}, [0, 1, 2])
    shown = b""
    try:
        while more := os.read(terminal, 65536):
            shown += more
    except OSError:      # so Linux says that the other side has closed
        pass
    os.waitpid(child, 0)
    os.close(terminal)
    return shown.decode().replace("\r\n", "\n")


def still(text: str) -> str:
    """The text with what differs from run to run made the same, at its width, and without the rows of the
    packaged rules' paths: a checkout may be anywhere."""
    rows, of_path = [], False
    for row in text.splitlines(keepends=True):
        of_path = re.match("  file( |$)| +/",
                           row) is not None or (of_path and re.match(r" {3,}\S", row) is not None)
        rows += [] if of_path else [row]
    text = re.sub(r"(?m) /\S*rules/\S+$", "", "".join(rows))
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d", "2026-11-27T09:55", text)
    return re.sub(r"(?<=muster:)[0-9a-f]{4}", "7f3a", text)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_wrapped_to_the_terminal(page: str, width: int, home: Path) -> None:
    text = still(on_terminal(PAGES[page], home, width))
    path = GOLDEN / f"terminal-{page}-{width}.txt"
    if os.environ.get("MUSTER_GOLDEN") == "update":
        path.write_text(text)
    assert text == path.read_text()
    assert max(cell_len(line) for line in text.splitlines()) <= width


@pytest.mark.parametrize("page", PAGES)
def test_without_a_terminal_a_line_stays_a_line(page: str, home: Path) -> None:
    """Its words are those of the widest terminal, but for a table that has no room there."""
    done = muster(*PAGES[page], home=home, MUSTER_STATE=str(home))
    plain, wide = (sorted(still(text).split())
                   for text in (done.stdout, on_terminal(PAGES[page], home, 1000)))
    assert set(plain) <= set(wide)


@pytest.mark.parametrize(("line", "width", "rows"), [
    ("isolate   gpu[001-004]: the board has fallen off the bus", 36,
     ["isolate   gpu[001-004]: the board", "          has fallen off the bus"]),
    ("  remedy      Drain, reset the GPU, requalify.", 40,
     ["  remedy      Drain, reset the GPU,", "    requalify."]),
    ("a b", 40, ["a b"]), ("", 40, [""]), ("    \x1b[31mred\x1b[0m words that go on and on", 40,
                                           ["    \x1b[31mred\x1b[0m words that go on and on"]),
])
def test_what_goes_on_begins_behind_the_first_column_or_a_little_further_in(line: str, width: int,
                                                                            rows: list[str]) -> None:
    assert wrapped(line, width) == rows
