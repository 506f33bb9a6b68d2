"""Answers requests by path. A thread makes the page when something has changed,
so that a scrape never waits."""

from __future__ import annotations

import contextlib
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qs

from healthcheck.exporter import fleet as whole
from healthcheck.exporter.discovery import discovery
from healthcheck.exporter.page import Page, text_of
from healthcheck.exporter.source import FleetStatus, Source
from healthcheck.model.exposition import CONTENT_TYPE
from inventory.model import Node

_LOOK_S = 1.0           # interval of checks for changes
# A page that was not refreshed for this long is not served any more: it would show an old state.
_DEAD_S = 180.0
_TEXT = "text/plain; charset=utf-8"
# Their answers may wait for a disk or take long to make; the others are there.
SLOW = ("/sd", "/gate")
_INDEX = b"muster exporter: /metrics /healthz /readyz /sd /gate\n"


@dataclass(frozen=True)
class HttpResponse:
    """One response, with its body in parts."""

    status: int
    body: tuple[bytes, ...]
    type: str = _TEXT
    gzipped: bool = False
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True)
class _RenderedPage:
    """A page, plain and as the beginning of a gzip stream (RFC 1952), which `stream` goes on with."""

    plain: bytes
    small: bytes
    stream: Any
    trouble: str
    seconds: float


class Board:
    """Answers from the page that `refresh` made last.

    `inventory` gives the nodes for service discovery, as targets on `port`; None without that option. `gate`
    answers for the gate's snapshot, by query and compression; None if there is none, as on a node.
    """

    def __init__(
        self, source: Source, page: Page, process: Callable[[], whole.Process], *,
        inventory: Callable[[], Iterable[Node]] | None = None, port: int | None = None,
        clock: Callable[[], float] = time.time, gate: Callable[[str, bool], HttpResponse] | None = None,
    ) -> None:
        self._source, self._page, self._process, self._clock = source, page, process, clock
        self._inventory, self._port, self._gate = inventory, port, gate
        self._fleet: FleetStatus | None = None
        self._until = self._now = 0.0
        self._made: _RenderedPage | None = None
        self._looked = time.monotonic()
        self._ending = threading.Event()
        self.ready = threading.Event()      # set when there is a page
        self.pages = 0

    def refresh(self) -> None:
        """Makes the page anew. For one thread."""
        began, now = time.monotonic(), self._clock()
        found = self._source.read(now)
        if found is not None:
            self._fleet = found
        assert self._fleet is not None  # noqa: S101  (the first read gives one)
        if found is not None or self._made is None or now >= self._until or now < self._now:
            plain = self._page.make(self._fleet, now).encode("utf-8", "replace")
            stream = zlib.compressobj(1, zlib.DEFLATED, 31)
            small = stream.compress(plain) + stream.flush(zlib.Z_SYNC_FLUSH)
            self.pages += 1
            self._until = self._page.until(self._fleet, now)
            self._made = _RenderedPage(plain, small, stream, self._fleet.trouble, time.monotonic() - began)
            self.ready.set()
        self._now = now
        self._looked = time.monotonic()

    def keep(self) -> None:
        """Refreshes until `end`; after an unexpected error the page expires."""
        with contextlib.closing(self._source):
            while not self._ending.is_set():
                self.refresh()
                self._ending.wait(_LOOK_S)

    def end(self) -> None:
        """No more refreshing."""
        self._ending.set()

    def answer(self, target: str, *, small: bool) -> HttpResponse:
        """The response to a GET of this target, compressed if `small`."""
        path, _, query = target.partition("?")
        if path == "/metrics":
            return self._metrics(small)
        if path == "/healthz":
            return HttpResponse(200, (b"ok\n",))
        if path == "/readyz":
            trouble = self._dead() or (self._made.trouble if self._made is not None else "")
            return HttpResponse(503, (f"{trouble}\n".encode(),)) if trouble else HttpResponse(200, (b"ok\n",))
        if path == "/sd":
            return self._discovery(query)
        if path == "/gate" and self._gate is not None:
            return self._gate(query, small)
        return HttpResponse(200, (_INDEX,)) if path == "/" else HttpResponse(404, (b"no such page; see /\n",))

    def text(self) -> str:
        """The page as text."""
        return b"".join(self._metrics(small=False).body).decode()

    def _dead(self) -> str:
        if self._made is None:
            return "starting"
        silent = time.monotonic() - self._looked
        return f"nothing could be read for {silent:.0f} s" if silent > _DEAD_S else ""

    def _metrics(self, small: bool) -> HttpResponse:
        made = self._made
        if made is None or (dead := self._dead()):
            return HttpResponse(503, (f"{'starting' if made is None else dead}\n".encode(),))
        own = text_of(whole.process(self._process(), made.seconds, self.pages)).encode()
        if not small:
            return HttpResponse(200, (made.plain, own), CONTENT_TYPE)
        stream = made.stream.copy()
        return HttpResponse(200, (made.small, stream.compress(own) + stream.flush()), CONTENT_TYPE,
                            gzipped=True)

    def _discovery(self, query: str) -> HttpResponse:
        if self._inventory is None or self._port is None:
            return HttpResponse(
                404, (b"no service discovery here: muster exporter --http-sd PORT, with an inventory\n",))
        asked = parse_qs(query).get("port", [str(self._port)])[-1]
        if not asked.isascii() or not asked.isdigit() or not 1 <= int(asked[:6]) <= 65535:
            return HttpResponse(400, (b"port: expected 1 to 65535\n",))
        return HttpResponse(200, (discovery(self._inventory(), int(asked)).encode(),), "application/json")
