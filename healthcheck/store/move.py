"""Moves the store to another head: from the first write on this head no longer acts, and the copy is whole
before that is final."""

from __future__ import annotations

from pathlib import Path

from healthcheck.store import ledger
from healthcheck.store.file import MOVE, MOVE_BACK, RESTORE, Store
from inventory.errors import UsageError

_MOVED = "moved"


def move_to(store: Store, target: Path, who: str, now: float) -> int:
    """Afterwards `target` is a whole copy, for `restore` on another head, and this store refuses changes;
    gives the number of its open cordons. After a kill the same call goes on. Raises UsageError, StoreError.

    `store` was opened with `moved`.
    """
    if target.exists() and target.samefile(store.path):
        raise UsageError(f"{target}: is the store itself")
    if not target.parent.is_dir():
        raise UsageError(f"{target}: there is no folder {target.parent}")
    newest = _newest(store)
    line = None
    with store.writing() as db:
        if newest is not None and newest[1] == MOVE:
            number, _, where, outcome = newest
            if outcome is not None:
                raise UsageError(f"{store.path}: was moved to {where} already; muster store move --back "
                                 "keeps it here")
            if where == str(target):
                line = number
            else:
                ledger.finish(db, number, f"not done: moved to {target} instead", now)
        if line is None:
            line = ledger.begin(db, now, who, MOVE, "", "the store is moved to another head", str(target))
    try:
        store.backup(target)
    except OSError as error:
        raise UsageError(f"{target}: cannot be written: {error.strerror}; muster store move --back keeps the "
                         "store here") from None
    with store.writing() as db:
        ledger.finish(db, line, _MOVED, now)
    return int(store.rows("SELECT count(*) FROM cordon WHERE ended IS NULL")[0][0])


def keep_here(store: Store, who: str, now: float) -> None:
    """Afterwards this head acts as before. Raises UsageError where it was not moved."""
    newest = _newest(store)
    if newest is None or newest[1] != MOVE:
        raise UsageError(f"{store.path}: was not moved")
    with store.writing() as db:
        ledger.finish(db, newest[0], "not done: kept here", now)
        ledger.done(db, now, who, MOVE_BACK, "", "the store is kept here", newest[2], "kept here")


def _newest(store: Store) -> tuple[int, str, str, str | None] | None:
    """The newest word of the ledger on whose the store is: line, action, target and outcome."""
    for row in store.rows("SELECT id, action, evidence, outcome FROM ledger WHERE node = '' "
                          "AND action IN (?, ?, ?) ORDER BY id DESC LIMIT 1", MOVE, MOVE_BACK, RESTORE):
        return (row[0], row[1], row[2], row[3])
    return None
