"""Reads the store, once, into what triage knows of the fleet."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from healthcheck.model.faultkind import FaultKind, Isolation
from healthcheck.model.problem import Problem
from healthcheck.model.verdict import RMA
from healthcheck.store import fabricfindings, watched
from healthcheck.store.bringupnotes import DONE
from healthcheck.store.clock import AHEAD_S, in_future
from healthcheck.store.cordons import CordonState
from healthcheck.store.fabricfindings import FabricTrouble
from healthcheck.store.file import Store
from healthcheck.store.hardware import new_since, newest_hardware
from healthcheck.store.incidents import incidents, next_number
from healthcheck.store.leases import leased_nodes
from healthcheck.store.machines import AnotherMachine, another_machines
from healthcheck.store.marks import CordonMark
from healthcheck.store.repairs import word_of
from healthcheck.store.rmas import Rma, alarms, rmas
from healthcheck.store.verdicts import UNDER
from healthcheck.store.versions import (
    OF_NODES,
    POLICY,
    VersionSpan,
    content_of,
    history,
    pending,
    policies,
    rules_now,
)
from healthcheck.triage.decidedby import decided_by, faults_of
from healthcheck.triage.faults import accuses
from healthcheck.triage.fleetlots import RULES as LOT_RULES
from healthcheck.triage.lots import PartLot
from healthcheck.triage.partslist import parts_of
from healthcheck.triage.past import (
    NONE_SILENCED,
    REPAIRED,
    RETURNED,
    Anew,
    FleetHistory,
    Isolated,
    NodeHistory,
    OpenCordon,
    OpenVerdict,
    Repaired,
    RequalifySnapshot,
    SilencedHistory,
    VersionChange,
)
from healthcheck.triage.policy import TriagePolicy
from inventory.model import Node

_DAY = 86400.0
_PROBLEM = ("SELECT name AS node, rule, subject, status, severity, origin, owner, observed, expected, "
            "reason, remedy, began, seen, ended, sweeps, kind, serial, repair, emitter, ends, problem.node "
            "AS at, component FROM problem JOIN node ON node.id = problem.node "
            "LEFT JOIN component ON component.id = component WHERE ")
# Of the seats, which are many, those of components that have a history;
# and since when the chassis of each node is there.
_SEATS = ("SELECT name, component FROM seat JOIN node ON node.id = seat.node WHERE seat.ended IS NULL "
          "AND component IN (SELECT component FROM problem WHERE component IS NOT NULL AND (ended IS NULL "
          "OR ended >= ?))")
_CHASSIS = ("SELECT name, began FROM node CROSS JOIN seat ON seat.node = node.id AND slot = 'chassis' "
            "AND ended IS NULL")
# Boots of the window, and of each node the one before, which says that the first of these was a reboot.
_BOOTS = ("SELECT name, began FROM (SELECT node, max(began) AS began FROM boot WHERE began < ?1 "
          "GROUP BY node UNION ALL SELECT node, began FROM boot WHERE began >= ?1) "
          "JOIN node ON node.id = node ORDER BY name, began")
# Actions of the ledger that are repairs, and how the outcome of one begins that came to a good end.
_REPAIRS = ("reboot", "reset-gpu", "restart-service", REPAIRED)
_DONE = ("done", "rebooted")
_NONE_MEASURED: frozenset[str] = frozenset()
_NOTHING_HERE: frozenset[int] = frozenset()

Silenced = Callable[[Problem], bool]
Lost = Callable[[str, str, CordonMark], str]
Others = Callable[[str], str]


# What a `lost` says of a node that is no longer the one that our cordon was set on: no person gave it back.
ANEW = "it registered or was installed anew"


def _never(problem: Problem) -> bool:
    return False


def _no_one(node: str) -> str:
    return ""


def _held(node: str, backend: str, mark: CordonMark) -> str:
    return ""


def window(policy: TriagePolicy) -> float:
    """How far back a policy looks, in seconds."""
    return max(policy.repeat.days, policy.climb.days, policy.flap.hours / 24) * _DAY


def gather(
    store: Store, nodes: Iterable[Node], policy: TriagePolicy, now: float, *, silenced: Silenced = _never,
    lost: Lost = _held, others: Others = _no_one, delivered: Mapping[str, PartLot] | None = None,
) -> FleetHistory:
    """The fleet as the store knows it at `now`; raises StoreError.

    `silenced` says of a problem whether a person wants to hear of it. `lost(node, backend, mark)` says who
    holds the node instead where the back end no longer shows our cordon, and nothing where it does;
    `others(node)` who else keeps jobs away from it. `delivered` is a delivery list of parts.
    """
    since = now - window(policy)
    there = _Memory(store, policy, now, since, silenced, lost)
    # Whoever closes the breaker has looked at what was isolated until then; where it closed by itself, no one
    # has. Until then is by the order of actions: one that was closed by a clock that ran ahead would hide all
    # isolations until that time has come.
    closed = store.rows("SELECT coalesce(max(seen), 0) FROM breaker WHERE who IS NOT NULL")[0][0]
    # What was cut short, and found undone later, may have been done and undone: it takes room.
    opened = store.rows("SELECT opened, why FROM breaker WHERE closed IS NULL")
    histories = tuple(there.past(node, others(node.name)) for node in nodes)
    # Lots are looked at where anything is wrong that a part can cause.
    wrong = any(problem.rule in LOT_RULES for past in histories for problem in past.problems)
    return FleetHistory(
        now, histories,
        tuple(Isolated(node, began, incident, where(place)) for node, began, incident, place in store.rows(
            "SELECT cordon.node, began, coalesce(incident, 0), place FROM cordon "
            "JOIN ledger ON ledger.id = line WHERE verdict IS NOT NULL AND began > ? AND cordon.id > ? "
            "AND coalesce(outcome, '') NOT LIKE 'not done:%'", now - policy.breaker.hours * 3600, closed)),
        opened[0][0] if opened else None, opened[0][1] if opened else "",
        _remembered(store, now, since),
        tuple(incidents(store, min(since, now - policy.incidents.reopen_days * _DAY))), next_number(store),
        changes=tuple(one for one in there.changes if one.kind not in OF_NODES),
        every_change=tuple(one for one in there.every_change if one.kind not in OF_NODES),
        rmas=tuple(there.rmas), alarms=there.alarms, fabric=tuple(there.fabric),
        parts=parts_of({name: seen for name, (_, seen) in newest_hardware(store).items()}, delivered or {})
        if wrong else {})


def where(said: str) -> tuple[str, str]:
    """The kind and the name of a place as a cordon remembers it."""
    kind, _, name = said.partition(" ")
    return kind, name


def _remembered(store: Store, now: float, since: float) -> float:
    """Since when faults are remembered: a store that is younger than the window
    knows of none before its first sweep."""
    first = store.rows("SELECT min(started) FROM sweep")[0][0]
    return max(since, first) if first is not None else now


class _Memory:
    """What the store holds of all nodes, by node."""

    def __init__(
        self, store: Store, policy: TriagePolicy, now: float, since: float, silenced: Silenced, lost: Lost,
    ) -> None:
        self._silences = silenced
        self._new_since = new_since(store)
        self._machines = another_machines(store)
        self._unproven = unproven_by_bringup(store, self._machines)
        self._problems: dict[str, list[Problem]] = defaultdict(list)
        self._over: dict[str, list[Problem]] = defaultdict(list)
        self._of: dict[int, list[Problem]] = defaultdict(list)
        # What silences hide, in the same shapes; `_muted` are by component those of whatever node.
        self._silent: dict[str, list[Problem]] = defaultdict(list)
        self._silent_over: dict[str, list[Problem]] = defaultdict(list)
        self._silent_left: dict[str, float] = defaultdict(float)
        self._muted: dict[int, list[Problem]] = defaultdict(list)
        self._here: dict[str, set[int]] = defaultdict(set)
        self._left: dict[str, float] = defaultdict(float)
        self._chassis: dict[str, float] = {}
        self._read_problems(store, policy, since, now)
        self._boots = _lists(store.rows(_BOOTS, since))
        self._repaired = repairs(store, since)
        self._away = self._read_rmas(store, since)
        self._verdicts = self._read_verdicts(store)
        self._cordons, self._overridden = self._read_cordons(store, lost, now)
        self._anew = {} if not self._verdicts else _anew(store, lost, now)
        self._looks = self._read_snapshots(store, policy.requalify.profile, now)
        self._states = {row[0]: (row[1], row[2]) for row in store.rows(
            "SELECT name, state, seen FROM spell JOIN node ON node.id = spell.node WHERE ended IS NULL")
            if not in_future(row[2], now)}
        self._versions = {row[0]: {"driver": row[1], "kernel": row[2], "firmware": row[3]}
                          for row in store.rows(
                              "SELECT name, driver, kernel, firmware FROM newest "
                              "JOIN node ON node.id = newest.node WHERE driver || kernel || firmware != ''")}
        self.every_change = every_change(store, since, now, policy)
        self.changes = [one for one in self.every_change if one.holds(now)]
        self._changed: dict[str, list[VersionChange]] = defaultdict(list)
        for one in self.changes:
            if one.kind in OF_NODES:
                self._changed[one.name].append(one)
        self._leased = {node: f"it is leased as {entry.name}: {entry.why}"
                        for node, entry in leased_nodes(store).items()}

    def _read_problems(self, store: Store, policy: TriagePolicy, since: float, now: float) -> None:
        for name, component in store.rows(_SEATS, since):
            self._here[name].add(component)
        self._chassis.update(tuple(row) for row in store.rows(_CHASSIS))
        for row in store.rows(_PROBLEM + "ended IS NULL OR ended >= ? ORDER BY problem.id", since):
            values = tuple(row)
            problem, component = Problem(*values[:-2]), values[-1]
            quiet = self._silences(problem)
            here, over, left, of = (
                (self._silent, self._silent_over, self._silent_left, self._muted) if quiet
                else (self._problems, self._over, self._left, self._of))
            if problem.ended is None:
                here[problem.node].append(problem)
            elif component is None or component in self._here[problem.node]:
                over[problem.node].append(problem)
            elif accuses(problem, policy):
                left[problem.node] = max(left[problem.node], problem.ended)
            if component is not None:
                of[component].append(problem)
        for problem in watched.problems(store, now):
            (self._silent if self._silences(problem) else self._problems)[problem.node].append(problem)
        self.fabric: list[FabricTrouble] = []
        for one in fabricfindings.lasting(store):
            of_nodes = [(problem, self._silences(problem)) for problem in fabricfindings.problems([one])]
            for problem, quiet in of_nodes:
                (self._silent if quiet else self._problems)[problem.node].append(problem)
            # What people want to hear of none of its nodes, they do not of the link.
            if not of_nodes or not all(quiet for _, quiet in of_nodes):
                self.fabric.append(one)

    def _read_snapshots(
        self, store: Store, profile: str, now: float,
    ) -> Mapping[str, list[RequalifySnapshot]]:
        found: dict[str, list[RequalifySnapshot]] = defaultdict(list)
        for name, time, state, rules in store.rows(
                "SELECT name, time, state, measured FROM snapshot JOIN node ON node.id = snapshot.node "
                "WHERE profile = ? AND time <= ? ORDER BY snapshot.node, time", profile, now + AHEAD_S):
            measured = frozenset(json.loads(rules)) if rules != "[]" else _NONE_MEASURED
            found[name].append(RequalifySnapshot(time, state, measured))
        return found

    def _read_rmas(self, store: Store, since: float) -> Mapping[str, str]:
        """What is away, or came back other than announced, on the node where it sits now; a part that
        returned in order is a repair of its node."""
        away: dict[str, str] = {}
        self.rmas = found = rmas(store)
        self.alarms = wrong = alarms(store, found)
        for rma in found:
            if rma.away:
                away[rma.node] = f"RMA {rma.id} is {rma.state.value}: {rma.why}"
            elif rma.returned is not None and rma.returned >= since and rma.repaired and (
                    rma.id not in wrong or wrong[rma.id].node != rma.node):
                self._repaired.setdefault(rma.node, []).append(returned(rma))
        for number, one in wrong.items():
            away[one.node] = f"RMA {number}: {one.said}; see: muster rma list"
        return away

    def _read_verdicts(self, store: Store) -> dict[str, OpenVerdict]:
        """The open verdicts. After an RMA the verdict under it holds again."""
        found = {row[1]: OpenVerdict(row[0], row[2], Isolation(row[3]), row[4], row[5]) for row in store.rows(
            "SELECT verdict.id, name, fault, isolation, began, coalesce(incident, 0) FROM verdict "
            "JOIN node ON node.id = verdict.node WHERE ended IS NULL")}
        for node, holds in found.items():
            if holds.fault == RMA and node not in self._away and (under := store.rows(UNDER, holds.id)):
                found[node] = replace(holds, fault=under[0][0], isolation=Isolation(under[0][1]),
                                      incident=under[0][2])
        return found

    def _read_cordons(
        self, store: Store, lost: Lost, now: float,
    ) -> tuple[Mapping[str, list[OpenCordon]], Mapping[str, tuple[str, float]]]:
        """Our cordons that hold, and what people did against the verdict that holds, and when."""
        cordons: dict[str, list[OpenCordon]] = defaultdict(list)
        overridden: dict[str, tuple[str, float]] = {}
        for number, node, backend, why, state, began, ended, verdict, named, said in store.rows(
                "SELECT coalesce(number, cordon.id), cordon.node, backend, cordon.why, state, began, ended, "
                "verdict, cordon.store, outcome FROM cordon LEFT JOIN ledger ON ledger.id = cordon.line "
                "WHERE ended IS NULL OR verdict IN (SELECT id FROM verdict WHERE ended IS NULL) "
                "ORDER BY cordon.id"):
            holds = self._verdicts.get(node)
            instead = ""
            if state in (CordonState.MEANT.value, CordonState.HELD.value):
                instead = (lost(node, backend, CordonMark(named, number)) if state == CordonState.HELD.value
                           else "")
                if not instead:
                    cordons[node].append(OpenCordon(number, backend, why, began, verdict, named))
                    continue
                said = instead
            if state == CordonState.ANEW.value or instead == ANEW:
                continue
            if (verdict is not None and holds is not None and verdict == holds.id
                and not str(said or "").startswith("not done")):
                words = (f"{instead or 'it was given back by hand'}, against {CordonMark(named, number)}, "
                         f"whose verdict holds; muster cordon {node} cordons it again")
                overridden[node] = words, now if ended is None else ended
        return cordons, overridden

    def past(self, node: Node, others: str) -> NodeHistory:
        """What is known of one node."""
        name = node.name
        here = self._here.get(name, _NOTHING_HERE)
        machine = self._machines.get(name)
        overridden, at = self._overridden.get(name, ("", float("inf")))
        return NodeHistory(
            name, node.in_service, node.lifecycle.state.value, tuple(self._problems.get(name, ())),
            tuple(self._over.get(name, ())),
            tuple(problem for component in self._of.keys() & here for problem in self._of[component]
                  if problem.node != name),
            self._hidden(name, here), tuple(self._boots.get(name, ())), tuple(self._looks.get(name, ())),
            tuple(self._repaired.get(name, ())), self._chassis.get(name, 0.0),
            tuple(self._cordons.get(name, ())), self._verdicts.get(name), overridden,
            others, self._leased.get(name, ""), domains(node), self._away.get(name, ""),
            self._left.get(name, 0.0), *self._states.get(name, ("", 0.0)),
            self._versions.get(name, _NO_VERSIONS), ports(node), new_since=max(
                self._new_since.get(name, 0.0), machine.at if machine is not None else 0.0),
            sku=node.sku or "", changed=tuple(self._changed.get(name, ())),
            anew=self._anew.get(name) if name in self._verdicts else None,
            machine=self._unproven.get(name), overridden_at=at)

    def _hidden(self, name: str, here: Iterable[int]) -> SilencedHistory:
        if not (self._silent or self._silent_over or self._silent_left or self._muted):
            return NONE_SILENCED
        moved = tuple(problem for component in here for problem in self._muted.get(component, ())
                      if problem.node != name)
        return SilencedHistory(tuple(self._silent.get(name, ())), tuple(self._silent_over.get(name, ())),
                               moved, self._silent_left.get(name, 0.0))


def unproven_by_bringup(
    store: Store, machines: Mapping[str, AnotherMachine] | None = None,
) -> Mapping[str, AnotherMachine]:
    """By node the machine that took its name, but for those of which a bring-up came to its end since: that
    has proven more than two looks do."""
    done = {row[0]: row[1] for row in store.rows(
        "SELECT node, ended FROM bringup WHERE stand = ? AND ended IS NOT NULL", DONE)}
    return {name: one for name, one in (another_machines(store) if machines is None else machines).items()
            if name not in done or done[name] < one.at}


def _anew(store: Store, lost: Lost, now: float) -> Mapping[str, Anew]:
    """By node the last cordon, where it is one of triage's and over because the node is another one now."""
    found = {}
    for number, node, backend, named, state, ended, fault, isolation in store.rows(
            "SELECT cordon.id, cordon.node, backend, store, state, cordon.ended, fault, isolation "
            "FROM cordon JOIN verdict ON verdict.id = cordon.verdict WHERE state IN (?, ?) AND cordon.id IN "
            "(SELECT max(id) FROM cordon GROUP BY node)",
            CordonState.ANEW.value, CordonState.HELD.value):
        if state == CordonState.ANEW.value or lost(node, backend, CordonMark(named, number)) == ANEW:
            found[node] = Anew(now if ended is None else ended, fault, Isolation(isolation))
    return found


