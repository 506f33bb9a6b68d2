"""Gathers the lines of all ranks into windows of steps: what each rank reports of the same steps is compared,
whatever their clocks say. Memory is bounded by the number of ranks."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import truediv

from healthcheck.watch.attempts import Attempts
from healthcheck.watch.model import NOT_MEASURED, PHASES, StepTime
from healthcheck.watch.robust import median

MOST_RANKS = 131_072
_COLUMNS = 1 + len(PHASES) + 4      # seconds, phases, gc, delay, faults, cpu
_MOST_OPEN = 32
_MOST_HELD = 200_000                # lines until the size of a window is known
_ENOUGH = 10                        # steps after which it is


@dataclass(frozen=True)
class RankValues:
    """What ranks reported in one window, each a mean of one step and NOT_MEASURED where not reported, by
    slot: the place of a rank in `ranks`. The last window of a log may lack ranks."""

    attempt: int
    first: int
    last: int
    time: float
    ranks: tuple[int | None, ...]
    hosts: tuple[str, ...]
    roles: tuple[str, ...]
    seconds: list[float]
    phases: tuple[list[float], ...]
    gc: list[float]
    delay: list[float]
    faults: list[float]
    cpu: list[float]
    gpus: tuple[str, ...] = ()


@dataclass(slots=True)
class _Open:
    """One window while lines still come: sums over steps, by slot."""

    steps: list[int]
    sums: list[list[float]]
    count: int = 0
    time: float = 0.0
    first: int = 1 << 62
    last: int = -1


@dataclass
class Windows:
    """The windows of one job. A window is `window_s` long at the job's usual speed, at least `least` steps,
    and at least what one line covers."""

    window_s: float = 10.0
    least: int = 5
    attempts: Attempts = field(default_factory=Attempts)
    beyond: int = 0             # lines of ranks past MOST_RANKS
    per: int = 0                # steps of a window; 0 until it is known
    _slots: dict[int | None, int] = field(default_factory=dict)
    _ranks: list[int | None] = field(default_factory=list)
    _hosts: list[str] = field(default_factory=list)
    _roles: list[str] = field(default_factory=list)
    _gpus: list[str] = field(default_factory=list)
    _open: dict[tuple[int, int], _Open] = field(default_factory=dict)
    _closed: dict[int, int] = field(default_factory=dict)      # by attempt, the newest place that was closed
    _held: list[StepTime] = field(default_factory=list)
    _ready: deque[RankValues] = field(default_factory=lambda: deque(maxlen=2 * _MOST_OPEN))

    def add(self, line: StepTime) -> None:
        """Takes one line."""
        if not self.per:
            self._held.append(line)
            if len(self._held) >= _MOST_HELD:
                self._begin()
            return
        self._add(line)

    def settle(self) -> Iterator[RankValues]:
        """The windows that are complete, oldest first; to be called after each pass over all logs."""
        if not self.per and self._held and self._enough():
            self._begin()
        yield from self._taken()
        newest: dict[int, int] = {}
        for attempt, place in self._open:
            newest[attempt] = max(place, newest.get(attempt, place))
        last = self.attempts.newest
        for key in sorted(self._open):
            attempt, place = key
            top = newest[attempt]
            after = self._open.get((attempt, place + 1))
            # No rank is far ahead in synchronous training: whoever lacks then writes late, or no more.
            if (attempt < last and last in newest) or place + 2 <= top \
                    or (after is not None and after.count >= self._open[key].count):
                yield self._values(key)

    def finish(self) -> Iterator[RankValues]:
        """All that are left, at the end of the logs."""
        if not self.per and self._held:
            self._begin()
        yield from self._taken()
        for key in sorted(self._open):
            yield self._values(key)

    def _taken(self) -> Iterator[RankValues]:
        """Those that were closed early, as too many were open."""
        while self._ready:
            yield self._ready.popleft()

    def _enough(self) -> bool:
        steps = [line.step for line in self._held]
        return max(steps) - min(steps) >= _ENOUGH

    def _begin(self) -> None:
        held, self._held = self._held, []
        seconds = median([line.seconds for line in held])
        covered = max(line.steps for line in held)
        wanted = max(self.least, math.ceil(self.window_s / max(seconds, 1e-6)))
        self.per = min(covered * math.ceil(wanted / covered), 1 << 40)
        for line in held:
            self._add(line)

    def _add(self, line: StepTime) -> None:
        attempt = self.attempts.of(line)
        if attempt < 0:
            return
        # Taken apart at once: this runs for each line, and each attribute costs as much as an addition.
        (_, rank, host, _, step, steps, time, mean, phases, role, in_gc, waited, faulted, _, ran, gpu) = line
        slot = self._slots.get(rank)
        if slot is None:
            if len(self._ranks) >= MOST_RANKS:
                self.beyond += 1
                return
            slot = self._slots[rank] = len(self._ranks)
            self._ranks.append(rank)
            self._hosts.append(host)
            self._roles.append(role)
            self._gpus.append(gpu)
        elif host and host is not self._hosts[slot]:
            self._hosts[slot], self._gpus[slot] = host, gpu     # a rank may run elsewhere after a restart
        key = (attempt, (step - 1) // self.per)
        window = self._open.get(key)
        if window is None:
            if key[1] <= self._closed.get(attempt, -(1 << 60)):
                return
            if len(self._open) >= _MOST_OPEN:
                self._ready.append(self._values(min(self._open)))
            window = self._open[key] = self._opened()
        if slot >= len(window.steps):
            more = len(self._ranks) - len(window.steps)
            window.steps += [0] * more
            for column in window.sums:
                column += [0.0] * more
        before = window.steps[slot]
        if not before:
            window.count += 1
        window.steps[slot] = before + steps
        seconds, data, forward, backward, communication, checkpoint, gc, delay, faults, cpu = window.sums
        in_data, in_forward, in_backward, in_communication, in_checkpoint = phases
        seconds[slot] += mean * steps
        data[slot] += in_data * steps
        forward[slot] += in_forward * steps
        backward[slot] += in_backward * steps
        communication[slot] += in_communication * steps
        checkpoint[slot] += in_checkpoint * steps
        gc[slot] += in_gc * steps
        delay[slot] += waited * steps
        faults[slot] += faulted * steps
        cpu[slot] += ran * steps
        if time > window.time:
            window.time = time
        if step > window.last:
            window.last = step
        if step - steps < window.first:
            window.first = step - steps + 1

    def _opened(self) -> _Open:
        count = len(self._ranks)
        return _Open([0] * count, [[0.0] * count for _ in range(_COLUMNS)])

    def _values(self, key: tuple[int, int]) -> RankValues:
        window = self._open.pop(key)
        self._closed[key[0]] = max(key[1], self._closed.get(key[0], key[1]))
        if len(self._closed) > _MOST_OPEN:
            del self._closed[min(self._closed)]
        steps = window.steps
        if 0 in steps:
            means = [[total / done if done else NOT_MEASURED for total, done
                      in zip(column, steps, strict=True)]
                     for column in window.sums]
        else:
            means = [list(map(truediv, column, steps)) for column in window.sums]
        number = len(steps)
        return RankValues(key[0], window.first, window.last, window.time, tuple(self._ranks[:number]),
                          tuple(self._hosts[:number]), tuple(self._roles[:number]), means[0],
                          tuple(means[1:1 + len(PHASES)]), means[-4], means[-3], means[-2], means[-1],
                          tuple(self._gpus[:number]))
