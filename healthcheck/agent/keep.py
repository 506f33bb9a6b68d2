"""Writes the agent's files atomically: one run at a time, by temporary file, fsync and rename. Python 3.8."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gzip
import json
import os
from pathlib import Path
from typing import Any

from healthcheck.model.places import LOCK, RECORDING, RESULT, SCHEMA

MOST = 32 << 20     # bytes of a state file, compressed or not


class Busy(Exception):
    """Another run is active; its pid, if known."""


class Unkept(Exception):
    """The state folder or its content cannot be used; one line."""


class StateFolder:
    """The state folder, locked for this run until the process ends."""

    def __init__(self, path: Path) -> None:
        """Raises Busy and Unkept."""
        self.path = path
        try:
            path.mkdir(0o700, parents=True, exist_ok=True)
            found = path.stat()
            if found.st_uid != os.geteuid() or found.st_mode & 0o022:
                # The folder holds code that will run.
                raise Unkept(f"the state folder {path} must belong to the current user, and no one else may "
                             "write to it")
            self._lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES) and hasattr(self, "_lock"):
                pid = os.pread(self._lock, 16, 0).decode("ascii", "replace").strip()
                raise Busy(pid if pid.isdigit() else "?") from None
            raise Unkept(f"the state folder {path} cannot be used: {error.strerror}") from None
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, b"%d\n" % os.getpid(), 0)

    def put(self, name: str, data: bytes) -> None:
        """Writes the file atomically; raises Unkept."""
        whole(self.path / name, data, 0o600)

    def put_json(self, name: str, document: dict[str, Any]) -> None:
        """See `put`; a name that ends in .gz is compressed, equal documents to equal bytes."""
        data = json.dumps(document, separators=(",", ":")).encode() + b"\n"
        self.put(name, gzip.compress(data, 6, mtime=0) if name.endswith(".gz") else data)

    def look(self) -> dict[str, Any] | None:
        """The previous run's recording, if readable."""
        return self._read(RECORDING)

    def result(self) -> dict[str, Any] | None:
        """The previous run's result, if readable."""
        return self._read(RESULT)

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            with open(self.path / name, "rb") as raw:
                file = gzip.GzipFile(fileobj=raw) if name.endswith(".gz") else raw
                document = json.loads(file.read(MOST))
        except (OSError, ValueError, EOFError, RecursionError):
            return None
        return document if isinstance(document, dict) and document.get("schema") == SCHEMA else None


def whole(path: Path, data: bytes, mode: int) -> None:
    """Writes the file atomically; raises Unkept. Overwrites a killed run's temporary file."""
    temporary = path.with_name(f"{path.name}.new")
    try:
        # Others may write to node_exporter's folder too: never write into their files.
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        try:
            os.fchmod(file, mode)
            view = memoryview(data)
            while view:
                view = view[os.write(file, view):]
            os.fsync(file)
        finally:
            os.close(file)
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise Unkept(f"{path} cannot be written: {error.strerror}") from None
