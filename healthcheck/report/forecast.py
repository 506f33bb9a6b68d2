"""A forecast of interruptions in words, and as part of a document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from healthcheck.accounting.forecast import CheckpointInterval, InterruptionForecast
from inventory.times import ago

SOURCES = ("checkpoint interval: Young, Communications of the ACM 17(9), 1974; Daly, Future Generation "
           "Computer Systems 22(3), 2006")
DEFINITIONS = (
    "interruptions: failures of nodes by themselves, as counted here, each taken to end the job; of "
    "incidents each that meets the job is one more; what ends a job without a node's failure (its program, "
    "a time limit, another job's) is in none of this, and nodes count as equal and independent",
    SOURCES + "; its share lost is to first order, without the restarts themselves",
)


def text(found: InterruptionForecast, shared: int = 0) -> Iterator[str]:
    """The forecast, line by line. `shared` failures were of incidents, and are not counted."""
    job = f"a job of {found.nodes:,} node{'s' * (found.nodes != 1)}"
    base = f"{found.failures} failure{'s' * (found.failures != 1)} in {found.node_days:,.1f} node-days"
    if found.high is None or found.low is None:
        yield f"{job}: interruptions a day: not measured, as no time between sweeps is stored"
        return
    if found.per_day is None:
        yield (f"{job}: at most {found.high:.3g} interruptions a day (95%); none was seen in "
               f"{found.node_days:,.1f} node-days, so only this bound is known")
    else:
        yield (f"{job}: {found.per_day:.3g} interruptions a day expected (95%: {found.low:.3g} to "
               f"{found.high:.3g}), from {base}")
        if found.few:
            yield ("so few failures tell little: any number from "
                   f"{found.low:.3g} to {found.high:.3g} fits them")
    if shared:
        yield f"{shared} failures in incidents are not in it: each incident that meets the job is one more"
    yield from _intervals(found)


def _intervals(found: InterruptionForecast) -> Iterator[str]:
    cost = found.checkpoint_s
    if cost is None:
        yield "checkpoint interval: not known without what a checkpoint costs: --checkpoint-seconds"
        return
    shortest, longest = found.shortest, found.longest
    if shortest is None:
        return
    if found.usual is None:
        yield (f"a checkpoint that costs {cost:g} s: every {ago(shortest.daly_s)} (Daly; Young "
               f"{ago(shortest.young_s)}) at that bound; a longer interval may do")
        return
    until = f"to {ago(longest.daly_s)}" if longest is not None else "or longer"
    yield (f"a checkpoint that costs {cost:g} s: every {ago(found.usual.daly_s)} (Daly; Young "
           f"{ago(found.usual.young_s)}; by the interval {ago(shortest.daly_s)} {until}); checkpoints and "
           f"repeated work then cost about {found.usual.lost:.1%} of the time")


def document(found: InterruptionForecast) -> dict[str, Any]:
    """As part of a document; rates a day, times in seconds, null where it is not known."""
    return {"job_nodes": found.nodes, "failures": found.failures, "node_days": found.node_days,
            "interruptions_per_day": {"expected": found.per_day, "low": found.low, "high": found.high},
            "few": found.few, "checkpoint_seconds": found.checkpoint_s,
            "checkpoint_interval": {"expected": _interval(found.usual), "shortest": _interval(found.shortest),
                                    "longest": _interval(found.longest)},
            "source": SOURCES}


def _interval(found: CheckpointInterval | None) -> dict[str, Any] | None:
    return asdict(found) if found is not None else None