def changes(store: Store, since: float, now: float) -> list[VersionChange]:
    """What decides, or what nodes run, and is since then not what it was, as it was known at `now`."""
    return [one for one in every_change(store, since, now) if one.holds(now)]


def every_change(
    store: Store, since: float, now: float, policy: TriagePolicy | None = None,
) -> list[VersionChange]:
    """The same with what changed again since then, by kind, name and time; and what this policy would change
    of what the newest triage decided by."""
    found = [one for one in history(store, since) if one.began <= now]
    fresh = pending(store, decided_by(policy), now) if policy is not None else []
    replaced = {(one.kind, one.name) for one in fresh}
    found = [*(replace(one, after=now) if one.after is None and (one.kind, one.name) in replaced else one
               for one in found), *fresh]
    if not found:
        return []
    # The sweeps that looked at most nodes: one node may be looked at with a new rule
    # long before the others are. At nodes left out their agents looked, by the same rules.
    broad = [row[0] for row in store.rows(
        "SELECT started FROM sweep WHERE started >= ? AND started <= ? AND 2 * (nodes + left_out) >= "
        "(SELECT max(nodes + left_out) FROM sweep) ORDER BY started", min(one.began for one in found), now)]
    takes = numbers_taken(store) if any(one.kind == "sku" for one in found) else {}
    before = _policies_before(store, {one.began for one in found if one.kind == POLICY}, now)
    return [change(one, broad, takes, before.get(one.began, ())) for one in found]


