"""Tells a wrong clock of the head from those of nodes: where most of them differ from it by as much, it is
the head's, and nodes are compared with each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

# Of fewer no majority tells anything.
_LEAST = 3


@dataclass(frozen=True)
class HeadClock:
    """How far the head's clock is off: `ahead` in seconds, by `agreeing` of `nodes` clocks."""

    ahead: float
    agreeing: int
    nodes: int

    def words(self) -> str:
        """In a line."""
        way = "ahead of" if self.ahead > 0 else "behind"
        return (f"this head's clock is {abs(self.ahead):.0f} s {way} those of {self.agreeing} of "
                f"{self.nodes} nodes: set it (see: timedatectl); nodes are compared with each other")


def head_clock(offsets: Mapping[str, float], most: float) -> HeadClock | None:
    """By node how many seconds its clock is ahead of the head's. None unless more than half of at least three
    agree, within `most` seconds, that the head's is off by more than `most`."""
    if len(offsets) < _LEAST:
        return None
    middle = median(offsets.values())
    agreeing = sum(abs(off - middle) <= most for off in offsets.values())
    if abs(middle) <= most or 2 * agreeing <= len(offsets):
        return None
    return HeadClock(-middle, agreeing, len(offsets))
