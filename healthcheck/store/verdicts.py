"""Verdicts, incidents and the breaker in the store: what triage decided, from when to when.
Only changes take room."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from healthcheck.model.faultkind import Isolation
from healthcheck.model.verdict import RMA, Decided, Verdict
from healthcheck.store import incidents
from healthcheck.store.file import Store
from healthcheck.store.rows import insert, node_numbers, update

_MOST_EVIDENCE = 20
# The verdict that the one with this number took the place of: its fault, its isolation and its incident.
UNDER = ("SELECT before.fault, before.isolation, coalesce(before.incident, 0) FROM verdict "
         "JOIN verdict AS before ON before.node = verdict.node AND before.id < verdict.id "
         "AND before.ended = verdict.began WHERE verdict.id = ? ORDER BY before.id DESC LIMIT 1")
# It did not begin after it ended, whatever the head's clock said when it began.
_END = "UPDATE verdict SET ended = ?, began = min(began, ?) WHERE id = ?"


@dataclass(frozen=True)
class VerdictEvidence:
    """What a verdict was for: its fault, and of each problem the fault, the rule and the subject."""

    fault: str
    lines: tuple[tuple[str, str, str], ...]


def evidence(store: Store, numbers: Iterable[int]) -> dict[int, VerdictEvidence]:
    """What these verdicts rested on."""
    found = {}
    for number in set(numbers):
        for fault, lines in store.rows("SELECT fault, evidence FROM verdict WHERE id = ?", number):
            found[number] = VerdictEvidence(fault, tuple((one["fault"], one["rule"], one["subject"])
                                                  for one in json.loads(lines)))
    return found


def write(store: Store, plan: Decided, *, opens: bool = True) -> dict[str, int]:
    """Writes down what a plan decided, in one transaction; gives the number of each node's open verdict.
    `opens`: that the breaker opens with it, too, which is to be so once the plan's steps were taken: an open
    one lets no one finish them."""
    with store.writing() as db:
        nodes = node_numbers(db, sorted({verdict.node for verdict in plan.verdicts}))
        incidents.write(db, plan)
        numbers = _verdicts(db, plan.verdicts, nodes, plan.now)
        if plan.closes:
            close_breaker(db, plan.now, None, plan.closes)
        if opens:
            open_breaker(db, plan)
    return numbers


def open_breaker(db: sqlite3.Connection, plan: Decided) -> None:
    """Opens the breaker if the plan does, inside a transaction."""
    if plan.opens:
        insert(db, "breaker", opened=plan.now, why=plan.opens)


def close_breaker(db: sqlite3.Connection, now: float, who: str | None, reason: str) -> bool:
    """Closes it; false where it was not open. `who` is the person who has looked,
    None where time alone did it."""
    return db.execute("UPDATE breaker SET closed = ?, who = ?, reason = ?, seen = (SELECT max(id) "
                      "FROM cordon) WHERE closed IS NULL",
                      (now, who, reason)).rowcount > 0


def _verdicts(
    db: sqlite3.Connection, verdicts: Sequence[Verdict], nodes: Mapping[str, int], now: float,
) -> dict[str, int]:
    """A node's verdict goes on while its fault and its isolation stay; another one ends it."""
    held = {row[1]: tuple(row[at] for at in (0, 2, 3, 4)) for row in db.execute(
        "SELECT verdict.id, name, fault, isolation, coalesce(incident, 0) FROM verdict "
        "JOIN node ON node.id = verdict.node WHERE ended IS NULL")}
    numbers: dict[str, int] = {}
    for verdict in verdicts:
        before = held.pop(verdict.node, None)
        owner = verdict.owner.value if verdict.owner is not None else ""
        values = {"repair": verdict.repair.value, "owner": owner, "why": verdict.why,
                  "evidence": json.dumps(lines_of(verdict)), "seen": now}
        if before is not None and before[1:] == (verdict.fault, verdict.isolation.value, verdict.incident):
            update(db, "verdict", before[0], **values)
            numbers[verdict.node] = before[0]
            continue
        if before is not None:
            db.execute(_END, (now, now, before[0]))
        number = numbers[verdict.node] = insert(
            db, "verdict", node=nodes[verdict.node], fault=verdict.fault, isolation=verdict.isolation.value,
            **values, began=now, incident=verdict.incident or None)
        if verdict.isolation is not Isolation.NONE:
            # What is held already is held in the name of this one from now on.
            db.execute("UPDATE cordon SET verdict = ? WHERE node = ? AND verdict IS NOT NULL "
                       "AND ended IS NULL", (number, verdict.node))
            if before is not None and before[1] == RMA and _again(db, before[0], verdict):
                # What lay under an RMA goes on, and with it what a person has undone meanwhile.
                db.execute("UPDATE cordon SET verdict = ? WHERE verdict = ?", (number, before[0]))
    db.executemany(_END, [(now, now, one[0]) for one in held.values()])
    return numbers


def _again(db: sqlite3.Connection, rma: int, verdict: Verdict) -> bool:
    """Whether this is what was decided before an RMA, too."""
    return (verdict.fault, verdict.isolation.value, verdict.incident) in (
        tuple(row) for row in db.execute(UNDER, (rma,)))


def lines_of(verdict: Verdict) -> list[dict[str, Any]]:
    """What a verdict rests on: an entry for each problem, the worst fault's first."""
    lines = [
        {"fault": fault.kind.id, "place": fault.place, "rule": problem.rule, "subject": problem.subject,
         "observed": problem.observed, "expected": problem.expected, "reason": problem.reason,
         "began": problem.began, "seen": problem.seen, "sweeps": problem.sweeps}
        for fault in verdict.faults for problem in fault.problems
    ]
    return lines[:_MOST_EVIDENCE]
