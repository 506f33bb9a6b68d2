"""Nodes behind jump hosts: one shared connection, and several hops."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from inventory.sshconfig import SshConfig
from inventory.transport.ssh import SshTransport
from tests.inventory.transport.speaker import speaker
from tests.inventory.transport.sweeps import LIMITS, one, sweep
from tests.testbed.sshd import Sshd, sshd


def test_nodes_behind_a_jump_host_share_one_connection_to_it(plain_sshd: Sshd, bastion: Sshd) -> None:
    before = bastion.logins
    replies = sweep([plain_sshd.node(f"n{number}", proxy_jump="bastion") for number in range(8)],
                    config=bastion.entry())
    assert [reply.failure for reply in replies.values()] == [None] * 8
    assert bastion.logins == before + 1


def test_several_hops_are_taken_in_order(plain_sshd: Sshd, bastion: Sshd, tmp_path: Path) -> None:
    with sshd(tmp_path / "inner") as inner:
        config = bastion.entry() + inner.entry("inner")
        assert one(plain_sshd.node(proxy_jump="bastion,inner"), config=config).body == b"well"
        assert inner.logins == 1
        chained = bastion.entry() + inner.entry("inner", " ProxyJump bastion\n")
        before = bastion.logins
        assert one(plain_sshd.node(proxy_jump="inner"), config=chained).body == b"well"
        assert bastion.logins == before + 1


def test_a_lost_jump_connection_is_opened_again_for_the_next_node(plain_sshd: Sshd, bastion: Sshd) -> None:
    nodes = [plain_sshd.node(f"n{number}", proxy_jump="bastion") for number in range(3)]
    replies = SshTransport(SshConfig.parse(bastion.entry())).run(
        nodes, speaker(), replace(LIMITS, fanout=1))
    assert next(replies).body == b"well"
    for child in bastion.serving:
        os.kill(child, 15)
    assert [reply.failure for reply in replies] == [None, None]
