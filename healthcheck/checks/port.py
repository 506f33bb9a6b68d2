"""InfiniBand and RoCE port checks.

Which ports are judged: where the inventory or the SKU says what they are for (`ports:`, by PCI address), exactly the compute ports, and one
that is missing is named; elsewhere those of the most numerous kind of adapter, without any that are planned for something else. Virtual
functions are never judged beside real ones, and a port of which the plan says `expect: down` need only be there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

from healthcheck.checks.base import NotMeasured, check, increase
from healthcheck.checks.trend import elapsed
from healthcheck.facts.look import Look
from healthcheck.facts.port import Port, most_alike
from healthcheck.facts.site import PortPlans
from healthcheck.facts.values import Fact
from healthcheck.model.outcome import Finding

INFINIBAND = "InfiniBand"
P = TypeVar("P", bound=Fact)


def judged(ports: tuple[Port, ...], port_plans: PortPlans) -> tuple[Port, ...]:
    """The compute ports whose link should be up."""
    if not port_plans.compute:
        return most_alike(port for port in ports if not port_plans.others or port.pci not in port_plans.others)
    found = list(ports)
    planned = tuple(port for port in found if port.pci in port_plans.compute)
    if len(found) == len(ports) and not planned:
        raise NotMeasured(None, "not one of the planned compute ports is there")
    return tuple(port for port in planned if port.pci not in port_plans.down)


def odd_ones(
    things: Iterable[P], by: Callable[[P], Hashable], value: Callable[[P], int | str],
) -> Iterator[tuple[P, int | str, int, int]]:
    """Each port whose value is not that of more than half of its equals (`by`), with the usual value, how many have it, and of how many."""
    groups: dict[Hashable, list[tuple[P, int | str]]] = {}
    for port in things:
        groups.setdefault(by(port), []).append((port, value(port)))
    for group in groups.values():
        usual, number = Counter(said for _, said in group).most_common(1)[0]
        for port, said in group if 2 * number > len(group) else ():
            if said != usual:
                yield port, usual, number, len(group)


@check("port.count", counts=True)
def port_count(ports: tuple[Port, ...], port_plans: PortPlans, *, expected: int) -> Iterator[Finding]:
    """As many compute ports as the SKU has are there; where they are planned, each planned one is."""
    if port_plans.compute:
        present = {port.pci for port in ports}
        for pci, rail in sorted(port_plans.compute.items()):
            if pci not in present and pci not in port_plans.unread:
                yield Finding(f"port at {pci}" + (f" (rail {rail})" if rail is not None else ""), "not there", "there")
    elif (number := len(judged(ports, port_plans))) < expected:
        if number + len(port_plans.unread) >= expected:
            raise NotMeasured(None, f"{number} ports, and of {len(port_plans.unread)} adapters that were not read some may be such")
        yield Finding("ports", number, f"at least {expected}")


@check("port.state")
def port_state(ports: tuple[Port, ...], port_plans: PortPlans, *, expected: int) -> Iterator[Finding]:
    """Every compute port has a physical link and is active; an InfiniBand port that stays INIT has seen no subnet manager.

    Where no ports are planned and the SKU has none, those that are there are nobody's business.
    """
    for port in judged(ports, port_plans) if expected or port_plans.compute else ():
        if port.phys_state != "LinkUp" or port.state != "ACTIVE":
            yield Finding(port.name, f"{port.state}, {port.phys_state}", "ACTIVE, LinkUp")


@check("port.rate")
def port_rate(ports: tuple[Port, ...], port_plans: PortPlans, *, at_least_gbps: float) -> Iterator[Finding]:
    """Every active compute port runs at the SKU's rate; one that is down is named by port.state alone."""
    active = [port for port in judged(ports, port_plans) if port.state == "ACTIVE"]
    all_dark = port_plans.compute and port_plans.down >= port_plans.compute.keys()
    if not active and at_least_gbps and not all_dark:
        raise NotMeasured(None, "no port is active, so none shows its rate")
    for port in active:
        if port.rate_gbps < at_least_gbps:
            yield Finding(port.name, f"{port.rate_gbps:g} Gb/s", f"at least {at_least_gbps:g} Gb/s")


@check("port.width")
def port_width(ports: tuple[Port, ...], port_plans: PortPlans, *, lanes: int = 0) -> Iterator[Finding]:
    """Every active compute port has as many lanes as `lanes` says, or else as most of the node's that are of its kind and link layer.

    A cable with a broken lane trains with fewer. What a split cable makes of all ports alike accuses none of them.
    """
    active = [port for port in judged(ports, port_plans) if port.state == "ACTIVE"]
    if lanes:
        for port in active:
            if port.lanes < lanes:
                yield Finding(port.name, f"{port.lanes}X", f"at least {lanes}X")
        return
    for port, usual, number, of in odd_ones(active, lambda port: port.kind, lambda port: port.lanes):
        if isinstance(usual, int) and port.lanes < usual:
            yield Finding(port.name, f"{port.lanes}X", f"{usual}X, as {number} of the node's {of} such ports")


@check("port.link_layer")
def port_link_layer(ports: tuple[Port, ...], port_plans: PortPlans, *, expected: str = "") -> Iterator[Finding]:
    """Every compute port speaks the link layer that `expected` names, or else the one of most of the node's ports on equal boards.

    An adapter whose firmware was reset to defaults comes up with the other one. Where nothing is planned, all ports of a board's kind are
    compared, since such a port is no longer of the most numerous kind.
    """
    ours = judged(ports, port_plans) if port_plans.compute or expected else [
        port for port in ports if not port.virtual and (not port_plans.others or port.pci not in port_plans.others)]
    for port in ours if expected else ():
        if port.link_layer != expected:
            yield Finding(port.name, port.link_layer, expected)
    if not expected:
        for port, usual, number, of in odd_ones(ours, lambda port: port.board, lambda port: port.link_layer):
            yield Finding(port.name, port.link_layer, f"{usual}, as {number} of the node's {of} such ports")


