"""Servers that speak SSH and mean harm: the sweep ends whatever they send without end."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import paramiko
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from paramiko.common import cMSG_IGNORE, cMSG_USERAUTH_BANNER

from inventory.hostkeys import KnownHosts
from inventory.model import Node
from inventory.sshconfig import SshConfig
from inventory.sshtarget import target_for
from inventory.transport.base import Failure, Limits, Stage
from inventory.transport.keys import Identities
from inventory.transport.link import SshConnection, Trust
from inventory.transport.watch import TaskFailed, Watchdog, WatchedTask
from inventory.transport.wire import TcpStream
from tests.inventory.transport.sweeps import one, refusal
from tests.testbed.sshd import listener, make_key, public
from tests.tries import tries

KINDS = (1, 2, 3, 4, 7, 20, 21, 30, 31, 50, 51, 52, 60, 80, 90, 94, 250)


def ignored() -> paramiko.Message:
    message = paramiko.Message()
    message.add_byte(cMSG_IGNORE)
    message.add_string(bytes(30000))
    return message


def banner() -> paramiko.Message:
    message = paramiko.Message()
    message.add_byte(cMSG_USERAUTH_BANNER)
    message.add_string("welcome " * 4000)
    message.add_string("")
    return message


def packet(payload: bytes) -> bytes:
    """The payload as an SSH packet before encryption."""
    padding = 4 + -(len(payload) + 9) % 8
    return (len(payload) + padding + 1).to_bytes(4, "big") + bytes([padding]) + payload + bytes(padding)


class Undecided(paramiko.ServerInterface):
    """Asked about a user, sends the message without end."""

    def __init__(self, transport: paramiko.Transport, message: Callable[[], paramiko.Message]) -> None:
        self.transport = transport
        self.message = message

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        while self.transport.is_active():
            self.transport._send_message(self.message())  # type: ignore[attr-defined]
        return paramiko.AUTH_FAILED


@pytest.fixture
def host_key(tmp_path: Path) -> Path:
    return make_key(tmp_path / "host")


def node_at(port: int, host_key: Path) -> Node:
    known_hosts = host_key.with_name("known_hosts")
    known_hosts.write_text(f"[127.0.0.1]:{port} {public(host_key)}\n")
    return Node("n1", address="127.0.0.1", port=port, user="root", identity_file=(str(host_key),),
                known_hosts_file=(str(known_hosts),))


@pytest.mark.parametrize("message", [ignored, banner])
def test_a_server_that_floods_the_login_is_stage_auth_long_before_its_time_is_over(
    host_key: Path, message: Callable[[], paramiko.Message],
) -> None:
    def serve(connection: socket.socket) -> None:
        transport = paramiko.Transport(connection)
        transport.add_server_key(paramiko.Ed25519Key.from_private_key_file(str(host_key)))
        transport.start_server(server=Undecided(transport, message))
        transport.join()

    with listener(serve) as port:
        reply = one(node_at(port, host_key), auth_s=20, node_s=25)
    assert "floods the connection" in refusal(reply, Stage.AUTH)
    assert reply.received - reply.started < 15


def test_a_server_that_floods_the_key_exchange_is_stage_connect_and_not_tried_again(host_key: Path) -> None:
    def serve(connection: socket.socket) -> None:
        connection.sendall(b"SSH-2.0-endless\r\n")
        while True:
            connection.sendall(packet(ignored().asbytes()))

    with listener(serve) as port:
        reply = one(node_at(port, host_key))
    assert "floods the connection" in refusal(reply, Stage.CONNECT)
    assert reply.attempts == 1


def test_a_packet_larger_than_ssh_allows_is_stage_connect(host_key: Path) -> None:
    def serve(connection: socket.socket) -> None:
        connection.sendall(b"SSH-2.0-huge\r\n" + (2**31).to_bytes(4, "big") + os.urandom(64))
        connection.recv(1)
        while connection.recv(65536):
            pass

    with listener(serve) as port:
        reply = one(node_at(port, host_key))
    assert "packet" in refusal(reply, Stage.CONNECT)


@settings(max_examples=tries(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(payloads=st.lists(st.tuples(st.sampled_from(KINDS), st.binary(max_size=80)), min_size=1, max_size=4))
def test_whatever_comes_after_the_banner_is_a_value_and_no_thread_trips_over_it(
    host_key: Path, payloads: list[tuple[int, bytes]],
) -> None:
    def serve(connection: socket.socket) -> None:
        connection.sendall(
            b"SSH-2.0-odd\r\n" + b"".join(packet(bytes([kind]) + rest) for kind, rest in payloads))
        connection.shutdown(socket.SHUT_WR)

    with listener(serve) as port:
        reply = one(node_at(port, host_key), node_s=0.5)
    refusal(reply, Stage.CONNECT)


class Odd:
    """A stream that fails in a way that paramiko's reader does not expect."""

    def recv(self, nbytes: int, /) -> bytes:
        raise OSError("one argument only")

    def send(self, data: bytes, /) -> int:
        return len(data)

    def close(self) -> None:
        pass


def test_an_error_that_paramiko_trips_over_ends_the_connection_without_a_traceback() -> None:
    watch = Watchdog()
    node = Node("n1", address="127.0.0.1")
    link = SshConnection(TcpStream(Odd(), lambda: None), target_for(node, SshConfig.parse("")))
    with pytest.raises(TaskFailed):
        link.open(WatchedTask(watch, time.monotonic() + 10),
                  Trust(KnownHosts([]), None, lambda: Identities(())), Limits())
    watch.stop(Failure(Stage.DEADLINE, "over"))
