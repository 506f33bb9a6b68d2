"""What went to the vendor, in the store: parts of nodes, and whole ones,
from when their return was opened to when they came back."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from healthcheck.store import ledger
from healthcheck.store.file import Store
from healthcheck.store.history import ComponentLocation

CHASSIS = "chassis"     # the kind of a whole node; its slot is empty here, and this in a seat
_SAME = "same"
_OTHER = "exchanged"


class RmaState(Enum):
    """How far an RMA is; each step follows the one before."""

    OPEN = "open"
    SHIPPED = "shipped"
    RETURNED = "returned"


@dataclass(frozen=True)
class Rma:
    """One part, or a whole node where `slot` is empty. `serial` is empty where it is not known.
    Times are epoch seconds."""

    id: int
    node: str
    slot: str
    kind: str
    serial: str
    why: str
    who: str
    reference: str
    evidence: str
    opened: float
    shipped: float | None
    returned: float | None
    outcome: str | None

    @property
    def state(self) -> RmaState:
        """How far it is."""
        if self.returned is not None:
            return RmaState.RETURNED
        return RmaState.OPEN if self.shipped is None else RmaState.SHIPPED

    @property
    def part(self) -> str:
        """What went, in words."""
        return words(self.slot, self.kind, self.serial)

    @property
    def same(self) -> bool:
        """Whether it returned repaired, with its old serial number."""
        return self.outcome == _SAME

    @property
    def new(self) -> str:
        """The announced serial number of the replacement, or ""."""
        return (self.outcome or "").removeprefix(_OTHER).strip() if not self.same else ""


def words(slot: str, kind: str, serial: str) -> str:
    """A part in words."""
    number = f" {serial}" if serial else ""
    return f"{kind}{number} at {slot}" if slot else f"the whole node{f' (chassis{number})' if number else ''}"


def begin(
    store: Store, node: str, slot: str, kind: str, serial: str, why: str, who: str, reference: str,
    evidence: str, now: float,
) -> tuple[Rma, int]:
    """Writes down that a part is about to go to the vendor;
    gives the RMA and the ledger's line that waits for its outcome.

    Where one is open for this slot it is that one:
    what is given for it a second time changes nothing.
    """
    with store.writing() as db:
        held = db.execute("SELECT * FROM rma WHERE node = ? AND slot = ? AND returned IS NULL",
                          (node, slot)).fetchone()
        if held is None:
            number = db.execute("INSERT INTO rma (node, slot, kind, serial, why, who, reference, evidence, "
                                "opened) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                                (node, slot, kind, serial, why, who, reference, evidence, now)).lastrowid
            held = db.execute("SELECT * FROM rma WHERE id = ?", (number,)).fetchone()
        rma = Rma(**dict(held))
        return rma, _line(db, rma, "rma open", who, now)


def ship(store: Store, rma: Rma, who: str, now: float) -> None:
    """Writes down that it is under way."""
    with store.writing() as db:
        line = ledger.begin(db, now, who, "rma ship", rma.node, rma.part, _evidence(rma))
        done = db.execute("UPDATE rma SET shipped = ? WHERE id = ? AND shipped IS NULL AND returned IS NULL",
                          (now, rma.id)).rowcount
        ledger.finish(db, line, "shipped" if done else "not done: somebody else was first", now)


def give_back(store: Store, rma: Rma, outcome: str, who: str, now: float) -> int:
    """Writes down that it is back; gives the ledger's line that waits for what becomes of the node."""
    with store.writing() as db:
        db.execute("UPDATE rma SET returned = ?, outcome = ? WHERE id = ? AND returned IS NULL",
                   (now, outcome, rma.id))
        return _line(db, rma, "rma return", who, now)


def outcome(*, same: bool, new: str) -> str:
    """The outcome of a return, as `Rma.same` and `Rma.new` read it."""
    return _SAME if same else f"{_OTHER} {new}".strip()


