"""The local transport: the same answers, stages, lifeline and deadlines as over SSH."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inventory.model import Node, Privilege
from inventory.transport.base import Limits, Program, Reply, Stage
from inventory.transport.local import LocalTransport
from tests.inventory.transport.speaker import gone, killed, speaker, waits
from tests.inventory.transport.sweeps import refusal
from tests.testbed.processes import alive
from tests.testbed.require import require
from tests.testbed.sshd import wait_until
from tests.testbed.users import allow_sudo, throwaway_user

LIMITS = Limits(sweep_s=20, node_s=15, login_s=10)


def one(program: Program, node: Node | None = None, **limits: Any) -> Reply:
    (reply,) = LocalTransport().run([node or Node("here", address="never.invalid")], program,
                                    replace(LIMITS, **limits))
    return reply


def test_this_machine_answers_whatever_address_it_has() -> None:
    reply = one(speaker("answer(b'well')"))
    assert (reply.node, reply.body, reply.failure, reply.attempts) == ("here", b"well", None, 1)
    assert reply.sent_bytes == len(speaker("answer(b'well')").payload)


@pytest.mark.parametrize(("source", "words"), [
    ("os.kill(os.getpid(), 9)", "signal 9"),
    ("os.close(1); os.close(2); I.read()", "without an answer"),
])
def test_an_answer_that_is_not_one_is_stage_reply(source: str, words: str) -> None:
    assert words in refusal(one(speaker(source)), Stage.REPLY)


def test_a_program_that_ignores_the_end_of_its_input_is_killed_with_its_children(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    program = speaker(f"""
        import subprocess
        child = subprocess.Popen(['sleep', '600'])
        open({str(note)!r}, 'w').write(str(os.getpid()) + ' ' + str(child.pid))
        while True: time.sleep(1)
    """)
    refusal(one(program, program_s=2), Stage.DEADLINE)
    for pid in map(int, note.read_text().split()):
        wait_until(lambda pid=pid: not alive(pid), what="the end of the program")  # type: ignore[misc]


def test_closing_the_iterator_ends_the_program(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    program = speaker(waits(note))
    replies = LocalTransport().run([Node("bad", python="no-such-python"), Node("here")], program, LIMITS)
    assert next(replies).node == "bad"
    wait_until(lambda: note.exists() and note.read_text(), what="the program at work")
    replies.close()  # type: ignore[attr-defined]
    gone(note)


def test_nothing_is_left_of_the_program_when_the_client_is_killed(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = f"from tests.inventory.transport.test_local import one, speaker; one(speaker({waits(note)!r}))"
    killed(subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[3]), note)


def test_no_descriptor_and_no_thread_is_left_after_many_runs() -> None:
    def left() -> tuple[int, int]:
        return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()

    one(speaker())
    before = left()
    for _ in range(2):
        one(speaker())
        one(speaker(), Node("here", python="/bin/false"))
    wait_until(lambda: left() <= before, what="as few descriptors and threads as before")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, which has no use for sudo")
def test_root_needs_no_sudo_to_become_root() -> None:
    assert one(speaker("answer(str(os.getuid()).encode())"),
               Node("here", privilege=Privilege.BECOME)).body == b"0"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to create a user and to write a sudoers file")
def test_who_is_not_root_becomes_it_by_sudo_where_it_is_allowed_and_is_reported_why_where_not() -> None:
    require(shutil.which("sudo"), "no sudo on this machine: apt-get install -y sudo")

    def seen(user: str) -> str:
        """The uid that the program has, or the stage and the reason, as that user sees them."""
        child = os.pipe()
        # a user of no rights may not be able to read this checkout: everything is loaded already
        pid = os.fork()
        if pid == 0:
            try:
                os.setgid(pwd.getpwnam(user).pw_gid)
                os.setuid(pwd.getpwnam(user).pw_uid)
                reply = one(speaker("answer(str(os.getuid()).encode())"),
                            Node("here", privilege=Privilege.BECOME))
                os.write(child[1], reply.body or f"{reply.failure}".encode())
            finally:
                os._exit(0)
        os.close(child[1])
        with os.fdopen(child[0]) as told:
            text = told.read()
        os.waitpid(pid, 0)
        return text

    with throwaway_user() as user:
        assert "Stage.BECOME" in seen(user)
        allow_sudo(user, "{} ALL=(root) ALL")
        assert "NOPASSWD" in seen(user)
        allow_sudo(user, "{} ALL=(root) NOPASSWD: ALL")
        assert seen(user) == "0"
