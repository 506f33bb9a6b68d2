"""The protocol between the head's key server and a node's agent and ranks: frames, proofs, connection.

Standard library and Python 3.8 only: `healthcheck.burnin.program` joins it into the text that runs on nodes.
A frame is four bytes of length, big-endian, and that many bytes of JSON. The server sends {"challenge"}. The
client answers with its role and node, a proof that it knows the node's token, and a challenge of its own. The
server's {"welcome": proof} ends the greeting. A connection is authenticated at its beginning and not
encrypted: the token keeps out others who can reach the port, but not someone on the path.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
import selectors
import socket
import struct
import threading
import time
from typing import Any

MOST_FRAME = 8 * 1024 * 1024
MOST_KEY = 512
MOST_VALUE = 1024 * 1024
MOST_VALUES = 64 * 1024 * 1024
# In a rank's order; progress is (iteration, index in this list).
PHASES = ("start", "join", "wait", "setup", "warm", "compute", "send", "verify", "report")
AGENT = "agent"
RANK = "rank"
BEAT_S = 1.0        # interval of an agent's messages
# The agent's command line names its node: "node=gpu003".
NODE_WORD = "node="
# And each word of the command that starts a Python with PyTorch: "python=docker", "python=exec" ...
PYTHON_WORD = "python="
# What an agent asks its transport for.
TOKEN = "token"  # noqa: S105  (a name, and no token)
# Placeholder among the head's addresses: the one that the SSH connection came from.
SSH_CLIENT = "ssh-client"

_LENGTH = struct.Struct(">I")
_SPARE_S = 10.0     # margin of an answer beyond the time in its request


class Garbled(Exception):
    """A message that this side cannot read; the connection is of no further use."""


class RequestRefused(Exception):
    """The other side refused; the text is its reason ("timeout", "too large" ...)."""


def packed(message: dict[str, Any]) -> bytes:
    """One message as a frame. Raises Garbled above the size limit."""
    body = json.dumps(message, separators=(",", ":")).encode()
    if len(body) > MOST_FRAME:
        raise Garbled("a frame of %d bytes, over the limit of %d" % (len(body), MOST_FRAME))
    return _LENGTH.pack(len(body)) + body


class Frames:
    """Takes what arrives, in pieces of any size, and gives whole messages; `most` bounds a frame, and is more
    for a peer that proved who it is."""

    def __init__(self, most: int = MOST_FRAME) -> None:
        self.most = most
        self._have = bytearray()

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """The messages that are whole now. Raises Garbled at the first that is none; those before are
        lost."""
        self._have += data
        found = []
        at = 0
        while len(self._have) - at >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._have, at)
            if size > self.most:
                raise Garbled("a frame of %d bytes, over the limit of %d" % (size, self.most))
            end = at + _LENGTH.size + size
            if len(self._have) < end:
                break
            found.append(_message(bytes(self._have[at + _LENGTH.size:end])))
            at = end
        del self._have[:at]
        return found


def _message(body: bytes) -> dict[str, Any]:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        raise Garbled("a frame that is no JSON") from None
    if not isinstance(message, dict):
        raise Garbled("a frame that is no JSON object")
    return message


def token_of(secret: str, node: str) -> str:
    """The token of one node of a run; it reveals neither the secret nor another node's token."""
    return hmac.new(secret.encode(), b"node\0" + node.encode("utf-8", "surrogatepass"),
                    hashlib.sha256).hexdigest()


def proof(token: str, challenge: str, role: str, node: str) -> str:
    """Proves knowledge of the token: HMAC-SHA256 over the other side's challenge, its role, and the node."""
    text = "\0".join((challenge, role, node)).encode("utf-8", "surrogatepass")
    return hmac.new(token.encode(), text, hashlib.sha256).hexdigest()


def coded(value: bytes) -> str:
    """Bytes as they stand in a frame."""
    return base64.b64encode(value).decode("ascii")


def decoded(text: Any) -> bytes:
    """The bytes of `coded`. Raises Garbled."""
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, ValueError):
        raise Garbled("a value that is no base64") from None


class HeadConnection:
    """A node's end of a connection. One thread may `receive` while others `send`; `ask` is for connections
    without a receiving thread. After OSError (EOFError: an orderly end) or Garbled it is of no further
    use."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._frames = Frames()
        self._found: list[dict[str, Any]] = []
        self._sending = threading.Lock()
        self._asking = threading.Lock()

    def send(self, message: dict[str, Any]) -> None:
        """Sends a message; blocks while the other side does not read, at most for the socket's timeout."""
        data = packed(message)
        with self._sending:
            self._sock.sendall(data)

    def receive(self, seconds: float | None = None) -> dict[str, Any]:
        """The next message. Raises TimeoutError after `seconds` without one, EOFError at the end."""
        end = None if seconds is None else time.monotonic() + seconds
        while not self._found:
            # Not the socket's timeout: that would also interrupt what another thread sends.
            if end is not None and not _readable(self._sock, end - time.monotonic()):
                raise TimeoutError("no message for %.3g s" % (seconds or 0.0))
            data = self._sock.recv(256 * 1024)
            if not data:
                raise EOFError("the head has hung up")
            self._found += self._frames.feed(data)
        return self._found.pop(0)

    def ask(self, message: dict[str, Any], seconds: float = 0.0) -> dict[str, Any]:
        """Sends a request and returns the answer, waiting at most `seconds` and a margin. Raises
        RequestRefused with the other side's reason."""
        with self._asking:
            self.send(message)
            answer = self.receive(seconds + _SPARE_S)
        if "error" in answer:
            raise RequestRefused(str(answer["error"]))
        return answer

    def close(self) -> None:
        """Closes the connection; a waiting `receive` sees its end."""
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._sock.close()


