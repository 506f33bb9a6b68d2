"""What slows all ranks at once: the job's own speed over its windows, beside its own earlier ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
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
BLOCKS = 128            # of HALF windows each, most of a day: so long a better speed stays the usual one
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


@dataclass(frozen=True)
class _Usual:
    """The job at its usual speed: `seconds` of a quick step, `sigma` the deviation of quick windows, and the
    medians of these (seconds, phases and garbage collection)."""

    seconds: float
    sigma: float
    median: float
    phases: tuple[float, ...]
    gc: float


@dataclass
class JobSeries:
    """The job's windows of one attempt: the newest KEPT, and how it was at its best in those before."""

    _points: deque[_Point] = field(default_factory=lambda: deque(maxlen=KEPT))
    _blocks: deque[_Usual] = field(default_factory=lambda: deque(maxlen=BLOCKS))
    _count: int = 0
    _head: list[float] = field(default_factory=list)
    _start_said: bool = False

    def add(self, number: int, seconds: float, phases: tuple[float, ...], gc: float) -> None:
        """One window: its number in the attempt, and medians over ranks in seconds a step (`gc`: a sum)."""
        self._points.append(_Point(number, seconds, phases, gc))
        self._count += 1
        if self._count % HALF == 0:
            self._blocks.append(self._newest())
        if len(self._head) < LEAST:
            self._head.append(seconds)

    def clear(self) -> None:
        """Forgets all, at a restart."""
        self._points.clear()
        self._blocks.clear()
        self._count = 0
        self._head, self._start_said = [], False

    def since(self, number: int) -> int:
        """How many windows there were from this one on."""
        return sum(point.number >= number for point in self._points)

    def usual(self) -> float:
        """The usual seconds of a step; NaN before anything is known."""
        return self._usual().seconds if self._points else float("nan")

    def _usual(self) -> _Usual:
        """A slowness that lasts does not become usual while better is remembered."""
        return min((*self._blocks, self._newest()), key=lambda one: one.seconds)

    def _newest(self) -> _Usual:
        ordered = measured([point.seconds for point in self._points])
        seconds = ordered[int(_USUAL * (len(ordered) - 1))]
        points = [point for point in self._points if point.seconds <= seconds * (1 + EFFECT)]
        quick = sorted(point.seconds for point in points)
        middle = median_of(quick)
        return _Usual(seconds, spread(quick, middle), middle, _phases(points),
                      median([point.gc for point in points]))

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
        base = self._usual()
        usual = base.seconds
        limit = usual + max(EFFECT * usual, SIGMAS * base.sigma)
        slow = [point.seconds > limit for point in points]
        turns = sum(one != other for one, other in pairwise(slow[-16:]))
        if turns >= _TURNS and sum(slow[-16:]) >= 5:
            first = slow.index(True, max(0, len(slow) - 16))
            return self._described(base, points, slow, SlowPattern.OSCILLATION, first)
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
        pattern = SlowPattern.DRIFT if decays else SlowPattern.STEP_DOWN
        return self._described(base, points, slow, pattern, since)

    def _described(self, base: _Usual, points: list[_Point], slow: list[bool], pattern: SlowPattern,
                   since: int) -> JobSpeed:
        now = [point for point, is_slow in zip(points[since:], slow[since:], strict=True) if is_slow]
        then = [point for point, is_slow in zip(points, slow, strict=True) if not is_slow]
        usual, phases, gc = base.median, base.phases, base.gc
        if then:
            usual, gc = median([point.seconds for point in then]), median([point.gc for point in then])
            phases = _phases(then)
        lost = median([point.seconds for point in now]) - usual
        growth = [(median([point.phases[place] for point in now]) - phases[place], phase)
                  for place, phase in enumerate(PHASES)]
        known = [one for one in growth if one[0] == one[0]]
        most, phase = max(known, key=lambda one: one[0], default=(0.0, None))
        more = median([point.gc for point in now]) - gc
        return JobSpeed(pattern, points[since].number, usual, lost,
                        phase if most >= _NAMED * lost else None, more if more == more else 0.0)


def _phases(points: Sequence[_Point]) -> tuple[float, ...]:
    """The median of each phase."""
    return tuple(median([point.phases[place] for point in points]) for place in range(len(PHASES)))
