"""Makes places of what the subnets show: a link, a port, a switch, a leaf, a subnet, a lot; what one hand
mends is one. Pure.

Findings at the ends of one cable are one place. A switch that is not there, or of which most links show the
same, is one place, and not each of its links. What is of a single node as a whole (all its links are down) is
the node's own, and so are links that are down to a node out of service.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from healthcheck.model.outcome import Owner, Severity
from healthcheck.store.fabricfindings import FabricTrouble
from healthcheck.subnet.check.findings import FabricRule, PlaceKind
from healthcheck.subnet.kept import DOWN, TouchedDevice
from healthcheck.subnet.model import FabricEnd
from inventory.nodeset import natural

LINK, PORT, SWITCH, LEAF, SUBNET, LOT = "link", "port", "switch", "leaf", "subnet", "lot"
KINDS = (LINK, PORT, SWITCH, LEAF, SUBNET, LOT)
_AT_LEAST = 3       # links of one switch with the same, and half of those that it has
_CABLES = (PlaceKind.LINK, PlaceKind.PORT)
_SWITCHES = (PlaceKind.SWITCH, PlaceKind.LEAF)


@dataclass(frozen=True)
class FabricSpot:
    """One place with what is wrong there, the gravest first. `kind` and `place` name it; `alias` are the
    names that its findings have by themselves."""

    kind: str
    place: str
    troubles: tuple[FabricTrouble, ...]

    @property
    def alias(self) -> frozenset[str]:
        """The names under which a part of it may be known."""
        return frozenset(each.finding.place for each in self.troubles)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that it touches."""
        return tuple(sorted({node for each in self.troubles for node in each.finding.nodes}, key=natural))

    @property
    def owner(self) -> Owner:
        """Who mends the gravest of it; of a switch most of whose links show the same, who has switches."""
        first = self.troubles[0].finding
        return (Owner.NETWORK if self.kind in (SWITCH, LEAF) and first.kind in _CABLES else first.owner)

    @property
    def down(self) -> bool:
        """Whether it is nothing but links that do not work."""
        return all(each.finding.rule in DOWN for each in self.troubles)


def spots(found: Iterable[FabricTrouble], out: Collection[str] = ()) -> list[FabricSpot]:
    """The places of what is open, by kind and name. `out` are nodes that are not in service."""
    grave = [each for each in found if each.finding.severity is not Severity.INFO]
    cables = [each for each in grave if each.finding.kind in _CABLES and not _expected(each, out)]
    of_node = _whole_nodes(cables)
    cables = [each for each in cables if each.id not in of_node]
    at: dict[tuple[str, str], list[FabricTrouble]] = defaultdict(list)
    lone: list[FabricTrouble] = []
    for each in grave:
        if each.finding.kind is PlaceKind.SUBNET:
            at[SUBNET, each.finding.plane or "of the fabric"].append(each)
        elif each.finding.kind is PlaceKind.LOT:
            at[LOT, each.finding.place].append(each)
        elif each.finding.rule is FabricRule.UPLINKS:
            lone.append(each)
        elif each.finding.kind in _SWITCHES:
            at[_kind(each), each.finding.place].append(each)
    missing = {place for (_, place), each in at.items()
               if any(one.finding.rule is FabricRule.SWITCH for one in each)}
    left = _with_switches(cables, at, missing)
    for uplinks in lone:
        left = _uplinks(uplinks, left, at)
    return sorted([*(_spot(*key, each) for key, each in at.items()), *_cables(left)],
                  key=lambda one: (KINDS.index(one.kind), natural(one.place)))


def _spot(kind: str, place: str, troubles: Iterable[FabricTrouble]) -> FabricSpot:
    order = (Severity.CRITICAL, Severity.WARNING)
    return FabricSpot(kind, place, tuple(sorted(
        troubles, key=lambda one: (order.index(one.finding.severity), one.began, one.id))))


def _kind(one: FabricTrouble) -> str:
    return LEAF if one.finding.kind is PlaceKind.LEAF or one.finding.leaf == one.finding.place else SWITCH


def _expected(one: FabricTrouble, out: Collection[str]) -> bool:
    """Whether it is a link that is down to nodes that no one uses now."""
    nodes = one.finding.nodes
    return one.finding.rule in DOWN and bool(nodes) and all(node in out for node in nodes)


