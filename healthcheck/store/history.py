"""Reads the store: states and problems of nodes over time, where components sat,
and what the store itself holds."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from healthcheck.model.problem import Problem
from healthcheck.store.file import Store

_AT_ONCE = 500      # of SQLite's 999 parameters, in its older versions


@dataclass(frozen=True)
class Spell:
    """A node's state from when it was first seen to when another was."""

    node: str
    state: str
    reason: str
    stage: str | None
    began: float
    seen: float
    ended: float | None
    sweeps: int


@dataclass(frozen=True)
class ComponentLocation:
    """Where a component sat."""

    kind: str
    serial: str
    node: str
    slot: str
    began: float
    seen: float
    ended: float | None


def problems(
    store: Store, nodes: Collection[str] | None, since: float, *, still: bool = False,
) -> list[Problem]:
    """Problems that held at some time since, by node and time; of all nodes where none are named.
    `still`: those that hold now."""
    query = (
        "SELECT name AS node, rule, subject, status, severity, origin, owner, observed, expected, reason, "
        "remedy, began, seen, ended, sweeps, kind, serial, repair, emitter, ends FROM problem "
        "JOIN node ON node.id = problem.node LEFT JOIN component ON component.id = component "
        "WHERE (ended IS NULL OR ended >= ?)")
    return [Problem(*row) for row in _of(store, query + " AND ended IS NULL" * still, nodes, since,
                                          "name, began, rule, subject")]


def spells(store: Store, nodes: Collection[str] | None, since: float) -> list[Spell]:
    """States that held at some time since, by node and time."""
    query = ("SELECT name AS node, state, reason, stage, began, seen, ended, sweeps FROM spell "
             "JOIN node ON node.id = spell.node WHERE (ended IS NULL OR ended >= ?)")
    return [Spell(*row) for row in _of(store, query, nodes, since, "name, began")]


def newest_spells(store: Store) -> dict[str, Spell]:
    """By node the newest state that the store remembers."""
    # The open ones have an index; only nodes without one, which no sweep sees any more, need the others.
    rows = store.rows(
        "SELECT name, state, reason, stage, began, seen, ended, sweeps FROM spell "
        "JOIN node ON node.id = spell.node WHERE ended IS NULL UNION ALL "
        "SELECT name, state, reason, stage, began, max(seen), ended, sweeps FROM spell "
        "JOIN node ON node.id = spell.node WHERE spell.node IN "
        "(SELECT id FROM node EXCEPT SELECT node FROM spell WHERE ended IS NULL) GROUP BY spell.node")
    return {row[0]: Spell(*row) for row in rows}


def seats(store: Store, nodes: Collection[str] | None, since: float) -> list[ComponentLocation]:
    """Where components sat at some time since, by node, slot and time."""
    return list(each_seat(store, nodes, since))


def each_seat(store: Store, nodes: Collection[str] | None, since: float) -> Iterator[ComponentLocation]:
    """As `seats`, one at a time: a fleet has some hundred thousand. The store must stay open meanwhile."""
    query = ("SELECT kind, serial, name AS node, slot, began, seen, ended FROM seat "
             "JOIN node ON node.id = seat.node JOIN component ON component.id = component "
             "WHERE (ended IS NULL OR ended >= ?)")
    return (ComponentLocation(*row) for row in _of(store, query, nodes, since, "name, slot, began"))


def trails(store: Store, node: str) -> list[ComponentLocation]:
    """Everywhere that the components which sit or sat in this node have ever sat, by time."""
    return [ComponentLocation(*row) for row in store.rows(
        "SELECT kind, serial, name AS node, slot, began, seen, ended FROM seat "
        "JOIN node ON node.id = seat.node JOIN component ON component.id = component WHERE component IN "
        "(SELECT component FROM seat JOIN node ON node.id = seat.node WHERE name = ?) "
        "ORDER BY began, name, slot", node)]


