"""When a node was looked at, so that a check can turn the growth of a counter between two looks into a rate."""

from __future__ import annotations

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.values import Fact


class SnapshotTime(Fact):
    """One look at a node. `time` is the node's own clock (epoch seconds) as its answer left, `received` the head's as it came."""

    name: str
    time: float
    received: float


@fact("look", of_snapshot=True)
def snapshot_time(captures: Captures) -> SnapshotTime:
    """The moment of this look, as the collector said it and as the head saw it."""
    return SnapshotTime("look", time=captures.host.time, received=captures.received)
