"""Nodes that a sweep left out because their agents judged them healthy, and what the head itself knows of
nodes, by which a sweep may leave them out.

What an agent says is no snapshot of the head's: it changes no state, ends no problem, and counts for no
release and no certificate. It stands beside them until the head visits the node.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass

from healthcheck.model.agentmetric import AgentBasis, AgentEvidence
from healthcheck.model.outcome import NodeState
from healthcheck.store.file import Store

_NO_BOOT = ("", 0.0)


@dataclass(frozen=True)
class KnownNode:
    """What the head itself knows of a node. `boot_id` is that of the last visit that reached it, empty if
    unknown.

    `visited` is when a whole sweep last reached it in that boot (epoch seconds), None if never; `healthy`
    whether that found it healthy. `held`: by a cordon or a verdict of ours.
    """

    boot_id: str = ""
    visited: float | None = None
    healthy: bool = False
    held: bool = False


@dataclass(frozen=True)
class LeftOutNode:
    """A node that the sweep of this time (epoch seconds) was the last to leave out, by this evidence."""

    swept: float
    evidence: AgentEvidence


def known_to_head(store: Store) -> dict[str, KnownNode]:
    """By node what the head knows, from its own visits alone; raises StoreError."""
    # Of the bare columns beside max() SQLite takes the values of that row.
    boots = {row[0]: (row[1], row[2]) for row in store.rows(
        "SELECT name, boot, began, max(seen) FROM boot JOIN node ON node.id = boot.node GROUP BY boot.node")}
    held = {row[0] for row in store.rows(
        "SELECT node FROM cordon WHERE ended IS NULL UNION SELECT name FROM verdict JOIN node "
        "ON node.id = verdict.node WHERE ended IS NULL")}
    found = {name: KnownNode(boots.get(name, _NO_BOOT)[0],
                             # A sweep of some rules may have met a boot that no whole one has.
                             seen if stage is None and seen >= boots.get(name, _NO_BOOT)[1] else None,
                             state == NodeState.HEALTHY.value, name in held)
             for name, state, stage, seen in store.rows(
                 "SELECT name, state, stage, seen FROM spell JOIN node ON node.id = spell.node "
                 "WHERE ended IS NULL")}
    return {name: found.get(name, KnownNode(boots.get(name, _NO_BOOT)[0], held=name in held))
            for name in {*found, *boots, *held}}


def write_left_out(db: sqlite3.Connection, swept: float, left: Mapping[int, AgentEvidence]) -> None:
    """Stores, by the number of the node, by what this sweep left it out, inside a transaction."""
    db.executemany(
        "INSERT INTO left_out (node, swept, at, target, basis) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET swept = excluded.swept, at = excluded.at, target = excluded.target, "
        "basis = excluded.basis",
        [(node, swept, one.at, one.target, json.dumps(asdict(one.basis), separators=(",", ":")))
         for node, one in left.items()])


def end_left_out(db: sqlite3.Connection, visited: Collection[int]) -> None:
    """These nodes were visited: what their agents said before counts no more."""
    db.executemany("DELETE FROM left_out WHERE node = ?", [(node,) for node in visited])


def left_out_nodes(store: Store) -> dict[str, LeftOutNode]:
    """By name the nodes that their newest sweep left out; raises StoreError."""
    return {name: LeftOutNode(swept, AgentEvidence(at, AgentBasis(**json.loads(basis)), target))
            for name, swept, at, target, basis in store.rows(
                "SELECT name, swept, at, target, basis FROM left_out JOIN node ON node.id = left_out.node")}
