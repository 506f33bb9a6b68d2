"""Writes of a bring-up: the state of machines, actions and their outcomes;
each inside the caller's transaction.

An action is written before it is done, with its line in the ledger, and its end after it;
what stands is never written over.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence

from healthcheck.store import ledger
from healthcheck.store.rows import insert

# How a machine stands in its step.
QUEUED = "queued"       # to be looked at as soon as there is a place
WAITING = "waiting"     # looked at, and it is not so yet
TROUBLE = "trouble"     # somebody has to lend a hand
DONE = "done"           # it went all its way
LEFT = "left"           # it was taken off its way

# How a step ended.
SO = "so"
SKIPPED = "skipped"
RETRIED = "retried"

# What a look keeps of a machine whose controller refused the login: accounts lock,
# so no one tries again before a person says so.
LOGIN = "login"
REFUSED = "refused"


def stood(
    db: sqlite3.Connection, node: str, stand: str, said: str, *, again: float | None = None,
    looked: float | None = None, kept: Mapping[str, str] | None = None,
) -> None:
    """Stores a machine's state in its step; `looked` and `kept` stay unless given."""
    db.execute("UPDATE bringup SET stand = ?, message = ?, again = ?, looked = coalesce(?, looked), kept = "
               "coalesce(?, kept) WHERE node = ?",
               (stand, said, again, looked,
                None if kept is None else json.dumps(dict(kept), sort_keys=True), node))


def entered(db: sqlite3.Connection, node: str, step: str, now: float) -> None:
    """Writes down that a machine is looked at in this step for the first time."""
    insert(db, "bringup_step", node=node, step=step, began=now, why="")


def left(
    db: sqlite3.Connection, node: str, step: str, outcome: str, onward: str | None, now: float, why: str = "",
) -> None:
    """Writes down that a machine is through with a step (`so` or `skipped`),
    and comes to `onward`, or is done where that is None."""
    at = db.execute("UPDATE bringup_step SET ended = ?, outcome = ?, why = ? WHERE node = ? AND step = ? "
                    "AND ended IS NULL",
                    (now, outcome, why, node, step))
    if not at.rowcount:
        insert(db, "bringup_step", node=node, step=step, began=now, ended=now, outcome=outcome, why=why)
    mended(db, node, now)
    stand = DONE if onward is None else QUEUED
    db.execute("UPDATE bringup SET step = coalesce(?, step), since = ?, stand = ?, message = '', "
               "again = NULL, ended = ? WHERE node = ?",
               (onward, now, stand, now if onward is None else None, node))


def taken_off(db: sqlite3.Connection, node: str, why: str, now: float) -> None:
    """Writes down that a machine that was on its way is not any more."""
    if db.execute("UPDATE bringup SET stand = ?, message = ?, again = NULL, ended = ? WHERE node = ? "
                  "AND ended IS NULL",
                  (LEFT, why, now, node)).rowcount:
        mended(db, node, now)
        forget(db, node, None, now)


def troubled(
    db: sqlite3.Connection, node: str, step: str, found: Sequence[tuple[str, str, str, str, str, str]],
    now: float,
) -> None:
    """Writes down what is wrong with a machine: (what, owner, hand, part, slot, serial) each. What was so
    before keeps its beginning."""
    marks = {(what, part, slot) for what, _, _, part, slot, _ in found}
    for row in db.execute("SELECT id, step, what, part, slot FROM bringup_trouble WHERE node = ? "
                          "AND ended IS NULL", (node,)).fetchall():
        if row["step"] != step or (row["what"], row["part"], row["slot"]) not in marks:
            db.execute("UPDATE bringup_trouble SET ended = ? WHERE id = ?", (now, row["id"]))
    for what, owner, hand, part, slot, serial in found:
        db.execute("INSERT INTO bringup_trouble (node, step, what, owner, hand, part, slot, serial, began) "
                   "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (node, step, what, part, slot) "
                   "WHERE ended IS NULL DO UPDATE SET owner = excluded.owner, hand = excluded.hand, serial = "
                   "excluded.serial",
                   (node, step, what, owner, hand, part, slot, serial, now))


def mended(db: sqlite3.Connection, node: str, now: float) -> None:
    """Ends the troubles of a machine."""
    db.execute("UPDATE bringup_trouble SET ended = ? WHERE node = ? AND ended IS NULL", (now, node))


def action_begun(
    db: sqlite3.Connection, node: str, step: str, key: str, name: str, change: Sequence[str], who: str,
    now: float,
) -> int:
    """Records the start of an action, here and in the ledger; returns its number."""
    line = ledger.begin(db, now, who, f"bringup {step}", node, name, "; ".join((key, *change)))
    return insert(db, "bringup_action", node=node, step=step, key=key, name=name,
                  change=json.dumps(list(change)), began=now, message="", counts=1, line=line)


def action_ended(db: sqlite3.Connection, number: int, done: bool | None, said: str, now: float) -> None:
    """Records the outcome of an action, once, here and in the ledger; `done` is None if unknown."""
    db.execute("UPDATE bringup_action SET ended = ?, done = ?, message = ? WHERE id = ? AND ended IS NULL",
               (now, done, said, number))
    line = db.execute("SELECT line FROM bringup_action WHERE id = ?", (number,)).fetchone()["line"]
    word = "not known" if done is None else "accepted" if done else "not done"
    ledger.finish(db, line, f"{word}: {said}", now)


def action_learned(db: sqlite3.Connection, number: int, done: bool, said: str, now: float) -> None:
    """Records what was learned later of an action of which no one knew the end. The ledger keeps what was
    known when it was written."""
    action_ended(db, number, done, said, now)
    db.execute("UPDATE bringup_action SET ended = ?, done = ?, message = ? WHERE id = ? AND done IS NULL",
               (now, done, said, number))


def forget(db: sqlite3.Connection, node: str, step: str | None, now: float) -> None:
    """Stops counting the actions of this step, or of all: a person restarts it."""
    which, values = ("node = ? AND step = ?", (node, step)) if step is not None else ("node = ?", (node,))
    open_ones = db.execute(f"SELECT id FROM bringup_action WHERE {which} AND ended IS NULL", values)  # noqa: S608  (ours)
    for row in open_ones.fetchall():
        action_ended(db, row["id"], None, "no one looked before it was restarted", now)
    db.execute(f"UPDATE bringup_action SET counts = 0 WHERE {which}", values)  # noqa: S608  (ours)
    db.execute(f"UPDATE bringup_step SET ended = ?, outcome = ? WHERE {which} AND ended IS NULL",  # noqa: S608
               (now, RETRIED, *values))
