"""Writes the agent's files atomically: one run at a time, by temporary file, fsync and rename. Python 3.8."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gzip
import json
import os
import shlex
import stat
from pathlib import Path
from typing import Any

from healthcheck.model.places import LOCK, RECORDING, RESULT, SCHEMA

MOST = 32 << 20     # bytes of a state file, compressed or not


class Busy(Exception):
    """Another run is active; its pid, if known."""


class Unkept(Exception):
    """A file or folder cannot be used: one line with the path, the reason and the next command."""


# By the reason, what shows more; the others are reasons of the path itself.
_NEXT = {errno.ENOSPC: "df -h {}", errno.EDQUOT: "quota -v", errno.EROFS: "findmnt -T {}",
         errno.ESTALE: "findmnt -T {}", errno.EIO: "journalctl -k -n 50"}


def unkept(path: Path, error: OSError, what: str = "written") -> Unkept:
    """This error at this path, in words, with the command to type next."""
    words, command = error.strerror or str(error), _NEXT.get(error.errno or 0, "namei -l {}")
    # Path.is_dir() raises for a folder that may not be read.
    folder = next((one for one in (path, *path.parents) if os.path.isdir(one)), path)  # noqa: PTH112
    if error.errno == errno.ENOSPC and _no_inodes(folder):
        words, command = f"{words}: no inode is free", "df -i {}"
    elif error.errno == errno.EEXIST:
        words = "it is a link that leads nowhere" if path.is_symlink() else "it is not a folder"
    named = folder if command.startswith(("df", "findmnt")) else path
    return Unkept(f"{path} cannot be {what}: {words}; see: {command.format(shlex.quote(str(named)))}")


def _no_inodes(folder: Path) -> bool:
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    return found.f_files > 0 and found.f_favail == 0


class StateFolder:
    """The state folder, locked for this run until the process ends.

    `fault` is why its lock could not be taken; the run goes on, as what it measures is good. `trusted` is
    False where what lies there may be someone else's: then nothing is read from it or written to it.
    """

    def __init__(self, path: Path) -> None:
        """Raises Busy."""
        self.path = path
        self.fault: Unkept | None = None
        self.trusted = False
        try:
            path.mkdir(0o700, parents=True, exist_ok=True)
            found = path.stat()
            if found.st_uid != os.geteuid() or found.st_mode & 0o022:
                # The folder holds code that will run.
                self.fault = Unkept(f"the state folder {path} must belong to the current user, and no one "
                                    f"else may write to it; see: ls -ld {shlex.quote(str(path))}")
                return
            self.trusted = True
            self._lock = self._opened(path / LOCK)
        except OSError as error:
            self.fault = unkept(path, error, "used as state folder")
            return
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                self.fault = unkept(path / LOCK, error, "locked")
                return
            pid = os.pread(self._lock, 16, 0).decode("ascii", "replace").strip()
            raise Busy(pid if pid.isdigit() else "?") from None
        # Only for who waits: a full disk shows where the results are written.
        with contextlib.suppress(OSError):
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, b"%d\n" % os.getpid(), 0)

    @staticmethod
    def _opened(path: Path) -> int:
        flags = os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o600)
        except OSError as error:
            if error.errno != errno.EROFS:
                raise
            return os.open(path, os.O_RDONLY | flags)

    def put(self, name: str, data: bytes) -> None:
        """Writes the file atomically; raises Unkept."""
        if self.fault is not None:
            raise self.fault
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
        if not self.trusted:
            return None
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
        raise unkept(path, error) from None


def note(path: str | None, data: bytes | None) -> None:
    """Writes this to the run folder, or removes what an earlier run noted; where that folder is not this
    user's alone, it does nothing."""
    if path is None:
        return
    place = Path(path)
    with contextlib.suppress(OSError, Unkept):
        found = place.parent.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022:
            if data is None:
                place.unlink()
            else:
                whole(place, data, 0o600)
