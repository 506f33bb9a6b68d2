"""What the exporter's server asks of its security: TLS for a connection, and leave for a request.

This one has neither; `tls` and `webconfig` have.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from healthcheck.exporter.board import HttpResponse


class Security:
    """Everyone may read, in the clear."""

    encrypted = False

    def context(self) -> ssl.SSLContext | None:
        """For the next connection; None without TLS."""
        return None

    def accepts(self, certificate: Mapping[str, Any]) -> bool:
        """Whether a client with this certificate (ssl.SSLSocket.getpeercert) is served."""
        return True

    def headers(self) -> Mapping[str, str]:
        """Headers to add to every response."""
        return {}

    async def refusal(self, authorization: str, peer: str) -> HttpResponse | None:
        """Why a client is not served, by its Authorization header (empty without one) and its address; None
        if it is."""
        return None
