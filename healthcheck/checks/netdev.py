"""Ethernet checks: links that went, run slower than their equals or damage frames, and bonds that lost a member.

An interface that is set up and never had a link is nobody's fault: managers of networks set up every port there is. In a bond it is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from healthcheck.checks.base import NotMeasured, check, fleet_check, increase
from healthcheck.checks.fleet import NoMajority, Said, Uncompared
from healthcheck.checks.fleet import odd_ones as odd_in_fleet
from healthcheck.checks.port import odd_ones
from healthcheck.checks.trend import rate
from healthcheck.facts.bond import NO_PARTNER, Bond
from healthcheck.facts.look import Look
from healthcheck.facts.netdev import NetDev
from healthcheck.model.outcome import Finding


def _linked(netdevs: Iterable[NetDev]) -> list[NetDev]:
    return [netdev for netdev in netdevs if netdev.up and netdev.link]


def with_earlier(netdevs: Iterable[NetDev], previous: Iterable[NetDev]) -> Iterator[tuple[NetDev, NetDev]]:
    """Each interface that is up with its earlier self, by address and name."""
    before = {(netdev.pci, netdev.interface): netdev for netdev in previous}
    for netdev in netdevs:
        if not netdev.up:
            continue
        earlier = before.get((netdev.pci, netdev.interface))
        if earlier is None:
            raise NotMeasured(netdev, "the earlier look has no such interface")
        yield netdev, earlier


@check("netdev.link")
def netdev_link(netdevs: tuple[NetDev, ...]) -> Iterator[Finding]:
    """Every interface that is set up and had a link since its driver was loaded has one; members of bonds are bond.members' matter."""
    for netdev in netdevs:
        if netdev.up and not netdev.link and not netdev.bond and netdev.ups:
            yield Finding(netdev.name, f"no link; since its driver was loaded it had one {netdev.ups} times", "a link")


@check("netdev.speed")
def netdev_speed(netdevs: tuple[NetDev, ...]) -> Iterator[Finding]:
    """No interface with a link runs slower than the fastest of its bond, or, outside bonds, than most of the node's of its kind."""
    linked = _linked(netdevs)
    fastest: dict[str, int] = {}
    for netdev in linked:
        if netdev.bond:
            fastest[netdev.bond] = max(netdev.mbps, fastest.get(netdev.bond, 0))
    for netdev in linked:
        if netdev.bond and netdev.mbps < fastest[netdev.bond]:
            yield Finding(netdev.name, f"{netdev.mbps} Mb/s", f"{fastest[netdev.bond]} Mb/s, as another of {netdev.bond}")
    alone = [netdev for netdev in linked if not netdev.bond]
    for netdev, usual, number, of in odd_ones(alone, lambda netdev: netdev.kind, lambda netdev: netdev.mbps):
        if isinstance(usual, int) and netdev.mbps < usual:
            yield Finding(netdev.name, f"{netdev.mbps} Mb/s", f"{usual} Mb/s, as {number} of the node's {of} such interfaces")


@check("netdev.duplex")
def netdev_duplex(netdevs: tuple[NetDev, ...]) -> Iterator[Finding]:
    """Every interface with a link is full duplex; half means that the two ends disagree about who negotiates."""
    for netdev in _linked(netdevs):
        if netdev.duplex != "full":
            yield Finding(netdev.name, f"{netdev.duplex} duplex", "full duplex")


@check("netdev.mtu")
def netdev_mtu(netdevs: tuple[NetDev, ...]) -> Iterator[Finding]:
    """All interfaces of a bond carry packets of the same size (MTU)."""
    groups: dict[str, list[NetDev]] = {}
    for netdev in netdevs:
        if netdev.up and netdev.bond:
            groups.setdefault(netdev.bond, []).append(netdev)
    for bond, members in groups.items():
        largest = max(netdev.mtu for netdev in members)
        for netdev in members:
            if netdev.mtu < largest:
                yield Finding(netdev.name, f"MTU {netdev.mtu}", f"MTU {largest}, as another of {bond}")


@check("netdev.carrier_changes")
def netdev_carrier_changes(netdevs: tuple[NetDev, ...], previous_netdevs: tuple[NetDev, ...], *, at_most: int) -> Iterator[Finding]:
    """No interface's link came and went more often than this between two looks."""
    for netdev, earlier in with_earlier(netdevs, previous_netdevs):
        changes = increase(netdev, earlier, "ups") + increase(netdev, earlier, "downs")
        if changes > at_most:
            yield Finding(netdev.name, f"its link changed {changes} times since the earlier look", f"at most {at_most} times")


