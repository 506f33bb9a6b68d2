"""Rows by the names of their columns, each written inside the caller's transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable


def insert(db: sqlite3.Connection, table: str, **values: object) -> int:
    """Adds a row to a table that has a row id; gives its number."""
    marks = ", ".join("?" * len(values))
    number = db.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})",  # noqa: S608  (our own names)
                        tuple(values.values())).lastrowid
    assert number is not None  # noqa: S101  (an INSERT always has one)
    return number


def update(db: sqlite3.Connection, table: str, number: int, **values: object) -> None:
    """Writes these columns of the row with this number."""
    db.execute(f"UPDATE {table} SET {', '.join(f'{name} = ?' for name in values)} WHERE id = ?",  # noqa: S608  (our own names)
               (*values.values(), number))


def node_numbers(db: sqlite3.Connection, names: Iterable[str]) -> dict[str, int]:
    """The numbers of all nodes by name; of those named one that was not there is added."""
    db.executemany("INSERT INTO node (name) VALUES (?) ON CONFLICT (name) DO NOTHING",
                   [(name,) for name in names])
    return {row[1]: row[0] for row in db.execute("SELECT id, name FROM node")}


def node_number(db: sqlite3.Connection, name: str) -> int:
    """The number of a node, which is added where it was not there."""
    db.execute("INSERT INTO node (name) VALUES (?) ON CONFLICT (name) DO NOTHING", (name,))
    return int(db.execute("SELECT id FROM node WHERE name = ?", (name,)).fetchone()[0])
