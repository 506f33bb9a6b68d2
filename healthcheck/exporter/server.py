"""The exporter's HTTP server, with limits on threads and on the time of each connection.

Built on http.server, with its names; answers GET and HEAD, and closes after each.
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
_WHOLE_S = 60.0         # for a whole connection


class Server(ThreadingMixIn, HTTPServer):
    """Serves a board; raises OSError if it cannot listen."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(
        self, host: str, port: int, tls: Tls | None = None, *, quiet_s: float = _QUIET_S,
        whole_s: float = _WHOLE_S,
    ) -> None:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family = found[0][0]
        self.board: Board | None = None
        self.counted = [0]      # refused connections
        self._tls = tls
        self._quiet_s, self._whole_s = quiet_s, whole_s
        self._room = threading.BoundedSemaphore(MOST)
        self._open: dict[socket.socket, float] = {}
        super().__init__(found[0][4][:2], _Handler)  # type: ignore[arg-type]

    def server_bind(self) -> None:
        """Skips HTTPServer's name lookup, which may take long."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Starts a thread, if there is room for one more."""
        if not self._room.acquire(blocking=False):
            self.counted[0] += 1
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:        # no free thread
            self._room.release()
            self.counted[0] += 1
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Handles one connection, from the handshake to its end."""
        self._open[request] = time.monotonic()
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._open.pop(request, None)
            self._room.release()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """The handshake runs in the connection's own thread, so a slow client blocks no one."""
        request.settimeout(self._quiet_s)
        if self._tls is None:
            _Handler(request, client_address, self)
            return
        # The plain socket stays open beneath, so that it can be shut from outside.
        with self._tls.context().wrap_socket(request.dup(), server_side=True) as safe:
            _Handler(safe, client_address, self)

    def service_actions(self) -> None:
        """Closes connections that have used up their time."""
        late = time.monotonic() - self._whole_s
        for request, began in list(self._open.items()):
            if began < late:
                with contextlib.suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores errors of clients; reports our own in one line."""
        error = sys.exc_info()[1]
        if not isinstance(error, (OSError, ssl.SSLError, EOFError)):
            print(f"muster: exporter: {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Server
    server_version = "muster"
    sys_version = ""

    def do_GET(self) -> None:
        """Sends the response with its body."""
        self._send(with_body=True)

    def do_HEAD(self) -> None:
        """Sends the response without its body."""
        self._send(with_body=False)

    def _send(self, *, with_body: bool) -> None:
        board = self.server.board
        asked = self.headers.get("Accept-Encoding", "")
        answer = (HttpResponse(503, (b"starting\n",)) if board is None
                  else board.answer(self.path, small=takes_gzip(asked)))
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
        """Does nothing: scrapes are not logged."""


def takes_gzip(asked: str) -> bool:
    """Whether a client's Accept-Encoding allows gzip (RFC 9110, section 12.5.3)."""
    for entry in asked.split(","):
        coding, _, quality = entry.partition(";")
        if coding.strip().lower() in ("gzip", "*"):
            return quality.replace(" ", "").rstrip("0").rstrip(".") not in ("q=", "q=0")
    return False


def serve(server: Server) -> Callable[[], None]:
    """Serves in its own thread; returns the function that stops it."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.2}, name="exporter",
                              daemon=True)
    thread.start()

    def stop() -> None:
        server.shutdown()
        server.server_close()

    return stop
