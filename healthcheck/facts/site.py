"""What the inventory says of a node, as facts: read from no machine, handed in by the sweep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from healthcheck.facts.base import Fact

PORT_PLANS = "port_plans"


@dataclass(frozen=True)
class PortPlans(Fact):
    """The planned compute ports: PCI address -> rail (None: not said). Empty where the inventory plans none."""

    name: str
    compute: Mapping[str, int | None]
