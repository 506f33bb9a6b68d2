"""Files and folders on the node: each appears by a rename, and what is gone is gone. Python 3.8."""

from __future__ import annotations

import json
import os
import shutil
import stat
from typing import Any


class InstallError(Exception):
    """It cannot be done, and nothing was switched; one line for a person."""


def document(path: str) -> Any:
    """A JSON object of at most 1 MiB, without what is long in it; else why there is none."""
    try:
        with open(path, "rb") as file:
            found = json.loads(file.read(8 << 20))
        return {
            name: value for name, value in found.items()
                if isinstance(value, (str, int, float, bool, type(None)))}
    except OSError as error:
        return error.strerror
    except (ValueError, AttributeError, RecursionError):
        return "it cannot be read"


def unknown_rules(path: str) -> list[str]:
    """Rules that the agent's result at this path calls UNKNOWN; none without a result."""
    try:
        with open(path, "rb") as file:
            results = json.loads(file.read(8 << 20))["report"]["results"]
        return sorted({one["rule"] for one in results if one["status"] == "unknown"})
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return []


def gone(path: str) -> None:
    """Afterwards nothing lies there."""
    try:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
    except FileNotFoundError:
        pass


def empty(path: str) -> None:
    """Removes a folder that holds nothing."""
    try:
        os.rmdir(path)
    except OSError:
        pass


def synced(folder: str) -> None:
    """Afterwards what was renamed there is so on the disk, too."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def put(path: str, data: bytes, mode: int) -> bool:
    """Afterwards the file holds this, and whoever reads it sees it whole; whether it did not before."""
    try:
        with open(path, "rb") as file:
            if file.read() == data and stat.S_IMODE(
                os.fstat(file.fileno()).st_mode) == mode and not os.path.islink(path):
                return False
    except OSError:
        pass
    new = os.path.join(os.path.dirname(path), ".%s.new" % os.path.basename(path))
    gone(new)
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with open(fd, "wb") as file:
        os.fchmod(fd, mode)
        file.write(data)
        file.flush()
        os.fsync(fd)
    os.rename(new, path)
    synced(os.path.dirname(path))
    return True
