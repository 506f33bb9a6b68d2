"""One HTTPS request to UFM and its answer, of which every byte is bounded, and so is the time of all of them.

The certificate is verified, or compared with its fingerprint, before the first byte goes out, and so before
any password does. Redirects are not followed, proxies and passwords of the surroundings (.netrc) not taken.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import re
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from inventory.errors import MusterError, UsageError
from inventory.text import clean, short
from inventory.transport.timedsocket import TimedSocket

CONNECT_S = 10.0
# The ports of 4,096 adapters and their switches, in the form of the guide, take some 60 MB.
MOST_BYTES = 256 * 1024 * 1024
VERIFY = "verify"
_CHUNK = 256 * 1024
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_PIN = re.compile(r"sha256:([0-9a-f]{64})")


class UfmError(MusterError):
    """A request that failed; one line. `status` is that of HTTP, 0 without an answer; `unsure`: UFM may have
    received the request, and no whole answer came."""

    def __init__(self, words: str, status: int = 0, *, unsure: bool = False) -> None:
        super().__init__(words)
        self.status = status
        self.unsure = unsure


@dataclass(frozen=True)
class UfmPlace:
    """Where a UFM is."""

    secure: bool
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = 443 if self.secure else 80
        return f"http{'s' * self.secure}://{host}{f':{self.port}' if self.port != usual else ''}"


@dataclass(frozen=True)
class UfmTrust:
    """Why a UFM's certificate is believed: `authorities` is "verify" for the system's or a file of them;
    with `pins`, it is one of these fingerprints (SHA-256 in hexadecimal) and nothing else counts."""

    authorities: str = VERIFY
    pins: tuple[str, ...] = ()


@dataclass(frozen=True)
class UfmAnswer:
    """What came back; `location` is where the header says that it goes on, "" where it does not."""

    status: int
    kind: str
    location: str
    body: bytes = field(repr=False)


class UfmDeadline:
    """When a whole look must have ended."""

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


def place_of(text: str) -> UfmPlace:
    """The URL that a user gave; raises UsageError for what is none, and for http:// beyond this machine, by
    which anyone on the way could read the password."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise UsageError(f"--ufm {short(text)}: expected https://HOST or https://HOST:PORT") from None
    if "@" in parts.netloc:
        # The message must not show the password.
        raise UsageError("--ufm: a password in the URL can be read in the list of processes; use --ufm-auth "
                         "FILE or MUSTER_UFM_AUTH")
    if parts.scheme not in ("http", "https") or not host or parts.path.strip("/") or parts.query \
            or parts.fragment or not text.isascii() or not text.isprintable() or " " in text:
        raise UsageError(f"--ufm {short(text)}: expected https://HOST or https://HOST:PORT")
    secure = parts.scheme == "https"
    if not secure and host not in _LOOPBACK:
        raise UsageError(f"--ufm {short(text)}: the password would cross the network in clear text; use "
                         "https://")
    return UfmPlace(secure, host, port or (443 if secure else 80))


def trust_of(text: str | None) -> UfmTrust:
    """What --ufm-tls says: "verify", fingerprints with commas between them, or a file of authorities. Raises
    UsageError."""
    if text is None or text == VERIFY:
        return UfmTrust()
    if not text.lower().startswith("sha256:"):
        return UfmTrust(text)
    pins = []
    for word in text.split(","):
        found = _PIN.fullmatch("sha256:" + word.strip().lower().removeprefix("sha256:").replace(":", ""))
        if found is None:
            raise UsageError(f"--ufm-tls {short(word)}: expected verify, a file, or sha256: and the 64 "
                             "hexadecimal digits of the certificate's fingerprint")
        pins.append(found[1])
    return UfmTrust(pins=tuple(pins))


