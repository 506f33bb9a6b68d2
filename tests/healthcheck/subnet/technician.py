"""Whoever repairs cabling: carries out steps one by one on a board of ports, and minds that a port holds one
end only."""

from __future__ import annotations

from collections.abc import Iterable

from healthcheck.subnet.cabled import SeenCable
from healthcheck.subnet.cabling import PlannedEnd
from healthcheck.subnet.moves import CableAction, CableStep


class Board:
    """Where the two ends of each cable are: a port, or None for one that is in a hand or loose."""

    def __init__(self, cables: Iterable[SeenCable]) -> None:
        self.ends: dict[object, list[PlannedEnd | None]] = {id(cable): [cable.a, cable.b] for cable in cables}
        self.plugged = 0

    def do(self, step: CableStep) -> None:
        """One step; fails where its port is taken, or the end is not where the step says."""
        if step.action in (CableAction.CONNECT, CableAction.REPLACE):
            assert step.planned is not None
            if step.action is CableAction.REPLACE:
                self.ends[id(step.cable)] = [None, None]
            self.ends[id(step)] = [None, None]
            for at, port in enumerate((step.planned.a, step.planned.b)):
                self._plug(id(step), at, port)
            return
        key = id(step.cable)
        if step.action is CableAction.PULL:
            self.ends[key] = [None, None]
        elif step.action is CableAction.HOLD:
            self.ends[key][self.ends[key].index(step.start)] = None
        else:
            assert step.stop is not None
            self._plug(key, self.ends[key].index(step.start), step.stop)

    def _plug(self, key: object, at: int, port: PlannedEnd) -> None:
        assert all(port not in ends for ends in self.ends.values()), f"{port} is taken"
        self.ends[key][at] = port
        self.plugged += 1

    def joined(self) -> set[frozenset[PlannedEnd]]:
        """What is joined; a cable that is out joins nothing. Fails where an end was left in a hand."""
        assert all((ends[0] is None) == (ends[1] is None) for ends in self.ends.values()), self.ends
        return {frozenset(end for end in ends if end is not None)
                for ends in self.ends.values() if ends[0] is not None}
