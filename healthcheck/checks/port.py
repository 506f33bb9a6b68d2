"""InfiniBand and RoCE port checks.

Where the inventory says what a node's ports are for (`ports:`, by PCI address), exactly its compute ports are judged, and
one that is missing is named; elsewhere every port that is there is judged as a compute port, so a machine with storage adapters
of another rate wants a plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from healthcheck.checks.base import check, increase
from healthcheck.facts.port import Port
from healthcheck.facts.site import PortPlans
from healthcheck.outcome import Finding


def _judged(ports: tuple[Port, ...], port_plans: PortPlans) -> Iterator[Port]:
    compute = port_plans.compute
    return (port for port in ports if not compute or port.pci in compute)


@check("port.count")
def port_count(ports: tuple[Port, ...], port_plans: PortPlans, *, expected: int) -> Iterator[Finding]:
    """As many ports as the SKU has are there; where the inventory plans them, each planned one is."""
    if port_plans.compute:
        present = {port.pci for port in ports}
        for pci, rail in sorted(port_plans.compute.items()):
            if pci not in present:
                yield Finding(f"port at {pci}" + (f" (rail {rail})" if rail is not None else ""), "not there", "there")
    elif len(ports) < expected:
        yield Finding("ports", len(ports), f"at least {expected}")


@check("port.state")
def port_state(ports: tuple[Port, ...], port_plans: PortPlans) -> Iterator[Finding]:
    """Every compute port has a physical link and is active; an InfiniBand port that stays INIT has seen no subnet manager."""
    for port in _judged(ports, port_plans):
        if port.phys_state != "LinkUp" or port.state != "ACTIVE":
            yield Finding(f"{port.name} ({port.pci})", f"{port.state}, {port.phys_state}", "ACTIVE, LinkUp")


@check("port.rate")
def port_rate(ports: tuple[Port, ...], port_plans: PortPlans, *, at_least_gbps: float) -> Iterator[Finding]:
    """Every active compute port runs at the SKU's rate; one that is down is named by port.state alone."""
    for port in _judged(ports, port_plans):
        if port.state == "ACTIVE" and port.rate_gbps < at_least_gbps:
            yield Finding(f"{port.name} ({port.pci})", f"{port.rate_gbps:g} Gb/s", f"at least {at_least_gbps:g} Gb/s")


@check("port.link_downed")
def port_link_downed(ports: tuple[Port, ...], previous_ports: tuple[Port, ...], *, allow: int) -> Iterator[Finding]:
    """No port lost its link more often than allowed since the earlier look of the same boot.

    Ports are matched by PCI address and number, so that a renumbered mlx5_N keeps its history.
    """
    before: Mapping[tuple[str, str], Port] = {_identity(port): port for port in previous_ports}
    for port in ports:
        earlier = before.get(_identity(port))
        if earlier is not None and (lost := increase(port, earlier, "link_downed")) > allow:
            yield Finding(f"{port.name} ({port.pci})", f"lost its link {lost} times since the earlier look", f"at most {allow}")


def _identity(port: Port) -> tuple[str, str]:
    return port.pci, port.name.rpartition("/")[2]