def settle(store: Store, line: int, said: str, now: float) -> None:
    """Records the outcome of an action."""
    with store.writing() as db:
        ledger.finish(db, line, said, now)


def unfinished(store: Store) -> dict[int, str]:
    """By number the RMAs with an action of unknown outcome, and which:
    "rma open" or "rma return"."""
    rows = store.rows("SELECT action, evidence FROM ledger WHERE outcome IS NULL "
                      "AND action IN ('rma open', 'rma return') ORDER BY id")
    return {int(row["evidence"].removeprefix("rma ")): row["action"] for row in rows}


def rmas(store: Store, nodes: Collection[str] | None = None) -> list[Rma]:
    """All there ever were, of these nodes or of all, in the order of their numbers."""
    found = [Rma(**dict(row)) for row in store.rows("SELECT * FROM rma ORDER BY id")]
    return [rma for rma in found if nodes is None or rma.node in nodes]


def seen_since(store: Store, rma: Rma) -> list[ComponentLocation]:
    """Findings of snapshots since its return: in its slot, and of the part itself anywhere; newest last."""
    if rma.returned is None:
        return []
    rows = store.rows(
        "SELECT kind, serial, name AS node, slot, began, seen, ended FROM seat "
        "JOIN node ON node.id = seat.node JOIN component ON component.id = component WHERE seen > ? "
        # Each half has an index; of an OR of both SQLite would read all seats there ever were.
        "AND seat.id IN (SELECT id FROM seat WHERE node = (SELECT id FROM node WHERE name = ?) AND slot = ? "
        "UNION ALL SELECT id FROM seat WHERE component = "
        "(SELECT id FROM component WHERE kind = ? AND serial = ?)) ORDER BY seen, began",
        rma.returned, rma.node, rma.slot or CHASSIS, rma.kind, rma.serial)
    return [ComponentLocation(**dict(row)) for row in rows]


def alarm(rma: Rma, seats: Collection[ComponentLocation]) -> str:
    """How a returned part differs from the announcement, or ""; `seats` as of `seen_since`."""
    if rma.returned is None or not rma.serial:
        return ""
    same = [seat for seat in seats if (seat.kind, seat.serial) == (rma.kind, rma.serial)]
    here = [seat for seat in seats if (seat.node, seat.slot) == (rma.node, rma.slot or CHASSIS)]
    if same and not rma.same:
        at = same[-1]
        where = "" if at in here else f" in {at.node}, slot {at.slot}"
        return f"the SAME {rma.kind} came back{where}: serial {rma.serial}, and it was said to be exchanged"
    if here and rma.same and not same:
        return (f"ANOTHER {rma.kind} came back: serial {here[-1].serial}, and {rma.serial} was said to be "
                "repaired")
    if here and rma.new and here[-1].serial != rma.new:
        return f"ANOTHER {rma.kind} came back: serial {here[-1].serial}, and {rma.new} was said to come"
    return ""


def alarms(store: Store, found: Collection[Rma]) -> dict[int, str]:
    """By their numbers the RMAs with an alarm; of several of one part, or of one slot,
    the last alone tells."""
    later = {key: rma.id for rma in found for key in ((rma.node, rma.slot), (rma.kind, rma.serial))}
    wrong = {rma.id: alarm(rma, seen_since(store, rma)) for rma in found if rma.returned is not None
             and rma.id == later[rma.node, rma.slot] == later[rma.kind, rma.serial]}
    return {number: said for number, said in wrong.items() if said}


def _line(db: sqlite3.Connection, rma: Rma, action: str, who: str, now: float) -> int:
    """The line of this action without an outcome, else a new one."""
    cut = db.execute("SELECT id FROM ledger WHERE action = ? AND evidence = ? AND outcome IS NULL",
                     (action, _evidence(rma))).fetchone()
    return (int(cut[0]) if cut is not None
            else ledger.begin(db, now, who, action, rma.node, f"{rma.part}: {rma.why}", _evidence(rma)))


def _evidence(rma: Rma) -> str:
    return f"rma {rma.id}"
