"""The inventory's plans for a node, as facts. The sweep passes them in; no machine is read for them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from healthcheck.facts.values import Fact
from inventory.model import Node, PortPlan

PORT_PLANS = "port_plans"


class PortPlans(Fact):
    """The purpose of the node's ports by PCI address, from its inventory entry, or else its SKU.

    `compute` gives each compute port's rail (None: not given), `others` are those for storage, management or
    a DPU. Both are empty where nothing is planned. `down` are the compute ports that should have no link (not
    cabled, for example), `unread` the adapters that the inventory excludes from the snapshot.
    """

    name: str
    compute: Mapping[str, int | None]
    others: frozenset[str]
    down: frozenset[str]
    unread: frozenset[str]


def plans_of(node: Node, usual: Mapping[str, PortPlan], unread: frozenset[str]) -> PortPlans:
    """The plans of a node: its own entry first, then `usual`, that of its kind of machine."""
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
