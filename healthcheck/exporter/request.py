"""One HTTP request as it comes in, and the head of its response. Pure; answers GET and HEAD of HTTP/1.0 and
1.1, one request to a connection (RFC 9112)."""

from __future__ import annotations

import http.client
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from email.utils import formatdate
from http import HTTPStatus

from healthcheck.exporter.board import HttpResponse

MOST_BYTES = 16384      # of request line and headers; http.client takes at most 100 headers
_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([\x21-\x7e\x80-\xff]+) HTTP/([0-9])\.[0-9]")
_END = re.compile(rb"\n\r?\n")


@dataclass(frozen=True)
class Request:
    """A complete request. `target` begins with one slash."""

    target: str
    headers: Message
    head: bool = False

    def header(self, name: str) -> str:
        """All values of a header as one list; empty without it."""
        return ", ".join(map(str, self.headers.get_all(name, [])))


def parsed(data: bytes | bytearray) -> Request | HttpResponse | None:
    """The request at the beginning of `data`, or why there is none; None while it is not complete."""
    line_end = data.find(b"\n", 0, MOST_BYTES)
    if line_end < 0:
        return _refused(414) if len(data) >= MOST_BYTES else None
    line = _LINE.fullmatch(bytes(data[:line_end]).removesuffix(b"\r"))
    if line is None:
        return _refused(400)
    method, target, major = (part.decode("latin-1") for part in line.groups())
    if major != "1":
        return _refused(505)
    if method not in ("GET", "HEAD"):
        return _refused(501)
    end = _END.search(data, line_end, MOST_BYTES)
    if end is None:
        return _refused(431) if len(data) >= MOST_BYTES else None
    try:
        headers = http.client.parse_headers(io.BytesIO(bytes(data[line_end + 1:end.end()])))
    except http.client.HTTPException:
        return _refused(431)
    return Request("/" + target.lstrip("/"), headers, method == "HEAD")


def head(answer: HttpResponse, more: Mapping[str, str]) -> bytes:
    """Status line and headers of a response; `more` are headers to add."""
    status = HTTPStatus(answer.status)
    headers = {
        "Server": "muster", "Date": formatdate(usegmt=True), "Content-Type": answer.type,
        "Content-Length": str(sum(map(len, answer.body))), "Connection": "close",
        "X-Content-Type-Options": "nosniff",
        **({"Content-Encoding": "gzip"} if answer.gzipped else {}), **answer.headers, **more}
    lines = [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join((f"HTTP/1.0 {status.value} {status.phrase}", *lines, "", "")).encode("latin-1")


def _refused(status: int) -> HttpResponse:
    return HttpResponse(status, (f"{HTTPStatus(status).phrase}\n".encode(),))


def takes_gzip(asked: str) -> bool:
    """Whether a client's Accept-Encoding allows gzip (RFC 9110, section 12.5.3)."""
    for entry in asked.split(","):
        coding, _, quality = entry.partition(";")
        if coding.strip().lower() in ("gzip", "*"):
            return quality.replace(" ", "").rstrip("0").rstrip(".") not in ("q=", "q=0")
    return False
