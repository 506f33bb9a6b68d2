"""The fewest plugs that bring cables as planned, by trying everything: Dijkstra's search over all ways in
which ends can be in ports.

It knows nothing of chains: a state is the set of cables, each the set of ports that its ends are in; to pull
an end is free, to plug one in costs one, a new cable may be taken from a box at any time.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

Cable = tuple[str, ...]     # the ports that it is in: two, one or none
Board = tuple[Cable, ...]


def fewest(there: Iterable[Cable], planned: Iterable[Cable]) -> int:
    """How many ends are plugged in, at least, until exactly the planned links are there."""
    goal = frozenset(tuple(sorted(cable)) for cable in planned)
    ports = sorted({port for cable in [*there, *goal] for port in cable})
    missing = max(0, len(goal) - len(list(there)))
    start = _sorted([*there, *([()] * (missing + 1))])
    best = {start: 0}
    queue = [(0, start)]
    while queue:
        cost, board = heapq.heappop(queue)
        if cost > best[board]:
            continue
        if {cable for cable in board if cable} == goal:
            return cost
        for price, after in _steps(board, ports):
            if cost + price < best.get(after, 10**9):
                best[after] = cost + price
                heapq.heappush(queue, (cost + price, after))
    raise AssertionError("no way")


def _steps(board: Board, ports: list[str]) -> Iterator[tuple[int, Board]]:
    taken = {port for cable in board for port in cable}
    for at, cable in enumerate(board):
        others = [*board[:at], *board[at + 1:]]
        for port in cable:
            yield 0, _sorted([*others, tuple(each for each in cable if each != port)])
        if len(cable) < 2:
            for port in ports:
                if port not in taken:
                    yield 1, _sorted([*others, (*cable, port)])


def _sorted(cables: list[Cable]) -> Board:
    return tuple(sorted(tuple(sorted(cable)) for cable in cables))
