"""Nodes behind jump hosts: one shared connection, strict host keys on every hop,
and each failure laid at the right door."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from inventory.sshconfig import SshConfig
from inventory.transport.base import Stage
from inventory.transport.ssh import SshTransport
from tests.inventory.transport.speaker import speaker
from tests.inventory.transport.sweeps import LIMITS, one, refusal, sweep
from tests.testbed.sshd import Sshd, listener, silent, sshd


def jump_config(server: Sshd, name: str = "bastion", more: str = "") -> str:
    return (f"Host {name}\n HostName 127.0.0.1\n Port {server.port}\n User {server.user}\n IdentityFile "
            f"{server.user_key}\n"
            f" UserKnownHostsFile {server.known_hosts}\n{more}")


@pytest.fixture(scope="module")
def bastion(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("bastion")) as server:
        yield server


def test_nodes_behind_a_jump_host_share_one_connection_to_it(plain_sshd: Sshd, bastion: Sshd) -> None:
    before = bastion.log.count("Accepted publickey")
    replies = sweep([plain_sshd.node(f"n{number}", proxy_jump="bastion") for number in range(8)],
                    config=jump_config(bastion))
    assert [reply.failure for reply in replies.values()] == [None] * 8
    assert bastion.log.count("Accepted publickey") == before + 1


def test_several_hops_are_taken_in_order(plain_sshd: Sshd, bastion: Sshd, tmp_path: Path) -> None:
    with sshd(tmp_path / "inner") as inner:
        config = jump_config(bastion) + jump_config(inner, "inner")
        assert one(plain_sshd.node(proxy_jump="bastion,inner"), config=config).body == b"well"
        assert inner.log.count("Accepted publickey") == 1
        chained = jump_config(bastion) + jump_config(inner, "inner", " ProxyJump bastion\n")
        before = bastion.log.count("Accepted publickey")
        assert one(plain_sshd.node(proxy_jump="inner"), config=chained).body == b"well"
        assert bastion.log.count("Accepted publickey") == before + 1


def test_a_jump_host_whose_key_is_not_known_is_refused_and_named(
    plain_sshd: Sshd, bastion: Sshd, tmp_path: Path,
) -> None:
    config = jump_config(bastion).replace(str(bastion.known_hosts), str(tmp_path / "empty"))
    node = plain_sshd.node(proxy_jump="bastion", known_hosts_file=())
    reason = refusal(one(node, config=config), Stage.JUMP)
    assert f"127.0.0.1:{bastion.port}" in reason or "bastion" in reason


def test_a_node_behind_a_jump_host_must_be_known_itself(
    plain_sshd: Sshd, bastion: Sshd, tmp_path: Path,
) -> None:
    node = plain_sshd.node(proxy_jump="bastion", known_hosts_file=(str(tmp_path / "empty"),))
    assert str(plain_sshd.port) in refusal(one(node, config=jump_config(bastion)), Stage.HOST_KEY)


def test_a_jump_host_that_refuses_is_named_for_every_node_behind_it(plain_sshd: Sshd) -> None:
    config = "Host bastion\n HostName 127.0.0.1\n Port 1\n"
    replies = sweep([plain_sshd.node(f"n{number}", proxy_jump="bastion") for number in range(3)],
                    config=config)
    for reply in replies.values():
        assert refusal(reply, Stage.JUMP).startswith("bastion: 127.0.0.1:1 refused")


def test_a_node_that_the_jump_host_cannot_reach_is_told_apart_from_the_jump_host(
    plain_sshd: Sshd, bastion: Sshd,
) -> None:
    reason = refusal(one(plain_sshd.node(port=1, proxy_jump="bastion"), config=jump_config(bastion)),
                     Stage.CONNECT)
    assert f"the jump host 127.0.0.1:{bastion.port} cannot connect to 127.0.0.1:1" in reason


def test_a_silent_node_behind_a_jump_host_is_stage_connect_within_its_limit(
    plain_sshd: Sshd, bastion: Sshd,
) -> None:
    with listener(silent) as port:
        refusal(one(plain_sshd.node(port=port, proxy_jump="bastion"), config=jump_config(bastion),
                    connect_s=1), Stage.CONNECT)


def test_a_silent_jump_host_is_named(plain_sshd: Sshd) -> None:
    with listener(silent) as port:
        config = f"Host bastion\n HostName 127.0.0.1\n Port {port}\n"
        assert f"127.0.0.1:{port}" in refusal(one(plain_sshd.node(proxy_jump="bastion"), config=config,
                                                  connect_s=1), Stage.JUMP)


def test_a_lost_jump_connection_is_opened_again_for_the_next_node(plain_sshd: Sshd, bastion: Sshd) -> None:
    nodes = [plain_sshd.node(f"n{number}", proxy_jump="bastion") for number in range(3)]
    replies = SshTransport(SshConfig.parse(jump_config(bastion))).run(
        nodes, speaker(), replace(LIMITS, fanout=1))
    assert next(replies).body == b"well"
    children = Path(f"/proc/{bastion.process.pid}/task/{bastion.process.pid}/children").read_text().split()
    for child in children:
        os.kill(int(child), 15)
    assert [reply.failure for reply in replies] == [None, None]


def test_a_circle_of_jump_hosts_is_refused_and_hangs_nothing(plain_sshd: Sshd) -> None:
    config = "Host a\n ProxyJump b\nHost b\n ProxyJump a\n"
    assert "through itself" in refusal(one(plain_sshd.node(proxy_jump="a"), config=config), Stage.CONNECT)
