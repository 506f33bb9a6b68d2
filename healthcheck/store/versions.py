"""Since when each thing that decides is as it is: rules, SKUs, baselines, muster itself;
and what nodes run, from when it last changed.

A row holds from the first sweep with it (`began`) to the last (`seen`);
of each kind and name the newest row is what holds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from healthcheck.store.file import Store
from healthcheck.store.newest import firmware
from healthcheck.store.shown import Telemetry

# What nodes run, by kind: noted where it changed, and for no node before.
OF_NODES = ("driver", "kernel", "firmware")


@dataclass(frozen=True)
class Version:
    """One deciding input (rule, SKU, policy file, version) by a digest."""

    kind: str
    name: str
    digest: str


@dataclass(frozen=True)
class VersionSpan:
    """A version that held from the first sweep with it to the first with another, None where it holds;
    `before` is the last sweep with the one before it, None where there was none."""

    kind: str
    name: str
    digest: str
    began: float
    before: float | None
    after: float | None = None

    def holds(self, now: float) -> bool:
        """Whether it held at that time."""
        return self.began <= now and (self.after is None or now < self.after)


def note(
    db: sqlite3.Connection, versions: Iterable[Version], who: str, now: float, latest: float = float("inf"),
) -> None:
    """Writes down, inside a transaction, what a sweep at `now` was judged by. An older sweep that is stored
    late changes nothing; what is later than `latest` was stored by a clock that was ahead, and is of now."""
    db.execute("UPDATE version SET began = min(began, ?), seen = min(seen, ?) WHERE seen > ?",
               (now, now, latest))
    newest = {(row[0], row[1]): tuple(row[2:])
              for row in db.execute("SELECT kind, name, id, digest, seen FROM version WHERE id IN "
                                    "(SELECT max(id) FROM version GROUP BY kind, name)")}
    for one in versions:
        number, digest, seen = newest.get((one.kind, one.name), (0, "", 0.0))
        if number and now < seen:
            continue
        if number and digest == one.digest:
            db.execute("UPDATE version SET seen = ? WHERE id = ?", (now, number))
        else:
            _begin(db, one, who, now, now)


def note_nodes(db: sqlite3.Connection, shown: Iterable[tuple[str, Telemetry]], who: str, now: float) -> None:
    """Writes down, inside a transaction and before the newest looks are written over,
    which nodes run another version than they did."""
    before = {row[0]: tuple(row[1:]) for row in db.execute(
        "SELECT name, time, driver, kernel, firmware FROM newest JOIN node ON node.id = newest.node "
        "WHERE driver || kernel || firmware != ''")}
    for node, new in shown:
        time, *old = before.get(node, (now, "", "", ""))
        for kind, was, is_now in zip(OF_NODES, old, (new.driver, new.kernel, firmware(new)), strict=True):
            if was and is_now and was != is_now and time < now:
                db.execute("UPDATE version SET seen = ? WHERE digest = ? AND id = "
                           "(SELECT max(id) FROM version WHERE kind = ? AND name = ?)",
                           (time, was, kind, node))
                if db.execute("SELECT 1 FROM version WHERE kind = ? AND name = ? AND digest = ? AND seen = ?",
                              (kind, node, was, time)).fetchone() is None:
                    _begin(db, Version(kind, node, was), "", time, time)
                _begin(db, Version(kind, node, is_now), who, now, now)


def history(store: Store, since: float) -> list[VersionSpan]:
    """What began since, where it had another form before, or was not there when others of its kind were
    already; by kind, name and time."""
    rows = store.rows(
        "SELECT kind, name, digest, began, before, after FROM (SELECT id, kind, name, digest, began, "
        "lag(seen) OVER (PARTITION BY kind, name ORDER BY id) AS before, lead(began) OVER (PARTITION BY "
        "kind, name ORDER BY id) AS after, min(began) OVER (PARTITION BY kind) AS first FROM version) "
        "WHERE began >= ? AND (before IS NOT NULL OR began > first) ORDER BY kind, name, id", since)
    return [VersionSpan(*row) for row in rows]


def _begin(db: sqlite3.Connection, one: Version, who: str, began: float, seen: float) -> None:
    db.execute("INSERT INTO version (kind, name, digest, who, began, seen) VALUES (?, ?, ?, ?, ?, ?)",
               (one.kind, one.name, one.digest, who, began, seen))
