"""Ethernet checks: links that went down, run slower than their equals or damage frames, and bonds that lost a
member.

An interface that is set up and never had a link is no fault, since network managers set up every port. In a
bond it is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from healthcheck.checks.base import Peers, check, fleet_check
from healthcheck.checks.fleet import Comparison, Split, by_peers, outliers
from healthcheck.checks.growth import SECOND, Growth
from healthcheck.checks.port import odd_ones
from healthcheck.facts.bond import NO_PARTNER, Bond
from healthcheck.facts.netdev import BondSetup, NetDev
from healthcheck.model.outcome import Finding


@check("netdev.link")
def netdev_link(netdev: NetDev) -> Iterator[Finding]:
    """Every interface that is set up and had a link since its driver was loaded has one; bond.members judges
    members of bonds."""
    if netdev.up and not netdev.link and not netdev.bond and netdev.ups:
        yield Finding(f"no link; since its driver was loaded it had one {netdev.ups} times", "a link")


@check("netdev.speed")
def netdev_speed(netdevs: Peers[NetDev]) -> Iterator[Finding]:
    """No interface with a link runs slower than the fastest of its bond, or, outside bonds, than most of the
    node's of its kind."""
    linked = netdevs.where(lambda netdev: netdev.up and netdev.link)
    bonded = linked.where(lambda netdev: netdev.bond != "").read(lambda netdev: netdev.mbps)
    yield from _less_than_another(bonded, "{} Mb/s")
    alone = linked.where(lambda netdev: netdev.bond == "")
    yield from odd_ones(alone, lambda netdev: netdev.kind, lambda netdev: netdev.mbps, "interfaces",
                        "{} Mb/s", less=True)


def _less_than_another(bonded: Sequence[tuple[NetDev, int]], pattern: str) -> Iterator[Finding]:
    """A finding for each interface with less than another of its bond has."""
    most: dict[str, int] = {}
    for netdev, value in bonded:
        most[netdev.bond] = max(value, most.get(netdev.bond, 0))
    for netdev, value in bonded:
        if value < most[netdev.bond]:
            expected = f"{pattern.format(most[netdev.bond])}, as another of {netdev.bond}"
            yield Finding(pattern.format(value), expected, netdev.name)


@check("netdev.duplex")
def netdev_duplex(netdev: NetDev) -> Iterator[Finding]:
    """Every interface with a link is full duplex; half means that the two ends disagree about who
    negotiates."""
    if netdev.up and netdev.link and netdev.duplex != "full":
        yield Finding(f"{netdev.duplex} duplex", "full duplex")


@check("netdev.mtu")
def netdev_mtu(netdevs: Peers[NetDev]) -> Iterator[Finding]:
    """All interfaces of a bond carry packets of the same size (MTU)."""
    bonded = netdevs.where(lambda netdev: netdev.up and netdev.bond != "").read(lambda netdev: netdev.mtu)
    yield from _less_than_another(bonded, "MTU {}")


@check("netdev.carrier_changes")
def netdev_carrier_changes(netdev: NetDev, growth: Growth[NetDev], *, at_most: int) -> Iterator[Finding]:
    """No interface's link came and went more often than this between two snapshots."""
    if netdev.up and (changes := growth.of("ups") + growth.of("downs")) > at_most:
        observed = f"its link changed {changes} times since the earlier snapshot"
        yield Finding(observed, f"at most {at_most} times")


@check("netdev.errors")
def netdev_errors(
    netdev: NetDev, growth: Growth[NetDev], *, rx_frame: float, rx_errors: float, tx_errors: float,
) -> Iterator[Finding]:
    """No interface receives damaged frames, or fails to receive or send, faster than these limits (a
    second)."""
    if not netdev.up:
        return
    for counter, limit in (("rx_frame", rx_frame), ("rx_errors", rx_errors), ("tx_errors", tx_errors)):
        if (events := growth.rate(counter, per=SECOND)) > limit:
            yield Finding(f"{counter}: {events:.2f} a second", f"at most {limit:g} a second")


@check("netdev.drops")
def netdev_drops(netdev: NetDev, growth: Growth[NetDev], *, share: float, at_least: int) -> Iterator[Finding]:
    """No interface dropped more than this share of its received packets between two snapshots, and at least
    so many.

    Packets of protocols that the node does not use count as dropped, so every network has some.
    """
    if not netdev.up:
        return
    dropped, received = growth.of("rx_drops"), growth.of("rx_packets")
    if dropped >= at_least and dropped > share * (received + dropped):
        yield Finding(f"dropped {dropped} packets, received {received}", f"at most {share:.2%} dropped")


@check("bond.members")
def bond_members(bond: Bond, *, at_least: int) -> Iterator[Finding]:
    """Every bond has so many members at least, and each of them has a link."""
    if not bond.up:
        yield Finding("down", "up")
    if len(bond.slaves) < at_least:
        yield Finding(f"{len(bond.slaves)} members", f"at least {at_least}")
    for slave in bond.slaves:
        if not slave.up:
            yield Finding("no link", "a link", f"{bond.name} {slave.interface}")


@check("bond.lacp")
def bond_lacp(lacp_bond: Bond) -> Iterator[Finding]:
    """Every 802.3ad bond has a partner at the switch, and all members with a link are in the one aggregator
    that carries traffic."""
    if not lacp_bond.lacp:
        return
    if lacp_bond.partner == NO_PARTNER:
        yield Finding("no LACP partner answers", "the switch's address as partner")
        return
    for slave in lacp_bond.slaves:
        member = f"{lacp_bond.name} {slave.interface}"
        if slave.up and slave.aggregator != lacp_bond.active:
            expected = f"in the active one, {lacp_bond.active}"
            yield Finding(f"in aggregator {slave.aggregator}", expected, member)
        elif slave.up and "churned" in slave.churn:
            yield Finding("LACP churned", "in synchronisation", member)


@fleet_check("fleet.netdev_state")
def fleet_netdev_state(netdevs: Mapping[str, tuple[NetDev, ...]]) -> Comparison:
    """Every interface is set up (IFF_UP) where most of the cohort's nodes have the one of that name and PCI
    address set up, and is not where they have not. By name too: a port of a switch on the card (switchdev)
    has several at one address."""
    yield from by_peers(netdevs, "state", lambda netdev: (
        f"nodes with {netdev.interface} at {netdev.place}",
        "set up" if netdev.up else "not set up (administratively down)"))


@fleet_check("fleet.bond")
def fleet_bond(bond_setup: Mapping[str, BondSetup]) -> Comparison:
    """Every node has the bonds of the majority of its cohort, in the same mode, of the same interfaces; one
    that is gone has nothing else to say so."""
    yield from outliers(bond_setup, lambda fact: fact.line or "no bond", "bonds", Split.ALONE)


@fleet_check("fleet.netdev_mtu")
def fleet_netdev_mtu(netdevs: Mapping[str, tuple[NetDev, ...]]) -> Comparison:
    """Every interface that is up has the MTU that most of the cohort's nodes have at the same PCI address."""
    yield from by_peers(netdevs, "MTU", lambda netdev: (
        f"nodes at {netdev.place}", f"MTU {netdev.mtu}") if netdev.up else None)


@fleet_check("fleet.netdev_speed")
def fleet_netdev_speed(netdevs: Mapping[str, tuple[NetDev, ...]]) -> Comparison:
    """Every interface with a link has the speed that most of the cohort's nodes have at the same PCI
    address."""
    yield from by_peers(netdevs, "speed", lambda netdev: (
        f"nodes at {netdev.place}", f"{netdev.mbps} Mb/s") if netdev.up and netdev.link else None)
