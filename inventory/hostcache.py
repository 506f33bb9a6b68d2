"""Remembers between commands which hosts stand behind the hashed lines of a known_hosts file. Whether a hash
fits a name holds for ever, whatever the file says: so the cache says nothing of keys: a line that is gone,
new or revoked counts as the file has it now. Names stand in it as digests under a salt of its own, as the
file was hashed to keep them from readers."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from inventory.cachefolder import cache_folder

_MOST_BYTES = 64 << 20
_MOST_NAMES = 65_536
_MOST_FILES = 16
_SUM = hashlib.sha256().digest_size
HASH_BYTES = 20         # of a salt and of a digest; OpenSSH's hostfile.c takes no others
_ID, _SALT = 16, 16     # bytes


class NameHash(NamedTuple):
    """A host's name as HashKnownHosts keeps it: a salt, and HMAC-SHA1 of the name under it."""

    salt: bytes
    digest: bytes


@dataclass(frozen=True)
class HostCache:
    """`tried` are hashes in the order in which they were met; `names` holds by a name's digest how many of
    those it was tried with, or need not be, and the places of those that fit it."""

    salt: bytes = field(default_factory=lambda: os.urandom(_SALT))
    tried: tuple[NameHash, ...] = ()
    names: Mapping[bytes, tuple[int, tuple[int, ...]]] = field(default_factory=dict)

    def about(self, name: str) -> tuple[int, tuple[NameHash, ...]]:
        """How many of `tried` a name was tried with, and those that fit it."""
        count, places = self.names.get(self._id(name), (0, ()))
        return count, tuple(self.tried[place] for place in places)

    def learned(self, hashes: Sequence[NameHash], found: Mapping[str, Sequence[NameHash]]) -> HostCache:
        """The same, once each name of `found` was tried with all `hashes` of the file. Hashes that the file
        no longer has are dropped, and beyond 65,536 names those of others."""
        current, before = set(hashes), set(self.tried)
        kept = [each in current for each in self.tried]
        upto = [0, *accumulate(kept)]       # how many of the first N are kept
        tried = (*(each for each in self.tried if each in current),
                 *(each for each in hashes if each not in before))
        places = {each: place for place, each in enumerate(tried)}
        own = {self._id(name): (len(tried), tuple(places[each] for each in fitting))
               for name, fitting in found.items()}
        others = {name: (upto[count], tuple(upto[place] for place in fitting if kept[place]))
                  for name, (count, fitting) in self.names.items() if name not in own}
        room = max(_MOST_NAMES - len(own), 0)
        return HostCache(self.salt, tried, {**dict(list(others.items())[:room]), **own})

    def _id(self, name: str) -> bytes:
        message = name.encode("utf-8", "surrogateescape")
        return hashlib.blake2b(message, key=self.salt, digest_size=_ID).digest()


def load(known_hosts: str) -> HostCache | None:
    """The cache of a known_hosts file; None if there is none, or it is damaged or others may write to it."""
    path = _path(known_hosts)
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.geteuid() or status.st_mode & 0o022:
                return None
            data = file.read(_MOST_BYTES)
        return _read(data[_SUM:]) if hashlib.sha256(data[_SUM:]).digest() == data[:_SUM] else None
    except (OSError, ValueError, TypeError, KeyError, IndexError, RecursionError):
        return None


def save(known_hosts: str, cache: HostCache) -> None:
    """Writes the cache if possible: whole, and for this user only. Of more than 16 the oldest go."""
    path = _path(known_hosts)
    if path is None:
        return
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        data = _written(cache)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(hashlib.sha256(data).digest() + data)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
            kept = sorted(path.parent.glob("hostkeys-*"), key=lambda each: each.stat().st_mtime)
            for old in kept[:-_MOST_FILES]:
                old.unlink()
        except BaseException:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
            raise


def _path(known_hosts: str) -> Path | None:
    folder = cache_folder()
    name = hashlib.sha256(os.path.realpath(known_hosts).encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return folder / f"hostkeys-{name}" if folder is not None else None


def _written(cache: HostCache) -> bytes:
    return json.dumps({
        "salt": _text(cache.salt), "tried": _text(b"".join(salt + digest for salt, digest in cache.tried)),
        "names": _text(b"".join(cache.names)), "rows": list(cache.names.values()),
    }, separators=(",", ":")).encode()


def _read(data: bytes) -> HostCache:
    """Raises ValueError, TypeError, KeyError or IndexError for what was not written so."""
    held = json.loads(data)
    salt, tried, names = (base64.b64decode(held[key], validate=True) for key in ("salt", "tried", "names"))
    if len(salt) != _SALT or len(tried) % (2 * HASH_BYTES) or len(names) % _ID:
        raise ValueError
    hashes = tuple(NameHash(tried[at:at + HASH_BYTES], tried[at + HASH_BYTES:at + 2 * HASH_BYTES])
                   for at in range(0, len(tried), 2 * HASH_BYTES))
    rows = [(int(count), tuple(int(place) for place in places)) for count, places in held["rows"]]
    ids = [names[at:at + _ID] for at in range(0, len(names), _ID)]
    if any(not 0 <= count <= len(hashes) or any(not 0 <= place < len(hashes) for place in places)
           for count, places in rows):
        raise ValueError
    return HostCache(salt, hashes, dict(zip(ids, rows, strict=True)))


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
