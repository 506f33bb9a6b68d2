"""Serves the page at the exporter's /: made when it is asked for, at most every half minute."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from healthcheck.exporter.board import HttpResponse
from inventory.errors import MusterError

# Making one takes 2 s of CPU at 4,096 nodes (scripts/bench/page), beside which scrapes are to be answered.
_KEPT_S = 30.0


@dataclass(frozen=True)
class _Made:
    """A page, plain and compressed, and when it was made."""

    at: float
    plain: bytes
    small: bytes
    policy: str


class StatusPage:
    """Answers for the store in `state` and the inventory in `path` (None: the nodes of the store)."""

    def __init__(
        self, state: Path, path: Path | None, rules: str | None, clock: Callable[[], float] = time.time,
    ) -> None:
        self._state, self._path, self._rules, self._clock = state, path, rules, clock
        self._made: _Made | None = None
        self._making = threading.Lock()

    def answer(self, small: bool) -> HttpResponse:
        """The response to GET /; while another thread makes the page anew, the one before."""
        held, now = self._made, self._clock()
        if held is None or not 0 <= now - held.at < _KEPT_S:
            # Who waited here would hold one of the few threads that also answer for the gate.
            if self._making.acquire(blocking=False):
                try:
                    held = self._made = self._make(now)
                except (MusterError, OSError) as error:
                    return HttpResponse(503, (f"{error}\n".encode("utf-8", "replace"),))
                finally:
                    self._making.release()
            elif held is None:
                return HttpResponse(503, (b"the page is being made; ask again\n",),
                                    headers=MappingProxyType({"Retry-After": "3"}))
        headers = {
            "Content-Security-Policy": f"{held.policy}; frame-ancestors 'none'", "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer", "Vary": "Accept-Encoding"}
        return HttpResponse(200, (held.small if small else held.plain,), "text/html; charset=utf-8",
                            gzipped=small, headers=MappingProxyType(headers))

    def _make(self, now: float) -> _Made:
        # Many exporters are never asked, and need not hold triage and Jinja2.
        from healthcheck.statuspage.gather import document
        from healthcheck.statuspage.html import page
        from healthcheck.store.file import opened
        from inventory.load import load_inventory

        there = load_inventory(self._path) if self._path is not None else None
        with opened(self._state) as store:
            made = page(document(store, there, self._state, now, rules=self._rules))
        packed = zlib.compressobj(6, zlib.DEFLATED, 31)
        return _Made(now, made.data, packed.compress(made.data) + packed.flush(), made.policy)
