"""Which start of the job a line belongs to: a restarted job does some of its steps again."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from healthcheck.watch.model import JobAttempt, StepTime

_MOST = 10_000      # attempts of one job


@dataclass(slots=True)
class _Running:
    number: int
    first: int
    last: int
    began: float
    ended: float
    ranks: int = 0
    lost_steps: int = 0


@dataclass(slots=True)
class RankPosition:
    """How far one rank has come: its newest step, when that ended by its clock, and in which attempt."""

    attempt: int
    step: int
    time: float


class Attempts:
    """Tells the attempts of one job apart as lines come in; ranks may come in any order."""

    def __init__(self) -> None:
        self._attempts: list[_Running] = []
        self._by_name: dict[int, int] = {}      # what lines call it -> its number
        self.ranks: dict[int | None, RankPosition] = {}

    @property
    def newest(self) -> int:
        """The number of the newest attempt, -1 before the first line."""
        return len(self._attempts) - 1

    def of(self, line: StepTime) -> int:
        """The attempt of this line, from 0 in order of their begin; -1 where the line was read before (a
        rotated or copied log), or is older than what is known of its rank."""
        _, rank, _, name, step, steps, time, *_ = line
        progress = self.ranks.get(rank)
        if progress is None:
            number = self._joined(line)
            self.ranks[rank] = RankPosition(number, step, time)
            attempt = self._attempts[number]
            attempt.ranks += 1
        else:
            number = progress.attempt
            # Who does a step again begins it after the newest has ended; else it is a copy, or lingers.
            if step <= progress.step and time - 0.95 * line.seconds * steps < progress.time and (
                    name is None or self._by_name.get(name, number + 1) <= number):
                return -1
            if name is not None or step <= progress.step or number < len(self._attempts) - 1:
                number = self._continued(line, progress)
                if number < progress.attempt:
                    return -1
                if number != progress.attempt:
                    self._attempts[number].ranks += 1
            attempt = self._attempts[number]
            progress.attempt, progress.step, progress.time = number, step, time
        if step > attempt.last:
            attempt.last = step
        elif (first := step - steps + 1) < attempt.first:
            attempt.first = first
        return number

    def closed(self, number: int, time: float) -> None:
        """Steps of this attempt ended at `time`, by most of its ranks' clocks."""
        self._attempts[number].ended = max(time, self._attempts[number].ended)

    def all(self) -> tuple[JobAttempt, ...]:
        """The attempts so far."""
        idle = [0.0, *(max(0.0, one.began - before.ended) for before, one in pairwise(self._attempts))]
        return tuple(JobAttempt(one.number, one.first, one.last, one.began, one.ended, one.ranks,
                                one.lost_steps, idle_s)
                     for one, idle_s in zip(self._attempts, idle, strict=False))

    def _joined(self, line: StepTime) -> int:
        """The attempt of a rank's first line."""
        if line.attempt is not None:
            return self._named(line, line.attempt)
        if not self._attempts:
            return self._began(line)
        # A log may be read late: its rank was there in the attempt in whose time its first line falls.
        for one in reversed(self._attempts):
            if line.time >= one.began - line.seconds * line.steps:
                return one.number
        return 0

    def _continued(self, line: StepTime, progress: RankPosition) -> int:
        if line.attempt is not None:
            return self._named(line, line.attempt)
        newest = self._attempts[-1]
        if progress.attempt < newest.number:
            # Others have begun again; so has this rank, once its steps or its time are of the new one.
            again = line.step <= progress.step or line.time >= newest.began
            return newest.number if again else progress.attempt
        return self._began(line) if line.step <= progress.step else progress.attempt

    def _named(self, line: StepTime, name: int) -> int:
        number = self._by_name.get(name)
        if number is None:
            number = self._by_name[name] = self._began(line)
        return number

    def _began(self, line: StepTime) -> int:
        if len(self._attempts) >= _MOST:
            return len(self._attempts) - 1
        first, began = max(0, line.step - line.steps + 1), line.time - line.seconds * line.steps
        made = _Running(len(self._attempts), first, line.step, began, line.time)
        if self._attempts:
            made.lost_steps = max(0, self._attempts[-1].last - first + 1)
        self._attempts.append(made)
        return made.number
