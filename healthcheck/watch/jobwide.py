"""What slows all ranks at once: the job's own speed over its windows, beside its own earlier ones."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise

from healthcheck.watch.model import PHASES, SlowPattern, StepPhase
from healthcheck.watch.robust import measured, median, median_of, slope, spread

EFFECT = 0.08           # of the usual step
SIGMAS = 4.0
RECENT, RECENT_SLOW = 6, 5
LEAST = 8               # windows of an attempt before its speed is usual
KEPT = 128
HALF = KEPT // 2
SLOW_START = 1.3        # the first window beside those after it
_USUAL = 0.25           # the quantile of windows that is taken for the usual speed
_TURNS = 5
_NAMED = 0.5            # share of the growth that must be in one phase, for it to be named


@dataclass(frozen=True)
class JobSpeed:
    """The job is slower than usual: since the window of this number, by `lost_s` seconds a step; `phase` took
    most of it, if one did. `of_gc` is the part in garbage collection, summed over ranks."""

    pattern: SlowPattern
    since: int
    usual_s: float
    lost_s: float
    phase: StepPhase | None
    of_gc: float = 0.0
    still: bool = True


@dataclass(slots=True)
class _Point:
    number: int
    seconds: float
    phases: tuple[float, ...]
    gc: float


@dataclass
class JobSeries:
    """The job's windows of one attempt; only the newest KEPT count."""

    _points: deque[_Point] = field(default_factory=lambda: deque(maxlen=KEPT))
    _head: list[float] = field(default_factory=list)
    _start_said: bool = False

    def add(self, number: int, seconds: float, phases: tuple[float, ...], gc: float) -> None:
        """One window: its number in the attempt, and the medians over ranks in seconds a step; `gc` is
        summed over ranks."""
        self._points.append(_Point(number, seconds, phases, gc))
        if len(self._head) < LEAST:
            self._head.append(seconds)

    def clear(self) -> None:
        """Forgets all, at a restart."""
        self._points.clear()
        self._head, self._start_said = [], False

    def since(self, number: int) -> int:
        """How many windows there were from this one on."""
        return sum(point.number >= number for point in self._points)

    def usual(self) -> float:
        """The usual seconds of a step; NaN before anything is known."""
        ordered = measured([point.seconds for point in self._points])
        return ordered[int(_USUAL * (len(ordered) - 1))] if ordered else float("nan")

    def slow_start(self) -> JobSpeed | None:
        """Said once, when enough windows have followed the slow first ones."""
        if self._start_said or len(self._head) < LEAST:
            return None
        self._start_said = True
        later = median(self._head[LEAST // 2:])
        slow = 0
        while slow < LEAST // 2 and self._head[slow] > SLOW_START * later:
            slow += 1
        if not slow:
            return None
        lost = sum(self._head[:slow]) / slow - later
        return JobSpeed(SlowPattern.SLOW_START, 0, later, lost, None, still=False)

    def speed(self) -> JobSpeed | None:
        """How the job is slower than usual in its newest windows; None where it is not."""
        points = list(self._points)
        if len(points) < LEAST:
            return None
        usual = self.usual()
        quick = sorted(point.seconds for point in points if point.seconds <= usual * (1 + EFFECT))
        limit = usual + max(EFFECT * usual, SIGMAS * spread(quick, median_of(quick)))
        slow = [point.seconds > limit for point in points]
        turns = sum(one != other for one, other in pairwise(slow[-16:]))
        if turns >= _TURNS and sum(slow[-16:]) >= 5:
            return self._described(points, slow, SlowPattern.OSCILLATION, len(points) - min(16, len(points)))
        if sum(slow[-RECENT:]) < RECENT_SLOW:
            return None
        since = len(points) - 1
        while since and sum(slow[max(0, since - 2):since]):
            since -= 1
        while not slow[since]:
            since += 1
        seconds = [point.seconds for point in points]
        rise = median(seconds[-3:]) - usual
        jump = max(later - one for one, later in pairwise(seconds))
        decays = jump < rise / 2 and slope(seconds[-HALF:]) * len(seconds[-HALF:]) > rise / 3
        return self._described(points, slow, SlowPattern.DRIFT if decays else SlowPattern.STEP_DOWN, since)

    def _described(self, points: list[_Point], slow: list[bool], pattern: SlowPattern,
                   since: int) -> JobSpeed:
        now = [point for point, is_slow in zip(points[since:], slow[since:], strict=True) if is_slow]
        then = [point for point, is_slow in zip(points, slow, strict=True) if not is_slow]
        usual = median([point.seconds for point in then])
        lost = median([point.seconds for point in now]) - usual
        growth = [(median([point.phases[place] for point in now])
                   - median([point.phases[place] for point in then]), phase)
                  for place, phase in enumerate(PHASES)]
        known = [one for one in growth if one[0] == one[0]]
        most, phase = max(known, key=lambda one: one[0], default=(0.0, None))
        gc = median([point.gc for point in now]) - median([point.gc for point in then])
        return JobSpeed(pattern, points[since].number, usual, lost,
                        phase if most >= _NAMED * lost else None, gc if gc == gc else 0.0)
