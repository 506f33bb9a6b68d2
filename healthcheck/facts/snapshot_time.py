"""The time of a snapshot, with which checks turn a counter's growth into a rate."""

from __future__ import annotations

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.values import Fact


class SnapshotTime(Fact):
    """When a snapshot was taken, in epoch seconds: `time` by the node's clock as it answered, `received` by
    the head's on arrival."""

    name: str
    time: float
    received: float


@fact("snapshot_time", of_snapshot=True)
def snapshot_time(captures: Captures) -> SnapshotTime:
    """The time of this snapshot, by the node and by the head."""
    return SnapshotTime("snapshot_time", time=captures.host.time, received=captures.received)
