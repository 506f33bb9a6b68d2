"""Durations, as many as a long run has, in bounded memory. Python 3.8."""

from __future__ import annotations

import array
import time

MOST_TIMES = 1 << 16
# At least so many iterations, and this share of them, must be long to count: one or two are noise.
OFTEN = 5
OFTEN_SHARE = 0.05


class Durations:
    """Keeps every duration, beyond a limit every second one and so on, so that quantiles stay right."""

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
        """The quantile: the smallest duration that this share does not exceed. Needs at least one."""
        ordered = sorted(self.kept)
        return ordered[max(0, -int(-len(ordered) * share // 1) - 1)]

    def often(self) -> float:
        """The duration that at least OFTEN, and a share of OFTEN_SHARE, reach; 0 where there are too few."""
        k = max(OFTEN, -int(-len(self.kept) * OFTEN_SHARE // 1))
        return sorted(self.kept)[-k] if len(self.kept) >= 2 * k else 0.0


class Spent:
    """Seconds of work, and of checks."""

    def __init__(self) -> None:
        self.work_s = self.check_s = 0.0
        self.since = 0.0

    def begin(self) -> None:
        """Work begins."""
        self.since = time.perf_counter()

    def worked(self) -> None:
        """Work ends and a check begins."""
        now = time.perf_counter()
        self.work_s, self.since = self.work_s + now - self.since, now

    def checked(self) -> None:
        """The check ends and the next part begins."""
        now = time.perf_counter()
        self.check_s, self.since = self.check_s + now - self.since, now

    @property
    def share(self) -> float:
        """The share of checks in all this time."""
        return self.check_s / max(1e-9, self.work_s + self.check_s)
