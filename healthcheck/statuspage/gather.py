"""Reads what the page shows, from the store, the certificates and the burn-ins of a state folder, into one
JSON document (muster.page/1). Times are epoch seconds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from healthcheck.model.outcome import Status
from healthcheck.model.problem import Problem
from healthcheck.statuspage import burnins, changes, fabric, ready
from healthcheck.statuspage.entry import MoreOfNodes, by_node, entry
from healthcheck.statuspage.findings import Findings
from healthcheck.statuspage.read import FleetRead, read_fleet
from healthcheck.statuspage.trends import trends
from healthcheck.statuspage.work import MOST_NAMES, incident, work
from healthcheck.store import ledger, runs
from healthcheck.store.clock import AHEAD_S, head_clock, in_future, newest_sweep
from healthcheck.store.file import Store
from healthcheck.store.history import Spell, problems, spells
from healthcheck.store.incidents import incidents
from healthcheck.store.leases import left
from inventory.model import Inventory
from inventory.nodeset import fold
from inventory.text import clean

SCHEMA = "muster.page/1"
# What is unusual in a kernel log is of severity info, and says nothing of a state.
_NOVEL = ("kernel-novel", "kernel-rate", "kernel-missing", "kernel-order", "kernel-suspect")
_BASELINE = "kernel-baseline"
_MOST_NOVELTIES = 20


def document(
    store: Store, inventory: Inventory | None, state: Path, now: float, *, rules: str | None = None,
) -> dict[str, Any]:
    """The document; raises StoreError and RulesError. Without an inventory the nodes are those of the
    store."""
    since = now - changes.HOURS * 3600
    found = problems(store, None, since)
    read = read_fleet(store, inventory, state, now, rules, [one for one in found if one.ended is None])
    names = read.nodes.keys()
    shown = Findings()
    shown.add(one for one in found if one.node in names and one.rule not in _NOVEL)
    times: dict[str, list[Spell]] = defaultdict(list)
    for spell in spells(store, None, since):
        if spell.node in names and not in_future(spell.began, now):
            times[spell.node].append(spell)
    actions = [line for line in ledger.lines(store, since=since) if line.time <= now + AHEAD_S]
    known = incidents(store, since)
    burnin = burnins.newest(state)
    beside = MoreOfNodes(shown, times, by_node(actions), trends(store, now),
                    burnin.pop("nodes", {}) if burnin is not None else {})
    return {
        "schema": SCHEMA, "made": int(now),
        "source": clean(inventory.source if inventory is not None else f"the store in {state}", 200),
        "newest_sweep": newest_sweep(store, now), "notes": _notes(store, read, now),
        "ready": ready.rows(read.standings.values()), "certifies": read.certifies,
        "changes": changes.document([*changes.of_states(times, since),
                                     *changes.of_incidents(known, since),
                                     *changes.of_actions(actions)]),
        "work": work(read, known), "counts": dict(Counter(one.state for one in read.rows if one.in_service)),
        "incidents": [incident(one, read) for one in known if one.ended is None],
        "novelties": _novelties(found, names), "logs_not_judged": _not_judged(found, read), "burnin": burnin,
        "fabric": fabric.newest(state),
        "findings": shown.texts, "nodes": [entry(one, read, beside) for one in read.rows],
    }


def _notes(store: Store, read: FleetRead, now: float) -> list[str]:
    """What a reader has to know before he trusts the rest."""
    late = [head_clock(store, now), *left(store, now), runs.overdue(store, now)]
    said = [clean(one, 300) for one in late if one]
    if read.trouble:
        said.insert(0, clean(f"no node counts as certified: {read.trouble}", 300))
    if read.plan.is_open:
        said.insert(0, "the breaker of triage is open: it isolates no more nodes until a person has looked "
                       "(muster triage)")
    if newest_sweep(store, now) is None:
        said.insert(0, "no sweep is stored: muster check --store")
    return said


def _not_judged(found: Iterable[Problem], read: FleetRead) -> int:
    """How many nodes in service have a kernel log of which it is not known what is new in it: there is no
    baseline for them, they were not reached, or not for long."""
    missing = {one.node for one in found
               if one.ended is None and one.status == Status.UNKNOWN.value and one.rule in ("", _BASELINE)}
    return sum(one.in_service and (one.seen is None or one.stale or one.node in missing) for one in read.rows)


def _novelties(found: Iterable[Problem], names: Collection[str]) -> list[dict[str, Any]]:
    """What kernel logs show that healthy nodes do not, by message: the newest first."""
    groups: dict[tuple[str, str], list[Problem]] = defaultdict(list)
    for one in found:
        if one.rule in _NOVEL and one.status == Status.FAIL.value and one.node in names:
            groups[one.rule, clean(one.observed, 240)].append(one)
    lines: list[dict[str, Any]] = [{"rule": rule, "text": text, "expected": clean(held[0].expected, 160),
              "count": len({one.node for one in held}),
              "nodes": clean(fold({one.node for one in held}), MOST_NAMES),
              "began": min(one.began for one in held), "seen": max(one.seen for one in held)}
             for (rule, text), held in groups.items()]
    return sorted(lines, key=lambda each: -each["began"])[:_MOST_NOVELTIES]
