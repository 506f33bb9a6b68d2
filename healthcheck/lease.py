"""The lease: leave to run what is disruptive. Nothing disruptive runs beside a job (DESIGN section 1, invariant 8)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

# Why a rule was not judged, and nothing sent for it.
NEEDED = "needs a lease"


@dataclass(frozen=True)
class Lease:
    """Nodes that their scheduler holds for us and on which no compute process runs; `holder` says who holds them, for people.

    Whoever makes one has proven both; a node of which either could not be proven is not in it.
    """

    nodes: frozenset[str]
    holder: str

    def lacks(self, nodes: Iterable[str]) -> tuple[str, ...]:
        """Those of these nodes that it does not cover, sorted."""
        return tuple(sorted(set(nodes) - self.nodes))
