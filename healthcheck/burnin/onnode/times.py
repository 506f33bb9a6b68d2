"""Durations, as many as a long run has, in bounded memory. Python 3.8."""

from __future__ import annotations

import array

MOST_TIMES = 1 << 16


class Times:
    """Keeps every duration until there are many, then every second one, and so on: quantiles stay those of the whole run."""

    def __init__(self) -> None:
        self.kept = array.array("d")
        self.stride = 1
        self.count = 0
        self.longest = 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        if self.count % self.stride == 0:
            self.kept.append(seconds)
            if len(self.kept) >= MOST_TIMES:
                self.kept = self.kept[::2]
                self.stride *= 2
        self.count += 1
        if seconds > self.longest:
            self.longest = seconds

    def at(self, share: float) -> float:
        """The quantile: the smallest duration that so many of them do not exceed. There must be one."""
        ordered = sorted(self.kept)
        return ordered[max(0, -int(-len(ordered) * share // 1) - 1)]
