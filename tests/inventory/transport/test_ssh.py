"""The SSH transport against real sshd processes, beyond what test_both.py says of every transport."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import pytest

from inventory.errors import ConfigError
from inventory.model import Node
from inventory.sshconfig import SshConfig
from inventory.transport.base import Stage
from tests.inventory.transport.client import client
from tests.inventory.transport.speaker import killed, speaker, waits
from tests.inventory.transport.sweeps import hung_python, one, refusal, sweep
from tests.testbed.sshd import (
    Sshd,
    full_backlog,
    listener,
    silent,
)


def test_no_nodes_are_no_replies() -> None:
    assert sweep([]) == {}


# how far we came

def test_a_name_that_cannot_be_one_is_stage_resolve() -> None:
    refusal(one(Node("n1", address="a" * 70 + ".invalid")), Stage.RESOLVE)


def test_a_resolver_that_hangs_holds_up_neither_the_sweep_nor_the_other_nodes(
    plain_sshd: Sshd, monkeypatch: pytest.MonkeyPatch,
) -> None:
    close_process = threading.Event()
    real = socket.getaddrinfo

    def hang(host: str, *args: object, **kwargs: object) -> object:
        if host == "hung":
            close_process.wait(60)
        return real(host, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    began = time.monotonic()
    replies = sweep([*(Node(f"h{number}", address="hung") for number in range(4)), plain_sshd.node()],
                    connect_s=1, fanout=2)
    close_process.set()
    assert time.monotonic() - began < 8
    assert replies["n1"].body == b"well"
    assert "the resolver did not answer for hung" in refusal(replies["h3"], Stage.RESOLVE)


def test_hostile_bytes_in_errors_reach_a_person_without_control_characters(plain_sshd: Sshd) -> None:
    program = speaker("sys.stderr.buffer.write(b'\\x1b[2J\\x9b31m[red]\\x00\\xff\\r\\n'); sys.exit(1)")
    assert "[red]" in refusal(one(plain_sshd.node(), program), Stage.REPLY)


# time

def test_a_program_that_talks_without_end_is_held_to_the_nodes_deadline_all_the_same(
    plain_sshd: Sshd,
) -> None:
    program = speaker(
        "while True:\n    sys.stderr.write('still here\\n'); sys.stderr.flush(); time.sleep(0.05)")
    began = time.monotonic()
    assert "still here" in refusal(one(plain_sshd.node(), program, program_s=2), Stage.DEADLINE)
    assert time.monotonic() - began < 15


def test_the_sweep_ends_on_time_whatever_its_nodes_do_and_the_others_are_complete(
    plain_sshd: Sshd, tmp_path: Path,
) -> None:
    with listener(silent) as mute, full_backlog() as full:
        nodes = [plain_sshd.node(f"good{number}") for number in range(4)]
        nodes += [Node("mute", address="127.0.0.1", port=mute), Node("full", address="127.0.0.1", port=full),
                  plain_sshd.node("hung", python=str(hung_python(tmp_path)))]
        began = time.monotonic()
        replies = sweep(nodes, sweep_s=5, login_s=60, connect_s=60, node_s=60)
        assert time.monotonic() - began < 20
    assert {replies[f"good{number}"].body for number in range(4)} == {b"well"}
    for name in ("mute", "full", "hung"):
        assert "5 s" in refusal(replies[name], Stage.DEADLINE)


def test_nodes_whose_turn_never_came_have_a_stage_of_their_own_and_say_so(plain_sshd: Sshd) -> None:
    replies = sweep([plain_sshd.node(f"n{number}") for number in range(3)], speaker("until_end()"), sweep_s=2,
                    fanout=1)
    stages = [reply.failure.stage for reply in replies.values() if reply.failure is not None]
    assert sorted(stage.value for stage in stages) == ["deadline", "turn", "turn"]
    assert all("before its turn" in refusal(reply, Stage.TURN) for reply in replies.values()
               if reply.failure is not None and reply.failure.stage is Stage.TURN)


def test_nothing_runs_on_the_node_after_the_client_is_killed(plain_sshd: Sshd, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    killed(client(plain_sshd, waits(note), n1={}), note)


def test_the_process_ends_at_once_after_the_sweep_and_says_nothing_on_its_terminal(plain_sshd: Sshd) -> None:
    process = client(plain_sshd, "answer(b'well')", n1={}, lost={"python": "/bin/false"})
    out, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, "")
    assert sorted(out.splitlines()) == ["lost None", "n1 b'well'"]


# configuration

def test_a_broken_jump_in_ssh_config_is_said_of_the_node() -> None:
    reply = one(Node("n1", address="127.0.0.1"), config="Host n1\n ProxyJump b/c@@:x\n")
    assert "b/c@@:x" in refusal(reply, Stage.RESOLVE)


def test_a_proxy_command_is_refused_and_never_run(plain_sshd: Sshd, tmp_path: Path) -> None:
    trace = tmp_path / "ran"
    reply = one(plain_sshd.node(), config=f"Host *\n ProxyCommand touch {trace}\n")
    assert "ProxyCommand" in refusal(reply, Stage.CONNECT)
    assert not trace.exists()


def test_ssh_config_gives_what_the_inventory_leaves_out(plain_sshd: Sshd) -> None:
    assert one(Node("gpu1"), config=plain_sshd.entry("gpu1")).body == b"well"


def test_a_broken_ssh_config_is_an_error_of_the_user_and_not_of_a_node() -> None:
    with pytest.raises(ConfigError):
        SshConfig.parse("Host a\n Port\n")
