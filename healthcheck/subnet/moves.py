"""What a technician does to bring a chain of cables as planned, in an order in which every port is free when
an end is plugged into it; in a circle one end is pulled, held, and plugged in last. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from healthcheck.subnet.assign import CableChain, moved
from healthcheck.subnet.cabled import SeenCable, joins
from healthcheck.subnet.cabling import PlannedCable, PlannedEnd


class CableAction(Enum):
    """What is done to a cable, and how many ends that plugs in."""

    PULL = "pull"  # both ends out: it is extra, or is to be laid elsewhere
    HOLD = "hold"  # one end out of its port and held, to be plugged in later
    MOVE = "move"  # one end into another port: one plug
    CONNECT = "connect"  # a link without a cable: both ends of one that is there, or of a new one: two plugs
    REPLACE = "replace"  # both ends of another cable in the place of one that does not fit: two plugs


_PLUGS = {CableAction.MOVE: 1, CableAction.CONNECT: 2, CableAction.REPLACE: 2}


@dataclass(frozen=True)
class CableStep:
    """One action. `cable` is what it is done to, as it is cabled before the repair, None for one that is not
    seen; `start` the port that the end leaves, None where it is held or loose; `stop` where it is plugged in;
    `planned` the link that is served then, `stays` where the other end of a moved cable is."""

    action: CableAction
    cable: SeenCable | None = None
    start: PlannedEnd | None = None
    stop: PlannedEnd | None = None
    planned: PlannedCable | None = None
    stays: PlannedEnd | None = None

    @property
    def plugs(self) -> int:
        """How many ends are plugged in."""
        return _PLUGS.get(self.action, 0)


def steps(
    chain: CableChain, wanted: Sequence[PlannedCable], reused: frozenset[int] = frozenset()
) -> tuple[CableStep, ...]:
    """The actions for one chain, in order. `wanted` are those of its links that get another cable; `reused`
    has the ids of left cables that another chain gets (`laid`), which are pulled there."""
    if chain.circle and len(chain.links) == 1 and not chain.pairs:
        return (CableStep(CableAction.REPLACE, chain.cables[0], planned=chain.links[0]),)
    moves = [_move(cable, link) for link, cable in chain.pairs if not joins(cable, link)]
    pulls = [CableStep(CableAction.PULL, cable) for cable in chain.left if id(cable) not in reused]
    connects = [CableStep(CableAction.CONNECT, planned=link) for link in wanted]
    return (*pulls, *_ordered(moves), *connects)


def laid(cable: SeenCable, link: PlannedCable) -> tuple[CableStep, ...]:
    """A cable that shares no port with its link: both its ends change places."""
    straight = cable.a.device == link.a.device or cable.b.device == link.b.device
    ends = (link.a, link.b) if straight or cable.a.device != link.b.device else (link.b, link.a)
    return (
        CableStep(CableAction.PULL, cable, planned=link),
        *(CableStep(CableAction.MOVE, cable, None, stop, link) for stop in ends),
    )


def _move(cable: SeenCable, link: PlannedCable) -> CableStep:
    start, stop = moved(cable, link)
    stays = cable.b if start == cable.a else cable.a
    return CableStep(CableAction.MOVE, cable, start, stop, link, stays)


def _ordered(moves: Sequence[CableStep]) -> Iterator[CableStep]:
    """Each move after the one that empties its port; where they wait for each other, one end is held."""
    leaves = {move.start: move for move in moves}
    fills = {move.stop: move for move in moves}
    done: set[int] = set()
    for first in moves:
        if first.stop not in leaves:  # its port is free: then whatever waits for the port that it leaves
            yield from _following(first, fills, done)
    for first in moves:
        if id(first) in done:
            continue
        done.add(id(first))
        yield CableStep(CableAction.HOLD, first.cable, first.start, None, first.planned, first.stays)
        yield from _following(fills[first.start], fills, done)
        yield replace(first, start=None)


def _following(
    first: CableStep, fills: dict[PlannedEnd | None, CableStep], done: set[int]
) -> Iterator[CableStep]:
    move: CableStep | None = first
    while move is not None and id(move) not in done:
        done.add(id(move))
        yield move
        move = fills.get(move.start)
