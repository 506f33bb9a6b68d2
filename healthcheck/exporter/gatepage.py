"""Serves the gate's snapshot at /gate: signature and document as one, or that there is nothing newer."""

from __future__ import annotations

import threading
import zlib
from pathlib import Path
from urllib.parse import parse_qs

from healthcheck.certify.pair import CURRENT, NoPair, read_pair
from healthcheck.exporter.board import HttpResponse


class GatePage:
    """Answers from the folder to which `muster gate publish` writes the document of this name; it is not
    verified here, since the fetching node does that."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._lock = threading.Lock()
        self._held = ("", b"", b"")     # number, plain, compressed

    def answer(self, query: str, small: bool) -> HttpResponse:
        """The response to GET /gate?after=SERIAL: 304 if there is nothing newer."""
        try:
            serial = (self._folder / CURRENT).readlink().name
        except OSError:
            return HttpResponse(404, (b"no snapshot yet: muster gate publish, on the head\n",))
        after = parse_qs(query).get("after", ["0"])[-1]
        if (serial.isdigit() and after.isascii() and after.isdigit() and len(after) < 20
            and int(after) >= int(serial)):
            return HttpResponse(304, ())
        with self._lock:
            if self._held[0] != serial:
                try:
                    data, signature = read_pair(str(self._folder), self._name)
                except NoPair as error:
                    return HttpResponse(503, (f"{error}\n".encode("utf-8", "replace"),))
                plain = signature + data
                packed = zlib.compressobj(6, zlib.DEFLATED, 31)
                self._held = (serial, plain, packed.compress(plain) + packed.flush())
            _, plain, compressed = self._held
        return HttpResponse(200, (compressed if small else plain,), "application/octet-stream", gzipped=small)
