"""Whom the SSH transport trusts and how it proves who we are: host keys, our keys, the agent."""

from __future__ import annotations

import contextlib
import shlex
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from inventory.transport.base import Stage
from tests.command import muster
from tests.inventory.transport.sweeps import known, one, refusal, sweep
from tests.testbed.sshagent import agent
from tests.testbed.sshd import Sshd, hashed, make_key, public, sshd

# host keys

def test_an_unknown_host_is_refused_with_its_fingerprint_and_the_command_that_enrols_it(
    plain_sshd: Sshd, tmp_path: Path,
) -> None:
    empty = known(tmp_path, "")
    reason = refusal(one(plain_sshd.node(**empty)), Stage.HOST_KEY)
    key = f"{plain_sshd.host_keys['ed25519']}.pub"
    assert subprocess.run(["ssh-keygen", "-lf", key], capture_output=True, text=True,
                          check=True).stdout.split()[1] in reason
    assert (tmp_path / "known_hosts").read_text() == ""
    # The command works as printed, once the person has said yes to the key.
    words = shlex.split(reason[reason.index("muster inventory enroll"):])
    assert words == ["muster", "inventory", "enroll", "n1"]
    done = enroll(plain_sshd, tmp_path, *words[3:], "--yes")
    assert done.returncode == 0, done.stderr
    assert one(plain_sshd.node(**empty)).body == b"well"


