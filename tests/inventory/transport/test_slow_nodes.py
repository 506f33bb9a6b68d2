"""Limits as settings against a real sshd: a slow stage is waited for, a stuck node tried again."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from inventory.model import Node, StageLimits, Via
from inventory.transport.base import Limits, Reply, Stage
from inventory.transport.remote import RemoteTransport
from tests.inventory.transport.speaker import speaker
from tests.inventory.transport.sweeps import LIMITS, refusal
from tests.inventory.transport.ways import Way, ways
from tests.testbed.relay import Relay
from tests.testbed.sshd import Sshd, listener, public, sshd, wait_until

SHORT = {"connect_s": 10.0, "auth_s": 10.0, "login_s": 1.0, "twice": False}


# One way of each library is enough every time; the slow tier takes both.
way = ways("paramiko", "openssh kept", slow=("paramiko kept", "openssh"))


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def slow_login(folder: Path, seconds: float) -> str:
    """A login shell that takes so long before it runs our command."""
    return "ForceCommand " + str(script(folder / "slow",
                                        f"sleep {seconds}\n" + 'eval "$SSH_ORIGINAL_COMMAND"'))


class Hangs:
    """A login shell that hangs as often as `times` says, and then works; each that hangs notes its
    process."""

    def __init__(self, folder: Path, times: int) -> None:
        self._notes = folder / "hung"
        self._notes.mkdir(parents=True)
        self.config = "ForceCommand " + str(script(folder / "hangs", (
            f"if [ $(ls {self._notes} | wc -l) -lt {times} ]; then : > {self._notes}/$$; exec sleep "
            f"3600; fi; "
            'eval "$SSH_ORIGINAL_COMMAND"')))

    @property
    def processes(self) -> list[int]:
        """Those that are still there."""
        return [int(note.name) for note in self._notes.iterdir() if Path(f"/proc/{note.name}").exists()]

    def end(self) -> None:
        for pid in self.processes:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextmanager
def hanging(folder: Path, times: int) -> Iterator[tuple[Sshd, Hangs]]:
    """An sshd whose first logins hang."""
    hangs = Hangs(folder / "logins", times)
    try:
        with sshd(folder / "d", config=hangs.config) as server:
            yield server, hangs
    finally:
        hangs.end()


@contextmanager
def late(port: int, serve: Callable[[int], bool]) -> Iterator[int]:
    """A relay to a port of which each connection, counted from 1, is silent unless `serve` passes it on."""
    passed, count = Relay(port), [0]

    def take(near: socket.socket) -> None:
        count[0] += 1
        if serve(count[0]):
            passed.serve(near)

    with listener(take) as at:
        yield at


def at(server: Sshd, port: int, name: str = "n1", **changes: object) -> Node:
    """A node that is this sshd, behind another port."""
    with server.known_hosts.open("a") as known:
        known.write(f"[127.0.0.1]:{port} {public(server.host_keys['ed25519'])}\n")
    return server.node(name, port=port, **changes)


# limits of a node's own

def test_a_login_slower_than_the_limit_is_reached_once_the_node_may_take_longer(
    way: Way, tmp_path: Path,
) -> None:
    with sshd(tmp_path / "d", config=slow_login(tmp_path, 2.5)) as server:
        replies = way.sweep([server.node("short"), server.node("long", limits=StageLimits(login=30.0)),
                             server.node("default", default_limits=StageLimits(login=30.0))], **SHORT)
    refusal(replies["short"], Stage.LOGIN)
    assert replies["long"].body == replies["default"].body == b"well"


@pytest.mark.root
@pytest.mark.skipif(os.getuid() != 0, reason="needs root: sshd takes keys of a command from root's alone")
def test_a_slow_directory_of_keys_is_waited_for_as_long_as_auth_says(way: Way, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    config = (f"AuthorizedKeysFile none\nAuthorizedKeysCommandUser root\n"
              f"AuthorizedKeysCommand /bin/sh -c \"sleep 2; cat {keys}\"")
    with sshd(tmp_path / "d", config=config) as server:
        keys.write_text(server.authorized.read_text())
        limits = {**SHORT, "auth_s": 1.0, "login_s": 10.0}
        replies = way.sweep([server.node("short"), server.node("long", limits=StageLimits(auth=30.0))],
                            **limits)
    refusal(replies["short"], Stage.AUTH)
    assert replies["long"].body == b"well"


def test_a_slow_banner_is_waited_for_as_long_as_connect_says(
    way: Way, plain_sshd: Sshd, tmp_path: Path,
) -> None:
    def slowly(_: int) -> bool:
        time.sleep(2)
        return True

    with late(plain_sshd.port, slowly) as port:
        limits = {**SHORT, "connect_s": 1.0, "login_s": 10.0}
        short = way.one(at(plain_sshd, port), **limits)
        # What was given to muster is over what ssh_config says.
        long = way.one(at(plain_sshd, port, limits=StageLimits(connect=20.0)),
                       config="ConnectTimeout 1\n", **limits)
    refusal(short, Stage.CONNECT)
    assert long.body == b"well", long.failure


def test_jump_hosts_have_the_limits_of_the_node_behind_them(
    way: Way, plain_sshd: Sshd, tmp_path: Path,
) -> None:
    def slowly(_: int) -> bool:
        time.sleep(2)
        return True

    with sshd(tmp_path / "jump") as jump, late(jump.port, slowly) as port:
        at(jump, port)
        config = jump.entry(more=" ConnectTimeout 1\n", port=port)
        limits = {**SHORT, "connect_s": 1.0, "auth_s": 0.2, "login_s": 10.0}
        nodes = [plain_sshd.node("short", proxy_jump="bastion"),
                 plain_sshd.node("long", proxy_jump="bastion", limits=StageLimits(connect=15.0, auth=15.0))]
        replies = way.sweep(nodes, config=config, **limits)
    assert "bastion" in refusal(replies["short"], Stage.JUMP)
    assert replies["long"].body == b"well", replies["long"].failure


@pytest.mark.root
@pytest.mark.skipif(os.getuid() != 0, reason="needs root: sshd takes keys of a command from root's alone")
def test_a_jump_host_may_take_as_long_to_let_us_in_as_auth_says(
    way: Way, plain_sshd: Sshd, tmp_path: Path,
) -> None:
    keys = tmp_path / "keys"
    config = (f"AuthorizedKeysFile none\nAuthorizedKeysCommandUser root\n"
              f"AuthorizedKeysCommand /bin/sh -c \"sleep 3; cat {keys}\"")
    with sshd(tmp_path / "jump", config=config) as jump:
        keys.write_text(jump.authorized.read_text())
        reply = way.one(plain_sshd.node(proxy_jump="bastion"), config=jump.entry(), connect_s=2, auth_s=20,
                        twice=False)
    assert reply.body == b"well", reply.failure


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.skipif(os.getuid() != 0, reason="needs root: sshd takes keys of a command from root's alone")
def test_a_jump_host_that_is_silent_during_the_login_for_as_long_as_auth_says_is_not_gone(
    way: Way, plain_sshd: Sshd, tmp_path: Path,
) -> None:
    # ssh gives a silent machine up after 8 s; sshd asks for keys twice, for the offer and for the login.
    keys = tmp_path / "keys"
    config = (f"AuthorizedKeysFile none\nAuthorizedKeysCommandUser root\n"
              f"AuthorizedKeysCommand /bin/sh -c \"sleep 9; cat {keys}\"")
    with sshd(tmp_path / "jump", config=config) as jump:
        keys.write_text(jump.authorized.read_text())
        reply = way.one(plain_sshd.node(proxy_jump="bastion"), config=jump.entry(), connect_s=4, auth_s=40,
                        sweep_s=200, twice=False)
    assert reply.body == b"well", reply.failure


def test_each_jump_host_of_a_chain_may_take_as_long_as_one(
    way: Way, plain_sshd: Sshd, tmp_path: Path,
) -> None:
    def slowly(_: int) -> bool:
        time.sleep(4.5)
        return True

    with (sshd(tmp_path / "one") as one, sshd(tmp_path / "two") as two,
          late(one.port, slowly) as before_one, late(two.port, slowly) as before_two):
        at(one, before_one)
        at(two, before_two)
        config = one.entry("one", port=before_one) + two.entry("two", port=before_two)
        reply = way.one(plain_sshd.node(proxy_jump="one,two"), config=config, connect_s=6.5, auth_s=2.3,
                        twice=False)
    assert reply.body == b"well", reply.failure


@pytest.mark.root
@pytest.mark.skipif(os.getuid() != 0, reason="needs root: sshd takes keys of a command from root's alone")
def test_a_jump_host_that_hangs_at_the_login_is_no_login_that_hangs_on_the_node(
    way: Way, plain_sshd: Sshd, tmp_path: Path,
) -> None:
    config = ("AuthorizedKeysFile none\nAuthorizedKeysCommandUser root\n"
              "AuthorizedKeysCommand /bin/sh -c \"sleep 30\"")
    with sshd(tmp_path / "jump", config=config) as jump:
        reply = way.one(plain_sshd.node(proxy_jump="bastion"), config=jump.entry(), connect_s=2, auth_s=1,
                        twice=False)
    assert reply.failure is not None
    assert reply.failure.stuck is Stage.JUMP, reply.failure


def test_a_program_is_given_the_time_that_the_node_says_and_no_more(way: Way, plain_sshd: Sshd) -> None:
    program = speaker("time.sleep(3); answer(b'well')")
    limits = {**SHORT, "login_s": 10.0, "program_s": 1.0}
    replies = way.sweep([plain_sshd.node("short"), plain_sshd.node("long", limits=StageLimits(node=30.0))],
                        program, **limits)
    refusal(replies["short"], Stage.DEADLINE)
    assert replies["long"].body == b"well"


# second tries

def test_a_login_that_hangs_once_is_reached_by_a_second_try_and_the_reply_says_so(
    way: Way, tmp_path: Path,
) -> None:
    with hanging(tmp_path, 1) as (server, _):
        reply = way.one(server.node(), login_s=4)
    assert reply.body == b"well", reply.failure
    assert reply.failure is None
    assert reply.first is not None
    assert reply.first.stage is Stage.LOGIN
    assert reply.attempts == 2


def test_a_second_try_comes_after_all_others_and_when_both_fail_the_reason_says_so(
    way: Way, tmp_path: Path,
) -> None:
    with hanging(tmp_path, 99) as (sick, hangs), sshd(tmp_path / "well") as well:
        nodes = [sick.node("sick"), *(well.node(f"n{number}") for number in range(4))]
        with way.opened() as transport:
            order = list(transport.run(nodes, speaker(), replace(LIMITS, login_s=3, fanout=2)))
        assert [reply.node for reply in order][-1] == "sick"
        assert refusal(order[-1], Stage.LOGIN).endswith("; tried twice")
        assert order[-1].attempts == 2
        assert len(hangs.processes) == 2


def test_what_ran_our_program_is_never_run_again(way: Way, plain_sshd: Sshd, tmp_path: Path) -> None:
    note = tmp_path / "note"
    program = speaker(f"open({str(note)!r}, 'a').write('x'); until_end()")
    reply = way.one(plain_sshd.node(), program, node_s=6)
    refusal(reply, Stage.DEADLINE)
    assert (reply.attempts, reply.first) == (1, None)
    assert note.read_text() == "x"


def test_a_login_that_goes_on_after_it_was_given_up_runs_nothing(way: Way, tmp_path: Path) -> None:
    first, go, over, note = (tmp_path / name for name in ("first", "go", "over", "note"))
    shell = script(tmp_path / "shell", (
        f"if mkdir {first} 2>/dev/null; then while [ ! -e {go} ]; do sleep 0.1; done; "
        f'(eval "$SSH_ORIGINAL_COMMAND"); : > {over}; else eval "$SSH_ORIGINAL_COMMAND"; fi'))
    with sshd(tmp_path / "d", config=f"ForceCommand {shell}") as server:
        reply = way.one(server.node(), speaker(f"open({str(note)!r}, 'a').write('x'); answer(b'well')"),
                        login_s=4)
        go.touch()
        wait_until(over.exists, what="the end of the first login")
    assert (reply.body, reply.first and reply.first.stage) == (b"well", Stage.LOGIN)
    assert note.read_text() == "x"


def test_a_jump_host_that_hung_once_is_tried_again_with_the_nodes_behind_it(
    way: Way, plain_sshd: Sshd, tmp_path: Path,
) -> None:
    begun: list[float] = []

    def after_the_first(_: int) -> bool:
        begun.append(time.monotonic())
        return begun[-1] - begun[0] > 5.5      # after the two tries that a jump host has at once

    with sshd(tmp_path / "jump") as jump, late(jump.port, after_the_first) as port:
        at(jump, port)
        config = jump.entry(port=port)
        replies = way.sweep([plain_sshd.node(f"n{number}", proxy_jump="bastion") for number in range(2)],
                            config=config, connect_s=2, auth_s=10)
    # Silent is a connection for each node by ssh, and one for both by paramiko.
    assert [reply.failure for reply in replies.values() if reply.body != b"well"] == []
    assert {reply.first and reply.first.stage for reply in replies.values()} == {Stage.JUMP}


def test_the_end_of_the_sweep_before_or_during_a_second_try_leaves_the_first_reason(
    way: Way, tmp_path: Path,
) -> None:
    with hanging(tmp_path, 99) as (server, _):
        reason = refusal(way.one(server.node(), login_s=4, sweep_s=7), Stage.LOGIN)
    assert "the shell has not run our command" in reason
    assert reason.endswith("the sweep's 7 s were over during a second try")


# sweep after sweep

def sweeps(transport: RemoteTransport, node: Node, times: int, limits: Limits) -> list[Reply]:
    found = []
    for _ in range(times):
        found += list(transport.run([node], speaker(), limits))
    return found


@pytest.mark.parametrize("via", [Via.AUTO, Via.OPENSSH, pytest.param(Via.PARAMIKO, marks=pytest.mark.slow)])
def test_sweep_after_sweep_leaves_no_more_processes_on_a_node_whose_logins_hang(
    via: Via, tmp_path: Path,
) -> None:
    with hanging(tmp_path, 99) as (server, hangs):
        transport = RemoteTransport(keep=1.0)
        node = server.node(transport=via)
        try:
            first, *later = sweeps(transport, node, 6, replace(LIMITS, login_s=1))
            assert "tried twice" in refusal(first, Stage.LOGIN)
            for reply in later:
                assert "left alone until" in refusal(reply, Stage.LOGIN)
                assert reply.attempts == 0
            assert len(hangs.processes) == 2
            changed = replace(node, limits=StageLimits(login=2.0))
            (again,) = sweeps(transport, changed, 1, replace(LIMITS, login_s=1))
            assert "tried twice" in refusal(again, Stage.LOGIN), "another entry in the inventory is tried"
        finally:
            transport.close()


def test_a_hung_login_that_the_sweeps_own_end_cuts_short_counts_as_one_too(tmp_path: Path) -> None:
    with hanging(tmp_path, 99) as (server, hangs):
        transport = RemoteTransport(keep=1.0)
        try:
            first, *later = sweeps(transport, server.node(), 4, replace(LIMITS, login_s=20, sweep_s=5))
            refusal(first, Stage.DEADLINE)
            assert ["left alone until" in refusal(reply, Stage.LOGIN) for reply in later] == [True] * 3
            assert len(hangs.processes) == 1
        finally:
            transport.close()


