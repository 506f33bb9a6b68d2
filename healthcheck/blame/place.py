"""What a job's nodes share by the inventory: leaf, rack, power and NVLink domain."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from healthcheck.blame.evidence import SharedPlace
from healthcheck.model.outcome import Owner
from inventory.model import Node

_OWNERS = {"leaf": Owner.NETWORK, "rack": Owner.DATACENTRE, "power domain": Owner.DATACENTRE,
           "NVLink domain": Owner.OPERATOR}


def shared(nodes: Iterable[Node], of_job: Collection[str]) -> tuple[SharedPlace, ...]:
    """Each thing that two nodes of the job or more have in common."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for node in nodes:
        if node.name in of_job:
            for kind, names in (("leaf", node.leaf), ("rack", (node.rack,)), ("power domain", (node.power,)),
                                ("NVLink domain", (node.nvlink_domain,))):
                for name in names:
                    if name:
                        found[kind, name].add(node.name)
    return tuple(SharedPlace(kind, name, frozenset(names), "", _OWNERS[kind])
                 for (kind, name), names in sorted(found.items()) if len(names) > 1)
