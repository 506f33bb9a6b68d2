"""Goodput: of the time from a job's first step to its last, the share in steps that were kept and ran as fast
as usual; and where the rest went. Pure.

Each second is in one part alone. What a log does not show is said as not measured, and is in no other part.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from healthcheck.watch.model import (
    JobAttempt,
    SlowPattern,
    StepPhase,
    StepWindow,
    WatchCause,
    WatchFinding,
    WatchLevel,
)

_USUAL = 0.25       # the quantile of windows that is the usual speed, as `jobwide` takes it


@dataclass(frozen=True)
class JobRestart:
    """What one restart cost, in seconds: `idle_s` without steps (less what `hang_s` the job hung before it),
    and `again_s` in `lost_steps` steps that were done before."""

    attempt: int
    idle_s: float
    hang_s: float
    lost_steps: int
    again_s: float

    @property
    def cost_s(self) -> float:
        """All of it."""
        return self.idle_s + self.hang_s + self.again_s


@dataclass(frozen=True)
class JobGoodput:
    """Seconds of a job, from its first step to its last (`wall_s`). `useful_s` is what is left of the time in
    steps, less all below. `by_cause` is what slow ranks, hosts and places, and a slower job, cost by the
    cause found; `slow_s` is of slower steps without a finding, `between_s` of an attempt's time between steps
    (start, checkpoints, evaluation). `checkpoint_s` and `data_s` are None where ranks do not time them;
    `unknown_s` is of steps that no line speaks of."""

    wall_s: float
    useful_s: float
    restarts: tuple[JobRestart, ...]
    hang_s: float
    checkpoint_s: float | None
    data_s: float | None
    by_cause: Mapping[WatchCause, float]
    slow_s: float
    between_s: float
    unknown_s: float
    usual_s: float

    @property
    def goodput(self) -> float:
        """Useful time by all time; what is not known counts as not useful."""
        return self.useful_s / self.wall_s

    @property
    def idle_s(self) -> float:
        """In which no attempt ran, and none hung."""
        return sum(one.idle_s for one in self.restarts)

    @property
    def again_s(self) -> float:
        """In steps that were done before."""
        return sum(one.again_s for one in self.restarts)


def goodput(
    attempts: Sequence[JobAttempt], windows: Sequence[StepWindow], findings: Sequence[WatchFinding],
) -> JobGoodput | None:
    """The goodput of a watched job; None where no steps are known."""
    if not attempts or not windows:
        return None
    hangs: dict[int, float] = defaultdict(float)
    for one in findings:
        if one.pattern is SlowPattern.HANG:
            hangs[one.attempt] += one.last - one.since
    end = max([attempts[-1].ended, *(one.last for one in findings if one.pattern is SlowPattern.HANG
                                     and one.attempt == attempts[-1].number)])
    mean = _means(windows)
    restarts = tuple(_restart(before, one, hangs, mean) for before, one in pairwise(attempts))
    parts = _Parts(findings)
    hung = sum(one.hang_s for one in restarts)
    whole = sum(mean.values()) / len(mean)
    between = unknown = 0.0
    for attempt in attempts:
        until = end if attempt.number == attempts[-1].number else attempt.ended
        of_steps, missing = parts.attempt(attempt, [one for one in windows if one.attempt == attempt.number])
        missing_s = min(missing * mean.get(attempt.number, whole), max(0.0, until - attempt.began - of_steps))
        rest = max(0.0, until - attempt.began - of_steps - missing_s)
        here = min(hangs[attempt.number], rest)
        hangs[attempt.number] -= here
        hung, unknown, between = hung + here, unknown + missing_s, between + rest - here
    restarts = _within(restarts, parts.left)
    again = sum(one.again_s for one in restarts)
    usual, slow = parts.slow(parts.left - again)
    wall = sum(one.idle_s for one in restarts) + hung + between + unknown + parts.steps
    useful = max(0.0, parts.left - slow - again)
    return JobGoodput(wall, useful, restarts, hung, parts.checkpoint, parts.data, dict(parts.causes),
                      slow, between, unknown, usual) if wall > 0 else None


def _means(windows: Sequence[StepWindow]) -> dict[int, float]:
    """By attempt the mean step."""
    steps: dict[int, int] = defaultdict(int)
    seconds: dict[int, float] = defaultdict(float)
    for one in windows:
        steps[one.attempt] += one.last - one.first + 1
        seconds[one.attempt] += (one.last - one.first + 1) * one.seconds
    return {attempt: seconds[attempt] / count for attempt, count in steps.items() if count}


def _restart(before: JobAttempt, one: JobAttempt, hangs: dict[int, float],
             mean: Mapping[int, float]) -> JobRestart:
    hung = min(hangs[before.number], one.idle_s)
    hangs[before.number] -= hung
    # No more steps are done again than this attempt did.
    lost = min(one.lost_steps, max(0, one.last - one.first + 1))
    return JobRestart(one.number, one.idle_s - hung, hung, one.lost_steps, lost * mean.get(one.number, 0.0))


def _within(restarts: tuple[JobRestart, ...], left: float) -> tuple[JobRestart, ...]:
    """No more time is in steps done again than is in steps at all."""
    again = sum(one.again_s for one in restarts)
    if again <= left:
        return restarts
    return tuple(replace(one, again_s=one.again_s * left / again) for one in restarts)


class _Parts:
    """Sums the parts of windows."""

    def __init__(self, findings: Sequence[WatchFinding]) -> None:
        self._findings = [one for one in findings if one.pattern is not SlowPattern.HANG]
        self._rest: list[tuple[float, int]] = []        # of each window, what is left of a step; its steps
        self.steps = self.left = 0.0
        self.checkpoint: float | None = None
        self.data: float | None = None
        self.causes: dict[WatchCause, float] = defaultdict(float)

    def attempt(self, attempt: JobAttempt, windows: Sequence[StepWindow]) -> tuple[float, int]:
        """Takes an attempt's windows; the seconds in its steps, and how many steps are missing."""
        before, seen = self.steps, 0
        for one in windows:
            seen += one.last - one.first + 1
            self._window(one)
        return self.steps - before, max(0, attempt.last - attempt.first + 1 - seen)

    def _window(self, window: StepWindow) -> None:
        count, left = window.last - window.first + 1, window.seconds
        self.steps += count * left
        worst = max((one for one in self._findings if one.attempt == window.attempt
                     and one.since_step <= window.last and one.since <= window.time <= one.last),
                    key=lambda one: one.lost_s, default=None)
        # Ranks wait for the slowest alone: of several, the worst is what a step costs.
        lost = min(left, max(0.0, worst.lost_s)) if worst is not None else 0.0
        left -= lost
        if worst is not None:
            self.causes[worst.verdict.cause] += count * lost
        for phase in (StepPhase.CHECKPOINT, StepPhase.DATA):
            took = window.phases.get(phase)
            if took is None:
                continue
            if worst is not None and worst.level is WatchLevel.JOB and worst.phase is phase:
                took = max(0.0, took - lost)        # it is in the finding's loss
            took = min(took, left)
            left -= took
            if phase is StepPhase.CHECKPOINT:
                self.checkpoint = (self.checkpoint or 0.0) + count * took
            else:
                self.data = (self.data or 0.0) + count * took
        self._rest.append((left, count))
        self.left += count * left

    def slow(self, most: float) -> tuple[float, float]:
        """The usual step without what is accounted for, and seconds in slower steps, at most `most`."""
        usual = sorted(left for left, _ in self._rest)[int(_USUAL * (len(self._rest) - 1))]
        return usual, min(most, sum(count * max(0.0, left - usual) for left, count in self._rest))
