"""The store's evidence on a job's nodes in its time: problems, boots, counters, muster's actions and
incidents. What a sweep was the first to see began between that sweep and the one before it."""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise

from healthcheck.blame.evidence import Evidence, JobWindow, SharedPlace, Weight
from healthcheck.model.outcome import Owner, Severity, Status
from healthcheck.model.problem import Problem
from healthcheck.store.fabricfindings import between as fabric_between
from healthcheck.store.fabricfindings import remedy
from healthcheck.store.file import Store
from healthcheck.store.history import problems
from healthcheck.store.ledger import lines
from healthcheck.store.watched import HANG, LIKELY, SLOWS, between
from inventory.text import listed

AFTER = 24 * 3600.0         # of a job: a sweep that came later says little of it
BEFORE = 7 * 86400.0        # of a job's start: what a problem is looked for that was there before

# By rule, the first that fits. Rules of the job's own Xids accuse the job; what is not named is merely odd.
_WEIGHTS: tuple[tuple[str, Weight], ...] = (
    ("kernel-xid-job", Weight.USER), ("kernel-xid-watch", Weight.ODD), ("kernel-sxid-watch", Weight.ODD),
    ("kernel-xid*", Weight.DEVICE), ("kernel-sxid*", Weight.DEVICE), ("kernel-hardware-*", Weight.DEVICE),
    ("gpu-process*", Weight.ODD), ("gpu-*", Weight.DEVICE), ("nvlink-fabric-*", Weight.NETWORK),
    ("nvlink*", Weight.DEVICE), ("dcgm-diag-*", Weight.DEVICE), ("memory-*", Weight.DEVICE),
    ("cpu-*", Weight.HOST), ("pcie-*", Weight.DEVICE), ("bmc-*", Weight.DEVICE), ("port-*", Weight.NETWORK),
    ("hca-*", Weight.NETWORK), ("roce-*", Weight.NETWORK), ("optics-*", Weight.NETWORK),
    ("netdev-*", Weight.NETWORK), ("disk-*", Weight.HOST), ("filesystem-*", Weight.HOST),
    ("raid-*", Weight.HOST), ("zpool-*", Weight.HOST), ("kernel-fault", Weight.HOST),
    ("service-*", Weight.HOST), ("process-*", Weight.HOST))
_XID = re.compile(r"Xid (\d{1,4})")
# What Xids mean that a page should say in words; the table has the rest.
_FELL = {"79": "fell off the bus"}
_COUNTERS = {"link_downed": (Weight.NETWORK, "its link went down {} times", Owner.NETWORK),
             "ecc_uncorrected_lifetime": (Weight.DEVICE, "{} uncorrectable memory errors", None),
             "sram_uncorrected_lifetime": (Weight.DEVICE, "{} uncorrectable SRAM errors", None),
             "rows_uncorrected": (Weight.DEVICE, "{} rows remapped for uncorrectable errors", None),
             "pages_retired_uncorrected": (Weight.DEVICE, "{} pages retired for uncorrectable errors", None)}
_ACTIONS = {"reboot": (Weight.ACTION, "muster rebooted it"),
          "reset-gpu": (Weight.ACTION, "muster reset a GPU of it"),
          "restart-service": (Weight.ACTION, "muster restarted a service of it"),
          "cordon": (Weight.ODD, "muster cordoned it")}
_LONGEST = 400


@dataclass(frozen=True)
class StoreEvidence:
    """The store's evidence, what was unavailable, and the incidents of that time."""

    evidence: tuple[Evidence, ...]
    unmeasured: tuple[str, ...]
    incidents: tuple[SharedPlace, ...]
    looked: tuple[str, ...]