def enroll(server: Sshd, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command in a folder whose inventory has the server as n1."""
    (folder / "muster.yaml").write_text(f"version: 1\nnodes:\n  n1: {{address: 127.0.0.1, port: "
                                        f"{server.port}, known_hosts_file: known_hosts}}\n")
    return muster("inventory", "enroll", *words, home=folder)


def test_a_changed_key_is_refused_with_the_line_that_holds_the_old_one_and_what_to_type(
    plain_sshd: Sshd, tmp_path: Path,
) -> None:
    other = make_key(tmp_path / "other")
    changes = known(tmp_path, f"# a comment\n{plain_sshd.known_name} {public(other)}\n")
    reason = refusal(one(plain_sshd.node(**changes)), Stage.HOST_KEY)
    assert "has changed" in reason.lower()
    assert f"{tmp_path}/known_hosts:2" in reason
    show = shlex.split(reason[reason.index("ssh-keygen -l"):].partition(";")[0])
    assert subprocess.run(show, capture_output=True, check=False).stdout
    words = shlex.split(reason[reason.index("muster inventory enroll"):])
    assert enroll(plain_sshd, tmp_path, "n1", "--yes").returncode == 1
    done = enroll(plain_sshd, tmp_path, *words[3:], "--yes")
    assert done.returncode == 0, done.stderr
    assert one(plain_sshd.node(**changes)).body == b"well"


def test_a_list_of_other_revoked_keys_refuses_no_one_and_a_binary_one_all(
    plain_sshd: Sshd, tmp_path: Path,
) -> None:
    revoked = tmp_path / "revoked"
    config = f"Host *\n RevokedHostKeys {revoked}\n"
    revoked.write_text(f"# old keys\n{public(make_key(tmp_path / 'another'))} old\n")
    assert one(plain_sshd.node(), config=config).body == b"well"
    subprocess.run(["ssh-keygen", "-q", "-k", "-f", str(revoked), f"{make_key(tmp_path / 'third')}.pub"],
                   check=True)
    refusal(one(plain_sshd.node(), config=config), Stage.HOST_KEY)


def test_a_certificate_authority_line_breaks_nothing_and_alone_is_not_enough(
    plain_sshd: Sshd, tmp_path: Path,
) -> None:
    authority = f"@cert-authority * {public(make_key(tmp_path / 'ca'))}\n"
    changes = known(tmp_path, authority)
    reason = refusal(one(plain_sshd.node(**changes)), Stage.HOST_KEY)
    assert "trusted only through a certificate authority" in reason
    assert "set `transport: openssh`, which can" in reason
    key = public(plain_sshd.host_keys["ed25519"])
    changes = known(tmp_path, f"{authority}garbage\n\n{plain_sshd.known_name} {key}\n")
    assert one(plain_sshd.node(**changes)).body == b"well"


@pytest.mark.parametrize("name", [lambda server: hashed(server.known_name), lambda server: "[127.0.0.*]:*",
                                  lambda server: "127.0.0.1"])
def test_a_host_is_known_by_hash_by_pattern_and_by_its_bare_name(
    plain_sshd: Sshd, tmp_path: Path, name: object,
) -> None:
    key = public(plain_sshd.host_keys["ed25519"])
    changes = known(tmp_path, f"{name(plain_sshd)} {key}\n")  # type: ignore[operator]
    assert one(plain_sshd.node(**changes)).body == b"well"


def test_a_host_key_alias_names_the_entry(plain_sshd: Sshd, tmp_path: Path) -> None:
    changes = known(tmp_path, f"farm {public(plain_sshd.host_keys['ed25519'])}\n")
    assert one(plain_sshd.node(**changes), config="Host *\n HostKeyAlias farm\n").body == b"well"
    assert "other is not in" in refusal(
        one(plain_sshd.node(**changes), config="Host *\n HostKeyAlias other\n"), Stage.HOST_KEY)


@pytest.mark.parametrize("type_", [
    "rsa", *(pytest.param(type_, marks=pytest.mark.slow) for type_ in ("ed25519", "ecdsa"))])
def test_of_several_host_keys_the_server_is_asked_for_the_one_that_is_known(
    tmp_path: Path, type_: str,
) -> None:
    with sshd(tmp_path, host_key_types=("ed25519", "ecdsa", "rsa")) as server:
        server.known_hosts.write_text(f"{server.known_name} {public(server.host_keys[type_])}\n")
        assert one(server.node()).body == b"well"


def test_a_known_key_of_a_type_that_the_host_lacks_is_told_apart_from_a_changed_one(
    plain_sshd: Sshd, tmp_path: Path,
) -> None:
    changes = known(tmp_path,
                               f"{plain_sshd.known_name} {public(make_key(tmp_path / 'rsa', 'rsa'))}\n")
    reason = refusal(one(plain_sshd.node(**changes)), Stage.HOST_KEY)
    assert "ssh-rsa" in reason
    assert "changed" not in reason


def test_our_keys_are_not_shown_to_a_host_that_is_not_known(plain_sshd: Sshd, tmp_path: Path) -> None:
    before = plain_sshd.log.count("Accepted key")
    refusal(one(plain_sshd.node(**known(tmp_path, ""))), Stage.HOST_KEY)
    assert plain_sshd.log.count("Accepted key") == before


# our keys

@pytest.mark.parametrize("type_", ["ecdsa", "rsa"])     # and all that log in here by ed25519
def test_every_usual_type_of_key_logs_in(tmp_path: Path, type_: str) -> None:
    with sshd(tmp_path / "d", user_key=make_key(tmp_path / "key", type_)) as server:
        assert one(server.node()).body == b"well"


def test_an_old_pem_key_logs_in(tmp_path: Path) -> None:
    with sshd(tmp_path / "d", user_key=make_key(tmp_path / "key", "rsa", "", "-m", "PEM")) as server:
        assert "BEGIN RSA" in (tmp_path / "key").read_text()
        assert one(server.node()).body == b"well"


def test_the_right_key_is_found_among_several(plain_sshd: Sshd, tmp_path: Path) -> None:
    keys = (str(make_key(tmp_path / "a")), str(tmp_path / "missing"), str(make_key(tmp_path / "b")),
            str(plain_sshd.user_key))
    replies = sweep([plain_sshd.node(f"n{number}", identity_file=keys) for number in range(3)])
    assert [reply.body for reply in replies.values()] == [b"well"] * 3


@pytest.mark.parametrize(("content", "words"), [(b"not a key\n", "not a private key"),
                                                (b"\xff\x00", "not a private key"), (None, "")])
def test_a_damaged_or_missing_key_file_is_named(
    plain_sshd: Sshd, tmp_path: Path, content: bytes | None, words: str,
) -> None:
    key = tmp_path / "key"
    if content is not None:
        key.write_bytes(content)
    reason = refusal(one(plain_sshd.node(identity_file=(str(key),))), Stage.AUTH)
    assert words in reason


# the agent

def test_an_rsa_key_in_the_agent_logs_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = make_key(tmp_path / "key", "rsa")
    with sshd(tmp_path / "d", user_key=key) as server, agent(tmp_path, key) as path:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
        assert one(server.node(identity_file=(str(tmp_path / "none"),))).body == b"well"


def test_an_encrypted_key_is_used_through_the_agent(tmp_path: Path) -> None:
    key = make_key(tmp_path / "key", "ed25519", "secret")
    with sshd(tmp_path / "d", user_key=key) as server, agent(tmp_path, key) as path:
        config = f"Host *\n IdentityAgent {path}\n IdentitiesOnly yes\n"
        assert one(server.node(), config=config).body == b"well"


def test_with_identities_only_the_other_keys_of_the_agent_are_left_alone(tmp_path: Path) -> None:
    right, wrong = make_key(tmp_path / "right"), make_key(tmp_path / "wrong")
    with sshd(tmp_path / "d", user_key=right) as server, agent(tmp_path, right) as path:
        config = f"Host *\n IdentityAgent {path}\n IdentitiesOnly yes\n"
        reason = refusal(one(server.node(identity_file=(str(wrong),)), config=config), Stage.AUTH)
        assert "right" not in reason


def test_an_agent_that_is_gone_is_named_and_does_not_hold_up_a_key_file(
        plain_sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "gone"))
    assert one(plain_sshd.node()).body == b"well"
    assert "agent" in refusal(one(plain_sshd.node(identity_file=(str(tmp_path / "none"),))), Stage.AUTH)


def test_an_agent_that_answers_nonsense_is_named(
    plain_sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "agent"

    def nonsense(server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                with connection:
                    connection.recv(100)
                    connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        thread = threading.Thread(target=nonsense, args=(server,), daemon=True)
        thread.start()
        monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
        assert "agent" in refusal(one(plain_sshd.node(identity_file=(str(tmp_path / "none"),))), Stage.AUTH)
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)
