"""Puts a copy of the store back, on this head or on another one: checked before anything is touched,
whole or not at all, under a new name.

A head that is restored knows its cordons by the names that their marks bear. It gives new marks a name of its
own: what the lost head made after the copy is not taken for ours, and no number is given twice.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from healthcheck.config.files import make_folder
from healthcheck.config.synced import sync_folder
from healthcheck.store import ledger, runs
from healthcheck.store.cordons import name
from healthcheck.store.file import NAME, Store, opened
from inventory.errors import StoreError, UsageError

_LEFT = ("-wal", "-shm", "-journal")
_RESTORED = "the store was restored from a copy"


@dataclass(frozen=True)
class Restored:
    """What was put back: its names in marks until then and from now on, its newest sweep (epoch seconds, None
    for none), how many cordons it holds, and where the store that was there is kept (None where there was
    none).
    """

    was: tuple[str, ...]
    name: str
    newest: float | None
    cordons: int
    aside: Path | None


def restore(copy: Path, folder: Path, who: str, now: float, *, replace: bool = False) -> Restored:
    """Afterwards the state folder holds the store of this copy, brought up to date. Raises UsageError,
    StoreError: nothing is changed then.

    With `replace` a store that is there is kept beside it; one that another process has open is not touched.
    """
    target = folder / NAME
    if not copy.is_file():
        raise UsageError(f"{copy}: no such file; `muster store backup FILE` makes one")
    if target.exists() and target.samefile(copy):
        raise UsageError(f"{copy}: is the store itself")
    if target.exists() and not replace:
        raise UsageError(f"{target}: there is a store already; with --replace it is kept aside, and the copy "
                         "takes its place")
    make_folder(folder, "--state")
    try:
        with _beside(folder) as made:
            for end in ("", *_LEFT[:1]):
                if Path(f"{copy}{end}").exists():
                    shutil.copyfile(f"{copy}{end}", made / f"{NAME}{end}")
            was, new, newest, cordons = _made_ready(made, copy, who, now)
            aside = _put_aside(target, now)
            (made / NAME).replace(target)
            sync_folder(str(folder))
    except OSError as error:
        raise UsageError(f"{error.filename or folder}: {error.strerror}") from error
    return Restored(was, new, newest, cordons, aside)


@contextmanager
def _beside(folder: Path) -> Iterator[Path]:
    """A folder for what is not whole yet, on the same file system."""
    made = Path(tempfile.mkdtemp(prefix=".restore.", dir=folder))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _made_ready(
    made: Path, copy: Path, who: str, now: float,
) -> tuple[tuple[str, ...], str, float | None, int]:
    """The copy as the store that it is to be, as one file that is on the disk; raises StoreError,
    which names the copy."""
    try:
        _ours(made / NAME)
        with opened(made) as store:
            if wrong := store.check():
                raise StoreError(f"it is damaged: {wrong[0]}")
            was, new = _renamed(store, str(copy), who, now)
            newest = store.rows("SELECT max(started) FROM sweep")[0][0]
            cordons = store.rows("SELECT count(*) FROM cordon WHERE ended IS NULL")[0][0]
    except StoreError as error:
        raise StoreError(
            f"{copy}: cannot be restored: {str(error).removeprefix(f'{made / NAME}: ')}") from None
    with closing(sqlite3.connect(made / NAME)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    descriptor = os.open(made / NAME, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fchmod(descriptor, 0o600)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return was, new, newest, cordons


def _ours(file: Path) -> None:
    """Raises StoreError for a file that holds nothing:
    as a new store it would pass for one that remembers nothing."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(file)) as connection:
        if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise StoreError("it is empty")


def _renamed(store: Store, copy: str, who: str, now: float) -> tuple[tuple[str, ...], str]:
    """Gives the store a name that it never had, and ends what was at work on the head that it is of; gives
    its names before, and this."""
    with store.writing() as db:
        was = tuple(row[0] for row in db.execute("SELECT store FROM name ORDER BY rowid"))
        taken, new = frozenset(was), was[0]
        while new in taken:
            new = db.execute("SELECT lower(hex(randomblob(2)))").fetchone()[0]
        db.execute("INSERT INTO name (store, since) VALUES (?, ?)", (new, now))
        assert name(db) == new  # noqa: S101  (the newest is the last)
        db.execute("UPDATE triage_run SET finished = ?, outcome = ? WHERE finished IS NULL",
                   (now, f"{runs.SILENT}: {_RESTORED}"))
        line = ledger.begin(db, now, who, "restore", "",
                            f"{_RESTORED}; its marks are {new} from now on", copy)
        ledger.finish(db, line, "restored", now)
    return was, new


def _put_aside(target: Path, now: float) -> Path | None:
    """Keeps the existing store under another name, as one file if readable; there is a store at any time.

    Raises StoreError where another process has it open, for that would go on with the old one,
    and tidy up after both.
    """
    left = [Path(f"{target}{end}") for end in _LEFT if Path(f"{target}{end}").exists()]
    if not target.exists() and not left:
        return None
    aside = target.with_name(f"{NAME}.{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(now))}")
    number = 1
    while aside.exists():
        number += 1
        aside = target.with_name(f"{aside.name.partition('-')[0]}-{number}")
    # SQLite takes away a journal that it can make nothing of.
    beside = {path: Path(f"{aside}{path.name.removeprefix(NAME)}") for path in left}
    for path, kept in beside.items():
        os.link(path, kept)
    needless = True     # unless the store is damaged, or is not there
    try:
        needless = target.exists() and _closed(target)
    finally:
        for kept in beside.values() if needless else ():
            kept.unlink()
    if target.exists():
        os.link(target, aside)
    for path in left:
        path.unlink(missing_ok=True)
    return aside


def _closed(target: Path) -> bool:
    """Makes the store one file; False where it is damaged.
    Raises StoreError where another process has it open."""
    try:
        with closing(sqlite3.connect(target, timeout=0.5)) as connection:
            connection.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "busy" in str(error):
            raise StoreError(f"{target}: another process has it open (see: fuser {target}); end what uses it "
                             "first: the exporter, timers, a triage or a sweep") from None
        return False
    except sqlite3.DatabaseError:
        return False
    return True
