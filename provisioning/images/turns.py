"""Whose turn it is to pull: so many at one time of one rack or leaf, whose links to the rest they share; and
who takes far longer than the others."""

from __future__ import annotations

import statistics
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest

from inventory.model import Node

_TIMES, _MORE_S, _LEAST = 2.0, 5.0, 3


class PlaceTurns:
    """Limits.turns of a pull: at most `most` nodes of each rack and of each leaf. A node without either
    counts for none. It knows who is at work, and since when."""

    def __init__(
        self, nodes: Sequence[Node], most: int, clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = most
        self._clock = clock
        self._nodes = tuple(nodes)
        self._at: Counter[str] = Counter()
        self._since: dict[str, float] = {}
        self._lock = threading.Lock()

    def may_begin(self, node: Node) -> bool:
        with self._lock:
            return all(self._at[place] < self._most for place in places(node))

    def begins(self, node: Node) -> None:
        with self._lock:
            self._since[node.name] = self._clock()
            self._at.update(places(node))

    def ends(self, node: Node) -> None:
        with self._lock:
            self._since.pop(node.name, None)
            self._at.subtract(places(node))

    def at_work(self) -> dict[str, float]:
        """The seconds for which each node at work has been."""
        with self._lock:
            now = self._clock()
            return {name: now - since for name, since in self._since.items()}

    def rounds(self, fanout: int) -> int:
        """More rounds of pulls than it can take: those of all, and those of the fullest place."""
        fullest = Counter(place for node in self._nodes for place in places(node))
        return -(-len(self._nodes) // max(1, fanout)) + -(-max(fullest.values(), default=0) // self._most)


def places(node: Node) -> list[str]:
    """The places whose links a node shares."""
    return [*([f"rack {node.rack}"] if node.rack else []),
            *(f"leaf {leaf}" for leaf in dict.fromkeys(node.leaf))]


def interleaved(nodes: Sequence[Node]) -> list[Node]:
    """The nodes of all places in turn, so that a pull begins everywhere."""
    by_place: dict[tuple[str, ...], list[Node]] = defaultdict(list)
    for node in nodes:
        by_place[tuple(places(node))].append(node)
    return [node for row in zip_longest(*by_place.values()) for node in row if node is not None]


def stragglers(seconds: Mapping[str, float], at_work: Mapping[str, float]) -> tuple[float, dict[str, float]]:
    """The median of those that are done, and who takes or took over twice as long and 5 s more, slowest
    first; no one before three are done, and half of all that have begun."""
    if len(seconds) < _LEAST or len(seconds) < len(at_work):
        return 0.0, {}
    median = statistics.median(seconds.values())
    late = {name: took for name, took in (*seconds.items(), *at_work.items())
            if took > max(_TIMES * median, median + _MORE_S)}
    return median, dict(sorted(late.items(), key=lambda one: -one[1]))
