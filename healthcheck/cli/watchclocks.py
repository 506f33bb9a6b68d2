"""How far apart the clocks of a job's hosts are, by the logs of its ranks: in synchronous training all end a
step together. Logs are read in the order of their times, so that a host whose clock is wrong would be read
before or behind all others, and compared with none."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from healthcheck.watch import steplines
from healthcheck.watch.model import StepTime

_TAIL = 16 << 10        # bytes at the end of a log, for its newest line


# What a log begins with: job, attempt and step, and which of its rank's logs that begin so it is.
_Begin = tuple[str, int | None, int, int]


class HostClocks:
    """The clocks of the hosts whose logs were begun. `apart` has those that differ, in seconds."""

    def __init__(self) -> None:
        self.apart: dict[str, float] = {}
        self._firsts: dict[_Begin, tuple[StepTime, Path]] = {}
        self._begun: Counter[tuple[int | None, str, int | None, int]] = Counter()

    def begun(self, logs: Sequence[tuple[StepTime, Path]], least: float) -> list[float]:
        """By how many seconds the clock behind each of these logs, given with its first line, is ahead of
        that of most ranks that began with the same step; 0 where it is less than `least`.

        A rank that begins with a step again, in another log, does so in a later start of the job, and is
        compared with the others of that start. One that joined in a later start began with that step, too,
        and later. Its newest line is as late as those of others; that of a host whose clock is wrong differs
        as much as its first.
        """
        of_start: dict[_Begin, list[tuple[StepTime, Path]]] = defaultdict(list)
        began: dict[Path, _Begin] = {}
        for line, path in sorted(logs, key=lambda one: one[0].time):
            began[path] = begin = self._begin(line)
            of_start[begin].append((line, path))
        for begin, group in of_start.items():
            self._firsts.setdefault(begin, group[(len(group) - 1) // 2])
        return [self._apart(line, path, self._firsts[began[path]], least) for line, path in logs]

    def _begin(self, line: StepTime) -> _Begin:
        own = line.rank, line.job, line.attempt, line.step
        self._begun[own] += 1
        return line.job, line.attempt, line.step, self._begun[own]

    def _apart(self, line: StepTime, path: Path, first: tuple[StepTime, Path], least: float) -> float:
        usual, of = first
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


def _newest(path: Path) -> StepTime | None:
    """The last whole line of a log, if it is of our form."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            text = file.read(_TAIL).decode("utf-8", "replace")
        return steplines.parse(text[:text.rfind("\n") + 1].rstrip("\n").rpartition("\n")[2])
    except (OSError, steplines.NoStepLine):
        return None
