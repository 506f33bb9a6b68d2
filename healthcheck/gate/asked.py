"""Asks the head's exporter for a snapshot. Python 3.8."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
import zlib

from healthcheck.certify.pair import MOST_PAIR
from healthcheck.gate.snapshot import SnapshotRefused

TIMEOUT_S = 10.0


def asked(url: str) -> bytes | None:
    """The response to a GET; None if there is nothing newer. Raises SnapshotRefused."""
    # No proxy: a timer's environment must not redirect requests to a head inside the site.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect)
    request = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})  # noqa: S310  (fetch looks at its scheme)
    try:
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            body: bytes = answer.read(MOST_PAIR + 1)
            packed = answer.headers.get("Content-Encoding") == "gzip"
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 304:
            return None
        raise SnapshotRefused(f"{url}: it answered {error.code}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise SnapshotRefused(f"{url}: {ascii(str(getattr(error, 'reason', error)))[1:-1][:200]}") from None
    if packed:
        machine = zlib.decompressobj(31)
        try:
            body = machine.decompress(body, MOST_PAIR + 1)
        except zlib.error:
            raise SnapshotRefused(f"{url}: damaged data") from None
        if not machine.eof:
            raise SnapshotRefused(f"{url}: data is cut, or too large")
    if len(body) > MOST_PAIR:
        raise SnapshotRefused(f"{url}: over {MOST_PAIR >> 20} MiB")
    return body


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects."""

    def redirect_request(self, *args: object) -> None:
        return None
