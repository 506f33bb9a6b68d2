"""The same nodes by paramiko, by the system's ssh and on this machine: the same answers and ends."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from inventory.model import Node, Privilege
from inventory.transport.base import Program, Reply, Stage, Transport
from tests.inventory.transport.speaker import gone, killed, noted, speaker, waits
from tests.inventory.transport.sweeps import LIMITS, hung_python, known, refusal
from tests.inventory.transport.ways import Way, ways
from tests.testbed.planted import executable
from tests.testbed.ports import free_port
from tests.testbed.processes import alive
from tests.testbed.relay import relay
from tests.testbed.require import require
from tests.testbed.sshagent import agent
from tests.testbed.sshd import (
    Sshd,
    flooder,
    full_backlog,
    hangs_after_banner,
    hangs_up,
    listener,
    make_key,
    public,
    silent,
    sshd,
    wait_until,
    web_server,
)
from tests.testbed.users import allow_sudo, throwaway_user

# For what happens while a connection is made, which is the same where it is kept then: the slow tier tries
# that, too.
way = ways("paramiko", "openssh", slow=("paramiko kept", "openssh kept"))
# For what does not depend on how a node is reached.
any_way = ways("paramiko", "openssh", "local", slow=("paramiko kept", "openssh kept"))
kept = ways("paramiko kept", "openssh kept")


Peer = Callable[[], contextlib.AbstractContextManager[int]]


def at(port: int, **changes: Any) -> Node:
    return Node("n1", address="127.0.0.1", port=port, **changes)


# answers

def test_a_node_answers_with_what_it_was_sent_and_who_it_is(any_way: Way, plain_sshd: Sshd) -> None:
    reply = any_way.one(plain_sshd.node(),
                        speaker("answer((str(os.getuid()) + ' ' + want('x').decode()).encode())",
                                extras={"x": b"extra"}))
    assert reply.body == f"{pwd.getpwnam(plain_sshd.user).pw_uid} extra".encode(), reply.failure
    assert (reply.attempts, reply.failure) == (1, None)
    assert reply.python == f"{sys.version_info[0]}.{sys.version_info[1]}" or reply.python
    assert reply.sent_bytes > 0 and reply.received_bytes > len(reply.body or b"")
    assert reply.started <= reply.received


def test_many_nodes_answer_each_for_itself(any_way: Way, plain_sshd: Sshd) -> None:
    replies = any_way.sweep([plain_sshd.node(f"n{number}") for number in range(4)], fanout=2)
    assert {name: reply.body for name, reply in replies.items()} == {
        f"n{number}": b"well" for number in range(4)}


def test_a_word_for_one_node_reaches_that_node_and_no_shell(any_way: Way, plain_sshd: Sshd) -> None:
    told = {"n0": ("node=n0; echo $HOME 'x\"*",)}
    program = replace(speaker("answer(repr(sys.argv[2:]).encode())"), words=told)
    replies = any_way.sweep([plain_sshd.node("n0"), plain_sshd.node("n1", unread=("mlx5_1",))], program)
    assert {name: reply.body for name, reply in replies.items()} == {
        "n0": repr([*told["n0"]]).encode(), "n1": b"['without=mlx5_1']"}


def test_a_large_answer_and_a_large_extra_pass_while_standard_error_is_flooded(
    any_way: Way, plain_sshd: Sshd,
) -> None:
    extra = os.urandom(1 << 20) * 6     # paramiko's first window takes less
    program = speaker("""
        for _ in range(40):
            sys.stderr.buffer.write(b'e' * 65536)
        OUT.write(b'o' * 99999 + b'\\n')
        answer(want('big') + bytes(2000000))
    """, extras={"big": extra})
    assert any_way.one(plain_sshd.node(), program).body == extra + bytes(2_000_000)


def test_banners_and_noise_of_rc_files_are_skipped(way: Way, tmp_path: Path) -> None:
    banner = tmp_path / "banner"
    banner.write_text("Authorised use only. Permission denied (publickey). \x1b[2J\n" * 300)
    noisy = executable(
        tmp_path / "noisy",
        "#!/bin/sh\necho debug1: Sending command: x >&2; head -c 70000 /dev/zero | tr '\\0' x; echo\n"
        "echo muster:login; eval \"$SSH_ORIGINAL_COMMAND\"\n")
    with sshd(tmp_path / "d", config=f"Banner {banner}\nForceCommand {noisy}") as server:
        assert way.one(server.node()).body == b"well"


# how far we came

def test_a_name_without_an_address_is_stage_resolve(way: Way) -> None:
    assert "no-such-host.invalid" in refusal(way.one(Node("no-such-host.invalid")), Stage.RESOLVE)


def test_a_refused_connection_is_stage_connect_and_not_tried_again(way: Way) -> None:
    reply = way.one(at(free_port()))
    assert "refused" in refusal(reply, Stage.CONNECT)
    assert (reply.attempts, reply.sent_bytes) == (1, 0)


@pytest.mark.parametrize(("peer", "said"), [
    (full_backlog, "did not answer"), (partial(listener, silent), "sent nothing"),
    (partial(listener, hangs_after_banner), "key exchange")],
    ids=["a host that drops packets", "a listener that stays silent", "an sshd that hangs after its banner"])
def test_who_does_not_go_on_is_stage_connect_within_its_limit(way: Way, peer: Peer, said: str) -> None:
    with peer() as port:
        began = time.monotonic()
        assert said in refusal(way.one(at(port), connect_s=1, auth_s=1), Stage.CONNECT)
        assert time.monotonic() - began < 12


def test_another_service_on_the_port_is_stage_connect_and_quotes_it(way: Way) -> None:
    with listener(web_server) as port:
        assert "HTTP/1.0 400" in refusal(way.one(at(port)), Stage.CONNECT)


def test_a_flood_in_place_of_a_banner_is_stage_connect(way: Way) -> None:
    with listener(flooder) as port:
        reply = way.one(at(port), connect_s=3)
    assert "does not speak SSH" in refusal(reply, Stage.CONNECT)
    assert reply.attempts == 1


def test_a_server_that_always_hangs_up_is_tried_again_while_there_is_time(way: Way) -> None:
    with listener(hangs_up) as port:
        reply = way.one(at(port), node_s=3)
    assert "before its banner" in refusal(reply, Stage.CONNECT)
    assert reply.attempts > 2


def test_connections_dropped_by_max_startups_are_tried_again(way: Way, tmp_path: Path) -> None:
    with sshd(tmp_path, config="MaxStartups 2:100:4") as server:
        replies = way.sweep([server.node(f"n{number}") for number in range(8)], fanout=8)
    assert [reply.failure for reply in replies.values() if reply.body != b"well"] == []
    assert max(reply.attempts for reply in replies.values()) > 1


@pytest.mark.parametrize(("config", "stage", "said"), [
    ("ForceCommand echo This account is currently not available.; exit 1", Stage.LOGIN,
     "currently not available"),
    ("ForceCommand exit 3", Stage.LOGIN, "exit 3"),
    ("MaxSessions 0", Stage.LOGIN, ""),
    ("PubkeyAuthentication no\nPasswordAuthentication yes", Stage.AUTH, "password only"),
    ("AuthenticationMethods publickey,password\nPasswordAuthentication yes", Stage.AUTH,
     "asks for more (password)"),
])
def test_a_server_that_does_not_run_our_command_is_said_to_and_nothing_is_asked(
    way: Way, tmp_path: Path, config: str, stage: Stage, said: str,
) -> None:
    with sshd(tmp_path, config=config) as server:
        assert said in refusal(way.one(server.node()), stage)


def test_a_shell_that_hangs_is_stage_login_within_its_limit(way: Way, tmp_path: Path) -> None:
    with sshd(tmp_path, config="ForceCommand echo mounting home; cat >/dev/null") as server:
        began = time.monotonic()
        assert "mounting home" in refusal(way.one(server.node(), login_s=2, twice=False), Stage.LOGIN)
        assert time.monotonic() - began < 9


def test_a_missing_python_is_stage_python(any_way: Way, plain_sshd: Sshd) -> None:
    assert "no-such-python" in refusal(any_way.one(plain_sshd.node(python="no-such-python")), Stage.PYTHON)


def test_a_python_that_hangs_is_stage_python(any_way: Way, plain_sshd: Sshd, tmp_path: Path) -> None:
    refusal(any_way.one(plain_sshd.node(python=str(hung_python(tmp_path))), login_s=3, twice=False),
            Stage.PYTHON)


def test_a_python_too_old_is_stage_python(any_way: Way, plain_sshd: Sshd, tmp_path: Path) -> None:
    old = executable(
        tmp_path / "python3",
        "#!/bin/sh\nfor last; do :; done\necho muster:$last:python 3.6; exec cat >/dev/null\n")
    assert "3.8 or newer" in refusal(any_way.one(plain_sshd.node(python=str(old))), Stage.PYTHON)


@pytest.mark.parametrize(("source", "words"), [
    ("raise KeyError('lost')", "KeyError: 'lost'"),
    ("answer(b'abc', size=9)", "3 of 9 bytes"),
    ("line('gibberish')", "another version"),
    ("os.kill(os.getpid(), 9)", "without an answer"),
    ("sys.exit(255)", "without an answer"),
    # which the reader of frames says alike of every way
    *(pytest.param(source, words, marks=pytest.mark.slow) for source, words in (
        ("answer(b'abc', digest='0' * 64)", "checksum"), ("answer(b'', size=999999999)", "over the limit"),
        ("pass", "without an answer"))),
    ("OUT.write(b'z' * 3000000); OUT.flush(); until_end()", "1 MiB"),
])
def test_an_answer_that_is_not_one_is_stage_reply(
    any_way: Way, plain_sshd: Sshd, source: str, words: str,
) -> None:
    assert words in refusal(any_way.one(plain_sshd.node(), speaker(source)), Stage.REPLY)


def test_a_connection_that_is_cut_is_reported_from_a_program_that_ended(way: Way, tmp_path: Path) -> None:
    with sshd(tmp_path) as server:
        note = tmp_path / "pid"
        replies: list[Any] = []
        thread = threading.Thread(target=lambda: replies.append(way.one(server.node(), speaker(waits(note)))))
        thread.start()
        noted(note)
        for child in server.serving:
            os.kill(child, 9)
        thread.join(20)
    assert "the connection to" in refusal(replies[0], Stage.REPLY)


# time, and what is left behind

def test_a_program_that_never_ends_is_stage_deadline_and_is_gone_from_the_node(
    any_way: Way, plain_sshd: Sshd, tmp_path: Path,
) -> None:
    note = tmp_path / "pid"
    began = time.monotonic()
    assert "at work" in refusal(any_way.one(plain_sshd.node(), speaker(waits(note)), program_s=2),
                                Stage.DEADLINE)
    assert time.monotonic() - began < 15
    gone(note)


def test_an_interrupted_sweep_ends_what_runs_on_the_nodes_and_here(
    way: Way, plain_sshd: Sshd, tmp_path: Path,
) -> None:
    program = speaker(f"open({str(tmp_path)!r} + '/' + str(os.getpid()), 'w').close(); until_end()")
    replies = way.replies([plain_sshd.node("a"), plain_sshd.node("b"),
                           Node("refused", address="127.0.0.1", port=free_port())], program)
    assert next(replies).node == "refused"
    wait_until(lambda: len(list(tmp_path.iterdir())) == 2, what="two programs at work")
    began = time.monotonic()
    replies.close()  # type: ignore[attr-defined]
    assert way.openssh or time.monotonic() - began < 15
    for note in tmp_path.iterdir():
        wait_until(lambda pid=int(note.name): not alive(pid),
                   what="the end of the program")  # type: ignore[misc]
    wait_until(lambda: not our_ssh(), what="the end of every ssh")


def our_ssh() -> list[str]:
    """The ssh processes that this process has started, dead ones aside."""
    found = []
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for child in (thread / "children").read_text().split():
                command = Path(f"/proc/{child}/cmdline").read_bytes()
                if b"ssh\0" in command and alive(int(child)):
                    found.append(command.decode())
    return found


@pytest.mark.parametrize("keep", [pytest.param("None", marks=pytest.mark.slow), "20.0"])
def test_nothing_runs_on_the_node_after_the_client_with_ssh_is_killed(
    plain_sshd: Sshd, tmp_path: Path, keep: str,
) -> None:
    note = tmp_path / "pid"
    node = plain_sshd.node()
    code = (
        "import sys; from pathlib import Path; from inventory.model import Node\n"
        "from inventory.transport.openssh import OpensshTransport; from tests.inventory.transport.speaker "
        "import speaker\n"
        "from tests.inventory.transport.sweeps import LIMITS\n"
        f"node = Node('n1', address='127.0.0.1', port={node.port}, user={node.user!r}, "
        f"identity_file={node.identity_file!r}, known_hosts_file={node.known_hosts_file!r})\n"
        f"t = OpensshTransport([], keep={keep})\nlist(t.run([node], speaker('answer(b\"well\")'), LIMITS))\n"
        f"list(t.run([node], speaker({waits(note)!r}), LIMITS))\n")
    process = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[3],
                               stderr=subprocess.PIPE)
    killed(process, note)


def test_no_descriptor_and_no_thread_is_left_after_sweeps_with_failures(
    way: Way, plain_sshd: Sshd, tmp_path: Path,
) -> None:
    def left() -> tuple[int, int]:
        return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()

    def of_muster() -> int:
        return len([one for one in threading.enumerate() if one.name.startswith("muster-")])

    nodes = [plain_sshd.node("good"), plain_sshd.node("python", python="/bin/false"),
             Node("refused", address="127.0.0.1", port=free_port()),
             plain_sshd.node("unknown", known_hosts_file=(str(tmp_path / "none"),)),
             plain_sshd.node("key", identity_file=("/none",)),
             plain_sshd.node("hung", python=str(hung_python(tmp_path)))]
    way.sweep(nodes, login_s=1)
    wait_until(lambda: of_muster() <= 1, what="the end of the threads")
    descriptors, threads = left()
    way.sweep(nodes, login_s=1)
    wait_until(lambda: left()[0] <= descriptors and left()[1] <= threads,
               what="as few descriptors and threads as before")


# whom to trust

def fingerprint(key: Path) -> str:
    return subprocess.run(["ssh-keygen", "-lf", f"{key}.pub"], capture_output=True, text=True,
                          check=True).stdout.split()[1]


def test_an_unknown_host_is_refused_with_its_fingerprint_and_how_to_enrol_it(
    way: Way, plain_sshd: Sshd, tmp_path: Path,
) -> None:
    reason = refusal(way.one(plain_sshd.node(**known(tmp_path, ""))), Stage.HOST_KEY)
    assert fingerprint(plain_sshd.host_keys["ed25519"]) in reason
    assert "muster inventory enroll n1" in reason
    assert (tmp_path / "known_hosts").read_text() == ""


def test_a_host_is_not_trusted_because_its_configuration_says_so(
    way: Way, plain_sshd: Sshd, tmp_path: Path,
) -> None:
    config = "Host *\n StrictHostKeyChecking no\n NoHostAuthenticationForLocalhost yes\n CheckHostIP no\n"
    refusal(way.one(plain_sshd.node(**known(tmp_path, "")), config=config), Stage.HOST_KEY)


def test_a_changed_key_is_refused_with_the_line_that_holds_the_old_one(
    way: Way, plain_sshd: Sshd, tmp_path: Path,
) -> None:
    changes = known(tmp_path,
                    f"# a comment\n{plain_sshd.known_name} {public(make_key(tmp_path / 'other'))}\n")
    reason = refusal(way.one(plain_sshd.node(**changes)), Stage.HOST_KEY)
    assert "has changed" in reason
    assert f"{tmp_path}/known_hosts:2" in reason
    assert "muster inventory enroll n1 --replace n1" in reason


def test_revoked_keys_are_refused(way: Way, plain_sshd: Sshd, tmp_path: Path) -> None:
    key = public(plain_sshd.host_keys["ed25519"])
    changes = known(tmp_path, f"{plain_sshd.known_name} {key}\n@revoked * {key}\n")
    assert "revoked" in refusal(way.one(plain_sshd.node(**changes)), Stage.HOST_KEY)
    file = tmp_path / "revoked"
    assert "cannot be read" in refusal(
        way.one(plain_sshd.node(), config=f"Host *\n RevokedHostKeys {file}\n"), Stage.HOST_KEY)
    file.write_text(f"{key}\n")
    assert "revokes" in refusal(way.one(plain_sshd.node(), config=f"Host *\n RevokedHostKeys {file}\n"),
                                Stage.HOST_KEY)


def test_a_key_that_is_not_authorised_is_named_with_what_the_server_allows(
    way: Way, plain_sshd: Sshd, tmp_path: Path,
) -> None:
    other = make_key(tmp_path / "other")
    reply = way.one(plain_sshd.node(identity_file=(str(other),)))
    reason = refusal(reply, Stage.AUTH)
    assert str(other) in reason
    assert "allows publickey" in reason
    assert reply.attempts == 1


def test_after_too_many_keys_the_reason_says_what_to_do(way: Way, plain_sshd: Sshd, tmp_path: Path) -> None:
    keys = tuple(str(make_key(tmp_path / f"k{number}")) for number in range(8))
    reason = refusal(way.one(plain_sshd.node(identity_file=keys)), Stage.AUTH)
    assert "Too many authentication failures" in reason
    assert way.openssh or "closed the connection" in reason


def test_a_server_that_asks_for_two_keys_gets_them(way: Way, tmp_path: Path) -> None:
    second = make_key(tmp_path / "second")
    with sshd(tmp_path / "d", config="AuthenticationMethods publickey,publickey") as server:
        with server.authorized.open("a") as file:
            file.write(f"{public(second)}\n")
        both = server.node(identity_file=(str(server.user_key), str(second)))
        assert way.one(both).body == b"well"
        reason = refusal(way.one(server.node()), Stage.AUTH)
    assert way.openssh or "asks for more (publickey)" in reason


def test_an_encrypted_key_without_an_agent_is_named(way: Way, tmp_path: Path) -> None:
    with sshd(tmp_path / "d", user_key=make_key(tmp_path / "key", "ed25519", "secret")) as server:
        reason = refusal(way.one(server.node()), Stage.AUTH)
    assert f"{tmp_path}/key" in reason
    assert "encrypted" in reason
    assert way.openssh or f"{tmp_path}/key is encrypted" in reason


def test_a_key_in_the_agent_logs_in(way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = make_key(tmp_path / "key")
    with sshd(tmp_path / "d", user_key=key) as server, agent(tmp_path, key) as path:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
        assert way.one(server.node(identity_file=())).body == b"well"


def test_an_agent_that_never_answers_is_stage_auth_within_its_limit(
        way: Way, plain_sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "agent"))
        server.listen()
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
        began = time.monotonic()
        # OpenSSH asks the agent before it says so, at the end of the key exchange.
        reply = way.one(plain_sshd.node(), auth_s=2)
        assert time.monotonic() - began < 12
    if reply.body is None:
        refusal(reply, Stage.AUTH)


# certificates

def certify(authority: Path, key: Path, *options: str) -> None:
    subprocess.run(["ssh-keygen", "-q", "-s", str(authority), "-I", "test", *options, f"{key}.pub"],
                   check=True)


def test_a_user_certificate_logs_in_where_only_the_authority_is_known(way: Way, tmp_path: Path) -> None:
    authority, key = make_key(tmp_path / "ca"), make_key(tmp_path / "key")
    with sshd(tmp_path / "d", config=f"TrustedUserCAKeys {authority}.pub") as server:
        refusal(way.one(server.node(identity_file=(str(key),))), Stage.AUTH)
        certify(authority, key, "-n", server.user)
        assert way.one(server.node(identity_file=(str(key),))).body == b"well"


def certified(folder: Path, *options: str) -> contextlib.AbstractContextManager[Sshd]:
    host = make_key(folder / "certified")
    certify(make_key(folder / "ca"), host, "-h", *options)
    return sshd(folder / "d", config=f"HostKey {host}\nHostCertificate {host}-cert.pub")


def test_a_host_certificate_is_trusted_by_ssh_and_refused_with_its_reason_by_paramiko(
    way: Way, tmp_path: Path,
) -> None:
    with certified(tmp_path, "-n", "127.0.0.1,n1") as server:
        node = server.node(**known(tmp_path, f"@cert-authority [127.0.0.1]:* {public(tmp_path / 'ca')}\n"))
        reply = way.one(node)
    if way.openssh:
        assert reply.body == b"well", reply.failure
    else:
        assert "this transport cannot check host certificates" in refusal(reply, Stage.HOST_KEY)


@pytest.mark.parametrize("options", [("-n", "another"), ("-n", "127.0.0.1", "-V", "20200101:20200102")],
                         ids=["another name", "expired"])
def test_a_host_certificate_for_another_name_or_another_time_is_refused(
    way: Way, tmp_path: Path, options: tuple[str, ...],
) -> None:
    with certified(tmp_path, *options) as server:
        node = server.node(**known(tmp_path, f"@cert-authority [127.0.0.1]:* {public(tmp_path / 'ca')}\n"))
        reason = refusal(way.one(node), Stage.HOST_KEY)
    assert "ertificate" in reason


# jump hosts

def test_nodes_behind_a_jump_host_answer(way: Way, plain_sshd: Sshd, bastion: Sshd) -> None:
    before = bastion.logins
    replies = way.sweep([plain_sshd.node(f"n{number}", proxy_jump="bastion") for number in range(4)],
                        config=bastion.entry())
    assert [reply.failure for reply in replies.values()] == [None] * 4
    assert bastion.logins > before


def test_the_files_that_the_inventory_names_for_a_node_count_for_its_jump_host_too(
    way: Way, plain_sshd: Sshd, bastion: Sshd,
) -> None:
    node = plain_sshd.node(proxy_jump=f"{bastion.user}@127.0.0.1:{bastion.port}",
                           identity_file=(str(plain_sshd.user_key), str(bastion.user_key)),
                           known_hosts_file=(str(plain_sshd.known_hosts), str(bastion.known_hosts)))
    assert way.one(node).body == b"well"


def test_a_jump_host_whose_key_is_not_known_is_refused_and_named(
    way: Way, plain_sshd: Sshd, bastion: Sshd, tmp_path: Path,
) -> None:
    config = bastion.entry().replace(str(bastion.known_hosts),
                                      str(tmp_path / "empty")) + "Host *\n StrictHostKeyChecking no\n"
    reason = refusal(way.one(plain_sshd.node(proxy_jump="bastion"), config=config), Stage.JUMP)
    assert f"127.0.0.1]:{bastion.port}" in reason or "bastion" in reason
    assert not (tmp_path / "empty").exists()


def test_a_node_behind_a_jump_host_must_be_known_itself(
    way: Way, plain_sshd: Sshd, bastion: Sshd, tmp_path: Path,
) -> None:
    node = plain_sshd.node(proxy_jump="bastion", known_hosts_file=(str(tmp_path / "empty"),))
    assert str(plain_sshd.port) in refusal(way.one(node, config=bastion.entry()), Stage.HOST_KEY)


def test_a_jump_host_that_refuses_is_named_for_every_node_behind_it(way: Way, plain_sshd: Sshd) -> None:
    replies = way.sweep([plain_sshd.node(f"n{number}", proxy_jump="bastion") for number in range(3)],
                        config="Host bastion\n HostName 127.0.0.1\n Port 1\n")
    for reply in replies.values():
        assert refusal(reply, Stage.JUMP).startswith("bastion: 127.0.0.1:1 refused")


def test_a_jump_host_without_address_is_called_one(way: Way, plain_sshd: Sshd) -> None:
    reason = refusal(way.one(plain_sshd.node(proxy_jump="no-such-bastion.invalid")), Stage.JUMP)
    assert reason.startswith("no-such-bastion.invalid: ")


def test_nodes_behind_a_jump_host_that_drops_connections_by_max_startups_are_tried_again(
    way: Way, plain_sshd: Sshd, tmp_path: Path,
) -> None:
    with sshd(tmp_path / "d", config="MaxStartups 2:100:4") as jump:
        replies = way.sweep([plain_sshd.node(f"n{number}", proxy_jump="bastion") for number in range(8)],
                            config=jump.entry(), fanout=8, logins=8)
    assert [reply.failure for reply in replies.values() if reply.body != b"well"] == []


def test_a_jump_host_that_drops_every_connection_is_named_and_may_have_a_second_try(
    way: Way, plain_sshd: Sshd,
) -> None:
    with listener(hangs_up) as port:
        config = f"Host bastion\n HostName 127.0.0.1\n Port {port}\n"
        reply = way.one(plain_sshd.node(proxy_jump="bastion"), config=config, connect_s=1, auth_s=1,
                        node_s=3, twice=False)
    assert str(port) in refusal(reply, Stage.JUMP)
    assert reply.failure is not None and reply.failure.stuck is Stage.JUMP


def test_a_jump_host_that_takes_no_key_is_named(
    way: Way, plain_sshd: Sshd, bastion: Sshd, tmp_path: Path,
) -> None:
    config = bastion.entry().replace(str(bastion.user_key), str(make_key(tmp_path / "other")))
    reason = refusal(way.one(plain_sshd.node(proxy_jump="bastion"), config=config), Stage.JUMP)
    assert "bastion" in reason or str(bastion.port) in reason


def test_a_node_that_the_jump_host_cannot_reach_is_told_apart_from_the_jump_host(
    way: Way, plain_sshd: Sshd, bastion: Sshd,
) -> None:
    reason = refusal(way.one(plain_sshd.node(port=1, proxy_jump="bastion"), config=bastion.entry()),
                     Stage.CONNECT)
    assert "the jump host" in reason
    assert "cannot connect to 127.0.0.1:1" in reason
    assert way.openssh or f"the jump host 127.0.0.1:{bastion.port}" in reason


def test_a_jump_host_that_forbids_forwarding_is_said_to(way: Way, plain_sshd: Sshd, tmp_path: Path) -> None:
    with sshd(tmp_path, config="AllowTcpForwarding no") as server:
        assert "AllowTcpForwarding" in refusal(
            way.one(plain_sshd.node(proxy_jump="bastion"), config=server.entry()), Stage.JUMP)


def test_a_silent_jump_host_is_named_within_its_limit_and_leaves_no_process(
    way: Way, plain_sshd: Sshd,
) -> None:
    with listener(silent) as port:
        began = time.monotonic()
        config = f"Host bastion\n HostName 127.0.0.1\n Port {port}\n"
        reason = refusal(way.one(plain_sshd.node(proxy_jump="bastion"), config=config, connect_s=1, auth_s=1,
                                 twice=False), Stage.JUMP)
        assert time.monotonic() - began < 15
    assert ("bastion" in reason or str(port) in reason) if way.openssh else f"127.0.0.1:{port}" in reason
    wait_until(lambda: not our_ssh(), what="the end of every ssh")


def test_a_silent_node_behind_a_jump_host_is_stage_connect_within_its_limit(
    way: Way, plain_sshd: Sshd, bastion: Sshd,
) -> None:
    with listener(silent) as port:
        refusal(way.one(plain_sshd.node(port=port, proxy_jump="bastion"), config=bastion.entry(),
                        connect_s=1, auth_s=1), Stage.CONNECT)


@pytest.mark.parametrize("jump", ["a", None])
def test_a_circle_of_jump_hosts_is_refused_and_hangs_nothing(
    way: Way, plain_sshd: Sshd, jump: str | None,
) -> None:
    node = plain_sshd.node("a" if jump is None else "n1", proxy_jump=jump)
    assert "through itself" in refusal(way.one(node, config="Host a\n ProxyJump b\nHost b\n ProxyJump a\n"),
                                       Stage.CONNECT)


def test_a_jump_that_cannot_be_read_is_stage_resolve(way: Way, plain_sshd: Sshd) -> None:
    assert "b/c@@:x" in refusal(way.one(plain_sshd.node(proxy_jump="b/c@@:x")), Stage.RESOLVE)


# root

@pytest.mark.root
@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to create a user and to write a sudoers file")
def test_becoming_root_works_where_it_is_allowed_and_says_why_where_not(way: Way) -> None:
    require(shutil.which("sudo"), "no sudo on this machine: apt-get install -y sudo")
    uid = speaker("answer(str(os.getuid()).encode())")
    with (throwaway_user() as user, tempfile.TemporaryDirectory() as folder,
          sshd(Path(folder), user=user) as server):
        node = server.node(privilege=Privilege.BECOME)
        refusal(way.one(node), Stage.BECOME)
        allow_sudo(user, "{} ALL=(root) ALL")
        assert "NOPASSWD" in refusal(way.one(node), Stage.BECOME)
        allow_sudo(user, "{} ALL=(root) NOPASSWD: ALL")
        assert way.one(node, uid).body == b"0"
        assert way.one(server.node(), uid).body not in (b"0", None)
        note = Path(folder) / "note"
        refusal(way.one(node, speaker(waits(note)), node_s=3), Stage.DEADLINE)
        gone(note)


# connections that are kept

def cut(server: Sshd) -> None:
    for pid in server.serving:
        os.kill(pid, 15)
    wait_until(lambda: not server.serving, what="the end of the connections")


def sweep_of(
    transport: Transport, *nodes: Node, program: Program | None = None, **limits: Any,
) -> dict[str, Reply]:
    return {reply.node: reply
            for reply in transport.run(nodes, program or speaker(), replace(LIMITS, **limits))}


def test_sweeps_log_in_once_and_again_after_a_loss_and_the_end_leaves_nothing(
    kept: Way, tmp_path: Path,
) -> None:
    with sshd(tmp_path / "d") as server, kept.opened() as transport:
        for expected in (1, 1, 1):
            assert sweep_of(transport, server.node())["n1"].body == b"well"
            assert server.logins == expected
        cut(server)
        for expected in (2, 2):
            reply = sweep_of(transport, server.node())["n1"]
            assert reply.body == b"well", reply.failure
            assert server.logins == expected
        transport.close()  # type: ignore[attr-defined]
        wait_until(lambda: not server.serving and not our_ssh(), what="the end of what was kept")


def test_a_program_that_ends_with_255_is_told_from_a_kept_connection_that_is_lost(
    kept: Way, tmp_path: Path,
) -> None:
    with sshd(tmp_path / "d") as server, kept.opened() as transport:
        assert sweep_of(transport, server.node())["n1"].body == b"well"
        reply = sweep_of(transport, server.node(), program=speaker("sys.exit(255)"))["n1"]
        assert "the program ended without an answer (exit 255)" in refusal(reply, Stage.REPLY)


def test_a_kept_connection_that_is_cut_while_a_program_works_is_said_to_be_lost(
    kept: Way, tmp_path: Path,
) -> None:
    note = tmp_path / "pid"
    with sshd(tmp_path / "d") as server, kept.opened() as transport:
        assert sweep_of(transport, server.node())["n1"].body == b"well"
        replies: list[Reply] = []
        thread = threading.Thread(target=lambda: replies.append(
            sweep_of(transport, server.node(), program=speaker(waits(note)))["n1"]))
        thread.start()
        noted(note)
        cut(server)
        thread.join(20)
    assert "the connection to" in refusal(replies[0], Stage.REPLY)


def test_a_kept_connection_that_fell_silent_is_made_anew_within_its_limits(kept: Way, tmp_path: Path) -> None:
    with sshd(tmp_path / "d") as server, relay(server.port) as between, kept.opened() as transport:
        server.known_hosts.write_text(f"[127.0.0.1]:{between.port} {public(server.host_keys['ed25519'])}\n")
        node = server.node(port=between.port)
        assert sweep_of(transport, node)["n1"].body == b"well"
        between.freeze()
        began = time.monotonic()
        reply = sweep_of(transport, node, connect_s=1)["n1"]
        assert reply.body == b"well", reply.failure
        assert time.monotonic() - began < 8


def test_the_way_through_a_jump_host_is_kept_and_made_anew(
    kept: Way, plain_sshd: Sshd, tmp_path: Path,
) -> None:
    with sshd(tmp_path / "d") as jump, kept.opened(jump.entry()) as transport:
        node = plain_sshd.node(proxy_jump="bastion")
        for _ in range(3):
            assert sweep_of(transport, node)["n1"].body == b"well"
        assert jump.logins == 1
        cut(jump)
        for _ in range(2):
            reply = sweep_of(transport, node)["n1"]
            assert reply.body == b"well", reply.failure
        assert jump.logins == 2


@pytest.mark.root
@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to create a user and to write a sudoers file")
def test_another_privilege_counts_from_the_next_sweep_on_the_same_connection(kept: Way) -> None:
    require(shutil.which("sudo"), "no sudo on this machine: apt-get install -y sudo")
    uid = speaker("answer(str(os.getuid()).encode())")
    with (throwaway_user() as user, tempfile.TemporaryDirectory() as folder,
          sshd(Path(folder), user=user) as server):
        with kept.opened() as transport:
            own = str(pwd.getpwnam(user).pw_uid).encode()
            become = server.node(privilege=Privilege.BECOME)
            assert sweep_of(transport, server.node(), program=uid)["n1"].body == own
            allow_sudo(user, "{} ALL=(root) NOPASSWD: ALL")
            assert sweep_of(transport, become, program=uid)["n1"].body == b"0"
            assert sweep_of(transport, server.node(), program=uid)["n1"].body == own
            assert server.logins == 1
            allow_sudo(user)
            refusal(sweep_of(transport, become, program=uid)["n1"], Stage.BECOME)
            assert sweep_of(transport, server.node(), program=uid)["n1"].body == own
        wait_until(lambda: not server.serving, what="the end of what was kept")
