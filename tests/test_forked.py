"""A command in a fork is the command that would be started: what it sees, prints and ends with is the
same."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

import pytest

from healthcheck.cli.main import COMMANDS
from tests import forked
from tests.command import MUSTER, environment, started
from tests.testbed.sshd import wait_until

INVENTORY = "version: 1\nnodes: {gpu001: {}}\n"
WORDS = [
    ("--version",), ("rules", "list"), ("nix",), ("rules", "show", "nix"), ("inventory", "show"), ("nodes",),
    ("explain", "no-file"), (),
    ("cordon", "list"), ("check", "gpu001", "--inventory", "no.yaml"),
]


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_starts_and_needs_nothing_that_another_imported(command: str, tmp_path: Path) -> None:
    done = started(command, "--help", home=tmp_path)
    assert (done.returncode,
            done.stderr) == (0, "") and done.stdout.startswith(f"Usage: muster {command} "), done


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_it_prints_and_ends_as_one_that_was_started(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "muster.yaml").write_text(INVENTORY)
    first = started(*words, home=tmp_path)
    done = forked.run([str(MUSTER), *words], cwd=tmp_path, env=environment(tmp_path), timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (first.returncode, first.stdout, first.stderr)
    assert done.stdout or done.stderr


def test_merged_its_errors_stand_in_its_output(tmp_path: Path) -> None:
    apart = started("rules", "show", "nix", home=tmp_path)
    done = forked.run([str(MUSTER), "rules", "show", "nix"], cwd=tmp_path, env=environment(tmp_path),
                      timeout=60, merged=True)
    assert (done.returncode, done.stdout, done.stderr) == (2, apart.stdout + apart.stderr,
                                                           "") and apart.stderr


def test_nothing_of_one_command_is_seen_by_the_next(tmp_path: Path) -> None:
    for name in ("one", "two"):
        home = tmp_path / name
        home.mkdir()
        (home / "muster.yaml").write_text(INVENTORY.replace("gpu001", name))
        done = forked.run([str(MUSTER), "inventory", "show", name], cwd=home,
                          env=environment(home), timeout=60)
        assert done.returncode == 0 and name in done.stdout, done


def test_one_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    (tmp_path / "muster.yaml").write_text(INVENTORY)
    with pytest.raises(subprocess.TimeoutExpired):
        forked.run([str(MUSTER), "exporter", "--listen", "127.0.0.1:0"], cwd=tmp_path,
                   env=environment(tmp_path), timeout=2)
    wait_until(lambda: not processes_in(tmp_path), what="its end")


def processes_in(folder: Path) -> list[str]:
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):
            found += [str(link)] if link.readlink() == folder else []
    return found
