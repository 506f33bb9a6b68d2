"""Reads known_hosts files as OpenSSH does, and looks up one host: its keys, its revoked keys,
its certificate authorities.

Strict: an unreadable line is recorded with its reason and trusts no key.
"""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

_WILD = re.compile(r"[*?!]")
_SSH1 = re.compile(r"[0-9]+\Z")
_MOST_BYTES = 64 * 1024 * 1024


class Marker(Enum):
    """What a line is for: a key to trust, a key never to trust, or a certificate authority's key."""

    TRUSTED = ""
    REVOKED = "@revoked"
    AUTHORITY = "@cert-authority"


@dataclass(frozen=True)
class KnownKey:
    """One key of one line; `blob` is the public key in wire form, `where` is FILE:LINE."""

    type: str
    blob: bytes
    marker: Marker
    file: str
    line: int

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class KnownHost:
    """All that the files hold about one host.

    `keys` are under the very name; `portless` are under the bare host name of a host on another port than 22,
    where OpenSSH accepts an equal key too. `revoked` keys are always refused.
    """

    name: str
    keys: tuple[KnownKey, ...] = ()
    portless: tuple[KnownKey, ...] = ()
    revoked: tuple[KnownKey, ...] = ()
    authorities: tuple[KnownKey, ...] = ()

    @property
    def types(self) -> tuple[str, ...]:
        """The key types that could be accepted, each once, in the files' order:
        what to ask the server for first."""
        return tuple(dict.fromkeys(key.type for key in (*self.keys, *self.portless)))


