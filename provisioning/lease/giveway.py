"""When a lease gives way: a waiting job could use its nodes, or its budget is used up."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from provisioning.actions.base import Backend, SupportsQueue

# How often the queue is read. A job then has the nodes some seconds later, for ranks end within 2 s.
BEAT_S = 5.0


@dataclass
class GiveWay:
    """Asked with the back end and a lease's nodes, says why they are to be given back now, else ""; it keeps
    to what it said (`why`). `until` (epoch seconds) is when the budget is used up. Raises ActionError."""

    until: float
    clock: Callable[[], float] = time.time
    why: str = ""

    def __call__(self, base: Backend, nodes: Sequence[str]) -> str:
        if not self.why and self.clock() > self.until:
            self.why = "its node-hours are used up"
        if not self.why and isinstance(base, SupportsQueue):
            self.why = base.waiting(nodes)
        return self.why
