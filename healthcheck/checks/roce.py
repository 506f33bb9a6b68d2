"""RoCE checks: an address that routes, equal packet sizes, and a network that does not lose, damage or pause
more than allowed.

The compute ports are judged, as for InfiniBand (`healthcheck.checks.port`); pauses, dropped packets and the
error correction of links on every interface of an RDMA device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median

from healthcheck.checks.base import Peers, check, selection
from healthcheck.checks.growth import SECOND, SHORTEST_S, Growth
from healthcheck.checks.port import compute_ports, odd_ones
from healthcheck.facts.port import Port
from healthcheck.facts.roce import EthernetCounters, Pfc, RocePort
from healthcheck.facts.site import PortPlans
from healthcheck.model.outcome import Finding


@selection("compute_roce_ports")
def compute_roce_ports(
    roce_ports: Peers[RocePort], ports: Peers[Port], port_plans: PortPlans,
) -> list[RocePort]:
    """The active compute ports on Ethernet."""
    active = roce_ports.where(lambda roce_port: roce_port.active)
    if not len(active):
        return []
    selected = Peers(compute_ports(ports, port_plans))
    compute = {at for _, at in selected.read(lambda port: (port.pci, port.number))}
    return [roce_port for roce_port, at in active.read(lambda roce_port: (roce_port.pci, roce_port.number))
            if at in compute]


@check("roce.gid", over="compute_roce_ports")
def roce_gid(roce_port: RocePort) -> Iterator[Finding]:
    """Every active RoCE compute port has a routable RoCE v2 GID, and not only link-local ones."""
    if not roce_port.routable:
        yield Finding("no RoCE v2 GID but link-local ones", "a RoCE v2 GID of the interface's address")


@check("roce.mtu", over="compute_roce_ports")
def roce_mtu(roce_ports: Peers[RocePort]) -> Iterator[Finding]:
    """Every active RoCE compute port's interface has the MTU of most of the node's."""
    yield from odd_ones(roce_ports, lambda port: "", lambda port: port.mtu, "ports", "MTU {}")


@check("roce.retransmits", over="compute_roce_ports")
def roce_retransmits(roce_port: RocePort, growth: Growth[RocePort], *, a_second: float) -> Iterator[Finding]:
    """No RoCE compute port retransmitted more often than this: a network for RoCE pauses or slows senders,
    and loses little."""
    for counter in ("packet_seq_err", "implied_nak_seq_err", "roce_adp_retrans"):
        if (events := growth.rate(counter, per=SECOND)) > a_second:
            yield Finding(f"{counter}: {events:.1f} a second", f"at most {a_second:g} a second")


@check("roce.icrc", over="compute_roce_ports")
def roce_icrc(roce_port: RocePort, growth: Growth[RocePort]) -> Iterator[Finding]:
    """No RoCE compute port received a packet that a switch or an adapter damaged, which the link's own
    checksum does not catch (ICRC)."""
    if grown := growth.of("rx_icrc_encapsulated"):
        yield Finding(f"rx_icrc_encapsulated grew by {grown} since the earlier snapshot", "no growth")


@check("roce.cnp", over="compute_roce_ports")
def roce_cnp(
    roce_ports: Peers[RocePort], growth: Callable[[RocePort], Growth[RocePort]], *, times: float,
    at_least_a_second: float,
) -> Iterator[Finding]:
    """No RoCE compute port is asked to slow down so many times more often than the median of the node's
    others.

    Congestion at all ports is the job's traffic; at a single port it is a slow link or an uneven path.
    """
    rates = roce_ports.read(lambda port: growth(port).rate("rp_cnp_handled", per=SECOND))
    for port, events in rates:
        others = [other for peer, other in rates if peer is not port]
        if len(others) >= 2 and events > max(at_least_a_second, times * median(others)):
            usual = f"{median(others):.1f} a second, the median of the node's others"
            yield Finding(f"rp_cnp_handled: {events:.1f} a second", usual, port.name)


@check("roce.pfc_storm")
def roce_pfc_storm(pfc: Pfc, growth: Growth[Pfc]) -> Iterator[Finding]:
    """No interface paused the network so long that the adapter gave up: its node took no data, which stops
    others' traffic too."""
    if grown := growth.of("stalls"):
        yield Finding(f"tx_pause_storm_error_events grew by {grown} since the earlier snapshot", "no growth")


