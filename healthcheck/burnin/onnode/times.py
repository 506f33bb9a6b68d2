"""Durations, as many as a long run has, in bounded memory. Python 3.8."""

from __future__ import annotations

import array

MOST_TIMES = 1 << 16
# So many iterations at least, and such a share of them, have to be long before that says anything: one or two are noise.
OFTEN = 5
OFTEN_SHARE = 0.05


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

    def often(self) -> float:
        """The duration that at least OFTEN of those kept, and OFTEN_SHARE of them, reach: the k-th longest. 0 where there are too few."""
        k = max(OFTEN, -int(-len(self.kept) * OFTEN_SHARE // 1))
        return sorted(self.kept)[-k] if len(self.kept) >= 2 * k else 0.0
