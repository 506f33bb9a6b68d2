"""Rows of a store that a bench makes, all from one seed."""

from __future__ import annotations

import random
import sqlite3
from typing import Any


class Rows:
    """Writes the rows of `count` nodes over so many days until `now`."""

    def __init__(self, db: sqlite3.Connection, count: int, now: float, days: int) -> None:
        self._db, self._count, self._now = db, count, now
        self._chance = random.Random(7)  # noqa: S311
        self._begin = now - days * 86400

    def put(self, table: str, columns: str, rows: Any) -> None:
        """Many rows at once."""
        marks = ", ".join("?" * len(columns.split(", ")))
        self._db.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", rows)  # noqa: S608

    def line(self, when: float, action: str, node: str, why: str, outcome: str) -> int:
        """One line of the ledger."""
        return self._db.execute(
            "INSERT INTO ledger (time, who, action, node, why, evidence, outcome, finished) "
            "VALUES (?, 'triage', ?, ?, ?, 'hostfile', ?, ?)",
            (when, action, node, why, outcome, when + 1)).lastrowid or 0
