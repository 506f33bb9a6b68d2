"""InfiniBand and RoCE port checks.

Which ports are judged: where the inventory or the SKU says what they are for (`ports:`, by PCI address), exactly the compute ports, and one
that is missing is named; elsewhere those of the most numerous kind of adapter, without any that are planned for something else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from healthcheck.checks.base import NotMeasured, check, increase
from healthcheck.facts.port import Port, most_alike
from healthcheck.facts.site import PortPlans
from healthcheck.outcome import Finding


def _judged(ports: tuple[Port, ...], port_plans: PortPlans) -> tuple[Port, ...]:
    if not port_plans.compute:
        return most_alike(port for port in ports if not port_plans.others or port.pci not in port_plans.others)
    found = list(ports)
    judged = tuple(port for port in found if port.pci in port_plans.compute)
    if len(found) == len(ports) and not judged:
        raise NotMeasured(None, "not one of the planned compute ports is there")
    return judged


@check("port.count", counts=True)
def port_count(ports: tuple[Port, ...], port_plans: PortPlans, *, expected: int) -> Iterator[Finding]:
    """As many compute ports as the SKU has are there; where they are planned, each planned one is."""
    if port_plans.compute:
        present = {port.pci for port in ports}
        for pci, rail in sorted(port_plans.compute.items()):
            if pci not in present:
                yield Finding(f"port at {pci}" + (f" (rail {rail})" if rail is not None else ""), "not there", "there")
    elif (number := len(_judged(ports, port_plans))) < expected:
        yield Finding("ports", number, f"at least {expected}")


@check("port.state")
def port_state(ports: tuple[Port, ...], port_plans: PortPlans, *, expected: int) -> Iterator[Finding]:
    """Every compute port has a physical link and is active; an InfiniBand port that stays INIT has seen no subnet manager.

    Where no ports are planned and the SKU has none, those that are there are nobody's business.
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
