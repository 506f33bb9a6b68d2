"""One HTTPS connection to a controller, which may hang, flood, lie and redirect: every byte is bounded, and
so is the time of all of them.

The certificate is compared with its pin, or verified, before the first byte goes out, and so before any
password does. Why not requests or urllib3: their time limits hold for one read each, so that a byte now and
then keeps a call alive for ever; they follow redirects, take proxies and passwords (.netrc) from the
surroundings, and hold answers of any size.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import http.client
import select
import socket
import ssl
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from inventory.text import clean, short
from inventory.transport.httponce import HttpAnswer, HttpDeadline
from inventory.transport.timedsocket import TimedSocket
from provisioning.bmc.base import BmcError, BmcErrorReason

CONNECT_S = 10.0
MOST_BYTES = 8 * 1024 * 1024        # of one answer: an expanded log of 4,000 entries has some 3 MB
_MOST_HEADERS = 100


@dataclass(frozen=True)
class RedfishEndpoint:
    """Where a controller is, and why its certificate is believed: `tls` is as in the inventory, `pin` the
    pinned fingerprint if any; `system` is the id of the node's system where the inventory names it."""

    node: str
    address: str
    port: int
    tls: str
    pin: str | None = None
    system: str | None = None


class Deadline(HttpDeadline):
    """When a whole call must have ended."""

    def at_most(self, seconds: float) -> Deadline:
        """The same end, and no later than so many seconds from now. Raises as `left`."""
        return Deadline(min(seconds, self.left()), self._clock)

    def left(self) -> float:
        """Seconds until then; raises BmcError(TIMEOUT) when there are none."""
        try:
            return super().left()
        except TimeoutError:
            raise BmcError(BmcErrorReason.TIMEOUT, f"no whole answer within {self.seconds:g} s") from None


class RedfishConnectionDropped(BmcError):
    """The connection was closed by the other side, so that asking once more may help."""


class RedfishConnection:
    """Opened when needed, kept for the next request, and opened again when the other side closed it."""

    def __init__(self, place: RedfishEndpoint, beside: RedfishConnection | None = None) -> None:
        """`beside` is a connection to the same place: what was agreed on there need not be agreed on anew."""
        self._place = place
        self._socket: ssl.SSLSocket | None = None
        self._beside = beside
        self._context: ssl.SSLContext | None = None

    def ask(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, deadline: Deadline,
    ) -> HttpAnswer:
        """One request and its answer. Raises BmcError; `done` None: the request may have been received."""
        sent = False
        try:
            connection = self._connected(deadline)
            lines = [f"{method} {path} HTTP/1.1", f"Host: {self._host}",
                     *(f"{name}: {value}" for name, value in headers.items())]
            if body is not None:
                lines.append(f"Content-Length: {len(body)}")
            connection.settimeout(deadline.left())
            sent = method != "GET"
            connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b""))
            return self._answer(connection, method, deadline)
        except BmcError as problem:
            self.close()
            problem.done = None if sent else False
            raise
        except (OSError, http.client.HTTPException, zlib.error, ValueError) as problem:
            self.close()
            error = _error(problem, deadline)
            error.done = None if sent else False
            raise error from None

    def open(self, deadline: Deadline) -> None:
        """Connects, where that is not done: a handshake takes a controller long, and may be over by the time
        there is something to ask. Raises BmcError."""
        try:
            self._connected(deadline)
        except BmcError:
            raise
        except (OSError, ValueError) as problem:
            raise _error(problem, deadline) from None

    @property
    def _host(self) -> str:
        return f"[{self._place.address}]" if ":" in self._place.address else self._place.address

    def _connected(self, deadline: Deadline) -> ssl.SSLSocket:
        if self._socket is not None and _talks(self._socket):
            self.close()
        if self._socket is None:
            first = self._beside or self
            first._context = first._context or trusting(self._place)
            agreed = first._socket.session if first._socket is not None else None
            self._socket = connect(self._place, deadline, first._context, agreed)
        return self._socket

    def _answer(self, connection: ssl.SSLSocket, method: str, deadline: Deadline) -> HttpAnswer:
        timed = TimedSocket(connection, deadline)
        response = http.client.HTTPResponse(timed, method=method)  # type: ignore[arg-type]
        response.begin()
        found = response.getheaders()
        if len(found) > _MOST_HEADERS:
            raise BmcError(BmcErrorReason.BROKEN, f"its answer has over {_MOST_HEADERS} headers")
        headers = {name.lower(): value for name, value in found}
        body = response.read(MOST_BYTES + 1)
        # some iLO send registries in no other way
        if headers.get("content-encoding", "").strip().lower() == "gzip":
            body = zlib.decompressobj(31).decompress(body, MOST_BYTES + 1)
        if len(body) > MOST_BYTES:
            raise BmcError(
                BmcErrorReason.BROKEN, f"its answer is over the limit of {MOST_BYTES // 2**20} MiB")
        if response.length:
            raise http.client.IncompleteRead(b"")
        if response.will_close:
            self.close()
        return HttpAnswer(response.status, headers, body)

    def close(self) -> None:
        """Ends the connection; never raises."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
            self._socket = None


def _talks(connection: ssl.SSLSocket) -> bool:
    """Whether the other side has said something that no one asked for: mostly that it has closed."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))


