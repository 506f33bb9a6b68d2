"""The participants of a burn-in: each node by its inventory entry and SKU, else its ports by a sample."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from healthcheck.burnin.model import Participant, Rail
from healthcheck.burnin.setting import SkuHardware
from healthcheck.facts.port import Port, most_common_kind
from healthcheck.facts.values import reading
from healthcheck.ruleset.sku import Sku
from inventory.errors import UsageError
from inventory.model import Node, PortPlan

# A whole server draws at most so many times what its GPUs may: 2.03 in NVIDIA's DGX A100 (6.5 kW for 8 x 400
# W), 1.82 in its DGX H100 and H200 (10.2 kW for 8 x 700 W), 1.79 in its DGX B200 (14.3 kW for 8 x 1000 W; the
# user guides of each).
OVER_GPUS = 2.05


def place(node: Node, sku: Sku | None, ports: Iterable[Port] = ()) -> Participant:
    """The node as a burn-in sees it, with `ports` as a look saw them. UsageError without a number of GPUs."""
    gpus = _gpus(node, sku)
    if gpus is None:
        raise UsageError(
            f"how many GPUs {node.name} has is not known (SKU: {sku.name if sku is not None else 'none'}): "
            "give it a SKU that says so (sku: hgx-h100), or say how many processes are to take part on "
            f"it (burnin: {{ranks: 8}})")
    found = rails(node, sku, ports)
    leaves = list(dict.fromkeys(rail.leaf for rail in found if rail.leaf is not None)) or list(node.leaf)
    return Participant(node.name, gpus, sku.name if sku is not None else None, "+".join(leaves) or None,
                       node.nvlink_domain, node.power, _watts(node, sku, gpus), found)


def rails(node: Node, sku: Sku | None, ports: Iterable[Port] = ()) -> tuple[Rail, ...]:
    """Its compute ports, by number and address: as the inventory and the SKU plan them, else the most
    numerous kind that a look saw; without those that are to have no link. Ports without a known rail are
    numbered last."""
    plans = planned(node, sku)
    if not plans:
        seen = sorted({
            pci for port in most_common_kind(ports) if isinstance(pci := reading(port, "pci"), str)})
        return tuple(
            Rail(number, address, _leaf(node, number, len(seen))) for number, address in enumerate(seen))
    compute = {address: plan for address, plan in sorted(plans.items())
               if plan.role in (None, "compute") and plan.expect != "down"}
    message = {plan.rail for plan in compute.values() if plan.rail is not None}
    free = iter(number for number in range(len(compute) + len(message)) if number not in message)
    found = [Rail(plan.rail if plan.rail is not None else next(free), address, plan.leaf)
             for address, plan in compute.items()]
    return tuple(sorted(found, key=lambda rail: (rail.number, rail.address)))


def planned(node: Node, sku: Sku | None) -> dict[str, PortPlan]:
    """What each port is for, by address: what the node does not say of one is what its SKU says."""
    of_sku = dict(sku.ports) if sku is not None else {}
    found = dict(of_sku)
    for address, plan in node.ports.items():
        known = of_sku.get(address, PortPlan())
        found[address] = PortPlan(plan.role or known.role, plan.rail if plan.rail is not None else known.rail,
                                  plan.leaf or known.leaf, plan.expect or known.expect)
    return found


def hardware(skus: Mapping[str, Sku], places: Iterable[Participant]) -> dict[str, SkuHardware]:
    """What the SKUs of these places say of GPUs and ports, by name of the SKU."""
    names = {place.sku for place in places if place.sku in skus}
    return {
        name: SkuHardware(_text(skus[name].numbers.get("gpu_model")),
                          _number(skus[name].numbers.get("port_rate_gbps")) or 0.0) for name in names
            if name is not None}


def _leaf(node: Node, number: int, of: int) -> str | None:
    """The leaf of a port that no one plans: the node's one, or one for each, in order."""
    if len(node.leaf) == 1:
        return node.leaf[0]
    return node.leaf[number] if len(node.leaf) == of else None


def _gpus(node: Node, sku: Sku | None) -> int | None:
    if node.burnin.ranks is not None:
        return node.burnin.ranks
    count = _number(sku.numbers.get("gpu_count")) if sku is not None else None
    return int(count) if count else None


def _watts(node: Node, sku: Sku | None, gpus: int) -> float | None:
    if node.burnin.watts is not None:
        return node.burnin.watts
    limit = _number(sku.numbers.get("power_limit_watts")) if sku is not None else None
    return limit * gpus * OVER_GPUS if limit else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
