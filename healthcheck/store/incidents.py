"""Incidents in the store: causes that are not of one node, the nodes behind each with their times,
and who closed them and why."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict

from healthcheck.model.verdict import Decided, IncidentMember, StoredIncident
from healthcheck.store import ledger
from healthcheck.store.file import Store

TRIAGE = "triage"


def incidents(store: Store, since: float = 0.0) -> list[StoredIncident]:
    """Those that are open, or ended since, in the order of their numbers."""
    members: dict[int, list[IncidentMember]] = defaultdict(list)
    for number, *values in store.rows(
            "SELECT incident, node, began, seen, ended FROM member WHERE incident IN "
            "(SELECT id FROM incident WHERE ended IS NULL OR ended >= ?) ORDER BY incident, began, node",
            since):
        members[number].append(IncidentMember(*values))
    return [
        StoredIncident(row["id"], row["kind"], row["cause"], tuple(json.loads(row["symptoms"])), row["owner"],
                       row["why"], row["likelihood"],
                       row["began"], row["seen"], tuple(members[row["id"]]), row["ended"], row["by"],
                       row["closed"])
        for row in store.rows("SELECT * FROM incident WHERE ended IS NULL OR ended >= ? ORDER BY id", since)]


def next_number(store: Store) -> int:
    """What the next new incident is called."""
    return int(store.rows("SELECT coalesce(max(id), 0) + 1 FROM incident")[0][0])


def write(db: sqlite3.Connection, plan: Decided) -> None:
    """Writes down what became of incidents, inside a transaction: first what ends, as there is one open
    incident of a place at most."""
    for end in plan.ends:
        _end(db, end.id, plan.now, TRIAGE, end.why)
    for one in plan.incidents:
        values = (one.kind, one.cause, json.dumps(one.nodes), one.why, one.owner.value,
                  json.dumps(one.symptoms), one.likelihood)
        db.execute(
            "INSERT INTO incident (id, kind, cause, nodes, why, owner, symptoms, likelihood, began, seen) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE "
            "SET kind = excluded.kind, cause = excluded.cause, nodes = excluded.nodes, why = excluded.why, "
            "owner = excluded.owner, symptoms = excluded.symptoms, likelihood = excluded.likelihood, seen = "
            "excluded.seen, ended = NULL, by = '', closed = ''",
            (one.id, *values, one.began, plan.now))
        db.executemany(
            "INSERT INTO member (incident, node, began, seen) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
            "began = excluded.began, seen = excluded.seen, ended = NULL",
            [(one.id, member.node, member.began, member.seen) for member in one.members])
        there = {member.node for member in one.members}
        was = [row[0] for row in db.execute("SELECT node FROM member WHERE incident = ? AND ended IS NULL",
                                            (one.id,))]
        gone = [(plan.now, plan.now, one.id, node) for node in was if node not in there]
        db.executemany("UPDATE member SET ended = ?, began = min(began, ?) WHERE incident = ? AND node = ?",
                       gone)


def close(store: Store, number: int, reason: str, who: str, now: float) -> bool:
    """A person closes it: what its nodes show from then on is each node's own. False where it is not open,
    or there is none."""
    with store.writing() as db:
        if db.execute("SELECT 1 FROM incident WHERE id = ? AND ended IS NULL", (number,)).fetchone() is None:
            return False
        _end(db, number, now, who, reason)
        ledger.done(db, now, who, "close incident", "", reason, f"incident {number}", "closed")
    return True


def _end(db: sqlite3.Connection, number: int, now: float, by: str, why: str) -> None:
    db.execute("UPDATE incident SET ended = ?, began = min(began, ?), by = ?, closed = ? WHERE id = ? "
               "AND ended IS NULL", (now, now, by, why, number))
    db.execute("UPDATE member SET ended = ?, began = min(began, ?) WHERE incident = ? AND ended IS NULL",
               (now, now, number))
