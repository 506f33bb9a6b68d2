"""Reads known_hosts files as OpenSSH does, and looks up a host's keys, revoked keys and authorities. Strict:
an unreadable line is recorded with its reason and trusts no key."""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from inventory.errors import LACKING
from inventory.hashednames import HashedNames, encoded, hasher
from inventory.hashprogress import on_terminal
from inventory.hostcache import HASH_BYTES, NameHash

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
    """All that the files hold about one host: `keys` under the very name, `portless` under the bare name of a
    host on another port than 22, where OpenSSH accepts an equal key too, `revoked` those always refused.
    `whole`: every line of the files was considered (`KnownHosts.enough`)."""

    name: str
    keys: tuple[KnownKey, ...] = ()
    portless: tuple[KnownKey, ...] = ()
    revoked: tuple[KnownKey, ...] = ()
    authorities: tuple[KnownKey, ...] = ()
    whole: bool = True

    def holds(self, blobs: Iterable[bytes]) -> bool:
        """Whether each of these keys is among those to trust; revoked ones may be."""
        return {key.blob for key in (*self.keys, *self.portless)}.issuperset(blobs)

    @property
    def types(self) -> tuple[str, ...]:
        """The key types that could be accepted, in the files' order: what to ask the server for first."""
        return tuple(dict.fromkeys(key.type for key in (*self.keys, *self.portless)))


