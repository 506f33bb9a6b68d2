"""A simulated scheduler with an endless queue: it starts jobs where no one keeps them away, and they die
where nodes are broken."""

from __future__ import annotations

import heapq
import random
from collections import deque

from simulation import rates
from simulation.rates import HOUR
from simulation.tally import BUSY, Tally
from simulation.world import hours


class Scheduler:
    """First come, first served; the next job waits until there are nodes enough. A job is hit once, whatever
    happens to it."""

    def __init__(self, nodes: int, seed: int, tally: Tally) -> None:
        self._chance = random.Random(f"{seed} jobs")  # noqa: S311
        self._tally = tally
        self._free = deque(range(nodes))
        self._queued = [True] * nodes
        self._of: list[int] = [0] * nodes
        self._jobs: dict[int, tuple[list[int], bool]] = {}
        self._ends: list[tuple[int, int]] = []
        self._largest = max(nodes // 4, 1)
        self._closed = [False] * nodes
        self._sick: list[str] = [""] * nodes
        self._next = self._size()
        self.started = self.hits = 0

    def close(self, node: int, now: int, *, evict: bool = False) -> None:
        """No new job starts there; with `evict` the one that runs is lost."""
        self._closed[node] = True
        if evict:
            self._kill(self._of[node], now)

    def open(self, node: int) -> None:
        """Jobs may start there again."""
        self._closed[node] = False
        self._put(node)

    def sick(self, node: int, how: str, now: int) -> None:
        """A node is "fatal" or "slow" from now on, or well (""); what runs there dies, or is hit."""
        self._sick[node] = how
        if how == "fatal":
            self._kill(self._of[node], now)
        elif how and (job := self._of[node]):
            self._hit(job)

    def end(self, now: int) -> None:
        """What has run its time is over."""
        while self._ends and self._ends[0][0] <= now:
            self._finish(heapq.heappop(self._ends)[1], now)

    def start(self, now: int) -> None:
        """Starts what there is room for."""
        while True:
            found: list[int] = []
            while self._free and len(found) < self._next:
                node = self._free.popleft()
                self._queued[node] = False
                if not self._closed[node]:
                    found.append(node)
            if len(found) < self._next:
                for node in reversed(found):
                    self._free.appendleft(node)
                    self._queued[node] = True
                return
            self._begin(found, now)
            self._next = self._size()

    def _begin(self, nodes: list[int], now: int) -> None:
        self.started += 1
        job = self.started
        worst = {self._sick[node] for node in nodes if self._sick[node]}
        self._jobs[job] = (nodes, False)
        for node in nodes:
            self._of[node] = job
            self._tally.turn(node, BUSY, on=True, now=now)
        lasts = hours(self._chance, *rates.JOB_LASTS)
        if worst:
            self._hit(job)
        if "fatal" in worst:
            lasts = min(lasts, int(rates.DIES_AFTER * HOUR))
        heapq.heappush(self._ends, (now + lasts, job))

    def _hit(self, job: int) -> None:
        nodes, was = self._jobs[job]
        if not was:
            self._jobs[job] = (nodes, True)
            self.hits += 1

    def _kill(self, job: int, now: int) -> None:
        if job in self._jobs:
            self._hit(job)
            self._finish(job, now)

    def _finish(self, job: int, now: int) -> None:
        for node in self._jobs.pop(job, ([], False))[0]:
            self._of[node] = 0
            self._tally.turn(node, BUSY, on=False, now=now)
            self._put(node)

    def _put(self, node: int) -> None:
        if not (self._queued[node] or self._closed[node] or self._of[node]):
            self._queued[node] = True
            self._free.append(node)

    def _size(self) -> int:
        return min(self._chance.choices(list(rates.SIZES), list(rates.SIZES.values()))[0], self._largest)
