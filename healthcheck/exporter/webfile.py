"""The exporter's security as web.yml asks for it, read again when it changes."""

from __future__ import annotations

import ssl
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from healthcheck.exporter.board import HttpResponse
from healthcheck.exporter.logins import UserLogins
from healthcheck.exporter.security import Security
from healthcheck.exporter.tls import Stamp, stamped
from healthcheck.exporter.webconfig import WebConfig, load_web_config
from inventory.errors import MusterError, UsageError

_NO_LOGIN = HttpResponse(401, (b"Unauthorized\n",),
                         headers={"WWW-Authenticate": 'Basic realm="muster", charset="UTF-8"'})
_TOO_MANY = HttpResponse(429, (b"too many logins wait to be verified\n",), headers={"Retry-After": "5"})


class WebFile(Security):
    """Raises ConfigError or UsageError for a file that cannot be used.

    A changed one, or a renewed certificate, applies to the next connection. One that cannot be used, or that
    turns TLS on or off, is reported once, and the one before counts.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._logins = UserLogins()
        self._config, self._context = self._read()
        self._stamp = self._stamped()
        self.encrypted = self._context is not None

    def context(self) -> ssl.SSLContext | None:
        """For the next connection."""
        stamp = self._stamped()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                config, context = self._read()
                if (context is not None) is not self.encrypted:
                    raise UsageError(f"{self._path}: turns TLS {'off' if self.encrypted else 'on'}, for "
                                     "which the exporter must be started again")
                self._config, self._context = config, context
                self._stamp = self._stamped()
            except MusterError as error:
                print(f"muster: exporter: {error}; going on with the one before", file=sys.stderr)  # noqa: T201
        return self._context

    def accepts(self, certificate: Mapping[str, Any]) -> bool:
        """Whether one of its names is allowed."""
        return self._config.tls is None or self._config.tls.accepts(certificate)

    def headers(self) -> Mapping[str, str]:
        """Those of http_server_config."""
        return self._config.headers

    async def refusal(self, authorization: str, peer: str) -> HttpResponse | None:
        """401 without a user's login, on every path; 429 while too many logins wait."""
        if not self._config.users:
            return None
        right = await self._logins.right(authorization, self._config.users, peer)
        return None if right else _TOO_MANY if right is None else _NO_LOGIN

    def _read(self) -> tuple[WebConfig, ssl.SSLContext | None]:
        config = load_web_config(self._path)
        try:
            return config, config.tls.load() if config.tls is not None else None
        except UsageError as error:
            raise UsageError(f"{self._path}: tls_server_config: {error}") from None

    def _stamped(self) -> Stamp:
        return stamped((self._path, *(self._config.tls.files if self._config.tls is not None else ())))
