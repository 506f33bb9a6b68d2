"""InfiniBand and RoCE port checks.

Judged are the compute ports of the plan (`ports:` of the inventory or the SKU, by PCI address), and a missing
one is reported. Without a plan these are the ports of the most common kind of adapter, except those planned
for something else. Virtual functions are never judged beside real ones, and a port with `expect: down` must
only be present.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from typing import TypeVar

from healthcheck.checks.base import NotMeasured, Peers, check, selection
from healthcheck.checks.growth import HOUR, MINUTE, Growth
from healthcheck.facts.netdev import LagCards
from healthcheck.facts.port import ENTRIES, Port, card, most_common_kind
from healthcheck.facts.site import PortPlans
from healthcheck.facts.values import Fact
from healthcheck.model.outcome import Finding
from inventory.text import many

INFINIBAND = "InfiniBand"
F = TypeVar("F", bound=Fact)
V = TypeVar("V", int, str)


@selection("compute_ports")
def compute_ports(ports: Peers[Port], port_plans: PortPlans) -> tuple[Port, ...]:
    """The compute ports whose link should be up."""
    if not port_plans.compute:
        return most_common_kind(ports.where(lambda port: not _planned_otherwise(port, port_plans)).members)
    addressed = ports.read(lambda port: port.pci)
    planned = [(port, pci) for port, pci in addressed if pci in port_plans.compute]
    if not planned and len(addressed) == len(ports):
        raise NotMeasured(None, "not one of the planned compute ports is there")
    return tuple(port for port, pci in planned if pci not in port_plans.down)


def _planned_otherwise(port: Port, port_plans: PortPlans) -> bool:
    """Whether the port is planned for something else; without such plans its address is not read."""
    return bool(port_plans.others) and port.pci in port_plans.others


def odd_ones(
    members: Peers[F], kind: Callable[[F], Hashable], value: Callable[[F], V], things: str,
    pattern: str = "{}", *, less: bool = False,
) -> Iterator[Finding]:
    """A finding for each member whose value is not that of more than half of its kind, or is less, with
    values as `pattern` shows them (`str.format`)."""
    groups: dict[Hashable, list[tuple[F, V]]] = {}
    for member, (of_kind, own) in members.read(lambda member: (kind(member), value(member))):
        groups.setdefault(of_kind, []).append((member, own))
    for group in groups.values():
        usual, number = Counter(own for _, own in group).most_common(1)[0]
        for member, own in group if 2 * number > len(group) else ():
            if own < usual if less else own != usual:
                usually = f"{pattern.format(usual)}, as {number} of the node's {len(group)} such {things}"
                yield Finding(pattern.format(own), usually, member.name)


@check("port.count", counts=True)
def port_count(
    ports: Peers[Port], port_plans: PortPlans, lag_cards: LagCards, *, expected: int,
) -> Iterator[Finding]:
    """As many compute ports as the SKU has are present; where they are planned, each planned one is."""
    if port_plans.compute:
        present = {pci for _, pci in ports.read(lambda port: port.pci)}
        # One device stands for both functions of a card that are one bond.
        lagged = lag_cards.cards & {card(pci) for pci in present}
        for pci, rail in sorted(port_plans.compute.items()):
            if pci not in present and card(pci) not in lagged and pci not in port_plans.unread:
                of_rail = "" if rail is None else f" (rail {rail})"
                yield Finding("not there", "there", f"port at {pci}{of_rail}")
    elif (number := len(compute_ports(ports, port_plans))) < expected:
        unread = len(port_plans.unread)
        if number + unread >= expected:
            raise NotMeasured(None, f"{number} ports found, {many(unread, 'adapter')} not read")
        yield Finding(number, f"at least {expected}", "ports")


@check("port.state", over="compute_ports")
def port_state(port: Port, port_plans: PortPlans, *, expected: int) -> Iterator[Finding]:
    """Every compute port has a physical link and is active; an InfiniBand port that stays INIT has seen no
    subnet manager.

    Where no ports are planned and the SKU has none, none are judged.
    """
    if (expected or port_plans.compute) and (port.phys_state != "LinkUp" or port.state != "ACTIVE"):
        yield Finding(f"{port.state}, {port.phys_state}", "ACTIVE, LinkUp")


@check("port.rate", over="compute_ports")
def port_rate(ports: Peers[Port], port_plans: PortPlans, *, at_least_gbps: float) -> Iterator[Finding]:
    """Every active compute port runs at the SKU's rate; only port.state reports one that is down."""
    active = ports.where(lambda port: port.state == "ACTIVE")
    all_dark = port_plans.compute and port_plans.down >= port_plans.compute.keys()
    if not len(active) and at_least_gbps and not all_dark:
        raise NotMeasured(None, "no port is active, so none shows its rate")
    for port, gbps in active.read(lambda port: port.rate_gbps):
        if gbps < at_least_gbps:
            yield Finding(f"{gbps:g} Gb/s", f"at least {at_least_gbps:g} Gb/s", port.name)


