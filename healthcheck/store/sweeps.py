"""Writes a sweep into the store, in one transaction: only what changed since the one before takes room.

What one sweep cannot see it cannot end: a fault of a rule that was not judged this time, or could not be
measured, stays as it was; that of a rule that is in no folder any more accuses no one. One that a kernel log
reported stays until its end is proven (`healthcheck.store.logproof`), and keeps the node from being healthy
until then.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from healthcheck.model.cause import causes, is_explained, rest
from healthcheck.model.firmware import SWEEP
from healthcheck.model.outcome import (
    Finding,
    LogView,
    NodeReport,
    NodeState,
    Origin,
    Result,
    Severity,
    Status,
    origin_of,
)
from healthcheck.store import newest, versions
from healthcheck.store.accused import lasts
from healthcheck.store.ahead import put_right
from healthcheck.store.clock import AHEAD_S, UNSET_S
from healthcheck.store.file import Store
from healthcheck.store.firmware import write_reading
from healthcheck.store.follow import follow
from healthcheck.store.hardware import write_hardware, write_machine
from healthcheck.store.leftout import end_left_out, write_left_out
from healthcheck.store.logproof import Reported, number, proven
from healthcheck.store.logtime import by_clock
from healthcheck.store.readings import Component, NodeReadings
from healthcheck.store.rows import insert, node_numbers
from healthcheck.store.versions import Version
from inventory.errors import StoreError
from inventory.text import fit
from inventory.times import day

# A problem of the node itself, in a sweep that could not judge it, has no rule.
UNREACHED = ""
_NOTHING: Mapping[str, NodeReadings] = {}
_NOT_ASKED = "not asked"
_LOOKS_KEPT = 4             # of a node under a profile: what requalification looks back on
# emitter, ending, record and time of a problem that was read from no log
_NO_LOG = (None, None, None, None)
_WORST_FIRST = (NodeState.UNHEALTHY, NodeState.UNKNOWN, NodeState.DEGRADED, NodeState.HEALTHY)
# How the reasons of rules begin that are not for this node, whatever it shows.
_DROPPED = ("disabled in ", "the SKU ", "there are no ")


@dataclass(frozen=True)
class SweepRecord:
    """What is stored of a sweep as a whole. Times are epoch seconds. `selected`: not all rules were judged,
    by --only or --skip. `versions` are what it was judged by, `who` ran it."""

    started: float
    finished: float
    partial: bool
    source: str
    rules: str
    profiles: tuple[str, ...] = ()
    selected: bool = False
    versions: tuple[Version, ...] = ()
    who: str = ""


def record(
    store: Store, sweep: SweepRecord, reports: Iterable[NodeReport],
    readings: Mapping[str, NodeReadings] = _NOTHING, *, clock: Callable[[], float] = time.time,
) -> tuple[NodeReport, ...]:
    """Stores a sweep and gives its reports by what the store knows beside: a rule by which a kernel log
    reported what nothing has proven to have ended fails, though this sweep did not see it. Raises StoreError,
    and stores nothing of it.

    A node that was not asked before the sweep was interrupted is left as it was, and so is one that was left
    out, beside which its agent's evidence is kept (`healthcheck.store.leftout`). Some rules alone give no
    state: they tell of their faults. What is stored as later than now by `clock`, and than this sweep, was
    stored by a clock that was ahead; what of it the sweep touches is put right.
    """
    reports = tuple(reports)
    if sweep.started < UNSET_S and store.rows("SELECT 1 FROM sweep WHERE started >= ? LIMIT 1", UNSET_S):
        date = day(sweep.started)
        raise StoreError(f"{store.path}: this head's clock is not set, it says {date} (see: timedatectl): "
                         "nothing is stored by it")
    known: dict[str, NodeReport] = {}
    left = {report.node: report.agent for report in reports if report.agent is not None}
    kept = [report for report in reports if report.node not in left
            and (report.results or report.stage is not None or not sweep.partial)]
    with store.writing() as db:
        unreached = sum(report.stage is not None for report in kept)
        insert(db, "sweep", started=sweep.started, finished=sweep.finished, partial=sweep.partial,
               source=sweep.source, rules=sweep.rules, profiles=" ".join(sweep.profiles), nodes=len(kept),
               unreached=unreached, left_out=len(left))
        nodes = node_numbers(db, [*(report.node for report in kept), *left])
        write_left_out(db, sweep.started, {nodes[name]: evidence for name, evidence in left.items()})
        end_left_out(db, [nodes[report.node] for report in kept])
        latest = max(sweep.finished, clock()) + AHEAD_S
        put_right(db, sweep.started, latest)
        there = frozenset(one.name for one in sweep.versions if one.kind == "rule")
        writer = _Writer(db, sweep.started, latest, there)
        ambiguous = _ambiguous(readings)
        # several that are equal come with an image, and tell nothing
        machines = Counter(seen.machine for seen in readings.values())
        _versions(db, sweep, kept, readings, latest)
        for report in kept:
            node = nodes[report.node]
            seats = writer.seats(node, readings[report.node], ambiguous) if report.node in readings else {}
            if report.node in readings and (hardware := readings[report.node].hardware) is not None:
                write_hardware(db, node, sweep.started, hardware)
            if report.node in readings and (firmware := readings[report.node].firmware) is not None:
                write_reading(db, node, SWEEP, sweep.started, firmware, latest)
            if (report.node in readings and (machine := readings[report.node].machine)
                and machines[machine] == 1):
                write_machine(db, node, sweep.started, machine)
            alive = writer.problems(node, report, seats)
            judged = known[report.node] = _with_alive(report, alive)
            if not sweep.selected or not report.results:
                writer.state(node, judged)
                writer.looks(node, judged, sweep.profiles)
                seen = readings[report.node].shown if report.node in readings else None
                newest.write(db, node, sweep.started, sweep.rules, judged, seen)
        follow(db, sweep.started)
    return tuple(known.get(report.node, report) for report in reports)


def _versions(
    db: sqlite3.Connection, sweep: SweepRecord, kept: list[NodeReport], readings: Mapping[str, NodeReadings],
    latest: float,
) -> None:
    """What it was judged by, of rules those that it judged; and which nodes run another driver,
    kernel or firmware than before."""
    if sweep.versions:
        rules = {one.name for one in sweep.versions if one.kind == "rule"}
        for report in kept:
            for result in report.results:
                if result.rule in rules and result.status is not Status.SKIPPED:
                    rules.discard(result.rule)
        versions.note(db, sweep.versions, sweep.who, sweep.started, rules, latest)
    versions.note_nodes(db, ((report.node, seen) for report in kept if report.node in readings
                             and (seen := readings[report.node].shown) is not None), sweep.who, sweep.started,
                        latest)


def _ambiguous(readings: Mapping[str, NodeReadings]) -> set[tuple[str, str]]:
    """Serial numbers that several places show in one sweep, such as a maker's placeholder:
    nothing can be followed by them."""
    shown = Counter((part.kind, part.serial) for seen in readings.values() for part in seen.components)
    return {key for key, places in shown.items() if places > 1}


@dataclass(frozen=True)
class _Problem:
    """The key that identifies a problem across sweeps, and its values."""

    rule: str
    subject: str
    status: str
    values: tuple[str | int | float | None, ...]


@dataclass(frozen=True)
class _Alive:
    """A problem that a kernel log reported, that this sweep did not see,
    and of which nothing proves the end."""

    rule: str
    subject: str
    severity: Severity
    ends: str


def _with_alive(report: NodeReport, alive: Iterable[_Alive]) -> NodeReport:
    """The report of a node that is no better than what has not ended there,
    of which the rule fails if it was judged."""
    worst = {Severity.CRITICAL: NodeState.UNHEALTHY, Severity.WARNING: NodeState.DEGRADED}
    for one in alive:
        report = replace(report, results=tuple(_failing(result, one) if result.rule == one.rule else result
                                               for result in report.results))
        state = worst.get(one.severity)
        if state is None:
            continue
        said = (f"{one.rule}: {one.subject}: reported before, and nothing shows that it ended (by "
                f"{one.ends}); if somebody repaired it: muster repaired {report.node}")
        better = _WORST_FIRST.index(state) > _WORST_FIRST.index(report.state)
        if better and (report.state is not NodeState.UNKNOWN or not report.results):
            continue
        # Before what could not be measured, as among results of one sweep.
        said_by = ((said, report.reason) if better
                   else (report.reason, said) if state is report.state and report.reason else (said,))
        report = replace(report, state=report.state if better else state, reason=fit(said_by, 1000))
    return report


def _failing(result: Result, one: _Alive) -> Result:
    """The result of its rule, which finds it, too."""
    found = Finding("reported before", f"a proof that it has ended (by {one.ends})", one.subject)
    return replace(result, status=Status.FAIL, findings=(*result.findings, found))


class _Writer:
    """Changes of one sweep, at one time."""

    def __init__(
        self, db: sqlite3.Connection, now: float, latest: float, there: Collection[str] = (),
    ) -> None:
        """What is later than `latest` was stored by a clock that was ahead. `there` are the rules that there
        are, empty where that is not known."""
        self._db = db
        self._now = now
        self._latest = latest
        self._there = there
        self._held: dict[int, list[tuple[float, float]]] | None = None

    def state(self, node: int, report: NodeReport) -> None:
        """The node's state goes on, or another begins."""
        held = self._db.execute("SELECT id, state FROM spell WHERE node = ? AND ended IS NULL",
                                (node,)).fetchone()
        if held is not None and held[1] == report.state.value:
            self._db.execute(
                "UPDATE spell SET began = min(began, ?), seen = ?, sweeps = sweeps + 1, reason = ?, "
                "stage = ? WHERE id = ?", (self._now, self._now, report.reason, report.stage, held[0]))
            return
        if held is not None:
            self._end("spell", held[0])
        insert(self._db, "spell", node=node, state=report.state.value, reason=report.reason,
               stage=report.stage, began=self._now, seen=self._now, sweeps=1)

    def _end(self, table: str, number: int) -> None:
        """It ends now, and did not begin after that, whatever the clock said then."""
        self._db.execute(f"UPDATE {table} SET ended = ?, began = min(began, ?), seen = min(seen, ?) "  # noqa: S608  (our own names)
                         "WHERE id = ?", (self._now, self._now, self._now, number))

    def looks(self, node: int, report: NodeReport, profiles: Iterable[str]) -> None:
        """What this look said under the sweep's profiles; of each, the newest are kept, and this one, those
        while we held the node, without which no one could say later why it was returned, and those that have
        proven the machine that has the name now.

        What seems to be later is of a clock that was wrong, or this sweep is an older one:
        it proves nothing any more.
        """
        self._db.execute("DELETE FROM snapshot WHERE node = ? AND time > ?", (node, self._latest))
        self._db.execute("UPDATE snapshot SET state = ? WHERE node = ? AND time > ?",
                         (NodeState.UNKNOWN.value, node, self._now))
        measured = json.dumps(self._measured(node, report))
        for profile in profiles:
            self._db.execute(
                "INSERT INTO snapshot (node, profile, time, state, measured) VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT DO UPDATE SET state = excluded.state, measured = excluded.measured",
                (node, profile, self._now, report.state.value, measured))
            old = self._db.execute("SELECT time FROM snapshot WHERE node = ? AND profile = ? AND time != ? "
                                   "AND time NOT IN (SELECT time FROM snapshot WHERE node = ? "
                                   "AND profile = ? ORDER BY time DESC LIMIT ?)",
                                   (node, profile, self._now, node, profile, _LOOKS_KEPT)).fetchall()
            holds = self._holds().get(node, ())
            proofs = self._proofs(node, profile) if old else frozenset()
            self._db.executemany("DELETE FROM snapshot WHERE node = ? AND profile = ? AND time = ?",
                                 [(node, profile, time) for (time,) in old if time not in proofs
                                  and not any(began <= time <= ended for began, ended in holds)])

    def _proofs(self, node: int, profile: str) -> frozenset[float]:
        """When a node of which a part was ever another was clean, first and last since the oldest of its
        parts came: what is wrong later does not make it unproven."""
        times = [row[0] for row in self._db.execute(
            "SELECT time FROM snapshot WHERE node = ?1 AND profile = ?2 AND state = ?3 AND time > "
            "(SELECT min(began) FROM seat WHERE node = ?1 AND ended IS NULL AND EXISTS "
            "(SELECT 1 FROM seat WHERE node = ?1 AND ended IS NOT NULL)) ORDER BY time",
            (node, profile, NodeState.HEALTHY.value))]
        return frozenset({*times[:_LOOKS_KEPT], *times[-_LOOKS_KEPT:]})

    def _measured(self, node: int, report: NodeReport) -> list[str]:
        """The rules that have had a problem on the node and that this look measured;
        those that the site has done away with are, too."""
        rules = {row[0] for row in self._db.execute("SELECT DISTINCT rule FROM problem WHERE node = ?",
                                                    (node,))}
        return sorted([*(result.rule for result in report.results if result.rule in rules and (
            result.status in (Status.PASS, Status.FAIL) or _dropped(result))), *filter(self._removed, rules)])

    def _removed(self, rule: str) -> bool:
        """Whether the site has taken the rule away; what a burn-in found was never of one."""
        return bool(self._there) and bool(rule) and rule not in self._there and not lasts(rule)

    def _holds(self) -> Mapping[int, list[tuple[float, float]]]:
        """By node from when to when we held it."""
        if self._held is None:
            self._held = defaultdict(list)
            for node, began, ended in self._db.execute("SELECT node.id, began, coalesce(ended, 9e99) "
                                                       "FROM cordon JOIN node ON name = cordon.node "
                                                       "ORDER BY began"):
                self._held[node].append((began, ended))
        return self._held

    def problems(self, node: int, report: NodeReport, seats: Mapping[str, int]) -> list[_Alive]:
        """Problems that go on, begin, and are seen to be gone; gives those of kernel logs that are not seen
        any more and have not ended."""
        found = {(problem.rule, problem.subject, problem.status): problem
                 for problem in _problems(report, self._now)}
        held = {(row[1], row[2], row[3]): tuple(row) for row in self._db.execute(
            "SELECT id, rule, subject, status, severity, coalesce(ends, ''), coalesce(boot, ''), sequence "
            "FROM problem WHERE node = ? AND ended IS NULL", (node,))}
        results = {result.rule: result for result in report.results}
        gone = {rule: _over(result) for rule, result in results.items()}
        if report.results:
            gone[UNREACHED] = (True, True)
        alive: list[_Alive] = []
        for key, (problem_id, rule, subject, status, severity, ends, boot, sequence) in held.items():
            if key in found:
                continue
            fault, unmeasured = gone.get(rule, (False, False))
            if self._removed(rule):
                over = bool(report.results)
            elif status != Status.FAIL.value:
                over = unmeasured
            elif ends:
                over = (rule in results
                        and _log_over(results[rule], Reported(subject, ends, boot, sequence), report.log))
            else:
                over = fault
            if over:
                self._end("problem", problem_id)
            elif ends and report.results:
                alive.append(_Alive(rule, subject, Severity(severity), ends))
                if not boot and report.log is not None and report.log.boot:
                    # It was reported in this boot or before it: whatever boot comes next is another.
                    self._db.execute("UPDATE problem SET boot = ? WHERE id = ?",
                                     (report.log.boot, problem_id))
        in_boot = report.log.boot if report.log is not None else ""
        for key, problem in found.items():
            component = seats.get(problem.subject.partition(",")[0])
            of_log = in_boot if problem.values[-3] else None
            if key in held:
                self._db.execute(
                    "UPDATE problem SET severity = ?, origin = ?, owner = ?, observed = ?, expected = ?, "
                    "reason = ?, remedy = ?, repair = ?, emitter = ?, ends = ?, sequence = ?, at = ?, boot = "
                    "?, seen = ?, sweeps = sweeps + 1, component = coalesce(?, component), "
                    "began = min(began, ?) WHERE id = ?",
                    (*problem.values, of_log, self._now, component, self._now, held[key][0]))
            else:
                self._db.execute(
                    "INSERT INTO problem (severity, origin, owner, observed, expected, reason, remedy, "
                    "repair, emitter, ends, sequence, at, boot, began, seen, sweeps, node, rule, subject, "
                    "status, component) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?, "
                    "?, ?)",
                    (*problem.values, of_log, self._now, self._now, node, *key, component))
        return alive

    def seats(
        self, node: int, seen: NodeReadings, ambiguous: Collection[tuple[str, str]] = (),
    ) -> dict[str, int]:
        """Where components sit now, and their counters;
        gives the components by the names that findings call them by.

        `ambiguous` are numbers that tell nothing apart.
        """
        held = {row[1]: (row[0], row[2], row[3], row[4])
                for row in self._db.execute("SELECT seat.id, slot, component, kind, serial FROM seat "
                                            "JOIN component ON component.id = component WHERE node = ? "
                                            "AND ended IS NULL", (node,))}
        named: dict[str, int] = {}
        stay: list[int] = []
        for part in seen.components:
            if (part.kind, part.serial) in ambiguous:
                continue
            before = held.pop(part.slot, None)
            if before is not None and before[2:] == (part.kind, part.serial):
                named.update(dict.fromkeys(_names(part), before[1]))
                stay.append(before[0])
                continue
            self._db.execute("INSERT INTO component (kind, serial) VALUES (?, ?) ON CONFLICT DO NOTHING",
                             (part.kind, part.serial))
            (number,) = self._db.execute("SELECT id FROM component WHERE kind = ? AND serial = ?",
                                         (part.kind, part.serial)).fetchone()
            named.update(dict.fromkeys(_names(part), number))
            # Here now, and so nowhere else; and whatever sat here has gone.
            self._db.execute("UPDATE seat SET ended = ?, began = min(began, ?), seen = min(seen, ?) "
                             "WHERE ended IS NULL AND (component = ? OR (node = ? AND slot = ?))",
                             (self._now, self._now, self._now, number, node, part.slot))
            insert(self._db, "seat", component=number, node=node, slot=part.slot, began=self._now,
                   seen=self._now)
        # What was taken from a seat further up, by one that had its number, stays no longer.
        self._db.executemany("UPDATE seat SET seen = ?, began = min(began, ?) WHERE id = ? AND ended IS NULL",
                             [(self._now, self._now, seat) for seat in stay])
        for seat, _, kind, _ in held.values():
            if kind in seen.kinds:
                self._end("seat", seat)
        self._counters(node, seen)
        if seen.boot:
            self._db.execute("INSERT INTO boot (node, boot, began, seen) VALUES (?, ?, ?, ?) "
                             "ON CONFLICT DO UPDATE SET seen = excluded.seen, "
                             "began = min(began, excluded.began)",
                             (node, seen.boot, self._now, self._now))
        return named

    def _counters(self, node: int, seen: NodeReadings) -> None:
        self._db.execute("UPDATE OR REPLACE counter SET time = ? WHERE node = ? AND time > ?",
                         (self._now, node, self._latest))
        newest = {(row[0], row[1]): row[2] for row in self._db.execute(
            "SELECT slot, name, value, max(time) FROM counter WHERE node = ? GROUP BY slot, name", (node,))}
        self._db.executemany("INSERT INTO counter (node, slot, name, time, value) VALUES (?, ?, ?, ?, ?) "
                             "ON CONFLICT DO UPDATE SET value = excluded.value",
                             [(node, one.slot, one.name, self._now, one.value) for one in seen.counters
                              if newest.get((one.slot, one.name)) != one.value])


