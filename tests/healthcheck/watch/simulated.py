"""Jobs as training writes them, with planted faults: synchronous, so that each step takes as long as its
slowest rank.

Severities are published ones:

- 1.10: hosts that take about 10 % longer for the same forward computation, about 0.5 % of all (MegaScale,
  NSDI 2024, arXiv 2402.15627,
  section 6.3 "Computational stragglers"; without them MFU was 0.7 % higher);
- 1.20: a GPU that is 20 % slower as it throttles thermally; a job that lost 21.6 % at most to a busy
  neighbour's CPU use (Falcon, arXiv
  2410.12588, as GREYHOUND in USENIX ATC 2025, section 3.2);
- 1.34: by how much fail-slows lengthen jobs of 512 GPUs and more on average, in 13 of 16 of them for want of
  network (there, table 1; one
  node alone 11.79 %, four nodes 15.45 %);
- 3.04: jobs most of whose slowdown is one of few workers, 1.7 % of those with stragglers (1.28 on average;
  ByteDance, OSDI 2025, arXiv
  2505.05713, section 5.1; 42.5 % of jobs of 128 GPUs and more are at least 10 % slower than without
  stragglers, section 4.1);
- 1.05 is less than any of them. Garbage collection that comes when it likes costs 12.6 % with 128
  data-parallel ranks (the same, section 5.4).

How long steps of healthy ranks take is assumed, for want of a source: a rank's own time varies by 1 % from
step to step; a share `PAUSES` of steps takes 3 to 10 % longer (interrupts of kernel, network and storage);
and each rank is slower than the fastest by a constant of about 1 %, as chips are not equal. Of whole jobs it
is known that the slowest tenth of steps takes at least 6 % longer than the median one (ByteDance, section
4.2), and that throughput varies by 1 to 2 % with the heat of the day (Llama 3, arXiv 2407.21783, section
3.3.4).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from healthcheck.watch.model import NOT_MEASURED, StepTime
from healthcheck.watch.watcher import JobWatch

PAUSES = 0.01
COMPUTE_S, DATA_S, COMMUNICATION_S = 0.8, 0.02, 0.15


@dataclass(frozen=True)
class Planted:
    """A fault: its kind, whom it is on, how much longer that takes, and from which step on (to which)."""

    # compute, data, oscillation, drift, rack, checkpoint, loading, network, flapping, gc, start
    kind: str
    ranks: tuple[int, ...] = ()
    factor: float = 1.0
    since: int = 0
    until: int = 1 << 40


@dataclass
class SimulatedJob:
    """`steps` steps of `ranks` ranks, one line for each `every` of them; `phases`: whether ranks time
    them."""

    ranks: int
    steps: int
    seed: int
    faults: tuple[Planted, ...] = ()
    every: int = 1
    phases: bool = True
    per_host: int = 8
    per_place: int = 4      # hosts
    measured: bool = True   # whether ranks measure garbage collection
    began: float = 1_800_000_000.0
    _rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self._chip = [1 + abs(self._rng.gauss(0, 0.01)) for _ in range(self.ranks)]

    def host(self, rank: int) -> str:
        return f"gpu{rank // self.per_host:04}"

    def places(self) -> dict[str, str]:
        return {self.host(rank): f"rack {rank // self.per_host // self.per_place}"
                for rank in range(self.ranks)}

    def passes(self) -> Iterator[tuple[float, list[StepTime]]]:
        """The lines of all ranks, `every` steps at a time, with the time at their end."""
        now = self.began
        for last in range(self.every, self.steps + 1, self.every):
            lines, now = self._lines(last, now)
            yield now, lines

    def _lines(self, last: int, now: float) -> tuple[list[StepTime], float]:
        gauss, uniform, count = self._rng.gauss, self._rng.random, self.every
        own, data, gc = [], [], [0.0] * self.ranks
        for rank in range(self.ranks):
            noise = 1 + gauss(0, 0.01 / count**0.5)
            pauses = sum(uniform() < PAUSES
                         for _ in range(count)) if count < 20 else gauss(PAUSES * count,
                                                                         (PAUSES * count)**0.5)
            own.append(COMPUTE_S
                       * (self._chip[rank] * noise + max(0.0, pauses) * (0.03 + 0.07 * uniform()) / count))
            data.append(DATA_S * (0.5 + uniform()))
        common = checkpoint = 0.0
        for fault in self.faults:
            active = fault.since <= last < fault.until
            if not active:
                continue
            more = fault.factor - 1
            if fault.kind == "compute" or (fault.kind == "oscillation" and last // (4 * self.every) % 2):
                for rank in fault.ranks:
                    own[rank] += more * COMPUTE_S
            elif fault.kind == "data":
                for rank in fault.ranks:
                    data[rank] += more * COMPUTE_S
            elif fault.kind == "drift":
                for rank in fault.ranks:
                    own[rank] += more * COMPUTE_S * min(1.0, (last - fault.since) / 400)
            elif fault.kind == "loading":
                data = [one + more * COMPUTE_S for one in data]
            elif fault.kind == "network" or (fault.kind == "flapping" and last // (4 * self.every) % 2):
                common += more * COMPUTE_S
            elif fault.kind == "checkpoint":
                checkpoint += more * COMPUTE_S
            elif fault.kind == "start":
                own = [one + more * COMPUTE_S for one in own]
            elif fault.kind == "gc":
                # Each rank collects in its own steps, so that in more and more steps some rank does: all wait
                # for it.
                share = min(1.0, (last - fault.since) / 400)
                gc = [more * COMPUTE_S * share / self.ranks * (0.8 + 0.4 * uniform())
                      for _ in range(self.ranks)]
                own = [one + pause for one, pause in zip(own, gc, strict=True)]
                common += more * COMPUTE_S * share
        most = max(one + two for one, two in zip(own, data, strict=True))
        step = most + COMMUNICATION_S + common + checkpoint
        now += step * count
        lines = []
        for rank in range(self.ranks):
            if self.phases:
                forward = own[rank] / 3
                values = (data[rank], forward, own[rank] - forward,
                          step - own[rank] - data[rank] - checkpoint, checkpoint)
            else:
                values = (NOT_MEASURED,) * 5
            lines.append(StepTime("4711", rank, self.host(rank), None, last, count, now, step, values, "",
                                  gc[rank] if self.measured else NOT_MEASURED))
        return lines, now


def feed(watch: JobWatch, job: SimulatedJob,
         told: Callable[[StepTime], StepTime | None] = lambda line: line) -> float:
    """Tells the watch what `told` makes of each line; the time at which it was last looked."""
    now = 0.0
    for now, lines in job.passes():
        for line in filter(None, map(told, lines)):
            watch.add(line)
        watch.settle(now)
    return now
