"""Where a UFM is and why its certificate is believed, one request to it, and what a failure means."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from inventory.errors import MusterError, UsageError
from inventory.text import short
from inventory.transport import httponce
from inventory.transport.httponce import VERIFY, HttpDeadline, HttpTrouble, HttpTrust

# The ports of 4,096 adapters and their switches, in the form of the guide, take some 60 MB.
MOST_BYTES = 256 * 1024 * 1024
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_PIN = re.compile(r"sha256:([0-9a-f]{64})")


class UfmError(MusterError):
    """A request that failed; one line. `status` is that of HTTP, 0 without an answer; `unsure`: UFM may have
    received the request, and no whole answer came."""

    def __init__(self, words: str, status: int = 0, *, unsure: bool = False) -> None:
        super().__init__(words)
        self.status = status
        self.unsure = unsure


@dataclass(frozen=True)
class UfmPlace:
    """Where a UFM is."""

    secure: bool
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = 443 if self.secure else 80
        return f"http{'s' * self.secure}://{host}{f':{self.port}' if self.port != usual else ''}"


@dataclass(frozen=True)
class UfmAnswer:
    """What came back; `location` is where the header says that it goes on, "" where it does not."""

    status: int
    kind: str
    location: str
    body: bytes = field(repr=False)


def place_of(text: str) -> UfmPlace:
    """The URL that a user gave; raises UsageError for what is none, and for http:// beyond this machine, by
    which anyone on the way could read the password."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise UsageError(f"--ufm {short(text)}: expected https://HOST or https://HOST:PORT") from None
    if "@" in parts.netloc:
        # The message must not show the password.
        raise UsageError("--ufm: a password in the URL can be read in the list of processes; use --ufm-auth "
                         "FILE or MUSTER_UFM_AUTH")
    if parts.scheme not in ("http", "https") or not host or parts.path.strip("/") or parts.query \
            or parts.fragment or not text.isascii() or not text.isprintable() or " " in text:
        raise UsageError(f"--ufm {short(text)}: expected https://HOST or https://HOST:PORT")
    secure = parts.scheme == "https"
    if not secure and host not in _LOOPBACK:
        raise UsageError(f"--ufm {short(text)}: the password would cross the network in clear text; use "
                         "https://")
    return UfmPlace(secure, host, port or (443 if secure else 80))


def trust_of(text: str | None) -> HttpTrust:
    """What --ufm-tls says: "verify", fingerprints with commas between them, or a file of authorities. Raises
    UsageError."""
    if text is None or text == VERIFY:
        return HttpTrust()
    if not text.lower().startswith("sha256:"):
        return HttpTrust(text)
    pins = []
    for word in text.split(","):
        found = _PIN.fullmatch("sha256:" + word.strip().lower().removeprefix("sha256:").replace(":", ""))
        if found is None:
            raise UsageError(f"--ufm-tls {short(word)}: expected verify, a file, or sha256: and the 64 "
                             "hexadecimal digits of the certificate's fingerprint")
        pins.append(found[1])
    return HttpTrust(pins=tuple(pins))


def ask(
    where: UfmPlace, trust: HttpTrust, method: str, path: str, headers: Mapping[str, str], body: bytes | None,
    deadline: HttpDeadline,
) -> UfmAnswer:
    """One request over a connection of its own. Raises UfmError."""
    try:
        found = httponce.ask(where.host, where.port, trust if where.secure else None, method, path, headers,
                             body, deadline, MOST_BYTES)
    except HttpTrouble as trouble:
        advice = ("; name its authority, --ufm-tls FILE, or its fingerprint, --ufm-tls sha256:..."
                  if trouble.untrusted else "")
        raise UfmError(f"{where}: {trouble}{advice}", unsure=trouble.unsure) from None
    kind = found.headers.get("content-type", "").partition(";")[0].strip().lower()
    return UfmAnswer(found.status, kind, found.headers.get("location", ""), found.body)
