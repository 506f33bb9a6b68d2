"""Fills an allocation with nodes that may start jobs: open spares replace closed ones, the nearest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from healthcheck.gate.nodestatus import GateNode


class Move(NamedTuple):
    """A replaced node, the reason, its spare and their distance; or an added node."""

    away: str
    instead: str
    where: str
    why: str = ""


class Filled(NamedTuple):
    """The nodes to start on, in order; replacements; unused nodes; and how many are still missing."""

    nodes: tuple[str, ...]
    moves: tuple[Move, ...]
    left: tuple[str, ...]
    short: int


def fill(
    wanted: Sequence[str], closed: Mapping[str, str], spares: Sequence[str], need: int,
    known: Mapping[str, GateNode],
) -> Filled:
    """`need` open nodes: the wanted ones in order, each closed one replaced by a spare, of the same NVLink
    domain before the same leaf before any other; further spares at the end if needed. `closed` are nodes and
    reasons; `spares` are open and not wanted; `known` are the snapshot's entries."""
    room = need - sum(name not in closed for name in wanted)
    left = list(spares)
    nodes: list[str] = []
    moves: list[Move] = []
    for name in wanted:
        if name not in closed:
            nodes.append(name)
        elif room > 0 and left:
            found = min(left, key=lambda spare: (_distance(known.get(name), known.get(spare)),
                                                 left.index(spare)))
            left.remove(found)
            nodes.append(found)
            moves.append(Move(name, found, _WHERE[_distance(known.get(name), known.get(found))],
                              closed[name]))
            room -= 1
    more = left[: max(0, need - len(nodes))]
    moves += [Move("", name, "one more") for name in more]
    nodes += more
    return Filled(tuple(nodes[:need]), tuple(moves), tuple(nodes[need:]), max(0, need - len(nodes)))


_WHERE = ("same NVLink domain", "same leaf", "elsewhere")


def _distance(one: GateNode | None, other: GateNode | None) -> int:
    if one is None or other is None:
        return 2
    if one.domain and one.domain == other.domain:
        return 0
    return 1 if set(one.leaf) & set(other.leaf) else 2
