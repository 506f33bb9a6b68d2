"""Which nodes to leave alone because their last login hung. Each such login leaves a process on the node,
which may stay for as long as what it waits for. So the node is left alone for a minute, or for one interval
of the sweeps where that is longer, and for twice as long after each further login that hangs in a row, at
most an hour. Any other end of a login, or another entry in the inventory, ends that."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from inventory.model import Node
from inventory.times import second
from inventory.transport.base import HANGS, Failure, Reply

FIRST_S = 60.0
LONGEST_S = 3600.0


def rest_s(hung: int, every: float) -> float:
    """How long to leave a node alone after so many hung logins, with sweeps `every` so many seconds."""
    first = max(FIRST_S, every)
    return min(first * 2.0 ** min(hung - 1, 32), max(LONGEST_S, every))


@dataclass(frozen=True)
class _Hung:
    node: Node
    logins: int
    until: float
    failure: Failure


class HungLogins:
    """The nodes whose last login hung, with sweeps `every` so many seconds. Safe to use from many threads: a
    sweep may reach its nodes in several runs."""

    def __init__(self, every: float, clock: Callable[[], float] = time.time) -> None:
        self._every = every
        self._clock = clock
        self._hung: dict[str, _Hung] = {}
        self._lock = threading.Lock()

    def resting(self, nodes: Iterable[Node]) -> dict[str, Reply]:
        """A reply for each of these nodes that is to be left alone; one whose entry changed is not."""
        now = self._clock()
        found: dict[str, Reply] = {}
        with self._lock:
            for node in nodes:
                hung = self._hung.get(node.name)
                if hung is not None and hung.node != node:
                    del self._hung[node.name]
                elif hung is not None and now < hung.until:
                    found[node.name] = Reply(node.name, None, _left_alone(hung), now, now, attempts=0)
        return found

    @property
    def names(self) -> frozenset[str]:
        """The nodes whose last login hung: the next one is their second try."""
        with self._lock:
            return frozenset(self._hung)

    def saw(self, node: Node, reply: Reply) -> None:
        """Takes in how a login ended."""
        failure = reply.failure
        with self._lock:
            before = self._hung.pop(node.name, None)
            if failure is None or failure.stuck not in HANGS:
                return
            logins = 1 if before is None else before.logins + 1
            self._hung[node.name] = _Hung(node, logins, self._clock() + rest_s(logins, self._every), failure)


def _left_alone(hung: _Hung) -> Failure:
    until = second(hung.until)
    which = "its last login" if hung.logins == 1 else f"each of its last {hung.logins} logins"
    reason = (f"left alone until {until}, because {which} hung and may have left a process there: "
              f"{hung.failure.reason}")
    return Failure(hung.failure.stuck or hung.failure.stage, reason)