def fingerprint(blob: bytes) -> str:
    """The key's fingerprint as `ssh-keygen -l` prints it: SHA256:..."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def key_type(blob: bytes) -> str:
    """The type that a public key in wire form names; empty when it is not one."""
    size = int.from_bytes(blob[:4], "big")
    return blob[4:4 + size].decode("ascii", "replace") if 0 < size <= 64 and len(blob) > 4 + size else ""


def host_name(host: str, port: int) -> str:
    """The name under which known_hosts keeps a host: lower case, `[host]:port` for a port but 22."""
    return host.lower() if port == 22 else f"[{host.lower()}]:{port}"


class KnownHosts:
    """Several known_hosts files, safe to ask from many threads. Plain names are indexed; for hashed ones see
    `hashednames`. `ignored` lists (FILE:LINE, why) of what could not be read; a missing file is no error."""

    def __init__(self, files: Iterable[str]) -> None:
        self._hold(_KnownFile.read(file) for file in files)

    @classmethod
    def parse(cls, data: bytes, file: str) -> KnownHosts:
        """Reads what a file holds, or would hold; `file` is what it is called in `where`."""
        return cls._of((_KnownFile(file, data),))

    @classmethod
    def _of(cls, held: Iterable[_KnownFile]) -> KnownHosts:
        found = cls(())
        found._hold(held)
        return found

    def _hold(self, held: Iterable[_KnownFile]) -> None:
        self._held = tuple(held)
        self._hashed = tuple(file for file in self._held if file.hashed)

    @property
    def ignored(self) -> list[tuple[str, str]]:
        return [each for file in self._held for each in file.ignored]

    def about(self, host: str, port: int, alias: str | None = None) -> KnownHost:
        """What is known of `host` at `port`, or of `alias` (HostKeyAlias), which has no port."""
        return _known(_names(host, port, alias), self._all)

    def by_authority(self, host: str, port: int, alias: str | None = None) -> bool:
        """Whether a plain line trusts a certificate authority for the host, and none a key of its own. Tries
        no hashed line: which SSH client is to be used is asked for every node, one by one."""
        found = _known(_names(host, port, alias), self._plain)
        return bool(found.authorities) and not found.keys

    def enough(self, host: str, port: int, alias: str | None = None) -> KnownHost:
        """As `about`, but where plain lines hold keys of the host, hashed ones count only if they revoke one
        of those. That is enough to accept a key, not to refuse one: it is not `whole`."""
        names = _names(host, port, alias)
        found = _known(names, self._plain, whole=not self._hashed)
        held = {key.blob for key in (*found.keys, *found.portless)}
        if not held:
            return self.about(host, port, alias)
        revoking = [key for file in self._hashed for blob in held for name in names
                    for key in file.hashed_as(blob, (Marker.REVOKED,), name)]
        return replace(found, revoked=(*found.revoked, *revoking))

    def about_key(self, blob: bytes, host: str, port: int, alias: str | None = None) -> KnownHost:
        """As `about`, but of hashed lines only those that hold this key: enough to accept it or not."""
        return _known(
            _names(host, port, alias),
            lambda name: [key for file in self._held
                          for key in (*file.unhashed(name), *file.hashed_as(blob, Marker, name))],
            whole=not self._hashed)

    def prepare(
        self, hosts: Iterable[tuple[str, int, str | None]], *, all_lines: bool = True, remember: bool = False,
    ) -> None:
        """Looks up many hosts, each as in `about`, in the hashed lines at once, far cheaper than one by one.
        Without `all_lines` only those of which `enough` needs them; `remember` helps later commands, too."""
        if not self._hashed:
            return
        found = [_names(*host) for host in hosts]
        wanted = [name for names in found for name in names
                  if all_lines or not any(key.marker is Marker.TRUSTED for each in names
                                          for key in self._plain(each))]
        for file in self._hashed:
            file.names.find(wanted, remember=remember, progress=on_terminal(file.name, len(wanted)))

    def _plain(self, name: str) -> list[KnownKey]:
        return [key for file in self._held for key in file.unhashed(name)]

    def _all(self, name: str) -> list[KnownKey]:
        return [key for file in self._held for key in file.all(name)]


class HostKeyFiles:
    """known_hosts files of many hosts, each read once. Safe to ask from many threads."""

    def __init__(self) -> None:
        self._held: dict[str, _KnownFile] = {}
        self._made: dict[tuple[str, ...], KnownHosts] = {}
        self._lock = threading.Lock()

    def of(self, files: tuple[str, ...]) -> KnownHosts:
        """These files, in this order."""
        with self._lock:
            if files not in self._made:
                for file in files:
                    if file not in self._held:
                        self._held[file] = _KnownFile.read(file)
                self._made[files] = KnownHosts._of(self._held[file] for file in files)
            return self._made[files]


class _KnownFile:
    """One file, read. `names` are those of its hashed lines, in `hashed` by hash."""

    def __init__(self, name: str, data: bytes = b"", *, cached: bool = False) -> None:
        self.name = name
        self.ignored: list[tuple[str, str]] = []
        self.hashed: dict[NameHash, list[KnownKey]] = {}
        self._plain: dict[str, list[KnownKey]] = {}
        # Each under what its patterns begin with, up to the first * or ?.
        self._patterns: dict[str, list[tuple[tuple[str, ...], KnownKey]]] = {}
        self._by_key: dict[tuple[bytes, Marker], list[NameHash]] = {}
        for number, line in enumerate(data.decode("utf-8", "surrogateescape").split("\n"), 1):
            words = line.split(None, 4)
            if words and not words[0].startswith("#"):
                problem = self._line(number, words)
                if problem:
                    self.ignored.append((f"{name}:{number}", problem))
        self._lengths = sorted({len(start) for start in self._patterns})
        self.names = HashedNames(self.hashed, name if cached else None)

    @classmethod
    def read(cls, name: str) -> _KnownFile:
        """What the file holds; nothing if it is missing or cannot be read, which is said in `ignored`. Raises
        OSError for want of a descriptor or memory, which would make every host look unknown."""
        why = ""
        try:
            if Path(name).is_fifo():
                why = "a pipe, which may never be written to"
            else:
                with Path(name).open("rb") as stream:
                    data = stream.read(_MOST_BYTES + 1)
                if len(data) <= _MOST_BYTES:
                    return cls(name, data, cached=True)
                why = "larger than 64 MiB"
        except (FileNotFoundError, NotADirectoryError):
            return cls(name)
        except OSError as error:
            if error.errno in LACKING:
                raise
            why = error.strerror or "cannot be read"
        found = cls(name)
        found.ignored.append((name, why))
        return found

    def unhashed(self, name: str) -> list[KnownKey]:
        """The keys of plain lines and patterns that fit, in the file's order."""
        keys = {key.line: key for key in self._plain.get(name, ())}
        for length in self._lengths:
            for patterns, key in self._patterns.get(name[:length], ()) if length <= len(name) else ():
                if key.line not in keys and _matches(name, patterns):
                    keys[key.line] = key
        return [keys[line] for line in sorted(keys)]

    def all(self, name: str) -> list[KnownKey]:
        """The keys of all lines that fit, in the file's order."""
        keys = self.unhashed(name)
        if self.hashed:
            keys += [key for each in self.names.of(name) for key in self.hashed[each]]
        return sorted(keys, key=lambda key: key.line)

    def hashed_as(self, blob: bytes, markers: Iterable[Marker], name: str) -> list[KnownKey]:
        """The keys of hashed lines that hold this key under one of these markers and fit the name."""
        return [key for marker in markers for each in dict.fromkeys(self._by_key.get((blob, marker), ()))
                if hasher(each.salt)(encoded(name)) == each.digest
                for key in self.hashed[each] if key.marker is marker and key.blob == blob]

    def _line(self, number: int, words: list[str]) -> str:
        """Files one line away; returns why it cannot be, or nothing."""
        marker = Marker.TRUSTED
        if words[0].startswith("@"):
            if words[0] not in (Marker.REVOKED.value, Marker.AUTHORITY.value):
                return "an unknown marker"
            marker = Marker(words.pop(0))
        if len(words) < 3:
            return "fewer than three words"
        names, type_, encoded_ = words[:3]
        if _SSH1.match(type_):
            return "a key of SSH version 1"
        try:
            blob = base64.b64decode(encoded_, validate=True)
        except (binascii.Error, ValueError):
            return "a key that is not base64"
        if key_type(blob) != type_:
            return "the key's type differs from the line's"
        key = KnownKey(type_, blob, marker, self.name, number)
        if names.startswith("|"):
            return self._hash(names, key)
        listed = dict.fromkeys(names.lower().split(","))
        if _WILD.search(names):
            patterns = tuple(listed)
            for start in {_WILD.split(each, maxsplit=1)[0] for each in listed if not each.startswith("!")}:
                self._patterns.setdefault(start, []).append((patterns, key))
        else:
            for name in listed:
                self._plain.setdefault(name, []).append(key)
        return ""

    def _hash(self, text: str, key: KnownKey) -> str:
        parts = text.split("|")
        if len(parts) != 4 or parts[1] != "1":
            return "a hash in an unknown format"
        try:
            each = NameHash(base64.b64decode(parts[2], validate=True),
                            base64.b64decode(parts[3], validate=True))
        except (binascii.Error, ValueError):
            return "a hash that is not base64"
        if (len(each.salt), len(each.digest)) != (HASH_BYTES, HASH_BYTES):
            return "a hash of another length than SHA-1's"
        self.hashed.setdefault(each, []).append(key)
        self._by_key.setdefault((key.blob, key.marker), []).append(each)
        return ""