def _whole_nodes(cables: Iterable[FabricTrouble]) -> set[int]:
    """The findings of nodes of which several links are down and none is up: the node is off, not its
    cables."""
    of: dict[str, list[FabricTrouble]] = defaultdict(list)
    for one in cables:
        if one.finding.rule in DOWN and len(one.finding.nodes) == 1:
            of[one.finding.nodes[0]].append(one)
    return {one.id for those in of.values() if len(those) > 1 for one in those
            if any(each.kind == "node" and each.up == 0 and each.links >= len(those)
                   for each in one.finding.touched)}


def _with_switches(cables: Sequence[FabricTrouble], at: dict[tuple[str, str], list[FabricTrouble]],
                   missing: Collection[str]) -> list[FabricTrouble]:
    """Gives links to the switch that is missing, or most of whose links show the same; returns the others."""
    left = {one.id: one for one in cables}
    for kind, place in [key for key in at if key[1] in missing]:
        for one in list(left.values()):
            if one.finding.rule in DOWN and any(each.name == place for each in one.finding.touched):
                at[kind, place].append(left.pop(one.id))
    while True:
        shares = _shares(left.values())
        if not shares:
            return list(left.values())
        _, device, those = min(shares, key=lambda each: (-each[0], -len(each[2]), each[1].name))
        key = next((key for key in at if key[0] in (SWITCH, LEAF) and key[1] == device.name),
                   (device.kind, device.name))
        for one in those:
            at[key].append(left.pop(one.id))


def _shares(left: Iterable[FabricTrouble]) -> list[tuple[float, TouchedDevice, list[FabricTrouble]]]:
    """Switches of which most links show the same: the share, the switch and the findings."""
    groups: dict[tuple[str, str], list[FabricTrouble]] = defaultdict(list)
    devices: dict[str, TouchedDevice] = {}
    for one in left:
        what = "down" if one.finding.rule in DOWN else one.finding.rule.value
        for device in one.finding.touched:
            if device.kind != "node":
                devices[device.name] = max(devices.get(device.name, device), device,
                                           key=lambda each: each.links)
                groups[device.name, what].append(one)
    found = []
    for (name, _), those in groups.items():
        many, links = len({one.finding.place for one in those}), devices[name].links
        if many >= _AT_LEAST and 2 * many >= links > 0:
            found.append((many / links, devices[name], those))
    return found


def _uplinks(one: FabricTrouble, left: list[FabricTrouble],
             at: dict[tuple[str, str], list[FabricTrouble]]) -> list[FabricTrouble]:
    """That a leaf has few uplinks is of the leaf where several of its own links are why; else what is wrong
    with the one link, or the switch beyond, says it already. Gives the links that are left."""
    own = set(one.finding.ends)
    why = [each for each in left if each.finding.rule in DOWN and own & set(each.finding.ends)]
    known = {place for _, place in at}
    beyond = [name for name in one.finding.gone if name in known]
    here, switch = (LEAF, one.finding.place), (SWITCH, one.finding.place)
    if here not in at and beyond and len(beyond) == len(one.finding.gone) and not why:
        return left
    if len(why) == 1 and here not in at:
        return left
    at[switch if switch in at else here] += [one, *why]
    return [each for each in left if each not in why]


def _cables(left: Sequence[FabricTrouble]) -> Iterable[FabricSpot]:
    """Findings that share a port are of one cable."""
    groups: list[list[FabricTrouble]] = []
    of: dict[FabricEnd | str, int] = {}
    for one in sorted(left, key=lambda each: each.id):
        keys: list[FabricEnd | str] = [*one.finding.ends, one.finding.place]
        found = sorted({of[key] for key in keys if key in of})
        number = found[0] if found else len(groups)
        if not found:
            groups.append([])
        for other in found[1:]:
            groups[number] += groups[other]
            groups[other] = []
            of = {key: number if value == other else value for key, value in of.items()}
        groups[number].append(one)
        of |= dict.fromkeys(keys, number)
    for group in groups:
        links = [each for each in group if each.finding.kind is PlaceKind.LINK]
        first = _spot(LINK, "", links or group).troubles[0] if group else None
        if first is not None:
            yield _spot(LINK if links else PORT, first.finding.place, group)


def at_node(spot: FabricSpot, node: str) -> Mapping[str, None]:
    """What the node calls its adapters at the spot."""
    return dict.fromkeys(part.lower() for each in spot.troubles if node in each.finding.nodes
                         for part in each.finding.parts)