def _names(part: Component) -> tuple[str, ...]:
    """What findings call a part. The kernel's log knows it by its place alone, mostly without function."""
    at = f"{part.kind.upper()} at PCI {part.slot}"
    return part.name, at, at.rpartition(".")[0] or at


def _problems(report: NodeReport, now: float) -> Iterable[_Problem]:
    """What is wrong, and what could not be measured; what a fault leaves unmeasured is that fault's. Times of
    kernel lines are by the clock, since what is kept is read later; `now` is the sweep's time."""
    # not reached, or another machine answered, or it could not be judged: the reason says which
    if not report.results:
        # One that was not asked has not failed to answer: the two are counted apart.
        subject, blamed = (("", Origin.NODE) if origin_of(report) is Origin.NODE
                           else (_NOT_ASKED, Origin.MUSTER))
        yield _Problem(UNREACHED, subject, Status.UNKNOWN.value, (
            "critical", blamed.value, None, "", "", report.reason, "", None, *_NO_LOG))
    left = {(cause.rule, cause.finding.subject): cause.unjudged for cause in causes(report.results)}
    for result in report.results:
        owner = result.owner.value if result.owner is not None else None
        if result.status is Status.FAIL:
            for finding in result.findings:
                whose = finding.owner.value if finding.owner is not None else owner
                beside = left.get((result.rule, finding.subject))
                said = by_clock(str(finding.observed), report.log, finding.log, now, ages=False)
                observed = f"{said}; {beside}" if beside else said
                yield _Problem(result.rule, finding.subject, Status.FAIL.value, (
                    result.severity.value, None, whose, observed, str(finding.expected),
                    result.reason, finding.remedy or result.remedy,
                    finding.repair.value if finding.repair is not None else None,
                    finding.emitter, *_of_log(finding)))
        elif result.status is Status.UNKNOWN and not is_explained(result):
            origin = result.origin.value if result.origin is not None else None
            yield _Problem(result.rule, "", Status.UNKNOWN.value,
                           (result.severity.value, origin, None, "", "", rest(result), "", None, *_NO_LOG))


def _over(result: Result) -> tuple[bool, bool]:
    """Whether this result ends faults of its rule that it does not name,
    and whether it ends that the rule was not measured."""
    if result.status is Status.PASS:
        # Beside a PASS the reason says what it does not cover.
        return True, True
    if result.status is Status.FAIL:
        # What was not measured beside it may hold the faults that are not named.
        return not result.reason, True
    if is_explained(result):
        return False, True      # the cause is a fault of its own, and ends by itself
    # A rule that the site has done away with accuses no one any more;
    # one that was merely not judged this time ends nothing.
    return _dropped(result), _dropped(result)


def _dropped(result: Result) -> bool:
    return result.status is Status.SKIPPED and result.reason.startswith(_DROPPED)


def _log_over(result: Result, reported: Reported, view: LogView | None) -> bool:
    """Whether this result of its rule, which does not name it, ends what a kernel log reported."""
    if _dropped(result):
        return True
    return result.status in (Status.PASS, Status.FAIL) and view is not None and proven(reported, view)


def _of_log(finding: Finding) -> tuple[str | None, int | None, float | None]:
    """Ending, record and time of the newest report."""
    log = finding.log
    return (log.ends, number(log.newest), log.last) if log is not None else (None, None, None)
