"""The SSH transport against real sshd processes: answers, and every stage at which there is none."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

from inventory.errors import ConfigError
from inventory.model import Node
from inventory.sshconfig import SshConfig
from inventory.transport.base import Stage
from inventory.transport.ssh import SshTransport
from tests.inventory.transport.client import client
from tests.inventory.transport.speaker import speaker
from tests.inventory.transport.sweeps import LIMITS, one, refusal, sweep
from tests.testbed.ports import free_port
from tests.testbed.processes import alive
from tests.testbed.sshd import (
    Sshd,
    flooder,
    full_backlog,
    hangs_after_banner,
    hangs_up,
    listener,
    silent,
    sshd,
    wait_until,
    web_server,
)


def hung_python(folder: Path) -> Path:
    """Something that is called Python, and starts, and then waits."""
    hung = folder / "python3"
    hung.write_text("#!/bin/sh\nexec cat >/dev/null\n")
    hung.chmod(0o755)
    return hung


def test_a_node_answers(plain_sshd: Sshd) -> None:
    reply = one(plain_sshd.node(), speaker("answer(b'well')"))
    assert (reply.body, reply.failure, reply.attempts) == (b"well", None, 1)
    assert reply.python == f"{sys.version_info[0]}.{sys.version_info[1]}" or reply.python
    assert reply.started <= reply.received
    assert reply.sent_bytes == len(speaker("answer(b'well')").payload)
    assert reply.received_bytes > len(b"well")


def test_many_nodes_answer_each_for_itself_in_any_order(plain_sshd: Sshd) -> None:
    replies = sweep([plain_sshd.node(f"n{number}") for number in range(20)], fanout=5)
    assert {name: reply.body for name, reply in replies.items()} == {
        f"n{number}": b"well" for number in range(20)}


def test_no_nodes_are_no_replies() -> None:
    assert sweep([]) == {}


def test_a_large_answer_arrives_whole(plain_sshd: Sshd) -> None:
    reply = one(plain_sshd.node(), speaker("answer(bytes(range(256)) * 40000)"))
    assert reply.body == bytes(range(256)) * 40000


def test_extras_are_sent_on_request_even_when_they_are_larger_than_the_window(plain_sshd: Sshd) -> None:
    extra = os.urandom(1 << 20) * 6
    reply = one(plain_sshd.node(),
                speaker("data = want('big'); answer(hashlib.sha256(data).digest() + "
                        "str(len(want('other'))).encode())",
                        extras={"big": extra}))
    assert reply.body is not None, reply.failure
    assert reply.body[32:] == b"0"
    assert reply.sent_bytes > len(extra)


def test_a_node_that_floods_both_outputs_before_it_reads_does_not_stop_the_conversation(
    plain_sshd: Sshd,
) -> None:
    program = speaker("""
        for _ in range(160):
            sys.stderr.buffer.write(b'e' * 65536)
        sys.stderr.flush()
        for _ in range(9):
            OUT.write(b'o' * 99999 + b'\\n')
        OUT.flush()
        answer(hashlib.sha256(want('big')).digest())
    """, extras={"big": b"x" * 5_000_000})
    reply = one(plain_sshd.node(), program)
    assert reply.body is not None, reply.failure
    assert reply.received_bytes > 10_000_000


def test_banners_and_noise_before_the_answer_are_skipped(tmp_path: Path) -> None:
    banner = tmp_path / "banner"
    banner.write_text("Authorised use only. \x1b[2J\n" * 3000)
    noisy = tmp_path / "noisy"
    noisy.write_text("#!/bin/sh\nhead -c 70000 /dev/zero | tr '\\0' x; echo; echo muster:login; eval "
                     "\"$SSH_ORIGINAL_COMMAND\"\n")
    noisy.chmod(0o755)
    with sshd(tmp_path / "d", config=f"Banner {banner}\nForceCommand {noisy}") as server:
        assert one(server.node()).body == b"well"


# how far we came

def test_a_name_without_an_address_is_stage_resolve() -> None:
    assert "no-such-host.invalid" in refusal(one(Node("no-such-host.invalid")), Stage.RESOLVE)


def test_a_name_that_cannot_be_one_is_stage_resolve() -> None:
    refusal(one(Node("n1", address="a" * 70 + ".invalid")), Stage.RESOLVE)


def test_a_resolver_that_hangs_holds_up_neither_the_sweep_nor_the_other_nodes(
    plain_sshd: Sshd, monkeypatch: pytest.MonkeyPatch,
) -> None:
    close_process = threading.Event()
    real = socket.getaddrinfo

    def hang(host: str, *args: object, **kwargs: object) -> object:
        if host == "hung":
            close_process.wait(60)
        return real(host, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    began = time.monotonic()
    replies = sweep([*(Node(f"h{number}", address="hung") for number in range(4)), plain_sshd.node()],
                    connect_s=1, fanout=2)
    close_process.set()
    assert time.monotonic() - began < 8
    assert replies["n1"].body == b"well"
    assert "the resolver did not answer for hung" in refusal(replies["h3"], Stage.RESOLVE)


def test_a_refused_connection_is_stage_connect_and_not_tried_again() -> None:
    reply = one(Node("n1", address="127.0.0.1", port=free_port()))
    assert "refused" in refusal(reply, Stage.CONNECT)
    assert reply.attempts == 1


def test_a_host_that_drops_packets_is_stage_connect_within_its_limit() -> None:
    with full_backlog() as port:
        began = time.monotonic()
        assert "did not answer" in refusal(one(Node("n1", address="127.0.0.1", port=port), connect_s=1),
                                           Stage.CONNECT)
        assert time.monotonic() - began < 3


def test_a_listener_that_stays_silent_is_stage_connect_within_its_limit() -> None:
    with listener(silent) as port:
        began = time.monotonic()
        assert "sent nothing" in refusal(one(Node("n1", address="127.0.0.1", port=port), connect_s=1),
                                   Stage.CONNECT)
        assert time.monotonic() - began < 3


def test_another_service_on_the_port_is_stage_connect_and_quotes_it() -> None:
    with listener(web_server) as port:
        assert "HTTP/1.0 400" in refusal(one(Node("n1", address="127.0.0.1", port=port)), Stage.CONNECT)


def test_a_flood_in_place_of_a_banner_is_stage_connect_at_once() -> None:
    with listener(flooder) as port:
        began = time.monotonic()
        assert "does not speak SSH" in refusal(one(Node("n1", address="127.0.0.1", port=port)), Stage.CONNECT)
        assert time.monotonic() - began < 5


def test_an_sshd_that_hangs_after_its_banner_is_stage_connect_within_its_limit() -> None:
    with listener(hangs_after_banner) as port:
        began = time.monotonic()
        assert "key exchange" in refusal(one(Node("n1", address="127.0.0.1", port=port), connect_s=1,
                                             auth_s=1), Stage.CONNECT)
        assert time.monotonic() - began < 4


def test_a_server_that_always_hangs_up_is_tried_again_while_there_is_time() -> None:
    with listener(hangs_up) as port:
        reply = one(Node("n1", address="127.0.0.1", port=port), node_s=3)
    assert "before its banner" in refusal(reply, Stage.CONNECT)
    assert reply.attempts > 2


def test_connections_dropped_by_max_startups_are_tried_again_until_all_nodes_answer(tmp_path: Path) -> None:
    with sshd(tmp_path, config="MaxStartups 2:100:4") as server:
        replies = sweep([server.node(f"n{number}") for number in range(16)], fanout=16)
        assert [reply.failure for reply in replies.values() if reply.body != b"well"] == []
        assert max(reply.attempts for reply in replies.values()) > 1


@pytest.mark.parametrize(("shell", "words"),
                         [("echo This account is currently not available.; exit 1",
                           "currently not available"), ("exit 3", "exit 3")])
def test_a_shell_that_ends_without_running_our_command_is_stage_login(
    tmp_path: Path, shell: str, words: str,
) -> None:
    with sshd(tmp_path, config=f"ForceCommand {shell}") as server:
        assert words in refusal(one(server.node()), Stage.LOGIN)


def test_a_shell_that_hangs_is_stage_login_within_its_limit(tmp_path: Path) -> None:
    with sshd(tmp_path, config="ForceCommand echo mounting home; cat >/dev/null") as server:
        began = time.monotonic()
        assert "mounting home" in refusal(one(server.node(), login_s=1), Stage.LOGIN)
        assert time.monotonic() - began < 5


def test_a_node_that_allows_no_sessions_is_stage_login(tmp_path: Path) -> None:
    with sshd(tmp_path, config="MaxSessions 0") as server:
        refusal(one(server.node()), Stage.LOGIN)


def test_a_missing_python_is_stage_python(plain_sshd: Sshd) -> None:
    assert "no-such-python" in refusal(one(plain_sshd.node(python="no-such-python")), Stage.PYTHON)


def test_a_python_that_hangs_is_stage_python(plain_sshd: Sshd, tmp_path: Path) -> None:
    refusal(one(plain_sshd.node(python=str(hung_python(tmp_path))), login_s=1), Stage.PYTHON)


def test_a_python_too_old_is_stage_python(plain_sshd: Sshd, tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\nfor last; do :; done\necho muster:$last:python 3.6; exec cat >/dev/null\n")
    old.chmod(0o755)
    assert "3.8 or newer" in refusal(one(plain_sshd.node(python=str(old))), Stage.PYTHON)


@pytest.mark.parametrize(("source", "words"), [
    ("raise KeyError('lost')", "KeyError: 'lost'"),
    ("answer(b'abc', size=9)", "3 of 9 bytes"),
    ("answer(b'abc', digest='0' * 64)", "checksum"),
    ("answer(b'', size=999999999)", "over the limit"),
    ("line('gibberish')", "another version"),
    ("os.kill(os.getpid(), 9)", "without an answer"),
    ("pass", "without an answer"),
    ("OUT.write(b'z' * 3000000); OUT.flush(); until_end()", "1 MiB"),
])
def test_an_answer_that_is_not_one_is_stage_reply(plain_sshd: Sshd, source: str, words: str) -> None:
    assert words in refusal(one(plain_sshd.node(), speaker(source)), Stage.REPLY)


def test_hostile_bytes_in_errors_reach_a_person_without_control_characters(plain_sshd: Sshd) -> None:
    program = speaker("sys.stderr.buffer.write(b'\\x1b[2J\\x9b31m[red]\\x00\\xff\\r\\n'); sys.exit(1)")
    assert "[red]" in refusal(one(plain_sshd.node(), program), Stage.REPLY)


# time

def test_a_program_that_never_ends_is_stage_deadline_and_is_gone_from_the_node(
    plain_sshd: Sshd, tmp_path: Path,
) -> None:
    note = tmp_path / "pid"
    program = speaker(f"open({str(note)!r}, 'w').write(str(os.getpid())); until_end()")
    began = time.monotonic()
    reply = one(plain_sshd.node(), program, node_s=2)
    assert "at work" in refusal(reply, Stage.DEADLINE)
    assert time.monotonic() - began < 5
    wait_until(lambda: not alive(int(note.read_text())), what="the end of the program")


def test_a_program_that_talks_without_end_is_held_to_the_nodes_deadline_all_the_same(
    plain_sshd: Sshd,
) -> None:
    program = speaker(
        "while True:\n    sys.stderr.write('still here\\n'); sys.stderr.flush(); time.sleep(0.05)")
    began = time.monotonic()
    assert "still here" in refusal(one(plain_sshd.node(), program, node_s=2), Stage.DEADLINE)
    assert time.monotonic() - began < 5


def test_the_sweep_ends_on_time_whatever_its_nodes_do_and_the_others_are_complete(
    plain_sshd: Sshd, tmp_path: Path,
) -> None:
    with listener(silent) as mute, full_backlog() as full:
        nodes = [plain_sshd.node(f"good{number}") for number in range(4)]
        nodes += [Node("mute", address="127.0.0.1", port=mute), Node("full", address="127.0.0.1", port=full),
                  plain_sshd.node("hung", python=str(hung_python(tmp_path)))]
        began = time.monotonic()
        replies = sweep(nodes, sweep_s=3, login_s=60, connect_s=60, node_s=60)
        assert time.monotonic() - began < 5
    assert {replies[f"good{number}"].body for number in range(4)} == {b"well"}
    for name in ("mute", "full", "hung"):
        assert "3 s" in refusal(replies[name], Stage.DEADLINE)


def test_nodes_whose_turn_never_came_have_a_stage_of_their_own_and_say_so(plain_sshd: Sshd) -> None:
    replies = sweep([plain_sshd.node(f"n{number}") for number in range(3)], speaker("until_end()"), sweep_s=2,
                    fanout=1)
    stages = [reply.failure.stage for reply in replies.values() if reply.failure is not None]
    assert sorted(stage.value for stage in stages) == ["deadline", "turn", "turn"]
    assert all("before its turn" in refusal(reply, Stage.TURN) for reply in replies.values()
               if reply.failure is not None and reply.failure.stage is Stage.TURN)


def test_closing_the_iterator_ends_what_runs_on_the_nodes(plain_sshd: Sshd, tmp_path: Path) -> None:
    program = speaker(f"open({str(tmp_path)!r} + '/' + str(os.getpid()), 'w').close(); until_end()")
    refused = Node("refused", address="127.0.0.1", port=free_port())
    replies = SshTransport(SshConfig.parse("")).run([plain_sshd.node("a"), plain_sshd.node("b"), refused],
                                                    program, LIMITS)
    assert next(replies).node == "refused"
    wait_until(lambda: len(list(tmp_path.iterdir())) == 2, what="two programs at work")
    began = time.monotonic()
    replies.close()  # type: ignore[attr-defined]
    assert time.monotonic() - began < 1
    for note in tmp_path.iterdir():
        wait_until(lambda pid=int(note.name): not alive(pid), what="the end of the program")  # type: ignore[misc]


def test_nothing_runs_on_the_node_after_the_client_is_killed(plain_sshd: Sshd, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    process = client(plain_sshd, f"open({str(note)!r}, 'w').write(str(os.getpid())); until_end()", n1={})
    wait_until(lambda: note.exists() and note.read_text(), what="the program at work")
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=10)
    wait_until(lambda: not alive(int(note.read_text())), what="the end of the program")


def test_the_process_ends_at_once_after_the_sweep_and_says_nothing_on_its_terminal(plain_sshd: Sshd) -> None:
    process = client(plain_sshd, "answer(b'well')", n1={}, lost={"python": "/bin/false"})
    out, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, "")
    assert sorted(out.splitlines()) == ["lost None", "n1 b'well'"]


# configuration

def test_a_broken_jump_in_ssh_config_is_said_of_the_node() -> None:
    reply = one(Node("n1", address="127.0.0.1"), config="Host n1\n ProxyJump b/c@@:x\n")
    assert "b/c@@:x" in refusal(reply, Stage.RESOLVE)


def test_a_proxy_command_is_refused_and_never_run(plain_sshd: Sshd, tmp_path: Path) -> None:
    trace = tmp_path / "ran"
    reply = one(plain_sshd.node(), config=f"Host *\n ProxyCommand touch {trace}\n")
    assert "ProxyCommand" in refusal(reply, Stage.CONNECT)
    assert not trace.exists()


def test_ssh_config_gives_what_the_inventory_leaves_out(plain_sshd: Sshd) -> None:
    config = (f"Host gpu1\n HostName 127.0.0.1\n Port {plain_sshd.port}\n User {plain_sshd.user}\n "
              f"IdentityFile {plain_sshd.user_key}\n"
              f" UserKnownHostsFile {plain_sshd.known_hosts}\n")
    assert one(Node("gpu1"), config=config).body == b"well"


def test_a_broken_ssh_config_is_an_error_of_the_user_and_not_of_a_node() -> None:
    with pytest.raises(ConfigError):
        SshConfig.parse("Host a\n Port\n")


def test_no_descriptor_and_no_thread_is_left_after_a_sweep_with_failures(
    plain_sshd: Sshd, tmp_path: Path,
) -> None:
    def left() -> tuple[int, int]:
        return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()

    nodes = [
        plain_sshd.node("good"), plain_sshd.node("python", python="/bin/false"),
        Node("refused", address="127.0.0.1", port=free_port()),
        plain_sshd.node("unknown", known_hosts_file=(str(tmp_path / "none"),)),
        plain_sshd.node("key", identity_file=("/none",)),
        plain_sshd.node("hung", python=str(hung_python(tmp_path)))]
    sweep(nodes, login_s=2)
    before = left()
    for _ in range(3):
        sweep(nodes, login_s=2)
    wait_until(lambda: left() <= before, what="as few descriptors and threads as before")
