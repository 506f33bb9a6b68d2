"""Writes a sweep into the store, in one transaction: only what changed since the one before takes room.

What one sweep cannot see it cannot end: a fault of a rule that was not judged this time, or could not be measured, stays as it was.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from healthcheck.outcome import NodeReport, NodeState, Origin, Result, Severity, Status
from healthcheck.store import newest
from healthcheck.store.file import Store
from healthcheck.store.hardware import write_hardware
from healthcheck.store.readings import Readings
from inventory.transport.base import NOT_ITS_FAULT

# A problem of the node itself, in a sweep that could not judge it, has no rule.
UNREACHED = ""
_NOTHING: Mapping[str, Readings] = {}
_NOT_ASKED = "not asked"
_NOT_ITS_FAULT = frozenset(stage.value for stage in NOT_ITS_FAULT)
_LOOKS_KEPT = 4             # of a node under a profile: what requalification looks back on
_AGAINST_KEPT = 50
_NO_LOG = (None, None)      # emitter and ending of a problem that was read from no log
# How the reasons of rules begin that are not for this node, whatever it shows.
_DROPPED = ("disabled in ", "the SKU ", "there are no ")


@dataclass(frozen=True)
class Sweep:
    """What is stored of a sweep as a whole. Times are epoch seconds. `selected`: not all rules were judged, by --only or --skip."""

    started: float
    finished: float
    partial: bool
    source: str
    rules: str
    profiles: tuple[str, ...] = ()
    selected: bool = False


def record(store: Store, sweep: Sweep, reports: Iterable[NodeReport], readings: Mapping[str, Readings] = _NOTHING) -> int:
    """Stores a sweep and gives its number; raises StoreError and stores nothing of it.

    A node that was not asked before the sweep was interrupted is left as it was. Some rules alone give no state: they tell of their faults.
    """
    kept = [report for report in reports if report.results or report.stage is not None or not sweep.partial]
    with store.writing() as db:
        unreached = sum(report.stage is not None for report in kept)
        number = db.execute(
            "INSERT INTO sweep (started, finished, partial, source, rules, profiles, nodes, unreached) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (sweep.started, sweep.finished, sweep.partial, sweep.source, sweep.rules, " ".join(sweep.profiles), len(kept), unreached),
        ).lastrowid
        nodes = _numbers(db, [report.node for report in kept])
        writer = _Writer(db, sweep.started)
        alike = _alike(readings)
        for report in kept:
            node = nodes[report.node]
            seats = writer.seats(node, readings[report.node], alike) if report.node in readings else {}
            if report.node in readings and (hardware := readings[report.node].hardware) is not None:
                write_hardware(db, node, sweep.started, hardware)
            if not sweep.selected or not report.results:
                writer.state(node, report)
                writer.looks(node, report, sweep.profiles)
                seen = readings[report.node].shown if report.node in readings else None
                newest.write(db, node, sweep.started, sweep.rules, report, seen)
            writer.problems(node, report, seats)
    assert number is not None  # noqa: S101  (an INSERT always has one)
    return number


def _alike(readings: Mapping[str, Readings]) -> set[tuple[str, str]]:
    """Serial numbers that several places show in one sweep, such as a maker's placeholder: nothing can be followed by them."""
    shown = Counter((part.kind, part.serial) for seen in readings.values() for part in seen.components)
    return {key for key, places in shown.items() if places > 1}


def _numbers(db: sqlite3.Connection, names: list[str]) -> dict[str, int]:
    db.executemany("INSERT INTO node (name) VALUES (?) ON CONFLICT (name) DO NOTHING", [(name,) for name in names])
    return {row[1]: row[0] for row in db.execute("SELECT id, name FROM node")}


@dataclass(frozen=True)
class _Problem:
    """What makes an open problem the same one at the next sweep, and what is told of it."""

    rule: str
    subject: str
    status: str
    told: tuple[str | None, ...]


