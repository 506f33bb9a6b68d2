"""Links: those that are missing or lead elsewhere, their states, width and rate."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from healthcheck.model.outcome import Owner, Severity
from healthcheck.subnet.cabling import PlannedCable, Tier
from healthcheck.subnet.check.findings import UNHEALTHY, FabricFinding, FabricPlace, FabricRule, PlaceKind
from healthcheck.subnet.check.seen import SeenSubnet
from healthcheck.subnet.model import DeviceKind, FabricEnd, FabricPort, LinkState
from healthcheck.subnet.readers import linkinfo
from inventory.text import many

# Where no plan says what a link should have, it is compared with its equals: this many at least, of which
# this share agree.
_LEAST_EQUALS, _SHARE = 4, 0.8


def missing(seen: SeenSubnet) -> Iterator[FabricFinding]:
    """Planned switches and hosts of which nothing is there, and uplinks of each leaf; adapters of nodes that
    no subnet shows are `whole.check_fabric`'s."""
    if seen.plan is None:
        return
    partial = seen.subnet.partial
    there = {name.device for end, name in seen.planned_name.items()
             if (port := seen.subnet.port(end)) is None or port.peer is not None
             or seen.kind(end) is DeviceKind.SWITCH}
    named = {name.device for name in seen.planned_name.values()}
    # Of a device in whose place there is one without a name no one can say that it is gone.
    there |= {other.device for cable in seen.cables for end, other in ((cable.a, cable.b), (cable.b, cable.a))
              if end in seen.ends and (port := seen.subnet.port(seen.ends[end])) is not None
              and port.peer is not None and seen.is_nameless(port.peer)}
    gone = {end.device for cable in seen.cables for end in (cable.a, cable.b)} - there
    for name in sorted(gone):
        host = seen.is_host(name)
        kind = PlaceKind.NODE if host else PlaceKind.SWITCH
        place = FabricPlace(kind, name, nodes=(name,) if host else (),
                            leaf=name if seen.plan.devices[name].tier is Tier.LEAF else None)
        words = (f"none of its adapters is in the subnet{_far(seen, name)}" if host
                 else "is not in the subnet")
        yield seen.finding(FabricRule.HOST if host else FabricRule.SWITCH, place,
                           "not seen, and the subnet was read in part" if partial else words, "planned",
                           owner=Owner.OPERATOR if host else Owner.NETWORK, unknown=partial)
    yield from _uplinks(seen, gone)
    for cable in seen.cables:
        if not {cable.a.device, cable.b.device} & gone:
            yield from _cable(seen, cable, named)


def _far(seen: SeenSubnet, host: str) -> str:
    """How the switches' ports at which a host should be are."""
    there = [(other, seen.subnet.port(seen.ends[other])) for cable in seen.cables
             for end, other in ((cable.a, cable.b), (cable.b, cable.a))
             if end.device == host and other in seen.ends]
    words = [f"{seen.words(other)} is {port.state.value}" + (f" ({port.physical})" if port.physical else "")
             for other, port in there if port is not None and port.state is not None]
    return f"; {', '.join(words[:4])}" if words else ""


def _uplinks(seen: SeenSubnet, gone: set[str]) -> Iterator[FabricFinding]:
    wanted: dict[str, list[PlannedCable]] = defaultdict(list)
    if seen.plan is None:
        return
    for cable in seen.cables:
        if not seen.is_host(cable.a.device) and not seen.is_host(cable.b.device):
            for end in (cable.a, cable.b):
                if seen.plan.devices[end.device].tier is Tier.LEAF and end.device not in gone:
                    wanted[end.device].append(cable)
    for leaf, cables in sorted(wanted.items()):
        up = sum(any(port.peer is not None and port.state is not LinkState.DOWN
                     for port in _ports(seen, cable)) for cable in cables)
        if up < len(cables):
            ends = tuple(seen.ends[end] for cable in cables for end in (cable.a, cable.b)
                         if end.device == leaf and end in seen.ends)
            yield seen.finding(
                FabricRule.UPLINKS, FabricPlace(PlaceKind.LEAF, leaf, ends, leaf=leaf),
                f"{up} of {len(cables)} uplinks are up", f"{len(cables)}",
                Severity.CRITICAL if up * 2 <= len(cables) else Severity.WARNING,
                unknown=seen.subnet.partial)


def _ports(seen: SeenSubnet, cable: PlannedCable) -> list[FabricPort]:
    return [port for end in (cable.a, cable.b) if end in seen.ends
            and (port := seen.subnet.port(seen.ends[end])) is not None]


