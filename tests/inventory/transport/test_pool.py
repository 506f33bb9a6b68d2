"""Connections between sweeps: used again, opened again when lost, never a reason for a wrong answer."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inventory.model import Node, Via
from inventory.sshconfig import SshConfig
from inventory.transport import jump as jump_module
from inventory.transport import link as link_module
from inventory.transport import pool as pool_module
from inventory.transport.base import Limits, Program, Reply, Stage
from inventory.transport.link import SshConnection
from inventory.transport.pool import ConnectionPool
from inventory.transport.remote import RemoteTransport
from inventory.transport.ssh import SshTransport
from tests.inventory.transport.speaker import speaker
from tests.inventory.transport.sweeps import LIMITS, refusal
from tests.testbed.relay import relay
from tests.testbed.sshd import Sshd, hashed, public, sshd, wait_until


class Keeping:
    """A transport that keeps connections, as the tests ask of it."""

    def __init__(self, config: str = "") -> None:
        self.transport = SshTransport(SshConfig.parse(config), keep=True)

    @property
    def kept(self) -> ConnectionPool:
        assert self.transport._pool is not None
        return self.transport._pool

    def __call__(self, *nodes: Node, program: Program | None = None, **limits: Any) -> dict[str, Reply]:
        bounds: Limits = replace(LIMITS, **limits)
        return {reply.node: reply for reply in self.transport.run(nodes, program or speaker(), bounds)}


@pytest.fixture
def keeping() -> Iterator[Keeping]:
    sweep = Keeping()
    yield sweep
    sweep.transport.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Sshd]:
    with sshd(tmp_path / "sshd") as found:
        yield found


def ended(server: Sshd) -> bool:
    """Whether no process of sshd serves a connection any more; ends those that do. Asked repeatedly: a signal
    just before sshd waits is noticed only with another."""
    pids = server.serving
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    return not pids


def test_each_sweep_is_a_program_of_its_own_that_ends_with_its_answer(server: Sshd, keeping: Keeping) -> None:
    pids = {int(keeping(server.node(), program=speaker("answer(str(os.getpid()).encode())"))["n1"].body
                or b"0") for _ in range(3)}
    assert len(pids) == 3
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), what="the programs' end")


def test_an_idle_connection_that_gives_no_sign_of_life_is_dropped(
    server: Sshd, monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The one that lives has a whole second to answer in.
    monkeypatch.setattr(pool_module, "KEEPALIVE_SECONDS", 1.0)
    monkeypatch.setattr(link_module, "QUIET_SECONDS", 0.1)
    keeping = Keeping()
    with relay(server.port) as way:
        server.known_hosts.write_text(server.known_hosts.read_text()
                                      + f"[127.0.0.1]:{way.port} {public(server.host_keys['ed25519'])}\n")
        keeping(server.node(port=way.port), server.node("n2"))
        assert len(keeping.kept) == 2
        way.freeze()
        wait_until(lambda: len(keeping.kept) == 1, what="the dead connection's end")
        assert keeping.kept.take(*next(iter(keeping.kept._idle))) is not None, "the living one was dropped"
    keeping.transport.close()


@pytest.fixture
def probed(monkeypatch: pytest.MonkeyPatch) -> list[SshConnection]:
    """The connections that were probed, once per keepalive."""
    monkeypatch.setattr(pool_module, "KEEPALIVE_SECONDS", 0.02)
    seen: list[SshConnection] = []
    keepalive = SshConnection.keepalive

    def comes_by(link: SshConnection) -> None:
        keepalive(link)
        seen.append(link)

    monkeypatch.setattr(SshConnection, "keepalive", comes_by)
    return seen


def test_a_connection_that_was_heard_lately_is_not_asked_for_a_sign_of_life(
        server: Sshd, probed: list[SshConnection], monkeypatch: pytest.MonkeyPatch) -> None:
    keeping = Keeping()
    keeping(server.node())
    (link,) = keeping.kept._idle.values()
    wait_until(lambda: probed.count(link) > 5, what="the keepalives")
    assert not link._asked
    # From here on it has two seconds to answer in.
    monkeypatch.setattr(pool_module, "KEEPALIVE_SECONDS", 2.0)
    monkeypatch.setattr(link_module, "QUIET_SECONDS", 0.01)
    wait_until(lambda: link._asked, what="the keepalive after a long silence")
    asked = link._asked
    wait_until(lambda: link._wire.last_received > asked, what="the sign of life")
    assert link.alive
    keeping.transport.close()


def test_a_connection_through_a_jump_host_is_asked_every_time_as_no_kernel_watches_it(
        server: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "KEEPALIVE_SECONDS", 2.0)      # and so long it has to answer in
    with sshd(tmp_path / "bastion") as bastion:
        keeping = Keeping(bastion.entry())
        keeping(server.node(proxy_jump="bastion"))
        (link,) = keeping.kept._idle.values()
        wait_until(lambda: link._asked, what="the keepalive")
        asked = link._asked
        wait_until(lambda: link._wire.last_received > asked, what="the sign of life")
        assert link.alive
        keeping.transport.close()


def test_the_kernel_watches_over_a_connection_while_it_is_idle_and_only_then(
        server: Sshd, keeping: Keeping, monkeypatch: pytest.MonkeyPatch) -> None:
    keeping(server.node())
    (link,) = keeping.kept._idle.values()
    sock: Any = link._wire._stream

    def watched() -> bool:
        return bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))

    assert watched()
    idle, count, pause = (sock.getsockopt(socket.IPPROTO_TCP, option)
                          for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPCNT, socket.TCP_KEEPINTVL))
    assert idle + count * pause == 30
    in_use: list[bool] = []
    talk = SshConnection._talk

    def talks(self: SshConnection, *words: Any) -> None:
        in_use.append(watched())
        talk(self, *words)

    monkeypatch.setattr(SshConnection, "_talk", talks)
    assert keeping(server.node())["n1"].body == b"well"
    assert in_use == [False]
    assert watched()


def test_a_connection_whose_program_failed_is_not_used_again(server: Sshd, keeping: Keeping) -> None:
    refusal(keeping(server.node(), program=speaker("sys.exit(3)"))["n1"], Stage.REPLY)
    assert len(keeping.kept) == 0
    assert keeping(server.node())["n1"].body == b"well"


def test_a_program_that_hangs_costs_its_connection_and_the_next_sweep_answers(
    server: Sshd, keeping: Keeping,
) -> None:
    keeping(server.node())
    refusal(keeping(server.node(), program=speaker("until_end()"), program_s=1)["n1"], Stage.DEADLINE)
    wait_until(lambda: not server.serving, what="the end of the session")
    assert keeping(server.node())["n1"].body == b"well"


def test_no_more_are_kept_than_allowed(server: Sshd, keeping: Keeping) -> None:
    keeping.kept.most = 2
    replies = keeping(*(server.node(f"n{number}") for number in range(5)))
    assert all(reply.body == b"well" for reply in replies.values())
    assert len(keeping.kept) == 2
    wait_until(lambda: len(server.serving) == 2, what="the end of those that are not kept")


def test_closing_ends_all_that_is_kept(server: Sshd, keeping: Keeping) -> None:
    keeping(server.node())
    assert server.serving
    keeping.transport.close()
    wait_until(lambda: not server.serving, what="the end of the sessions")
    keeping(server.node())
    wait_until(lambda: not server.serving, what="the end of one that comes too late to be kept")


def test_a_jump_host_that_was_down_is_tried_again_in_the_next_sweep(server: Sshd, tmp_path: Path) -> None:
    with sshd(tmp_path / "bastion") as bastion:
        secret = bastion.authorized.read_text()
        bastion.authorized.write_text("")
        keeping = Keeping(bastion.entry())
        refusal(keeping(server.node(proxy_jump="bastion"))["n1"], Stage.JUMP)
        bastion.authorized.write_text(secret)
        assert keeping(server.node(proxy_jump="bastion"))["n1"].body == b"well"
        keeping.transport.close()


def test_an_address_that_changed_is_another_connection(server: Sshd, keeping: Keeping) -> None:
    keeping(server.node())
    server.known_hosts.write_text(server.known_hosts.read_text() + f"{hashed(f'[127.0.0.2]:{server.port}')} "
                                                                   f"{public(server.host_keys['ed25519'])}\n")
    refusal(keeping(server.node(address="127.0.0.2"))["n1"], Stage.CONNECT)


def test_what_a_sweep_had_no_use_for_is_ended_by_the_next(server: Sshd, keeping: Keeping) -> None:
    one, other = server.node("n1"), server.node("n2", identity_file=(str(server.user_key), "/none"))
    keeping(one, other)
    assert len(keeping.kept) == 2
    keeping(one)
    keeping(one)
    assert len(keeping.kept) == 1
    wait_until(lambda: len(server.serving) == 1, what="the end of the connection to a node that left")
    assert server.logins == 2


def lost(server: Sshd, keeping: Keeping) -> bool:
    """Whether every kept connection is; ends what of the server's serves one."""
    ended(server)
    return not any(link.alive for link in keeping.kept._idle.values())


