"""Nodes behind jump hosts: one shared connection, and several hops."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from inventory.sshconfig import SshConfig
from inventory.transport.ssh import SshTransport
from tests.inventory.transport.speaker import speaker
from tests.inventory.transport.sweeps import LIMITS, jump_config, one, sweep
from tests.testbed.sshd import Sshd, sshd


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


def test_a_lost_jump_connection_is_opened_again_for_the_next_node(plain_sshd: Sshd, bastion: Sshd) -> None:
    nodes = [plain_sshd.node(f"n{number}", proxy_jump="bastion") for number in range(3)]
    replies = SshTransport(SshConfig.parse(jump_config(bastion))).run(
        nodes, speaker(), replace(LIMITS, fanout=1))
    assert next(replies).body == b"well"
    children = Path(f"/proc/{bastion.process.pid}/task/{bastion.process.pid}/children").read_text().split()
    for child in children:
        os.kill(int(child), 15)
    assert [reply.failure for reply in replies] == [None, None]
