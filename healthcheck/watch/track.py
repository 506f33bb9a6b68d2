"""Who stays late: a window may go wrong for anybody, an accusation needs it again and again.

A rank is accused where it was late in 4 of the last 5 windows, or in 8 of the last 16. If a healthy rank is
late in a window with chance q, independent of its other windows, it is accused falsely in about 5 q^4 of
them; `false_accusations` says what that comes to. It falls short where a healthy rank has more work than its
peers: give such ranks a role.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable
from dataclasses import dataclass, field
from itertools import pairwise
from math import comb
from typing import Generic, TypeVar

from healthcheck.watch.model import SlowPattern
from healthcheck.watch.robust import median, slope

K = TypeVar("K", bound=Hashable)

RECENT, RECENT_LATE = 5, 4
SPAN, SPAN_LATE = 16, 8
HISTORY = 32        # windows whose excess is kept of each rank
_TURNS = 5          # changes between late and not in SPAN windows that make an oscillation
_RECENT_BITS = (1 << RECENT) - 1
_SPAN_BITS = (1 << SPAN) - 1


def false_accusations(q: float, ranks: int, windows: int) -> float:
    """How many of so many healthy ranks are accused in so many windows, if each is late in a window with
    chance q, independently: an upper bound by the sum over all windows."""
    def tail(count: int, least: int) -> float:
        return sum(comb(count, k) * q**k * (1 - q)**(count - k) for k in range(least, count + 1))
    return ranks * windows * (tail(RECENT, RECENT_LATE) + tail(SPAN, SPAN_LATE))


@dataclass(slots=True)
class LateRun:
    """How one subject fared: `mask` has a bit for each of the last windows, the newest lowest. `since` is
    the number of the window in which it was first late, `windows` in how many it was."""

    mask: int = 0
    since: int = 0
    windows: int = 0
    accused: bool = False
    total: float = 0.0      # seconds a step, summed over the windows in which it was late

    @property
    def recent(self) -> int:
        """In how many of the last few windows it was late."""
        return (self.mask & _RECENT_BITS).bit_count()

    @property
    def turns(self) -> int:
        """How often it changed between late and not in the last SPAN windows."""
        return ((self.mask ^ (self.mask >> 1)) & (_SPAN_BITS >> 1)).bit_count()


@dataclass
class Tracker(Generic[K]):
    """Follows all subjects of a kind over windows; only those that were late lately take memory."""

    runs: dict[K, LateRun] = field(default_factory=dict)

    def window(self, number: int, late: dict[K, float]) -> tuple[list[K], list[K]]:
        """Takes who is late in this window, by what (seconds a step); who is accused now, and no longer."""
        began, ended = [], []
        for key in late.keys() - self.runs.keys():
            self.runs[key] = LateRun(since=number)
        for key, run in list(self.runs.items()):
            if not run.mask:
                run.since = number
            run.mask = (run.mask << 1 | (key in late)) & _SPAN_BITS
            if key in late:
                run.windows += 1
                run.total += late[key]
            held = run.recent >= RECENT_LATE or run.mask.bit_count() >= SPAN_LATE
            if held and not run.accused:
                run.accused = True
                began.append(key)
            elif run.accused and not run.recent and run.mask.bit_count() < SPAN_LATE:
                run.accused = False
                ended.append(key)
            if not run.mask:
                del self.runs[key]
        return began, ended

    def clear(self) -> list[K]:
        """Forgets all, at a restart; gives who was accused."""
        accused = [key for key, run in self.runs.items() if run.accused]
        self.runs.clear()
        return accused


class History:
    """Each slot's excess in the last HISTORY windows, in 4 bytes each."""

    def __init__(self) -> None:
        self._rows: list[array[float]] = []
        self._next = 0

    def add(self, excess: list[float] | tuple[float, ...]) -> None:
        """The excess of each slot in the newest window."""
        row = array("f", excess)
        if len(self._rows) < HISTORY:
            self._rows.append(row)
        else:
            self._rows[self._next] = row
        self._next = (self._next + 1) % HISTORY

    def of(self, slot: int) -> list[float]:
        """The excess of one slot, oldest first; NaN where it did not report."""
        rows = self._rows if len(self._rows) < HISTORY else self._rows[self._next:] + self._rows[:self._next]
        return [row[slot] if slot < len(row) else float("nan") for row in rows]

    def clear(self) -> None:
        """Forgets all, at a restart."""
        self._rows, self._next = [], 0


def pattern_of(run: LateRun, excess: list[float], number: int) -> SlowPattern:
    """The shape of one subject's slowness: `excess` is its history up to window `number` of the attempt."""
    if run.turns >= _TURNS:
        return SlowPattern.OSCILLATION
    values = [value for value in excess if value == value]
    if run.since <= 1:
        return SlowPattern.STEADY
    if len(values) >= 6:
        rise = max(values) - min(values)
        jump = max(later - value for value, later in pairwise(values))
        # A decay has no window in which most of it came, and goes on to the end.
        if rise > 0 and jump < rise / 2 and slope(values) * (len(values) - 1) > rise / 2 \
                and median(values[-2:]) > median(values[-6:-2]):
            return SlowPattern.DRIFT
    return SlowPattern.STEP_DOWN
