"""One HTTP request over its own connection, bounded in bytes and time. The certificate is verified, or
compared with its fingerprint, before the first byte goes out, and so before any password does. Redirects are
not followed, proxies and passwords of the surroundings (.netrc) not taken: a secret would go with them. Why
not urllib: its time limit holds for one read each."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import socket
import ssl
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from inventory.text import clean
from inventory.transport.timedsocket import TimedSocket

CONNECT_S = 10.0
VERIFY = "verify"
_CHUNK = 256 * 1024


@dataclass(frozen=True)
class HttpTrust:
    """Why a certificate is believed: `authorities` is "verify" for the system's or a file of them; with
    `pins`, it is one of these fingerprints (SHA-256 in hexadecimal) and nothing else counts."""

    authorities: str = VERIFY
    pins: Collection[str] = ()


@dataclass(frozen=True)
class HttpAnswer:
    """What came back. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


class HttpTrouble(Exception):
    """Why there is no answer; words for behind the name of the place. `passing`: it may be over soon;
    `untrusted`: no authority that counts has signed the certificate; `unsure`: the request may have been
    received, and no whole answer came."""

    def __init__(self, words: str, *, passing: bool = False, untrusted: bool = False) -> None:
        super().__init__(words)
        self.passing = passing
        self.untrusted = untrusted
        self.unsure = False


class HttpDeadline:
    """When a whole question, with all of its requests, must have been answered."""

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


def ask(
    host: str, port: int, trust: HttpTrust | None, method: str, path: str, headers: Mapping[str, str],
    body: bytes | None, deadline: HttpDeadline, most: int,
) -> HttpAnswer:
    """One request, by TLS where there is a trust, with so many bytes of answer. Raises HttpTrouble."""
    sent = False
    try:
        connection = _connected(host, port, trust, deadline)
        try:
            named = f"[{host}]" if ":" in host else host
            lines = [f"{method} {path} HTTP/1.1", f"Host: {named}:{port}", "Connection: close",
                     *(f"{name}: {value}" for name, value in headers.items())]
            if body is not None:
                lines.append(f"Content-Length: {len(body)}")
            connection.settimeout(deadline.left())
            sent = method != "GET"
            connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b""))
            return _answer(connection, method, deadline, most)
        finally:
            connection.close()
    except (OSError, HttpTrouble, http.client.HTTPException, ValueError) as problem:
        trouble = _trouble(problem, deadline)
        trouble.unsure = sent
        raise trouble from None


def _connected(host: str, port: int, trust: HttpTrust | None, deadline: HttpDeadline) -> socket.socket:
    context = _context(trust) if trust is not None else None
    seconds = min(CONNECT_S, deadline.left())
    try:
        plain = socket.create_connection((host, port), timeout=seconds)
    except TimeoutError:
        raise HttpTrouble(f"no answer within {seconds:g} s", passing=True) from None
    except (OSError, UnicodeError) as problem:
        why = getattr(problem, "strerror", None) or "it has no such address"
        raise HttpTrouble(f"cannot be reached: {clean(why, 120)}", passing=True) from None
    if context is None or trust is None:
        return plain
    try:
        plain.settimeout(deadline.left())
        found = context.wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise
    shown = hashlib.sha256(found.getpeercert(binary_form=True) or b"").hexdigest()
    if trust.pins and not any(hmac.compare_digest(shown, pin) for pin in trust.pins):
        found.close()
        raise HttpTrouble(f"shows another certificate than the one that is pinned: sha256:{shown}")
    return found


def _context(trust: HttpTrust) -> ssl.SSLContext:
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
        raise HttpTrouble(
            f"{clean(trust.authorities)} cannot be read as a file of authorities: {why}") from None
    return context


def _answer(connection: socket.socket, method: str, deadline: HttpDeadline, most: int) -> HttpAnswer:
    timed = TimedSocket(connection, deadline)
    response = http.client.HTTPResponse(timed, method=method)  # type: ignore[arg-type]
    response.begin()
    body = bytearray()
    while chunk := response.read(_CHUNK):
        body += chunk
        if len(body) > most:
            raise HttpTrouble(f"its answer is over the limit of {most // 2**20} MiB")
    if response.length:
        raise http.client.IncompleteRead(b"")
    return HttpAnswer(response.status, {name.lower(): value for name, value in response.getheaders()},
                      bytes(body))


def _trouble(problem: Exception, deadline: HttpDeadline) -> HttpTrouble:
    if isinstance(problem, HttpTrouble):
        return problem
    if isinstance(problem, TimeoutError):
        return HttpTrouble(f"no whole answer within {deadline.seconds:g} s", passing=True)
    if isinstance(problem, ssl.SSLCertVerificationError):
        return HttpTrouble(f"its certificate is not trusted: {clean(problem.verify_message, 120)}",
                           untrusted=True)
    if isinstance(problem, ssl.SSLEOFError | http.client.RemoteDisconnected | http.client.IncompleteRead):
        return HttpTrouble("it closed the connection before it had answered", passing=True)
    if isinstance(problem, ssl.SSLError):
        return HttpTrouble(f"no TLS connection: {clean(problem.reason or 'it speaks no TLS', 80)}")
    if isinstance(problem, OSError):
        why = clean(problem.strerror or type(problem).__name__, 80)
        return HttpTrouble(f"the connection was dropped: {why}", passing=True)
    return HttpTrouble(f"its answer is not HTTP ({type(problem).__name__})")