def stored_evidence(store: Store, window: JobWindow) -> StoreEvidence:
    """What there is of the nodes of a job, from BEFORE its start to AFTER its end."""
    sweeps = _looks(store, window)
    boots = _boots(store, window)
    evidence: list[Evidence] = []
    blind: dict[str, list[str]] = defaultdict(list)
    for problem in problems(store, window.nodes, window.start - BEFORE):
        if problem.began > window.end + AFTER or (problem.ended is not None and problem.ended < window.start):
            continue
        if problem.status == Status.FAIL.value:
            evidence.append(_problem(problem, sweeps.get(problem.node, ()), window))
        elif not problem.rule and problem.origin == "node":
            evidence.append(_unreached(problem, sweeps.get(problem.node, ())))
        elif problem.severity != Severity.INFO.value and problem.rule:
            blind[problem.reason].append(f"{problem.node} {problem.rule}")
    evidence += _booted(boots, window)
    evidence += _counted(store, window)
    evidence += _done(store, window)
    evidence += _watched(store, window)
    evidence += _fabric(store, window)
    unmeasured = [*_without_snapshot(sweeps, window),
                  *(f"{listed(sorted(set(names)), 3)}: {reason}" for reason, names in sorted(blind.items()))]
    seen = sorted(node for node in window.nodes if sweeps.get(node))
    looked = (f"sweeps of {len(seen)} of {len(window.nodes)} nodes",) if seen else ()
    return StoreEvidence(tuple(evidence), tuple(unmeasured), tuple(_incidents(store, window)), looked)


def _looks(store: Store, window: JobWindow) -> Mapping[str, Sequence[float]]:
    """By node the times of sweeps that reached it, as far as its states tell; from a day before the job. Of
    sweeps that left nodes out only the first and the last of a state are known to have reached it."""
    since, until = window.start - 86400.0, window.end + AFTER
    sweeps = store.rows("SELECT started, left_out FROM sweep WHERE started BETWEEN ? AND ? ORDER BY started",
                        since, until)
    times = [started for started, left_out in sweeps if not left_out]
    partly = {started for started, left_out in sweeps if left_out}
    found: dict[str, list[float]] = defaultdict(list)
    for name, began, seen in store.rows(
            "SELECT name, began, seen FROM spell JOIN node ON node.id = spell.node WHERE seen >= ? "
            "AND began <= ? AND stage IS NULL ORDER BY began", since, until):
        if name in window.nodes:
            found[name] += sorted({*times[bisect_left(times, began):bisect_right(times, seen)],
                                   *({began, seen} & partly)})
    return found


