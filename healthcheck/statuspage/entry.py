"""One node's entry in the page's document. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from healthcheck.model.faultkind import Isolation
from healthcheck.report.nodes import HEALTHY, NodeRow
from healthcheck.statuspage.findings import Findings
from healthcheck.statuspage.nextstep import typed
from healthcheck.statuspage.read import FleetRead
from healthcheck.store.history import Spell
from healthcheck.store.ledger import LedgerEntry
from inventory.text import clean, listed

_MOST_SPELLS, _MOST_ACTIONS = 8, 8


@dataclass(frozen=True)
class MoreOfNodes:
    """What there is of nodes beside how they stand, by node: findings, states and actions of a day, trends,
    and the outcome of the newest burn-in."""

    findings: Findings
    states: Mapping[str, Sequence[Spell]]
    actions: Mapping[str, Sequence[LedgerEntry]]
    trends: Mapping[str, Any]
    burnin: Mapping[str, str]


def by_node(actions: Iterable[LedgerEntry]) -> dict[str, list[LedgerEntry]]:
    """Actions on each node."""
    found: dict[str, list[LedgerEntry]] = defaultdict(list)
    for line in actions:
        found[line.node].append(line)
    return found


def entry(one: NodeRow, read: FleetRead, beside: MoreOfNodes) -> dict[str, Any]:
    """One node; what is empty is left out. Times are epoch seconds."""
    name, said, standing = one.node, read.turns[one.node], read.standings[one.node]
    at_gate, shown = read.certificates[name], beside.findings
    certificate, states = at_gate["certificate"], beside.states.get(name, ())
    also = {read.incident_owners[number] for number in one.incidents if number in read.incident_owners}
    found = {
        "node": clean(name, 253), "sku": clean(standing.sku, 60),
        "rack": clean(read.nodes[name].rack or "", 60),
        "leaf": clean(listed(list(at_gate["leaf"]), 4), 80),
        "lifecycle": "" if one.in_service else one.lifecycle, "state": one.state, "seen": _whole(one.seen),
        "stale": one.stale, "since": _whole(one.since),
        "owner": said.owner, "also": sorted(also - {said.owner}), "turn": clean(said.what, 200),
        "next": clean(typed(said.command, name), 400),
        "isolation": one.isolation.value if one.isolation is not Isolation.NONE else "",
        "repair": one.repair, "fault": one.fault,
        "why": clean(one.why, 240) if one.state != HEALTHY or one.fault else "",
        "cordon": clean(one.cordon, 80), "silenced": one.silenced, "rma": clean(one.rma, 80),
        "hidden": clean(one.hidden, 200), "incidents": list(one.incidents), "by_agent": _whole(one.by_agent),
        "gate": standing.gate, "gate_why": clean(standing.why.why, 200) if standing.why is not None else "",
        "lent": standing.held if standing.why is None else "",
        "certificate": ([certificate["kind"], certificate["stage"], certificate["at"]]
                        if certificate is not None else None),
        "burnin": beside.burnin.get(name, ""), "findings": shown.of.get(name), "more": shown.more.get(name),
        "states": [[spell.state, int(spell.began), int(spell.seen)] for spell in states[-_MOST_SPELLS:]]
        if len(states) > 1 else None,
        "actions": [[int(line.time), clean(line.who, 40), clean(line.action, 60), clean(line.why, 160),
                     clean(line.outcome if line.outcome is not None else "not finished", 120)]
                    for line in beside.actions.get(name, ())[-_MOST_ACTIONS:]],
        "trends": beside.trends.get(name),
    }
    return {key: value for key, value in found.items() if value not in (None, "", 0, False, [])}


def _whole(at: float | None) -> int | None:
    return int(at) if at is not None else None
