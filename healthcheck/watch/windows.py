"""Gathers the lines of all ranks into windows of steps: what each rank reports of the same steps is compared,
whatever their clocks say. Memory is bounded by the number of ranks."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from healthcheck.watch.attempts import Attempts
from healthcheck.watch.model import NOT_MEASURED, PHASES, StepTime
from healthcheck.watch.robust import median

MOST_RANKS = 131_072
_PHASES_END = 1 + len(PHASES)       # of a row: seconds, phases, gc, delay, faults, cpu
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


@dataclass
class _Ranks:
    """Where the ranks of one attempt run, in which role and on which GPU, by slot."""

    hosts: list[str] = field(default_factory=list)
    roles: list[str] = field(default_factory=list)
    gpus: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Open:
    """One window while lines still come, by slot: how many steps, and their only line or the sums over them
    (seconds, phases, gc, delay, faults, cpu) with the time of the last. Most windows of long jobs have one
    line of each rank."""

    steps: list[int]
    rows: list[StepTime | list[float] | None]
    who: _Ranks
    count: int = 0
    first: int = 1 << 62
    last: int = -1


def _sums(line: StepTime) -> list[float]:
    """The line's values, summed over its steps."""
    steps = line.steps
    return [*(value * steps for value in _means(line)), line.time]


def _means(line: StepTime) -> tuple[float, ...]:
    return (line.seconds, *line.phases, line.gc, line.delay, line.faults, line.cpu)


_NO_ROW = (NOT_MEASURED,) * (1 + len(PHASES) + 4)


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
    _who: _Ranks = field(default_factory=_Ranks)
    _named: int = 0             # the attempt that `_who` is of
    _open: dict[tuple[int, int], _Open] = field(default_factory=dict)
    _closed: dict[int, int] = field(default_factory=dict)      # by attempt, the newest place that was closed
    _held: list[StepTime] = field(default_factory=list)
    _ready: deque[RankValues] = field(default_factory=lambda: deque(maxlen=2 * _MOST_OPEN))

    def add(self, line: StepTime) -> None:
        """Takes one line."""
        self.add_all((line,))

    def add_all(self, lines: Iterable[StepTime]) -> None:
        """Takes some lines."""
        if self.per:
            self._add(lines)
            return
        self._held += lines
        if len(self._held) >= _MOST_HELD:
            self._begin()

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
        self._add(held)

    def _add(self, lines: Iterable[StepTime]) -> None:
        attempt_of, slots, hosts, roles = self.attempts.of, self._slots, self._who.hosts, self._who.roles
        windows, per = self._open, self.per
        for line in lines:
            attempt = attempt_of(line)
            if attempt < 0:
                continue
            # Taken apart at once: this runs for each line, and each attribute costs as much as an addition.
            _, rank, host, _, step, steps, time, mean, phases, role, in_gc, waited, faulted, _, ran, _ = line
            slot = slots.get(rank)
            if slot is None:
                slot = self._joined(line)
                if slot is None:
                    continue
            elif host is not hosts[slot] or role is not roles[slot]:
                self._moved(slot, attempt, line)
                hosts, roles = self._who.hosts, self._who.roles
            window = windows.get((attempt, (step - 1) // per))
            if window is None:
                window = self._opened(attempt, (step - 1) // per)
                if window is None:
                    continue
            if slot >= len(window.steps):
                more = len(slots) - len(window.steps)
                window.steps += [0] * more
                window.rows += [None] * more
            row = window.rows[slot]
            if row is None:
                window.count += 1
                window.rows[slot] = line
            else:
                sums = row if type(row) is list else _sums(row)  # type: ignore[arg-type]
                in_data, in_forward, in_backward, in_communication, in_checkpoint = phases
                sums[0] += mean * steps
                sums[1] += in_data * steps
                sums[2] += in_forward * steps
                sums[3] += in_backward * steps
                sums[4] += in_communication * steps
                sums[5] += in_checkpoint * steps
                sums[6] += in_gc * steps
                sums[7] += waited * steps
                sums[8] += faulted * steps
                sums[9] += ran * steps
                sums[10] = time
                window.rows[slot] = sums
            window.steps[slot] += steps
            if step > window.last:
                window.last = step
            if step - steps < window.first:
                window.first = step - steps + 1

    def _joined(self, line: StepTime) -> int | None:
        """The slot of a rank that reports for the first time; None where there are too many."""
        if len(self._ranks) >= MOST_RANKS:
            self.beyond += 1
            return None
        slot = self._slots[line.rank] = len(self._ranks)
        self._ranks.append(line.rank)
        self._who.hosts.append(line.host)
        self._who.roles.append(line.role)
        self._who.gpus.append(line.gpu)
        return slot

    def _moved(self, slot: int, attempt: int, line: StepTime) -> None:
        """A rank may run elsewhere, in another role, after a restart: earlier windows keep where it ran."""
        now = self._who
        if attempt < self._named or (line.host in ("", now.hosts[slot]) and line.role == now.roles[slot]):
            return
        if attempt > self._named:
            self._named, self._who = attempt, _Ranks(list(now.hosts), list(now.roles), list(now.gpus))
        self._who.hosts[slot] = line.host or now.hosts[slot]
        self._who.roles[slot], self._who.gpus[slot] = line.role, line.gpu

    def _opened(self, attempt: int, place: int) -> _Open | None:
        """A new window; None where it was closed before."""
        if place <= self._closed.get(attempt, -(1 << 60)):
            return None
        if len(self._open) >= _MOST_OPEN:
            self._ready.append(self._values(min(self._open)))
        count = len(self._ranks)
        made = self._open[attempt, place] = _Open([0] * count, [None] * count, self._who)
        return made

    def _values(self, key: tuple[int, int]) -> RankValues:
        window = self._open.pop(key)
        self._closed[key[0]] = max(key[1], self._closed.get(key[0], key[1]))
        if len(self._closed) > _MOST_OPEN:
            del self._closed[min(self._closed)]
        rows: list[Sequence[float]] = [
            _NO_ROW if row is None else [value / done for value in row[:-1]] if type(row) is list
            else _means(row)  # type: ignore[arg-type]
            for row, done in zip(window.rows, window.steps, strict=True)]
        means = [list(column) for column in zip(*rows, strict=True)]
        number = len(rows)
        # By most clocks: that of one rank may be wrong.
        time = median([row[-1] if type(row) is list else row.time  # type: ignore[union-attr]
                       for row in window.rows if row is not None])
        self.attempts.closed(key[0], time)
        # Of an attempt that goes on, who moved since the window was opened; of an older one, who joined.
        then, now = window.who if key[0] < self._named else self._who, self._who
        hosts, roles, gpus = ((*old, *new[len(old):]) for old, new in (
            (then.hosts, now.hosts), (then.roles, now.roles), (then.gpus, now.gpus)))
        return RankValues(key[0], window.first, window.last, time, tuple(self._ranks[:number]),
                          hosts[:number], roles[:number], means[0],
                          tuple(means[1:_PHASES_END]), means[-4], means[-3], means[-2], means[-1],
                          gpus[:number])
