"""A node's components in the newest snapshot that read any, and its boot,
for comparison with its certificate."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from typing import TYPE_CHECKING

from healthcheck.store.file import Store

if TYPE_CHECKING:
    from healthcheck.model.hardware import Now


def write_hardware(db: sqlite3.Connection, node: int, time: float, seen: Now) -> None:
    """Replaces the stored values by this snapshot's, inside a transaction; unread values stay.

    So a driver that does not answer is no change of hardware;
    a component that is gone where all of its kind were read, is.
    """
    from healthcheck.facts.components import to_document

    row = db.execute("SELECT parts FROM hardware WHERE node = ?", (node,)).fetchone()
    document = to_document(seen)
    if row is not None:
        before = json.loads(row[0])
        kept = {name: part for name, part in before["hardware"].items()
                if name.partition(" ")[0] not in seen.whole}
        document["hardware"] = {**kept, **{name: {**kept.get(name, {}), **part}
                                           for name, part in seen.hardware.items()}}
        document["whole"] = sorted({*before["whole"], *seen.whole})
        document["versions"] = {**before["versions"], **seen.versions}
        # An adapter whose module could not be read now has the one that it had.
        had = before.get("parts", {})
        document["parts"] = {**had, **{
            name: part if part.keys() & {"serial", "part"} else {**had.get(name, {}), **part}
            for name, part in document["parts"].items()}}
    parts = json.dumps(document, sort_keys=True, separators=(",", ":"))
    db.execute("INSERT INTO hardware (node, time, boot, parts) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
               "time = excluded.time, boot = excluded.boot, parts = excluded.parts",
               (node, time, seen.boot, parts))


def write_machine(db: sqlite3.Connection, node: int, time: float, machine: str) -> None:
    """Stores the installation that this snapshot met, inside a transaction;
    another one marks a new machine since."""
    db.execute("UPDATE node SET machine_since = CASE WHEN machine = '' THEN machine_since ELSE ? END, "
               "machine = ? WHERE id = ? AND machine != ?", (time, machine, node, machine))


def machine_identity(store: Store, node: str) -> str:
    """What tells this machine, as it is installed, from others: hashes of its chassis' serial number and of
    its machine-id, as `chassis=1f0c machine=77ab`; what no look has read is left out. Compare with
    `same_machine`."""
    found = store.rows("SELECT machine FROM node WHERE name = ?", node)
    seat = store.rows(
        "SELECT serial FROM seat JOIN node ON node.id = seat.node JOIN component ON component.id = component "
        "WHERE name = ? AND slot = 'chassis' AND ended IS NULL", node)
    return " ".join([*([_chassis(seat[0][0])] if seat else []),
                     *([f"machine={found[0][0]}"] if found and found[0][0] else [])])


def gpus_met(store: Store) -> tuple[frozenset[str], dict[str, str]]:
    """The nodes in which sweeps have met GPUs by their serial numbers, now or ever; and by each identity of
    such a machine (`machine_identity`'s parts) the node that it was, newest last. Raises StoreError."""
    nodes = frozenset(row[0] for row in store.rows(
        "SELECT DISTINCT name FROM node JOIN seat ON seat.node = node.id "
        "JOIN component ON component.id = component WHERE kind = 'gpu'"))
    machines: dict[str, str] = {}
    for name, serial in store.rows(
            "SELECT name, serial FROM seat JOIN node ON node.id = seat.node "
            "JOIN component ON component.id = component WHERE slot = 'chassis' ORDER BY seat.id"):
        if name in nodes:
            machines[_chassis(serial)] = name
    for name, machine in store.rows("SELECT name, machine FROM node WHERE machine != ''"):
        if name in nodes:
            machines[f"machine={machine}"] = name
    return nodes, machines


def _chassis(serial: str) -> str:
    return f"chassis={hashlib.sha256(f'muster {serial}'.encode()).hexdigest()[:16]}"


def same_machine(one: str, other: str) -> bool:
    """Whether two identities may be of one machine: nothing that both of them know differs."""
    first, second = (dict(part.partition("=")[::2] for part in identity.split()) for identity in (one, other))
    return all(first[name] == second[name] for name in first.keys() & second.keys())


_NEW_CHASSIS = (
    "SELECT name, seat.began FROM seat JOIN node ON node.id = seat.node WHERE slot = 'chassis' "
    "AND seat.ended IS NULL AND node.id IN (SELECT node FROM seat WHERE slot = 'chassis' "
    "AND ended IS NOT NULL)")


def new_since(store: Store) -> dict[str, float]:
    """By node when sweeps first met this machine, for nodes that had another one before: reinstalled,
    or in another chassis."""
    found: dict[str, float] = {}
    installed = store.rows("SELECT name, machine_since FROM node WHERE machine_since IS NOT NULL")
    for name, time in [*installed, *store.rows(_NEW_CHASSIS)]:
        found[name] = max(time, found.get(name, 0.0))
    return found


def newest_hardware(store: Store) -> dict[str, tuple[float, Now]]:
    """By node, when it was last read, and what was."""
    from healthcheck.facts.components import from_document

    return {name: (time, from_document(json.loads(parts), boot)) for name, time, boot, parts in store.rows(
        "SELECT name, time, boot, parts FROM hardware JOIN node ON node.id = hardware.node")}
