"""The ledger: each action, written before it starts, and its outcome, written after.

A line without an outcome is an action that was begun and whose end is not known:
who comes next looks, and writes it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from dataclasses import dataclass

from healthcheck.store.file import Store
from healthcheck.store.rows import insert

RECONCILE = "reconcile"     # nothing was done: the store was made to agree with what a back end shows


@dataclass(frozen=True)
class LedgerEntry:
    """One action; `outcome` and `finished` are None while unknown. Times are epoch seconds."""

    id: int
    time: float
    who: str
    action: str
    node: str
    why: str
    evidence: str
    outcome: str | None
    finished: float | None


def begin(
    db: sqlite3.Connection, time: float, who: str, action: str, node: str, why: str, evidence: str = "",
) -> int:
    """Writes down what is about to be done, inside a transaction; gives the line's number."""
    return insert(db, "ledger", time=time, who=who, action=action, node=node, why=why, evidence=evidence)


def finish(db: sqlite3.Connection, number: int, outcome: str, time: float) -> None:
    """Records the outcome once; never overwrites one."""
    db.execute("UPDATE ledger SET outcome = ?, finished = ? WHERE id = ? AND outcome IS NULL",
               (outcome, time, number))


def done(
    db: sqlite3.Connection, time: float, who: str, action: str, node: str, why: str, evidence: str,
    outcome: str,
) -> None:
    """Writes down with its outcome what is done in the same transaction."""
    finish(db, begin(db, time, who, action, node, why, evidence), outcome, time)


def lines(store: Store, nodes: Collection[str] | None = None, since: float = 0) -> list[LedgerEntry]:
    """Actions since, of these nodes or of all, in the order in which they were begun."""
    found = [LedgerEntry(**dict(row))
             for row in store.rows("SELECT * FROM ledger WHERE time >= ? ORDER BY id", since)]
    return [line for line in found if nodes is None or line.node in nodes]
