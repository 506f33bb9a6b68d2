"""Silences in the store: what people do not want to hear of, on which nodes, until when;
each has lines in the ledger.

A silence takes nothing away from what a sweep finds: it is for triage,
which leaves out what is silenced and says how much that is.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from healthcheck.model.problem import Problem
from healthcheck.store import ledger
from healthcheck.store.file import Store
from healthcheck.store.rows import insert, update
from inventory.times import minute


@dataclass(frozen=True)
class Silence:
    """One silence; `rule` is a glob over the ids of rules. Times are epoch seconds;
    `ended` is set where somebody ended it early."""

    id: int
    nodes: frozenset[str]
    rule: str
    why: str
    who: str
    began: float
    until: float
    ended: float | None = None

    @property
    def over(self) -> float:
        """When it is over."""
        return self.until if self.ended is None else min(self.ended, self.until)

    def holds(self, now: float) -> bool:
        """Whether it counts at that time."""
        return self.began <= now < self.over

    def covers(self, problem: Problem) -> bool:
        """Whether it is about that problem; `*` is about a node that is not reached, too,
        for which there is no rule."""
        return problem.node in self.nodes and fnmatchcase(problem.rule, self.rule)


@dataclass(frozen=True)
class SilenceEnd:
    """Who ended a silence before its time, and why."""

    who: str
    why: str


def silence(
    store: Store, nodes: Collection[str], rule: str, why: str, who: str, now: float, until: float,
) -> Silence:
    """Writes down that these problems of these nodes are not to be heard of until then."""
    with store.writing() as db:
        number = insert(db, "silence", nodes=_names(nodes), rule=rule, why=why, who=who, began=now,
                        until=until)
        made = Silence(number, frozenset(nodes), rule, why, who, now, until)
        _note(db, "silence", made, nodes, why, who, now)
    return made


def unsilence(
    store: Store, number: int, nodes: Collection[str] | None, why: str, who: str, now: float,
) -> Silence | None:
    """Ends a silence, or takes these nodes out of it; gives it as it then is, or None where none of this
    number holds on them. One that is yet to begin, as the clock has gone back since, is ended as well."""
    with store.writing() as db:
        held = [_silence(row) for row in db.execute("SELECT * FROM silence WHERE id = ?", (number,))]
        if not held or held[0].over <= now:
            return None
        was = held[0]
        gone = was.nodes if nodes is None else was.nodes & frozenset(nodes)
        if not gone:
            return None
        left = replace(was, nodes=was.nodes - gone) if gone < was.nodes else replace(was, ended=now)
        update(db, "silence", number, nodes=_names(left.nodes), ended=left.ended)
        _note(db, "unsilence", was, gone, why, who, now)
    return left


def active(store: Store, now: float) -> list[Silence]:
    """Those that hold at that time, in the order of their numbers."""
    rows = store.rows("SELECT * FROM silence WHERE until > ? ORDER BY id", now)
    return [found for found in map(_silence, rows) if found.holds(now)]


def since(store: Store, time: float) -> list[Silence]:
    """Those that were not over at that time, in the order of their numbers: they held then, or later, or do
    still."""
    rows = store.rows("SELECT * FROM silence WHERE until > ? ORDER BY id", time)
    return [found for found in map(_silence, rows) if found.over > time]


def ended_by(store: Store, of: Silence) -> SilenceEnd | None:
    """Who ended a silence, by the ledger; None where time alone did."""
    if of.ended is None:
        return None
    rows = store.rows("SELECT who, why FROM ledger WHERE node = ? AND action = 'unsilence' "
                      "AND evidence LIKE ? ORDER BY id DESC LIMIT 1", min(of.nodes), f"silence {of.id}: %")
    return SilenceEnd(*rows[0]) if rows else None


def everything(store: Store) -> list[Silence]:
    """All there ever were, in the order of their numbers."""
    return [_silence(row) for row in store.rows("SELECT * FROM silence ORDER BY id")]


def silenced(problem: Problem, silences: Iterable[Silence], now: float) -> Silence | None:
    """The silence that a problem falls under, of several the one that holds longest;
    None where it is to be heard of."""
    found = [one for one in silences if one.covers(problem) and one.holds(now)]
    return max(found, key=lambda one: (one.until, -one.id), default=None)


def _silence(row: sqlite3.Row) -> Silence:
    return Silence(**{**dict(row), "nodes": frozenset(json.loads(row["nodes"]))})


def _names(nodes: Collection[str]) -> str:
    return json.dumps(sorted(nodes))


def _note(
    db: sqlite3.Connection, action: str, of: Silence, nodes: Collection[str], why: str, who: str, now: float,
) -> None:
    """A ledger line for each node; the action is in the same transaction, and so is done."""
    until = minute(of.until)
    for node in sorted(nodes):
        ledger.done(db, now, who, action, node, why, f"silence {of.id}: {of.rule} until {until}", "done")
