"""The lease: permission to run what is disruptive; nothing disruptive runs beside a job.

Invariant 8 of healthcheck/help/architecture.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inventory.transport.base import Limits, Transport

# The reason of a rule whose probes were not sent.
NEEDED = "needs a lease"


@dataclass(frozen=True)
class Lease:
    """Nodes that their scheduler holds for us and on which no compute process runs; `holder` says for people
    who holds them.

    The creator has proven both; a node for which either is not proven is in `refused` with the reason.
    `stood` returns after the work, by node, why its measurements are not reliable: the lease was lost. `over`
    returns why the work must end now, and `gave_way` to whom an intact lease gave way; each returns ""
    otherwise. `isolate` keeps jobs from these of its nodes beyond the lease, for a reason by node, gives the
    others back first, and returns what happened to each.
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
    """What a sweep under a lease uses: this transport, which watches the lease, and these limits."""

    transport: Transport
    bounds: Limits
    lease: Lease
