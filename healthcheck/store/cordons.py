"""Our cordons in the store: each has a number, which is in the back end's mark, and lines in the ledger."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from healthcheck.store import ledger
from healthcheck.store.file import Store
from healthcheck.store.marks import CordonMark
from healthcheck.store.rows import update


class CordonState(Enum):
    """The state of a cordon. Meant and held ones are open."""

    MEANT = "meant"         # written down; no one has looked yet whether it was done
    HELD = "held"
    RELEASED = "released"
    VOID = "void"           # it was not done, or somebody else has taken the node over
    ANEW = "anew"           # the node registered or was installed anew: no one ended it, and it is not there


@dataclass(frozen=True)
class Cordon:
    """One cordon; `line` is its line in the ledger, `verdict` that in whose name triage holds it, and
    `incident` the number of the one in whose name it was made, if any. Times are epoch seconds.

    `store` is the name in its mark, `identity` what it was set on (a node's UID in Kubernetes, else the
    machine's), `user` as whom the back end shows that we set it, each empty where that is not known; `shown`
    is when a snapshot of a later run first showed the mark, and `stamp` when it was set by the back end's
    clock. `asked` is 1 once the back end was about to be asked to make it. `place` is where the incident was
    when it was made, by kind and name. `number` is the one in its mark where that is not `id`. `file` is the
    file that it is in, empty where its back end is none, and for one of an older version.
    """

    id: int
    node: str
    backend: str
    why: str
    who: str
    state: CordonState
    began: float
    ended: float | None
    line: int
    verdict: int | None = None
    incident: int | None = None
    store: str = ""
    identity: str = ""
    user: str = ""
    shown: float | None = None
    asked: int = 0
    stamp: float | None = None
    place: str = ""
    number: int | None = None
    file: str = ""

    @property
    def mark(self) -> CordonMark:
        """What the back end shows of it."""
        return CordonMark(self.store, self.id if self.number is None else self.number)


def mean(
    store: Store, node: str, backend: str, why: str, who: str, now: float, verdict: int | None = None,
    identity: str = "", file: str = "",
) -> Cordon | None:
    """Writes down that a node is about to be cordoned; None where another muster was first. `verdict`: in
    whose name triage does it; `identity`: what it is set on; `file`: in which file, where it is in one."""
    with store.writing() as db:
        if db.execute("SELECT 1 FROM cordon WHERE node = ? AND backend = ? AND file = ? AND ended IS NULL",
                      (node, backend, file)).fetchone():
            return None
        line = ledger.begin(db, now, who, "cordon", node, why, backend)
        # In whose name it was made stays, whatever the node is held for later.
        number = db.execute(
            "INSERT INTO cordon (node, backend, why, who, state, began, line, verdict, incident, store, "
            "identity, file, place) VALUES (?, ?, ?, ?, ?, ?, ?, ?, (SELECT incident FROM verdict "
            "WHERE id = ?), ?, ?, ?, coalesce((SELECT kind || ' ' || cause FROM incident "
            "JOIN verdict ON verdict.incident = incident.id WHERE verdict.id = ?), ''))",
            (node, backend, why, who, CordonState.MEANT.value, now, line, verdict, verdict, name(db),
             identity, file, verdict)).lastrowid
        (made,) = db.execute("SELECT * FROM cordon WHERE id = ?", (number,)).fetchall()
    return _cordon(made)


def asked(store: Store, cordon: Cordon) -> None:
    """Records that the back end is about to be asked: after a kill from now on it may be done."""
    with store.writing() as db:
        update(db, "cordon", cordon.id, asked=1)


def name(db: sqlite3.Connection) -> str:
    """The name that the store puts into its marks now."""
    return str(db.execute("SELECT store FROM name ORDER BY rowid DESC LIMIT 1").fetchone()[0])


def settle(
    store: Store, cordon: Cordon, state: CordonState, outcome: str, now: float, line: int | None = None,
) -> None:
    """Records the outcome of a cordon, and of the action in the ledger (by default the one that made it)."""
    ended = None if state in (CordonState.MEANT, CordonState.HELD) else now
    with store.writing() as db:
        db.execute("UPDATE cordon SET state = ?, ended = ?, began = min(began, ?) WHERE id = ?",
                   (state.value, ended, now, cordon.id))
        ledger.finish(db, cordon.line if line is None else line, outcome, now)


def held(
    store: Store, cordon: Cordon, outcome: str, now: float, user: str = "", stamp: float | None = None,
    line: int | None = None,
) -> None:
    """Writes down that a cordon was seen to be there just after it was made, or made again: as whose, and
    since when by the back end."""
    with store.writing() as db:
        update(db, "cordon", cordon.id, state=CordonState.HELD.value, ended=None, user=user, stamp=stamp,
               shown=None)
        ledger.finish(db, cordon.line if line is None else line, outcome, now)


def shown(store: Store, cordons: Collection[Cordon], now: float) -> None:
    """Writes down that a snapshot of a later run shows these: what their controller forgets from now on,
    it did not lose unsaved."""
    with store.writing() as db:
        db.executemany("UPDATE cordon SET shown = ? WHERE id = ? AND shown IS NULL",
                       [(now, one.id) for one in cordons])


def again(store: Store, cordon: Cordon, why: str, who: str, now: float) -> int:
    """Writes down that a cordon, which its controller lost, is about to be made again under its mark;
    gives the line in the ledger."""
    with store.writing() as db:
        return ledger.begin(db, now, who, "cordon", cordon.node, why, cordon.backend)


def reopen(store: Store, cordon: Cordon, said: str, who: str, now: float) -> None:
    """Writes down that a cordon, which was taken for void, is there after all."""
    with store.writing() as db:
        ledger.done(db, now, who, ledger.RECONCILE, cordon.node, f"{cordon.mark} is there", cordon.backend,
                    said)
        update(db, "cordon", cordon.id, state=CordonState.HELD.value, ended=None)


def releasing(store: Store, cordon: Cordon, why: str, who: str, now: float) -> int:
    """Writes down that a cordon is about to be released; gives the line in the ledger."""
    with store.writing() as db:
        return ledger.begin(db, now, who, "uncordon", cordon.node, why, cordon.backend)


def lost(
    store: Store, cordon: Cordon, said: str, who: str, now: float, state: CordonState = CordonState.VOID,
) -> None:
    """Writes down that people have ended a cordon, or taken it over; nothing is done,
    and so it is one step with its line."""
    with store.writing() as db:
        ledger.done(db, now, who, ledger.RECONCILE, cordon.node, f"{cordon.mark} is not there any more",
                    cordon.backend, said)
        db.execute("UPDATE cordon SET state = ?, ended = ?, began = min(began, ?) WHERE id = ?",
                   (state.value, now, now, cordon.id))


def last_ended(store: Store, backend: str, file: str = "") -> list[Cordon]:
    """Of each node without an open cordon there the newest that is over; none that was in another file."""
    return [_cordon(row) for row in store.rows(
        "SELECT * FROM cordon WHERE backend = ? AND id IN (SELECT max(id) FROM cordon WHERE backend = ? "
        "AND file IN ('', ?) GROUP BY node) AND ended IS NOT NULL ORDER BY id", backend, backend, file)]


def names(store: Store) -> frozenset[str]:
    """The names that this store puts or has put into its marks."""
    return frozenset(row[0] for row in store.rows("SELECT store FROM name"))


def cordon_of_mark(store: Store, mark: CordonMark) -> Cordon | None:
    """The cordon that bears this mark, open or over; None where there is none."""
    rows = store.rows("SELECT * FROM cordon WHERE store = ? AND coalesce(number, id) = ?",
                      mark.store, mark.number)
    return _cordon(rows[-1]) if rows else None


def open_cordons(
    store: Store, nodes: Collection[str] | None = None, backend: str | None = None, file: str | None = None,
) -> list[Cordon]:
    """Open cordons of these nodes or of all, by number. With `file` none that is in another file."""
    rows = store.rows("SELECT * FROM cordon WHERE ended IS NULL ORDER BY id")
    found = [_cordon(row) for row in rows]
    return [one for one in found if (nodes is None or one.node in nodes) and backend in (None, one.backend)
            and (not file or one.file in ("", file))]


def _cordon(row: sqlite3.Row) -> Cordon:
    return Cordon(**{**dict(row), "state": CordonState(row["state"])})
