"""Puts right what was stored by a head whose clock was ahead: it has happened by now, and not later.

Without that, a node that is held for it is held, an incident stays open, and a breaker stays open until the
clock has come to that time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

# What commands and people write, at any time.
_WRITTEN_ANY_TIME: Mapping[str, tuple[str, ...]] = {
    "rma": ("opened", "shipped", "returned", "closed"),
    "cordon": ("began", "ended", "shown"),
    "ledger": ("time", "finished"),
    "silence": ("began", "ended"),
    "lease": ("began", "ended"),
    "bringup": ("began", "since", "looked", "ended"),
    "bringup_action": ("began", "ended"),
    "bringup_trouble": ("began", "ended"),
    "bringup_skip": ("time", "ended"),
    "bringup_step": ("began", "ended"),
    "triage_run": ("began", "finished"),
    "breaker": ("opened", "closed"),
    "incident": ("began", "seen", "ended"),
    "stray": ("seen",),
    "left_out": ("swept", "at"),
    "screened": ("at",),
    "watched": ("began", "seen", "ended"),
    "fabric_subnet": ("checked",),
    "fabric_finding": ("began", "seen", "missed", "ended"),
    "disabled_port": ("began", "asked", "held", "undo", "ended"),
}
# Large, and written by sweeps and triage alone: only where one of those was in the future is there anything.
_WRITTEN_BY_SWEEPS: Mapping[str, tuple[str, ...]] = {
    "member": ("began", "seen", "ended"),
    "verdict": ("began", "seen", "ended"),
    "node": ("machine_since",),
}
# Columns that hold no time of this head, or are read so that a later one does no harm.
LEFT_ALONE: Mapping[str, str] = {
    "sweep.started": "what is later than now is no newest sweep (store.clock)",
    "sweep.finished": "as its start",
    "spell.began": "the sweep that follows ends a spell of the future, and begins anew",
    "spell.seen": "as its start",
    "spell.ended": "as its start",
    "counter.time": "the exporter counts by no sweep of the future",
    "counter.value": "no time",
    "snapshot.time": "those of the future are not read",
    "newest.time": "replaced by the sweep that follows",
    "hardware.time": "replaced by the sweep that follows",
    "firmware_step.began": "no step is taken to be later than now",
    "firmware_step.ended": "as its start",
    "firmware.time": "no reading is taken to be later than the look that follows",
    "version.began": "store.versions notes anew what is of the future",
    "version.seen": "store.versions notes anew what is of the future",
    "policy_file.seen": "replaced by the triage that follows",
    "name.since": "only shown",
    "cordon.stamp": "the back end's own time",
    "silence.until": "a person may have typed the date",
    "problem.at": "the node's own time",
    "incident.likelihood": "no time",
    "watched.share": "no time",
    "bringup.again": "cleared where the look before it was of the future",
    "lease.until": "as long after the start as it was",
}


def put_right(db: sqlite3.Connection, now: float, latest: float) -> None:
    """Whatever is stored as later than `latest` is afterwards of `now`; a lease lasts as long as it was to.

    A node that is held for it shows from now on that it is well, and a part that returned is looked for from
    now on; a bring-up that ended has not proven a machine that came since.
    """
    by_future = any(
        db.execute(f"SELECT 1 FROM {table} WHERE {column} > ? LIMIT 1", (latest,)).fetchone() is not None  # noqa: S608  (our own names)
        for table, column in (("sweep", "started"), ("triage_run", "began")))
    db.execute("UPDATE lease SET until = until - (began - ?1) WHERE ended IS NULL AND began > ?2",
               (now, latest))
    db.execute("UPDATE bringup SET again = NULL WHERE looked > ?", (latest,))
    for table, columns in {**_WRITTEN_ANY_TIME, **(_WRITTEN_BY_SWEEPS if by_future else {})}.items():
        for column in columns:
            db.execute(f"UPDATE {table} SET {column} = ?1 WHERE {column} > ?2", (now, latest))  # noqa: S608  (our own names)
    if not by_future:
        return
    # Open problems the sweep itself takes on. Open seats, too, but of the nodes that it asks alone, and what
    # left a node must not seem to have come earlier than what stayed.
    db.execute("UPDATE seat SET began = ?1, seen = min(seen, ?1) WHERE ended IS NULL AND began > ?2",
               (now, latest))
    for table in ("problem", "seat"):
        db.execute(f"UPDATE {table} SET began = min(began, ?1), seen = min(seen, ?1), ended = ?1 "  # noqa: S608  (our own names)
                   "WHERE ended > ?2", (now, latest))
    db.execute("UPDATE boot SET began = min(began, ?1), seen = ?1 WHERE seen > ?2", (now, latest))


PUT_RIGHT = frozenset(
    f"{table}.{column}" for columns_of in (_WRITTEN_ANY_TIME, _WRITTEN_BY_SWEEPS,
                                           dict.fromkeys(("problem", "seat"), ("began", "seen", "ended")),
                                           {"boot": ("began", "seen")})
    for table, columns in columns_of.items() for column in columns)