def _cable(seen: SeenSubnet, cable: PlannedCable, named: set[str]) -> Iterator[FabricFinding]:
    """One planned cable: down, elsewhere, or not measured."""
    place = seen.at_planned(cable)
    ports = _ports(seen, cable)
    if any(port.peer is not None and seen.is_nameless(port.peer) for port in ports):
        yield seen.finding(FabricRule.SILENT, place, "up, but the device at its other end answers "
                           "management packets in part: its name was not read", "answers")
        return
    elsewhere = [port for port in ports if port.peer is not None and not _leads(seen, port, cable)]
    if elsewhere:
        # Where both ends are elsewhere, as in a swap, the upper one says it.
        upper = [port for port in elsewhere if seen.planned_name[port.end] == cable.b]
        elsewhere = upper or elsewhere
        for port in elsewhere:
            assert port.peer is not None  # noqa: S101  (chosen so)
            own = seen.planned_name[port.end]
            other = cable.b if own == cable.a else cable.a
            yield seen.finding(FabricRule.CABLE, seen.at_port(port.end),
                               f"its cable leads to {seen.port_name(port.peer)}", f"to {seen.words(other)}",
                               owner=Owner.DATACENTRE)
        return
    if any(port.peer is not None or port.state is LinkState.ACTIVE for port in ports):
        return          # what is active and leads nowhere, `states` names
    if not any(port.state is LinkState.DOWN for port in ports) and seen.subnet.partial:
        yield seen.finding(FabricRule.LINK, place, "not shown, and the subnet was read in part", unknown=True)
    elif not ports:
        words = " and ".join(seen.words(end) for end in (cable.a, cable.b) if end.device in named)
        yield seen.finding(FabricRule.LINK, place, f"{words}: no such port is shown", "up",
                           owner=Owner.OPERATOR)
    else:
        state = next((port.physical for port in ports if port.physical not in (None, "linkup")), None)
        yield seen.finding(FabricRule.LINK, place, f"down ({state})" if state else "down", "up",
                           owner=Owner.NETWORK if state == "disabled" else Owner.DATACENTRE)


def _leads(seen: SeenSubnet, port: FabricPort, cable: PlannedCable) -> bool:
    """Whether a port's cable ends where the plan says, or at least at its node where no name is known."""
    assert port.peer is not None  # noqa: S101  (asked of linked ports)
    own = seen.planned_name[port.end]
    other = cable.b if own == cable.a else cable.a
    name = seen.planned_name.get(port.peer)
    return name == other if name is not None else seen.node_of(port.peer) == other.device


def states(seen: SeenSubnet) -> Iterator[FabricFinding]:
    """Ports between down and active or listed as unhealthy, ports whose other end does not answer, and,
    without a plan, links that were up at the earlier sample."""
    dark = [a.end for a, b in seen.pairs if a.state is None and b.state is None]
    if dark:
        yield seen.unknown(FabricRule.STATE, seen.whole(dark),
                           f"the state of {many(len(dark), 'link')} is not shown (iblinkinfo)")
    reported: set[FabricEnd] = set()
    for port in seen.subnet.ports():
        if port.end in reported:
            continue
        conditions = (seen.subnet.unhealthy or {}).get(port.end)
        if conditions is not None:
            if port.peer is not None:
                reported.add(port.peer)
            named = ", ".join(sorted(conditions)) or "no condition"
            yield seen.finding(FabricRule.STATE, _place(seen, port), f"{UNHEALTHY} ({named})", "in use",
                               Severity.WARNING)
        elif port.state in (LinkState.INITIALIZE, LinkState.ARMED):
            if port.peer is not None:
                reported.add(port.peer)
            yield seen.finding(FabricRule.STATE, _place(seen, port),
                               f"{port.state.value}: the subnet manager has not brought it up", "active")
        elif port.state is LinkState.ACTIVE and port.peer is None and (
                seen.kind(port.end) is DeviceKind.ADAPTER and (cable := seen.cable_at(port.end))):
            yield seen.finding(
                FabricRule.SILENT, seen.at_planned(cable), "up, and no source shows where its cable leads",
                "to its planned end", Severity.WARNING, unknown=True)
        elif (port.state is LinkState.ACTIVE and port.peer is None
              and seen.kind(port.end) is DeviceKind.SWITCH):
            where = _place(seen, port)
            reported.update(where.ends)
            if seen.subnet.partial or not seen.subnet.links:
                yield seen.unknown(FabricRule.SILENT, where, "up, and no source shows where its cable leads")
                continue
            yield seen.finding(
                FabricRule.SILENT, where,
                "up, but the device at its other end does not answer management packets", "answers")
    if seen.before is not None and seen.plan is None and not seen.subnet.partial:
        for link in sorted(seen.before.links - seen.subnet.links):
            if all(one not in seen.at_end for one in (link.a, link.b)):
                yield seen.finding(FabricRule.LINK, seen.at_link(link.a, link.b),
                                   "gone since the earlier sample", "up", owner=Owner.DATACENTRE)


