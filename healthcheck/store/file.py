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

from healthcheck.store.migrations import MIGRATIONS
from healthcheck.store.schema import SCHEMA
from healthcheck.store.trouble import StoreTrouble, kind_of, words
from inventory.errors import StoreError, StoreMoved
from inventory.times import minute

NAME = "muster.db"
# "mstr": tells our files from other programs' in `file` and to ourselves (PRAGMA application_id).
_APPLICATION = 0x6D737472
WAIT_S = 10.0       # another writer needs tens of milliseconds; a sweep of ten thousand nodes some seconds


class Store:
    """An open store. Use `writing()` for changes, which are made wholly or not at all; `rows()` reads."""

    def __init__(self, path: Path, connection: sqlite3.Connection, *, moved: bool = True) -> None:
        self.path = path
        self._connection = connection
        self._moved = moved     # whether it may be used although another head has it

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """The connection inside a transaction; waits for another writer up to
        `WAIT_S`. Raises StoreError and changes nothing."""
        with _store_errors(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                if not self._moved:
                    _refuse_moved(self)
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
def opened(folder: Path, *, make: bool = False, moved: bool = False) -> Iterator[Store]:
    """The store in a state folder; `make` creates a missing one. Raises StoreError,
    one line with what to do; StoreMoved for one that was moved to another head, unless `moved`.

    What was done while it could not be opened is taken in first (`healthcheck.store.waiting`). On a full
    disk, and on a file system that is read-only, it can be read, and each change is refused.
    """
    path = folder / NAME
    if not make and not path.exists():
        raise StoreError(_missing(path))
    with _store_errors(path):
        if make:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not path.exists() and Path(f"{path}-wal").exists():
                raise StoreError(_missing(path))
            if not os.access(path, os.F_OK):
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        _refuse_foreign_journal(path)
        connection, writable = _connected(path)
    try:
        store = Store(path, connection, moved=moved)
        with _store_errors(path):
            if not moved:
                _refuse_moved(store)
        if writable:
            from healthcheck.store.waiting import take_in

            take_in(store, folder)
        yield store
    finally:
        connection.close()


def _missing(path: Path) -> str:
    """A store that is gone, and has left a journal, would lose it if a new one were made in its place."""
    if Path(f"{path}-wal").exists():
        return (f"{path}: the store is missing, but its journal {path.name}-wal is there: put a copy back "
                "with muster store restore FILE, which keeps the journal aside")
    return (f"{path}: there is no store yet; `muster check --store` makes one, and `muster store restore "
            "FILE` puts a copy back")


def is_copy(path: Path) -> bool:
    """Whether the file says in its head (byte 18, sqlite.org/fileformat2.html) that it has no journal of the
    kind that a store in use has: it was made by `backup`."""
    with open(path, "rb") as file:
        head = file.read(20)
    return head[:16] == b"SQLite format 3\0" and head[18:20] == b"\1\1"


def _refuse_foreign_journal(path: Path) -> None:
    """SQLite plays any journal that lies beside a file into it: one beside a copy was left by another store.
    """
    journal = Path(f"{path}-wal")
    if journal.exists() and journal.stat().st_size and is_copy(path):
        raise StoreError(f"{path}: a copy was put there by hand, beside the journal {journal.name} of the "
                         "store before it, which would damage it; nothing was changed. Type: "
                         f"mv {path} {path}.copy && muster store restore {path}.copy")


def _connected(path: Path) -> tuple[sqlite3.Connection, bool]:
    """A connection that is ready for use, and whether it can write. Where the disk is full SQLite cannot make
    its index of the journal, and keeps it in memory instead if no one else has the store open; where the file
    system is read-only, a store without a journal is read as it lies there."""
    connection = _connect(path)
    try:
        _prepare(Store(path, connection), connection)
        return connection, True
    except sqlite3.OperationalError as error:
        connection.close()
        trouble, first = kind_of(error, path), error
    except BaseException:
        connection.close()
        raise
    journal = Path(f"{path}-wal")
    if trouble is StoreTrouble.READ_ONLY and not (journal.exists() and journal.stat().st_size):
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True,
                                     isolation_level=None)
    elif trouble is StoreTrouble.FULL:
        connection = _connect(path)
        connection.execute("PRAGMA locking_mode=EXCLUSIVE")
    else:
        raise first
    try:
        connection.row_factory = sqlite3.Row
        if _version(path, connection) != len(MIGRATIONS):
            raise first
    except BaseException:
        connection.close()
        raise
    return connection, False


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)
    connection.row_factory = sqlite3.Row
    return connection


# Actions of the ledger of which the newest says whether the store is still this head's.
MOVE, MOVE_BACK, RESTORE = "move", "move back", "restore"


def _refuse_moved(store: Store) -> None:
    """Raises StoreMoved for a store that another head has by now."""
    for action, target, who, began, outcome in store.rows(
            "SELECT action, evidence, who, time, outcome FROM ledger WHERE node = '' AND action IN (?, ?, ?) "
            "ORDER BY id DESC LIMIT 1", MOVE, MOVE_BACK, RESTORE):
        when = minute(began)
        if action == MOVE and outcome is None:
            raise StoreMoved(f"{store.path}: {who} began to move it to {target} at {when}, and the copy is "
                             f"not whole: muster store move {target} goes on, muster store move --back keeps "
                             "it here")
        if action == MOVE:
            raise StoreMoved(f"{store.path}: was moved to {target} by {who} at {when}: this head no longer "
                             f"acts. On the new head: muster store restore {target}; to keep it here after "
                             "all: muster store move --back")


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
        version = _version(store.path, connection)
        for step in MIGRATIONS[version:] if version else (SCHEMA,):
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
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"{path}: {words(error, path, WAIT_S)}") from None
