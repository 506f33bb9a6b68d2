"""Who has connected to the key server and has not proved yet that it knows a token. Beyond a number, from one
address or of all together, the oldest makes room: who belongs greets within milliseconds."""

from __future__ import annotations

import resource
from collections import Counter

from provisioning.burnin.peer import Peer

MOST = 1024             # of all addresses together
MOST_OF_ADDRESS = 256   # of one address, or one /64 of IPv6, which one machine may have whole
PER_AGENT = 32          # more from there for each agent that is connected: the ranks of 16 GPUs, twice


class Strangers:
    """The connections without proof, oldest first. `most` is how many may be at once, and never more than a
    quarter of the descriptors that this process may have, so that ranks find some."""

    def __init__(self, most: int = MOST, of_address: int = MOST_OF_ADDRESS) -> None:
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most = most if files == resource.RLIM_INFINITY else max(16, min(most, files // 4))
        self._of_address = of_address
        self._by_origin: dict[str, dict[Peer, None]] = {}
        self._agents: Counter[str] = Counter()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, peer: Peer) -> Peer | None:
        """Counts this one; returns who has to go for it, if anyone."""
        here = self._by_origin.setdefault(peer.origin, {})
        here[peer] = None
        self._count += 1
        if len(here) > self._of_address + PER_AGENT * self._agents[peer.origin]:
            return next(iter(here))
        return self.oldest() if self._count > self._most else None

    def oldest(self) -> Peer | None:
        """The oldest one of the address that has most of them."""
        most = max(self._by_origin.values(), key=len, default={})
        return next(iter(most), None)

    def remove(self, peer: Peer) -> None:
        """It is none any more: known by now, or gone."""
        here = self._by_origin.get(peer.origin, {})
        if peer in here:
            del here[peer]
            self._count -= 1
            if not here:
                del self._by_origin[peer.origin]

    def agent(self, peer: Peer, change: int) -> None:
        """An agent has come (1) from this address, or gone (-1)."""
        self._agents[peer.origin] += change

    def late(self, now: float, seconds: float) -> list[Peer]:
        """Those connected for longer than this, whatever they have sent meanwhile."""
        return [peer for here in self._by_origin.values() for peer in here if now - peer.came > seconds]
