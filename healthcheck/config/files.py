"""Writes files atomically: a reader finds the old text or the new one, never a part."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from inventory.errors import UsageError


def write_whole(path: Path, data: bytes, mode: int = 0o600, *, durable: bool = True) -> None:
    """Writes `data` to `path`: temporary file, fsync, rename. On OSError, which names `path`, it leaves no
    temporary file.

    Private by default: recordings hold kernel logs, which many systems show to root only. Without `durable`
    there is no fsync: a crash of the machine may then lose the file, but leaves no partial one.
    """
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        error.filename = str(path)
        raise
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException as error:
        if isinstance(error, OSError):
            error.filename, error.filename2 = str(path), None   # a failed write names no file by itself
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def write_named(path: Path, data: bytes, what: str, mode: int = 0o600) -> None:
    """`write_whole` of a file that a person named; raises UsageError that names it as `what`."""
    try:
        write_whole(path, data, mode)
    except OSError as error:
        raise UsageError(f"{what}: cannot be written: {error.strerror}") from None


def make_folder(path: Path, what: str) -> None:
    """Creates the folder and its parents; raises UsageError that names `what` it is for."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{what}: {path} cannot be created: {error.strerror}") from error
