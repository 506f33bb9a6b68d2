"""Asks for an SSH server's first line (RFC 4253, 4.2), without login or key. Through jump hosts it is asked
for its host keys, as in enrolling."""

from __future__ import annotations

import errno
import re
import socket
import time
from typing import NamedTuple

from inventory.errors import MusterError
from inventory.model import Node
from inventory.sshconfig import SshConfig, default_config
from inventory.sshtarget import SshTarget, target_for
from inventory.text import clean

# What connect(2) reports where this machine, and not the other, lacks something.
_OURS = (errno.EADDRNOTAVAIL, errno.EAGAIN, errno.ENOBUFS, errno.ENOMEM, errno.EMFILE, errno.ENETDOWN,
         errno.ENETUNREACH, errno.EPERM)
# A server may say other lines first; they end somewhere.
_MOST = 16 * 1024
_LINE = re.compile(rb"(?:\A|\n)(SSH-(?:2\.0|1\.99)-[^\r\n]{0,252})\r?\n")


class Banner(NamedTuple):
    """The server's line and "", or "" and why there is none; `asked` is False where that is no answer of the
    machine's, for its name, the way there or this machine failed."""

    line: str
    why: str = ""
    asked: bool = True


def banner(node: Node, seconds: float = 3.0, config: SshConfig | None = None) -> Banner:
    """What answers for a node."""
    where = clean(node.address or node.name, 80)
    try:
        config = config if config is not None else default_config()
        target = target_for(node, config)
        where = f"{clean(target.hostname, 80)} port {target.port}"
        if target.proxy_jump is not None:
            return _through(node, target, config, seconds)
        data = _direct(target, time.monotonic() + seconds)
    except MusterError as error:
        return Banner("", clean(str(error), 200), asked=False)
    except OSError as problem:
        why = f"{where}: {clean(problem.strerror or str(problem) or type(problem).__name__, 100)}"
        return Banner("", why, asked=not isinstance(problem, socket.gaierror) and problem.errno not in _OURS)
    line = line_of(data)
    return Banner(line) if line else Banner("", f"{where} shows no SSH server")


def line_of(data: bytes) -> str:
    """An SSH server's first line among what was said, clean and short; empty without a whole one."""
    match = _LINE.search(data)
    return clean(match[1].decode("utf-8", "backslashreplace"), 120) if match is not None else ""


def _direct(target: SshTarget, end: float) -> bytes:
    data = b""
    with socket.create_connection((target.hostname, target.port), timeout=_left(end)) as link:
        while len(data) < _MOST and _LINE.search(data) is None:
            link.settimeout(_left(end))
            chunk = link.recv(1024)
            if not chunk:
                break
            data += chunk
    return data


def _through(node: Node, target: SshTarget, config: SshConfig, seconds: float) -> Banner:
    """By a key exchange with the node; the jump hosts on the way are logged in to, and have to be known."""
    from inventory.transport.base import NOT_ITS_FAULT, Limits
    from inventory.transport.scan import scan

    # A way of several machines takes longer than a direct one, and is of several logins.
    (found,) = scan(
        [node], {node.name: target}, config, Limits(sweep_s=4 * seconds, node_s=4 * seconds, fanout=1))
    if found.failure is not None:
        return Banner("", clean(f"{found.failure.stage.value}: {found.failure.reason}", 200),
                      asked=found.failure.stage not in NOT_ITS_FAULT)
    return Banner(f"SSH server with {len(found.keys)} host keys, through {clean(target.proxy_jump, 80)}")


def _left(end: float) -> float:
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError("no answer in time")
    return left