@check("port.width", over="compute_ports")
def port_width(ports: Peers[Port], *, lanes: int = 0) -> Iterator[Finding]:
    """Every active compute port has as many lanes as `lanes` says, or else as most of the node's of its kind
    and link layer.

    A cable with a broken lane trains with fewer. Where split cables give all ports fewer, none is reported.
    """
    active = ports.where(lambda port: port.state == "ACTIVE")
    if lanes:
        for port, own in active.read(lambda port: port.lanes):
            if own < lanes:
                yield Finding(f"{own}X", f"at least {lanes}X", port.name)
        return
    yield from odd_ones(active, lambda port: port.kind, lambda port: port.lanes, "ports", "{}X", less=True)


@check("port.link_layer")
def port_link_layer(ports: Peers[Port], port_plans: PortPlans, *, expected: str = "") -> Iterator[Finding]:
    """Every compute port has the link layer of `expected`, or else that of most of the node's ports on equal
    boards.

    An adapter whose firmware was reset to defaults comes up with the other one. Without a plan all ports of a
    board are compared, since such a port is no longer of the most common kind; one that is active has a
    switch of its own protocol, so that it is there on purpose (storage), or port.count lacks it.
    """
    if port_plans.compute or expected:
        ours = Peers(compute_ports(ports, port_plans))
    else:
        ours = ports.where(lambda port: not port.virtual and not _planned_otherwise(port, port_plans))
    if expected:
        for port, own in ours.read(lambda port: port.link_layer):
            if own != expected:
                yield Finding(own, expected, port.name)
        return
    by_name = {port.name: port for port in ours.members}
    for found in odd_ones(ours, lambda port: port.board, lambda port: port.link_layer, "ports"):
        if port_plans.compute or by_name[found.subject].state != "ACTIVE":
            yield found


@check("port.lid", over="compute_ports")
def port_lid(port: Port) -> Iterator[Finding]:
    """Every active InfiniBand compute port has an address (LID) and its subnet manager's; without them no one
    reaches it."""
    if port.state != "ACTIVE" or port.link_layer != INFINIBAND:
        return
    if not 0 < port.lid < 0xC000:
        yield Finding(f"LID {port.lid:#x}", "a unicast LID (0x1 to 0xbfff)")
    if not port.sm_lid:
        yield Finding("no subnet manager (SM LID 0)", "the subnet manager's LID")


@check("port.gid", over="compute_ports")
def port_gid(port: Port) -> Iterator[Finding]:
    """Every active compute port, InfiniBand or RoCE, has a GID at the start of its table; without one no
    connection can be made."""
    if port.state == "ACTIVE" and not port.gids:
        yield Finding("no GID in its table", "one at least")


_MEMBERSHIP = 0x8000    # InfiniBand specification, P_Key: the highest bit is full membership


@check("port.pkey", over="compute_ports")
def port_pkey(port: Port, *, keys: tuple[str, ...] = ()) -> Iterator[Finding]:
    """Every active InfiniBand compute port is a full member of some partition, and holds each of `keys`
    ("0xffff") where they are given.

    Two limited members of a partition cannot communicate. Only the first keys of the table are read: where
    all of these are in use, what is not among them may stand behind.
    """
    if port.state != "ACTIVE" or port.link_layer != INFINIBAND:
        return
    lacking = not any(key & _MEMBERSHIP for key in port.keys) or any(
        int(wanted, 16) not in port.keys for wanted in keys)
    if lacking and len(port.keys) == ENTRIES:
        raise NotMeasured(port, f"only its first {ENTRIES} partition keys are read")
    shown = ", ".join(f"{key:#06x}" for key in port.keys) or "none"
    if not any(key & _MEMBERSHIP for key in port.keys):
        yield Finding(f"partition keys: {shown}", "full membership of one partition at least")
    for wanted in keys:
        if int(wanted, 16) not in port.keys:
            yield Finding(f"partition keys: {shown}", wanted)


@check("port.link_downed", over="compute_ports")
def port_link_downed(port: Port, growth: Growth[Port], *, allow: int) -> Iterator[Finding]:
    """No compute port lost its link more often than allowed since the earlier snapshot of the same boot."""
    if (lost := growth.of("link_downed")) > allow:
        yield Finding(f"lost its link {lost} times since the earlier snapshot", f"at most {allow}")


@check("port.flapping", over="compute_ports")
def port_flapping(port: Port, growth: Growth[Port], *, losses: int, within_hours: float) -> Iterator[Finding]:
    """No compute port lost its link so often between two snapshots that are no further apart than
    `within_hours`.

    It reads the counter of port.link_downed: one loss is an accident, repeated ones are a link that no job
    can use. Between snapshots further apart the losses may have come far from each other.
    """
    lost = growth.of("link_downed")
    if lost >= losses and (hours := growth.seconds / HOUR) <= within_hours:
        yield Finding(f"lost its link {lost} times in {hours:.1f} h", f"fewer than {losses}")


@check("port.down_since", over="compute_ports")
def port_down_since(port: Port, growth: Growth[Port], *, minutes: float) -> Iterator[Finding]:
    """No compute port is down in two snapshots so far apart with no loss counted in between.

    Such a link will not come back by itself.
    """
    if growth.of("link_downed") or port.state == "ACTIVE" or growth.before.state == "ACTIVE":
        return
    if (passed := growth.seconds / MINUTE) >= minutes:
        yield Finding(f"{port.state}, {port.phys_state} for {passed:.0f} minutes at least", "ACTIVE")
