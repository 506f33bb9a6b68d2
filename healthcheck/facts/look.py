"""When a node was looked at, so that a check can turn the growth of a counter between two looks into a rate."""

from __future__ import annotations

from dataclasses import dataclass

from healthcheck.facts.base import Captures, Fact, fact


@dataclass(frozen=True)
class Look(Fact):
    """One look at a node. `time` is the node's own clock (epoch seconds) as its answer left."""

    name: str
    time: float


@fact("look")
def look(captures: Captures) -> Look:
    """The moment of this look, as the collector said it."""
    return Look("look", time=captures.host.time)
