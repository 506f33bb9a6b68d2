"""What acts on more than 32 nodes asks first: on a terminal a yes goes on; without one --yes is wanted, and
nothing changed."""

from __future__ import annotations

import os
import pty
from pathlib import Path

import pytest

from healthcheck.store.file import opened
from tests.command import MUSTER, environment, muster
from tests.test_one_way import OPTIONS

MANY = "n[001-040]"
WORDS = {
    "cordon": (MANY, "--reason", "fan"), "cordon adopt": (MANY, "--reason", "fan"), "uncordon": (MANY,),
    "silence": (MANY, "port-*", "--reason", "x", "--for", "2d"), "unsilence": (MANY,),
    "certificate revoke": (MANY, "--reason", "leak"),
    "bringup skip": (MANY, "--step", "bios", "--reason", "x"),
    "bringup retry": (MANY,), "os disarm": (MANY,), "agent install": (MANY,), "agent rollback": (MANY,),
    "agent uninstall": (MANY,),
    "agent upgrade": (MANY,), "gate push": (MANY, "--trust", "--no-snapshot"),
    "images pull": (MANY, "--image", f"host.site/app@sha256:{'1' * 64}"),
}
# These ask about each change of the inventory file, or whatever the number of nodes, or have a test of their
# own.
OTHERWISE = {
    "os release", "bmc accounts", "bmc boot", "bmc enroll", "bmc media", "bmc power", "inventory discover",
    "inventory enroll", "inventory import ansible",
    "inventory import csv", "inventory import slurm", "inventory lifecycle", "inventory rename", "reboot",
    "repaired", "rma close",
    "rma exchange", "rma open", "rma return",
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    refusing = "".join(f"  n{number:03d}: {{address: 127.0.0.{number}, port: 1}}\n"
                       for number in range(1, 41))
    (tmp_path / "muster.yaml").write_text(f"version: 1\ncordon: {{hostfile: bad}}\nnodes:\n{refusing}")
    with opened(tmp_path / "state", make=True):
        pass
    muster("certificate", "key", "new", home=tmp_path)
    return tmp_path


def test_every_command_that_takes_yes_is_tried_here_or_says_why_not() -> None:
    asking = {words for words, names in OPTIONS.items() if "--yes" in names}
    assert asking == ({*WORDS, *OTHERWISE} - {"cordon adopt", "gate push"})


@pytest.mark.parametrize("words", WORDS)
def test_without_a_terminal_many_nodes_are_refused_and_nothing_changed(words: str, home: Path) -> None:
    if words == "unsilence":
        assert muster("silence", MANY, "port-*", "--reason", "x", "--for", "2d", "--yes",
                      home=home).returncode == 0
    done = muster(*words.split(), *WORDS[words], home=home)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1, done
    assert ("n[001-040] (40 nodes): nothing changed, since there is no terminal to ask on; "
            "--yes does it") in done.stderr
    assert not (home / "bad").exists()
    dry = muster(*words.split(), *WORDS[words], "--dry-run", home=home, timeout=120)
    assert "--yes" not in dry.stderr and not (home / "bad").exists()


def test_yes_answers_and_few_are_not_asked_about(home: Path) -> None:
    assert muster("cordon", "n[001-032]", "--reason", "fan", home=home).returncode == 0
    assert muster("cordon", MANY, "--reason", "fan", "--yes", home=home).returncode == 0
    assert len((home / "bad").read_text().splitlines()) == 40
    assert muster("uncordon", MANY, "-y",
                  home=home).returncode == 0 and not (home / "bad").read_text().strip()


@pytest.mark.parametrize(("typed", "code", "cordoned"), [(b"y\n", 0, 40), (b"n\n", 1, 0), (b"\n", 1, 0)])
def test_on_a_terminal_only_a_yes_goes_on(typed: bytes, code: int, cordoned: int, home: Path) -> None:
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(home)
        os.execve(MUSTER, [str(MUSTER), "cordon", MANY, "--reason", "fan"], environment(home))    # noqa: S606
    shown = b""
    while b"[y/N]: " not in shown:
        shown += os.read(terminal, 1000)
    os.write(terminal, typed)
    try:
        while more := os.read(terminal, 4096):
            shown += more
    except OSError:      # so Linux says that the other side has closed
        pass
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == code and b"cordon: n[001-040] (40 nodes). Do it?" in shown
    lines = (home / "bad").read_text().splitlines() if (home / "bad").exists() else []
    assert len(lines) == cordoned and (code != 1 or b"Nothing changed." in shown)
