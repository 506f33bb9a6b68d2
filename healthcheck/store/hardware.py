"""Which components a node had at the newest look that read any, and in which boot: what its certificate is held against."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING

from healthcheck.store.file import Store

if TYPE_CHECKING:
    from healthcheck.certify.requalify import Now


def write_hardware(db: sqlite3.Connection, node: int, time: float, seen: Now) -> None:
    """Puts what this look read in the place of what the one before did, inside a transaction; of what it did not read, nothing is lost.

    So a driver that does not answer is no change of hardware; a component that is gone where all of its kind were read, is.
    """
    from healthcheck.certify.hardware import told

    row = db.execute("SELECT parts FROM hardware WHERE node = ?", (node,)).fetchone()
    document = told(seen)
    if row is not None:
        before = json.loads(row[0])
        kept = {name: part for name, part in before["hardware"].items() if name.partition(" ")[0] not in seen.whole}
        document["hardware"] = {**kept, **{name: {**kept.get(name, {}), **part} for name, part in seen.hardware.items()}}
        document["whole"] = sorted({*before["whole"], *seen.whole})
        document["versions"] = {**before["versions"], **seen.versions}
    parts = json.dumps(document, sort_keys=True, separators=(",", ":"))
    db.execute("INSERT INTO hardware (node, time, boot, parts) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
               "time = excluded.time, boot = excluded.boot, parts = excluded.parts", (node, time, seen.boot, parts))


def newest_hardware(store: Store) -> dict[str, tuple[float, Now]]:
    """By node, when it was last read, and what was."""
    from healthcheck.certify.hardware import read_told

    return {name: (time, read_told(json.loads(parts), boot)) for name, time, boot, parts in store.rows(
        "SELECT name, time, boot, parts FROM hardware JOIN node ON node.id = hardware.node")}