def test_nodes_that_come_and_go_behind_a_jump_host_leave_no_connections_to_it(
        server: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jump_module, "NODES_PER_CONNECTION", 2)
    names = [f"n{number}" for number in range(3)]
    server.known_hosts.write_text("".join(f"{name} {public(server.host_keys['ed25519'])}\n"
                                          for name in names))
    with sshd(tmp_path / "bastion") as bastion:
        keeping = Keeping(
            bastion.entry() + "".join(f"Host {name}\n HostKeyAlias {name}\n" for name in names))
        for _ in range(3):
            replies = keeping(*(server.node(name, proxy_jump="bastion") for name in names), fanout=1)
            assert [reply.body for reply in replies.values()] == [b"well"] * 3
            wait_until(lambda: lost(server, keeping), what="the loss of every node")
        assert bastion.logins == 2
        node = server.node("n0", proxy_jump="bastion")
        for _ in range(3):
            keeping(node)
        wait_until(lambda: len(bastion.serving) == 1, what="the end of the ways that lead to nobody")
        keeping.transport.close()
        wait_until(lambda: not bastion.serving, what="the end of the last way")


def test_a_connection_that_is_lost_just_before_the_command_is_opened_again_at_once(
        server: Sshd, keeping: Keeping, monkeypatch: pytest.MonkeyPatch) -> None:
    keeping(server.node())
    (link,) = keeping.kept._idle.values()
    open_session = link._client.open_session

    def loses(**words: Any) -> Any:
        channel = open_session(**words)
        pending = channel._event_pending

        def lost_now() -> None:
            wait_until(lambda: ended(server) and channel.closed, what="the loss of the connection")
            pending()

        monkeypatch.setattr(channel, "_event_pending", lost_now)
        return channel

    monkeypatch.setattr(link._client, "open_session", loses)
    reply = keeping(server.node(), login_s=3)["n1"]
    assert reply.body == b"well", reply.failure
    assert server.logins == 2


