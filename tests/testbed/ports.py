"""Ports for daemons of the tests: each is given once to all processes of a user, and never to an outgoing
connection."""

from __future__ import annotations

import fcntl
import os
import random
import socket
from functools import cache
from itertools import chain

# below net.ipv4.ip_local_port_range, of which outgoing connections are given theirs
_PORTS = range(10_000, 32_000)
_given: set[int] = set()


def free_port(address: str = "127.0.0.1", kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """A port that no one listens on, and that is given to no one else as long as this process lives: between
    the asking and the listening of a daemon there may be seconds, in which another test asks, too."""
    at = random.randrange(len(_PORTS))
    for port in chain(_PORTS[at:], _PORTS[:at]):
        if port not in _given and _hold(port) and _is_free(address, kind, port):
            return port
    raise AssertionError(f"none of the ports {_PORTS.start} to {_PORTS.stop - 1} is free")


def _hold(port: int) -> bool:
    try:
        fcntl.lockf(_held(os.getpid()), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    _given.add(port)
    return True


@cache
def _held(process: int) -> int:
    """A file of which each byte stands for a port, for all runs of tests on this machine. Such locks are a
    process's own: of a forked one there are none."""
    return os.open(f"/tmp/muster-test-ports-{os.getuid()}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _is_free(address: str, kind: socket.SocketKind, port: int) -> bool:
    with socket.socket(socket.AF_INET, kind) as one:
        try:
            one.bind((address, port))
        except OSError:
            return False
    return True
