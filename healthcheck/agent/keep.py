"""Keeps the agent's files whole: one run at a time, each file by temporary, fsync and rename. Python 3.8."""

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
    """Another run goes on; its pid, as far as it said one."""


class Unkept(Exception):
    """The state folder, or what is in it, cannot be used; one line."""


class StateFolder:
    """The state folder, of which this run is the only one, until the process ends."""

    def __init__(self, path: Path) -> None:
        """Raises Busy and Unkept."""
        self.path = path
        try:
            path.mkdir(0o700, parents=True, exist_ok=True)
            found = path.stat()
            if found.st_uid != os.geteuid() or found.st_mode & 0o022:
                # Code is run that was kept in it.
                raise Unkept(f"the state folder {path} must belong to whoever runs this, and nobody else may write to it")
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
        """Afterwards the file holds this, and nobody ever sees a part of it; raises Unkept."""
        whole(self.path / name, data, 0o600)

    def put_json(self, name: str, document: dict[str, Any]) -> None:
        """See `put`; a name that ends in .gz is compressed, equal documents to equal bytes."""
        data = json.dumps(document, separators=(",", ":")).encode() + b"\n"
        self.put(name, gzip.compress(data, 6, mtime=0) if name.endswith(".gz") else data)

    def look(self) -> dict[str, Any] | None:
        """What the run before this one recorded, if that can be read."""
        return self._read(RECORDING)

    def result(self) -> dict[str, Any] | None:
        """What the run before this one found, if that can be read."""
        return self._read(RESULT)

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            with open(self.path / name, "rb") as raw, gzip.GzipFile(fileobj=raw) if name.endswith(".gz") else raw as file:
                document = json.loads(file.read(MOST))
        except (OSError, ValueError, EOFError, RecursionError):
            return None
        return document if isinstance(document, dict) and document.get("schema") == SCHEMA else None


def whole(path: Path, data: bytes, mode: int) -> None:
    """Afterwards the file holds this; raises Unkept. What a killed run left of its temporary file is written over."""
    temporary = path.with_name(f"{path.name}.new")
    try:
        # In node_exporter's folder others may write, too: never into what somebody has put there.
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
