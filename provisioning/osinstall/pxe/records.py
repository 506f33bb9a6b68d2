"""The records of installations in the state folder: one file each, the owner's, written whole."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from healthcheck.config.files import make_folder, write_whole
from healthcheck.config.synced import sync_folder
from inventory.lock import locked
from inventory.text import short
from provisioning.osinstall.base import OsError
from provisioning.osinstall.pxe import record
from provisioning.osinstall.pxe.machines import is_host_name
from provisioning.osinstall.pxe.record import Installation

_FOLDER = "osinstall"
_LOCK = ".lock"
_Signature = tuple[int, int, int]


class InstallationRecords:
    """The records below a state folder. Several processes and threads may use them at a time."""

    def __init__(self, state: Path) -> None:
        self.folder = state / _FOLDER
        self._cached: dict[str, tuple[_Signature, Installation]] = {}

    def read(self, name: str) -> Installation | None:
        """The record of a machine; None where it has none. Raises OsError for one that cannot be read."""
        if not is_host_name(name):
            return None
        path = self._path(name)
        try:
            with path.open("rb") as file:
                status = os.fstat(file.fileno())
                signature = (status.st_mtime_ns, status.st_ino, status.st_size)
                cached = self._cached.get(name)
                if cached is not None and cached[0] == signature:
                    return cached[1]
                data = file.read(record.MOST_BYTES + 1)
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise OsError(f"the record of {name} cannot be read: {path}: {problem.strerror}") from None
        try:
            if len(data) > record.MOST_BYTES:
                raise ValueError(f"it is over {record.MOST_BYTES} bytes")
            found = record.read(data)
            if found.node != name:
                raise ValueError(f"it is of {short(found.node)}")
        except ValueError as problem:
            raise OsError(f"the record of {name} cannot be read: {path}: {problem}; move it away, and the "
                          "machine counts as never installed") from None
        self._cached[name] = (signature, found)
        return found

    def all(self) -> tuple[Installation, ...]:
        """All records that can be read, by name."""
        found = []
        for name in self.names():
            try:
                one = self.read(name)
            except OsError:
                continue    # `read` of this one machine says what is wrong
            if one is not None:
                found.append(one)
        return tuple(found)

    def names(self) -> tuple[str, ...]:
        """The machines that have one."""
        try:
            entries = [path.name for path in self.folder.iterdir()]
        except FileNotFoundError:
            return ()
        except OSError as problem:
            raise OsError(f"{self.folder}: {problem.strerror}") from None
        return tuple(sorted(entry.removesuffix(".json") for entry in entries
                            if entry.endswith(".json") and is_host_name(entry.removesuffix(".json"))))

    def by_mac(self, mac: str, now: float) -> Installation | None:
        """The one installation under way of this hardware address; None for none, or for two claims."""
        found = [one for one in self.all() if mac in one.macs and one.active(now)]
        return found[0] if len(found) == 1 else None

    def change(
        self, name: str, how: Callable[[Installation | None], Installation | None],
    ) -> Installation | None:
        """Writes what `how` makes of the record, while no one else changes one; None or the same record
        writes nothing. Raises OsError, and what `how` raises; then nothing changed."""
        make_folder(self.folder, "the folder of installations")
        try:
            with locked(self.folder / _LOCK, make=True):
                old = self.read(name)
                new = how(old)
                if new is not None and new != old:
                    write_whole(self._path(name), record.written(new))
                    sync_folder(str(self.folder))
                return new
        except TimeoutError:
            raise OsError(f"{self.folder / _LOCK}: another program holds it (see: lslocks)") from None
        except OSError as problem:
            raise OsError(f"the record of {name} cannot be written: {problem.filename or self.folder}: "
                          f"{problem.strerror}") from None

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"
