"""The store's file: opening it, bringing an older one up to date, looking whether it is whole,
and copying it while it is in use.

SQLite in WAL mode: readers are never blocked, there is one writer at a time, and what was committed is there
after a kill or a power cut (`synchronous=FULL`). Whoever is killed while writing leaves the store as it was
before.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from healthcheck.store.schema import MIGRATIONS
from inventory.errors import StoreError

NAME = "muster.db"
# "mstr": tells our files from other programs' in `file` and to ourselves (PRAGMA application_id).
_APPLICATION = 0x6D737472
WAIT_S = 10.0       # another writer needs tens of milliseconds; a sweep of ten thousand nodes some seconds


class Store:
    """An open store. Use `writing()` for changes, which are made wholly or not at all; `rows()` reads."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """The connection inside a transaction; waits for another writer up to
        `WAIT_S`. Raises StoreError and changes nothing."""
        with _store_errors(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):       # it may have been rolled back already (a full disk)
                    self._connection.execute("ROLLBACK")
                raise

    def rows(self, query: str, *values: Any) -> list[sqlite3.Row]:
        """All rows of a query; raises StoreError."""
        with _store_errors(self.path):
            return self._connection.execute(query, values).fetchall()

    def each(self, query: str, *values: Any) -> Iterator[sqlite3.Row]:
        """The rows of a query one at a time, of which so many may be that no list should hold them; raises
        StoreError."""
        with _store_errors(self.path):
            yield from self._connection.execute(query, values)

    def check(self) -> list[str]:
        """What SQLite finds wrong with the file and with the references in it, a line each;
        empty where it is whole."""
        with _store_errors(self.path):
            found = [str(row[0]) for row in self._connection.execute("PRAGMA integrity_check(20)")]
            lost = [f"{row[0]} row {row[1]} refers to a {row[2]} that is not there"
                    for row in self._connection.execute("PRAGMA foreign_key_check")]
        return [line for line in found if line != "ok"] + lost[:20]

    def backup(self, target: Path) -> None:
        """Afterwards `target` is a whole copy as of one moment, while others go on writing here.
        Raises StoreError, OSError."""
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        os.close(descriptor)
        try:
            with _store_errors(target), closing(sqlite3.connect(name)) as copy:
                self._connection.backup(copy)
                copy.execute("PRAGMA journal_mode=DELETE")      # one file, that can be copied on by itself
            with open(name, "rb") as file:
                os.fsync(file.fileno())
            Path(name).replace(target)
        finally:
            Path(name).unlink(missing_ok=True)

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()


@contextmanager
def opened(folder: Path, *, make: bool = False) -> Iterator[Store]:
    """The store in a state folder; `make` creates a missing one. Raises StoreError,
    one line with what to do."""
    path = folder / NAME
    if not make and not path.exists():
        raise StoreError(f"{path}: there is no store yet; `muster check --store` makes one")
    with _store_errors(path):
        if make:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)
    try:
        connection.row_factory = sqlite3.Row
        store = Store(path, connection)
        with _store_errors(path):
            _prepare(store, connection)
        yield store
    finally:
        connection.close()


def _prepare(store: Store, connection: sqlite3.Connection) -> None:
    version = _version(store.path, connection)
    mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
    if mode != "wal":
        raise StoreError(f"{store.path}: SQLite cannot keep its journal there (mode {mode}); a network file "
                         "system? See --state")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")
    if version == len(MIGRATIONS):
        return
    with store.writing():
        # Another muster may have done it while this one waited.
        for step in MIGRATIONS[_version(store.path, connection):]:
            for statement in step:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id={_APPLICATION}")
        connection.execute(f"PRAGMA user_version={len(MIGRATIONS)}")


def _version(path: Path, connection: sqlite3.Connection) -> int:
    """The schema's version in the file, 0 where it is empty; raises StoreError for a
    file that is not ours, or from a newer muster."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    application = int(connection.execute("PRAGMA application_id").fetchone()[0])
    tables = int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    if application != _APPLICATION and (tables or version):
        raise StoreError(f"{path}: is an SQLite database, but none of muster's")
    if version > len(MIGRATIONS):
        raise StoreError(
            f"{path}: was written by a newer muster (schema {version}; this one knows {len(MIGRATIONS)})")
    return version


@contextmanager
def _store_errors(path: Path) -> Iterator[None]:
    """Makes of what SQLite and the system say one line that a person can act on."""
    try:
        yield
    except sqlite3.OperationalError as error:
        said = str(error)
        if "locked" in said or "busy" in said:
            raise StoreError(f"{path}: another muster has been writing to it for more than {WAIT_S:g} s "
                             f"(see: fuser {path})") from None
        if "full" in said:
            raise StoreError(
                f"{path}: the disk is full; nothing was changed, and what was stored is whole") from None
        raise StoreError(f"{path}: {said}") from None
    except sqlite3.DatabaseError as error:
        raise StoreError(f"{path}: {error}; see `muster store check`, or put back a copy of `muster store "
                         "backup`") from None
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from None