@check("roce.pfc_storm_warning")
def roce_pfc_storm_warning(pfc: Pfc, growth: Growth[Pfc]) -> Iterator[Finding]:
    """No interface came near to that: it paused the network for most of the time after which the adapter
    gives up. Where it did give up, roce.pfc_storm says so."""
    if (grown := growth.of("stall_warnings")) and not growth.of("stalls"):
        observed = f"tx_pause_storm_warning_events grew by {grown} since the earlier snapshot"
        yield Finding(observed, "no growth")


@check("roce.discards")
def roce_discards(
    ethernet_counter: EthernetCounters, growth: Growth[EthernetCounters], *, a_second: float,
) -> Iterator[Finding]:
    """No interface of an RDMA device drops received packets for want of the adapter's own buffers faster than
    this."""
    if (events := growth.rate("discards", per=SECOND)) > a_second:
        yield Finding(f"dropped {events:.1f} packets a second for want of the adapter's buffers",
                      f"at most {a_second:g} a second")


@check("roce.out_of_buffer")
def roce_out_of_buffer(
    ethernet_counter: EthernetCounters, growth: Growth[EthernetCounters], *, a_second: float,
) -> Iterator[Finding]:
    """No interface of an RDMA device drops received packets faster than this because the host gave it no
    buffers."""
    if (events := growth.rate("no_buffers", per=SECOND)) > a_second:
        yield Finding(f"dropped {events:.1f} packets a second that the host had no buffers for",
                      f"at most {a_second:g} a second")


@check("roce.symbol_errors")
def roce_symbol_errors(
    ethernet_counter: EthernetCounters, growth: Growth[EthernetCounters], *, ber: float, ber_pam4: float,
    at_least: int,
) -> Iterator[Finding]:
    """No Ethernet link of an RDMA device has more errors that its correction could not repair than this share
    of its bits, once there are so many at least; `ber_pam4` from 200 Gb/s on."""
    grown = growth.of("symbols")
    yield from _ratio(ethernet_counter, growth, grown if grown >= at_least else 0, "lost", ber, ber_pam4)


@check("roce.corrected_bits")
def roce_corrected_bits(
    ethernet_counter: EthernetCounters, growth: Growth[EthernetCounters], *, ber: float, ber_pam4: float,
) -> Iterator[Finding]:
    """No Ethernet link of an RDMA device needs more of its bits corrected than this share; `ber_pam4` from
    200 Gb/s on.

    A correction that works near its limit fails for a while when the cable warms up or is touched.
    """
    yield from _ratio(ethernet_counter, growth, growth.of("corrected_bits"), "corrected", ber, ber_pam4)


_PAM4_GBPS = 200.0      # IEEE 802.3bs: links of 200 and 400 Gb/s always correct errors


def _ratio(counter: EthernetCounters, growth: Growth[EthernetCounters], errors: int, what: str, ber: float,
           ber_pam4: float) -> Iterator[Finding]:
    if errors and counter.gbps > 0:
        most = ber if counter.gbps < _PAM4_GBPS else ber_pam4
        ratio = errors / (max(growth.seconds, SHORTEST_S) * counter.gbps * 1e9)
        if ratio > most:
            yield Finding(f"{errors} errors {what}, {ratio:.0e} of its bits at {counter.gbps:g} Gb/s",
                          f"at most {most:.0e}")


@check("roce.pfc")
def roce_pfc(pfc: Pfc, growth: Growth[Pfc], *, share: float) -> Iterator[Finding]:
    """No interface was paused, or paused its switch, for more than this share of the time between two
    snapshots."""
    for counter, words in (("paused_us", "was paused"), ("pausing_us", "paused its switch")):
        if (grown := growth.of(counter)) and (part := grown / 1e6 / growth.seconds) > share:
            yield Finding(f"{words} for {part:.1%} of the time", f"at most {share:.1%}")
