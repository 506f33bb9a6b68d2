"""Holds the lock of a file that is about to be replaced, so that of several writers none undoes what another has done."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

SECONDS = 10.0      # a writer needs milliseconds; who may read a file may lock it, and must not stop everybody for ever
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)      # some network file systems


@contextlib.contextmanager
def locked(path: Path, *, make: bool = False) -> Iterator[os.stat_result]:
    """Holds the lock of the file that is at `path`, which must be one that we may write to; gives its status.

    `make` makes an empty one where there is none. Raises OSError, of which TimeoutError says that somebody else has held it for
    `SECONDS`.
    """
    deadline = time.monotonic() + SECONDS
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if make else 0), 0o644)
        try:
            _lock(descriptor, deadline)
            status = os.fstat(descriptor)
            # Whoever waited may hold the lock of a file that has been replaced since, and tries again.
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