def trusting(place: RedfishEndpoint, *, any_certificate: bool = False) -> ssl.SSLContext:
    """What is believed of the other side there. Raises BmcError(TLS)."""
    if place.tls == "pin" and place.pin is None and not any_certificate:
        raise BmcError(BmcErrorReason.TLS,
                       f"no certificate of {place.node}'s controller is pinned; look at it and pin it: "
                       f"muster bmc enroll {place.node}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if place.tls == "pin" or any_certificate:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE     # the fingerprint says more than any authority
        # OpenSSL's own: Python's leaves out what older controllers speak alone
        context.set_ciphers("DEFAULT")
    else:
        _trust(context, place.tls)
    return context


def connect(
    place: RedfishEndpoint, deadline: Deadline, context: ssl.SSLContext, agreed: ssl.SSLSession | None = None,
    *, any_certificate: bool = False,
) -> ssl.SSLSocket:
    """A connection whose certificate is the pinned one, or verified; `agreed` is a session of TLS with the
    same place, if any. Raises BmcError, or what sockets raise."""
    seconds = min(CONNECT_S, deadline.left())
    try:
        plain = socket.create_connection((place.address, place.port), timeout=seconds)
    except TimeoutError:
        raise BmcError(BmcErrorReason.UNREACHABLE,
                       f"no answer from {place.address} port {place.port} within {seconds:g} s") from None
    except (OSError, UnicodeError) as problem:
        why = getattr(problem, "strerror", None) or "it has no such address"
        raise BmcError(
            BmcErrorReason.UNREACHABLE, f"{place.address} port {place.port}: {clean(why)}") from None
    try:
        plain.settimeout(deadline.left())
        found = context.wrap_socket(plain, server_hostname=place.address, session=agreed)
    except BaseException:
        plain.close()
        raise
    if place.tls == "pin" and not any_certificate and not hmac.compare_digest(
        fingerprint(found), place.pin or ""):
        shown = fingerprint(found)
        found.close()
        raise BmcError(
            BmcErrorReason.TLS,
            f"{place.node}'s controller shows another certificate ({shown[:16]}...) than the one that is "
            f"pinned; if it was changed on purpose: muster bmc enroll {place.node} --replace {place.node}")
    return found


def _trust(context: ssl.SSLContext, tls: str) -> None:
    try:
        if tls == "verify":
            context.load_default_certs()
        else:
            context.load_verify_locations(tls)
    except OSError as problem:      # ssl.SSLError is one
        why = clean(problem.strerror or problem, 80)
        raise BmcError(
            BmcErrorReason.TLS, f"{clean(tls)} cannot be read as a file of authorities: {why}") from None


def fingerprint(connection: ssl.SSLSocket) -> str:
    """SHA-256 of the certificate that the other side has shown, in hexadecimal."""
    return hashlib.sha256(connection.getpeercert(binary_form=True) or b"").hexdigest()


def _error(problem: Exception, deadline: Deadline) -> BmcError:
    if isinstance(problem, TimeoutError):
        return BmcError(BmcErrorReason.TIMEOUT, f"no whole answer within {deadline.seconds:g} s")
    if isinstance(problem, ssl.SSLCertVerificationError):
        return BmcError(
            BmcErrorReason.TLS, f"its certificate is not trusted: {clean(problem.verify_message, 120)}")
    if isinstance(problem, ssl.SSLEOFError | http.client.RemoteDisconnected | http.client.IncompleteRead):
        return RedfishConnectionDropped(
            BmcErrorReason.UNREACHABLE, "it closed the connection before it had answered")
    if isinstance(problem, ssl.SSLError):
        return BmcError(
            BmcErrorReason.TLS, f"no TLS connection: {clean(problem.reason or 'it speaks no TLS', 80)}")
    if isinstance(problem, OSError):
        return RedfishConnectionDropped(
            BmcErrorReason.UNREACHABLE,
            f"the connection was dropped: {clean(problem.strerror or type(problem).__name__, 80)}")
    return BmcError(
        BmcErrorReason.BROKEN, f"its answer is not HTTP ({type(problem).__name__}: {short(problem)})")


def shows(place: RedfishEndpoint, deadline: Deadline) -> str:
    """The fingerprint of the certificate that is shown now; nothing is sent. Raises BmcError."""
    try:
        connection = connect(
            place, deadline, trusting(place, any_certificate=True), any_certificate=True)
    except OSError as problem:
        raise _error(problem, deadline) from None
    with contextlib.closing(connection):
        return fingerprint(connection)