class _Writer:
    """Changes of one sweep, at one time."""

    def __init__(self, db: sqlite3.Connection, now: float) -> None:
        self._db = db
        self._now = now
        self._held: dict[int, list[tuple[float, float]]] | None = None

    def state(self, node: int, report: NodeReport) -> None:
        """The node's state goes on, or another begins."""
        held = self._db.execute("SELECT id, state FROM spell WHERE node = ? AND ended IS NULL", (node,)).fetchone()
        if held is not None and held[1] == report.state.value:
            self._db.execute("UPDATE spell SET seen = ?, sweeps = sweeps + 1, reason = ?, stage = ? WHERE id = ?",
                             (self._now, report.reason, report.stage, held[0]))
            return
        if held is not None:
            self._db.execute("UPDATE spell SET ended = ? WHERE id = ?", (self._now, held[0]))
        self._db.execute("INSERT INTO spell (node, state, reason, stage, began, seen, sweeps) VALUES (?, ?, ?, ?, ?, ?, 1)",
                         (node, report.state.value, report.reason, report.stage, self._now, self._now))

    def looks(self, node: int, report: NodeReport, profiles: Iterable[str]) -> None:
        """What this look said under the sweep's profiles; of each, the newest are kept, and this one, and those while we held the node:
        without them nobody could say later why it was returned.

        What seems to be later is of a clock that was wrong, or this sweep is an older one: it proves nothing any more.
        """
        self._db.execute("UPDATE look SET state = ? WHERE node = ? AND time > ?", (NodeState.UNKNOWN.value, node, self._now))
        against = json.dumps([(problem.rule, problem.subject, problem.status) for problem in _problems(report)
                              if problem.told[0] != Severity.INFO.value][:_AGAINST_KEPT])
        for profile in profiles:
            self._db.execute("INSERT INTO look (node, profile, time, state, against) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
                             "state = excluded.state, against = excluded.against",
                             (node, profile, self._now, report.state.value, against))
            old = self._db.execute("SELECT time FROM look WHERE node = ? AND profile = ? AND time != ? AND time NOT IN (SELECT time FROM "
                                   "look WHERE node = ? AND profile = ? ORDER BY time DESC LIMIT ?)",
                                   (node, profile, self._now, node, profile, _LOOKS_KEPT)).fetchall()
            holds = self._holds().get(node, ())
            self._db.executemany("DELETE FROM look WHERE node = ? AND profile = ? AND time = ?", [
                (node, profile, time) for (time,) in old if not any(began <= time <= ended for began, ended in holds)])

    def _holds(self) -> Mapping[int, list[tuple[float, float]]]:
        """By node from when to when we held it."""
        if self._held is None:
            self._held = defaultdict(list)
            for node, began, ended in self._db.execute(
                    "SELECT node.id, began, coalesce(ended, 9e99) FROM cordon JOIN node ON name = cordon.node ORDER BY began"):
                self._held[node].append((began, ended))
        return self._held

    def problems(self, node: int, report: NodeReport, seats: Mapping[str, int]) -> None:
        """Problems that go on, begin, and are seen to be gone."""
        found = {(problem.rule, problem.subject, problem.status): problem for problem in _problems(report)}
        held = {(row[1], row[2], row[3]): row[0] for row in self._db.execute(
            "SELECT id, rule, subject, status FROM problem WHERE node = ? AND ended IS NULL", (node,))}
        gone = {result.rule: _over(result) for result in report.results}
        if report.results:
            gone[UNREACHED] = (True, True)
        for key, number in held.items():
            fault, unmeasured = gone.get(key[0], (False, False))
            if key not in found and (fault if key[2] == Status.FAIL.value else unmeasured):
                self._db.execute("UPDATE problem SET ended = ? WHERE id = ?", (self._now, number))
        for key, problem in found.items():
            component = seats.get(problem.subject.partition(",")[0])
            if key in held:
                self._db.execute(
                    "UPDATE problem SET severity = ?, origin = ?, owner = ?, observed = ?, expected = ?, reason = ?, remedy = ?, "
                    "repair = ?, emitter = ?, ends = ?, seen = ?, sweeps = sweeps + 1, component = coalesce(?, component) WHERE id = ?",
                    (*problem.told, self._now, component, held[key]))
            else:
                self._db.execute(
                    "INSERT INTO problem (severity, origin, owner, observed, expected, reason, remedy, repair, emitter, ends, began, seen, "
                    "sweeps, node, rule, subject, status, component) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?)",
                    (*problem.told, self._now, self._now, node, *key, component))

    def seats(self, node: int, seen: Readings, alike: Collection[tuple[str, str]] = ()) -> dict[str, int]:
        """Where components sit now, and their counters; gives the components by the names that findings call them by.

        `alike` are numbers that tell nothing apart.
        """
        held = {row[1]: (row[0], row[2], row[3]) for row in self._db.execute(
            "SELECT seat.id, slot, component, kind FROM seat JOIN component ON component.id = component WHERE node = ? AND ended IS NULL",
            (node,))}
        named: dict[str, int] = {}
        for part in seen.components:
            if (part.kind, part.serial) in alike:
                continue
            self._db.execute("INSERT INTO component (kind, serial) VALUES (?, ?) ON CONFLICT DO NOTHING", (part.kind, part.serial))
            (number,) = self._db.execute("SELECT id FROM component WHERE kind = ? AND serial = ?", (part.kind, part.serial)).fetchone()
            # The kernel's log knows it by its place alone.
            named[part.name] = named[f"{part.kind.upper()} at PCI {part.slot}"] = number
            before = held.pop(part.slot, None)
            if before is not None and before[1] == number:
                self._db.execute("UPDATE seat SET seen = ? WHERE id = ?", (self._now, before[0]))
                continue
            # Here now, and so nowhere else; and whatever sat here has gone.
            self._db.execute("UPDATE seat SET ended = ? WHERE ended IS NULL AND (component = ? OR (node = ? AND slot = ?))",
                             (self._now, number, node, part.slot))
            self._db.execute("INSERT INTO seat (component, node, slot, began, seen) VALUES (?, ?, ?, ?, ?)",
                             (number, node, part.slot, self._now, self._now))
        for seat, _, kind in held.values():
            if kind in seen.kinds:
                self._db.execute("UPDATE seat SET ended = ? WHERE id = ?", (self._now, seat))
        self._counters(node, seen)
        if seen.boot:
            self._db.execute("INSERT INTO boot (node, boot, began, seen) VALUES (?, ?, ?, ?) "
                             "ON CONFLICT DO UPDATE SET seen = excluded.seen", (node, seen.boot, self._now, self._now))
        return named

    def _counters(self, node: int, seen: Readings) -> None:
        newest = {(row[0], row[1]): row[2] for row in self._db.execute(
            "SELECT slot, name, value, max(time) FROM counter WHERE node = ? GROUP BY slot, name", (node,))}
        self._db.executemany(
            "INSERT INTO counter (node, slot, name, time, value) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
            [(node, one.slot, one.name, self._now, one.value) for one in seen.counters if newest.get((one.slot, one.name)) != one.value])


