"""Where MAAS is, one request to it and its answer, and what a failure means."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from inventory.text import short
from inventory.transport import httponce
from inventory.transport.httponce import HttpDeadline, HttpTrouble, HttpTrust
from provisioning.osinstall.base import OsError

# A machine of gomaasclient's test data has 9 KB in a list, one with many disks several times that.
MOST_BYTES = 128 * 1024 * 1024


@dataclass(frozen=True)
class MaasPlace:
    """Where MAAS is; `path` is the root of its API, with a slash at its end."""

    secure: bool
    host: str
    port: int
    path: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}"


@dataclass(frozen=True)
class MaasAnswer:
    """What came back; `wait` is for how many seconds the server asks to wait, 0 where it does not."""

    status: int
    wait: float
    body: bytes = field(repr=False)


class MaasError(OsError):
    """A failed request. `status` is that of HTTP, 0 without an answer; `passing`: it may be over soon, after
    `wait` seconds; `unsure`: the request may have been received, and no whole answer came."""

    def __init__(
        self, words: str, status: int = 0, *, passing: bool = False, wait: float = 0.0, unsure: bool = False,
    ) -> None:
        super().__init__(words)
        self.status = status
        self.passing = passing
        self.wait = wait
        self.unsure = unsure


def place(url: str, *, cleartext: bool = False) -> MaasPlace:
    """Where this MAAS's API is. Raises OsError for no such URL, or http:// that is not allowed."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise OsError(f"maas: {short(url)} is no URL: expected https://HOST:PORT/MAAS") from None
    if parts.username is not None or parts.password is not None:
        raise OsError("maas: the URL holds a user or a password; the API key comes from a file or a command")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or not (
            url.isascii() and url.isprintable() and " " not in url):
        raise OsError(f"maas: {short(url)} is no URL: expected https://HOST:PORT/MAAS")
    secure = parts.scheme == "https"
    if not secure and not cleartext and not _loopback(parts.hostname):
        raise OsError(f"maas: {short(url)} is http://, by which anyone on the way can read the API key; use "
                      "https:// (maas config-tls enable), or say cleartext: true")
    path = parts.path.rstrip("/").removesuffix("/api/2.0")
    return MaasPlace(secure, parts.hostname, port or (443 if secure else 80), f"{path}/api/2.0/")


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def ask(
    where: MaasPlace, tls: str, method: str, path: str, headers: Mapping[str, str], body: bytes | None,
    deadline: HttpDeadline,
) -> MaasAnswer:
    """One request over a connection of its own. Raises MaasError."""
    trust = HttpTrust(tls) if where.secure else None
    try:
        found = httponce.ask(where.host, where.port, trust, method, path, headers, body, deadline, MOST_BYTES)
    except HttpTrouble as trouble:
        advice = "; name its authority: tls: FILE" if trouble.untrusted else ""
        raise MaasError(f"{where}: {trouble}{advice}", passing=trouble.passing,
                        unsure=trouble.unsure) from None
    wait = found.headers.get("retry-after", "")
    # A date is allowed too, and no one knows whose clock is right.
    seconds = float(wait) if wait.isdecimal() and len(wait) < 6 else 0.0
    return MaasAnswer(found.status, seconds, found.body)