def test_a_connection_whose_channels_are_closed_already_takes_no_command_though_it_still_counts_as_active(
        server: Sshd, keeping: Keeping, monkeypatch: pytest.MonkeyPatch) -> None:
    keeping(server.node())
    (link,) = keeping.kept._idle.values()
    open_session = link._client.open_session
    asked, actives = threading.Event(), []

    def loses(**words: Any) -> Any:
        channel = open_session(**words)
        pending, unlink = channel._event_pending, channel._unlink

        def unlinks_and_stays() -> None:
            unlink()
            asked.wait(20)

        def lost_now() -> None:
            wait_until(lambda: ended(server) and channel.closed, what="the loss of the channel")
            actives.append(link.alive)
            pending()

        monkeypatch.setattr(channel, "_unlink", unlinks_and_stays)
        monkeypatch.setattr(channel, "_event_pending", lost_now)
        return channel

    monkeypatch.setattr(link._client, "open_session", loses)
    try:
        reply = keeping(server.node(), connect_s=5, login_s=5)["n1"]
    finally:
        asked.set()
    assert actives == [True]
    assert reply.body == b"well", reply.failure
    assert server.logins == 2


def test_an_edit_of_ssh_config_counts_from_the_next_sweep(
    server: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    config = tmp_path / ".ssh" / "config"
    config.parent.mkdir()
    transport = SshTransport(keep=True)
    node = server.node(address=None)
    for hostname, stage in (("127.0.0.1", None), ("nowhere.invalid", Stage.RESOLVE), ("127.0.0.1", None)):
        config.write_text(f"Host n1\n HostName {hostname}\n")
        (reply,) = transport.run([node], speaker(), LIMITS)
        assert (reply.failure.stage if reply.failure else None) is stage, reply.failure
    transport.close()


def test_a_client_that_no_node_wants_any_more_keeps_nothing(server: Sshd) -> None:
    transport = RemoteTransport(keep=30.0)
    (reply,) = transport.run([server.node()], speaker(), LIMITS)
    assert reply.body == b"well", reply.failure
    assert server.serving
    (reply,) = transport.run([server.node(transport=Via.OPENSSH)], speaker(), LIMITS)
    assert reply.body == b"well", reply.failure
    wait_until(lambda: len(server.serving) == 1, what="the end of paramiko's connection")
    transport.close()
    wait_until(lambda: not server.serving, what="the end of ssh's connection")
