"""Gives a node another name in every table, in one transaction: whatever refers to its row or has its name.

Tables are found by what they are, not listed: columns that refer to `node`, text columns called `node`, and
lists of names called `nodes`. Where there are rows under the new name already (it was swept under it before
it was renamed here), the two histories become one: of what there can be one open or newest of, the newer
stays, and the older is ended.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from healthcheck.store import ledger
from healthcheck.store.cordons import Cordon, CordonState, open_cordons
from healthcheck.store.file import Store
from healthcheck.store.rows import update
from healthcheck.store.versions import OF_NODES
from inventory.errors import StoreError

ACTION = "rename"
# When a row of the tables that keep one row a node was written.
_WHEN = ("time", "swept", "at", "looked", "seen")


@dataclass(frozen=True)
class Renaming:
    """A rename that was begun; `line` is its line in the ledger."""

    old: str
    new: str
    line: int


@dataclass(frozen=True)
class NewHold:
    """What the back end shows of a cordon under the new name: which thing it is on, as whose, since when."""

    identity: str = ""
    user: str = ""
    since: float | None = None


def unfinished(store: Store) -> list[Renaming]:
    """Renames whose end is not known, the oldest first."""
    return [Renaming(row[0], row[1], row[2]) for row in store.rows(
        "SELECT node, evidence, id FROM ledger WHERE action = ? AND outcome IS NULL ORDER BY id", ACTION)]


def finished(store: Store, old: str, new: str) -> bool:
    """Whether this very rename was made."""
    return bool(store.rows("SELECT 1 FROM ledger WHERE action = ? AND outcome IS NOT NULL "
                           "AND instr(why, ?) = 1", ACTION, f"{old} -> {new}: "))


def name_now(store: Store, name: str, since: float) -> str:
    """What a node is called now that had this name at that time, by the renames made here."""
    for why, new in store.rows("SELECT why, evidence FROM ledger WHERE action = ? AND outcome IS NOT NULL "
                               "AND time >= ? ORDER BY id", ACTION, since):
        if why.startswith(f"{name} -> {new}: "):
            name = new
    return name


def begin(store: Store, old: str, new: str, why: str, who: str, now: float) -> Renaming:
    """Writes down that a rename is about to be made; one that was cut short goes on under its line."""
    for one in unfinished(store):
        if (one.old, one.new) == (old, new):
            return one
    with store.writing() as db:
        return Renaming(old, new, ledger.begin(db, now, who, ACTION, old, f"{old} -> {new}: {why}", new))


def finish(store: Store, one: Renaming, outcome: str, now: float) -> None:
    """Writes down that all of it is done; the line is one of the new name from then on."""
    with store.writing() as db:
        ledger.finish(db, one.line, outcome, now)
        update(db, "ledger", one.line, node=one.new)


def knows(store: Store, name: str) -> bool:
    """Whether anything but the ledger is about a node of this name."""
    if store.rows("SELECT 1 FROM node WHERE name = ?", name):
        return True
    return any(store.rows(f'SELECT 1 FROM "{table}" WHERE node = ? LIMIT 1', name)   # noqa: S608  (our tables)
               for table in _with_column(store.rows, "node") if table != "ledger")


def seen_span(store: Store, name: str) -> tuple[float, float] | None:
    """When sweeps first and last had a node of this name; None for never."""
    rows = store.rows("SELECT min(spell.began), max(spell.seen) FROM spell JOIN node ON node.id = spell.node "
                      "WHERE name = ?", name)
    return (rows[0][0], rows[0][1]) if rows[0][0] is not None else None


def open_rmas(store: Store, name: str) -> frozenset[str]:
    """The slots of this node of which a part is away; "" is the node itself."""
    return frozenset(row[0] for row in store.rows(
        "SELECT slot FROM rma WHERE node = ? AND returned IS NULL", name))


def doubled(store: Store, old: str, new: str) -> list[Cordon]:
    """Open cordons of the old name whose back end has one of the new name already."""
    taken = {one.backend for one in open_cordons(store, [new])}
    return [one for one in open_cordons(store, [old]) if one.backend in taken]


def rename(
    store: Store, old: str, new: str, who: str, now: float,
    holds: Mapping[int, NewHold] = MappingProxyType({}),
) -> int:
    """Afterwards nothing in the store has the old name but texts; gives how many rows were changed. Done
    twice it is as done once. `holds` are by cordon what the back end shows under the new name. Raises
    StoreError and changes nothing."""
    with store.writing() as db:
        before = db.total_changes
        for one in doubled(store, old, new):
            ledger.done(db, now, who, ledger.RECONCILE, old, f"{one.mark}: {new} has a cordon of its own",
                        one.backend, "it is over")
            update(db, "cordon", one.id, state=CordonState.VOID.value, ended=now)
        for number, hold in holds.items():
            db.execute("UPDATE cordon SET user = ?, stamp = ?, identity = coalesce(nullif(?, ''), identity) "
                       "WHERE id = ?", (hold.user, hold.since, hold.identity, number))
        _by_row(store, db, old, new, now)
        for table in _with_column(store.rows, "node"):
            if table == "ledger":       # a rename that is under way is found by its old name
                db.execute("UPDATE ledger SET node = ? WHERE node = ? "
                           "AND NOT (action = ? AND outcome IS NULL)", (new, old, ACTION))
            else:
                _moved(store, db, (table, "node"), (old, new), now)
        for table in _with_column(store.rows, "nodes"):
            _in_lists(db, table, old, new)
        db.executemany("UPDATE version SET name = ? WHERE name = ? AND kind = ?",
                       [(new, old, kind) for kind in OF_NODES])
        return db.total_changes - before


def _by_row(store: Store, db: sqlite3.Connection, old: str, new: str, now: float) -> None:
    """The node's own row, and what refers to it."""
    ours, theirs = (db.execute("SELECT id FROM node WHERE name = ?", (name,)).fetchone()
                    for name in (old, new))
    if ours is None:
        return
    if theirs is None:
        db.execute("UPDATE node SET name = ? WHERE id = ?", (new, ours[0]))
        return
    for where in _referring(store.rows):
        _moved(store, db, where, (ours[0], theirs[0]), now)
    db.execute("UPDATE node SET machine = (SELECT machine FROM node WHERE id = ?) WHERE id = ? "
               "AND machine = ''", (ours[0], theirs[0]))
    db.execute("DELETE FROM node WHERE id = ?", (ours[0],))


