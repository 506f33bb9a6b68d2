"""What was made of files is kept between commands, for the user who made it: reading the files is cheap, and what follows is not.

A cache only. What is kept is named by the digest of every byte that it was made of, is whole or not there, and is never missed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path

from healthcheck.config.files import write_whole

_MOST_BYTES = 16 << 20
_MOST_KEPT = 4      # of a kind: two releases, or two folders of rules, that are used in turn do not drive each other out
_SUM = hashlib.sha256().digest_size


def digest(made_of: Iterable[bytes]) -> str:
    """The name of what is made of these bytes by this release of muster; each part counts with its length."""
    made = hashlib.sha256(version("cluster-muster").encode())
    for part in made_of:
        made.update(len(part).to_bytes(8, "big") + part)
    return made.hexdigest()[:32]


def kept(kind: str, name: str) -> bytes | None:
    """What was kept under this name; None where nothing is, or what is there is damaged or another user's."""
    for folder in _folder():
        with contextlib.suppress(OSError):
            with (folder / f"{kind}-{name}").open("rb") as file:
                data = file.read(_MOST_BYTES) if os.fstat(file.fileno()).st_uid == os.geteuid() else b""
            if hashlib.sha256(data[_SUM:]).digest() == data[:_SUM]:
                return data[_SUM:]
    return None


def keep(kind: str, name: str, data: bytes) -> None:
    """Keeps it where that can be done; the oldest of its kind go."""
    for folder in _folder():
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            old = sorted(folder.glob(f"{kind}-*"), key=lambda path: path.stat().st_mtime, reverse=True)
            for path in old[_MOST_KEPT - 1:]:
                path.unlink()
            write_whole(folder / f"{kind}-{name}", hashlib.sha256(data).digest() + data)


def _folder() -> Iterator[Path]:
    """A folder of this user alone: what is read from it is what was written. None for a user without a home, and none in another's."""
    base = os.environ.get("XDG_CACHE_HOME")
    with contextlib.suppress(RuntimeError, OSError):
        folder = (Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache") / "muster"
        # With sudo, root often keeps its user's HOME; a folder of root's there would be in that user's way for ever.
        if os.geteuid() != 0 or _nearest(folder).stat().st_uid == 0:
            yield folder


def _nearest(path: Path) -> Path:
    return next(one for one in (path, *path.parents) if one.exists())
