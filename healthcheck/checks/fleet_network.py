"""Fleet checks of what nodes of one kind share in their network: drivers, RDMA devices and interfaces,
addresses and routes."""

from __future__ import annotations

from collections.abc import Mapping

from healthcheck.checks.base import and_more, fleet_check
from healthcheck.checks.fleet import Comparison, Split, by_peers, odd_ones, read_all
from healthcheck.facts.binding import WITHOUT, FunctionDrivers, RdmaBinding
from healthcheck.facts.routes import Addressing
from healthcheck.model.outcome import Finding


@fleet_check("fleet.pci_driver")
def fleet_pci_driver(function_drivers: Mapping[str, FunctionDrivers]) -> Comparison:
    """Every storage, network, display and accelerator function has the driver that most of the cohort's nodes
    have bound to the same device at the same PCI address.

    GPUs, NVMe drives and InfiniBand adapters without any driver are other rules' (gpu-count,
    disk-nvme-driven, hca-present).
    """
    groups: dict[str, list[tuple[str, str, str]]] = {}
    for node, functions in read_all(function_drivers, lambda fact: fact.functions).items():
        for address, place, kind, driver in functions:
            value = f"driver {driver}" if driver else "no driver bound to it"
            groups.setdefault(f"nodes with {kind} at {address}", []).append((node, place, value))
    yield from _at_places(groups, "driver")


@fleet_check("fleet.rdma_binding")
def fleet_rdma_binding(rdma_binding: Mapping[str, RdmaBinding]) -> Comparison:
    """Every RDMA device has the name, and the network interface, of the one at the same PCI address on most
    of the cohort's nodes: NCCL and the fabric's rails are set up by these names.

    An interface where most have none is no fault: IP over InfiniBand may be loaded on one node.
    """
    groups: dict[str, list[tuple[str, str, str]]] = {}
    for node, devices in read_all(rdma_binding, lambda fact: fact.devices).items():
        for place, address, value in devices:
            groups.setdefault(f"nodes at {address}", []).append((node, place, value))
    for node, found in _at_places(groups, "binding"):
        if not (isinstance(found, Finding) and str(found.expected).startswith(
                f"{str(found.observed).partition(' ')[0]} {WITHOUT}")):
            yield node, found


def _at_places(groups: Mapping[str, list[tuple[str, str, str]]], what: str) -> Comparison:
    """What differs among the nodes at each place; equal differences of one node are one finding."""
    odd: dict[tuple[str, str, str], list[str]] = {}
    for peers, given in groups.items():
        for node, found in odd_ones(given, what, peers, Split.ALONE):
            if isinstance(found, Finding):
                usual = str(found.expected).partition(" nodes ")[0] + " nodes"
                odd.setdefault((node, str(found.observed), usual), []).append(found.subject)
            else:
                yield node, found
    for (node, observed, expected), places in odd.items():
        yield node, Finding(observed, expected, and_more(places))


@fleet_check("fleet.addressing")
def fleet_addressing(addressing: Mapping[str, tuple[Addressing, ...]]) -> Comparison:
    """Every interface has the kinds of addresses and routes that it has on most of the cohort's nodes:
    subnets of those sizes, a global IPv6 address, the default route, routes through a gateway."""
    yield from by_peers(addressing, "addresses", lambda addresses: (
        f"nodes with {addresses.place}", addresses.words))
