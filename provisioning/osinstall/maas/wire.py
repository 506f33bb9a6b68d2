"""One HTTP request to MAAS and its answer, of which every byte is bounded, and so is the time of all of them.

The certificate is verified before the first byte goes out. Redirects are not followed, proxies and passwords
of the surroundings (.netrc) not taken: the key would go with them. Why not urllib: its time limit holds for
one read each.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from inventory.text import clean, short
from inventory.transport.timedsocket import TimedSocket
from provisioning.osinstall.base import OsError

CONNECT_S = 10.0
# A machine of gomaasclient's test data has 9 KB in a list, one with many disks several times that.
MOST_BYTES = 128 * 1024 * 1024
_CHUNK = 64 * 1024


@dataclass(frozen=True)
class MaasPlace:
    """Where MAAS is; `path` is the root of its API, with a slash at its end."""

    secure: bool
    host: str
    port: int
    path: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}"


@dataclass(frozen=True)
class MaasAnswer:
    """What came back; `wait` is for how many seconds the server asks to wait, 0 where it does not."""

    status: int
    wait: float
    body: bytes = field(repr=False)


class MaasError(OsError):
    """A failed request. `status` is that of HTTP, 0 without an answer; `passing`: it may be over soon, after
    `wait` seconds; `unsure`: the request may have been received, and no whole answer came."""

    def __init__(
        self, words: str, status: int = 0, *, passing: bool = False, wait: float = 0.0, unsure: bool = False,
    ) -> None:
        super().__init__(words)
        self.status = status
        self.passing = passing
        self.wait = wait
        self.unsure = unsure


class MaasDeadline:
    """When a whole question, with its retries, must have been answered."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._end = clock() + seconds

    def left(self) -> float:
        """Seconds until then; raises TimeoutError when there are none."""
        left = self._end - self._clock()
        if left <= 0:
            raise TimeoutError
        return left


def place(url: str, *, cleartext: bool = False) -> MaasPlace:
    """Where the API of this MAAS is. Raises OsError for what is no such URL, or http:// that was not
    allowed."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise OsError(f"maas: {short(url)} is no URL: expected https://HOST:PORT/MAAS") from None
    if parts.username is not None or parts.password is not None:
        raise OsError("maas: the URL holds a user or a password; the API key comes from a file or a command")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or not (
            url.isascii() and url.isprintable() and " " not in url):
        raise OsError(f"maas: {short(url)} is no URL: expected https://HOST:PORT/MAAS")
    secure = parts.scheme == "https"
    if not secure and not cleartext and not _loopback(parts.hostname):
        raise OsError(f"maas: {short(url)} is http://, by which anyone on the way can read the API key; use "
                      "https:// (maas config-tls enable), or say cleartext: true")
    path = parts.path.rstrip("/").removesuffix("/api/2.0")
    return MaasPlace(secure, parts.hostname, port or (443 if secure else 80), f"{path}/api/2.0/")


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def ask(
    where: MaasPlace, tls: str, method: str, path: str, headers: Mapping[str, str], body: bytes | None,
    deadline: MaasDeadline,
) -> MaasAnswer:
    """One request over a connection of its own. Raises MaasError."""
    sent = False
    try:
        connection = _connected(where, tls, deadline)
        try:
            host = f"[{where.host}]" if ":" in where.host else where.host
            lines = [f"{method} {path} HTTP/1.1", f"Host: {host}:{where.port}", "Connection: close",
                     *(f"{name}: {value}" for name, value in headers.items())]
            if body is not None:
                lines.append(f"Content-Length: {len(body)}")
            connection.settimeout(deadline.left())
            sent = method != "GET"
            connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b""))
            return _answer(where, connection, method, deadline)
        finally:
            connection.close()
    except MaasError as problem:
        problem.unsure = sent
        raise
    except TimeoutError:
        raise MaasError(f"{where}: no whole answer within {deadline.seconds:g} s", passing=True,
                        unsure=sent) from None
    except (OSError, http.client.HTTPException, ValueError) as problem:
        raise _error(where, problem, sent) from None


def _connected(where: MaasPlace, tls: str, deadline: MaasDeadline) -> socket.socket:
    context = _context(where, tls) if where.secure else None
    seconds = min(CONNECT_S, deadline.left())
    try:
        plain = socket.create_connection((where.host, where.port), timeout=seconds)
    except TimeoutError:
        raise MaasError(f"{where}: no answer within {seconds:g} s", passing=True) from None
    except (OSError, UnicodeError) as problem:
        why = getattr(problem, "strerror", None) or "it has no such address"
        raise MaasError(f"{where}: cannot be reached: {clean(why, 120)}", passing=True) from None
    if context is None:
        return plain
    try:
        plain.settimeout(deadline.left())
        return context.wrap_socket(plain, server_hostname=where.host)
    except BaseException:
        plain.close()
        raise


def _context(where: MaasPlace, tls: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if tls == "verify":
            context.load_default_certs()
        else:
            context.load_verify_locations(tls)
    except OSError as problem:      # ssl.SSLError is one
        why = clean(problem.strerror or problem, 80)
        raise MaasError(f"{where}: {clean(tls)} cannot be read as a file of authorities: {why}") from None
    return context


def _answer(where: MaasPlace, connection: socket.socket, method: str, deadline: MaasDeadline) -> MaasAnswer:
    response = http.client.HTTPResponse(TimedSocket(connection, deadline), method=method)  # type: ignore[arg-type]
    response.begin()
    body = bytearray()
    while chunk := response.read(_CHUNK):
        body += chunk
        if len(body) > MOST_BYTES:
            raise MaasError(f"{where}: its answer is over the limit of {MOST_BYTES // 2**20} MiB")
    if response.length:
        raise http.client.IncompleteRead(b"")
    wait = response.getheader("Retry-After") or ""
    # A date is allowed too, and no one knows whose clock is right.
    seconds = float(wait) if wait.isdecimal() and len(wait) < 6 else 0.0
    return MaasAnswer(response.status, seconds, bytes(body))


def _error(where: MaasPlace, problem: Exception, sent: bool) -> MaasError:
    if isinstance(problem, ssl.SSLCertVerificationError):
        why = clean(problem.verify_message, 120)
        return MaasError(f"{where}: its certificate is not trusted: {why}; name its authority: tls: FILE")
    if isinstance(problem, ssl.SSLEOFError | http.client.RemoteDisconnected | http.client.IncompleteRead):
        return MaasError(f"{where}: it closed the connection before it had answered", passing=True,
                         unsure=sent)
    if isinstance(problem, ssl.SSLError):
        return MaasError(f"{where}: no TLS connection: {clean(problem.reason or 'it speaks no TLS', 80)}")
    if isinstance(problem, OSError):
        why = clean(problem.strerror or type(problem).__name__, 80)
        return MaasError(f"{where}: the connection was dropped: {why}", passing=True, unsure=sent)
    return MaasError(f"{where}: its answer is not HTTP ({type(problem).__name__})", unsure=sent)
