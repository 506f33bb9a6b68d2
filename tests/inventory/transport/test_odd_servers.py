"""Servers that are not OpenSSH's, or fail where it seldom does: both ways say the same of them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import paramiko
import pytest

from inventory.model import Node
from inventory.transport.base import Stage
from tests.inventory.transport.sweeps import refusal
from tests.inventory.transport.ways import Way, ways
from tests.testbed.sshd import Sshd, listener, make_key, public

way = ways("paramiko", "openssh", slow=("paramiko kept", "openssh kept"))
# An ssh that keeps its connection does not say that a command was refused.
telling = ways("paramiko", "openssh", slow=("paramiko kept",))


Ends = Callable[[paramiko.Transport], bool]


class Odd(paramiko.ServerInterface):
    """Lets everybody in; `ends` ends the connection when a command is to be run, None refuses to. It says
    whether the command was begun."""

    def __init__(self, transport: paramiko.Transport, ends: Ends | None) -> None:
        self._transport = transport
        self._ends = ends

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return paramiko.common.AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.common.OPEN_SUCCEEDED

    def check_channel_direct_tcpip_request(self, chanid: int, origin: object, destination: object) -> int:
        return paramiko.common.OPEN_FAILED_RESOURCE_SHORTAGE

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        return self._ends is not None and self._ends(self._transport)


@contextmanager
def odd(folder: Path, ends: Ends | None = None) -> Iterator[tuple[int, str]]:
    """Such a server: its port, and what an ssh_config says of it as `odd`."""
    host, user = make_key(folder / "host", "rsa"), make_key(folder / "user")

    def serve(connection: socket.socket) -> None:
        transport = paramiko.Transport(connection)
        transport.add_server_key(paramiko.RSAKey.from_private_key_file(str(host)))
        with suppress(EOFError, paramiko.SSHException):     # who only looks whether it is there hangs up
            transport.start_server(server=Odd(transport, ends))
        transport.join()

    with listener(serve) as port:
        known = folder / "known"
        known.write_text(f"[127.0.0.1]:{port} {public(host)}\n")
        yield port, (f"Host odd\n HostName 127.0.0.1\n Port {port}\n User x\n IdentityFile {user}\n "
                     f"UserKnownHostsFile {known}\n")


def disconnects(transport: paramiko.Transport) -> bool:
    """Says why it ends the connection."""
    message = paramiko.Message()
    message.add_byte(paramiko.common.cMSG_DISCONNECT)
    message.add_int(11)
    message.add_string("going down")
    message.add_string("")
    transport._send_message(message)  # type: ignore[attr-defined]
    return False


def disconnects_later(transport: paramiko.Transport) -> bool:
    """Says why it ends the connection, in which the command has begun."""
    threading.Timer(0.5, disconnects, (transport,)).start()
    return True


def hangs_up(transport: paramiko.Transport) -> bool:
    """Says nothing."""
    transport.sock.shutdown(socket.SHUT_RDWR)
    return False


def test_a_jump_host_without_room_for_another_connection_is_named_and_asked_a_second_time(
    way: Way, plain_sshd: Sshd, tmp_path: Path,
) -> None:
    with odd(tmp_path) as (_, config):
        reply = way.one(plain_sshd.node(proxy_jump="odd"), config=config)
    assert "odd: it has no room for another connection" in refusal(reply, Stage.JUMP)
    assert reply.first is not None


@pytest.mark.parametrize("ends", [disconnects, disconnects_later, hangs_up])
def test_a_connection_that_ends_as_a_command_is_to_be_run_may_have_a_second_try(
    way: Way, tmp_path: Path, ends: Ends,
) -> None:
    with odd(tmp_path, ends) as (_, config):
        reply = way.one(Node("odd"), config=config)
    reason = refusal(reply, Stage.LOGIN)
    assert "hung up after the login" in reason or "was lost before the program ran" in reason
    assert reply.first is not None


def test_a_command_that_is_refused_has_no_second_try(telling: Way, tmp_path: Path) -> None:
    with odd(tmp_path) as (_, config):
        reply = telling.one(Node("odd"), config=config)
    assert "refuses to run a command for this user" in refusal(reply, Stage.LOGIN)
    assert reply.first is None
