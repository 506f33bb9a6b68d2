"""What the inventory says of a node, as facts: read from no machine, handed in by the sweep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from healthcheck.facts.values import Fact

PORT_PLANS = "port_plans"


@dataclass(frozen=True)
class PortPlans(Fact):
    """What the node's ports are for, as its inventory entry says, and where that is silent its SKU, by PCI address.

    `compute` gives each compute port's rail (None: not said), `others` are those for storage, management or a DPU. Both are empty where
    nothing is planned. `down` are the compute ports that are to have no link (not cabled, say), `unread` the adapters that the look left
    out, because the inventory says so.
    """

    name: str
    compute: Mapping[str, int | None]
    others: frozenset[str] = frozenset()
    down: frozenset[str] = frozenset()
    unread: frozenset[str] = frozenset()
