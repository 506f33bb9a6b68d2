"""A secret for a service: the first line of a file that only its owner can read, or a variable."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from inventory.errors import UsageError

_MOST = 4096        # bytes


def secret_line(file: str | None, option: str, variable: str) -> str:
    """The line in the file, which the option of this name gave, else the variable's text; empty where there
    is none. Raises UsageError for a file that cannot be read, or that others may read.

    The variable is taken out of the environment, so that no program that is started later gets it.
    """
    text = os.environ.pop(variable, "")
    return _file(Path(file), option) if file is not None else text


def _file(path: Path, option: str) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise UsageError(f"{option} {path}: not a regular file")
            if status.st_mode & 0o077:
                raise UsageError(f"{option} {path}: others may read it (mode "
                                 f"{stat.S_IMODE(status.st_mode):04o}); change that: chmod 600 {path}")
            data = os.read(descriptor, _MOST)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise UsageError(f"{option} {path}: {error.strerror}") from None
    lines = data.decode("utf-8-sig", "replace").splitlines()
    return lines[0].strip() if lines else ""
