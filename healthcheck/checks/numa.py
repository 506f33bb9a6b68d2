"""NUMA checks: nodes and their memory as they should be, and devices that firmware has placed."""

from __future__ import annotations

from collections.abc import Iterator

from healthcheck.checks.base import check
from healthcheck.facts.numa import Affinity, NumaNode
from healthcheck.outcome import Finding

_GIB = 2**30


@check("numa.nodes", counts=True)
def numa_nodes(numa_nodes: tuple[NumaNode, ...], *, expected: int) -> Iterator[Finding]:
    """There are as many NUMA nodes with CPUs as the SKU has: firmware decides (NPS, SNC)."""
    found = sum(node.cpus > 0 for node in numa_nodes)
    if found != expected:
        yield Finding("NUMA", f"{found} nodes with CPUs", expected)


@check("numa.memory", counts=True)
def numa_memory(numa_nodes: tuple[NumaNode, ...], *, tolerance_percent: float) -> Iterator[Finding]:
    """Every NUMA node that has CPUs has about as much memory as the one that has most."""
    nodes = [node for node in numa_nodes if node.cpus > 0]
    most = max((node.memory_bytes for node in nodes), default=0)
    for node in nodes:
        if node.memory_bytes < most * (1 - tolerance_percent / 100):
            yield Finding(node.name, f"{node.memory_bytes / _GIB:.1f} GiB",
                          f"about {most / _GIB:.1f} GiB, as the node that has most (within {tolerance_percent:g} %)")


@check("numa.affinity")
def numa_affinity(affinity: Affinity) -> Iterator[Finding]:
    """Where there are several NUMA nodes, firmware says of every GPU and mlx5 adapter on which it sits."""
    if affinity.nodes > 1:
        for device, node in affinity.devices:
            if node < 0:
                yield Finding(device, "on no NUMA node", f"on one of {affinity.nodes}")
