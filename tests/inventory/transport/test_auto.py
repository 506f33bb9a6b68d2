"""`transport: auto`: this process reaches a node unless ssh_config asks for what only ssh can do."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from inventory.errors import ConfigError
from inventory.model import Node, Via
from inventory.sshconfig import default_config
from inventory.transport.base import NOT_ITS_FAULT, Reply, Stage
from inventory.transport.remote import RemoteTransport
from tests.inventory.transport.speaker import speaker
from tests.inventory.transport.sweeps import LIMITS, refusal
from tests.testbed.sshd import Sshd, make_key, public, sshd, wait_until


@pytest.fixture
def ssh_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The ~/.ssh of whoever sweeps. ssh itself looks for a home in passwd, and gets the files by name."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    (tmp_path / ".ssh").mkdir(mode=0o700)
    default_config.cache_clear()
    yield tmp_path / ".ssh"
    default_config.cache_clear()


def sweep(folder: Path, config: str, *nodes: Node) -> dict[str, Reply]:
    (folder / "config").write_text(config)
    (folder / "config").chmod(0o600)
    default_config.cache_clear()
    transport = RemoteTransport()
    try:
        return {reply.node: reply for reply in transport.run(nodes, speaker(), LIMITS)}
    finally:
        transport.close()


def test_it_is_the_default() -> None:
    assert Node("n1").transport is Via.AUTO


def test_a_plain_host_stays_in_this_process_and_one_that_needs_ssh_is_said_to_where_there_is_none(
    plain_sshd: Sshd, ssh_folder: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    found = sweep(ssh_folder, "Host b\n ProxyCommand nc %h %p\n", plain_sshd.node("a"), plain_sshd.node("b"))
    assert found["a"].body == b"well"
    reason = refusal(found["b"], Stage.HEAD)
    assert "this machine has no ssh" in reason
    assert "ProxyCommand" in reason
    assert Stage.HEAD in NOT_ITS_FAULT


@pytest.mark.parametrize("option", [
    "ProxyCommand /bin/sh -c 'exec 3<>/dev/tcp/%h/%p'", "BindAddress 127.0.0.1", "SetEnv A=b"])
def test_what_only_ssh_can_do_is_done_by_ssh(plain_sshd: Sshd, ssh_folder: Path, option: str) -> None:
    if option.startswith("ProxyCommand"):
        option = (
            "ProxyCommand python3 -c \"import "
            "socket,sys,threading,shutil;s=socket.create_connection(('%h',%p));"
            "threading.Thread(target=lambda:shutil.copyfileobj(s.makefile('rb',0),open(1,'wb',0)),"
            "daemon=True)"
            ".start();shutil.copyfileobj(open(0,'rb',0),s.makefile('wb',0))\"")
    found = sweep(ssh_folder, f"Host b\n {option}\n", plain_sshd.node("a"), plain_sshd.node("b"))
    assert [found[name].body for name in "ab"] == [b"well", b"well"]


def test_a_host_that_is_not_to_log_in_by_key_does_not(plain_sshd: Sshd, ssh_folder: Path) -> None:
    found = sweep(ssh_folder, "Host b\n PubkeyAuthentication no\n", plain_sshd.node("a"),
                  plain_sshd.node("b"))
    assert found["a"].body == b"well"
    refusal(found["b"], Stage.AUTH)


@pytest.mark.parametrize(("server", "ours"), [
    ("KexAlgorithms ecdh-sha2-nistp384", "KexAlgorithms ecdh-sha2-nistp256"),
    pytest.param("Ciphers aes256-ctr", "Ciphers aes128-ctr", marks=pytest.mark.slow),
    ("MACs hmac-sha2-512\nCiphers aes128-ctr", "MACs hmac-sha2-256\n Ciphers aes128-ctr"),
])
def test_lists_of_algorithms_are_kept_to_in_this_process(
    ssh_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str, ours: str,
) -> None:
    same = server.replace("\n", "\n ")
    with sshd(tmp_path / "d", config=server) as peer:
        monkeypatch.setenv("PATH", "/nonexistent")
        found = sweep(ssh_folder, f"Host b\n {ours}\nHost c\n {same}\n",
                      *(peer.node(name) for name in ("a", "b", "c")))
    assert found["a"].body == found["c"].body == b"well"
    assert "no key exchange" in refusal(found["b"], Stage.CONNECT)


def test_the_kinds_of_host_keys_are_kept_to(ssh_folder: Path, tmp_path: Path) -> None:
    with sshd(tmp_path / "d", host_key_types=("ed25519", "ecdsa")) as peer:
        only = tmp_path / "only"
        only.write_text(f"{peer.known_name} {public(peer.host_keys['ed25519'])}\n")
        nodes = [peer.node(name, known_hosts_file=(str(only),)) for name in ("a", "b")]
        found = sweep(ssh_folder, "Host b\n HostKeyAlgorithms ecdsa-sha2-nistp256\n", *nodes)
    assert found["a"].body == b"well"
    assert "ecdsa-sha2-nistp256" in refusal(found["b"], Stage.HOST_KEY)


def test_an_rsa_key_that_is_too_small_is_refused(ssh_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    key = make_key(tmp_path / "small", "rsa")
    with sshd(tmp_path / "d", host_key_types=("rsa",)) as peer, sshd(tmp_path / "e", user_key=key) as other:
        found = sweep(ssh_folder, "Host b*\n RequiredRSASize 4096\n", peer.node("a"), peer.node("b"),
                      other.node("a2"), other.node("b2"))
    assert found["a"].body == found["a2"].body == b"well"
    assert "RequiredRSASize" in refusal(found["b"], Stage.HOST_KEY)
    refusal(found["b2"], Stage.AUTH)


def test_a_file_that_ssh_would_refuse_ends_the_sweep_with_one_line(plain_sshd: Sshd,
                                                                   ssh_folder: Path) -> None:
    (ssh_folder / "config").write_text("User x\n")
    (ssh_folder / "config").chmod(0o666)
    with pytest.raises(ConfigError, match=r"config: bad permissions: mode 0666 .* chmod go-w "):
        list(RemoteTransport().run([plain_sshd.node()], speaker(), LIMITS))


@pytest.mark.parametrize("server", [
    "Ciphers chacha20-poly1305@openssh.com",
    *(pytest.param(server, marks=pytest.mark.slow) for server in (
        "KexAlgorithms sntrup761x25519-sha512@openssh.com",
        "MACs umac-128-etm@openssh.com\nCiphers aes128-ctr"))])
def test_a_server_that_takes_no_algorithm_of_this_process_is_reached_by_ssh(
    ssh_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str,
) -> None:
    with sshd(tmp_path / "d", config=server) as peer:
        assert sweep(ssh_folder, "", peer.node())["n1"].body == b"well"
        assert "no key exchange" in refusal(sweep(ssh_folder, "", peer.node(transport=Via.PARAMIKO))["n1"],
                                            Stage.CONNECT)
        monkeypatch.setenv("PATH", "/nonexistent")
        assert "no key exchange" in refusal(sweep(ssh_folder, "", peer.node())["n1"], Stage.CONNECT)


def test_a_jump_host_that_takes_no_algorithm_of_this_process_is_reached_by_ssh(
    plain_sshd: Sshd, ssh_folder: Path, tmp_path: Path,
) -> None:
    with sshd(tmp_path / "d", config="Ciphers chacha20-poly1305@openssh.com") as jump:
        config = jump.entry() + "Host a b\n ProxyJump bastion\n"
        found = sweep(ssh_folder, config, plain_sshd.node("a"), plain_sshd.node("b", transport=Via.PARAMIKO))
    assert found["a"].body == b"well"
    assert "bastion: no key exchange" in refusal(found["b"], Stage.JUMP)


@pytest.mark.parametrize("form", [("-m", "PKCS8"), ()])
def test_a_key_is_used_in_each_form_that_ssh_reads(ssh_folder: Path, tmp_path: Path,
                                                   form: tuple[str, ...]) -> None:
    (tmp_path / "d").mkdir()
    key = make_key(tmp_path / "own", "ecdsa", "", *form)
    with sshd(tmp_path / "d", user_key=key) as peer:
        assert sweep(ssh_folder, f"IdentityFile {key}\n", peer.node(identity_file=()))["n1"].body == b"well"


def test_a_public_key_names_the_one_that_the_agent_is_to_use(
    plain_sshd: Sshd, ssh_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "chosen.pub").write_text(public(plain_sshd.user_key) + " me\n")
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", tmp_path / "agent"], stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: (tmp_path / "agent").exists(), what="the agent")
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
        config = f"IdentitiesOnly yes\nIdentityFile {tmp_path}/chosen.pub\n"
        node = plain_sshd.node(identity_file=())
        assert "not in the agent" in refusal(sweep(ssh_folder, config, node)["n1"], Stage.AUTH)
        subprocess.run(["ssh-add", "-q", plain_sshd.user_key], check=True)
        assert sweep(ssh_folder, config, node)["n1"].body == b"well"
    finally:
        agent.terminate()
        agent.wait()


def test_no_file_is_tried_where_identity_file_is_none(plain_sshd: Sshd, ssh_folder: Path) -> None:
    shutil.copy(plain_sshd.user_key, ssh_folder / "id_ed25519")
    node = plain_sshd.node(identity_file=())
    assert sweep(ssh_folder, "", node)["n1"].body == b"well"
    assert "there is no key to try" in refusal(sweep(ssh_folder, "IdentityFile none\n", node)["n1"],
                                               Stage.AUTH)
