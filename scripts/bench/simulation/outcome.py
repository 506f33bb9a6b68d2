"""What one run came to, as the figures of the table."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from itertools import product
from typing import Any

from simulation.memory import Memory, clock
from simulation.policies import made
from simulation.rates import MINUTES
from simulation.site import Site
from simulation.world import World

from healthcheck.model.verdict import StoredIncident

SHARED = {"leaf": "leaf switch's outage", "rack": "rack's outage", "power": "power domain's outage",
          "management": "loss of the head's network", "firmware": "bad release"}
# The rows of the table: title, figure, format.
ROWS = (
    ("node failures that were met", "faults", ".0f"),
    ("never isolated while they lasted", "undetected", ".0f"),
    ("minutes from failure to isolation, median", "delay_median", ".0f"),
    ("  90th percentile", "delay_p90", ".0f"),
    ("  mean", "delay_mean", ".0f"),
    ("isolations", "isolations", ".0f"),
    ("  of healthy nodes (false)", "false", ".0f"),
    ("  of these in an incident's name", "false_incident", ".0f"),
    *((f"isolations in one {what}", f"isolations_{kind}", ".1f") for kind, what in SHARED.items()),
    *((f"names for those in one {what}", f"names_{kind}", ".1f") for kind, what in SHARED.items()),
    ("incidents opened", "incidents", ".0f"),
    ("  at the very place that failed", "right", ".0f"),
    ("  of nodes that share no failure", "wrong", ".0f"),
    ("shared failures without an incident there", "missed", ".0f"),
    ("people sent to nodes", "visits", ".0f"),
    ("  of these to nodes without a fault of their own", "needless", ".0f"),
    ("node-hours without a fault, isolated, no job", "hours_idle", ".0f"),
    ("node-hours sick, open, with a job", "hours_sick", ".0f"),
    ("node-hours lost (both)", "hours_lost", ".0f"),
    ("  in per cent of all", "per_cent", ".3f"),
    ("jobs hit", "hits", ".0f"),
    ("  of jobs started", "jobs", ".0f"),
    ("breaker openings", "openings", ".0f"),
)


@dataclass(frozen=True)
class Outcome:
    """Figures by name; None: there was nothing to measure. `buckets` are the node-hours of every bucket by
    (faulty, sick, held, busy)."""

    figures: dict[str, Any]
    buckets: dict[tuple[bool, ...], float]
    plans: int
    wall: float


def played(world: World, seed: int, name: str) -> Outcome:
    began = time.monotonic()
    memory = Memory(world.nodes)
    policy = made(name, memory)
    site = Site(world, seed, memory, policy)
    site.run()
    counts, tally = site.counts, site.tally
    idle = tally.hours(faulty=False, held=True, busy=False)
    sick = tally.hours(sick=True, held=False, busy=True)
    delays = sorted(delay * MINUTES for delay in counts.delays)
    shared: dict[str, float | None] = {}
    for kind in SHARED:
        of_kind = [number for number, event in enumerate(world.events) if event.kind == kind]
        isolations = [counts.events.get(number, 0) for number in of_kind]
        names = [len(counts.names.get(number, ())) for number in of_kind]
        shared[f"isolations_{kind}"] = statistics.mean(isolations) if of_kind else None
        shared[f"names_{kind}"] = statistics.mean(names) if of_kind else None
    return Outcome({
        "faults": counts.faults, "undetected": counts.undetected,
        "delay_median": statistics.median(delays) if delays else None,
        "delay_mean": statistics.mean(delays) if delays else None,
        "delay_p90": delays[int(0.9 * (len(delays) - 1))] if delays else None,
        "isolations": counts.isolations, "false": counts.false, "false_incident": counts.false_incident,
        **shared, **_named(world, policy.incidents()),
        "visits": counts.visits, "needless": counts.needless, "hours_idle": idle, "hours_sick": sick,
        "hours_lost": idle + sick, "per_cent": 100 * (idle + sick) / tally.hours(), "hits": site.jobs.hits,
        "jobs": site.jobs.started, "openings": counts.openings,
    }, {each: tally.hours(faulty=each[0], sick=each[1], held=each[2], busy=each[3])
        for each in product((False, True), repeat=4)}, counts.plans, time.monotonic() - began)


def _named(world: World, found: list[StoredIncident] | None) -> dict[str, int | None]:
    """Whether incidents are where something failed. A lost connection to the head is at no place that the
    inventory has."""
    if found is None:
        return dict.fromkeys(("incidents", "right", "wrong", "missed"))
    names = [f"gpu{node:05d}" for node in range(world.nodes)]
    right, wrong, met = 0, 0, set()
    for one in found:
        there = {number for number, event in enumerate(world.events)
                 if clock(event.began) <= (one.ended or one.seen) and one.began <= clock(event.ended + 1)}
        exact = {number for number in there if (one.kind, one.place) in (
            (world.events[number].kind, world.events[number].name), ("driver", world.events[number].version))}
        met |= exact
        right += bool(exact)
        members = {member.node for member in one.members}
        shared = max((sum(names[node] in members for node in world.events[number].hit) for number in there),
                     default=0)
        wrong += 2 * shared < len(members)
    placed = {number for number, event in enumerate(world.events) if event.kind != "management"}
    return {"incidents": len(found), "right": right, "wrong": wrong, "missed": len(placed - met)}