def returned(rma: Rma) -> Repaired:
    """The return of a part as a repair; of a whole node it is one of all."""
    assert rma.returned is not None  # noqa: S101  (only what returned is one)
    of = frozenset({word for word in (rma.slot, rma.serial) if word}) if rma.slot else frozenset()
    return Repaired(rma.returned, RETURNED, rma.slot, of, rma.kind)


def change(
    one: VersionSpan, broad: Sequence[float], takes: Mapping[str, frozenset[str]] | None = None,
    faults: tuple[FaultKind, ...] = (),
) -> VersionChange:
    """What held since then, as a change; `broad` are the sweeps of most nodes, of which the second with it
    may not have been yet. `takes` are the numbers that each rule takes of a SKU, and `faults` those of the
    policy before it."""
    said, says = content_of(one.said_before), content_of(one.said)
    rules = _concerned(said, says, takes) if one.kind == "sku" and takes is not None else None
    return VersionChange(one.kind, one.name, one.digest, one.began, one.before, shows_until(one.began, broad),
                         one.after, one.was, said, says, rules, faults if one.kind == POLICY else ())


def shows_until(began: float, broad: Sequence[float]) -> float:
    """When what a change brings has shown: the second of the sweeps of most nodes from it on."""
    at = bisect_left(broad, began) + 1
    return broad[at] if at < len(broad) else float("inf")


