"""How a conversation with a program ends, and what a person is told."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.transport.base import Limits, Stage
from inventory.transport.session import Dialogue, last_line, one_line
from tests.inventory.transport.speaker import speaker

MARK = b"muster:0123456789abcdef:"


def dialogue(
    *, become: bool = False, limits: Limits | None = None, extras: dict[str, bytes] | None = None,
    shell: bool = True,
) -> Dialogue:
    return Dialogue(speaker(extras=extras), limits or Limits(), python="python3", become=become, shell=shell,
                    by_hand="ssh me@there")


def ended(talk: Dialogue, output: bytes, errors: bytes, status: int | None) -> tuple[Stage, str]:
    talk.output(output)
    talk.errors(errors)
    talk.ended(status)
    assert talk.failure is not None
    assert talk.failure.reason.isprintable()
    return talk.failure.stage, talk.failure.reason


@pytest.mark.parametrize(("become", "output", "errors", "status", "stage", "words"), [
    (False, b"This account is currently not available.\n", b"", 1, Stage.LOGIN, "currently not available"),
    (False, b"", b"", None, Stage.LOGIN, "ssh me@there true"),
    (False, MARK + b"login\n", b"sh: 1: exec: python3: not found\n", 127, Stage.PYTHON,
     "there is no python3 on the node"),
    (False, MARK + b"login\n", b"error while loading shared libraries\n", 1, Stage.PYTHON,
     "shared libraries"),
    (False, MARK + b"login\n" + MARK + b"python 3.6\n", b"", 0, Stage.PYTHON, "python3 is Python 3.6"),
    (False, MARK + b"login\n",
     b"python3: error while loading shared libraries: libm.so.6: cannot open shared "
     b"object file: Error 24\n", 127, Stage.PYTHON, "could not be started (exit 127)"),
    (False, MARK + b"login\n", b"OSError: [Errno 24] Too many open files\nPython runtime state: core\n", 1,
     Stage.PYTHON, "EMFILE: let the login open more files on the node (ulimit -n)"),
    (False, MARK + b"login\n" + MARK + b"python 3.9\n", b"Traceback\nMemoryError\n", 1, Stage.REPLY,
     "MemoryError; ENOMEM: let the login use more memory"),
    (False, b"", b"bash: fork: retry: Resource temporarily unavailable\n", 254, Stage.LOGIN, "(ulimit -u)"),
    (True, MARK + b"login\n", b"sudo: unable to fork: Cannot allocate memory\n", 1, Stage.BECOME, "ENOMEM"),
    (True, MARK + b"login\n", b"sudo: a password is required\n", 1, Stage.BECOME, "NOPASSWD"),
    (True, MARK + b"login\n", b"sudo: sorry, you must have a tty to run sudo\n", 1, Stage.BECOME,
     "sudo wants a terminal (requiretty); add `Defaults:USER !requiretty`"),
    (True, MARK + b"login\n", b"sudo: a terminal is required to read the password\n", 1, Stage.BECOME,
     "NOPASSWD"),
    (True, MARK + b"login\n", b"joe is not in the sudoers file.\n", 1, Stage.BECOME, "not allow"),
    (True, MARK + b"login\n", b"Sorry, user joe is not allowed to execute 'x' as root on n1.\n", 1,
     Stage.BECOME, "not allow"),
    (True, MARK + b"login\n", b"sh: 1: exec: sudo: not found\n", 127, Stage.BECOME, "there is no sudo"),
    (True, MARK + b"login\n", b"bash: line 1: exec: sudo: not found\n", 127, Stage.BECOME,
     "there is no sudo"),
    (True, MARK + b"login\n", b"sudo: Command not found.\n", 1, Stage.BECOME, "there is no sudo"),
    (True, MARK + b"login\n", b"sudo: python3: command not found\n", 1, Stage.PYTHON, "there is no python3"),
    (True, MARK + b"login\n", b"sudo: unable to resolve host n1\nsudo: python3: command not found\n", 1,
     Stage.PYTHON, "no python3"),
    (True, MARK + b"login\n", b"sudo: Passwort notwendig\n", 1, Stage.BECOME, "Passwort"),
    (False, MARK + b"login\n" + MARK + b"python 3.9\n", b"Traceback ...\nKeyError: 'x'\n", 1, Stage.REPLY,
     "KeyError: 'x'"),
    (False, MARK + b"login\n" + MARK + b"python 3.9\n", b"", -9, Stage.REPLY, "signal 9"),
])
def test_every_way_to_end_without_an_answer_has_its_stage_and_its_words(
        become: bool, output: bytes, errors: bytes, status: int | None, stage: Stage, words: str) -> None:
    found, reason = ended(dialogue(become=become), output, errors, status)
    assert found is stage
    assert words in reason


@pytest.mark.parametrize(("output", "become", "stage"),
                         [(b"", False, Stage.LOGIN), (MARK + b"login\n", False, Stage.PYTHON),
                          (MARK + b"login\n", True, Stage.BECOME),
                          (MARK + b"login\n" + MARK + b"python 3.9\n", True, Stage.DEADLINE)])
def test_running_out_of_time_names_what_was_waited_for(output: bytes, become: bool, stage: Stage) -> None:
    talk = dialogue(become=become)
    talk.output(output)
    failure = talk.timed_out(12)
    assert failure.stage is stage
    assert "12 s" in failure.reason


def test_nothing_is_sent_that_could_run_before_python_reads_it_and_then_once() -> None:
    talk = dialogue(become=True)
    assert talk.output(b"Welcome\n" + MARK + b"login\n") == b""
    assert talk.sent == 0
    assert talk.output(MARK + b"python 3.9\n" * 2 + MARK + b"python 3.9\n") == speaker().payload
    assert talk.failure is not None
    assert talk.failure.stage is Stage.REPLY


def test_a_python_that_is_too_old_is_sent_nothing() -> None:
    talk = dialogue()
    assert talk.output(MARK + b"python 3.6\n") == b""
    assert talk.failure is not None
    assert talk.failure.stage is Stage.PYTHON


def test_an_extra_is_sent_once_asked_for_and_an_unknown_one_is_empty() -> None:
    talk = dialogue(extras={"nvml": b"source"})
    talk.output(MARK + b"python 3.9\n")
    assert talk.output(MARK + b"want nvml\n" + MARK + b"want other\n") == b"6\nsource0\n"
    assert talk.sent == len(speaker().payload) + len(b"6\nsource0\n")


def test_a_program_that_asks_twice_is_not_ours_and_gets_nothing_more() -> None:
    talk = dialogue(extras={"nvml": b"source"})
    talk.output(MARK + b"python 3.9\n")
    assert talk.output((MARK + b"want nvml\n") * 1000) == b"6\nsource"
    assert (talk.failure is not None and talk.failure.stage is Stage.REPLY
            and "asked for nvml twice" in talk.failure.reason)


def test_a_whole_frame_is_the_answer_and_what_follows_does_not_matter() -> None:
    talk = dialogue()
    digest = hashlib.sha256(b"abc").hexdigest().encode()
    talk.output(MARK + b"login\n" + MARK + b"python 3.9\n" + MARK + b"frame 3 " + digest + b"\nabcmore")
    talk.ended(1)
    assert (talk.body, talk.failure, talk.python) == (b"abc", None, "3.9")


def test_only_the_end_of_the_error_output_is_kept_and_a_flood_of_it_ends_the_conversation() -> None:
    talk = dialogue(limits=Limits(stderr_bytes=100))
    talk.output(MARK + b"python 3.9\n")
    piece = b"x" * (1 << 20)
    for _ in range(64):
        talk.errors(piece)
    assert not talk.over
    talk.errors(b"!")
    assert talk.failure is not None
    assert talk.failure.stage is Stage.REPLY
    assert "64 MiB" in talk.failure.reason


@given(st.binary(max_size=400) | st.text(max_size=400))
def test_foreign_text_becomes_one_printable_line_of_bounded_length(text: bytes | str) -> None:
    line = one_line(text, 80)
    assert line.isprintable()
    assert len(line) <= 80
    assert line == line.strip()


def test_escape_codes_lose_their_escape() -> None:
    assert "\x1b" not in one_line(b"\x1b[31mred\x1b[0m \x9b31m \xe2\x80\xaehidden")
    assert last_line(b"one\ntwo\n\x1b[0m\r\n  \n") == "[0m"


@given(st.lists(st.binary(max_size=60) | st.sampled_from([MARK + b"login\n", MARK + b"python 3.9\n",
                                                          b"\x1b[2J", b"[red]"]), max_size=8),
       st.binary(max_size=200), st.none() | st.integers(-64, 255), st.booleans())
def test_whatever_a_node_says_the_reason_is_one_printable_line(
        output: list[bytes], errors: bytes, status: int | None, become: bool) -> None:
    talk = dialogue(become=become)
    for piece in output:
        talk.output(piece)
    talk.errors(errors)
    talk.ended(status)
    assert talk.failure is not None
    assert talk.failure.reason.isprintable()
    assert talk.timed_out(1).reason.isprintable()
