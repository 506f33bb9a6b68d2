"""What restarts or powers off, and what is for many nodes, is asked for on the terminal; --yes answers."""

from __future__ import annotations

import os
import pty
import sys

import pytest

from inventory.cli.confirm import MANY, confirm
from inventory.errors import UsageError

FEW, TOO_MANY = [f"n{i:03}" for i in range(MANY)], [f"n{i:03}" for i in range(MANY + 1)]


@pytest.mark.parametrize(("nodes", "stops", "yes", "asks"), [
    (FEW, False, False, False), (FEW, True, False, True), (FEW, True, True, False),
    (["a"], True, False, True),
    (TOO_MANY, False, False, True), (TOO_MANY, True, True, False), ([], True, False, False),
])
def test_without_a_terminal_what_asks_is_refused_and_names_yes(nodes: list[str], stops: bool, yes: bool,
                                                               asks: bool) -> None:
    if not asks:
        confirm("x", nodes, stops=stops, yes=yes)
        return
    with pytest.raises(UsageError, match=r"^x: .*--yes") as refused:
        confirm("x", nodes, stops=stops, yes=yes)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("closed", ["stdin", "stderr"])
def test_a_stream_that_the_shell_closed_is_no_terminal(closed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, closed, None)
    with pytest.raises(UsageError, match="--yes"):
        confirm("x", ["a"], stops=True, yes=False)


COMMAND = """
import click
from inventory.cli.confirm import confirm
try:
    confirm("power off", ["gpu001", "gpu002"], stops=True, yes=False)
except click.exceptions.Exit as left:
    raise SystemExit(left.exit_code)
"""


@pytest.mark.parametrize(("typed", "code"), [(b"y\n", 0), (b"n\n", 1), (b"\n", 1)])
def test_on_a_terminal_only_a_yes_goes_on(typed: bytes, code: int) -> None:
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, "-c", COMMAND])    # noqa: S606
    shown = b""
    while b"[y/N]: " not in shown:
        shown += os.read(terminal, 1000)
    os.write(terminal, typed)
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == code and b"power off: gpu[001-002] (2 nodes). Do it?" in shown
