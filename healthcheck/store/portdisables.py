"""Ports of the fabric that we disabled: each is written down before anyone is asked, with a line in the
ledger, and what was read back after it.

A port is in one open row. `asked` is NULL until the fabric is asked: what was cut short before is certainly
not done. `held` is NULL until the port was read back as disabled: what is asked and not held is not known.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from healthcheck.store import ledger
from healthcheck.store.file import Store
from healthcheck.store.rows import insert, update
from healthcheck.subnet.model import FabricEnd


@dataclass(frozen=True)
class DisabledPort:
    """One port; times are epoch seconds, `undo` is when it was asked to be enabled again. `place` and `peer`
    are in words, `leaves` the GUIDs of the switches at both ends, by which their uplinks are counted."""

    id: int
    plane: str
    guid: str
    number: int
    place: str
    peer_guid: str
    peer_number: int
    why: str
    lost: str
    route: str
    who: str
    began: float
    asked: float | None
    held: float | None
    undo: float | None
    ended: float | None
    outcome: str
    line: int
    undo_line: int | None

    @property
    def end(self) -> FabricEnd:
        """The port."""
        return FabricEnd(self.guid, self.number)

    @property
    def peer(self) -> FabricEnd:
        """The other end of its cable."""
        return FabricEnd(self.peer_guid, self.peer_number)

    @property
    def stands(self) -> str:
        """How it stands, in a word or two."""
        if self.ended is not None:
            return "over"
        if self.asked is None:
            return "not begun"
        if self.undo is not None:
            return "UNKNOWN: asked to enable it"
        return "disabled" if self.held is not None else "UNKNOWN: asked to disable it"


@dataclass(frozen=True)
class PortRecord:
    """What is written down of a port before it is disabled."""

    plane: str
    end: FabricEnd
    place: str
    peer: FabricEnd
    why: str
    lost: str
    route: str


def begin(store: Store, record: PortRecord, who: str, now: float, room: tuple[int, float]) -> int | str:
    """Writes down that a port is about to be disabled; gives its number, or why not: someone has it, or
    `room` (at most so many since that time) is used up. Raises StoreError."""
    most, since = room
    with store.writing() as db:
        taken = db.execute("SELECT who FROM disabled_port WHERE guid = ? AND number = ? AND ended IS NULL",
                           (record.end.guid, record.end.number)).fetchone()
        if taken is not None:
            return f"{taken[0]} has it: muster fabric disable lists it"
        if (used := _used(db, since)) >= most:
            return f"{used} ports were disabled lately, and the policy allows {most}"
        line = ledger.begin(db, now, who, "disable port", record.place, record.why,
                            f"{record.end.guid}/{record.end.number} by {record.route}; loses {record.lost}")
        return insert(
            db, "disabled_port", plane=record.plane, guid=record.end.guid, number=record.end.number,
            place=record.place, peer_guid=record.peer.guid, peer_number=record.peer.number, why=record.why,
            lost=record.lost, route=record.route, who=who, began=now, outcome="", line=line)


def used(store: Store, since: float) -> int:
    """How many ports were disabled since then, those whose outcome is not known among them, and those that
    are enabled again. Raises StoreError."""
    return int(store.rows(_USED, since)[0][0])


# What was certainly not done has no `asked` any more.
_USED = "SELECT count(*) FROM disabled_port WHERE began > ? AND (asked IS NOT NULL OR ended IS NULL)"


def _used(db: sqlite3.Connection, since: float) -> int:
    return int(db.execute(_USED, (since,)).fetchone()[0])


def asking(store: Store, number: int, now: float) -> None:
    """Writes down that the fabric is asked from now on. Raises StoreError."""
    with store.writing() as db:
        update(db, "disabled_port", number, asked=now)


def held(store: Store, number: int, message: str, now: float) -> None:
    """Writes down that the port was read back as disabled. Raises StoreError."""
    with store.writing() as db:
        db.execute("UPDATE disabled_port SET held = coalesce(held, ?), outcome = ? "
                   "WHERE id = ? AND ended IS NULL", (now, message, number))
        ledger.finish(db, _line(db, number, "line"), message, now)


def not_done(store: Store, number: int, message: str, now: float) -> None:
    """Writes down that the port was certainly not disabled: it does not count. Raises StoreError."""
    with store.writing() as db:
        db.execute("UPDATE disabled_port SET ended = ?, asked = NULL, outcome = ? "
                   "WHERE id = ? AND ended IS NULL", (now, message, number))
        ledger.finish(db, _line(db, number, "line"), f"not done: {message}", now)


def undoing(store: Store, port: DisabledPort, why: str, who: str, now: float) -> None:
    """Writes down that a port is about to be enabled again. Raises StoreError."""
    with store.writing() as db:
        if (earlier := _line(db, port.id, "undo_line")) is not None:
            ledger.finish(db, earlier, "not known; asked again", now)
        line = ledger.begin(db, now, who, "enable port", port.place, why, f"{port.guid}/{port.number}")
        db.execute("UPDATE disabled_port SET undo = ?, undo_line = ? WHERE id = ? AND ended IS NULL",
                   (now, line, port.id))


def not_undone(store: Store, port: DisabledPort, message: str, now: float) -> None:
    """Writes down that the port was certainly not asked to be enabled. Raises StoreError."""
    with store.writing() as db:
        if (line := _line(db, port.id, "undo_line")) is not None:
            ledger.finish(db, line, f"not done: {message}", now)
        db.execute("UPDATE disabled_port SET undo = NULL WHERE id = ? AND ended IS NULL", (port.id,))


def over(store: Store, number: int, message: str, now: float) -> None:
    """Writes down that the port was read back as enabled. Raises StoreError."""
    with store.writing() as db:
        db.execute("UPDATE disabled_port SET ended = ?, outcome = ? WHERE id = ? AND ended IS NULL",
                   (now, message, number))
        for column in ("line", "undo_line"):
            if (line := _line(db, number, column)) is not None:
                ledger.finish(db, line, message, now)


def _line(db: sqlite3.Connection, number: int, column: str) -> int:
    found: int = db.execute(f"SELECT {column} FROM disabled_port WHERE id = ?", (number,)).fetchone()[0]  # noqa: S608  (our own names)
    return found


def open_ports(store: Store) -> tuple[DisabledPort, ...]:
    """The ports that are not known to be enabled again, oldest first. Raises StoreError."""
    return tuple(DisabledPort(**dict(row)) for row in store.rows(
        "SELECT * FROM disabled_port WHERE ended IS NULL ORDER BY id"))
