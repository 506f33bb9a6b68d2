"""Small servers of HTTP and HTTPS on loopback, in threads of the test's process. They say nothing."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Answers(BaseHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


class Server(ThreadingHTTPServer):
    """Each connection is a thread's."""

    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """A client that is gone is no news."""


@contextmanager
def answering(handler: type[Answers], certificate: Path | None = None,
              key: Path | None = None) -> Iterator[int]:
    """The port where this answers, over TLS with this certificate, whose key may be in the same file."""
    server = Server(("127.0.0.1", 0), handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        # The handshake is the connection's thread's: one that never comes must not hold up the others.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