def ask(
    where: UfmPlace, trust: UfmTrust, method: str, path: str, headers: Mapping[str, str], body: bytes | None,
    deadline: UfmDeadline,
) -> UfmAnswer:
    """One request over a connection of its own. Raises UfmError."""
    sent = False
    try:
        connection = _connected(where, trust, deadline)
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
    except UfmError as problem:
        problem.unsure = sent
        raise
    except TimeoutError:
        raise UfmError(f"{where}: no whole answer within {deadline.seconds:g} s", unsure=sent) from None
    except (OSError, http.client.HTTPException, ValueError) as problem:
        raise _error(where, problem, sent) from None


def _connected(where: UfmPlace, trust: UfmTrust, deadline: UfmDeadline) -> socket.socket:
    context = _context(where, trust) if where.secure else None
    seconds = min(CONNECT_S, deadline.left())
    try:
        plain = socket.create_connection((where.host, where.port), timeout=seconds)
    except TimeoutError:
        raise UfmError(f"{where}: no answer within {seconds:g} s") from None
    except (OSError, UnicodeError) as problem:
        why = getattr(problem, "strerror", None) or "it has no such address"
        raise UfmError(f"{where}: cannot be reached: {clean(why, 120)}") from None
    if context is None:
        return plain
    try:
        plain.settimeout(deadline.left())
        found = context.wrap_socket(plain, server_hostname=where.host)
    except BaseException:
        plain.close()
        raise
    shown = hashlib.sha256(found.getpeercert(binary_form=True) or b"").hexdigest()
    if trust.pins and not any(hmac.compare_digest(shown, pin) for pin in trust.pins):
        found.close()
        raise UfmError(f"{where}: shows another certificate than --ufm-tls says: sha256:{shown}")
    return found


def _context(where: UfmPlace, trust: UfmTrust) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if trust.pins:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE     # the fingerprint says more than any authority
        return context
    try:
        if trust.authorities == VERIFY:
            context.load_default_certs()
        else:
            context.load_verify_locations(trust.authorities)
    except OSError as problem:      # ssl.SSLError is one
        why = clean(problem.strerror or problem, 80)
        raise UfmError(f"{where}: --ufm-tls {clean(trust.authorities)} cannot be read as a file of "
                       f"authorities: {why}") from None
    return context


def _answer(where: UfmPlace, connection: socket.socket, method: str, deadline: UfmDeadline) -> UfmAnswer:
    timed = TimedSocket(connection, deadline)
    response = http.client.HTTPResponse(timed, method=method)  # type: ignore[arg-type]
    response.begin()
    body = bytearray()
    while chunk := response.read(_CHUNK):
        body += chunk
        if len(body) > MOST_BYTES:
            raise UfmError(f"{where}: its answer is over the limit of {MOST_BYTES // 2**20} MiB")
    if response.length:
        raise http.client.IncompleteRead(b"")
    kind = (response.getheader("Content-Type") or "").partition(";")[0].strip().lower()
    return UfmAnswer(response.status, kind, response.getheader("Location") or "", bytes(body))


def _error(where: UfmPlace, problem: Exception, sent: bool) -> UfmError:
    if isinstance(problem, ssl.SSLCertVerificationError):
        return UfmError(f"{where}: its certificate is not trusted: {clean(problem.verify_message, 120)}; "
                        "name its authority, --ufm-tls FILE, or its fingerprint, --ufm-tls sha256:...")
    if isinstance(problem, ssl.SSLEOFError | http.client.RemoteDisconnected | http.client.IncompleteRead):
        return UfmError(f"{where}: it closed the connection before it had answered", unsure=sent)
    if isinstance(problem, ssl.SSLError):
        return UfmError(f"{where}: no TLS connection: {clean(problem.reason or 'it speaks no TLS', 80)}")
    if isinstance(problem, OSError):
        why = clean(problem.strerror or type(problem).__name__, 80)
        return UfmError(f"{where}: the connection was dropped: {why}", unsure=sent)
    return UfmError(f"{where}: its answer is not HTTP ({type(problem).__name__})", unsure=sent)
