"""Serves a board until stopped: for the command, and for a node's agent, which has no click."""

from __future__ import annotations

import contextlib
import gc
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from healthcheck.exporter.board import Board
from healthcheck.exporter.security import Security
from healthcheck.exporter.server import Server, serve
from healthcheck.exporter.tls import Tls
from inventory.errors import UsageError

LISTEN = "127.0.0.1:9847"
_LISTEN = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:.%a-z]+)\]|(?P<host>[^:\[\]]*)):(?P<port>[0-9]{1,5})")
_TURN_S = 1.0
# After which Python's threads take turns. By default, 5 ms, a scrape waits longer beside a page that is being
# made: the median of 40 was 48 to 77 ms, and with this 20 ms, at 1,024 nodes on two busy cores.
_SWITCH_S = 0.0005
# How many collections of the middle generation pass between two whole ones (Python's own: 10). A whole one
# visits all rows of a page, which form no cycles, and holds every thread: 81 ms at 4,096 nodes, six times a
# page. So it comes once in some hundred pages.
_WHOLE_COLLECTIONS = 100_000


def where(listen: str, option: str = "--listen") -> tuple[str, int]:
    """Host and port; raises UsageError."""
    match = _LISTEN.fullmatch(listen)
    if match is None or int(match["port"]) > 65535:
        raise UsageError(f"{option} {listen}: expected HOST:PORT, such as 127.0.0.1:9847 or [::1]:9847")
    # An empty host would mean all addresses, which must be explicit.
    host = match["six"] or match["host"]
    if not host:
        raise UsageError(f"{option} {listen}: names no host; 0.0.0.0 means all addresses of this machine")
    return host, int(match["port"])


def with_tls(certificate: str | None, key: str | None, clients: str | None) -> Security:
    """TLS as these options ask for; raises UsageError."""
    if certificate is None and key is None and clients is None:
        return Security()
    if certificate is None or key is None:
        raise UsageError("TLS needs a certificate and its key: --tls-cert FILE --tls-key FILE")
    return Tls(Path(certificate), Path(key), Path(clients) if clients is not None else None)


def served(
    board: Board, host: str, port: int, security: Security, refused: list[int], *,
    start: Callable[[], None] = lambda: None, stop: Callable[[], None] = lambda: None,
    over: Callable[[], bool] = lambda: False,
) -> int:
    """Serves until KeyboardInterrupt, or until `over`; returns exit code 0.
    Raises UsageError if it cannot listen.

    `start` and `stop` control what runs beside.
    """
    try:
        server = Server(host, port, security)
    except OSError as error:
        raise UsageError(f"--listen {host}:{port}: {error.strerror}") from None
    server.board = board
    server.counted = refused
    if not security.encrypted and not server.host.startswith(("127.", "::1")):
        _log("serving without TLS beyond this machine; use --tls-cert and --tls-key")
    sys.setswitchinterval(_SWITCH_S)
    gc.set_threshold(*gc.get_threshold()[:2], _WHOLE_COLLECTIONS)
    keeper = threading.Thread(target=board.keep, name="page", daemon=True)
    keeper.start()
    end = serve(server)
    try:
        start()
        while not board.ready.wait(1) and keeper.is_alive():
            pass
        shown = f"[{server.host}]" if ":" in server.host else server.host
        _log(f"serving http{'s' if security.encrypted else ''}://{shown}:{server.port}/metrics")
        turn = threading.Event()
        while not over():
            turn.wait(_TURN_S)
    except KeyboardInterrupt:
        pass
    finally:
        with contextlib.suppress(KeyboardInterrupt):
            board.end()
            end()
            stop()
        sys.stderr.flush()
    return 0


def _log(text: str) -> None:
    print(f"muster: {text}", file=sys.stderr, flush=True)  # noqa: T201
