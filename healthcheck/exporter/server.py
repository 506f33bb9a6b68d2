"""The HTTP server of the exporter: bounded threads, and a bound on the time of each connection, whatever its client does.

Names and limits are those of http.server, which it is made of; it answers GET and HEAD, and closes after each.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import ThreadingMixIn
from typing import Any

from healthcheck.exporter.board import Board, HttpResponse
from healthcheck.exporter.tls import Tls

MOST = 16               # connections at a time
_QUIET_S = 10.0         # for one read or write
_WHOLE_S = 60.0         # for a connection altogether


class Server(ThreadingMixIn, HTTPServer):
    """Serves a board; raises OSError where it cannot listen there."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, host: str, port: int, tls: Tls | None = None, *, quiet_s: float = _QUIET_S, whole_s: float = _WHOLE_S) -> None:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family = found[0][0]
        self.board: Board | None = None
        self.counted = [0]      # connections that were closed at once
        self._tls = tls
        self._quiet_s, self._whole_s = quiet_s, whole_s
        self._room = threading.BoundedSemaphore(MOST)
        self._open: dict[socket.socket, float] = {}
        super().__init__(found[0][4][:2], _Handler)  # type: ignore[arg-type]

    def server_bind(self) -> None:
        """Without the look-up of a name that HTTPServer makes, which may take long."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread, if there is room for one more."""
        if not self._room.acquire(blocking=False):
            self.counted[0] += 1
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:        # no thread to be had
            self._room.release()
            self.counted[0] += 1
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """One connection, from the handshake to its end."""
        self._open[request] = time.monotonic()
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._open.pop(request, None)
            self._room.release()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """The handshake belongs to the connection's own thread: who is slow at it keeps nobody."""
        request.settimeout(self._quiet_s)
        if self._tls is None:
            _Handler(request, client_address, self)
            return
        # The plain socket stays open beneath, so that it can be shut from outside.
        with self._tls.context().wrap_socket(request.dup(), server_side=True) as safe:
            _Handler(safe, client_address, self)

    def service_actions(self) -> None:
        """Ends connections that have taken their whole time."""
        late = time.monotonic() - self._whole_s
        for request, began in list(self._open.items()):
            if began < late:
                with contextlib.suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """What clients do is their affair; what we do is told in a line."""
        error = sys.exc_info()[1]
        if not isinstance(error, (OSError, ssl.SSLError, EOFError)):
            print(f"muster: exporter: {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Server
    server_version = "muster"
    sys_version = ""

    def do_GET(self) -> None:
        """The answer, with its body."""
        self._send(with_body=True)

    def do_HEAD(self) -> None:
        """The answer without."""
        self._send(with_body=False)

    def _send(self, *, with_body: bool) -> None:
        board = self.server.board
        asked = self.headers.get("Accept-Encoding", "")
        answer = HttpResponse(503, (b"starting\n",)) if board is None else board.answer(self.path, small=takes_gzip(asked))
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.type)
        self.send_header("Content-Length", str(sum(map(len, answer.body))))
        if answer.gzipped:
            self.send_header("Content-Encoding", "gzip")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if with_body:
            for part in answer.body:
                self.wfile.write(part)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a scrape is no event."""


def takes_gzip(asked: str) -> bool:
    """Whether a client's Accept-Encoding allows gzip (RFC 9110, section 12.5.3)."""
    for entry in asked.split(","):
        coding, _, quality = entry.partition(";")
        if coding.strip().lower() in ("gzip", "*"):
            return quality.replace(" ", "").rstrip("0").rstrip(".") not in ("q=", "q=0")
    return False


def serve(server: Server) -> Callable[[], None]:
    """Serves in a thread of its own; gives what ends it."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.2}, name="exporter", daemon=True)
    thread.start()

    def stop() -> None:
        server.shutdown()
        server.server_close()

    return stop
