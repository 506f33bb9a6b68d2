"""Asks Prometheus' HTTP API one instant query, within a time and a number of bytes that it cannot exceed.

https://prometheus.io/docs/prometheus/latest/querying/api/. No proxy and no redirect is followed, so that the
password goes nowhere else; certificates are verified by the system's authorities (SSL_CERT_FILE adds a
site's).
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import socket
import ssl
import threading
from dataclasses import dataclass
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from healthcheck.config.secretline import secret_line
from inventory.errors import UsageError
from inventory.text import clean, short

SECONDS = 20.0
MOST = 64 << 20         # bytes; 10,000 nodes give 7 MB (scripts/bench/fromprometheus)
AUTH = "MUSTER_PROMETHEUS_AUTH"
_MOST_ERROR = 64 << 10  # bytes that are read of an answer that is an error
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class PrometheusError(Exception):
    """No answer that counts; one line, free of control characters."""


class Login:
    """USER:PASSWORD for basic authentication, which shows itself nowhere."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def header(self) -> str:
        """The value of the header Authorization (RFC 7617)."""
        return "Basic " + base64.b64encode(self._text.encode()).decode()


@dataclass(frozen=True)
class PrometheusUrl:
    """Where the API is: `prefix` is the path before /api/v1, empty or beginning with a slash."""

    tls: bool
    host: str
    port: int
    prefix: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' * self.tls}://{host}:{self.port}{self.prefix}"


def url_of(text: str) -> PrometheusUrl:
    """The URL that a user gave; raises UsageError."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _wrong(text, clean(str(error), 100)) from None
    if "@" in parts.netloc:
        # The message must not show the password.
        raise UsageError("--from-prometheus: a password in the URL can be read in the list of processes; use "
                         f"--prometheus-auth FILE or {AUTH}")
    if parts.scheme not in ("http", "https") or not host:
        raise _wrong(text, "expected http://HOST:PORT or https://HOST:PORT")
    if not text.isascii() or not text.isprintable() or " " in text:
        raise _wrong(text, "expected ASCII without spaces")
    if parts.query or parts.fragment:
        raise _wrong(text, "expected no query")
    return PrometheusUrl(parts.scheme == "https", host, port or _port(parts), parts.path.rstrip("/"))


def _port(parts: SplitResult) -> int:
    return 443 if parts.scheme == "https" else 80


def _wrong(text: str, why: str) -> UsageError:
    return UsageError(f"--from-prometheus {short(text)}: {why}")


def login_of(file: str | None, url: PrometheusUrl) -> Login | None:
    """The login from a file, else from the environment, else none; raises UsageError for one that cannot be
    used, and for one that would cross a network in clear text."""
    text = secret_line(file, "--prometheus-auth", AUTH)
    if file is None and not text:
        return None
    where = f"--prometheus-auth {file}" if file is not None else AUTH
    if ":" not in text or not text.isprintable():
        raise UsageError(f"{where}: expected one line USER:PASSWORD")
    if not url.tls and url.host not in _LOOPBACK:
        raise UsageError(f"{where}: the password would cross the network in clear text; use https://")
    return Login(text)


def ask(
    url: PrometheusUrl, query: str, login: Login | None, seconds: float = SECONDS, most: int = MOST,
) -> bytes:
    """The body of the answer to an instant query, as of Prometheus' own time; raises PrometheusError.

    It returns within `seconds`, whatever the other side does, and holds at most `most` bytes.
    """
    request = _Request(url, query, login, seconds, most)
    # A name server can hang where no socket's timeout reaches.
    thread = threading.Thread(target=request.run, name="prometheus", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        request.abandon()
        raise PrometheusError(f"it did not answer within {seconds:g} s")
    if request.error:
        raise PrometheusError(request.error)
    return request.body


class _Request:
    """One request, for a thread of its own; afterwards `body` or `error` is set."""

    def __init__(
        self, url: PrometheusUrl, query: str, login: Login | None, seconds: float, most: int,
    ) -> None:
        self.body = b""
        self.error = ""
        self._most = most
        # Prometheus stops a query that takes longer than its own `timeout`.
        form = urlencode({"query": query, "timeout": f"{seconds:g}s"})
        self._path = f"{quote(url.prefix, safe='/%')}/api/v1/query?{form}"
        self._headers = {"Accept": "application/json", "User-Agent": "muster"}
        if login is not None:
            self._headers["Authorization"] = login.header()
        self._connection: http.client.HTTPConnection = (
            http.client.HTTPSConnection(url.host, url.port, timeout=seconds,
                                        context=ssl.create_default_context())
            if url.tls else http.client.HTTPConnection(url.host, url.port, timeout=seconds))

    def run(self) -> None:
        """Asks."""
        try:
            self._connection.request("GET", self._path, headers=self._headers)
            with self._connection.getresponse() as answer:
                self._read(answer)
        except PrometheusError as error:
            self.error = str(error)
        except ssl.SSLCertVerificationError as error:
            self.error = f"its certificate is not valid: {clean(error.verify_message, 120)}"
        except (OSError, ValueError, http.client.HTTPException) as error:
            said = getattr(error, "strerror", None) or str(error) or type(error).__name__
            self.error = f"no answer: {clean(said, 200)}"
        finally:
            self._connection.close()

    def _read(self, answer: http.client.HTTPResponse) -> None:
        if answer.status != 200:
            raise PrometheusError(_refusal(answer.status, answer.read(_MOST_ERROR)))
        if answer.length is not None and answer.length > self._most:
            raise PrometheusError(f"its answer is over {self._most >> 20} MiB")
        parts: list[bytes] = []
        got = 0
        while part := answer.read(1 << 20):
            parts.append(part)
            got += len(part)
            if got > self._most:
                raise PrometheusError(f"its answer is over {self._most >> 20} MiB")
        self.body = b"".join(parts)

    def abandon(self) -> None:
        """Ends the connection, and so the thread that waits for it."""
        held = self._connection.sock
        if held is not None:
            with contextlib.suppress(OSError):
                held.shutdown(socket.SHUT_RDWR)


def _refusal(status: int, body: bytes) -> str:
    if status in (401, 403):
        return f"it refuses the login ({status}): --prometheus-auth FILE, or {AUTH}"
    if 300 <= status < 400:
        return f"it answers with a redirect ({status}), which is not followed: name the final URL"
    try:
        said = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        said = ""
    return f"it answered {status}{': ' + clean(said, 200) if isinstance(said, str) and said else ''}"

