"""Which nodes were screened in service, and when; and how many node-hours that has taken."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from healthcheck.store.file import Store

HOUR = 3600.0
# What leases of screenings are for, and how the reasons of their cordons begin, by which they are known.
WHY = "muster burnin screen"
FOUND = "a screening found"


@dataclass(frozen=True)
class Screened:
    """The newest screening of a node: its run, when it ended (epoch seconds),
    and whether it showed how the node is."""

    run: str
    at: float
    conclusive: bool


def write(store: Store, run: str, at: float, nodes: Mapping[str, bool]) -> None:
    """Afterwards this is the newest screening of these nodes; by node whether it showed how the node is.

    Raises StoreError.
    """
    with store.writing() as db:
        db.executemany(
            "INSERT OR REPLACE INTO screened (node, run, at, conclusive) VALUES (?, ?, ?, ?)",
            [(node, run, at, conclusive) for node, conclusive in nodes.items()])


def newest(store: Store) -> dict[str, Screened]:
    """By node its newest screening. Raises StoreError."""
    return {row["node"]: Screened(row["run"], row["at"], bool(row["conclusive"]))
            for row in store.rows("SELECT * FROM screened")}


def node_hours(store: Store, since: float, now: float) -> float:
    """For how long leases of screenings have held nodes since then, nodes added up, in hours.

    A lease that was not ended counts until its time was over. Raises StoreError.
    """
    rows = store.rows("SELECT nodes, began, coalesce(ended, until) AS over FROM lease WHERE why = ?", WHY)
    spans = [(len(json.loads(row["nodes"])), min(row["over"], now) - max(row["began"], since))
             for row in rows]
    return float(sum(nodes * max(0.0, seconds) for nodes, seconds in spans)) / HOUR