def whereabouts(store: Store, serial: str) -> list[ComponentLocation]:
    """Everywhere that parts with this serial number, in any case of letters, have ever sat, by time."""
    return [ComponentLocation(*row) for row in store.rows(
        "SELECT kind, serial, name AS node, slot, began, seen, ended FROM component "
        "JOIN seat ON component.id = seat.component JOIN node ON node.id = seat.node "
        "WHERE serial = ? COLLATE NOCASE ORDER BY began, seat.id", serial)]


def known_nodes(store: Store) -> list[str]:
    """Every node of which the store knows something."""
    return [row[0] for row in store.rows("SELECT name FROM node ORDER BY name")]


def _of(
    store: Store, query: str, nodes: Collection[str] | None, since: float, order: str,
) -> Iterator[sqlite3.Row]:
    if nodes is None:
        yield from store.each(f"{query} ORDER BY {order}", since)
        return
    names = sorted(nodes)
    for start in range(0, len(names), _AT_ONCE):
        some = names[start:start + _AT_ONCE]
        marks = ", ".join("?" * len(some))
        yield from store.each(f"{query} AND name IN ({marks}) ORDER BY {order}", since, *some)


@dataclass(frozen=True)
class Size:
    """What the store holds, by number."""

    sweeps: int
    nodes: int
    problems: int
    open: int
    components: int
    counters: int
    actions: int


def size(store: Store) -> Size:
    """Counts what is there."""
    (row,) = store.rows(
        "SELECT (SELECT count(*) FROM sweep), (SELECT count(*) FROM node), (SELECT count(*) FROM problem), "
        "(SELECT count(*) FROM problem WHERE ended IS NULL), (SELECT count(*) FROM component), "
        "(SELECT count(*) FROM counter), (SELECT count(*) FROM ledger)")
    return Size(*row)


def prune(store: Store, before: float) -> int:
    """Forgets what ended before that time, and ends what no sweep has seen since;
    gives the number of rows that went.

    The ledger, the newest value of each counter and where components sit stay.
    """
    with store.writing() as db:
        gone = 0
        for table in ("spell", "problem", "seat"):
            # What a burn-in found no sweep ever sees.
            but = " AND evidence IS NULL" if table == "problem" else ""
            db.execute(f"UPDATE {table} SET ended = seen WHERE ended IS NULL AND seen < ?{but}", (before,))  # noqa: S608  (our own names)
        gone += db.execute("DELETE FROM boot WHERE seen < ?", (before,)).rowcount
        gone += db.execute("DELETE FROM newest WHERE time < ?", (before,)).rowcount
        gone += db.execute("DELETE FROM snapshot WHERE time < ?", (before,)).rowcount
        gone += db.execute("DELETE FROM left_out WHERE swept < ?", (before,)).rowcount
        gone += db.execute("DELETE FROM watched WHERE seen < ?", (before,)).rowcount
        db.execute("UPDATE fabric_finding SET ended = seen WHERE ended IS NULL AND seen < ?", (before,))
        gone += db.execute("DELETE FROM fabric_finding WHERE ended < ?", (before,)).rowcount
        gone += db.execute("DELETE FROM fabric_subnet WHERE checked < ? AND id NOT IN "
                           "(SELECT subnet FROM fabric_finding)", (before,)).rowcount
        gone += db.execute("DELETE FROM triage_run WHERE finished < ? AND id < (SELECT max(id) "
                           "FROM triage_run)", (before,)).rowcount
        for table in ("spell", "problem"):
            gone += db.execute(f"DELETE FROM {table} WHERE ended < ?", (before,)).rowcount  # noqa: S608
        gone += db.execute(
            "DELETE FROM counter WHERE time < ? AND EXISTS (SELECT 1 FROM counter AS newer "
            "WHERE newer.node = counter.node AND newer.slot = counter.slot AND newer.name = counter.name "
            "AND newer.time > counter.time AND newer.time < ?)",
            (before, before)).rowcount
        gone += db.execute("DELETE FROM sweep WHERE finished < ?", (before,)).rowcount
    return gone
