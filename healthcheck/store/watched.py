"""What `muster watch --store` found of running jobs: evidence for triage, blame and the exporter.

A finding that no watch has seen for FRESH_S is over: the job, or the watching, has ended.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from healthcheck.model.outcome import Owner, Severity, Status
from healthcheck.model.problem import Problem
from healthcheck.store.file import Store
from inventory.text import clean

SLOWS = "watch-slow"
# The id that stands for a rule, as those of burn-ins do: no sweep judges it.
RULES = {SLOWS: "a node slows a running job, with a likely cause, as muster watch --store found"}
FRESH_S = 900.0
LIKELY = "likely"
HANG = "hang"
# Causes by which the job's own program is slow: no node is to blame for them.
OF_PROGRAM = frozenset(("data_loading", "garbage_collection"))
_MOST = 4096        # rows that are read at once
MOST_OF_JOB = 65_536        # rows of one job: all that a watch keeps of it, 1,000 findings of 64 nodes each


@dataclass(frozen=True)
class WatchedNode:
    """A finding of one job, as far as it is of one node (empty: of the job, or of a place). Times in epoch
    seconds; `ended` is None while it lasts. `share` is what it costs, in parts of the usual step; `pattern`
    and `cause` are lower-case names, and `said` is the finding in words."""

    job: str
    finding: str
    node: str
    ranks: tuple[int, ...]
    pattern: str
    cause: str
    certainty: str
    share: float
    said: str
    began: float
    seen: float
    ended: float | None = None


def write(store: Store, found: Iterable[WatchedNode]) -> None:
    """Afterwards this is what is known of these findings. Raises StoreError."""
    with store.writing() as db:
        db.executemany(
            "INSERT OR REPLACE INTO watched (job, finding, node, ranks, pattern, cause, certainty, share, "
            "message, began, seen, ended) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(one.job, one.finding, one.node, json.dumps(one.ranks), one.pattern, one.cause, one.certainty,
              one.share, clean(one.said, 600), one.began, one.seen, one.ended) for one in found])


def between(store: Store, start: float, end: float) -> list[WatchedNode]:
    """What was there in that time, the oldest first. Raises StoreError."""
    return list(_read(store.rows("SELECT * FROM watched WHERE began <= ? AND coalesce(ended, seen) >= ? "
                                 "ORDER BY began, job, finding, node LIMIT ?", end, start, _MOST)))


def of_job(store: Store, job: str, start: float, end: float) -> list[WatchedNode]:
    """All that is kept of one job in that time, the oldest first, at most MOST_OF_JOB rows. Jobs without a
    scheduler may have one name, hence the time. Raises StoreError."""
    return list(_read(store.rows("SELECT * FROM watched WHERE job = ? AND began <= ? AND "
                                 "coalesce(ended, seen) >= ? ORDER BY began, finding, node LIMIT ?",
                                 job, end, start, MOST_OF_JOB)))


def lasting(store: Store, now: float) -> list[WatchedNode]:
    """What lasts, and was seen lately; what costs most first. Raises StoreError."""
    return list(_read(store.rows("SELECT * FROM watched WHERE ended IS NULL AND seen >= ? "
                                 "ORDER BY share DESC, job, finding, node LIMIT ?", now - FRESH_S, _MOST)))


def problems(store: Store, now: float) -> list[Problem]:
    """What lasts of single nodes with a likely cause that is not the program's, as triage takes it: warnings,
    which isolate no node unless the policy says so. Raises StoreError."""
    return [Problem(one.node, SLOWS, f"job {one.job}, rank {one.ranks[0]}" if one.ranks else f"job {one.job}",
                    Status.FAIL.value, Severity.WARNING.value, None, Owner.OPERATOR.value, one.said,
                    "as fast as its peers", "", f"muster watch report {one.job}", one.began, one.seen, None,
                    1, None, None)
            for one in lasting(store, now)
            if one.node and one.certainty == LIKELY and one.cause not in OF_PROGRAM]


def _read(rows: Iterable[sqlite3.Row]) -> Iterator[WatchedNode]:
    for row in rows:
        yield WatchedNode(row["job"], row["finding"], row["node"], tuple(json.loads(row["ranks"])),
                          row["pattern"], row["cause"], row["certainty"], row["share"], row["message"],
                          row["began"], row["seen"], row["ended"])