def in_part(seen: SeenSubnet) -> Iterator[FabricFinding]:
    """Ports of links that are up whose own state iblinkinfo could not read, where it read their equals'."""
    if seen.subnet.partial or linkinfo.TOOL not in seen.subnet.tools:
        return
    read = {seen.kind(port.end) for port in seen.subnet.ports() if port.state is not None}
    for one in seen.pairs:
        for own, other in (one, one[::-1]):
            if own.state is not None or other.state is not LinkState.ACTIVE or seen.kind(own.end) not in read:
                continue
            if seen.is_nameless(own.end) and other.end in seen.planned_name:
                continue        # the planned cable's finding says it
            yield seen.finding(
                FabricRule.SILENT, seen.at_link(own.end, other.end),
                f"{seen.port_name(own.end)} answers management packets in part: its state was not read",
                "answers", Severity.WARNING)


def _place(seen: SeenSubnet, port: FabricPort) -> FabricPlace:
    """The link of a port, by its other end or by the plan; else the port."""
    if port.peer is not None:
        return seen.at_link(port.end, port.peer)
    cable = seen.cable_at(port.end)
    return seen.at_planned(cable) if cable is not None else seen.at_port(port.end)


def rates(seen: SeenSubnet) -> Iterator[FabricFinding]:
    """Width and rate of each link against the plan, or what was wanted of all, or its equals."""
    if seen.subnet.ethernet:
        yield from _gigabits(seen)
        return
    usual = _usual(seen)
    unmeasured = 0
    without = 0
    for a, b in seen.pairs:
        if LinkState.DOWN in (a.state, b.state):
            continue
        cable = seen.cable_at(a.end)
        widths = [one for one in (a.width, b.width) if one is not None]
        speeds = [one for one in (a.speed, b.speed) if one is not None]
        unmeasured += not widths or not speeds
        of_plan = (cable.width, cable.speed) if cable is not None else (None, None)
        equals = usual.get(_class(seen, a.end, b.end), (None, None))
        for rule, there, planned, wanted, like in (
                (FabricRule.WIDTH, widths, of_plan[0], seen.wanted.width, equals[0]),
                (FabricRule.SPEED, speeds, of_plan[1], seen.wanted.speed, equals[1])):
            source = planned or wanted or like
            # Either end may be the one that is not as wanted.
            other = next((one for one in there if one != source), None)
            if source is None:
                without += 1
            elif other is not None:
                lanes = "x" if rule is FabricRule.WIDTH else ""
                yield seen.finding(
                    rule, seen.at_link(a.end, b.end), f"{other}{lanes}",
                    f"{source}{lanes}" + ("" if planned or wanted else ", as links of its kind have"),
                    owner=Owner.DATACENTRE)
    if unmeasured:
        yield seen.unknown(FabricRule.SPEED, seen.whole(),
                           f"width or rate of {many(unmeasured, 'link')} is not shown")
    if without:
        yield seen.unknown(FabricRule.SPEED, seen.whole(), "nothing says which width and rate links should "
                           "have: --plan, or --width and --speed")


def _gigabits(seen: SeenSubnet) -> Iterator[FabricFinding]:
    """The rate of each Ethernet link against the plan's."""
    unmeasured = unplanned = 0
    for a, b in seen.pairs:
        cable = seen.cable_at(a.end)
        there = [one for one in (a.gigabits, b.gigabits) if one is not None]
        wanted = cable.gigabits if cable is not None else None
        unmeasured += not there
        unplanned += wanted is None
        other = next((one for one in there if one != wanted), None)
        if other is not None and wanted is not None:
            yield seen.finding(FabricRule.SPEED, seen.at_link(a.end, b.end), f"{other:g} Gb/s",
                               f"{wanted:g} Gb/s", owner=Owner.DATACENTRE)
    for count, words in ((unmeasured, "the rate of {} is not shown"),
                         (unplanned, "no plan says which rate {} should have")):
        if count:
            yield seen.unknown(FabricRule.SPEED, seen.whole(), words.format(many(count, "link")))


def _class(seen: SeenSubnet, a: FabricEnd, b: FabricEnd) -> tuple[str, ...]:
    """Links of one class are equals: both between switches, or to an adapter of one rail."""
    kinds = sorted(str(seen.kind(end)) for end in (a, b))
    places = [seen.joined.adapters[end.guid] for end in (a, b) if end.guid in seen.joined.adapters]
    return (*kinds, *(str(place.rail if place.rail is not None else place.device) for place in places))


def _usual(seen: SeenSubnet) -> dict[tuple[str, ...], tuple[int | None, str | None]]:
    widths: dict[tuple[str, ...], Counter[int]] = defaultdict(Counter)
    speeds: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for a, b in seen.pairs:
        which = _class(seen, a.end, b.end)
        width, speed = a.width or b.width, a.speed or b.speed
        if width is not None and speed is not None and LinkState.DOWN not in (a.state, b.state):
            widths[which][width] += 1
            speeds[which][speed] += 1
    found: dict[tuple[str, ...], tuple[int | None, str | None]] = {}
    for which in widths:
        total = widths[which].total()
        width, many = widths[which].most_common(1)[0]
        speed, often = speeds[which].most_common(1)[0]
        enough = total >= _LEAST_EQUALS
        found[which] = (width if enough and many >= _SHARE * total else None,
                        speed if enough and often >= _SHARE * total else None)
    return found
