"""The steps of firmware updates: each is written before it is made, with a line in the ledger, and its
outcome after it."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from dataclasses import dataclass

from healthcheck.store import ledger
from healthcheck.store.file import Store
from healthcheck.store.rows import insert


@dataclass(frozen=True)
class FirmwareStep:
    """A step that was begun: `send`, `off`, `on` or `restart`. `done` is None where it is not
    known whether it was taken, and `ended` where whoever began it was killed. Times are epoch seconds."""

    id: int
    node: str
    entry: str
    target: str
    step: str
    began: float
    ended: float | None
    done: bool | None
    message: str
    line: int


_COLUMNS = "id, node, entry, target, step, began, ended, done, message, line"


def firmware_steps(store: Store, node: str, entry: str, target: str) -> tuple[FirmwareStep, ...]:
    """Those that count of one machine for one version, oldest first. Raises StoreError."""
    rows = store.rows(f"SELECT {_COLUMNS} FROM firmware_step WHERE node = ? AND entry = ? AND target = ? "  # noqa: S608  (our own names)
                      "AND counts = 1 ORDER BY id", node, entry, target)
    return tuple(FirmwareStep(**{**dict(row), "done": None if row["done"] is None else bool(row["done"])})
                 for row in rows)


def left_off(store: Store) -> frozenset[tuple[str, str]]:
    """The machines, each with the entry, that an update turned off and has not turned on again, whatever its
    target was and also where a person had it begun anew. Raises StoreError."""
    return frozenset((row[0], row[1]) for row in store.rows(
        "SELECT node, entry FROM firmware_step GROUP BY node, entry "
        "HAVING max(CASE WHEN step = 'off' AND done IS NOT 0 THEN id END) > "
        "coalesce(max(CASE WHEN step = 'on' AND done = 1 THEN id END), 0)"))


def begin_step(
    store: Store, who: str, node: str, entry: str, target: str, step: str, what: str, now: float,
) -> int:
    """Writes down what is about to be done; gives its number. Raises StoreError."""
    with store.writing() as db:
        line = ledger.begin(db, now, who, f"firmware {step}", node, what, f"{entry} {target}")
        return insert(db, "firmware_step", node=node, entry=entry, target=target, step=step, began=now,
                      message="", counts=1, line=line)


def end_step(store: Store, number: int, done: bool | None, message: str, now: float) -> None:
    """Writes down what became of it; what is known of it is never overwritten. Raises StoreError."""
    with store.writing() as db:
        db.execute("UPDATE firmware_step SET ended = coalesce(ended, ?), done = ?, message = ? "
                   "WHERE id = ? AND done IS NULL", (now, done, message, number))
        if done is not None:
            _finish(db, number, message or ("done" if done else "not done"), now)


def void_step(store: Store, number: int, message: str, now: float) -> None:
    """Has a step count no more that was written down and certainly never made. Raises StoreError."""
    with store.writing() as db:
        db.execute("UPDATE firmware_step SET ended = coalesce(ended, ?), done = 0, message = ?, counts = 0 "
                   "WHERE id = ? AND done IS NULL", (now, message, number))
        _finish(db, number, message, now)


def _finish(db: sqlite3.Connection, number: int, message: str, now: float) -> None:
    line = db.execute("SELECT line FROM firmware_step WHERE id = ?", (number,)).fetchone()[0]
    ledger.finish(db, line, message, now)


def begin_anew(store: Store, updates: Collection[tuple[str, str]], who: str, now: float) -> int:
    """Has what was done to these machines, each with an entry, count no more, by a person's word; how many
    steps. Only whoever holds the lock of updates may: one under way would send again. Raises StoreError."""
    with store.writing() as db:
        count = 0
        for node, entry in updates:
            changed = db.execute("UPDATE firmware_step SET counts = 0 WHERE node = ? AND entry = ? "
                                 "AND counts = 1", (node, entry)).rowcount
            if changed:
                ledger.done(db, now, who, "firmware again", node, "by hand", entry,
                            f"{changed} steps count no more")
            count += changed
        return count
