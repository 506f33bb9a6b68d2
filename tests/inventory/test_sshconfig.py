"""ssh_config is read as OpenSSH reads it: OpenSSH itself (`ssh -G`) is asked the same questions."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.errors import ConfigError
from inventory.model import Node
from inventory.sshconfig import SshConfig, SshOptions
from inventory.sshjump import Hop, parse_jump
from inventory.sshtarget import DEFAULT_GLOBAL_KNOWN_HOSTS, options_for, own_known_hosts, resolve, target_for
from tests.testbed.require import require

TEXTS = {
    "the first value of a keyword counts": "Host gpu*\n User a\n Port 2200\nHost *\n User b\n Port 2300\n",
    "a negated pattern keeps a host out": "Host gpu* !gpu2\n User a\nHost *\n User b\n",
    "a host name may hold the name": "Host gpu*\n HostName %h.cluster.example\n",
    "equals signs, quotes and comments": 'Host=gpu1\n User = "a" # not b\n Port=2222\n',
    "a proxy jump before a proxy command": "Host gpu1\n ProxyJump bob@jump:24\nHost *\n ProxyCommand nc %h "
    "%p\n",
    "no proxy for one host": "Host gpu1\n ProxyJump none\nHost *\n ProxyJump jump\n",
    "no proxy jump but a proxy command": "ProxyJump none\nProxyCommand nc %h %p\nHost gpu1\n ProxyJump "
    "jump\n",
    "no proxy command keeps out a proxy jump": "Host gpu1\n ProxyCommand none\nHost *\n ProxyJump jump\n",
    "a host name of the final pass comes too late": "Match final all\n HostName other\n Port 2201\n",
    "Match host sees HostName": (
        "Host gpu1\n HostName gpu1.cluster\nMatch host *.cluster\n User a\nMatch originalhost gpu2\n User b\n"
    ),
    "Match user and its negation": "Host gpu1\n User a\nMatch user a\n Port 2201\nMatch !user a\n Port "
    "2202\n",
    "Match final is a second pass": "Match final host gpu1\n Port 2201\nHost *\n User a\n",
    "Match all ends the conditions": "Host gpu1\n Port 2201\nMatch all\n User a\n",
    "several known_hosts files": "UserKnownHostsFile /x /y\nGlobalKnownHostsFile /z\nHostKeyAlias "
    "alias\nIdentitiesOnly yes\n",
    "identities add up": "Host gpu1\n IdentityFile /k/one\nHost *\n IdentityFile /k/two\n IdentityFile "
    "/k/one\n",
    "time spans": "ConnectTimeout 1m30\nIdentityAgent /run/agent\nAddressFamily inet6\n",
}


def asked_of_openssh(path: Path, host: str) -> dict[str, list[str]]:
    program = shutil.which("ssh")
    require(program, "OpenSSH's client is not installed: apt-get install -y openssh-client")
    answer = subprocess.run([str(program), "-G", "-F", str(path), host], capture_output=True, text=True,
                            timeout=20, check=True)
    found: dict[str, list[str]] = {}
    for line in answer.stdout.splitlines():
        key, _, value = line.partition(" ")
        found.setdefault(key, []).append(value)
    return found


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
@pytest.mark.parametrize("host", ["gpu1", "gpu2", "login"])
def test_we_read_what_openssh_reads(tmp_path: Path, text: str, host: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    theirs = asked_of_openssh(path, host)
    ours = target_for(Node(host), SshConfig.load(path, None))
    assert [ours.hostname] == theirs["hostname"]
    assert [ours.user] == theirs["user"]
    assert [str(ours.port)] == theirs["port"]
    assert ([ours.proxy_jump] if ours.proxy_jump else []) == theirs.get("proxyjump", [])
    assert bool(ours.proxy_command) == ("proxycommand" in theirs)
    assert [ours.host_key_alias] == theirs.get("hostkeyalias", [None])
    own, *files = ours.known_hosts_files
    assert own == own_known_hosts()
    assert " ".join(files) == f"{theirs['userknownhostsfile'][0]} {theirs['globalknownhostsfile'][0]}"
    assert ["yes" if ours.identities_only else "no"] == theirs["identitiesonly"]
    assert theirs["connecttimeout"] == ["none" if ours.connect_timeout is None
                                        else f"{ours.connect_timeout:.0f}"]
    assert [ours.address_family] == theirs["addressfamily"]
    if ours.identities_given:
        assert list(ours.identity_files) == theirs["identityfile"]


def test_an_include_within_a_block_applies_to_that_block_only(tmp_path: Path) -> None:
    (tmp_path / "inner").write_text("User a\nHost *\n Port 2201\n")
    path = tmp_path / "config"
    path.write_text(f"Host gpu1\n Include {tmp_path}/inn*\nHost *\n ConnectTimeout 7\n")
    config = SshConfig.load(path, None)
    for host in ("gpu1", "gpu2"):
        theirs = asked_of_openssh(path, host)
        ours = target_for(Node(host), config)
        assert ([ours.user], [str(ours.port)]) == (theirs["user"], theirs["port"])
        assert ours.connect_timeout == 7
    assert options_for("gpu2", config).user is None


@pytest.mark.parametrize(("jump", "name"), [
    ("none", ""), ("b1", "b1"), ("u@b1:2201,u@b2:2202", "b2"), ("ssh://[fd00::1]:22", "fd00::1")])
def test_a_file_named_after_the_jump_host_is_found(jump: str, name: str) -> None:
    """The token %j, of OpenSSH 9.6 and newer."""
    options = options_for("gpu1", SshConfig.parse(f"ProxyJump {jump}\nUserKnownHostsFile /k/%j.known\n"))
    assert options.user_known_hosts_files == (f"/k/{name}.known",)


def test_match_exec_never_runs_its_command_and_says_so(tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    options = options_for("gpu1",
                          SshConfig.parse(f'Match exec "touch {touched}"\n User a\nHost *\n User b\n'))
    assert not touched.exists()
    assert options.user == "b"
    assert options.needs == ("ssh_config:1:1: Match exec: only ssh can tell whether its block applies",)


def test_what_the_inventory_gives_wins_and_is_seen_by_match_and_tokens() -> None:
    config = SshConfig.parse(
        "Match host 10.1.*\n Port 2201\n IdentityFile /k/%h\nHost *\n User a\n HostName other\n")
    target = target_for(Node("gpu1", address="10.1.0.1", user="b", known_hosts_file=("/k/known",)), config)
    assert (target.hostname, target.port, target.user) == ("10.1.0.1", 2201, "b")
    assert target.identity_files == ("/k/10.1.0.1",)
    assert target.known_hosts_files == ("/k/known", *DEFAULT_GLOBAL_KNOWN_HOSTS)
    assert target.known_hosts_name == "[10.1.0.1]:2201"


@pytest.mark.parametrize("text", ["", "HashKnownHosts yes\n", "Host other\n HashKnownHosts yes\n",
                                  "HashKnownHosts no\nHashKnownHosts yes\n"])
def test_whether_names_are_hashed_is_read_as_openssh_reads_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    hashes = options_for("gpu1", SshConfig.load(path, None)).hash_known_hosts
    assert ["yes" if hashes else "no"] == asked_of_openssh(path, "gpu1")["hashknownhosts"]


def test_known_hosts_files_of_none_leave_no_file_of_users_but_musters_own() -> None:
    options = options_for("gpu1", SshConfig.parse("UserKnownHostsFile none\nGlobalKnownHostsFile /z\n"))
    assert resolve(Node("gpu1"), options).known_hosts_files == (own_known_hosts(), "/z")


def test_musters_own_file_counts_once_where_ssh_config_names_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    config = SshConfig.parse("UserKnownHostsFile ~/x ~/.ssh/muster_known_hosts\nGlobalKnownHostsFile /z\n")
    assert target_for(Node("gpu1"), config).known_hosts_files == (
        f"{tmp_path}/.ssh/muster_known_hosts", f"{tmp_path}/x", "/z")


def test_a_proxy_jump_of_none_in_the_inventory_means_a_direct_connection() -> None:
    options = SshOptions("gpu1", proxy_jump="jump")
    assert resolve(Node("gpu1"), options).proxy_jump == "jump"
    assert resolve(Node("gpu1", proxy_jump="none"), options).proxy_jump is None
    command = SshOptions("gpu1", proxy_command="nc gpu1 22")
    assert resolve(Node("gpu1", proxy_jump="jump"), command).proxy_command is None


@pytest.mark.parametrize(("text", "message"), [
    ("User", "c:1:1: User has no value"),
    ("\n  Port x", "c:2:3: Port is 'x', expected a number from 1 to 65535"),
    ("Port 0", "c:1:1: Port is '0', expected a number from 1 to 65535"),
    ('User "a', "c:1:1: a quote is not closed"),
    ("Match host", "c:1:1: Match 'host' has no value"),
    ("IdentityFile /k/%z", "c:1:1: %z is not a valid token here: '/k/%z'"),
    ("= x", "c:1:1: expected a keyword and its value, found '= x'"),
    ("IdentitiesOnly maybe", "c:1:1: identitiesonly is 'maybe', expected one of yes, true, no, false"),
])
def test_a_broken_file_is_one_line_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        options_for("gpu1", SshConfig.parse(text, "c"))
    assert str(caught.value) == message


def test_a_file_that_includes_itself_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(f"Include {path}\n")
    with pytest.raises(ConfigError, match="Include goes over 16 levels deep"):
        SshConfig.load(path, None)


def test_a_file_that_was_named_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        SshConfig.load(tmp_path / "none", None)


def test_hops_are_read_in_order() -> None:
    hops = parse_jump("bob@jump:24,ssh://[fe80::1]:2222,last")
    assert hops == (Hop("jump", "bob", 24), Hop("fe80::1", None, 2222), Hop("last"))


@pytest.mark.parametrize("text", ["", "a,,b", "host:0", "host:70000", "-oProxyCommand=x", "a b"])
def test_a_hop_that_cannot_be_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match="is not"):
        parse_jump(text)


LINES = st.lists(st.one_of(
    st.text(max_size=30),
    st.builds(
        " ".join, st.tuples(
            st.sampled_from(["Host", "Match", "User", "Port", "HostName", "IdentityFile", "ProxyJump",
                             "ConnectTimeout"]),
            st.sampled_from([
                "*", "gpu1", "!gpu1", "host gpu*", "exec x", "final", "all", "%h", "%%", "%", "'", '"', "1",
                "none", "${X}",
            ]),
        ),
    ),
), max_size=12)


@given(LINES)
def test_no_text_makes_anything_but_a_config_error(lines: list[str]) -> None:
    text = "\n".join(line for line in lines if "include" not in line.lower())
    try:
        options_for("gpu1", SshConfig.parse(text))
    except ConfigError as problem:
        assert "\n" not in str(problem)
