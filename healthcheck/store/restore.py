"""Puts a copy of the store back, on this head or on another one: checked before anything is touched,
whole or not at all, under a new name.

A head that is restored knows its cordons by the names that their marks bear. It gives new marks a name of its
own, so that no number is given twice; what it made after the copy it takes in from the back ends
(`provisioning.actions.reconcile`), and those of a store that was there before it, whose names it keeps.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from healthcheck.config.files import make_folder
from healthcheck.config.synced import sync_folder
from healthcheck.store import ledger, runs
from healthcheck.store.cordons import name
from healthcheck.store.file import NAME, RESTORE, Store, is_copy, opened
from inventory.errors import StoreError, UsageError

_LEFT = ("-wal", "-shm", "-journal")
# What holds changes that are not in the file; the third is an index of the first, and is made anew.
_JOURNALS = ("-wal", "-journal")
_PREFIX = ".restore."
_RESTORED = "the store was restored from a copy"


@dataclass(frozen=True)
class Restored:
    """What was put back: its names in marks until then and from now on, its newest sweep (epoch seconds, None
    for none), how many cordons the copy holds, where the store that was there is kept (None where there was
    none), which journals beside the copy were taken in, and which were left out as another store's.
    """

    was: tuple[str, ...]
    name: str
    newest: float | None
    cordons: int
    aside: Path | None
    taken: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def _nothing(store: Store) -> None:
    """Where no back end is asked."""


def restore(
    copy: Path, folder: Path, who: str, now: float, *, replace: bool = False,
    also: Callable[[Store], None] = _nothing,
) -> Restored:
    """Afterwards the state folder holds the store of this copy, brought up to date, and as `also` has made
    it. Raises UsageError, StoreError: nothing is changed then.

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
            taken, left_out = _copied(copy, made)
            was, new, newest, cordons = _made_ready(made, copy, _names(target), who, now, also)
            aside = _put_aside(target, now)
            (made / NAME).replace(target)
            sync_folder(str(folder))
    except OSError as error:
        raise UsageError(f"{error.filename or folder}: {error.strerror}") from error
    return Restored(was, new, newest, cordons, aside, taken, left_out)


def _copied(copy: Path, made: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The copy, with the changes that a journal beside it holds; gives the names of those journals, and of
    the journals that are another store's, or of an older state of this one: of a copy by `backup`, which
    needs none, and those with which it is damaged, or holds less than without."""
    beside = [end for end in _JOURNALS
              if (path := Path(f"{copy}{end}")).is_file() and path.stat().st_size]
    foreign = [end for end in beside if end == "-wal" and is_copy(copy)]
    own = [end for end in beside if end not in foreign]
    if own:
        alone, played = _held(copy, [], made), _held(copy, own, made)
        # A journal of the older kind takes back what was not committed, and so holds less.
        back = "-journal" in own
        if alone is not None and (played is None or not played.follows(alone, back=back)):
            foreign, own = beside, []
    _take(copy, own, made)
    return (tuple(f"{copy.name}{end}" for end in own), tuple(f"{copy.name}{end}" for end in foreign))


@dataclass(frozen=True)
class _Held:
    """What only grows in a store: the names that it had, the lines of its ledger and its sweeps."""

    names: frozenset[str]
    lines: int
    sweeps: int

    def follows(self, before: _Held, *, back: bool) -> bool:
        """Whether it may be the same store, later; with `back` also just before."""
        grown = before.lines <= self.lines and before.sweeps <= self.sweeps
        return before.names <= self.names and (grown or back)


def _held(copy: Path, own: Collection[str], made: Path) -> _Held | None:
    """What the copy holds with these journals; None where it is damaged, or no store with a name."""
    _take(copy, own, made)
    with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(made / NAME)) as connection:
        if connection.execute("PRAGMA integrity_check(1)").fetchone()[0] == "ok":
            names = frozenset(str(row[0]) for row in connection.execute("SELECT store FROM name"))
            return _Held(names, *connection.execute("SELECT coalesce(max(ledger.id), 0), "
                                                    "(SELECT coalesce(max(id), 0) FROM sweep) FROM ledger")
                         .fetchone())
    return None


def _take(copy: Path, own: Collection[str], made: Path) -> None:
    for end in ("", *_LEFT):
        Path(made / f"{NAME}{end}").unlink(missing_ok=True)
    for end in ("", *own):
        shutil.copyfile(f"{copy}{end}", made / f"{NAME}{end}")


def _names(target: Path) -> tuple[str, ...]:
    """The names in the marks of the store that is there, as far as it can be read without touching it or its
    journal: what it has made is ours."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(
            f"{target.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        return tuple(str(row[0]) for row in connection.execute("SELECT store FROM name ORDER BY rowid"))
    return ()


@contextmanager
def _beside(folder: Path) -> Iterator[Path]:
    """A folder for what is not whole yet, on the same file system. One that a kill left is removed."""
    for left in folder.glob(f"{_PREFIX}*"):
        with suppress(OSError), _locked(left):
            shutil.rmtree(left, ignore_errors=True)
    made = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=folder))
    try:
        with _locked(made):
            yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextmanager
def _locked(made: Path) -> Iterator[None]:
    """The folder is this process's as long as it lives; raises OSError where it is another's."""
    descriptor = os.open(made, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _made_ready(
    made: Path, copy: Path, beside: Collection[str], who: str, now: float, also: Callable[[Store], None],
) -> tuple[tuple[str, ...], str, float | None, int]:
    """The copy as the store that it is to be, as one file that is on the disk; raises StoreError,
    which names the copy."""
    try:
        _ours(made / NAME)
        with opened(made, moved=True) as store:
            if wrong := store.check():
                raise StoreError(f"it is damaged: {wrong[0]}")
            was, new = _renamed(store, str(copy), beside, who, now)
            newest = store.rows("SELECT max(started) FROM sweep")[0][0]
            cordons = store.rows("SELECT count(*) FROM cordon WHERE ended IS NULL")[0][0]
            also(store)
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


def _renamed(
    store: Store, copy: str, beside: Collection[str], who: str, now: float,
) -> tuple[tuple[str, ...], str]:
    """Gives the store a name that it never had, and ends what was at work on the head that it is of; gives
    its names before, and this. The names `beside`, of the store that was there, are its own from now on."""
    with store.writing() as db:
        db.executemany("INSERT OR IGNORE INTO name (store, since) VALUES (?, ?)",
                       [(each, now) for each in beside])
        was = tuple(row[0] for row in db.execute("SELECT store FROM name ORDER BY rowid"))
        taken, new = frozenset(was), was[0]
        while new in taken:
            new = db.execute("SELECT lower(hex(randomblob(2)))").fetchone()[0]
        db.execute("INSERT INTO name (store, since) VALUES (?, ?)", (new, now))
        assert name(db) == new  # noqa: S101  (the newest is the last)
        db.execute("UPDATE triage_run SET finished = ?, outcome = ? WHERE finished IS NULL",
                   (now, f"{runs.SILENT}: {_RESTORED}"))
        ledger.done(db, now, who, RESTORE, "", f"{_RESTORED}; its marks are {new} from now on", copy,
                    "restored")
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
