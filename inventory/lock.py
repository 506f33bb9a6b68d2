"""Locks a file that is about to be replaced, so that concurrent writers do not undo each other's changes."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

# a writer needs milliseconds; any reader may lock the file, and must not block others for ever
SECONDS = 10.0
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)      # some network file systems


@contextlib.contextmanager
def locked(path: Path, *, make: bool = False) -> Iterator[os.stat_result]:
    """Holds the lock of a file that we may write to; gives its status. `make` creates an empty one. Raises
    OSError; TimeoutError if another program held the lock for `SECONDS`."""
    deadline = time.monotonic() + SECONDS
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if make else 0), 0o644)
        try:
            _lock(descriptor, deadline)
            status = os.fstat(descriptor)
            # After waiting we may hold the lock of a replaced file; then try again.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(status, path.stat()):
                    yield status
                    return
        finally:
            os.close(descriptor)


def _lock(descriptor: int, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise TimeoutError(errno.ETIMEDOUT, "another program holds its lock (see: lslocks)") from None
            time.sleep(0.01)
        except OSError as problem:
            if problem.errno in _NO_LOCKS:
                return
            raise
        else:
            return


def sync_folder(folder: Path) -> None:
    """Makes a rename in the folder survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
