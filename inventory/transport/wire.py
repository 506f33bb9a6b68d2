"""The byte stream under SSH: name to address, TCP, banner; each failure before SSH has its error."""

from __future__ import annotations

import errno
import os
import re
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from inventory.transport.base import Failure, Stage
from inventory.transport.session import one_line
from inventory.transport.watch import TaskFailed, WatchedTask

# Key exchange and login take some 10 KB, and sshd's login banner may add to it.
MOST_BEFORE_LOGIN = 1024 * 1024
FORBIDDEN = "it forbids forwarding (AllowTcpForwarding or PermitOpen there)"      # a jump host
_MOST_BEFORE_BANNER = 256 * 1024
_BANNER = re.compile(rb"^SSH-([0-9.]+)-[^\r\n]*\r?\n", re.MULTILINE)
_CHUNK = 64 * 1024
_LEAST = 4 * 1024
# A machine that has gone without a word is given up half a minute after it was last heard; where it had not
# confirmed what we sent last, the kernel sends that again instead, and it is found out by being asked.
_SIGNS_OF_LIFE = ((socket.TCP_KEEPIDLE, 15), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3))
# What connect(2) reports when this machine, not the other, lacks something: ports, memory, its network
# or a route to the other's.
OURS = (errno.EADDRNOTAVAIL, errno.EAGAIN, errno.ENOBUFS, errno.ENOMEM, errno.ENETDOWN, errno.ENETUNREACH,
        errno.EPERM)
_FAMILIES = {"any": socket.AF_UNSPEC, "inet": socket.AF_INET, "inet6": socket.AF_INET6}


class ConnectionDropped(Exception):
    """The connection was closed before the login, or a jump host (JUMP) was lost; a retry may succeed."""

    def __init__(self, reason: str, stage: Stage = Stage.CONNECT) -> None:
        super().__init__(reason)
        self.reason = reason
        self.stage = stage


class Stream(Protocol):
    """What a socket and a channel through a jump host have in common."""

    def recv(self, nbytes: int, /) -> bytes: ...

    def send(self, data: bytes, /) -> int: ...

    def close(self) -> None: ...


def _no_hop() -> str | None:
    return None


