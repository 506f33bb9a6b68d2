"""The store's history, read once: problems, seats, boots, snapshots, states,
cordons and people's decisions, by node."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from healthcheck.model.faultkind import Isolation
from healthcheck.model.problem import Problem
from healthcheck.model.verdict import StoredIncident
from healthcheck.store.cordons import CordonState
from healthcheck.store.file import Store
from healthcheck.store.incidents import TRIAGE, incidents
from healthcheck.store.machines import AnotherMachine
from healthcheck.store.rmas import CHASSIS, Rma, rmas
from healthcheck.store.silences import Silence, everything
from healthcheck.store.versions import VersionSpan, history
from healthcheck.triage.gather import numbers_taken, repairs, unproven_by_bringup, where
from healthcheck.triage.past import OpenVerdict, Repaired

# The ledger's names for triage.
_BY_TRIAGE = "triage"


@dataclass(frozen=True)
class ProblemRow:
    """A problem as the newest sweep left it,
    its component's number and its place in the order of the store."""

    number: int
    problem: Problem
    component: int | None


@dataclass(frozen=True)
class PastSeat:
    """A component's past location."""

    component: int
    node: str
    slot: str
    kind: str
    serial: str
    began: float
    seen: float
    ended: float | None


@dataclass(frozen=True)
class PastState:
    """A node's past state."""

    state: str
    began: float
    seen: float
    ended: float | None


@dataclass(frozen=True)
class PastCordon:
    """A cordon of ours as it was. `verdict` is the last in whose name triage held it, None where a person
    made it; `back_by_triage`: triage released it, and no person."""

    id: int
    node: str
    backend: str
    why: str
    began: float
    ended: float | None
    verdict: int | None
    back_by_triage: bool
    incident: int = 0
    place: tuple[str, str] = ("", "")

    @property
    def by_triage(self) -> bool:
        """Whether triage made it."""
        return self.verdict is not None

    def holds(self, now: float) -> bool:
        """Whether it held at that time."""
        return self.began <= now and (self.ended is None or self.ended > now)


@dataclass(frozen=True)
class BreakerPeriod:
    """The breaker, from opening to closing; `by_person`: a person closed it."""

    opened: float
    why: str
    closed: float | None
    by_person: bool


class Sweeps:
    """The times of sweeps, and when their results were known; `broad` sweeps covered most nodes."""

    def __init__(self, rows: Iterable[tuple[float, float, str, int]]) -> None:
        every = sorted(rows)
        most = max((row[3] for row in every), default=0)
        self.known_at = {row[0]: max(row[0], row[1]) for row in every}
        self.broad = [row[0] for row in every if row[3] * 2 >= most]
        self.ends = [self.known_at[start] for start in self.broad]
        self._every = sorted(set(self.known_at.values()))
        self.first = every[0][0] if every else None

    def known(self, time: float) -> float:
        """When one can have known what is stored with that time."""
        return self.known_at.get(time, time)

    def next(self, time: float) -> float | None:
        """When the first sweep ended that had not ended before then."""
        at = bisect_left(self._every, time)
        return self._every[at] if at < len(self._every) else None

    def until(self, now: float) -> int:
        """How many broad sweeps had ended by then."""
        return bisect_right(self.ends, now)

    def between(self, first: float, last: float) -> int:
        """How many broad sweeps began from then to then."""
        return bisect_right(self.broad, last) - bisect_left(self.broad, first)


@dataclass
class StoreHistory:
    """All of it. Lists are in the order of the store."""

    sweeps: Sweeps
    problems: dict[str, list[ProblemRow]] = field(default_factory=lambda: defaultdict(list))
    of_component: dict[int, list[ProblemRow]] = field(default_factory=lambda: defaultdict(list))
    seats: dict[str, list[PastSeat]] = field(default_factory=lambda: defaultdict(list))
    chassis: dict[str, list[PastSeat]] = field(default_factory=lambda: defaultdict(list))
    boots: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    snapshots: dict[str, list[tuple[float, str, frozenset[str]]]] = field(
        default_factory=lambda: defaultdict(list))
    states: dict[str, list[PastState]] = field(default_factory=lambda: defaultdict(list))
    parts: list[PastSeat] = field(default_factory=list)
    repairs: dict[str, list[Repaired]] = field(default_factory=lambda: defaultdict(list))
    rmas: dict[str, list[Rma]] = field(default_factory=lambda: defaultdict(list))
    leases: dict[str, list[tuple[float, float | None, str]]] = field(
        default_factory=lambda: defaultdict(list))
    silences: dict[str, list[Silence]] = field(default_factory=lambda: defaultdict(list))
    cordons: dict[str, list[PastCordon]] = field(default_factory=lambda: defaultdict(list))
    verdicts: dict[str, list[tuple[OpenVerdict, float | None]]] = field(
        default_factory=lambda: defaultdict(list))
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    breaker: list[BreakerPeriod] = field(default_factory=list)
    incidents: list[StoredIncident] = field(default_factory=list)
    held: list[VersionSpan] = field(default_factory=list)
    takes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    machines: Mapping[str, AnotherMachine] = field(default_factory=dict)

    @property
    def closings(self) -> list[StoredIncident]:
        """Incidents that a person closed."""
        return [one for one in self.incidents if one.ended is not None and one.by != TRIAGE]


