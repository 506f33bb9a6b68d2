"""What is answered to which path: pages made one at a time, and kept for a moment for whoever asks beside."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import parse_qs

from healthcheck.exporter.discovery import discovery
from healthcheck.exporter.fleet import Process
from healthcheck.exporter.page import Page
from healthcheck.exporter.source import Source
from healthcheck.exporter.text import CONTENT_TYPE
from inventory.model import Node

# Two Prometheus servers of a pair scrape at about the same time.
_KEPT_S = 1.0
_TEXT = "text/plain; charset=utf-8"
_INDEX = "muster exporter: /metrics /healthz /readyz /sd\n"


@dataclass(frozen=True)
class Answer:
    """One response."""

    status: int
    body: bytes
    type: str = _TEXT
    gzipped: bool = False


@dataclass
class _Made:
    at: float
    plain: bytes
    trouble: str
    small: bytes | None = None


class Board:
    """Answers; `inventory` gives the nodes for service discovery, None where that was not asked for (`port`)."""

    def __init__(
        self, source: Source, page: Page, process: Callable[[], Process], *, inventory: Callable[[], Iterable[Node]] | None = None,
        port: int | None = None, clock: Callable[[], float] = time.time,
    ) -> None:
        self._source, self._page, self._process, self._clock = source, page, process, clock
        self._inventory, self._port = inventory, port
        self._lock = threading.Lock()
        self._made: _Made | None = None
        self._took = 0.0

    def answer(self, target: str, *, small: bool) -> Answer:
        """What a GET of this target gets, compressed where `small`."""
        path, _, query = target.partition("?")
        if path == "/metrics":
            return self._metrics(small)
        if path == "/healthz":
            return Answer(200, b"ok\n")
        if path == "/readyz":
            trouble = self._newest().trouble
            return Answer(503, f"{trouble}\n".encode()) if trouble else Answer(200, b"ok\n")
        if path == "/sd":
            return self._discovery(query)
        return Answer(200, _INDEX.encode()) if path == "/" else Answer(404, b"no such page; see /\n")

    def text(self) -> str:
        """The page as text."""
        return self._newest().plain.decode()

    def _newest(self) -> _Made:
        with self._lock:
            began = time.monotonic()
            if self._made is None or began - self._made.at > _KEPT_S:
                now = self._clock()
                fleet = self._source.read(now)
                plain = self._page.make(fleet, now, self._process(), self._took).encode("utf-8", "replace")
                self._took = time.monotonic() - began
                self._made = _Made(time.monotonic(), plain, fleet.trouble)
            return self._made

    def _metrics(self, small: bool) -> Answer:
        made = self._newest()
        if not small:
            return Answer(200, made.plain, CONTENT_TYPE)
        with self._lock:
            if made.small is None:
                made.small = gzip.compress(made.plain, 1)
        return Answer(200, made.small, CONTENT_TYPE, gzipped=True)

    def _discovery(self, query: str) -> Answer:
        if self._inventory is None or self._port is None:
            return Answer(404, b"no service discovery here: muster exporter --http-sd PORT, with an inventory\n")
        asked = parse_qs(query).get("port", [str(self._port)])[-1]
        if not asked.isascii() or not asked.isdigit() or not 1 <= int(asked[:6]) <= 65535:
            return Answer(400, b"port: expected 1 to 65535\n")
        return Answer(200, discovery(self._inventory(), int(asked)).encode(), "application/json")