def _concerned(
    said: Mapping[str, Any], says: Mapping[str, Any], takes: Mapping[str, frozenset[str]],
) -> frozenset[str] | None:
    """The rules that a change of a SKU concerns where it is one of numbers alone."""
    was, now = said.get("numbers"), says.get("numbers")
    if not isinstance(was, dict) or not isinstance(now, dict) or any(
            said.get(key) != says.get(key) for key in ("empty", "ports")):
        return None
    other = {name for name in was.keys() | now.keys() if was.get(name) != now.get(name)}
    return frozenset(rule for rule, numbers in takes.items() if not numbers or numbers & other)


def numbers_taken(store: Store) -> dict[str, frozenset[str]]:
    """By rule the numbers that it takes of a SKU, of those that take any; none where that is not known."""
    found = {}
    for name, said in rules_now(store):
        given = content_of(said).get("with")
        numbers = frozenset(value[1:] for value in (given.values() if isinstance(given, dict) else ())
                            if isinstance(value, str) and value.startswith("$"))
        if numbers or given is None:
            found[name] = numbers
    return found


def _policies_before(
    store: Store, times: Collection[float], now: float,
) -> Mapping[float, tuple[FaultKind, ...]]:
    """The faults of the policy as they were before each of these times."""
    rows = policies(store, now) if times else []
    return {time: faults_of({name: content_of(said) for began, name, said in rows if began < time})
            for time in times}


