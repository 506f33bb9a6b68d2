"""Checks of PCI Express settings: whether switches let peers reach each other (ACS), the sizes of payloads
and read requests, and relaxed ordering."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from healthcheck.checks.base import and_more, check, fleet_check
from healthcheck.checks.fleet import Comparison, Split, odd_ones, read_all
from healthcheck.facts.pcie_config import PcieConfig
from healthcheck.model.outcome import Finding

# ACS Control (PCI_ACS_RR, PCI_ACS_CR, PCI_ACS_DT of pci_regs.h).
_REDIRECTS = {0x04: "requests", 0x08: "completions"}
_DIRECT_TRANSLATED = 0x40


@check("pcie.acs")
def pcie_acs(pcie_config: PcieConfig) -> Iterator[Finding]:
    """No port of a PCI Express switch above a GPU or an RDMA adapter redirects traffic between peers to the
    root complex (ACS).

    Not judged are root ports, where traffic is at the root already, switches with a single such port, which
    has no peers, and ports that let translated requests through (DirectTrans), a setting for virtual
    machines.
    """
    held: dict[str, list[str]] = {}
    for port in pcie_config.switch_ports:
        redirected = [word for bit, word in _REDIRECTS.items() if port.acs & bit]
        if redirected and not port.acs & _DIRECT_TRANSLATED:
            held.setdefault(" and ".join(redirected), []).append(port.place)
    for what, places in held.items():
        yield Finding(f"ACS sends {what} between peers up to the root complex", "no redirection",
                      and_more(places))


@check("pcie.max_payload")
def pcie_max_payload(pcie_config: PcieConfig) -> Iterator[Finding]:
    """No device or port sends larger payloads than the port above it accepts, and none that supports that
    size is set to less.

    The first loses data (a malformed packet is a fatal error), the second costs bandwidth.
    """
    known = {one.address: one for one in pcie_config.functions}
    for one in pcie_config.functions:
        above = known.get(one.above)
        if above and (one.payload > above.payload or one.payload < min(above.payload, one.payload_supported)):
            yield Finding(f"payloads of up to {one.payload} bytes",
                          f"{above.payload} bytes, as port {above.address} above it", one.place)


@check("pcie.max_read_request")
def pcie_max_read_request(pcie_config: PcieConfig, *, at_least: int) -> Iterator[Finding]:
    """Every RDMA adapter may read as many bytes with one request as the rule says; less costs it
    bandwidth."""
    held: dict[int, list[str]] = {}
    for one in pcie_config.adapters:
        if one.read_request < at_least:
            held.setdefault(one.read_request, []).append(one.place)
    for size, places in held.items():
        yield Finding(f"reads of up to {size} bytes", f"at least {at_least}", and_more(places))


@check("pcie.relaxed_ordering")
def pcie_relaxed_ordering(pcie_config: PcieConfig) -> Iterator[Finding]:
    """Every RDMA adapter may let its writes overtake others (Enable Relaxed Ordering of Device Control);
    without it they wait for each other on their way to memory and GPUs."""
    held = [one.place for one in pcie_config.adapters if not one.relaxed]
    if held:
        yield Finding("relaxed ordering is off", "on", and_more(held))


@fleet_check("fleet.pcie_config")
def fleet_pcie_config(pcie_config: Mapping[str, PcieConfig]) -> Comparison:
    """Every GPU and RDMA adapter has the sizes of payload and read request, and the relaxed ordering, that
    the one at the same address has on most nodes."""
    slots: dict[str, list[tuple[str, str, str]]] = {}
    for node, functions in read_all(pcie_config, lambda fact: fact.functions).items():
        for one in functions:
            if one.driver:
                sizes = f"payloads of {one.payload} bytes, reads of {one.read_request}"
                sizes += "" if one.relaxed else ", no relaxed ordering"
                slots.setdefault(one.place, []).append((node, one.place, sizes))
    odd: dict[tuple[str, str, str], list[str]] = {}
    for place, given in slots.items():
        for node, found in odd_ones(given, place, "nodes", Split.ALONE):
            if isinstance(found, Finding):
                odd.setdefault((node, str(found.observed), str(found.expected)), []).append(place)
            else:
                yield node, found
    for (node, observed, expected), places in odd.items():
        yield node, Finding(observed, expected, and_more(places))
