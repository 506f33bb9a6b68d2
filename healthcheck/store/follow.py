"""Faults that no sweep ends by itself follow their part: what a burn-in found, or a kernel log reported, ends
on the node that the part has left, and begins on the one where it sits now, unless it was repaired meanwhile.

What ends with a boot, a reset or quiet hours ends with the part's leaving: it was taken out for that.
"""

from __future__ import annotations

import re
import sqlite3

from healthcheck.store.rmas import CHASSIS
from inventory.text import clean

# Of what has left its node: it sits in another one, or another part sits where it sat.
_GONE = (
    "SELECT problem.id FROM problem WHERE ended IS NULL AND component IS NOT NULL "
    "AND (evidence IS NOT NULL OR coalesce(ends, '') != '') "
    "AND NOT EXISTS (SELECT 1 FROM seat WHERE seat.component = problem.component "
    "AND seat.node = problem.node AND seat.ended IS NULL) "
    "AND (EXISTS (SELECT 1 FROM seat WHERE seat.component = problem.component AND seat.ended IS NULL) "
    "OR EXISTS (SELECT 1 FROM seat AS old JOIN seat AS new ON new.node = old.node AND new.slot = old.slot "
    "AND new.component != old.component AND new.ended IS NULL "
    "WHERE old.component = problem.component AND old.node = problem.node))")
_BACK = (
    "SELECT problem.id, rule, subject, status, kind, node.name, seat.node, seat.slot, EXISTS (SELECT 1 "
    "FROM rma WHERE rma.serial = component.serial COLLATE NOCASE AND rma.returned >= problem.ended "
    "AND (rma.outcome = 'same' OR rma.closed IS NOT NULL)) FROM problem "
    "JOIN seat ON seat.component = problem.component AND seat.ended IS NULL "
    "JOIN component ON component.id = problem.component JOIN node ON node.id = problem.node "
    "WHERE took_along = 1 ORDER BY problem.id")
_COPIED = ("component, status, severity, origin, owner, observed, expected, remedy, repair, emitter, ends, "
           "evidence, sweeps")
_NUMBERED = re.compile(r"gpu \d+", re.IGNORECASE)
_AT_PCI = re.compile(r"(\w+ at PCI )[0-9a-fA-F:]+(\.[0-7])?")


def follow(db: sqlite3.Connection, now: float) -> None:
    """Moves them by where parts sit after a sweep, inside a transaction."""
    gone = [row[0] for row in db.execute(_GONE)]
    db.executemany("UPDATE problem SET ended = ?, took_along = evidence IS NOT NULL OR ends = 'repair' "
                   "WHERE id = ?", [(now, number) for number in gone])
    for number, rule, subject, status, kind, origin, node, slot, repaired in db.execute(_BACK).fetchall():
        db.execute("UPDATE problem SET took_along = 0 WHERE id = ?", (number,))
        here = _subject(db, subject, kind, node, slot)
        if repaired or db.execute("SELECT 1 FROM problem WHERE ended IS NULL AND node = ? AND rule = ? "
                                  "AND subject = ? AND status = ?", (node, rule, here, status)).fetchone():
            continue
        reason = db.execute("SELECT reason FROM problem WHERE id = ?", (number,)).fetchone()[0]
        db.execute(f"INSERT INTO problem (node, rule, subject, reason, began, seen, {_COPIED}) "  # noqa: S608
                   f"SELECT ?, rule, ?, ?, ?, ?, {_COPIED} FROM problem WHERE id = ?",
                   (node, here, clean(f"it came along with the part from {origin}; {reason}", 600), now, now,
                    number))


def _subject(db: sqlite3.Connection, subject: str, kind: str, node: int, slot: str) -> str:
    """What findings call the part where it sits now."""
    if kind == CHASSIS:
        return subject
    first, comma, rest = subject.partition(",")
    if (placed := _AT_PCI.fullmatch(first)) is not None:
        first = placed[1] + (slot if placed[2] else slot.rpartition(".")[0] or slot)
    elif kind == "gpu" and _NUMBERED.fullmatch(first):
        before = db.execute("SELECT count(*) FROM seat JOIN component ON component.id = component "
                            "WHERE node = ? AND ended IS NULL AND kind = 'gpu' AND slot < ?",
                            (node, slot)).fetchone()[0]
        first = f"{first.partition(' ')[0]} {before}"
    return f"{first}{comma}{rest}"
