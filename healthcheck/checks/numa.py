"""NUMA checks: the nodes and their memory, and the nodes of devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from healthcheck.checks.base import GIB, NotJudged, check
from healthcheck.facts.numa import Affinity, NumaNode
from healthcheck.facts.port import Port
from healthcheck.facts.site import PortPlans
from healthcheck.model.outcome import Finding


@check("numa.nodes", counts=True)
def numa_nodes(numa_nodes: tuple[NumaNode, ...], *, expected: int) -> Iterator[Finding]:
    """There are as many NUMA nodes with CPUs as the SKU has: firmware decides (NPS, SNC)."""
    found = sum(node.cpus > 0 for node in numa_nodes)
    if found != expected:
        yield Finding(f"{found} nodes with CPUs", expected, "NUMA")


@check("numa.memory", counts=True)
def numa_memory(numa_nodes: tuple[NumaNode, ...], *, tolerance_percent: float) -> Iterator[Finding]:
    """Every NUMA node that has CPUs has about as much memory as the one that has most."""
    nodes = [node for node in numa_nodes if node.cpus > 0]
    most = max((node.memory_bytes for node in nodes), default=0)
    for node in nodes:
        if node.memory_bytes < most * (1 - tolerance_percent / 100):
            expected = (f"about {most / GIB:.1f} GiB, as the node that has most (within "
                        f"{tolerance_percent:g} %)")
            yield Finding(f"{node.memory_bytes / GIB:.1f} GiB", expected, node.name)


@check("numa.free", counts=True)
def numa_free(
    numa_nodes: tuple[NumaNode, ...], *, low_percent: float, others_percent: float,
) -> Iterator[Finding]:
    """No NUMA node with CPUs has next to no memory left while another has plenty: what runs there gets the
    other's, over the link between sockets."""
    shares = {node.name: 100 * node.available_bytes / node.memory_bytes for node in numa_nodes
              if node.cpus > 0 and node.memory_bytes > 0}
    most = max(shares.values(), default=0.0)
    for name, share in shares.items():
        if share < low_percent and most >= others_percent:
            yield Finding(f"{share:.1f} % of its memory available, another's is {most:.0f} %",
                          f"at least {low_percent:g} %", name)


@check("numa.affinity")
def numa_affinity(affinity: Affinity) -> Iterator[Finding]:
    """Where there are several NUMA nodes, firmware gives the node of every GPU and mlx5 adapter."""
    if affinity.nodes > 1:
        for device, node in affinity.devices:
            if node < 0:
                yield Finding("on no NUMA node", f"on one of {affinity.nodes}", device)


@check("numa.rails", over="compute_ports", counts=True)
def numa_rails(ports: tuple[Port, ...], affinity: Affinity, port_plans: PortPlans) -> Iterator[Finding]:
    """Where every GPU has its own compute ports, each NUMA node has equally many for each of its GPUs, and
    where the ports' rails are planned, a rail's port is on the NUMA node of its GPU.

    No source assigns GPUs to rails: they are paired in order of PCI address and rail, if most of the node's
    pairs agree.
    """
    places = {device.partition(" ")[2]: (device.partition(" ")[0], node) for device, node in affinity.devices}
    compute = {port.pci for port in ports}
    gpus = sorted(address for address, (driver, _) in places.items() if driver == "nvidia")
    if affinity.nodes < 2:
        raise NotJudged("there is one NUMA node")
    if not gpus or not compute or len(compute) % len(gpus):
        raise NotJudged(f"{len(compute)} compute ports cannot be divided evenly among {len(gpus)} GPUs")
    if any(address not in places or places[address][1] < 0 for address in (*gpus, *compute)):
        raise NotJudged("firmware does not say on which NUMA node some of them sit")
    each = len(compute) // len(gpus)
    beside = Counter(places[address][1] for address in compute)
    gpus_beside = Counter(places[address][1] for address in gpus)
    shares = {node: number * each for node, number in sorted(gpus_beside.items())}
    short = [node for node, share in shares.items() if beside[node] < share]
    if len(short) == len(shares):
        raise NotJudged("on no NUMA node every GPU has a compute port beside it: this machine is built "
                        "differently")
    for node in short:
        yield Finding(f"{beside[node]} compute ports beside {shares[node] // each} GPUs", shares[node],
                      f"NUMA node {node}")
    rails = {address: rail for address, rail in port_plans.compute.items()
             if rail is not None and address in compute}
    numbers = sorted(set(rails.values()))
    if short or len(rails) < len(compute) or len(numbers) != len(gpus):
        return
    own = dict(zip(numbers, gpus, strict=True))
    odd = [address for address, rail in sorted(rails.items()) if places[address][1] != places[own[rail]][1]]
    for address in odd if 2 * len(odd) < len(rails) else ():
        rail = rails[address]
        yield Finding(f"on NUMA node {places[address][1]}",
                      f"on NUMA node {places[own[rail]][1]}, beside the GPU of rail {rail} ({own[rail]})",
                      f"port at {address} (rail {rail})")
