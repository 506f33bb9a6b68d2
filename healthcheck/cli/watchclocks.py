"""How far apart the clocks of a job's hosts are, by the logs of its ranks: in synchronous training all end a
step together. Logs are read in the order of their times, so that a host whose clock is wrong would be read
before or behind all others, and compared with none."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from healthcheck.watch import steplines
from healthcheck.watch.model import StepTime

_TAIL = 16 << 10        # bytes at the end of a log, for its newest line


class HostClocks:
    """The clocks of the hosts whose logs were begun. `apart` has those that differ, in seconds."""

    def __init__(self) -> None:
        self.apart: dict[str, float] = {}
        self._firsts: dict[tuple[str, int | None, int], tuple[StepTime, Path]] = {}

    def begun(self, logs: Sequence[tuple[StepTime, Path]], least: float) -> list[float]:
        """By how many seconds the clock behind each of these logs, given with its first line, is ahead of
        that of most ranks that began with the same step; 0 where it is less than `least`.

        A rank that joined in a later start of the job began with that step, too, and later. Its newest line
        is as late as those of others; that of a host whose clock is wrong differs as much as its first.
        """
        by_step: dict[tuple[str, int | None, int], list[tuple[StepTime, Path]]] = defaultdict(list)
        for line, path in logs:
            by_step[_step(line)].append((line, path))
        for step, group in by_step.items():
            ordered = sorted(group, key=lambda one: one[0].time)
            self._firsts.setdefault(step, ordered[(len(ordered) - 1) // 2])
        return [self._apart(line, path, least) for line, path in logs]

    def _apart(self, line: StepTime, path: Path, least: float) -> float:
        usual, of = self._firsts[_step(line)]
        apart = line.time - usual.time
        if abs(apart) <= least:
            return 0.0
        newest, others = _newest(path), _newest(of)
        if newest is None or others is None:
            return 0.0
        since = newest.time - others.time - (newest.step - others.step) * others.seconds
        if abs(since - apart) > least:
            return 0.0
        self.apart[line.host] = apart
        return apart


def _step(line: StepTime) -> tuple[str, int | None, int]:
    return line.job, line.attempt, line.step


def _newest(path: Path) -> StepTime | None:
    """The last whole line of a log, if it is of our form."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            text = file.read(_TAIL).decode("utf-8", "replace")
        return steplines.parse(text[:text.rfind("\n") + 1].rstrip("\n").rpartition("\n")[2])
    except (OSError, steplines.NoStepLine):
        return None
