"""A look at a node without a known host key: nothing is pinned, proven keys come back."""

from __future__ import annotations

import base64
import os
import secrets
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.model import Node
from inventory.sshconfig import SshConfig
from inventory.transport.base import Limits, Stage
from inventory.transport.hostproof import announced, proven, strings
from inventory.transport.unpinned import UnpinnedReply, run_unpinned
from tests.inventory.transport.speaker import speaker
from tests.testbed.sshd import Sshd, make_key, public, sshd

PROGRAM = speaker("answer(b'well')")
LIMITS = Limits(node_s=20.0, sweep_s=20.0)


def blob(key: Path) -> bytes:
    return base64.b64decode(public(key).split()[1])


def looked(node: Node, config: str = "") -> UnpinnedReply:
    return run_unpinned(node, PROGRAM, LIMITS, SshConfig.parse(config))


def strange(server: Sshd, known: Path, text: str = "", **changes: object) -> Node:
    known.write_text(text)
    return server.node(known_hosts_file=(str(known),), **changes)


def test_all_keys_of_the_server_come_back_proven_and_none_is_pinned(tmp_path: Path) -> None:
    with sshd(tmp_path / "sshd", host_key_types=("ed25519", "rsa", "ecdsa")) as server:
        known = tmp_path / "known"
        found = looked(strange(server, known))
    assert found.reply.failure is None
    assert found.reply.body == b"well"
    assert set(found.host_keys) == {blob(key) for key in server.host_keys.values()}
    assert known.read_text() == ""


def test_a_key_that_is_only_announced_is_not_among_them(tmp_path: Path) -> None:
    """The server announces what lies in the file of a public key; to prove it takes the private one."""
    with sshd(tmp_path / "sshd") as server:
        found = looked(strange(server, tmp_path / "known"))
        assert found.host_keys == (blob(server.host_keys["ed25519"]),)
    stranger = blob(make_key(tmp_path / "stranger"))
    signature = b"".join(len(one).to_bytes(4, "big") + one for one in (b"ssh-ed25519", bytes(64)))
    assert proven((stranger,), len(signature).to_bytes(4, "big") + signature, b"session") == ()


def test_another_key_than_the_pinned_one_is_taken_for_the_look_and_the_file_stays(tmp_path: Path) -> None:
    with sshd(tmp_path / "sshd") as server:
        old = f"{server.known_name} {public(make_key(tmp_path / 'old'))}\n"
        found = looked(strange(server, tmp_path / "known", old))
    assert found.host_keys == (blob(server.host_keys["ed25519"]),)
    assert (tmp_path / "known").read_text() == old


def test_a_revoked_key_is_not_taken(tmp_path: Path) -> None:
    with sshd(tmp_path / "sshd") as server:
        known = tmp_path / "known"
        node = strange(server, known, f"@revoked {server.known_name} {public(server.host_keys['ed25519'])}\n")
        found = looked(node)
    assert found.reply.failure is not None
    assert found.reply.failure.stage is Stage.HOST_KEY
    assert "revoked" in found.reply.failure.reason
    assert found.host_keys == ()
    assert "Accepted publickey" not in server.log


def test_who_refuses_the_login_proves_nothing(tmp_path: Path) -> None:
    with sshd(tmp_path / "sshd") as server:
        node = strange(server, tmp_path / "known", identity_file=(str(make_key(tmp_path / "other")),))
        found = looked(node)
    assert found.reply.failure is not None
    assert found.reply.failure.stage is Stage.AUTH
    assert found.host_keys == ()


def test_a_jump_host_must_be_known_as_ever(tmp_path: Path) -> None:
    with sshd(tmp_path / "sshd") as server, sshd(tmp_path / "bastion") as bastion:
        node = replace(strange(server, tmp_path / "known"), proxy_jump="bastion")
        config = bastion.entry(trusted=False) + " UserKnownHostsFile %s\n"
        found = looked(node, config % (tmp_path / "none"))
        assert found.reply.failure is not None
        assert found.reply.failure.stage is Stage.JUMP
        assert "Accepted publickey" not in bastion.log
        assert looked(node, config % bastion.known_hosts).reply.body == b"well"


@given(st.binary(max_size=200))
def test_any_announcement_is_read(data: bytes) -> None:
    found = strings(data)
    assert len(found) <= 16
    assert all(one in data for one in found)
    assert announced(data) == ()


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_strings_are_read_as_they_were_written(given_: list[bytes]) -> None:
    data = b"".join(len(one).to_bytes(4, "big") + one for one in given_)
    assert strings(data) == tuple(given_[:16])
    assert proven(tuple(given_), data, secrets.token_bytes(4)) == ()


@pytest.mark.parametrize("type_", ["ed25519", "rsa", "ecdsa"])
def test_a_signature_over_another_session_proves_nothing(tmp_path: Path, type_: str) -> None:
    from inventory.transport.hostproof import PROVE
    from inventory.transport.quiet import paramiko

    path = make_key(tmp_path / "key", type_)
    key, one = paramiko.PKey.from_path(str(path)), blob(path)

    def signed(session: bytes) -> bytes:
        data = b"".join(len(part).to_bytes(4, "big") + part for part in (PROVE.encode(), session, one))
        text: bytes = key.sign_ssh_data(data, "rsa-sha2-512" if type_ == "rsa" else None).asbytes()
        return len(text).to_bytes(4, "big") + text

    assert proven((one,), signed(b"this"), b"this") == (one,)
    assert proven((one,), signed(b"other"), b"this") == ()
    assert proven((one,), os.urandom(120), b"this") == ()