def _moved(
    store: Store, db: sqlite3.Connection, where: tuple[str, str], names: tuple[int, int] | tuple[str, str],
    now: float,
) -> None:
    """Rows of one table and column come to the new name. What cannot stand beside a row that is there already
    is ended where it can be; of what there is only one the newer stays. Raises StoreError for the rest."""
    (table, column), (old, new) = where, names
    columns, keys = _columns(store.rows, table), _keys(store.rows, table)
    of_old = f'"{table}" WHERE "{column}" = ?'
    if keys == [column] and (when := next((key for key in _WHEN if key in columns), None)):
        db.execute(f"DELETE FROM {of_old} AND {when} < (SELECT {when} FROM {of_old})", (new, old))  # noqa: S608
    change = f'UPDATE OR IGNORE "{table}" SET "{column}" = ? WHERE "{column}" = ?'  # noqa: S608
    db.execute(change, (new, old))
    if "ended" in columns:
        # what was seen ends when it was seen last
        times = [key for key in ("began", "time", "seen") if key in columns]
        db.execute(f'UPDATE "{table}" SET ended = max({", ".join(times)}, ?) '  # noqa: S608
                   f'WHERE "{column}" = ? AND ended IS NULL', (0 if "seen" in columns else now, old))
        db.execute(change, (new, old))
    if column in keys:
        db.execute(f"DELETE FROM {of_old}", (old,))  # noqa: S608
    elif db.execute(f"SELECT 1 FROM {of_old}", (old,)).fetchone():  # noqa: S608
        raise StoreError(f"{store.path}: both names have an open {table}: end one of them first")


def _in_lists(db: sqlite3.Connection, table: str, old: str, new: str) -> None:
    """Lists of names in JSON, in which each name stands once."""
    for (text,) in db.execute(f'SELECT DISTINCT nodes FROM "{table}" WHERE instr(nodes, ?)',  # noqa: S608
                              (json.dumps(old),)).fetchall():
        names = json.loads(text)
        if old in names:
            after = list(dict.fromkeys(new if name == old else name for name in names))
            db.execute(f'UPDATE "{table}" SET nodes = ? WHERE nodes = ?', (json.dumps(after), text))  # noqa: S608


_Ask = Callable[..., Sequence[sqlite3.Row]]


def _with_column(ask: _Ask, name: str) -> list[str]:
    """Tables with a text column of this name."""
    return [table for table in _tables(ask) if _columns(ask, table).get(name) == "TEXT"]


def _referring(ask: _Ask) -> list[tuple[str, str]]:
    return [(table, row["from"]) for table in _tables(ask)
            for row in ask(f'PRAGMA foreign_key_list("{table}")') if row["table"] == "node"]


def _tables(ask: _Ask) -> list[str]:
    return [row[0] for row in ask("SELECT name FROM sqlite_master WHERE type = 'table' "
                                  "AND name NOT LIKE 'sqlite_%' ORDER BY name")]


def _columns(ask: _Ask, table: str) -> dict[str, str]:
    return {row["name"]: row["type"] for row in ask(f'PRAGMA table_info("{table}")')}


def _keys(ask: _Ask, table: str) -> list[str]:
    return [row["name"] for row in ask(f'PRAGMA table_info("{table}")') if row["pk"]]
