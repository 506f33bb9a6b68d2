"""Caches between a user's commands what was made of files: reading them is cheap, processing them is not.

A cached value is named by the digest of every byte that it was made of. It is whole or absent, and can be
deleted.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from healthcheck.config.files import write_whole
from inventory.cachefolder import cache_folder
from inventory.release import VERSION

_MOST_BYTES = 16 << 20
_MOST_KEPT = 4      # of a kind: two releases or rules folders in alternate use do not evict each other
_SUM = hashlib.sha256().digest_size
T = TypeVar("T")


def digest(made_of: Iterable[bytes]) -> str:
    """The name of what this release of muster makes of these bytes; each part counts with its length."""
    made = hashlib.sha256(VERSION.encode())
    for part in made_of:
        made.update(len(part).to_bytes(8, "big") + part)
    return made.hexdigest()[:32]


def load(kind: str, name: str) -> bytes | None:
    """The value under this name; None if there is none, or it is damaged or another user's."""
    folder = cache_folder()
    if folder is not None:
        with contextlib.suppress(OSError):
            with (folder / f"{kind}-{name}").open("rb") as file:
                data = file.read(_MOST_BYTES) if os.fstat(file.fileno()).st_uid == os.geteuid() else b""
            if hashlib.sha256(data[_SUM:]).digest() == data[:_SUM]:
                return data[_SUM:]
    return None


def save(kind: str, name: str, data: bytes) -> None:
    """Saves the value if possible and removes the oldest of its kind."""
    folder = cache_folder()
    if folder is not None:
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            old = sorted(folder.glob(f"{kind}-*"), key=lambda path: path.stat().st_mtime, reverse=True)
            for path in old[_MOST_KEPT - 1:]:
                path.unlink()
            write_whole(folder / f"{kind}-{name}", hashlib.sha256(data).digest() + data)


def cached(kind: str, name: str, read: Callable[[Any], T], make: Callable[[], T],
           plain: Callable[[T], Any]) -> T:
    """What was kept as JSON under this name, as `read` reads it; else what `make` makes, which is kept as
    `plain` has it."""
    data = load(kind, name)
    with contextlib.suppress(ValueError, KeyError, TypeError):
        if data is not None:
            return read(json.loads(data))
    made = make()
    save(kind, name, json.dumps(plain(made), separators=(",", ":")).encode())
    return made