class RevokedKeys:
    """The keys of a RevokedHostKeys file in its text form (one public key a line).
    `problem` says why it cannot be relied on; `binary` is a list in the form that only ssh reads. Raises
    OSError for want of a descriptor or memory, which says nothing of the file."""

    def __init__(self, file: str) -> None:
        self.problem: str | None = None
        self.binary = False
        self._blobs: set[bytes] = set()
        try:
            if Path(file).is_fifo():
                self.problem = f"{file} is a pipe, which may never be written to"
                return
            with Path(file).open("rb") as stream:
                data = stream.read(_MOST_BYTES + 1)
        except OSError as error:
            if error.errno in LACKING:
                raise
            self.problem = f"{file}: {error.strerror}"
            return
        if len(data) > _MOST_BYTES:
            self.problem = f"{file} is larger than 64 MiB"
        elif data.startswith(b"SSHKRL\n"):
            self.binary = True
            self.problem = (f"{file} is a binary revocation list, which only the system's ssh reads "
                            "(`transport: auto`); give the keys as text")
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


def _names(host: str, port: int, alias: str | None) -> tuple[str, ...]:
    """The name of a host, and for another port than 22 also the one without the port."""
    if alias:
        return (alias.lower(),)
    name = host_name(host, port)
    return (name, host.lower()) if name.startswith("[") else (name,)


def _known(
    names: tuple[str, ...], keys_of: Callable[[str], list[KnownKey]], *, whole: bool = True,
) -> KnownHost:
    exact, bare = keys_of(names[0]), [key for name in names[1:] for key in keys_of(name)]
    return KnownHost(
        name=names[0],
        keys=tuple(key for key in exact if key.marker is Marker.TRUSTED),
        portless=tuple(key for key in bare if key.marker is Marker.TRUSTED),
        revoked=tuple(key for key in (*exact, *bare) if key.marker is Marker.REVOKED),
        authorities=tuple(key for key in (*exact, *bare) if key.marker is Marker.AUTHORITY),
        whole=whole,
    )


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
