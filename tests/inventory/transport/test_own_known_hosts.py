"""What muster pinned is trusted by both clients, for nodes and jump hosts, whatever ssh_config says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from inventory import hashednames
from inventory.sshtarget import own_known_hosts
from inventory.transport.base import Stage
from tests.inventory.transport.sweeps import refusal
from tests.inventory.transport.ways import Way, ways
from tests.testbed.sshd import Sshd, hashed, make_key, public

CONFIGS = {
    "nothing": "",
    "files of users": "Host *\n UserKnownHostsFile ~/site ~/other\n",
    "no files of users": "Host *\n UserKnownHostsFile none\n",
    "files of the machine": "Host *\n GlobalKnownHostsFile ~/site ~/other\n",
    "no files of the machine": "Host *\n GlobalKnownHostsFile none\n UserKnownHostsFile /dev/null\n",
}


way = ways("paramiko", "openssh")


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """muster's own file, of a home with a blank and a per cent in its name."""
    home = tmp_path / "a %h home"
    (home / ".ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    assert own_known_hosts() == str(home / ".ssh/muster_known_hosts")
    return home / ".ssh/muster_known_hosts"


def line(server: Sshd) -> str:
    return f"{server.known_name} {public(server.host_keys['ed25519'])}\n"


# The fast tier leaves out what the others say too: muster's own file comes on top of those that are named.
SLOW = ("files of users", "files of the machine", "no files of users")


@pytest.mark.parametrize("config", [
    pytest.param(config, id=name, marks=[pytest.mark.slow] if name in SLOW else [])
    for name, config in CONFIGS.items()])
def test_a_node_and_its_jump_host_are_trusted_by_musters_own_file(
    way: Way, own: Path, plain_sshd: Sshd, bastion: Sshd, config: str,
) -> None:
    node = plain_sshd.node(known_hosts_file=())
    refusal(way.one(node, config=config), Stage.HOST_KEY)
    own.write_text(line(plain_sshd))
    assert way.one(node, config=config).body == b"well"
    behind = plain_sshd.node(known_hosts_file=(), proxy_jump="bastion")
    there = bastion.entry(trusted=False)
    assert way.one(behind, config=there + config).failure is not None
    own.write_text(line(plain_sshd) + line(bastion))
    assert way.one(behind, config=there + config).body == b"well"


@pytest.mark.parametrize("option", ["UserKnownHostsFile", "GlobalKnownHostsFile"])
def test_what_the_files_of_ssh_hold_is_trusted_beside_it(
    way: Way, own: Path, plain_sshd: Sshd, tmp_path: Path, option: str,
) -> None:
    own.write_text(f"other {public(make_key(tmp_path / 'other'))}\n")
    file = tmp_path / "of_ssh"
    file.write_text(f"{hashed(plain_sshd.known_name)} {public(plain_sshd.host_keys['ed25519'])}\n")
    assert way.one(plain_sshd.node(known_hosts_file=()), config=f"Host *\n {option} {file}\n").body == b"well"


def test_files_that_the_inventory_names_stand_in_the_place_of_musters_own(
    way: Way, own: Path, plain_sshd: Sshd, bastion: Sshd, tmp_path: Path,
) -> None:
    own.write_text(line(plain_sshd) + line(bastion))
    named, config = tmp_path / "named", bastion.entry(trusted=False)
    for changes in ({}, {"proxy_jump": "bastion"}):
        named.write_text("")
        node = plain_sshd.node(known_hosts_file=(str(named),), **changes)
        refusal(way.one(node, config=config), Stage.HOST_KEY)
        named.write_text(line(plain_sshd))
        assert way.one(node, config=config).body == b"well"


def test_an_old_key_in_musters_file_and_the_new_one_hashed_in_a_file_of_ssh_let_the_node_in(
    way: Way, own: Path, plain_sshd: Sshd, tmp_path: Path,
) -> None:
    own.write_text(f"{plain_sshd.known_name} {public(make_key(tmp_path / 'old'))}\n")
    file = tmp_path / "of_ssh"
    file.write_text(f"{hashed(plain_sshd.known_name)} {public(plain_sshd.host_keys['ed25519'])}\n")
    config, node = f"Host *\n UserKnownHostsFile {file}\n", plain_sshd.node(known_hosts_file=())
    assert way.one(node, config=config).body == b"well"
    file.write_text("")
    assert f"{own}:1" in refusal(way.one(node, config=config), Stage.HOST_KEY)


def test_a_hashed_line_of_a_file_of_ssh_revokes_the_key_that_musters_file_holds(
    way: Way, own: Path, plain_sshd: Sshd, tmp_path: Path,
) -> None:
    own.write_text(line(plain_sshd))
    file = tmp_path / "of_ssh"
    file.write_text(f"@revoked {hashed(plain_sshd.known_name)} {public(plain_sshd.host_keys['ed25519'])}\n")
    reason = refusal(way.one(plain_sshd.node(known_hosts_file=()),
                             config=f"Host *\n UserKnownHostsFile {file}\n"), Stage.HOST_KEY)
    assert "revoked" in reason


def test_a_sweep_looks_its_hashed_hosts_up_at_once_and_the_next_command_not_at_all(
    own: Path, plain_sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(hashednames, "WORTH_LOADING", 0)
    monkeypatch.setattr(hashednames, "WORTH_SAVING", 0)
    salts: list[bytes] = []
    real = hashednames.hasher

    def counting(salt: bytes) -> Callable[[bytes], bytes]:
        salts.append(salt)
        return real(salt)

    monkeypatch.setattr(hashednames, "hasher", counting)
    file, key = tmp_path / "of_ssh", public(plain_sshd.host_keys["ed25519"])
    file.write_text("".join(f"{hashed(name)} {key}\n" for name in ("a", "b", plain_sshd.known_name, "c")))
    nodes = [plain_sshd.node(f"n{number}", known_hosts_file=()) for number in range(6)]
    nodes.append(plain_sshd.node("elsewhere", known_hosts_file=(str(plain_sshd.known_hosts),)))
    for most in (4, 1):     # each line once for all nodes; then the one that fits, to prove it
        salts.clear()
        replies = Way("paramiko", tmp_path).sweep(nodes, config=f"Host *\n UserKnownHostsFile {file}\n")
        assert [reply.failure for reply in replies.values()] == [None] * 7
        assert len(salts) == most