def _readable(sock: socket.socket, seconds: float) -> bool:
    if sock.fileno() < 0:
        return True
    with selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ)
        return bool(selector.select(max(0.0, seconds)))


def connected(hosts: list[str], port: int, seconds: float = 10.0) -> socket.socket:
    """A connection to the first of these hosts that takes one, within its share of `seconds`, or OSError."""
    client = os.environ.get("SSH_CONNECTION", "").partition(" ")[0]
    hosts = [host for host in (client if host == SSH_CLIENT else host for host in hosts) if host]
    if not hosts:
        raise OSError("no address of the head was given")
    reasons = []
    end = time.monotonic() + seconds
    for index, host in enumerate(hosts):
        share = max(0.5, (end - time.monotonic()) / (len(hosts) - index))
        try:
            sock = socket.create_connection((host, port), timeout=share)
        except OSError as error:
            reasons.append("%s: %s" % (host, error))
        else:
            sock.settimeout(None)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
    raise OSError("cannot reach the head on port %d (%s)" % (port, "; ".join(reasons)))


def greeted(sock: socket.socket, role: str, node: str, run: str, token: str,
            seconds: float = 10.0) -> HeadConnection:
    """The connection after both sides proved the token. Raises OSError, EOFError, Garbled, RequestRefused."""
    link = HeadConnection(sock)
    challenge = link.receive(seconds).get("challenge")
    if not isinstance(challenge, str):
        raise Garbled("the head sent no greeting")
    own = secrets.token_hex(16)
    link.send({"as": role, "node": node, "run": run, "proof": proof(token, challenge, role, node),
               "challenge": own})
    answer = link.receive(seconds)
    if "error" in answer:
        raise RequestRefused(str(answer["error"]))
    if not hmac.compare_digest(str(answer.get("welcome")), proof(token, own, "head", node)):
        raise Garbled("the server on the head's port does not know the token")
    return link


class TaskKeys:
    """The keys of one task as its ranks see them: what torch.distributed.Store needs, without torch."""

    def __init__(self, link: HeadConnection, task: str) -> None:
        self._link = link
        self._task = task + "/"

    def set(self, key: str, value: bytes) -> None:
        """From now on the key has this value."""
        self._link.ask({"op": "set", "key": self._task + key, "value": coded(value)})

    def get(self, key: str, seconds: float) -> bytes:
        """The key's value, as soon as it has one. Raises Refused("timeout")."""
        return decoded(
            self._link.ask({"op": "get", "key": self._task + key, "seconds": seconds}, seconds).get("value"))

    def add(self, key: str, amount: int) -> int:
        """Adds to a number (0 at first) and returns the sum; as a value it is decimal text."""
        return int(self._link.ask({"op": "add", "key": self._task + key, "amount": amount})["number"])

    def compare_set(self, key: str, expected: bytes, desired: bytes) -> bytes:
        """Sets `desired` if the key's value is `expected`, which b"" also is for a key without one. Returns
        the key's value afterwards; for a key without one, `expected`."""
        answer = self._link.ask({"op": "compare-set", "key": self._task + key, "expected": coded(expected),
                                 "value": coded(desired)})
        return decoded(answer.get("value"))

    def append(self, key: str, more: bytes) -> None:
        """The key's value, b"" without one, is longer by this from now on."""
        self._link.ask({"op": "append", "key": self._task + key, "value": coded(more)})

    def check(self, keys: list[str]) -> bool:
        """Whether all of them have a value."""
        return bool(self._link.ask({"op": "check", "keys": [self._task + key for key in keys]})["yes"])

    def wait(self, keys: list[str], seconds: float) -> None:
        """Returns when all of them have a value. Raises Refused("timeout")."""
        self._link.ask({"op": "wait", "keys": [self._task + key for key in keys], "seconds": seconds},
                       seconds)

    def delete(self, key: str) -> bool:
        """Whether there was such a key; there is none afterwards."""
        return bool(self._link.ask({"op": "delete", "key": self._task + key})["yes"])

    def count(self) -> int:
        """How many keys the task has."""
        return int(self._link.ask({"op": "count", "key": self._task})["number"])
