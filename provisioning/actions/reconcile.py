"""Brings a store that was restored and what a back end shows together: what the lost head made after the copy
is taken in, what it released is over. The back end is only read."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from healthcheck.model.faultkind import Isolation
from healthcheck.model.outcome import Owner, Repair
from healthcheck.store import cordons, ledger
from healthcheck.store.cordons import Cordon, CordonState, cordon_of_mark, open_cordons, reopen, settle
from healthcheck.store.file import RESTORE, Store
from healthcheck.store.history import known_nodes
from healthcheck.store.marks import CordonMark
from healthcheck.store.strays import Stray, keep
from inventory.text import clean
from provisioning.actions.authored import is_of_triage
from provisioning.actions.base import Backend, Holder, NodeHold, file_of, marked
from provisioning.actions.cordon import Clock, resolve_pending
from provisioning.actions.ownership import Whose, strays, whose

# A number that is further beyond all others is no count of ours: someone mistyped a mark.
_NEAR = 1_000_000


@dataclass(frozen=True)
class Reconciled:
    """What came of one back end: cordons that the store did not know and holds now, those that it held and
    that are over there, and marks that are left to people."""

    backend: str
    taken: tuple[Cordon, ...]
    over: tuple[Cordon, ...]
    strays: tuple[Stray, ...]


def reconcile(
    store: Store, backends: Sequence[Backend], nodes: Collection[str], who: str, clock: Clock, *,
    waiting: Collection[CordonMark] = (),
) -> Reconciled:
    """Afterwards each mark of ours that these back ends of one name show is an open cordon; one that cannot
    list is asked for these nodes and the store's. A mark whose number is another cordon's is not taken in;
    new numbers are beyond all. `waiting` marks the store takes in by itself. Words of triage, unedited, stay
    triage's, which releases the node once it is well; a person ends the others. A cordon from before the
    newest restored copy that no one holds was released by the lost head: its verdict ends, too, so that
    triage decides anew by what is measured. Raises ActionError."""
    name = backends[0].name
    if len(backends) == 1:
        resolve_pending(store, backends[0], clock)
    asked = sorted({*nodes, *known_nodes(store), *_cordoned(store, name)})
    views = [{**marked(backend, asked), **(backend.held(asked) if asked else {})} for backend in backends]
    files = [file_of(backend) for backend in backends]
    taken = [one for seen, file in zip(views, files, strict=True) for node, held in sorted(seen.items())
             if held.mark is not None and held.mark not in waiting
             and (one := _take(store, name, file, node, held, held.mark, who, clock())) is not None]
    over = _released(store, name, dict(zip(files, views, strict=True)), who, clock)
    ours = open_cordons(store, backend=name)
    found = {one.node: one for seen in views for one in strays(seen, ours, cordons.names(store))
             if one.mark not in {str(mark) for mark in waiting}}
    keep(store, name, sorted({*asked, *found}), list(found.values()), clock())
    return Reconciled(name, tuple(taken), tuple(over), tuple(found.values()))


def _cordoned(store: Store, backend: str) -> set[str]:
    """Every node that ever was: one that was removed from the inventory may still be held."""
    return {row[0] for row in store.rows("SELECT DISTINCT node FROM cordon WHERE backend = ?", backend)}


def _take(
    store: Store, backend: str, file: str, node: str, held: NodeHold, mark: CordonMark, who: str, now: float,
) -> Cordon | None:
    """The cordon of a mark of ours, where it was none before; None where it is, or is not ours to say."""
    if mark.store not in cordons.names(store):
        return None
    known = cordon_of_mark(store, mark)
    beside = {one.node: one for one in open_cordons(store, [node], backend, file)}.get(node)
    if known is not None:
        if (known.node, known.backend) != (node, backend) or known.ended is None or beside is not None:
            return None
        reopen(store, known, "the back end shows it, after the store was restored", who, now)
        return cordon_of_mark(store, mark)
    if beside is not None:
        settle(store, beside, CordonState.VOID, f"{mark} took its place after the copy", now)
    words = held.reason.partition(f"{mark}:")[2].strip()
    why = clean(words or "set after the copy that was restored", 200)
    of_triage = held.holder is Holder.US and is_of_triage(words)
    with store.writing() as db:
        verdict = _verdict(db, node, why, now) if of_triage else None
        line = ledger.begin(db, now, who, ledger.RECONCILE, node,
                            f"{mark} was set after the copy that was restored: {why}", backend)
        ledger.finish(db, line, "taken in", now)
        (newest,) = db.execute("SELECT coalesce(max(id), 0) FROM cordon").fetchone()
        near = newest < mark.number <= newest + _NEAR
        number = mark.number if near or _free(db, mark.number, newest) else None
        db.execute(
            "INSERT INTO cordon (id, node, backend, why, who, state, began, line, store, number, identity, "
            "user, stamp, verdict, file, asked) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)",
            (number, node, backend, why, "the lost head", CordonState.HELD.value,
             now if held.since is None else min(now, held.since), line, mark.store,
             None if number is not None else mark.number, held.identity, held.user, held.since, verdict,
             file))
    return cordon_of_mark(store, mark)


def _verdict(db: sqlite3.Connection, node: str, why: str, now: float) -> int:
    """The verdict for which triage goes on to hold the node: the open one, else one of these words."""
    db.execute("INSERT INTO node (name) VALUES (?) ON CONFLICT (name) DO NOTHING", (node,))
    rows = db.execute("SELECT verdict.id FROM verdict JOIN node ON node.id = verdict.node WHERE name = ? "
                      "AND ended IS NULL", (node,)).fetchall()
    held = Isolation.NO_NEW_JOBS.value
    number = rows[0][0] if rows else db.execute(
        "INSERT INTO verdict (node, fault, isolation, repair, owner, why, evidence, began, seen) VALUES "
        "((SELECT id FROM node WHERE name = ?), '', ?, ?, ?, ?, '[]', ?, ?)",
        (node, held, Repair.WATCH.value, Owner.OPERATOR.value, why, now, now)).lastrowid
    assert number is not None  # noqa: S101  (an INSERT always has one)
    return int(number)


def _free(db: sqlite3.Connection, number: int, newest: int) -> bool:
    """Whether a number among those that were given is no cordon's any more."""
    return number < newest and not db.execute("SELECT 1 FROM cordon WHERE id = ?", (number,)).fetchone()


def _released(
    store: Store, backend: str, views: Mapping[str, Mapping[str, NodeHold]], who: str, clock: Clock,
) -> list[Cordon]:
    """Cordons of the copy that no one holds any more. `views` are by file; of others nothing is known."""
    since = store.rows("SELECT max(time) FROM ledger WHERE node = '' AND action = ?", RESTORE)[0][0]
    over = []
    for one in open_cordons(store, backend=backend):
        if (since is None or one.began >= since or one.state is not CordonState.HELD
                or (one.file and one.file not in views)
                or any(whose(one, seen[one.node]) is not Whose.FREE for seen in views.values())):
            continue
        cordons.lost(store, one, "released after the copy that was restored", who, clock(),
                     CordonState.RELEASED)
        with store.writing() as db:
            db.execute("UPDATE verdict SET ended = ? WHERE id = ? AND ended IS NULL", (clock(), one.verdict))
        over.append(one)
    return over
