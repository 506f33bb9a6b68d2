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
from healthcheck.exporter.page import Page
from healthcheck.exporter.source import FleetStatus, Source
from healthcheck.model.exposition import CONTENT_TYPE, Rows, grouped, text_of
from inventory.model import Node

_LOOK_S = 1.0           # interval of checks for changes
# A page that was not refreshed for this long is not served any more: it would show an old state.
_DEAD_S = 180.0
_VARY = MappingProxyType({"Vary": "Accept, Accept-Encoding"})
_TEXT = "text/plain; charset=utf-8"
# Their answers may wait for a disk or take long to make; the others are there.
SLOW = ("/", "/sd", "/gate")
_INDEX = b"muster exporter: /metrics /healthz /readyz /sd /gate\n"


@dataclass(frozen=True)
class HttpResponse:
    """One response, with its body in parts."""

    status: int
    body: tuple[bytes, ...]
    type: str = _TEXT
    gzipped: bool = False
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


class TextFormat:
    """The format that needs Python's standard library only; `formats` has more."""

    def chosen(self, accept: str) -> str:
        """The content type for an Accept header."""
        return CONTENT_TYPE

    def written(self, rows: Rows) -> Mapping[str, bytes]:
        """The families by content type, without what ends a page."""
        return {CONTENT_TYPE: text_of(rows).encode("utf-8", "replace")}

    def end(self, content_type: str) -> bytes:
        """What ends a page."""
        return b""


@dataclass(frozen=True)
class _WrittenPage:
    """A page in one format, plain and as the beginning of a gzip stream (RFC 1952), which `stream` goes on
    with."""

    plain: bytes
    small: bytes
    stream: Any


@dataclass(frozen=True)
class _MadePage:
    """A page in every format, by content type."""

    written: Mapping[str, _WrittenPage]
    trouble: str
    seconds: float


class Board:
    """Answers from the page that `refresh` made last.

    `inventory` gives the nodes for service discovery, as targets on `port`; None without that option. `gate`
    answers for the gate's snapshot, by query and compression; None if there is none, as on a node. `home`
    answers for /, by compression; None: a line that lists the pages.
    """

    def __init__(
        self, source: Source, page: Page, process: Callable[[], whole.Process], *,
        inventory: Callable[[], Iterable[Node]] | None = None, port: int | None = None,
        clock: Callable[[], float] = time.time, gate: Callable[[str, bool], HttpResponse] | None = None,
        formats: TextFormat | None = None, home: Callable[[bool], HttpResponse] | None = None,
    ) -> None:
        self._source, self._page, self._process, self._clock = source, page, process, clock
        self._inventory, self._port, self._gate, self._home = inventory, port, gate, home
        self._fleet: FleetStatus | None = None
        self._until = self._now = 0.0
        self._formats = formats or TextFormat()
        self._made: _MadePage | None = None
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
            page = self._formats.written(self._page.make(self._fleet, now))
            written = {kind: _compressed(plain) for kind, plain in page.items()}
            self.pages += 1
            self._until = self._page.until(self._fleet, now)
            self._made = _MadePage(written, self._fleet.trouble, time.monotonic() - began)
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

    def answer(self, target: str, *, small: bool, accept: str = "") -> HttpResponse:
        """The response to a GET of this target, compressed if `small`."""
        path, _, query = target.partition("?")
        if path == "/metrics":
            return self._metrics(small, self._formats.chosen(accept))
        if path == "/healthz":
            return HttpResponse(200, (b"ok\n",))
        if path == "/readyz":
            trouble = self._dead() or (self._made.trouble if self._made is not None else "")
            return HttpResponse(503, (f"{trouble}\n".encode(),)) if trouble else HttpResponse(200, (b"ok\n",))
        if path == "/sd":
            return self._discovery(query)
        if path == "/gate" and self._gate is not None:
            return self._gate(query, small)
        if path == "/" and self._home is not None:
            return self._home(small)
        return HttpResponse(200, (_INDEX,)) if path == "/" else HttpResponse(404, (b"no such page; see /\n",))

    def text(self) -> str:
        """The page as text."""
        return b"".join(self._metrics(False, CONTENT_TYPE).body).decode()

    def _dead(self) -> str:
        if self._made is None:
            return "starting"
        silent = time.monotonic() - self._looked
        return f"nothing could be read for {silent:.0f} s" if silent > _DEAD_S else ""

    def _metrics(self, small: bool, kind: str) -> HttpResponse:
        made = self._made
        if made is None or (dead := self._dead()):
            return HttpResponse(503, (f"{'starting' if made is None else dead}\n".encode(),))
        page = made.written[kind]
        own = grouped(whole.process(self._process(), made.seconds, self.pages)).items()
        tail = self._formats.written(own)[kind] + self._formats.end(kind)
        if not small:
            return HttpResponse(200, (page.plain, tail), kind, headers=_VARY)
        stream = page.stream.copy()
        return HttpResponse(200, (page.small, stream.compress(tail) + stream.flush()), kind, gzipped=True,
                            headers=_VARY)

    def _discovery(self, query: str) -> HttpResponse:
        if self._inventory is None or self._port is None:
            return HttpResponse(
                404, (b"no service discovery here: muster exporter --http-sd PORT, with an inventory\n",))
        asked = parse_qs(query).get("port", [str(self._port)])[-1]
        if not asked.isascii() or not asked.isdigit() or not 1 <= int(asked[:6]) <= 65535:
            return HttpResponse(400, (b"port: expected 1 to 65535\n",))
        return HttpResponse(200, (discovery(self._inventory(), int(asked)).encode(),), "application/json")


def _compressed(plain: bytes) -> _WrittenPage:
    stream = zlib.compressobj(1, zlib.DEFLATED, 31)
    return _WrittenPage(plain, stream.compress(plain) + stream.flush(zlib.Z_SYNC_FLUSH), stream)