class TcpStream:
    """paramiko's socket: reads in large pieces, never times out by itself (the watchdog closes it). `shut`
    returns at once and makes blocked readers and writers see the end; the reader closes the descriptor, so
    that no other connection gets its number meanwhile. More than `allowance` bytes from the other side end
    it. `last_received` is by time.monotonic; `on_close` is called once. `keepalive` turns the kernel's on and
    off, where there is one. `lost_hop` names the jump host, nearest first, whose end was this stream's."""

    def __init__(
        self, stream: Stream, shut: Callable[[], None], keepalive: Callable[[bool], None] | None = None,
    ) -> None:
        self._stream = stream
        self.shut = shut
        self._keepalive = keepalive
        self._guarded = False
        self.allowance: float = MOST_BEFORE_LOGIN
        self.last_received = time.monotonic()
        self._have = b""
        self._at = 0
        self._reach = _LEAST
        self.on_close: Callable[[], None] | None = None
        self.lost_hop: Callable[[], str | None] = _no_hop
        self._closed = False    # paramiko looks at it, as if at a socket's, when the process ends

    def recv(self, most: int) -> bytes:
        at = self._at
        if at >= len(self._have):
            if self.flooded:
                raise EOFError
            self._have, self._at = b"", 0       # an idle connection waits here and holds no buffer
            self._have = self._stream.recv(self._reach)
            # Hundreds of threads may wait in recv, each with a buffer of this size,
            # so it grows only with the data.
            self._reach = min(4 * self._reach, _CHUNK) if len(self._have) == self._reach else _LEAST
            self.last_received = time.monotonic()
            self.allowance -= len(self._have)
            at = 0
        part = self._have[at:at + most]
        self._at = at + len(part)
        return part

    @property
    def flooded(self) -> bool:
        """Whether the other side has sent more than it may."""
        return self.allowance < 0

    @property
    def guarded(self) -> bool:
        """Whether the kernel's keepalive is on; never through a jump host, as the far end is not ours."""
        return self._guarded

    def guard(self, wanted: bool) -> None:
        """Has the kernel probe the other machine while idle, which costs neither us nor its sshd any time."""
        if self._keepalive is not None:
            self._guarded = False
            with suppress(OSError):
                self._keepalive(wanted)
                self._guarded = wanted

    def send(self, data: bytes) -> int:
        return self._stream.send(data)

    def close(self) -> None:
        self._closed = True
        self.shut()
        with suppress(OSError):
            self._stream.close()
        arguments, self.on_close = self.on_close, None
        if arguments is not None:
            arguments()

    def settimeout(self, seconds: float | None) -> None:
        """Does nothing: the watchdog keeps the deadlines."""

    def await_banner(self, who: str) -> None:
        """Reads up to the banner, which the next `recv` returns. Raises ConnectionDropped or TaskFailed."""
        seen = b""
        try:
            while not (found := _BANNER.search(seen)):
                if len(seen) > _MOST_BEFORE_BANNER:
                    raise TaskFailed(Stage.CONNECT, f"{who} does not speak SSH: it sends "
                                                    f"{one_line(seen[:200], 60)!r} and more")
                piece = self._stream.recv(_CHUNK)
                if not piece:
                    break
                seen += piece
        except OSError as error:
            raise ConnectionDropped(
                f"{who} dropped the connection before its banner ({_error_text(error)})") from None
        if found:
            if found[1] not in (b"2.0", b"1.99"):
                raise TaskFailed(Stage.CONNECT, f"{who} speaks SSH {one_line(found[1], 20)}; 2.0 is needed")
            self._have, self._at = seen[found.start():], 0
        elif b"MaxStartups" in seen or not seen:
            raise ConnectionDropped(
                f"{who} closed the connection before its banner (sshd's MaxStartups, or a TCP wrapper)")
        elif b"Not allowed at this time" in seen:
            raise TaskFailed(Stage.CONNECT, f"{who}: sshd penalises this address (PerSourcePenalties); wait, "
                                            "or exempt the address there")
        else:
            raise TaskFailed(Stage.CONNECT, f"{who} does not speak SSH: it sends {one_line(seen, 60)!r}")


def socket_wire(sock: socket.socket) -> TcpStream:
    """A wire on a connected socket."""
    def shut() -> None:
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)

    def keepalive(wanted: bool) -> None:
        for option, value in _SIGNS_OF_LIFE if wanted else ():
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, wanted)
    return TcpStream(sock, shut, keepalive)


class Tunnel(Stream, Protocol):
    """What a channel can do beyond a stream."""

    closed: bool
    eof_received: bool

    def send_ready(self) -> bool: ...


class _LockedChannel:
    """A channel that never sends after it was closed. paramiko may, and sshd answers data for a channel that
    is gone by ending the connection to the jump host, and with it all nodes behind it."""

    def __init__(self, channel: Tunnel) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._closed = False

    def recv(self, nbytes: int, /) -> bytes:
        return self._channel.recv(nbytes)

    def send(self, data: bytes, /) -> int:
        while True:
            with self._lock:
                if self._closed:
                    raise EOFError
                # Never wait for the other side while holding the lock, so that close() can run.
                if self._channel.send_ready():
                    return self._channel.send(data)
            time.sleep(0.01)

    def close(self) -> None:
        with self._lock, suppress(OSError, EOFError):
            self._closed = True
            self._channel.close()


def channel_wire(channel: Tunnel) -> TcpStream:
    """A wire on a channel through a jump host; a thread closes it, as that may block."""
    stream = _LockedChannel(channel)

    def shut() -> None:
        # Without a free thread it ends with the connection to the jump host: an answer that is here counts.
        with suppress(RuntimeError):
            threading.Thread(target=stream.close, name="muster-close", daemon=True).start()
    return TcpStream(stream, shut)


