"""What went to the vendor, in the store: parts of nodes, and whole ones,
from when their return was opened to when they came back."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from healthcheck.store import ledger, parts
from healthcheck.store.file import Store
from healthcheck.store.history import ComponentLocation
from healthcheck.store.rows import insert

CHASSIS = "chassis"     # the kind of a whole node; its slot is empty here, and this in a seat
PART = "part"           # the kind of what no sweep has seen: it is looked for by its serial number alone
_SAME = "same"
_OTHER = "exchanged"
_CLOSED = "closed"


class RmaState(Enum):
    """How far an RMA is; each step follows the one before. One may be closed at any of them."""

    OPEN = "open"
    SHIPPED = "shipped"
    RETURNED = "returned"
    CLOSED = "closed"


@dataclass(frozen=True)
class Rma:
    """One part, or a whole node where `slot` is empty. `serial` is empty where it is not known. `shipped` is
    None for one that was exchanged on site, and where it was closed before it went. `closed_why` is why a
    person closed it. Times are epoch seconds."""

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
    closed: float | None = None
    closed_why: str = ""

    @property
    def away(self) -> bool:
        """Whether the part is still to come back: neither returned nor closed."""
        return self.returned is None

    @property
    def state(self) -> RmaState:
        """How far it is."""
        if self.closed is not None:
            return RmaState.CLOSED
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
        said = self.outcome or ""
        return said.removeprefix(_OTHER).strip() if said.startswith(_OTHER) else ""

    @property
    def repaired(self) -> bool:
        """Whether its return repaired the node: a part came back, and not only a person closed it."""
        return self.returned is not None and (self.same or (self.outcome or "").startswith(_OTHER))


@dataclass(frozen=True)
class RmaAlarm:
    """What is not as the return was announced, on the node and in the slot where the wrong part sits now."""

    rma: int
    node: str
    slot: str
    said: str


def words(slot: str, kind: str, serial: str) -> str:
    """A part in words."""
    number = f" {serial}" if serial else ""
    return f"{kind}{number} at {slot}" if slot else f"the whole node{f' (chassis{number})' if number else ''}"


def kind_of(slot: str) -> str:
    """The kind of a part that no sweep has seen, by the first word of where it sits: "DIMM A3" is a dimm."""
    word = slot.lower().partition(" ")[0].rstrip("0123456789")
    return word if word in parts.BY_WORD else PART


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
        rma = _opened(db, node, slot, kind, serial, why, who, reference, evidence, now)
        return rma, _line(db, rma, "rma open", who, now)


def exchange(
    store: Store, node: str, slot: str, kind: str, serial: str, why: str, who: str, reference: str,
    evidence: str, outcome: str, now: float,
) -> tuple[Rma, int]:
    """Writes down that a part was exchanged on site: its RMA, which may be open already, has returned without
    being shipped; gives it and the ledger's line that waits for what becomes of the node."""
    with store.writing() as db:
        rma = _opened(db, node, slot, kind, serial, why, who, reference, evidence, now)
        return _back(db, rma, outcome, now), _line(db, rma, "rma return", who, now)


def _opened(
    db: sqlite3.Connection, node: str, slot: str, kind: str, serial: str, why: str, who: str, reference: str,
    evidence: str, now: float,
) -> Rma:
    """The open RMA of this slot, else a new one."""
    held = db.execute("SELECT * FROM rma WHERE node = ? AND slot = ? AND returned IS NULL",
                      (node, slot)).fetchone()
    if held is None:
        number = insert(db, "rma", node=node, slot=slot, kind=kind, serial=serial, why=why, who=who,
                        reference=reference, evidence=evidence, opened=now)
        held = db.execute("SELECT * FROM rma WHERE id = ?", (number,)).fetchone()
        # Of a part of no known kind a sweep may know the place under another one.
        if serial and kind != PART:
            parts.seat(db, node, slot or CHASSIS, kind, serial, now, moves=False)
    return Rma(**dict(held))


def ship(store: Store, rma: Rma, who: str, now: float) -> None:
    """Writes down that it is under way."""
    with store.writing() as db:
        done = db.execute("UPDATE rma SET shipped = ? WHERE id = ? AND shipped IS NULL AND returned IS NULL",
                          (now, rma.id)).rowcount
        ledger.done(db, now, who, "rma ship", rma.node, rma.part, _evidence(rma),
                    "shipped" if done else "not done: somebody else was first")


def give_back(store: Store, rma: Rma, outcome: str, who: str, now: float) -> int:
    """Writes down that it is back; gives the ledger's line that waits for what becomes of the node."""
    with store.writing() as db:
        _back(db, rma, outcome, now)
        return _line(db, rma, "rma return", who, now)


