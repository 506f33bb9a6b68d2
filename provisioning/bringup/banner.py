"""Asks whether an SSH server answers for a node: the line with which each begins (RFC 4253, 4.2), without a login and without any key.

Through jump hosts it is the system's ssh that goes there (-W), as its own checks of their host keys want it.
"""

from __future__ import annotations

import re
import select
import socket
import subprocess
import time

from inventory.errors import MusterError
from inventory.model import Node
from inventory.sshconfig import Hop, SshConfig, Target, parse_jump, target_for
from inventory.text import clean

# A server may say other lines first; they end somewhere.
_MOST = 16 * 1024
_LINE = re.compile(rb"(?:\A|\n)(SSH-(?:2\.0|1\.99)-[^\r\n]{0,252})\r?\n")


def banner(node: Node, seconds: float = 5.0, config: SshConfig | None = None) -> tuple[str, str]:
    """The server's line and "", or "" and why there is none."""
    where = clean(node.address or node.name, 80)
    try:
        target = target_for(node, config)
        where = f"{clean(target.hostname, 80)} port {target.port}"
        data = _through(target, seconds) if target.proxy_jump is not None else _direct(target, time.monotonic() + seconds)
    except MusterError as error:
        return "", clean(str(error), 200)
    except OSError as problem:
        return "", f"{where}: {clean(problem.strerror or str(problem) or type(problem).__name__, 100)}"
    match = _LINE.search(data)
    if match is None:
        return "", f"{where} says no line of an SSH server"
    return clean(match[1].decode("utf-8", "backslashreplace"), 120), ""


def _direct(target: Target, end: float) -> bytes:
    data = b""
    with socket.create_connection((target.hostname, target.port), timeout=_left(end)) as link:
        while len(data) < _MOST and _LINE.search(data) is None:
            link.settimeout(_left(end))
            chunk = link.recv(1024)
            if not chunk:
                break
            data += chunk
    return data


def _through(target: Target, seconds: float) -> bytes:
    end, data = time.monotonic() + seconds, b""
    *before, last = parse_jump(str(target.proxy_jump))
    words = ["ssh", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={max(1, int(seconds))}", "-W", f"[{target.hostname}]:{target.port}",
             *(["-J", ",".join(map(_uri, before))] if before else []), "--", _uri(last)]
    # Its standard input stays open: at its end ssh would leave.
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0) as process:
        try:
            assert process.stdout is not None  # noqa: S101  (a pipe was asked for)
            while len(data) < _MOST and _LINE.search(data) is None and select.select([process.stdout], [], [], _left(end))[0]:
                chunk = process.stdout.read(1024)
                if not chunk:
                    break
                data += chunk
            return data
        finally:
            process.kill()


def _uri(hop: Hop) -> str:
    user = f"{hop.user}@" if hop.user is not None else ""
    host = f"[{hop.host}]" if ":" in hop.host else hop.host
    return f"ssh://{user}{host}" + (f":{hop.port}" if hop.port is not None else "")


def _left(end: float) -> float:
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError("no answer in time")
    return left