def dial(task: WatchedTask, host: str, port: int, seconds: float, family: str = "any") -> TcpStream:
    """A TCP connection to the first address of `host` that takes one, within `seconds`, whose rest stays the
    task's step. `family` is ssh_config's AddressFamily. Raises TaskFailed."""
    who = place(host, port)
    task.step(seconds,
              lambda s: Failure(Stage.RESOLVE,
                                f"the resolver did not answer for {host} within {s:.3g} s; is it up?"))
    addresses = _resolve(host, port, _FAMILIES[family])
    task.step(task.left(),
              lambda s: Failure(Stage.CONNECT, f"{who} did not answer within {s:.3g} s (host down, or a "
                                               "firewall that drops)"))
    ours: OSError | None = None
    theirs: OSError | None = None
    for index, (kind, address) in enumerate(addresses):
        try:
            sock = socket.socket(kind, socket.SOCK_STREAM)
        except OSError as error:
            if error.errno == errno.EAFNOSUPPORT:       # a kernel without IPv6, say
                ours = error
                continue
            raise TaskFailed(Stage.HEAD, f"this machine has no free socket ({_error_text(error)}); try a "
                                         "smaller --fanout", stuck=Stage.CONNECT) from None
        try:
            # An address that swallows packets must leave time for the ones after it.
            share = task.left() / (len(addresses) - index)
            sock.settimeout(max(0.05, share if index + 1 < len(addresses) else share + 1))
            sock.connect(address)
        except OSError as error:
            sock.close()
            task.check()
            if error.errno in OURS:
                ours = error
            else:
                theirs = error
        else:
            sock.settimeout(None)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return socket_wire(sock)
    # What one address of the other machine said counts, whichever others we cannot ask from here.
    if theirs is not None:
        raise TaskFailed(Stage.CONNECT, _why(who, theirs),
                         stuck=Stage.CONNECT if isinstance(theirs, TimeoutError) else None)
    if ours is not None:
        raise TaskFailed(Stage.HEAD, _why(who, ours), stuck=Stage.CONNECT)
    raise TaskFailed(Stage.RESOLVE, f"{host} has no address")


def place(host: str, port: int) -> str:
    """Host and port as one word, IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _resolve(host: str, port: int, wanted: int) -> list[tuple[int, tuple[str, int]]]:
    try:
        found = socket.getaddrinfo(host, port, family=wanted, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        if error.errno == socket.EAI_AGAIN:
            raise TaskFailed(Stage.RESOLVE, f"cannot look up {host}: the resolver does not answer; check "
                                            "/etc/resolv.conf here", stuck=Stage.RESOLVE) from None
        raise TaskFailed(Stage.RESOLVE, f"{host} has no address ({_error_text(error)}); give one with "
                                     "`address` in the inventory or HostName in ssh_config") from None
    except OSError as error:        # the resolver could not be asked (EAI_SYSTEM)
        raise TaskFailed(Stage.HEAD, f"this machine cannot look up {host}: {_error_text(error)}",
                         stuck=Stage.RESOLVE) from None
    except (UnicodeError, ValueError, OverflowError):
        raise TaskFailed(Stage.RESOLVE, f"{one_line(host, 80)} is not a host name") from None
    return [(kind, address) for kind, _, _, _, address in found]  # type: ignore[misc]


def _why(who: str, error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return f"{who} refused the connection; is sshd running there, on that port?"
    if isinstance(error, TimeoutError):
        return f"{who} did not answer (host down, or a firewall that drops)"
    if error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        return f"no route to {who} ({_error_text(error)})"
    return f"cannot connect to {who}: {_error_text(error)}"


def _error_text(error: OSError) -> str:
    return error.strerror or (os.strerror(error.errno) if error.errno else type(error).__name__)
