"""The HTTP server of `muster os serve`: bounded threads and connections; `site` answers."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from typing import Any

from inventory.errors import UsageError
from inventory.text import clean
from provisioning.osinstall.pxe.site import MOST_BODY, PxeAnswer, PxeRequest, PxeSite

MOST_CONNECTIONS = 256
MOST_OF_PEER = 16
REQUEST_S = 20.0        # for a whole request, from the connection on
_SEND_S = 30.0          # for each piece of an answer
_PIECE = 256 * 1024
_OVERDUE_S = 30.0       # between looks at installations whose time is over
_LINES, _LINES_S = 50, 10.0     # what is logged at most
_RANGE = re.compile(r"bytes=([0-9]{1,18})-([0-9]{1,18})?")
_MOST_TARGET = 2048


class Log:
    """Writes as many lines as a person can read, and counts the others; no machine waits for it."""

    def __init__(self, write: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._write, self._clock = write, clock
        self._times: deque[float] = deque(maxlen=_LINES)
        self._left_out = 0
        self._lock = threading.Lock()

    def line(self, text: str) -> None:
        """Writes one line, cleaned."""
        with self._lock, contextlib.suppress(OSError):
            now = self._clock()
            if len(self._times) == _LINES and now - self._times[0] < _LINES_S:
                self._left_out += 1
                return
            if self._left_out:
                self._write(f"({self._left_out} more lines are left out)")
                self._left_out = 0
            self._times.append(now)
            self._write(clean(text, 600))


class PxeServer(ThreadingHTTPServer):
    """Serves one site until `shutdown`. Raises OSError where it cannot listen."""

    daemon_threads = True
    request_queue_size = 128
    allow_reuse_address = True

    def __init__(
        self, where: tuple[str, int], site: PxeSite, log: Log, tls: ssl.SSLContext | None = None,
        request_s: float = REQUEST_S,
    ) -> None:
        if ":" in where[0]:
            self.address_family = socket.AF_INET6
        self.site, self.log, self._tls, self._request_s = site, log, tls, request_s
        # By id: connection, peer, and until when its request has to be read.
        self._held: dict[int, tuple[Any, str, float]] = {}
        self._lock = threading.Lock()
        self._looked = 0.0
        super().__init__(where, _Handler)

    def server_bind(self) -> None:
        """Binds, and asks no resolver for a name."""
        TCPServer.server_bind(self)

    def get_request(self) -> tuple[Any, Any]:
        """The next connection; the handshake is done in its thread."""
        connection, address = super().get_request()
        connection.settimeout(self._request_s)
        if self._tls is not None:
            connection = self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, address

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Whether there is room for it, and for its peer."""
        peer = str(client_address[0])
        with self._lock:
            if len(self._held) >= MOST_CONNECTIONS or sum(
                    held[1] == peer for held in self._held.values()) >= MOST_OF_PEER:
                return False
            self._held[id(request)] = (request, peer, time.monotonic() + self._request_s)
        return True

    def read(self, request: Any) -> None:
        """Notes that the request of a connection has been read: from now on each piece sent has its limit."""
        with self._lock:
            if id(request) in self._held:
                self._held[id(request)] = (*self._held[id(request)][:2], float("inf"))

    def shutdown_request(self, request: Any) -> None:
        """Ends a connection."""
        with self._lock:
            self._held.pop(id(request), None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Ends connections whose request does not come, and installations whose time is over."""
        now = time.monotonic()
        with self._lock:
            late = [held[0] for held in self._held.values() if now > held[2]]
        for connection in late:
            with contextlib.suppress(OSError):      # it may have ended by itself
                connection.shutdown(socket.SHUT_RDWR)
        if now - self._looked >= _OVERDUE_S:
            self._looked = now
            threading.Thread(target=self._overdue, daemon=True).start()

    def _overdue(self) -> None:
        try:
            for line in self.site.overdue():
                self.log.line(line)
        except Exception as problem:  # noqa: BLE001  (the next look may succeed; the server goes on)
            self.log.line(str(problem))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A broken connection is its peer's affair."""


class _Handler(BaseHTTPRequestHandler):
    server: PxeServer
    server_version = "muster"
    sys_version = ""
    protocol_version = "HTTP/1.0"

    def setup(self) -> None:
        if isinstance(self.request, ssl.SSLSocket):
            self.request.do_handshake()
        super().setup()

    def do_GET(self) -> None:
        self._serve(b"")

    do_HEAD = do_GET

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdecimal() or len(length) > 9:
            self._give(PxeAnswer(411, "the length is missing\n"))
        elif int(length) > MOST_BODY:
            self._give(PxeAnswer(413, f"over {MOST_BODY} bytes\n"))
        else:
            body = self.rfile.read(int(length))
            if len(body) == int(length):
                self._serve(body)

    def _serve(self, body: bytes) -> None:
        self.server.read(self.request)
        path, _, query = self.path.partition("?")
        if len(self.path) > _MOST_TARGET:
            self._give(PxeAnswer(414, "too long\n"))
            return
        found = self.server.site.answer(PxeRequest(
            self.command, path, query, body, {name.lower(): value for name, value in self.headers.items()},
            str(self.client_address[0]).removeprefix("::ffff:")))
        if found.log:
            self.server.log.line(found.log)
        self._give(found)

    def _give(self, answer: PxeAnswer) -> None:
        self.request.settimeout(_SEND_S)
        if answer.file is not None:
            self._give_file(answer.file)
            return
        data = answer.text.encode("utf-8", "replace")
        self.send_response(answer.status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _give_file(self, path: Path) -> None:
        """A file, or the part that is asked for: controllers read media piece by piece (RFC 9110, 14)."""
        try:
            file = path.open("rb")
        except OSError:
            self._give(PxeAnswer(404, "not found\n"))
            return
        with file:
            size = file.seek(0, 2)
            first, last = 0, size - 1
            asked = _RANGE.fullmatch(self.headers.get("Range", ""))
            if asked is not None:
                first = int(asked[1])
                last = min(last, int(asked[2])) if asked[2] else last
                if first > last:
                    self.send_response(416)
                    self.send_header("Content-Range", f"bytes */{size}")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
            self.send_response(206 if asked is not None else 200)
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Accept-Ranges", "bytes")
            if asked is not None:
                self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
            self.send_header("Content-Length", str(last - first + 1))
            self.end_headers()
            if self.command != "HEAD":
                self._pieces(file, first, last - first + 1)

    def _pieces(self, file: Any, first: int, left: int) -> None:
        file.seek(first)
        while left > 0 and (piece := file.read(min(_PIECE, left))):
            self.wfile.write(piece)
            left -= len(piece)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: what matters is logged by what the answer says."""

    def handle(self) -> None:
        with contextlib.suppress(OSError, ValueError):      # the peer has gone, or sent what is no HTTP
            super().handle()


def tls_context(certificate: str | None, key: str | None) -> ssl.SSLContext | None:
    """The context of these files; None without them. Raises UsageError."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise UsageError("--tls-cert and --tls-key go together")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, password=lambda: "")
    except (OSError, ssl.SSLError) as problem:
        reason = problem.strerror or problem.__class__.__name__
        raise UsageError(f"{clean(certificate, 120)}, {clean(key, 120)}: no certificate and key: {reason}"
                         ) from None
    return context