@check("port.lid")
def port_lid(ports: tuple[Port, ...], port_plans: PortPlans) -> Iterator[Finding]:
    """Every active InfiniBand compute port has an address (LID) and knows its subnet manager's; without, nobody reaches it."""
    for port in _active(ports, port_plans, INFINIBAND):
        if not 0 < port.lid < 0xC000:
            yield Finding(port.name, f"LID {port.lid:#x}", "a unicast LID (0x1 to 0xbfff)")
        if not port.sm_lid:
            yield Finding(port.name, "no subnet manager (SM LID 0)", "the subnet manager's LID")


@check("port.gid")
def port_gid(ports: tuple[Port, ...], port_plans: PortPlans) -> Iterator[Finding]:
    """Every active compute port has a GID at the head of its table, be it InfiniBand or RoCE; without, no connection can be made."""
    for port in _active(ports, port_plans):
        if not port.gids:
            yield Finding(port.name, "no GID in its table", "one at least")


_MEMBERSHIP = 0x8000    # InfiniBand specification, P_Key: the highest bit is full membership


@check("port.pkey")
def port_pkey(ports: tuple[Port, ...], port_plans: PortPlans, *, keys: tuple[str, ...] = ()) -> Iterator[Finding]:
    """Every active InfiniBand compute port is a full member of some partition, and holds each of `keys` ("0xffff") where they are given.

    Two limited members of a partition do not hear each other. Only the first keys of the table are looked at.
    """
    for port in _active(ports, port_plans, INFINIBAND):
        shown = ", ".join(f"{key:#06x}" for key in port.keys) or "none"
        if not any(key & _MEMBERSHIP for key in port.keys):
            yield Finding(port.name, f"partition keys: {shown}", "full membership of one partition at least")
        for wanted in keys:
            if int(wanted, 16) not in port.keys:
                yield Finding(port.name, f"partition keys: {shown}", wanted)


def _active(ports: tuple[Port, ...], port_plans: PortPlans, link_layer: str = "") -> Iterator[Port]:
    for port in judged(ports, port_plans):
        if port.state == "ACTIVE" and (not link_layer or port.link_layer == link_layer):
            yield port


_SATURATED = 255


def _losses(
    ports: tuple[Port, ...], previous_ports: tuple[Port, ...], port_plans: PortPlans,
) -> Iterator[tuple[Port, Port, int]]:
    """Each compute port with its earlier self and how often it lost its link in between.

    Ports are matched by PCI address and number, so that a renumbered mlx5_N keeps its history. A port that the earlier look did
    not have, and a counter that is full, cannot be compared.
    """
    before: Mapping[tuple[str, int], Port] = {(port.pci, port.number): port for port in previous_ports}
    for port in judged(ports, port_plans):
        full = port.link_downed >= _SATURATED
        earlier = before.get((port.pci, port.number))
        if earlier is None:
            raise NotMeasured(port, "the earlier look has no such port")
        if full and earlier.link_downed >= _SATURATED:
            raise NotMeasured(port, f"its link_downed counter is full at {_SATURATED}, so losses are no longer counted")
        yield port, earlier, increase(port, earlier, "link_downed")


@check("port.link_downed")
def port_link_downed(
    ports: tuple[Port, ...], previous_ports: tuple[Port, ...], port_plans: PortPlans, *, allow: int,
) -> Iterator[Finding]:
    """No compute port lost its link more often than allowed since the earlier look of the same boot."""
    for port, _, lost in _losses(ports, previous_ports, port_plans):
        if lost > allow:
            yield Finding(port.name, f"lost its link {lost} times since the earlier look", f"at most {allow}")


@check("port.flapping")
def port_flapping(
    ports: tuple[Port, ...], previous_ports: tuple[Port, ...], port_plans: PortPlans, look: Look, previous_look: Look, *,
    losses: int, within_hours: float,
) -> Iterator[Finding]:
    """No compute port lost its link so often from one look to the next, when these are no further apart than `within_hours`.

    It is the same counter that port.link_downed reads: what once is an accident, again and again is a link that no job can use.
    Of looks further apart nobody can say whether the losses came together.
    """
    for port, _, lost in _losses(ports, previous_ports, port_plans):
        hours = elapsed(port, look, previous_look) / 3600 if lost >= losses else 0.0
        if lost >= losses and hours <= within_hours:
            yield Finding(port.name, f"lost its link {lost} times in {hours:.1f} h", f"fewer than {losses}")


@check("port.down_since")
def port_down_since(
    ports: tuple[Port, ...], previous_ports: tuple[Port, ...], port_plans: PortPlans, look: Look, previous_look: Look, *,
    minutes: float,
) -> Iterator[Finding]:
    """No compute port is down at two looks so far apart with no loss counted in between: such a link will not come back by itself."""
    for port, earlier, lost in _losses(ports, previous_ports, port_plans):
        if port.state == "ACTIVE" or earlier.state == "ACTIVE" or lost:
            continue
        if (passed := elapsed(port, look, previous_look) / 60) >= minutes:
            yield Finding(port.name, f"{port.state}, {port.phys_state} for {passed:.0f} minutes at least", "ACTIVE")
