"""Back end `command`: what a site's program may answer, and what becomes of one that hangs, floods or
fails."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.model import Node
from inventory.text import clean
from provisioning.bmc.base import BootTarget
from provisioning.osinstall.base import OsError, OsReport, OsState
from provisioning.osinstall.command import KEYS, MOST_BYTES, ByCommand, parsed
from tests.testbed.planted import executable

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDL7QHzCcmlBjaLs6jqbZHNfuCp2jmuZjNszJrqTxcRH"
NODE = Node("gpu001")


def program(folder: Path, text: str) -> tuple[str, ...]:
    path = executable(folder / "os", f"#!/bin/sh\n{text}\n")
    return (str(path), "site")


def installer(folder: Path, text: str, seconds: float = 20.0) -> ByCommand:
    return ByCommand(program(folder, text), seconds, drives_power=False)


def test_it_is_asked_for_a_machine_by_name_without_a_shell_and_its_answer_is_the_report(
        tmp_path: Path) -> None:
    answer = {"state": "installed", "image": "rocky-9.4", "message": "booted $(id)",
              "host_keys": [f"{KEY} root@x"]}
    asked = tmp_path / "asked"
    back = installer(tmp_path,
                     f"echo \"$*\" >>{asked}; [ $2 = install ] || cat <<'END'\n{json.dumps(answer)}\nEND")
    assert back.state(NODE) == OsReport(OsState.INSTALLED, "booted $(id)", "rocky-9.4", (KEY,))
    back.install(NODE)
    assert asked.read_text() == "site state gpu001\nsite install gpu001\n"
    assert back.changes(NODE) == (f"run: {tmp_path}/os site install gpu001",)
    assert (back.name, back.target, back.drives_power) == ("command", BootTarget.NONE, False)


def test_one_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    back = installer(tmp_path, f"sleep 300 & echo $! >>{pids}; echo $$ >>{pids}; wait", 0.3)
    with pytest.raises(OsError, match=r"did not end within 0\.3 s") as caught:
        back.install(NODE)
    assert caught.value.done is None
    for pid in pids.read_text().split():
        ended(pid)


def ended(pid: str) -> None:
    """Waits until a process that was killed is gone."""
    status, late = Path(f"/proc/{pid}/status"), time.monotonic() + 10
    with suppress(FileNotFoundError, ProcessLookupError):
        while "Z (zombie)" not in status.read_text():
            assert time.monotonic() < late


def test_one_that_leaves_an_installation_running_behind_it_is_not_waited_for(tmp_path: Path) -> None:
    back = installer(tmp_path, "(exec >/dev/null; sleep 30) & exit 0", 10)
    back.install(NODE)


@pytest.mark.parametrize(("text", "what"), [
    ("exit 3", "ended with exit code 3; run it by hand to see why"),
    ("echo secret >&2; exit 1", "ended with exit code 1"),
    (f"head -c {MOST_BYTES + 1} /dev/zero; sleep 60", "printed over 64 KiB"),
    ("echo nonsense", "printed no JSON object"), ("echo '[1]'", "printed no JSON object"),
    ("echo '{\"state\": \"done\"}'",
     "state: expected one of planned, installing, installed, failed, unknown, got 'done'"),
    ("echo '{\"stat\": 1}'", "unknown key 'stat'; known: state, image, host_keys, message, advice"),
    ("echo '{\"state\": \"failed\", \"message\": 3}'", "message: expected text, got '3'"),
    ("echo '{\"state\": \"installed\", \"host_keys\": [\"ssh-rsa x\"]}'",
     "host_keys: expected lines such as"),
    ("echo '{\"state\": \"installed\", \"host_keys\": \"x\"}'", "host_keys: expected a list of at most 16")])
def test_what_is_no_answer_is_an_error_that_names_the_key_and_repeats_no_standard_error(
    tmp_path: Path, text: str, what: str,
) -> None:
    with pytest.raises(OsError) as caught:
        installer(tmp_path, text).state(NODE)
    assert what in str(caught.value)
    assert "secret" not in str(caught.value)


def test_one_that_is_not_there_has_surely_installed_nothing(tmp_path: Path) -> None:
    with pytest.raises(OsError, match="cannot be started: No such file") as caught:
        ByCommand((str(tmp_path / "none"),), 5, drives_power=True).install(NODE)
    assert caught.value.done is False


def test_nothing_is_open_to_it_and_no_process_is_left(tmp_path: Path) -> None:
    back = installer(tmp_path, "readlink /proc/self/fd/0 >/dev/null; cat; echo '{\"state\": \"planned\"}'")
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert back.state(NODE).state is OsState.PLANNED
    # fewer: what an earlier test left has been collected meanwhile
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_what_it_leaves_running_with_its_output_open_is_said_and_ended(tmp_path: Path) -> None:
    left = tmp_path / "left"
    back = ByCommand(("sh", "-c", f"sleep 60 & echo $! > {left}; exit 0"), 0.5, drives_power=True)
    with pytest.raises(OsError, match="what it started holds its standard output open"):
        back.state(NODE)
    ended(left.read_text().strip())


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
                    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner,
                                                                                max_size=4), max_leaves=10)
DOCUMENTS = st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), JSON) | st.fixed_dictionaries(
    {"state": st.sampled_from([one.value for one in OsState]) | JSON},
    optional={"image": st.text() | JSON, "message": st.text() | JSON, "advice": st.text(),
              "host_keys": st.lists(st.text() | st.just(KEY), max_size=20)})


@given(st.binary() | (JSON | DOCUMENTS).map(lambda one: json.dumps(one).encode()))
def test_any_bytes_are_a_report_of_clean_short_lines_or_one_line_of_an_error(data: bytes) -> None:
    try:
        report = parsed(data, "'os'")
    except OsError as error:
        assert str(error).isprintable()
        assert len(str(error)) < 400
        return
    for line in (report.message, report.image, report.advice, *report.host_keys):
        assert clean(line, 5000) == line
        assert len(line) <= 4096
    assert report.message


@given(st.sampled_from(OsState),
       st.text(st.characters(codec="ascii", min_codepoint=33, max_codepoint=126), max_size=60))
def test_what_a_program_says_in_plain_words_comes_through(state: OsState, word: str) -> None:
    given_: dict[str, Any] = {"state": state.value, "message": f"is {word}", "image": word,
                              "host_keys": [KEY]}
    assert parsed(json.dumps(given_).encode(), "os") == OsReport(state, f"is {word}", word, (KEY,))
