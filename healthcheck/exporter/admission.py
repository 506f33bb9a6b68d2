"""Who has to go when there are too many connections: the slowest of the address that holds the most.

A connection whose request is not complete costs little, so there may be many; a client that sent its request
is never closed for one that did not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from enum import Enum
from typing import Protocol, TypeVar

MOST = 256              # connections at a time; a process may have 1,024 open files
MOST_OF_PEER = 128      # of them, from one address
_STALLED_S = 1.0        # from which a client that takes nothing counts as slow


class ConnectionPhase(Enum):
    """What a connection waits for."""

    REQUEST = "request"     # the client's, with its handshake
    ANSWER = "answer"       # ours
    TAKEN = "taken"         # the client, to take the answer


class Held(Protocol):
    """A connection; its time is in monotonic seconds."""

    @property
    def peer(self) -> str:
        """The address."""

    @property
    def phase(self) -> ConnectionPhase:
        """What it waits for."""

    @property
    def since(self) -> float:
        """Since when."""


H = TypeVar("H", bound=Held)


def full(held: Collection[H], peer: str, most: int = MOST, most_of_peer: int = MOST_OF_PEER) -> list[H]:
    """The connections of which one must go before one more of this address fits; empty if it fits."""
    own = [one for one in held if one.peer == peer]
    if len(own) >= most_of_peer:
        return own
    if len(held) < most:
        return []
    ((largest, _),) = Counter(one.peer for one in held).most_common(1)
    return [one for one in held if one.peer == largest]


def slowest(held: Collection[H], now: float) -> H | None:
    """The one that goes first: it has waited longest for its client's request, or else for its client to
    take the answer. None if each waits for us or makes progress."""
    slow = [one for one in held if one.phase is ConnectionPhase.REQUEST
            or (one.phase is ConnectionPhase.TAKEN and now - one.since > _STALLED_S)]
    return min(slow, key=lambda one: (one.phase is not ConnectionPhase.REQUEST, one.since), default=None)