def read(store: Store, profile: str, since: float) -> StoreHistory:
    """The history since a time, and earlier data that still counts;
    `profile` is that of requalification. Raises StoreError."""
    found = StoreHistory(
        Sweeps(tuple(row) for row in store.rows(
            "SELECT started, finished, profiles, nodes + left_out FROM sweep")))
    for rma in rmas(store):
        found.rmas[rma.node].append(rma)
    _seats(store, found, _problems(store, found, since), since)
    for name, began in store.rows(
            "SELECT name, began FROM boot JOIN node ON node.id = boot.node ORDER BY name, began"):
        found.boots[name].append(began)
    for name, time, state, measured in store.rows(
            "SELECT name, time, state, measured FROM snapshot JOIN node ON node.id = snapshot.node "
            "WHERE profile = ? ORDER BY name, time", profile):
        found.snapshots[name].append((time, state, frozenset(json.loads(measured))))
    for name, *values in store.rows("SELECT name, state, began, seen, ended FROM spell "
                                    "JOIN node ON node.id = spell.node ORDER BY name, began"):
        found.states[name].append(PastState(*values))
    found.repairs = repairs(store, since)
    for nodes, name, why, began, ended in store.rows(
            "SELECT nodes, name, why, began, ended FROM lease ORDER BY id"):
        for node in json.loads(nodes):
            found.leases[node].append((began, ended, f"it is leased as {name}: {why}"))
    for silence in everything(store):
        for node in silence.nodes:
            found.silences[node].append(silence)
    _cordons(store, found)
    for name, ended, number, fault, isolation, began, incident in store.rows(
            "SELECT name, ended, verdict.id, fault, isolation, began, coalesce(incident, 0) FROM verdict "
            "JOIN node ON node.id = verdict.node WHERE ended IS NULL OR ended >= ? ORDER BY verdict.id",
            since):
        found.verdicts[name].append((OpenVerdict(number, fault, Isolation(isolation), began, incident),
                                     ended))
    for name, driver, kernel, firmware in store.rows(
            "SELECT name, driver, kernel, firmware FROM newest JOIN node ON node.id = newest.node "
            "WHERE driver || kernel || firmware != ''"):
        found.versions[name] = {"driver": driver, "kernel": kernel, "firmware": firmware}
    found.breaker = [BreakerPeriod(row[0], row[1], row[2], row[3] is not None) for row in store.rows(
        "SELECT opened, why, closed, who FROM breaker ORDER BY id")]
    found.incidents = incidents(store, since)
    found.held, found.takes = history(store, since), numbers_taken(store)
    found.machines = unproven_by_bringup(store)
    return found


def _problems(store: Store, found: StoreHistory, since: float) -> set[int]:
    for row in store.rows(
            "SELECT problem.id, component, name AS node, rule, subject, status, severity, origin, owner, "
            "observed, expected, reason, remedy, began, seen, ended, sweeps, kind, serial, repair, emitter, "
            "ends FROM problem JOIN node ON node.id = problem.node "
            "LEFT JOIN component ON component.id = component WHERE ended IS NULL OR ended >= ? "
            "ORDER BY problem.id", since):
        number, component, *values = tuple(row)
        one = ProblemRow(number, Problem(*values), component)
        found.problems[one.problem.node].append(one)
        if component is not None:
            found.of_component[component].append(one)
    return set(found.of_component)


def _seats(store: Store, found: StoreHistory, components: set[int], since: float) -> None:
    """Of the seats, which are many, those of components that have a history, of chassis,
    and of what went to the vendor."""
    away = [rma for each in found.rmas.values() for rma in each]
    serials = {word.lower() for rma in away for word in (rma.serial, rma.new) if word}
    slots = {(rma.node, rma.slot or CHASSIS) for rma in away}
    for component, *values in store.rows(
            "SELECT component, name, slot, kind, serial, began, seen, ended FROM seat "
            "JOIN node ON node.id = seat.node JOIN component ON component.id = component "
            "WHERE slot = 'chassis' OR component IN (SELECT component FROM problem "
            "WHERE component IS NOT NULL AND (ended IS NULL OR ended >= ?)) OR EXISTS (SELECT 1 FROM rma "
            "WHERE rma.node = name AND rma.slot = seat.slot) OR component IN (SELECT component.id "
            "FROM component JOIN rma ON component.serial = rma.serial COLLATE NOCASE "
            "OR component.serial = substr(outcome, 11) COLLATE NOCASE) ORDER BY seat.id", since):
        seat = PastSeat(component, *values)
        if seat.slot == CHASSIS:
            found.chassis[seat.node].append(seat)
        if component in components:
            found.seats[seat.node].append(seat)
        if seat.serial.lower() in serials or (seat.node, seat.slot) in slots:
            found.parts.append(seat)


def _cordons(store: Store, found: StoreHistory) -> None:
    """Cordons that were made, and who ended each:
    of several words in the ledger on one node the last before its end."""
    back = {(row[0], row[1]): str(row[2]).partition(" ")[0] == _BY_TRIAGE for row in store.rows(
        "SELECT node, finished, who FROM ledger WHERE action = 'uncordon' AND outcome = 'released'")}
    for number, node, backend, why, began, ended, state, verdict, incident, place in store.rows(
            "SELECT cordon.id, cordon.node, backend, cordon.why, began, ended, state, verdict, "
            "coalesce(incident, 0), place FROM cordon LEFT JOIN ledger ON ledger.id = line "
            "WHERE coalesce(outcome, '') NOT LIKE 'not done%' ORDER BY cordon.id"):
        # Without a ledger entry the release counts as triage's.
        released = state == CordonState.RELEASED.value and back.get((node, ended), True)
        found.cordons[node].append(PastCordon(number, node, backend, why, began, ended, verdict, released,
                                            incident, where(place)))
