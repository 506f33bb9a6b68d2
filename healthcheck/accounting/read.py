"""Reads a summary's data from the store."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping
from types import MappingProxyType

from healthcheck.accounting.failures import IncidentSpan, failures
from healthcheck.accounting.service import watched, without
from healthcheck.accounting.summary import SummaryInput
from healthcheck.accounting.times import CordonSpan
from healthcheck.model.spans import Span, both
from healthcheck.store.cordons import CordonState
from healthcheck.store.file import Store
from healthcheck.store.history import problems
from healthcheck.triage.changed import ChangeIndex
from healthcheck.triage.gather import every_change
from healthcheck.triage.policy import TriagePolicy

_HOUR = 3600.0


def read(
    store: Store, nodes: Collection[str] | None, policy: TriagePolicy, since: float, now: float,
    groups: Mapping[str, Mapping[str, str]], skus: Mapping[str, str] = MappingProxyType({}),
) -> SummaryInput:
    """What is stored of these nodes, or of all, from `since` to `now`; `skus` are what the inventory calls
    their kind. Raises StoreError."""
    sweeps = [(row[0], row[1])
              for row in store.rows("SELECT started, nodes + left_out FROM sweep WHERE started <= ? "
                                    "ORDER BY started",
                                    now)]
    most = max((number for _, number in sweeps), default=0)
    ran = both(watched((start for start, _ in sweeps), policy.fresh_hours * _HOUR), [(since, now)])
    first, seen = _seen(store, nodes)
    away = _away(store, now)
    service = {node: both(without(spans, away.get(node, ())), ran) for node, spans in seen.items()}
    # One failure may go on from before; the ends of others say where it began.
    found = problems(store, None, since - policy.repeat.apart_hours * _HOUR)
    changes = ChangeIndex(every_change(store, since - policy.repeat.apart_hours * _HOUR, now))
    return SummaryInput(
        failures((problem for problem in found if problem.node in service), policy, _together(store, since),
                 changes, skus),
        {node: spans for node, spans in service.items() if spans}, first,
        # What looked at few nodes says nothing of when the others were last seen well.
        [start for start, number in sweeps if number * 2 >= most], _held(store, now), groups,
        policy.repeat.apart_hours * _HOUR)


def _together(store: Store, since: float) -> list[IncidentSpan]:
    """The incidents that lasted into that time, with each node as long as it was in one: those that show it
    at the end are few, or none."""
    found = [IncidentSpan(frozenset(json.loads(row[0])), row[1], row[2], frozenset(json.loads(row[3])))
             for row in store.rows("SELECT nodes, began, ended, symptoms FROM incident "
                                   "WHERE ended IS NULL OR ended >= ?", since)]
    return found + [IncidentSpan(frozenset([row[0]]), row[1], row[2], frozenset(json.loads(row[3])))
                    for row in store.rows(
                        "SELECT node, member.began, member.ended, symptoms FROM member "
                        "JOIN incident ON incident.id = incident WHERE incident.ended IS NULL "
                        "OR incident.ended >= ?", since)]


def _seen(store: Store, nodes: Collection[str] | None) -> tuple[dict[str, float], dict[str, list[Span]]]:
    """By node its first look, and from when to when it was looked at."""
    first: dict[str, float] = {}
    spans: dict[str, list[Span]] = {}
    for name, began, seen in store.rows("SELECT name, min(began), max(seen) FROM spell "
                                        "JOIN node ON node.id = spell.node GROUP BY spell.node"):
        if nodes is None or name in nodes:
            first[name] = began
            spans[name] = [(began, seen)]
    return first, spans


def _away(store: Store, now: float) -> Mapping[str, list[Span]]:
    """By node the time in which the whole of it was at the vendor's."""
    away: dict[str, list[Span]] = defaultdict(list)
    for node, opened, returned in store.rows(
            "SELECT node, opened, returned FROM rma WHERE slot = '' ORDER BY opened"):
        away[node].append((opened, returned if returned is not None else now))
    return away


def _held(store: Store, now: float) -> Mapping[str, list[CordonSpan]]:
    """By node the cordons that were made until now, oldest first."""
    held: dict[str, list[CordonSpan]] = defaultdict(list)
    for node, began, ended, state, verdict, incident in store.rows(
            "SELECT cordon.node, began, ended, state, verdict, incident FROM cordon "
            "JOIN ledger ON ledger.id = line WHERE began <= ? AND coalesce(outcome, '') NOT LIKE 'not done%' "
            "ORDER BY began, cordon.id", now):
        held[node].append(CordonSpan(node, began, ended, state == CordonState.RELEASED.value,
                                     verdict is not None and incident is None))
    return held