def fingerprint(blob: bytes) -> str:
    """The key's fingerprint as `ssh-keygen -l` prints it: SHA256:..."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def key_type(blob: bytes) -> str:
    """The type that a public key in wire form names; empty when it is not one."""
    size = int.from_bytes(blob[:4], "big")
    return blob[4:4 + size].decode("ascii", "replace") if 0 < size <= 64 and len(blob) > 4 + size else ""


def host_name(host: str, port: int) -> str:
    """The name under which known_hosts keeps a host: lower case,
    and `[host]:port` for another port than 22."""
    return host.lower() if port == 22 else f"[{host.lower()}]:{port}"


class KnownHosts:
    """Several known_hosts files, read once. Safe to ask from many threads.

    Plain names are indexed. A hashed line must be tried by HMAC for each new name (about 2 microseconds
    each); as a hash fits one name only, a line that has fitted is not tried again. `ignored` lists
    (FILE:LINE, why) of what could not be read; a missing file is no error.
    """

    def __init__(self, files: Iterable[str]) -> None:
        self.files = tuple(files)
        self.ignored: list[tuple[str, str]] = []
        self._plain: dict[str, list[KnownKey]] = {}
        self._patterns: list[tuple[tuple[str, ...], KnownKey]] = []
        self._hashed: list[tuple[bytes, bytes, KnownKey]] = []
        self._found: dict[str, list[KnownKey]] = {}
        self._lock = threading.Lock()
        for file in self.files:
            self._read(file)

    @classmethod
    def parse(cls, data: bytes, file: str) -> KnownHosts:
        """Reads what a file holds, or would hold; `file` is what it is called in `where`."""
        found = cls(())
        found.files = (file,)
        found._parse(file, data)
        return found

    def about(self, host: str, port: int, alias: str | None = None) -> KnownHost:
        """What is known of `host` at `port`; `alias` (HostKeyAlias) is looked up instead,
        and without a port."""
        name = alias.lower() if alias else host_name(host, port)
        exact = self._all(name)
        bare = self._all(host.lower()) if name.startswith("[") and not alias else []
        return KnownHost(
            name=name,
            keys=tuple(key for key in exact if key.marker is Marker.TRUSTED),
            portless=tuple(key for key in bare if key.marker is Marker.TRUSTED),
            revoked=tuple(key for key in (*exact, *bare) if key.marker is Marker.REVOKED),
            authorities=tuple(key for key in (*exact, *bare) if key.marker is Marker.AUTHORITY),
        )

    def _all(self, name: str) -> list[KnownKey]:
        keys = list(self._plain.get(name, ()))
        keys += [key for patterns, key in self._patterns if _matches(name, patterns)]
        if self._hashed or self._found:
            keys += self._unhash(name)
        return keys

    def _unhash(self, name: str) -> list[KnownKey]:
        with self._lock:
            if name not in self._found:
                message = name.encode("utf-8", "surrogateescape")
                fitting: list[KnownKey] = []
                others: list[tuple[bytes, bytes, KnownKey]] = []
                for entry in self._hashed:
                    if hmac.digest(entry[0], message, "sha1") == entry[1]:
                        fitting.append(entry[2])
                    else:
                        others.append(entry)
                self._found[name] = fitting
                self._hashed = others
            return self._found[name]

    def _read(self, file: str) -> None:
        try:
            if Path(file).is_fifo():
                self.ignored.append((file, "a pipe, which may never be written to"))
                return
            with Path(file).open("rb") as stream:
                data = stream.read(_MOST_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            self.ignored.append((file, error.strerror or "cannot be read"))
            return
        if len(data) > _MOST_BYTES:
            self.ignored.append((file, "larger than 64 MiB"))
            return
        self._parse(file, data)

    def _parse(self, file: str, data: bytes) -> None:
        for number, line in enumerate(data.decode("utf-8", "surrogateescape").split("\n"), 1):
            words = line.split(None, 4)
            if words and not words[0].startswith("#"):
                problem = self._line(file, number, words)
                if problem:
                    self.ignored.append((f"{file}:{number}", problem))

    def _line(self, file: str, number: int, words: list[str]) -> str:
        """Files one line away; returns why it cannot be, or nothing."""
        marker = Marker.TRUSTED
        if words[0].startswith("@"):
            if words[0] not in (Marker.REVOKED.value, Marker.AUTHORITY.value):
                return "an unknown marker"
            marker = Marker(words.pop(0))
        if len(words) < 3:
            return "fewer than three words"
        names, type_, encoded = words[:3]
        if _SSH1.match(type_):
            return "a key of SSH version 1"
        try:
            blob = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            return "a key that is not base64"
        if key_type(blob) != type_:
            return "the key's type differs from the line's"
        key = KnownKey(type_, blob, marker, file, number)
        if names.startswith("|"):
            parts = names.split("|")
            if len(parts) != 4 or parts[1] != "1":
                return "a hash in an unknown format"
            try:
                self._hashed.append((base64.b64decode(parts[2], validate=True),
                                     base64.b64decode(parts[3], validate=True), key))
            except (binascii.Error, ValueError):
                return "a hash that is not base64"
            return ""
        listed = names.lower().split(",")
        if _WILD.search(names):
            self._patterns.append((tuple(listed), key))
        else:
            for name in dict.fromkeys(listed):
                self._plain.setdefault(name, []).append(key)
        return ""


class RevokedKeys:
    """The keys of a RevokedHostKeys file in its text form (one public key a line).
    `problem` says why it cannot be relied on."""

    def __init__(self, file: str) -> None:
        self.problem: str | None = None
        self._blobs: set[bytes] = set()
        try:
            if Path(file).is_fifo():
                self.problem = f"{file} is a pipe, which may never be written to"
                return
            with Path(file).open("rb") as stream:
                data = stream.read(_MOST_BYTES + 1)
        except OSError as error:
            self.problem = f"{file}: {error.strerror}"
            return
        if len(data) > _MOST_BYTES:
            self.problem = f"{file} is larger than 64 MiB"
        elif data.startswith(b"SSHKRL\n"):
            self.problem = (f"{file} is a binary revocation list, which this transport cannot read; give the "
                            "keys as text")
        for number, line in enumerate(data.split(b"\n") if self.problem is None else (), 1):
            words = line.split()
            if not words or words[0].startswith(b"#"):
                continue
            try:
                blob = base64.b64decode(words[1], validate=True)
            except (IndexError, binascii.Error):
                blob = b""
            if not key_type(blob):
                self.problem = f"{file}:{number} is not a public key"
            self._blobs.add(blob)

    def __contains__(self, blob: bytes) -> bool:
        return blob in self._blobs


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    """OpenSSH's pattern list: any pattern may match, and none of the negated ones."""
    hit = False
    for pattern in patterns:
        negated = pattern.startswith("!")
        # Only * and ? are special to OpenSSH; fnmatch would read the [ of [host]:port as a set.
        literal = pattern.removeprefix("!").replace("[", "[[]")
        if fnmatch.fnmatchcase(name, literal):
            if negated:
                return False
            hit = True
    return hit
