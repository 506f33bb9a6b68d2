"""Faults of a simulated fabric, planted through ibsim's console or in the topology that it starts with."""

from __future__ import annotations

from healthcheck.subnet.cabling import PlannedCable, PlannedEnd, Tier
from tests.testbed.ibfabric import Fabric
from tests.testbed.sshd import wait_until


def host_cable(fabric: Fabric, host: str) -> PlannedCable:
    """The cable of a host's first adapter."""
    return next(cable for cable in fabric.plan.cables if cable.a.device == host)


def uplink(fabric: Fabric, leaf: str, which: int = 0) -> PlannedCable:
    """One of a leaf's cables to spines."""
    return [cable for cable in fabric.plan.cables if cable.a.device == leaf
            and fabric.plan.devices[cable.b.device].tier is not Tier.HOST][which]


def pull(fabric: Fabric, *cables: PlannedCable) -> None:
    """Cables are pulled; back again with `plug`."""
    fabric.tell(*(f"Unlink {fabric.there[cable.b]}" for cable in cables))


def plug(fabric: Fabric, *cables: PlannedCable) -> None:
    """Cables are in their planned ports, and the subnet is up."""
    fabric.tell(*(f"Link {fabric.there[cable.b]} {fabric.there[cable.a]}" for cable in cables))
    fabric.settled()


def swap(fabric: Fabric, one: PlannedCable, other: PlannedCable) -> None:
    """Two cables' upper ends are in each other's ports; twice the same is as before."""
    there = fabric.there
    pull(fabric, one, other)
    fabric.tell(f"Link {there[one.b]} {there[other.a]}", f"Link {there[other.b]} {there[one.a]}")
    fabric.settled()


def unswap(fabric: Fabric, one: PlannedCable, other: PlannedCable) -> None:
    """After `swap`, as planned."""
    pull(fabric, one, other)
    plug(fabric, one, other)


def count(fabric: Fabric, end: PlannedEnd, counter: str, value: int) -> None:
    """A port's counter stands at this value."""
    fabric.tell(f"PerformanceSet {fabric.there[end]} PortCounters.{counter}={value}")


def sent(fabric: Fabric, end: PlannedEnd, value: int) -> None:
    """So much has left a port, in units of four octets, and what the tools cause on top. (The wider counter,
    which ibqueryerrors reads.)"""
    fabric.tell(f"PerformanceSet {fabric.there[end]} PortCountersExtended.PortXmitData={value}")


def deaf(fabric: Fabric, host: str, share: int = 100) -> None:
    """A host's adapter loses so many of a hundred management packets."""
    fabric.tell(f"Error {fabric.adapter(host)} {share}")


def stray_master(fabric: Fabric, host: str) -> None:
    """A second subnet manager that will not hear of the others, as one with another key; both are master."""
    fabric.manager(host, 3, "-k", "0x0000000000000002", state="Entering MASTER state")
    wait_until(lambda: len({line for line in fabric.run("saquery", "-s").stdout.splitlines()
                            if "EndPortLid" in line}) > 1, what="both marks")
