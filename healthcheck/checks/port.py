"""InfiniBand and RoCE port checks.

Where the inventory says what a node's ports are for (`ports:`, by PCI address), exactly its compute ports are judged, and
one that is missing is named; elsewhere every port that is there is judged as a compute port, so a machine with storage adapters
of another rate wants a plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from healthcheck.checks.base import NotMeasured, check, increase
from healthcheck.facts.port import Port
from healthcheck.facts.site import PortPlans
from healthcheck.outcome import Finding


def _judged(ports: tuple[Port, ...], port_plans: PortPlans) -> Iterator[Port]:
    compute = port_plans.compute
    seen = [(port, not compute or port.pci in compute) for port in ports]
    if len(seen) == len(ports) and not any(judged for _, judged in seen):
        raise NotMeasured(None, "not one of the planned compute ports is there")
    return (port for port, judged in seen if judged)


@check("port.count", counts=True)
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
def port_state(ports: tuple[Port, ...], port_plans: PortPlans, *, expected: int) -> Iterator[Finding]:
    """Every compute port has a physical link and is active; an InfiniBand port that stays INIT has seen no subnet manager.

    Where neither the inventory plans ports nor the SKU has any, those that are there are nobody's business.
    """
    for port in _judged(ports, port_plans) if expected or port_plans.compute else ():
        if port.phys_state != "LinkUp" or port.state != "ACTIVE":
            yield Finding(port.name, f"{port.state}, {port.phys_state}", "ACTIVE, LinkUp")


@check("port.rate")
def port_rate(ports: tuple[Port, ...], port_plans: PortPlans, *, at_least_gbps: float) -> Iterator[Finding]:
    """Every active compute port runs at the SKU's rate; one that is down is named by port.state alone."""
    active = [port for port in _judged(ports, port_plans) if port.state == "ACTIVE"]
    if not active and at_least_gbps:
        raise NotMeasured(None, "no port is active, so none shows its rate")
    for port in active:
        if port.rate_gbps < at_least_gbps:
            yield Finding(port.name, f"{port.rate_gbps:g} Gb/s", f"at least {at_least_gbps:g} Gb/s")


_SATURATED = 255


@check("port.link_downed")
def port_link_downed(
    ports: tuple[Port, ...], previous_ports: tuple[Port, ...], port_plans: PortPlans, *, allow: int,
) -> Iterator[Finding]:
    """No compute port lost its link more often than allowed since the earlier look of the same boot.

    Ports are matched by PCI address and number, so that a renumbered mlx5_N keeps its history. A port that the earlier look did
    not have, and a counter that is full, cannot be compared.
    """
    before: Mapping[tuple[str, int], Port] = {(port.pci, port.number): port for port in previous_ports}
    for port in _judged(ports, port_plans):
        full = port.link_downed >= _SATURATED
        earlier = before.get((port.pci, port.number))
        if earlier is None:
            raise NotMeasured(port, "the earlier look has no such port")
        if full and earlier.link_downed >= _SATURATED:
            raise NotMeasured(port, f"its link_downed counter is full at {_SATURATED}, so losses are no longer counted")
        if (lost := increase(port, earlier, "link_downed")) > allow:
            yield Finding(port.name, f"lost its link {lost} times since the earlier look", f"at most {allow}")
