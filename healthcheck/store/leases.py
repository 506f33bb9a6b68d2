"""Our leases in the store: nodes that a running muster holds for disruptive work, by which process,
and until when.

A lease's name ends in random digits and stands in whatever holds the nodes (the reservation's name, the
reason of a cordon), so that what another store made is never taken for ours.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from healthcheck.store import ledger
from healthcheck.store.file import Store
from healthcheck.store.rows import insert, update
from inventory.nodeset import fold


@dataclass(frozen=True)
class LeaseRecord:
    """One lease. `kind` says what holds the nodes there, `holder` which process does for us (JSON),
    `line` is its line in the ledger."""

    id: int
    kind: str
    backend: str
    name: str
    nodes: tuple[str, ...]
    why: str
    who: str
    holder: str
    began: float
    until: float
    ended: float | None
    outcome: str | None
    line: int


def begin(
    store: Store, kind: str, backend: str, nodes: Sequence[str], why: str, who: str, holder: str, now: float,
    until: float,
) -> tuple[LeaseRecord | None, dict[str, int]]:
    """Writes down that nodes are about to be leased; and, by node, the open lease of the others,
    which are left out.

    None where no node is left: of two musters that want one node at once, one learns it here.
    """
    with store.writing() as db:
        taken = {node: entry.id
                 for entry in map(_entry, db.execute("SELECT * FROM lease WHERE ended IS NULL"))
                 for node in entry.nodes}
        free = tuple(node for node in nodes if node not in taken)
        others = {node: taken[node] for node in nodes if node in taken}
        if not free:
            return None, others
        line = ledger.begin(db, now, who, "lease", fold(free), why)
        number = insert(db, "lease", kind=kind, backend=backend, name="", nodes=json.dumps(free), why=why,
                        who=who, holder=holder, began=now, until=until, line=line)
        name = f"muster-{number}-{secrets.token_hex(4)}"
        update(db, "lease", number, name=name)
        update(db, "ledger", line, evidence=name)
    return (LeaseRecord(number, kind, backend, name, free, why, who, holder, now, until, None, None, line),
            others)


def record_outcome(store: Store, entry: LeaseRecord, outcome: str, now: float) -> None:
    """Records the outcome of taking the lease, once."""
    with store.writing() as db:
        ledger.finish(db, entry.line, outcome, now)


def narrow(store: Store, entry: LeaseRecord, nodes: Sequence[str]) -> LeaseRecord:
    """The lease is of these nodes only from now on."""
    with store.writing() as db:
        update(db, "lease", entry.id, nodes=json.dumps(list(nodes)))
    return replace(entry, nodes=tuple(nodes))


def extend(store: Store, entry: LeaseRecord, until: float) -> LeaseRecord | None:
    """Extends the lease; None if it has ended."""
    with store.writing() as db:
        if not db.execute("UPDATE lease SET until = ? WHERE id = ? AND ended IS NULL",
                          (until, entry.id)).rowcount:
            return None
    return replace(entry, until=until)


def ending(store: Store, entry: LeaseRecord, why: str, who: str, now: float) -> int:
    """Writes down that a lease is about to be given back; gives the line in the ledger."""
    with store.writing() as db:
        return ledger.begin(db, now, who, "unlease", fold(entry.nodes), why, entry.name)


def kept(store: Store, line: int, outcome: str, now: float) -> None:
    """Writes down that giving a lease back did not succeed: it stays open."""
    with store.writing() as db:
        ledger.finish(db, line, outcome, now)


def end(store: Store, entry: LeaseRecord, line: int, outcome: str, now: float) -> None:
    """Ends the lease, and closes its unfinished ledger lines."""
    with store.writing() as db:
        ledger.finish(db, line, outcome, now)
        db.execute("UPDATE lease SET ended = ?, outcome = ? WHERE id = ? AND ended IS NULL",
                   (now, outcome, entry.id))
        db.execute("UPDATE ledger SET outcome = ?, finished = ? WHERE evidence = ? AND outcome IS NULL",
                   (f"cut short; later: {outcome}", now, entry.name))


def current(store: Store, entry: LeaseRecord) -> LeaseRecord | None:
    """The lease as now stored; None if it has ended."""
    found = store.rows("SELECT * FROM lease WHERE id = ? AND ended IS NULL", entry.id)
    return _entry(found[0]) if found else None


def open_leases(store: Store) -> list[LeaseRecord]:
    """Leases that have not ended, in the order of their numbers."""
    return [_entry(row) for row in store.rows("SELECT * FROM lease WHERE ended IS NULL ORDER BY id")]


def expired(entry: LeaseRecord, now: float) -> str:
    """Why it is over by its time, or ""."""
    return "its time is over" if now > entry.until else ""


def left(store: Store, now: float, why: Callable[[LeaseRecord, float], str] = expired) -> list[str]:
    """A line for people on each lease that is over, by `why`, and that no one has given back."""
    return [f"lease {entry.name} ({entry.why}) keeps jobs from {fold(entry.nodes)}, and {over}: muster lease "
            "release" for entry in open_leases(store) if (over := why(entry, now))]


def leased_nodes(store: Store) -> dict[str, LeaseRecord]:
    """By node the lease that is open on it. Whoever cordons or releases leaves such
    a node alone until the lease is over."""
    return {node: entry for entry in open_leases(store) for node in entry.nodes}


def _entry(row: sqlite3.Row) -> LeaseRecord:
    return LeaseRecord(**{**dict(row), "nodes": tuple(json.loads(row["nodes"]))})
