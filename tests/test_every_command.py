"""Every command takes bad input as a user's mistake: a documented exit code, one clear line, no traceback, no
escape codes; and its help teaches with an example."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from pkgutil import resolve_name

import pytest
from click.testing import CliRunner

from healthcheck.cli.gate import PLACES
from healthcheck.cli.main import ended
from healthcheck.cli.watch import PLACES as WATCH
from tests.badinputs import BadInput, bad_inputs, fill, needed, sampled
from tests.command import muster
from tests.test_one_way import OPTIONS, TREE

# `gate NODES` decides, and its words publish and push are commands of their own.
EVERY = {**TREE, **{f"gate {word}": resolve_name(place) for word, (place, _) in PLACES.items()},
         **{f"watch {word}": resolve_name(place) for word, (place, _) in WATCH.items()}}
CODES = {0, 1, 2, 3, 4, 130}
# What would go on until it is ended gets, behind all else, what ends it.
ENDED_BY = {"demo": ("--nodes=0",), "exporter": ("--listen=nowhere",), "os serve": ("--listen=nowhere",),
            "watch": ("--replay",)}
# What takes a lock for as long as its process lives is run in one of its own.
ALONE = {"agent run"}
# A control character, or one that turns the direction of writing, that came from the command line.
RAW = re.compile("\x1b\\[31m|\x1b\\]0;|\x07|\u202e")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("home")
    fill(made)
    return made


@pytest.fixture
def at_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(home)
    for name in [name
                 for name in os.environ if name.startswith(("MUSTER_", "XDG_", "SLURM_", "KUBE", "SSH_"))]:
        monkeypatch.delenv(name)
    for name, value in {"HOME": str(home), "MUSTER_STATE": str(home / "state"), "PATH": "/usr/bin:/bin",
                        "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    yield home


def outcome_of(words: tuple[str, ...]) -> tuple[int, str, str]:
    """The exit code and both outputs of a command line, in this process."""
    with CliRunner().isolation() as (out, err, _):
        code = ended(words)
        sys.stdout.flush()
        sys.stderr.flush()
        return code, out.getvalue().decode("utf-8", "replace"), err.getvalue().decode("utf-8", "replace")


def wrong(command: str, bad: BadInput, home: Path) -> str:
    """What a user would complain of; "" for nothing."""
    words = (*command.split(), *bad.words, *ENDED_BY.get(command, ()))
    try:
        if command in ALONE:
            done = muster(*words, home=home)
            code, out, err = done.returncode, done.stdout, done.stderr
        else:
            code, out, err = outcome_of(words)
    except Exception as error:      # noqa: BLE001  (any is a traceback to the user)
        return f"{type(error).__name__}: {str(error)[:200]}"
    last = err.rstrip("\n").rpartition("\n")[2]
    if code not in CODES:
        return f"exit code {code}"
    if "Traceback" in out + err:
        return "a traceback"
    if RAW.search(out + err):
        return f"raw escape codes: {RAW.search(out + err)!a}"
    if code == 2 and not last.startswith(("muster: ", "Error: ")) and bad.parameter != "nothing":
        return f"exit code 2 without a line: {err[-200:]!a} {out[-100:]!a}"
    if code == 2 and len(last) > 2000:
        return f"a line of {len(last)} characters"
    return ""


def complaints(command: str, these: Iterable[BadInput], home: Path) -> str:
    found = [f"{bad}\n    {complaint}" for bad in these if (complaint := wrong(command, bad, home))]
    return f"muster {command}: {len(found)} complaints\n" + "\n".join(found[:12]) if found else ""


@pytest.mark.parametrize("command", EVERY)
def test_bad_input_is_a_users_mistake(command: str, at_home: Path) -> None:
    assert complaints(command, sampled(bad_inputs(EVERY[command]), command), at_home) == ""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("command", EVERY)
def test_every_bad_input_is_a_users_mistake(command: str, at_home: Path) -> None:
    assert complaints(command, bad_inputs(EVERY[command]), at_home) == ""


@pytest.mark.parametrize("command", [words for words, names in OPTIONS.items() if "--format" in names])
@pytest.mark.parametrize("form", ["json", "table"])
def test_the_formats_of_a_command_parse(command: str, form: str, at_home: Path) -> None:
    """With the words that it needs, and a store without a sweep: what it prints with another code than 2 is a
    document."""
    code, out, err = outcome_of((*command.split(), f"--format={form}", *needed(EVERY[command])))
    assert code in CODES and (code != 2 or "muster: " in err or "Error: " in err), (code, out, err)
    if form == "json" and code != 2:
        assert isinstance(json.loads(out), (dict, list))


def test_a_command_has_over_twenty_kinds_of_bad_input() -> None:
    found = list(bad_inputs(EVERY["cordon"]))
    assert len(found) > 60 and len({one.words for one in found}) > 60
    assert len({one.parameter for one in found}) == len(sampled(found, "cordon"))
    assert min(len(list(bad_inputs(command))) for command in EVERY.values()) >= 2


@pytest.mark.parametrize("command", EVERY)
def test_the_help_of_a_command_shows_an_example(command: str) -> None:
    assert re.search(rf"^  +muster {command}\b", EVERY[command].help or "",
                     re.MULTILINE) or f"muster {command}" in (EVERY[command].help or "")
