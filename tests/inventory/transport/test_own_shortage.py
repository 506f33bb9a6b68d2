"""What this machine lacks is no node's fault: descriptors, threads, ports, an answer of its resolver."""

from __future__ import annotations

import errno
import os
import resource
import selectors
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import paramiko
import pytest

from inventory.model import Node, Via
from inventory.sshconfig import SshConfig
from inventory.sshjump import Hop
from inventory.sshroute import route_for
from inventory.transport.base import NOT_ITS_FAULT, Failure, Limits, Program, Reply, Stage
from inventory.transport.lifelines import Lifelines
from inventory.transport.openssh import OpensshTransport
from inventory.transport.openssh_hops import HopProbes
from inventory.transport.ssh import SshTransport
from inventory.transport.watch import NodeJob, Watchdog, fan_out
from tests.inventory.transport.speaker import speaker
from tests.inventory.transport.ways import Way
from tests.testbed.ports import free_port
from tests.testbed.sshd import Sshd, wait_until

PROGRAM = Program("0123456789abcdef", "pass", b"")
NODE = Node("n1", address="127.0.0.1", port=1)


@contextmanager
def at_most(descriptors: int) -> Iterator[None]:
    """No descriptor above these can be opened by this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def why(transport: SshTransport | OpensshTransport, node: Node = NODE) -> Failure:
    (reply,) = transport.run([node], PROGRAM, Limits(sweep_s=20, connect_s=2, twice=False))
    assert isinstance(reply, Reply) and reply.failure is not None
    return reply.failure


@pytest.mark.parametrize("via", ["paramiko", "openssh"])
@pytest.mark.parametrize("more", [2, 4])
def test_no_free_descriptor(via: str, more: int) -> None:
    way = SshTransport(SshConfig.parse("")) if via == "paramiko" else OpensshTransport(())
    why(way)        # what is opened once is open
    free = [os.dup(0) for _ in range(more + 1)]     # whatever earlier tests have left open between them
    for each in free:
        os.close(each)
    with at_most(free[more if via == "openssh" else 0]):
        found = why(way)
    assert found.stage is Stage.HEAD and "Too many open files" in found.reason, found
    assert found.stuck is not None, "it may be tried once more when others have ended"


@pytest.mark.parametrize("lacks", ["subprocess.Popen", "tempfile.NamedTemporaryFile"])
def test_nothing_to_look_at_a_jump_host_with(lacks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **options: object) -> object:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    probes = HopProbes("ssh", {})
    monkeypatch.setattr(lacks, refuse)
    found = probes.culprit("/dev/null", (Hop("bastion"),), 1)
    assert found is not None
    assert (found.stage, found.stuck) == (Stage.HEAD, Stage.CONNECT)
    assert "Too many open files" in found.reason


@pytest.mark.parametrize("number",
                         [errno.EADDRNOTAVAIL, errno.ENOBUFS, errno.ENETDOWN, errno.ENETUNREACH, errno.EPERM])
def test_a_connection_that_this_machine_could_not_begin(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(sock: socket.socket, address: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(socket.socket, "connect", refuse)
    found = why(SshTransport(SshConfig.parse("")))
    assert (found.stage, os.strerror(number) in found.reason) == (Stage.HEAD, True)


@pytest.mark.parametrize("number", [errno.ENETUNREACH, errno.EAFNOSUPPORT])
@pytest.mark.parametrize("first", [True, False])
def test_an_address_that_this_machine_cannot_ask_excuses_no_node_whose_other_address_refuses(
    number: int, first: bool, monkeypatch: pytest.MonkeyPatch,
) -> None:
    port = free_port()
    found = [(family, socket.SOCK_STREAM, 6, "", (address, port))
             for family, address in ((socket.AF_INET6, "2001:db8::1"), (socket.AF_INET, "127.0.0.1"))]
    real = socket.socket.connect

    def open_(family: int, *more: Any) -> socket.socket:
        if family == socket.AF_INET6 and number == errno.EAFNOSUPPORT:
            raise OSError(number, os.strerror(number))
        return made(socket.AF_INET if family == socket.AF_INET6 else family, *more)

    def connect(sock: socket.socket, address: Any) -> None:
        if address[0] == "2001:db8::1":
            raise OSError(number, os.strerror(number))
        real(sock, address)

    made = socket.socket
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **more: found if first else found[::-1])
    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket, "socket", open_)
    failure = why(SshTransport(SshConfig.parse("")), Node("n1", port=port))
    assert failure.stage is Stage.CONNECT and "refused" in failure.reason, failure


@pytest.mark.parametrize("error", [
    socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"),
    socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
    OSError(errno.EMFILE, "Too many open files"),
])
def test_a_resolver_without_an_address(error: OSError, monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(*args: object, **options: object) -> object:
        raise error

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert why(SshTransport(SshConfig.parse("")), Node("n1")).stage in NOT_ITS_FAULT


def test_no_free_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watchdog()
    real = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        if thread.name.startswith("muster-n"):
            raise RuntimeError("can't start new thread")
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    (reply,) = fan_out([NODE], Limits(sweep_s=5), lambda job: b"", watch)
    assert reply.failure is not None and reply.failure.stage is Stage.HEAD
    assert reply.attempts == 2, "the second try may find one"


@pytest.mark.parametrize(("way", "jump", "thread"), [
    ("openssh", None, "muster-reap"), ("local", None, "muster-reap"),
    ("paramiko", "bastion", "muster-close")])
def test_no_free_thread_to_tidy_up_with_costs_no_answer(
    way: str, jump: str | None, thread: str, plain_sshd: Sshd, bastion: Sshd, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = threading.Thread.start
    refused: list[str] = []

    def start(one: threading.Thread) -> None:
        if one.name == thread:
            refused.append(one.name)
            raise RuntimeError("can't start new thread")
        real(one)

    monkeypatch.setattr(threading.Thread, "start", start)
    reply = Way(way, tmp_path).one(plain_sshd.node(proxy_jump=jump), config=bastion.entry(), twice=False)
    assert reply.body == b"well", reply.failure
    assert refused
    wait_until(lambda: not subprocess._active or subprocess._cleanup(),  # type: ignore[attr-defined]
               what="the end of the child")


def test_lifelines_wait_for_a_free_descriptor_and_take_no_core_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real, times = Lifelines._accept, [0]

    def accept(self: Lifelines, ready: selectors.BaseSelector) -> None:
        times[0] += 1
        real(self, ready)

    monkeypatch.setattr(Lifelines, "_accept", accept)
    lines = Lifelines()
    with socket.create_connection(("127.0.0.1", lines.port)) as first:
        first.sendall(f"{lines.greeting('s')} 0\n".encode())
        wait_until(lambda: lines._lines, what="the first line")
        with socket.socket() as line:
            before, began = times[0], time.monotonic()
            with at_most(0):
                line.connect(("127.0.0.1", lines.port))
                line.sendall(f"{lines.greeting('s')} 1\n".encode())
                wait_until(lambda: times[0] >= before + 4, what="the fourth try")
            assert time.monotonic() - began > 0.5, "it waits between its tries"
            wait_until(lambda: len(lines._lines) == 2, what="the line that waited")
            lines.close()
            assert line.recv(1) == first.recv(1) == b""


# A jump host has two tries at once, each in a thread that another waits for.
@pytest.mark.parametrize(("name", "times"), [("muster-gate-", 1), ("muster-jump-", 2)])
def test_no_free_thread_to_connect_to_a_jump_host_with(
    name: str, times: int, plain_sshd: Sshd, bastion: Sshd, monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = threading.Thread.start
    refused: list[str] = []

    def start(thread: threading.Thread) -> None:
        if thread.name.startswith(name) and len(refused) < times:
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    (reply,) = SshTransport(SshConfig.parse(bastion.entry())).run(
        [plain_sshd.node(proxy_jump="bastion")], speaker(), Limits(sweep_s=20))
    assert reply.first is not None and reply.first.stage is Stage.HEAD
    assert reply.body == b"well", reply.failure


@pytest.mark.parametrize("jump", [None, "bastion"])
def test_a_key_file_that_could_not_be_opened_for_want_of_a_descriptor_is_read_by_the_second_try(
    jump: str | None, plain_sshd: Sshd, bastion: Sshd, monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = paramiko.PKey.from_path
    refused = [0]

    def from_path(path: str) -> paramiko.PKey:
        refused[0] += 1
        if refused[0] < 3:      # a jump host has two tries at once
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(path)

    monkeypatch.setattr(paramiko.PKey, "from_path", from_path)
    nodes = [plain_sshd.node(f"n{number}", proxy_jump=jump) for number in range(2)]
    replies = list(SshTransport(SshConfig.parse(bastion.entry())).run(nodes, speaker(), Limits(sweep_s=20)))
    assert [reply.body for reply in replies] == [b"well"] * 2, replies
    assert {reply.first and reply.first.stage for reply in replies} == {Stage.HEAD}


@pytest.mark.parametrize("jump", [None, "bastion"])
def test_a_known_hosts_file_that_could_not_be_opened_for_want_of_a_descriptor_makes_no_host_unknown(
    jump: str | None, plain_sshd: Sshd, bastion: Sshd, monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = Path.open
    file = plain_sshd.known_hosts if jump is None else bastion.known_hosts
    refused = [0]

    def open_(path: Path, *args: Any, **options: Any) -> Any:
        if path == file and refused[0] < 4:     # the nodes together, one by itself, a jump host twice
            refused[0] += 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(path, *args, **options)

    monkeypatch.setattr(Path, "open", open_)
    (reply,) = SshTransport(SshConfig.parse(bastion.entry())).run(
        [plain_sshd.node(proxy_jump=jump, transport=Via.PARAMIKO)], speaker(), Limits(sweep_s=20))
    failures = [each for each in (reply.first, reply.failure) if each is not None]
    assert failures and {each.stage for each in failures} == {Stage.HEAD}, reply


def test_a_list_of_revoked_keys_that_could_not_be_opened_for_want_of_a_descriptor_is_read_by_the_second_try(
    plain_sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = Path.open
    file = tmp_path / "revoked"
    file.write_text("")
    refused = [0]

    def open_(path: Path, *args: Any, **options: Any) -> Any:
        if path == file and not refused[0]:
            refused[0] += 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(path, *args, **options)

    monkeypatch.setattr(Path, "open", open_)
    (reply,) = SshTransport(SshConfig.parse(f"RevokedHostKeys {file}\n")).run(
        [plain_sshd.node(transport=Via.PARAMIKO)], speaker(), Limits(sweep_s=20))
    assert reply.body == b"well", reply.failure
    assert reply.first is not None and reply.first.stage is Stage.HEAD


@pytest.mark.parametrize(("name", "data", "config"), [
    ("known", b"@cert-authority * ssh-ed25519 "
              b"AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f\n",
     "UserKnownHostsFile"),
    ("revoked", b"SSHKRL\n\0", "RevokedHostKeys"),
    ("key", b"sk-ssh-ed25519@openssh.com AAAA x\n", "IdentityFile")])
def test_which_ssh_a_node_takes_is_not_decided_for_want_of_a_descriptor(
    tmp_path: Path, name: str, data: bytes, config: str,
) -> None:
    file = tmp_path / name
    file.write_bytes(data)
    node, parsed = Node("n1", transport=Via.AUTO), SshConfig.parse(f"{config} {file}\n")
    with at_most(0), pytest.raises(OSError, match="Too many open files"):
        route_for(node, parsed)
    assert route_for(node, parsed).via is Via.OPENSSH, "and no wrong answer was kept"


def test_a_line_that_cannot_be_watched_ends_and_those_after_it_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real, refused = selectors.DefaultSelector.register, [False]

    def register(self: Any, line: Any, *rest: Any) -> Any:
        if lines and line not in (lines[0]._listener, lines[0]._waker) and not refused[0]:
            refused[0] = True
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(self, line, *rest)

    lines: list[Lifelines] = []
    monkeypatch.setattr(selectors.DefaultSelector, "register", register)
    lines.append(held := Lifelines())
    with socket.create_connection(("127.0.0.1", held.port)) as lost:
        assert lost.recv(1) == b"" and refused[0]
    with socket.create_connection(("127.0.0.1", held.port)) as line:
        line.sendall(f"{held.greeting('s')} 1\n".encode())
        wait_until(lambda: held._lines, what="the line after it")
    held.close()


def test_no_free_descriptor_for_the_work_itself_may_have_a_second_try_unless_the_program_began() -> None:
    def work(job: NodeJob) -> bytes:
        if job.node.name == "begun":
            job.python = "3.11"
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    replies = {reply.node: reply for reply in fan_out([NODE, Node("begun")], Limits(sweep_s=5), work,
                                                      Watchdog())}
    assert {name: (reply.failure and reply.failure.stage, reply.attempts)
            for name, reply in replies.items()} == {"n1": (Stage.HEAD, 2), "begun": (Stage.HEAD, 1)}


def test_a_defect_of_ours() -> None:
    def work(job: NodeJob) -> bytes:
        job.task.step(5, lambda _: Failure(Stage.LOGIN, "late"))
        raise KeyError("x")

    (reply,) = fan_out([NODE], Limits(sweep_s=5), work, Watchdog())
    assert reply.failure is not None
    assert (reply.failure.stage, reply.failure.reason) == (Stage.HEAD,
                                                           "unexpected KeyError at login: \"'x'\"")


def test_a_node_that_refuses_is_itself_to_blame() -> None:
    port = free_port()
    assert why(SshTransport(SshConfig.parse("")),
               Node("n1", address="127.0.0.1", port=port)).stage is Stage.CONNECT
