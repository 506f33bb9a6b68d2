"""Our cordons in the store: each has a number, which stands in the mark that the back end shows, and lines in the ledger."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from healthcheck.store import ledger
from healthcheck.store.file import Store


class State(Enum):
    """How far a cordon is. Those that are meant or held are open."""

    MEANT = "meant"         # written down; whether it was done nobody has looked yet
    HELD = "held"
    RELEASED = "released"
    VOID = "void"           # it was not done, or somebody else has taken the node over


@dataclass(frozen=True)
class Cordon:
    """One cordon; `line` is its line in the ledger, `verdict` that in whose name triage holds it, and `incident` the number of the one in
    whose name it was made, if any. Times are epoch seconds."""

    id: int
    node: str
    backend: str
    why: str
    who: str
    state: State
    began: float
    ended: float | None
    line: int
    verdict: int | None = None
    incident: int | None = None


def mean(store: Store, node: str, backend: str, why: str, who: str, now: float, verdict: int | None = None) -> Cordon | None:
    """Writes down that a node is about to be cordoned; None where another muster was first. `verdict`: in whose name triage does it."""
    with store.writing() as db:
        if db.execute("SELECT 1 FROM cordon WHERE node = ? AND backend = ? AND ended IS NULL", (node, backend)).fetchone():
            return None
        line = ledger.begin(db, now, who, "cordon", node, why, backend)
        # In whose name it was made stays, whatever the node is held for later.
        number = db.execute(
            "INSERT INTO cordon (node, backend, why, who, state, began, line, verdict, incident) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, (SELECT incident FROM verdict WHERE id = ?))",
            (node, backend, why, who, State.MEANT.value, now, line, verdict, verdict)).lastrowid
    assert number is not None  # noqa: S101  (an INSERT always has one)
    return Cordon(number, node, backend, why, who, State.MEANT, now, None, line, verdict)


def settle(store: Store, cordon: Cordon, state: State, outcome: str, now: float, line: int | None = None) -> None:
    """Writes down what became of a cordon, and of the deed in the ledger (by default the one that made it)."""
    ended = None if state in (State.MEANT, State.HELD) else now
    with store.writing() as db:
        db.execute("UPDATE cordon SET state = ?, ended = ? WHERE id = ?", (state.value, ended, cordon.id))
        ledger.finish(db, cordon.line if line is None else line, outcome, now)


def releasing(store: Store, cordon: Cordon, why: str, who: str, now: float) -> int:
    """Writes down that a cordon is about to be released; gives the line in the ledger."""
    with store.writing() as db:
        return ledger.begin(db, now, who, "uncordon", cordon.node, why, cordon.backend)


def lost(store: Store, cordon: Cordon, said: str, who: str, now: float) -> None:
    """Writes down that people have ended a cordon, or taken it over; nothing is done, and so it is one step with its line."""
    with store.writing() as db:
        line = ledger.begin(db, now, who, "look", cordon.node, f"muster#{cordon.id} is not there any more", cordon.backend)
        ledger.finish(db, line, said, now)
        db.execute("UPDATE cordon SET state = ?, ended = ? WHERE id = ?", (State.VOID.value, now, cordon.id))


def open_cordons(store: Store, nodes: Collection[str] | None = None, backend: str | None = None) -> list[Cordon]:
    """Cordons that are meant or held, of these nodes or of all, in the order of their numbers."""
    rows = store.rows("SELECT * FROM cordon WHERE ended IS NULL ORDER BY id")
    found = [Cordon(**{**dict(row), "state": State(row["state"])}) for row in rows]
    return [one for one in found if (nodes is None or one.node in nodes) and backend in (None, one.backend)]