def _problems(report: NodeReport) -> Iterable[_Problem]:
    if not report.results:      # not reached, or another machine answered, or it could not be judged: the reason says which
        # One that was not asked has not failed to answer: the two are counted apart.
        subject, blamed = (_NOT_ASKED, Origin.MUSTER) if report.stage in _NOT_ITS_FAULT else ("", Origin.NODE)
        yield _Problem(UNREACHED, subject, Status.UNKNOWN.value, (
            "critical", blamed.value, None, "", "", report.reason, "", None, *_NO_LOG))
    for result in report.results:
        owner = result.owner.value if result.owner is not None else None
        if result.status is Status.FAIL:
            for finding in result.findings:
                whose = finding.owner.value if finding.owner is not None else owner
                yield _Problem(result.rule, finding.subject, Status.FAIL.value, (
                    result.severity.value, None, whose, str(finding.observed), str(finding.expected), result.reason,
                    finding.remedy or result.remedy, finding.repair.value if finding.repair is not None else None,
                    finding.emitter, finding.log.ends if finding.log is not None else None))
        elif result.status is Status.UNKNOWN:
            origin = result.origin.value if result.origin is not None else None
            yield _Problem(result.rule, "", Status.UNKNOWN.value,
                           (result.severity.value, origin, None, "", "", result.reason, "", None, *_NO_LOG))


def _over(result: Result) -> tuple[bool, bool]:
    """Whether this result ends faults of its rule that it does not name, and whether it ends that the rule was not measured."""
    if result.status is Status.PASS:
        # Beside a PASS the reason says what it does not cover.
        return True, True
    if result.status is Status.FAIL:
        # What was not measured beside it may hold the faults that are not named.
        return not result.reason, True
    # A rule that the site has done away with accuses nobody any more; one that was merely not judged this time ends nothing.
    dropped = result.status is Status.SKIPPED and result.reason.startswith(_DROPPED)
    return dropped, dropped
