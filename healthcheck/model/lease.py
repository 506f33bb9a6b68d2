"""The lease: leave to run what is disruptive. Nothing disruptive runs beside a job (DESIGN section 1,
invariant 8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inventory.transport.base import Limits, Transport

# Why a rule was not judged, and nothing sent for it.
NEEDED = "needs a lease"


@dataclass(frozen=True)
class Lease:
    """Nodes that their scheduler holds for us and on which no compute process runs; `holder` says who holds
    them, for people.

    Whoever makes one has proven both; a node of which either could not be proven is not in it, but in
    `refused` with the reason. `stood` says, asked when the work is done, by node why what was measured there
    is not to be relied on: the lease was lost. `over` says why the work is to end now, and `gave_way` to whom
    a lease that stood gave way, each "" where it is not so. `isolate` has jobs kept from these of its nodes
    beyond the lease, by node for what reason; the others are given back first. It says of each what came of
    it.
    """

    nodes: frozenset[str]
    holder: str
    refused: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    stood: Callable[[], Mapping[str, str]] = dict
    over: Callable[[], str] = str
    gave_way: Callable[[], str] = str
    isolate: Callable[[Mapping[str, str]], Sequence[str]] = list

    def lacks(self, nodes: Iterable[str]) -> tuple[str, ...]:
        """Those of these nodes that it neither covers nor refuses, sorted."""
        return tuple(sorted(set(nodes) - self.nodes - self.refused.keys()))


@dataclass(frozen=True)
class Granted:
    """What a sweep under a lease is to be made with: over this transport, which watches over the lease, and
    within these bounds.
    """

    transport: Transport
    bounds: Limits
    lease: Lease