def _rates(
    netdevs: tuple[NetDev, ...], previous: tuple[NetDev, ...], looks: tuple[Look, Look], limits: Mapping[str, float],
) -> Iterator[Finding]:
    for netdev, earlier in with_earlier(netdevs, previous):
        for counter, limit in limits.items():
            if (events := rate(netdev, earlier, counter, looks, per=1.0)) > limit:
                yield Finding(netdev.name, f"{counter}: {events:.2f} a second", f"at most {limit:g} a second")


@check("netdev.errors")
def netdev_errors(
    netdevs: tuple[NetDev, ...], previous_netdevs: tuple[NetDev, ...], look: Look, previous_look: Look, *,
    rx_frame: float, rx_errors: float, tx_errors: float,
) -> Iterator[Finding]:
    """No interface receives damaged frames, or fails to receive or send, faster than these limits (a second) between two looks."""
    limits = {"rx_frame": rx_frame, "rx_errors": rx_errors, "tx_errors": tx_errors}
    yield from _rates(netdevs, previous_netdevs, (look, previous_look), limits)


@check("netdev.drops")
def netdev_drops(
    netdevs: tuple[NetDev, ...], previous_netdevs: tuple[NetDev, ...], look: Look, previous_look: Look, *, share: float, at_least: int,
) -> Iterator[Finding]:
    """No interface dropped more than this share of what it received between two looks, where it dropped so many packets at least.

    Packets of protocols that nobody on the node speaks count as dropped, so some are on every network.
    """
    for netdev, earlier in with_earlier(netdevs, previous_netdevs):
        dropped = increase(netdev, earlier, "rx_drops")
        received = increase(netdev, earlier, "rx_packets")
        if dropped >= at_least and dropped > share * (received + dropped):
            yield Finding(netdev.name, f"dropped {dropped} packets, received {received}", f"at most {share:.2%} dropped")


@check("bond.members")
def bond_members(bonds: tuple[Bond, ...], *, at_least: int) -> Iterator[Finding]:
    """Every bond has so many members at least, and each of them has a link."""
    for bond in bonds:
        if not bond.up:
            yield Finding(bond.name, "down", "up")
        if len(bond.slaves) < at_least:
            yield Finding(bond.name, f"{len(bond.slaves)} members", f"at least {at_least}")
        for slave in bond.slaves:
            if not slave.up:
                yield Finding(f"{bond.name} {slave.interface}", "no link", "a link")


@check("bond.lacp")
def bond_lacp(lacp_bonds: tuple[Bond, ...]) -> Iterator[Finding]:
    """Every 802.3ad bond has a partner at the switch, and all members with a link are in the one aggregator that carries traffic."""
    for bond in lacp_bonds:
        if not bond.lacp:
            continue
        if bond.partner == NO_PARTNER:
            yield Finding(bond.name, "no LACP partner answers", "the switch's address as partner")
            continue
        for slave in bond.slaves:
            if slave.up and slave.aggregator != bond.active:
                yield Finding(f"{bond.name} {slave.interface}", f"in aggregator {slave.aggregator}", f"in the active one, {bond.active}")
            elif slave.up and "churned" in slave.churn:
                yield Finding(f"{bond.name} {slave.interface}", "LACP churned", "in synchronisation")


def _at_address(netdevs: Mapping[str, tuple[NetDev, ...]], say: Callable[[NetDev], str], of: Callable[[NetDev], bool]) -> Said:
    groups: dict[str, list[tuple[str, str, str]]] = {}
    for node, found in netdevs.items():
        for netdev in found:
            if of(netdev):
                groups.setdefault(f"nodes at {netdev.pci}", []).append((node, netdev.name, say(netdev)))
    for peers, values in groups.items():
        try:
            yield from odd_in_fleet(values, "MTU or speed", peers)
        except NoMajority as error:
            for node, subject, _ in values:
                yield node, Uncompared(subject, str(error))


@fleet_check("fleet.netdev_mtu")
def fleet_netdev_mtu(netdevs: Mapping[str, tuple[NetDev, ...]]) -> Said:
    """Every interface that is up has the MTU that most of the cohort's nodes have at the same PCI address."""
    yield from _at_address(netdevs, lambda netdev: f"MTU {netdev.mtu}", lambda netdev: netdev.up)


@fleet_check("fleet.netdev_speed")
def fleet_netdev_speed(netdevs: Mapping[str, tuple[NetDev, ...]]) -> Said:
    """Every interface with a link has the speed that most of the cohort's nodes have at the same PCI address."""
    yield from _at_address(netdevs, lambda netdev: f"{netdev.mbps} Mb/s", lambda netdev: netdev.up and netdev.link)
