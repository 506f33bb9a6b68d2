"""The nodes as triage would decide on them now, a row each: what `muster nodes` and the status page show."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import NamedTuple

from healthcheck.report.machines import words as machine_words
from healthcheck.report.nodes import NodeRow, row
from healthcheck.report.silences import of_node
from healthcheck.store.file import Store
from healthcheck.store.history import newest_spells
from healthcheck.store.leftout import left_out_nodes
from healthcheck.store.silences import active, silenced
from healthcheck.triage.gather import gather
from healthcheck.triage.plan import TriagePlan, make
from healthcheck.triage.policy import TriagePolicy
from inventory.model import Node
from inventory.nodeset import natural


class FleetRows(NamedTuple):
    """The rows in natural order, and the plan that they are out of."""

    rows: list[NodeRow]
    plan: TriagePlan


def fleet_rows(
    store: Store, nodes: Sequence[Node], policy: TriagePolicy, now: float, stale_s: float,
    names: Collection[str] | None = None,
) -> FleetRows:
    """The rows of these `names` (None: of all nodes). Raises StoreError. All `nodes` are taken into account
    in any case: a problem of many is not a node's own."""
    silences = active(store, now)
    fleet = gather(store, nodes, policy, now,
                   silenced=lambda problem: silenced(problem, silences, now) is not None)
    plan = make(fleet, policy)
    verdicts = {verdict.node: verdict for verdict in plan.verdicts}
    shared: dict[str, tuple[int, ...]] = defaultdict(tuple)
    for incident in plan.incidents:
        for node in incident.nodes:
            shared[node] += (incident.id,)
    spells = newest_spells(store)
    away: dict[str, list[str]] = defaultdict(list)
    for one in fleet.rmas:
        if one.away:
            away[one.node].append(f"{one.id}:{one.state.value}")
    alarm = {one.node: one.said for one in fleet.alarms.values()}
    pasts = {past.node: past for past in fleet.nodes}
    machines = {one.node: machine_words(one) for one in plan.machines}
    by_agent = {name: one.evidence.at for name, one in left_out_nodes(store).items()}
    return FleetRows([
        row(pasts[name], spells.get(name), verdicts.get(name), now, stale_s, ",".join(away.get(name, ())),
            alarm.get(name, ""), shared.get(name, ()), by_agent.get(name),
            of_node(pasts[name].hidden.problems, silences, now), machines.get(name, ""))
        for name in sorted(pasts if names is None else names, key=natural)], plan)
