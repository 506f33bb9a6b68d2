"""What the inventory says of a node, as facts: read from no machine, handed in by the sweep."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from healthcheck.facts.values import Fact
from inventory.model import Node, PortPlan

PORT_PLANS = "port_plans"


class PortPlans(Fact):
    """What the node's ports are for, as its inventory entry says, and where that is silent its SKU, by PCI address.

    `compute` gives each compute port's rail (None: not said), `others` are those for storage, management or a DPU. Both are empty where
    nothing is planned. `down` are the compute ports that are to have no link (not cabled, say), `unread` the adapters that the look left
    out, because the inventory says so.
    """

    name: str
    compute: Mapping[str, int | None]
    others: frozenset[str]
    down: frozenset[str]
    unread: frozenset[str]


def plans_of(node: Node, usual: Mapping[str, PortPlan], unread: frozenset[str]) -> PortPlans:
    """The plans of a node of whose kind of machine `usual` holds: what the node's entry says goes before that."""
    plans = dict(usual)
    for pci, planned in node.ports.items():
        below = plans.get(pci, PortPlan("compute"))
        role = planned.role or below.role
        rail = below.rail if planned.rail is None and role == below.role else planned.rail
        plans[pci] = PortPlan(role, rail, expect=planned.expect)
    compute = {pci: plan.rail for pci, plan in plans.items() if plan.role == "compute"}
    down = frozenset(pci for pci in compute if plans[pci].expect == "down")
    others = frozenset(plans.keys() - compute.keys())
    return PortPlans(PORT_PLANS, compute=MappingProxyType(compute), others=others, down=down, unread=unread)
