"""Where parts sit by the word of people and of management controllers, beside what sweeps read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from healthcheck.store.file import Store
from healthcheck.store.rows import insert, node_number

# Kinds of which mostly people and controllers give a serial number, by the word that a slot begins with.
BY_WORD = ("dimm", "psu", "board", "cpu", "fan", "cable", "switch")


@dataclass(frozen=True)
class ControllerPart:
    """One part as a controller tells of it; `serial` is empty for a place that is empty or says none."""

    kind: str
    slot: str
    serial: str


def seat(
    db: sqlite3.Connection, node: str, slot: str, kind: str, serial: str, now: float, *, moves: bool,
) -> None:
    """Writes down by a person's or a controller's word where a part sits, inside a transaction. With `moves`
    it sits nowhere else from now on, and nothing else there; without, only what is not known is added."""
    at = node_number(db, node)
    db.execute("INSERT INTO component (kind, serial) VALUES (?, ?) ON CONFLICT DO NOTHING", (kind, serial))
    (part,) = db.execute("SELECT id FROM component WHERE kind = ? AND serial = ?", (kind, serial)).fetchone()
    held = db.execute("SELECT id, component, node, slot FROM seat WHERE ended IS NULL AND (component = ? "
                      "OR (node = ? AND slot = ?))", (part, at, slot)).fetchall()
    if any(tuple(row)[1:] == (part, at, slot) for row in held):
        db.execute("UPDATE seat SET seen = max(seen, ?) WHERE ended IS NULL AND component = ?", (now, part))
        return
    if held and not moves:
        return
    db.executemany("UPDATE seat SET ended = ? WHERE id = ?", [(now, row[0]) for row in held])
    insert(db, "seat", component=part, node=at, slot=slot, began=now, seen=now)


def by_controller(store: Store, node: str, found: Iterable[ControllerPart], now: float) -> int:
    """Writes down where the parts sit that a node's controller tells of; gives the number of those with a
    serial number. What a sweep has met in this node stays where the sweep says. A place that is listed
    without a number is empty from now on. Raises StoreError."""
    written = 0
    with store.writing() as db:
        for part in found:
            if part.serial:
                written += 1
                here = db.execute("SELECT 1 FROM seat JOIN component ON component.id = component JOIN node "
                                  "ON node.id = seat.node WHERE kind = ? AND serial = ? AND name = ? "
                                  "AND slot != ? AND ended IS NULL",
                                  (part.kind, part.serial, node, part.slot)).fetchone()
                if here is None:
                    seat(db, node, part.slot, part.kind, part.serial, now, moves=True)
            else:
                db.execute("UPDATE seat SET ended = ? WHERE ended IS NULL AND slot = ? AND node = (SELECT id "
                           "FROM node WHERE name = ?) AND component IN (SELECT id FROM component "
                           "WHERE kind = ?)", (now, part.slot, node, part.kind))
    return written