def _back(db: sqlite3.Connection, rma: Rma, outcome: str, now: float) -> Rma:
    done = db.execute("UPDATE rma SET returned = ?, outcome = ? WHERE id = ? AND returned IS NULL",
                      (now, outcome, rma.id)).rowcount
    back = Rma(**dict(db.execute("SELECT * FROM rma WHERE id = ?", (rma.id,)).fetchone()))
    # Where sweeps read a kind of part, they say what sits there.
    if done and back.new and rma.kind in parts.BY_WORD:
        parts.seat(db, rma.node, rma.slot, rma.kind, back.new, now, moves=True)
    return back


def close(store: Store, rma: Rma, why: str, who: str, now: float) -> int:
    """Writes down that a person closed it: what is away is not waited for any more, and what came back wrong
    accuses no one. Gives the ledger's line that waits for what becomes of the node."""
    with store.writing() as db:
        db.execute("UPDATE rma SET closed = ?, closed_why = ?, returned = coalesce(returned, ?), "
                   "outcome = coalesce(outcome, ?) WHERE id = ? AND closed IS NULL",
                   (now, why, now, _CLOSED, rma.id))
        for (line,) in db.execute("SELECT id FROM ledger WHERE evidence = ? AND outcome IS NULL "
                                  "AND action IN ('rma open', 'rma return')", (_evidence(rma),)).fetchall():
            ledger.finish(db, line, "cut short, and closed", now)
        return _line(db, rma, "rma close", who, now, why)


def outcome(*, same: bool, new: str) -> str:
    """The outcome of a return, as `Rma.same` and `Rma.new` read it."""
    return _SAME if same else f"{_OTHER} {new}".strip()


def settle(store: Store, line: int, said: str, now: float) -> None:
    """Records the outcome of an action."""
    with store.writing() as db:
        ledger.finish(db, line, said, now)


def unfinished(store: Store) -> dict[int, str]:
    """By number the RMAs with an action of unknown outcome, and which:
    "rma open", "rma return" or "rma close"."""
    rows = store.rows("SELECT action, evidence FROM ledger WHERE outcome IS NULL "
                      "AND action IN ('rma open', 'rma return', 'rma close') ORDER BY id")
    return {int(row["evidence"].removeprefix("rma ")): row["action"] for row in rows}


def rmas(store: Store, nodes: Collection[str] | None = None) -> list[Rma]:
    """All there ever were, of these nodes or of all, in the order of their numbers."""
    found = [Rma(**dict(row)) for row in store.rows("SELECT * FROM rma ORDER BY id")]
    return [rma for rma in found if nodes is None or rma.node in nodes]


# Seats that were seen since each return: of the part that went and of the one that was announced, wherever;
# and what sits in the slot now.
_SINCE = (
    "SELECT rma.id, component.kind, component.serial, name AS node, seat.slot, began, seen, ended FROM rma "
    "CROSS JOIN component ON component.serial = {serial} COLLATE NOCASE "
    "AND rma.kind IN (component.kind, 'part') "
    "CROSS JOIN seat ON seat.component = component.id JOIN node ON node.id = seat.node "
    "WHERE {serial} != '' AND rma.closed IS NULL AND seen > rma.returned")
_IN_SLOT = (
    "SELECT rma.id, component.kind, component.serial, name AS node, seat.slot, began, seen, ended FROM rma "
    "JOIN node ON name = rma.node JOIN seat ON seat.node = node.id "
    "AND seat.slot = coalesce(nullif(rma.slot, ''), 'chassis') AND ended IS NULL "
    "JOIN component ON component.id = seat.component WHERE rma.closed IS NULL AND seen > rma.returned")
# Where a part sits that is to be at the vendor's.
_AWAY = (
    "SELECT rma.id, component.kind, component.serial, name AS node, seat.slot, began, seen, ended FROM rma "
    "CROSS JOIN component ON component.serial = rma.serial COLLATE NOCASE "
    "AND rma.kind IN (component.kind, 'part') "
    "CROSS JOIN seat ON seat.component = component.id JOIN node ON node.id = seat.node "
    "WHERE rma.serial != '' AND rma.returned IS NULL AND seat.ended IS NULL")
_NEW = f"CASE WHEN outcome LIKE '{_OTHER} %' THEN substr(outcome, {len(_OTHER) + 2}) ELSE '' END"


