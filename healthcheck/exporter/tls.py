"""The exporter's TLS: a certificate and its key, reloaded on renewal; client certificates are optional."""

from __future__ import annotations

import ssl
import sys
import threading
from pathlib import Path

from healthcheck.exporter.security import Security
from inventory.errors import UsageError

_Stamp = tuple[tuple[int, int], ...]


class Tls(Security):
    """Raises UsageError if certificate and key cannot be used.
    Renewed ones apply to the next connection, once both fit."""

    encrypted = True

    def __init__(self, certificate: Path, key: Path, clients: Path | None = None) -> None:
        self._files = tuple(path for path in (certificate, key, clients) if path is not None)
        self._certificate, self._key, self._clients = certificate, key, clients
        self._lock = threading.Lock()
        try:
            self._stamp = self._stamped()
            self._context = self._load()
        except (OSError, ssl.SSLError) as error:
            raise UsageError(
                f"{certificate} and {key} are not a certificate and its key: {_error_text(error)}") from None

    def context(self) -> ssl.SSLContext:
        """For the next connection."""
        with self._lock:
            try:
                stamp = self._stamped()
                if stamp != self._stamp:
                    self._stamp = stamp     # report one that does not fit only once
                    self._context = self._load()
            except (OSError, ssl.SSLError) as error:
                print(f"muster: exporter: {self._certificate}: cannot be used, going on with the one before: "  # noqa: T201
                      f"{_error_text(error)}",
                      file=sys.stderr)
            return self._context

    def _stamped(self) -> _Stamp:
        return tuple((found.st_mtime_ns, found.st_ino) for found in (path.stat() for path in self._files))

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self._certificate, self._key, password=_no_password)
        if self._clients is not None:
            context.load_verify_locations(self._clients)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def _no_password() -> str:
    """Keeps OpenSSL from asking at the terminal."""
    return ""


def _error_text(error: Exception) -> str:
    return str(getattr(error, "reason", None) or getattr(error, "strerror", None) or error).lower().replace(
        "_", " ")
