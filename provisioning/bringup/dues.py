"""When which machine is to be looked at again."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from itertools import count

from provisioning.bringup.ways import Way


class Dues:
    """Times of machines; one that went on meanwhile has another time, or none, and its old one does not count."""

    def __init__(self, ways: Mapping[str, Way]) -> None:
        self._ways = ways
        self._heap: list[tuple[float, int, str]] = []
        self._number = count()

    def add(self, way: Way, time: float) -> None:
        """It is to be looked at then."""
        way.due = time
        heapq.heappush(self._heap, (time, next(self._number), way.name))

    def next(self) -> float | None:
        """The earliest time."""
        while self._heap and self._ways[self._heap[0][2]].due != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def come(self, now: float) -> Iterator[Way]:
        """Those whose time has come, earliest first; each once."""
        while (time := self.next()) is not None and time <= now:
            way = self._ways[heapq.heappop(self._heap)[2]]
            way.due = None
            yield way