def alarm(rma: Rma, seats: Collection[ComponentLocation]) -> RmaAlarm | None:
    """How a returned part differs from the announcement, if it does, or where a part sits that is to be away;
    `seats` are those that were seen since its return: of the part, of the announced one, and what sits in its
    slot now; and of a part that is away, those that it has now.

    The part itself accuses the node where it sits now, and no one once it has left. Another part than was
    announced accuses the node of the RMA, until the announced one was seen anywhere.
    """
    if rma.returned is None:
        return _elsewhere(rma, seats)
    if rma.closed is not None or not (rma.serial or rma.new):
        return None
    same = [seat for seat in seats if rma.serial and _is(seat, rma.kind, rma.serial)]
    here = [seat for seat in seats if (seat.node, seat.slot) == (rma.node, rma.slot or CHASSIS)
            and seat.ended is None]
    if not rma.same and (now := [seat for seat in same if seat.ended is None]):
        at = max(now, key=lambda seat: (seat.seen, seat.began))
        where = "" if at in here else f" in {at.node}, slot {at.slot}"
        return RmaAlarm(rma.id, at.node, at.slot,
                        f"the SAME {at.kind} came back{where}: serial {rma.serial}, and it was said to be "
                        "exchanged")
    if not here:
        return None
    came = f"ANOTHER {rma.kind} came back: serial {here[-1].serial}, and"
    if rma.same and rma.serial and not same:
        return RmaAlarm(rma.id, rma.node, here[-1].slot, f"{came} {rma.serial} was said to be repaired")
    if rma.new and not any(_is(seat, rma.kind, rma.new) for seat in seats):
        return RmaAlarm(rma.id, rma.node, here[-1].slot, f"{came} {rma.new} was said to come")
    return None


def _elsewhere(rma: Rma, seats: Collection[ComponentLocation]) -> RmaAlarm | None:
    """The alarm on the node into which a part was put that is to go, or went, to the vendor."""
    at = max((seat for seat in seats if rma.serial and _is(seat, rma.kind, rma.serial) and seat.ended is None
              and seat.node != rma.node and seat.began >= rma.opened),
             key=lambda seat: (seat.seen, seat.began), default=None)
    if at is None:
        return None
    how = "is to go" if rma.shipped is None else "went"
    return RmaAlarm(rma.id, at.node, at.slot, f"the {at.kind} that {how} to the vendor sits in {at.node}, "
                                              f"slot {at.slot}: serial {rma.serial}")


def answered(rma: Rma, found: Collection[Rma], same_node: bool) -> bool:
    """Whether a later RMA of the part, or its announced return as a replacement, answers for this one;
    `same_node`: a later RMA of the slot does, too."""
    return any(one.id > rma.id and _equal(rma, one) for one in found) or any(
        one.id != rma.id and rma.serial and one.new.lower() == rma.serial.lower()
        and (one.returned or 0.0) >= (rma.returned or 0.0) for one in found) or (
        same_node and any(one.id > rma.id and (one.node, one.slot) == (rma.node, rma.slot) for one in found))


def alarms(store: Store, found: Collection[Rma]) -> dict[int, RmaAlarm]:
    """By their numbers the RMAs with an alarm that stands now."""
    seats: dict[int, list[ComponentLocation]] = defaultdict(list)
    for query in (_SINCE.format(serial="rma.serial"), _SINCE.format(serial=_NEW), _IN_SLOT, _AWAY):
        for number, *values in store.rows(query):
            seats[number].append(ComponentLocation(*values))
    wrong = {}
    for rma in found:
        if rma.id in seats and (one := alarm(rma, seats[rma.id])) is not None and not answered(
                rma, found, one.said.startswith("ANOTHER")):
            wrong[rma.id] = one
    return wrong


def _is(seat: ComponentLocation, kind: str, serial: str) -> bool:
    return kind in (seat.kind, PART) and seat.serial.lower() == serial.lower()


def _equal(one: Rma, other: Rma) -> bool:
    return bool(one.serial) and one.serial.lower() == other.serial.lower() and (
        one.kind == other.kind or PART in (one.kind, other.kind))


def _line(db: sqlite3.Connection, rma: Rma, action: str, who: str, now: float, why: str = "") -> int:
    """The line of this action without an outcome, else a new one."""
    cut = db.execute("SELECT id FROM ledger WHERE action = ? AND evidence = ? AND outcome IS NULL",
                     (action, _evidence(rma))).fetchone()
    return (int(cut[0]) if cut is not None
            else ledger.begin(db, now, who, action, rma.node, f"{rma.part}: {why or rma.why}",
                              _evidence(rma)))


def _evidence(rma: Rma) -> str:
    return f"rma {rma.id}"