def _boots(store: Store, window: JobWindow) -> Mapping[str, Sequence[tuple[float, float]]]:
    """By node its boots: the first and the last snapshot of each."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for name, began, seen in store.rows("SELECT name, began, seen FROM boot JOIN node ON node.id = boot.node "
                                        "WHERE seen >= ? ORDER BY began", window.start - BEFORE):
        if name in window.nodes:
            found[name].append((began, seen))
    return found


def _problem(problem: Problem, snapshots: Sequence[float], window: JobWindow) -> Evidence:
    after = max((time for time in snapshots if time < problem.began), default=window.start - BEFORE)
    by = problem.began
    weight = next((weight for glob, weight in _WEIGHTS if fnmatchcase(problem.rule, glob)), Weight.ODD)
    if problem.severity != Severity.CRITICAL.value and weight is not Weight.USER:
        weight = Weight.ODD
    number = _XID.search(problem.subject) if problem.rule.startswith("kernel-xid") else None
    if number is not None and number[1] == "45":
        weight = Weight.SYMPTOM
    owner = Owner(problem.owner) if problem.owner in {owner.value for owner in Owner} else None
    what = (f"{problem.subject.partition(', Xid')[0]} {_FELL[number[1]]} (Xid {number[1]})"
            if number is not None and number[1] in _FELL
            else f"{problem.subject}: {problem.rule}" if problem.subject else problem.rule)
    return Evidence(problem.node, weight, what, "sweep", after, by,
                    f"{problem.observed}, expected {problem.expected}"[:_LONGEST], owner, problem.remedy,
                    group=problem.rule)


def _unreached(problem: Problem, snapshots: Sequence[float]) -> Evidence:
    before = max((time for time in snapshots if time < problem.began), default=None)
    return Evidence(problem.node, Weight.LOST, "could not be reached", "sweep",
                    before if before is not None else problem.began, problem.began, problem.reason[:_LONGEST],
                    Owner.OPERATOR, "Look at its console and its BMC's event log.", sure=False,
                    group="unreached")


def _booted(boots: Mapping[str, Sequence[tuple[float, float]]], window: JobWindow) -> Iterator[Evidence]:
    for node, of in boots.items():
        for (_, after), (by, _) in pairwise(of):
            if by >= window.start and after <= window.end + AFTER:
                yield Evidence(node, Weight.LOST, "booted anew", "boot ids of sweeps", after, by, "",
                               Owner.OPERATOR, "Look at its console, its BMC's event log and the end of the "
                               "journal of the boot before: journalctl -b -1 -n 200", group="booted")


def _counted(store: Store, window: JobWindow) -> Iterator[Evidence]:
    for node in window.nodes:
        before: dict[tuple[str, str], tuple[float, float]] = {}
        for slot, name, time, value in store.rows(
                "SELECT slot, counter.name, time, value FROM counter JOIN node ON node.id = counter.node "
                "WHERE node.name = ? AND time <= ? ORDER BY time", node, window.end + AFTER):
            last = before.get((slot, name))
            before[slot, name] = (time, value)
            if last is not None and time >= window.start and value > last[1] and name in _COUNTERS:
                weight, words, owner = _COUNTERS[name]
                yield Evidence(node, weight, f"{slot}: {words.format(int(value - last[1]))}",
                               "counters of sweeps", max(last[0], window.start - AFTER), time,
                               f"{name} went from {last[1]:.0f} to {value:.0f}", owner, group=name)


def _done(store: Store, window: JobWindow) -> Iterator[Evidence]:
    for line in lines(store, window.nodes, window.start - 3600):
        if (line.action not in _ACTIONS or line.time > window.end + AFTER
            or str(line.outcome or "").startswith("not done")):
            continue
        weight, words = _ACTIONS[line.action]
        yield Evidence(line.node, weight, words, f"ledger, line {line.id}, by {line.who}", line.time,
                       line.time, line.why[:_LONGEST], Owner.OPERATOR,
                       "Ask who ordered it; muster waits for jobs to end before a reboot."
                       if weight is Weight.ACTION else "", group=line.action)


def _watched(store: Store, window: JobWindow) -> Iterator[Evidence]:
    """What slowed a job there, or who did not come: it ends no job by itself, but a hang shows where."""
    for one in between(store, window.start, window.end):
        if one.node in window.nodes:
            hang = one.pattern == HANG
            yield Evidence(one.node, Weight.LEAD if hang else Weight.ODD,
                           f"job {one.job} waited for it in a hang" if hang else f"it slowed job {one.job}",
                           "muster watch", one.began, one.began, one.said[:_LONGEST], Owner.OPERATOR,
                           f"muster watch report {one.job}", sure=one.certainty == LIKELY, group=SLOWS,
                           rank=one.ranks[0] if one.ranks else None)


def _fabric(store: Store, window: JobWindow) -> Iterator[Evidence]:
    """What the subnet showed of links, ports and leaves that the job's nodes used: it began at some time
    before the check that was the first to show it. What the newest check did not measure is not sure."""
    for one in fabric_between(store, window.start, window.end + AFTER):
        finding = one.finding
        for node in sorted(set(finding.nodes) & set(window.nodes)):
            grave = finding.severity is Severity.CRITICAL
            yield Evidence(
                node, Weight.NETWORK if grave else Weight.ODD, f"{finding.place}: {finding.rule.value}",
                "muster fabric check", min(window.start, one.began) - BEFORE, one.began,
                (f"{finding.observed}" + (f", expected {finding.expected}" if finding.expected else "")
                 + (f"; not measured since: {one.unmeasured}" if one.missed is not None else ""))[:_LONGEST],
                finding.owner, remedy(finding), sure=one.missed is None, group=one.rule)


def _incidents(store: Store, window: JobWindow) -> Iterator[SharedPlace]:
    for kind, cause, nodes, why, owner in store.rows("SELECT kind, cause, nodes, why, owner FROM incident "
                                                     "WHERE began <= ? AND (ended IS NULL OR ended >= ?)",
                                                     window.end + 3600, window.start):
        names = frozenset(json.loads(nodes)) & set(window.nodes)
        if names and kind != "unmeasured":
            yield SharedPlace("incident", f"{kind} {cause}", frozenset(json.loads(nodes)), why, Owner(owner))


def _without_snapshot(sweeps: Mapping[str, Sequence[float]], window: JobWindow) -> Iterator[str]:
    """Nodes without a sweep during or after the job."""
    never = sorted(node for node in window.nodes if not sweeps.get(node))
    if never:
        yield f"{listed(never, 3)}: no stored sweep has looked there: muster check --store"
    stale = sorted(node for node in window.nodes if sweeps.get(node) and sweeps[node][-1] < window.end)
    if stale:
        yield f"{listed(stale, 3)}: no sweep since the job's end: muster check --store"
