"""RoCE checks: an address that routes, equal packet sizes, and a network that loses, damages or pauses no more than it may.

Judged are the compute ports, as for InfiniBand (`healthcheck.checks.port`); pauses are judged on every interface of an RDMA device.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import median

from healthcheck.checks.base import NotMeasured, check, increase
from healthcheck.checks.port import judged, odd_ones
from healthcheck.checks.trend import elapsed, rate
from healthcheck.facts.look import Look
from healthcheck.facts.port import Port
from healthcheck.facts.roce import Pfc, RocePort
from healthcheck.facts.site import PortPlans
from healthcheck.model.outcome import Finding


def _ours(roce_ports: tuple[RocePort, ...], ports: tuple[Port, ...], port_plans: PortPlans) -> list[RocePort]:
    """The active compute ports on Ethernet. One without any says that nothing is supported when it is asked."""
    compute = None
    found = []
    for roce in roce_ports:
        if not roce.active:
            continue
        if compute is None:
            compute = {(port.pci, port.number) for port in judged(ports, port_plans)}
        if (roce.pci, roce.number) in compute:
            found.append(roce)
    return found


def _with_earlier(now: Iterable[RocePort], previous: Iterable[RocePort]) -> Iterator[tuple[RocePort, RocePort]]:
    now = list(now)
    before = {(roce.pci, roce.number): roce for roce in previous} if now else {}
    for roce in now:
        earlier = before.get((roce.pci, roce.number))
        if earlier is None:
            raise NotMeasured(roce, "the earlier look has no such port")
        yield roce, earlier


@check("roce.gid")
def roce_gid(roce_ports: tuple[RocePort, ...], ports: tuple[Port, ...], port_plans: PortPlans) -> Iterator[Finding]:
    """Every active RoCE compute port has a GID of RoCE v2 that routes: one of an address, and not only of the link."""
    for roce in _ours(roce_ports, ports, port_plans):
        if not roce.routable:
            yield Finding(roce.name, "no RoCE v2 GID but link-local ones", "a RoCE v2 GID of the interface's address")


@check("roce.mtu")
def roce_mtu(roce_ports: tuple[RocePort, ...], ports: tuple[Port, ...], port_plans: PortPlans) -> Iterator[Finding]:
    """Every active RoCE compute port's interface has the MTU of most of the node's."""
    ours = _ours(roce_ports, ports, port_plans)
    for roce, usual, number, of in odd_ones(ours, lambda roce: "", lambda roce: roce.mtu):
        yield Finding(roce.name, f"MTU {roce.mtu}", f"MTU {usual}, as {number} of the node's {of} such ports")


@check("roce.retransmits")
def roce_retransmits(
    roce_ports: tuple[RocePort, ...], previous_roce_ports: tuple[RocePort, ...], ports: tuple[Port, ...], port_plans: PortPlans,
    look: Look, previous_look: Look, *, a_second: float,
) -> Iterator[Finding]:
    """No RoCE compute port sent again what was lost more often than this: a network for RoCE pauses or slows senders, and loses little."""
    for roce, earlier in _with_earlier(_ours(roce_ports, ports, port_plans), previous_roce_ports):
        for counter in ("packet_seq_err", "implied_nak_seq_err", "roce_adp_retrans"):
            if (events := rate(roce, earlier, counter, (look, previous_look), per=1.0)) > a_second:
                yield Finding(roce.name, f"{counter}: {events:.1f} a second", f"at most {a_second:g} a second")


@check("roce.icrc")
def roce_icrc(
    roce_ports: tuple[RocePort, ...], previous_roce_ports: tuple[RocePort, ...], ports: tuple[Port, ...], port_plans: PortPlans,
) -> Iterator[Finding]:
    """No RoCE compute port received a packet that was damaged behind the link's own checksum (ICRC): a switch or an adapter did that."""
    for roce, earlier in _with_earlier(_ours(roce_ports, ports, port_plans), previous_roce_ports):
        if grown := increase(roce, earlier, "rx_icrc_encapsulated"):
            yield Finding(roce.name, f"rx_icrc_encapsulated grew by {grown} since the earlier look", "no growth")


@check("roce.cnp")
def roce_cnp(
    roce_ports: tuple[RocePort, ...], previous_roce_ports: tuple[RocePort, ...], ports: tuple[Port, ...], port_plans: PortPlans,
    look: Look, previous_look: Look, *, times: float, at_least_a_second: float,
) -> Iterator[Finding]:
    """No RoCE compute port is told to slow down so many times more often than the median of the node's others.

    Congestion that meets all ports alike is the job's traffic; at one port it is a slow link or an uneven path.
    """
    pairs = list(_with_earlier(_ours(roce_ports, ports, port_plans), previous_roce_ports))
    rates = [rate(roce, earlier, "rp_cnp_handled", (look, previous_look), per=1.0) for roce, earlier in pairs]
    for at, (roce, _) in enumerate(pairs):
        others = rates[:at] + rates[at + 1:]
        if len(others) >= 2 and rates[at] > max(at_least_a_second, times * median(others)):
            usual = f"{median(others):.1f} a second, the median of the node's others"
            yield Finding(roce.name, f"rp_cnp_handled: {rates[at]:.1f} a second", usual)


def _pauses(pfcs: Iterable[Pfc], previous: Iterable[Pfc]) -> Iterator[tuple[Pfc, Pfc]]:
    before = {pfc.name: pfc for pfc in previous}
    for pfc in pfcs:
        earlier = before.get(pfc.name)
        if earlier is None:
            raise NotMeasured(pfc, "the earlier look has no such interface")
        yield pfc, earlier


@check("roce.pfc_storm")
def roce_pfc_storm(pfcs: tuple[Pfc, ...], previous_pfcs: tuple[Pfc, ...]) -> Iterator[Finding]:
    """No interface paused the network for so long that the adapter gave up: its node took no data, and stopped others' traffic with it."""
    for pfc, earlier in _pauses(pfcs, previous_pfcs):
        if grown := increase(pfc, earlier, "stalls"):
            yield Finding(pfc.name, f"tx_pause_storm_error_events grew by {grown} since the earlier look", "no growth")


@check("roce.pfc")
def roce_pfc(pfcs: tuple[Pfc, ...], previous_pfcs: tuple[Pfc, ...], look: Look, previous_look: Look, *, share: float) -> Iterator[Finding]:
    """No interface was told to be silent, or told others to be, for more than this share of the time between two looks."""
    for pfc, earlier in _pauses(pfcs, previous_pfcs):
        for counter, words in (("paused_us", "was paused"), ("pausing_us", "paused its switch")):
            if (grown := increase(pfc, earlier, counter)) and (part := grown / 1e6 / elapsed(pfc, look, previous_look)) > share:
                yield Finding(pfc.name, f"{words} for {part:.1%} of the time", f"at most {share:.1%}")
