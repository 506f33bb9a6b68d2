"""The frame protocol: whatever the chunks and the noise before it, one stream means one thing."""

from __future__ import annotations

import hashlib
import itertools
import shlex
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.transport.base import Program
from inventory.transport.frame import (
    Body,
    Broken,
    Event,
    ExtraRequested,
    Framer,
    LoaderStarted,
    LoggedIn,
    shell_command,
)
from tests.inventory.transport.speaker import speaker

NONCE = "00ff00ff00ff00ff"
MARK = f"muster:{NONCE}:".encode()


def framed(body: bytes) -> bytes:
    return MARK + b"frame %d %s\n" % (len(body), hashlib.sha256(body).hexdigest().encode()) + body


def events(chunks: list[bytes], limit: int = 1 << 20) -> list[Event]:
    framer = Framer(NONCE, limit)
    return [event for chunk in chunks for event in framer.feed(chunk)]


def cut_at(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


noise = st.lists(st.binary(max_size=40) | st.sampled_from([b"muster:", MARK[:-1], b"\r\n", b"x" * 70_000]),
                 max_size=6).map(b"".join).filter(lambda data: MARK not in data)


@given(noise, st.lists(st.sampled_from([b"nvml", b"a.b-c_9"]), max_size=2), st.binary(max_size=300),
       st.binary(max_size=30), st.lists(st.integers(0, 100_000), max_size=12))
def test_a_valid_stream_means_the_same_in_any_chunks_after_any_noise(
        before: bytes, wants: list[bytes], body: bytes, after: bytes, places: list[int]) -> None:
    stream = (before + MARK + b"login\r\n" + MARK + b"python 3.11\n"
              + b"".join(MARK + b"want " + name + b"\n" for name in wants) + framed(body) + after)
    expected: list[Event] = [LoggedIn(), LoaderStarted("3.11", True),
                             *(ExtraRequested(name.decode()) for name in wants), Body(body)]
    assert events(cut_at(stream, places)) == expected
    assert events([stream[at:at + 1] for at in range(len(stream))] if len(stream) < 3000
                  else [stream]) == expected


@given(st.lists(st.binary(max_size=200) | st.sampled_from(
    [MARK, MARK + b"frame 5 ", b"\n", MARK + b"want x\n"]), max_size=20))
def test_hostile_output_never_raises_and_is_never_taken_for_an_answer(chunks: list[bytes]) -> None:
    assert not any(isinstance(event, Body) for event in events(chunks, limit=1000))


def test_a_line_of_another_nonce_is_noise() -> None:
    assert events([b"muster:ffffffffffffffff:login\n" + MARK + b"login\n"]) == [LoggedIn()]


def test_a_python_older_than_3_8_is_not_supported() -> None:
    assert events([MARK + b"python 2.7\n", MARK + b"python 3.7\n", MARK + b"python 3.8\n",
                   MARK + b"python 4.0\n"]) == [LoaderStarted("2.7", False), LoaderStarted("3.7", False),
                                                LoaderStarted("3.8", True), LoaderStarted("4.0", True)]


def test_an_announced_body_over_the_limit_is_refused_before_it_comes() -> None:
    (event,) = events([MARK + b"frame 1001 " + b"0" * 64 + b"\n"], limit=1000)
    assert event == Broken("the answer announces 1001 bytes, over the limit of 1000")


def test_a_body_whose_checksum_does_not_hold_is_refused() -> None:
    (event,) = events([MARK + b"frame 3 " + b"0" * 64 + b"\nabc"])
    assert isinstance(event, Broken)
    assert "checksum" in event.reason


def test_a_megabyte_of_noise_is_the_most_that_is_waited_for() -> None:
    (event,) = events([b"x" * 100 + b"\n"] * 20_000)
    assert isinstance(event, Broken)
    assert "1 MiB" in event.reason
    assert isinstance(events([b"x" * 4096] * 500)[0], Broken)


def test_a_cut_body_says_how_much_of_it_came() -> None:
    framer = Framer(NONCE, 1000)
    list(framer.feed(framed(b"x" * 100)[:-60]))
    assert framer.cut() == "the answer was cut: 40 of 100 bytes arrived"


@pytest.mark.parametrize("shell", ["sh", "bash", "dash", "zsh", "ksh", "mksh", "csh", "tcsh", "fish"])
def test_the_command_line_means_the_same_in_every_login_shell(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    program = speaker("answer(b'well')", nonce=NONCE)
    done = subprocess.run([shell, "-c", shell_command(program, "python3", become=False)],
                          input=program.payload, capture_output=True, check=True)
    assert [type(event) for event in events([done.stdout])] == [LoggedIn, LoaderStarted, Body]


@given(st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), min_size=1))
def test_a_python_path_reaches_the_program_as_one_word(path: str) -> None:
    line = shell_command(Program(NONCE, "pass", b""), path, become=True)
    assert shlex.split(line.partition("; exec ")[2])[:4] == ["sudo", "-n", "--", path]
