"""Leaves and pods of hosts as proposals for the inventory, from the fabric's cabling; pure. As with LLDP,
nothing is proposed over a value that the inventory has, and a port gets its leaf only where the inventory or
the SKU says what the port is for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from healthcheck.subnet.cabling import CablingPlan, Tier
from healthcheck.subnet.hierarchy import FabricHierarchy
from inventory.entry import pci_address
from inventory.model import Inventory, Node
from inventory.nodeset import fold, natural
from provisioning.discover.labels import LabelEvidence, LabelProposal, LabelState, Plans, proposal

POD, SPINES = "labels.fabric-pod", "labels.fabric-spines"


def evidence(plan: CablingPlan, inventory: Inventory, source: str) -> tuple[LabelEvidence, ...]:
    """A line for each host that the inventory or the plan lacks."""
    hosts = {name for name, device in plan.devices.items() if device.tier is Tier.HOST}
    return tuple(
        LabelEvidence(node.name, source, unread=() if node.name in hosts else ("not in the cabling plan",))
        for node in inventory
    )


def propose(
    plan: CablingPlan, found: FabricHierarchy, inventory: Inventory, usual: Mapping[str, Plans], source: str
) -> tuple[LabelProposal, ...]:
    """All proposals, node by node; `usual` has the ports of each node's kind of machine."""
    ports: dict[str, dict[str, tuple[str, str]]] = defaultdict(dict)
    for cable in plan.cables:
        if plan.devices[cable.a.device].tier is Tier.HOST:
            adapter = cable.a.port.partition("/")[0]
            ports[cable.a.device].setdefault(adapter, (cable.b.device, cable.b.port))
    pods = {
        host: (pod.name, pod.spines) for pod in found.pods for group in pod.groups for host in group.hosts
    }
    several = len(found.pods) > 1
    made: list[LabelProposal] = []
    for node in inventory:
        if node.name in ports:
            made += _of_node(node, ports[node.name], usual.get(node.name, {}), source)
            pod, spines = pods.get(node.name, ("", ()))
            if several and pod:
                why = f"{source}: its leaves share spines with those of the pod"
                made.append(proposal(node, POD, (pod,), node.labels.get("fabric-pod"), why))
                if spines:
                    has = node.labels.get("fabric-spines")
                    made.append(proposal(node, SPINES, (fold(spines),), has, why))
    return tuple(made)


def _of_node(
    node: Node, ports: Mapping[str, tuple[str, str]], usual: Plans, source: str
) -> Iterator[LabelProposal]:
    leaves = tuple(sorted({leaf for leaf, _ in ports.values()}, key=natural))
    why = f"{source}: " + "; ".join(
        f"{adapter} at {leaf} port {port}" for adapter, (leaf, port) in list(ports.items())[:8]
    )
    has = node.leaf
    same = {one.lower() for one in has} >= {one.lower() for one in leaves}
    state = LabelState.NEW if not has else LabelState.SAME if same else LabelState.CONFLICT
    yield LabelProposal(node.name, "leaf", leaves, has, state, why)
    for adapter, (leaf, port) in ports.items():
        pci = pci_address(adapter)
        if pci is not None and (pci in node.ports or pci in usual):
            planned = node.ports.get(pci)
            yield proposal(
                node,
                f"ports.{pci}.leaf",
                (leaf,),
                planned.leaf if planned is not None else None,
                f"{source}: {leaf} port {port}",
            )
