"""Nodes behind jump hosts: one shared connection, and several hops."""

from __future__ import annotations

from pathlib import Path

from tests.inventory.transport.sweeps import one, sweep
from tests.testbed.sshd import Sshd, sshd


def test_nodes_behind_a_jump_host_share_one_connection_to_it(plain_sshd: Sshd, bastion: Sshd) -> None:
    before = bastion.logins
    replies = sweep([plain_sshd.node(f"n{number}", proxy_jump="bastion") for number in range(4)],
                    config=bastion.entry())
    assert [reply.failure for reply in replies.values()] == [None] * 4
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