_NO_VERSIONS: Mapping[str, str] = {}


def _lists(rows: Iterable[Any]) -> Mapping[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for name, value in rows:
        found[name].append(value)
    return found


def repairs(store: Store, since: float) -> dict[str, list[Repaired]]:
    """By node the repairs by muster and by people."""
    found: dict[str, list[Repaired]] = defaultdict(list)
    for node, action, finished, outcome, evidence in store.rows(
            "SELECT node, action, finished, outcome, evidence FROM ledger WHERE finished >= ?", since):
        if action in _REPAIRS and str(outcome).startswith(_DONE):
            found[node].append(Repaired(finished, action, of=word_of(store, node, evidence)
                                        if action == REPAIRED else frozenset()))
    return found


def ports(node: Node) -> Mapping[str, tuple[str, str]]:
    """The leaf and the rail of a node's ports by PCI address, "" if unknown."""
    return {pci: (plan.leaf or "", str(plan.rail) if plan.rail is not None else "")
            for pci, plan in node.ports.items()}


def domains(node: Node) -> Mapping[str, tuple[str, ...]]:
    """A node's failure domains by kind, and its delivery batch if a label gives it."""
    leaves = dict.fromkeys([*node.leaf, *(plan.leaf for plan in node.ports.values() if plan.leaf)])
    given: dict[str, Collection[str]] = {
        "rack": (node.rack,) if node.rack else (), "leaf": leaves,
        "power": (node.power,) if node.power else (),
        "nvlink_domain": (node.nvlink_domain,) if node.nvlink_domain else (),
        "batch": (batch,) if (batch := node.labels.get("batch")) else ()}
    return {kind: tuple(names) for kind, names in given.items() if names}
