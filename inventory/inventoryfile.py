"""An inventory's file: read with its limits, and written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from inventory.errors import InventoryError
from inventory.located import MAX_BYTES
from inventory.lock import locked, sync_folder


@dataclass(frozen=True)
class InventoryFile:
    """A file as it was read: `path` as named, the bytes, and their text without a byte order mark."""

    path: Path
    data: bytes
    text: str

    @classmethod
    def read(cls, path: Path) -> InventoryFile:
        """Reads a regular file; raises InventoryError for what is none, too large, or not UTF-8."""
        try:
            if not stat.S_ISREG(path.stat().st_mode):
                raise InventoryError(f"{path}: not a regular file, so it cannot be edited")
            with path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except OSError as problem:
            raise InventoryError(f"{path}: cannot be read: {problem.strerror}") from None
        if len(data) > MAX_BYTES:
            raise InventoryError(f"{path}: is over the size limit of {MAX_BYTES} bytes")
        try:
            return cls(path, data, data.decode("utf-8-sig"))
        except UnicodeDecodeError as problem:
            raise InventoryError(f"{path}: is not UTF-8 text at byte {problem.start + 1}") from None

    def write(self, text: str) -> None:
        """Afterwards the file holds `text`, with its mode and owner; a symbolic link stays one. Readers find
        old or new. Raises InventoryError, and changes nothing, when the file is no longer what was read, is
        another's, or cannot be written."""
        real = Path(os.path.realpath(self.path))
        mark = b"\xef\xbb\xbf" if self.data.startswith(b"\xef\xbb\xbf") else b""
        try:
            with locked(real) as status:
                _replace(real, mark + text.encode(), status, self._unchanged)
        except OSError as problem:
            raise InventoryError(f"{self.path}: cannot be written: {problem.strerror}") from None

    def _unchanged(self) -> None:
        with Path(self.path).open("rb") as file:
            if file.read(len(self.data) + 1) != self.data:
                raise InventoryError(
                    f"{self.path}: someone else changed it meanwhile; check it and try again")


def write_new(path: Path, text: str) -> None:
    """Afterwards a new file holds `text`. Raises InventoryError when there is one, or it cannot be made."""
    mask = os.umask(0o077)
    os.umask(mask)
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(text.encode())
                file.flush()
                os.fchmod(file.fileno(), 0o666 & ~mask)
                os.fsync(file.fileno())
            os.link(name, path)     # unlike a rename, never over a file that someone made meanwhile
            sync_folder(path.parent)
        finally:
            Path(name).unlink()
    except FileExistsError:
        raise InventoryError(f"{path}: exists already; name it with --inventory to import into it") from None
    except OSError as problem:
        raise InventoryError(f"{path}: cannot be written: {problem.strerror}") from None


def _replace(real: Path, data: bytes, status: os.stat_result, unchanged: Callable[[], None]) -> None:
    descriptor, name = tempfile.mkstemp(prefix=f".{real.name}.", dir=real.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            made = os.fstat(file.fileno())
            if (made.st_uid, made.st_gid) != (status.st_uid, status.st_gid):
                try:
                    os.fchown(file.fileno(), status.st_uid, status.st_gid)
                except PermissionError:
                    raise InventoryError(
                        f"{real}: belongs to another user or group; edit it as that user") from None
            os.fchmod(file.fileno(), stat.S_IMODE(status.st_mode))
            os.fsync(file.fileno())
        unchanged()
        Path(name).replace(real)
        sync_folder(real.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
