"""One connection of the head's key server, and the socket that it came through."""

from __future__ import annotations

import contextlib
import resource
import secrets
import selectors
import socket
from collections import deque
from typing import Any

from healthcheck.burnin.wire import Frames
from inventory.errors import UsageError
from inventory.text import clean
from provisioning.burnin.keys import KeyRequest

GREETING_BYTES = 4096       # what a stranger may say


class Peer:
    """One connection; `request` is the question of it that waits for its answer."""

    def __init__(self, sock: socket.socket, address: str, now: float, origin: str) -> None:
        self.sock = sock
        self.address = address
        self.origin = origin    # by what strangers are counted
        self.came = now
        self.last_heard = now
        self.role: str | None = None
        self.node = ""
        self.challenge = secrets.token_hex(16)
        self.frames = Frames(GREETING_BYTES)
        self.waiting: deque[dict[str, Any]] = deque()
        self.unsent = bytearray()
        self.request: KeyRequest | None = None
        self.received = 0   # counted by the server's thread
        self.read = 0       # counted by whoever takes the events
        self.watched = selectors.EVENT_READ


def listening(host: str, port: int) -> socket.socket:
    """A socket that takes connections at this address ("": any) and port (0: a free one); or UsageError."""
    try:
        if host:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            server = socket.create_server((host, port), family=family, backlog=4096)
        else:
            server = _everywhere(port)
    except OSError as error:
        where = f"{clean(host) or 'any address'}, port {port}"
        raise UsageError(
            f"cannot listen on {where}: {error.strerror or error}; give another address or port") from None
    server.setblocking(False)
    return server


def _everywhere(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        # A machine may have the protocol and no such address (ipv6.disable).
        with contextlib.suppress(OSError):
            return socket.create_server(("", port), family=socket.AF_INET6, backlog=4096, dualstack_ipv6=True)
    return socket.create_server(("", port), backlog=4096)


def room_for_files() -> None:
    """As many descriptors as this process may have: every rank has a connection."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
