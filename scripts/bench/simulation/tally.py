"""The books of one run: every sweep's time of every node is in one bucket, and what happened is counted."""

from __future__ import annotations

from dataclasses import dataclass, field

from simulation.rates import HOUR

FAULTY, SICK, HELD, BUSY = 8, 4, 2, 1


class Tally:
    """Sixteen buckets: at fault or not, sick now or not, kept from jobs or open, with a job or without. A
    fault that sleeps is not sick."""

    def __init__(self, nodes: int) -> None:
        self._is = [0] * nodes
        self._since = [0] * nodes
        self._sum = [0] * 16

    def turn(self, node: int, bit: int, *, on: bool, now: int) -> None:
        """One of the four changes for a node."""
        was = self._is[node]
        self._sum[was] += now - self._since[node]
        self._since[node] = now
        self._is[node] = was | bit if on else was & ~bit

    def close(self, now: int) -> None:
        """Counts what holds until the end."""
        for node in range(len(self._is)):
            self.turn(node, 0, on=True, now=now)

    def hours(self, *, faulty: bool | None = None, sick: bool | None = None, held: bool | None = None,
              busy: bool | None = None) -> float:
        """Node-hours of the buckets in which these are so."""
        asked = ((FAULTY, faulty), (SICK, sick), (HELD, held), (BUSY, busy))
        return sum(time for at, time in enumerate(self._sum)
                   if all(want is None or bool(at & bit) == want for bit, want in asked)) / HOUR


@dataclass
class Counts:
    """What happened in one run. Delays are in sweeps; `events` are isolations by shared event, and `names` in
    how many names they were."""

    faults: int = 0
    delays: list[int] = field(default_factory=list)
    undetected: int = 0
    isolations: int = 0
    false: int = 0
    false_incident: int = 0
    visits: int = 0
    needless: int = 0
    openings: int = 0
    events: dict[int, int] = field(default_factory=dict)
    names: dict[int, set[str]] = field(default_factory=dict)
    plans: int = 0
