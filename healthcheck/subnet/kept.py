"""What is kept of a check's findings, each with the ports, nodes, switches and racks that it touches: to know
that two checks saw one thing, which switch its links share, and where a person has to go. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from healthcheck.model.outcome import Owner, Severity
from healthcheck.subnet.cabling import PlannedEnd, Tier
from healthcheck.subnet.check.findings import FabricFinding, FabricRule, PlaceKind
from healthcheck.subnet.check.seen import SeenSubnet
from healthcheck.subnet.join import KnownAdapter
from healthcheck.subnet.model import DeviceKind, FabricEnd, FabricPort, LinkState

# What says that a link does not work at all, as opposed to not well.
DOWN = frozenset({FabricRule.LINK, FabricRule.STATE, FabricRule.SILENT})
_WORST = (Severity.CRITICAL, Severity.WARNING, Severity.INFO)
_MOST_NODES = 512       # of one finding: a leaf has fewer
_MOST_ENDS = 1024       # the same: only a lot may have more
_MOST_WORDS = 400
_ENDS_NAMED = 4
_Counts = tuple[int, int]


@dataclass(frozen=True)
class TouchedDevice:
    """A device at an end of what is wrong: a "switch" or "leaf" by name, or the "node" (without a name, as
    the finding has it). `links` it should have, or had before, and so many of them are `up`."""

    kind: str
    name: str
    links: int
    up: int


@dataclass(frozen=True)
class KeptFinding:
    """One thing that is wrong at one place. `plane` is its subnet's name; `place` its place in words;
    `nodes` those that it touches, with `parts` the PCI addresses and display names of their adapters there,
    and their `rails`. `gone` are switches to which the missing uplinks of a leaf lead. `where` says for
    people where the ends and the cable are."""

    rule: FabricRule
    kind: PlaceKind
    place: str
    plane: str
    severity: Severity
    owner: Owner
    observed: str
    expected: str = ""
    ends: tuple[FabricEnd, ...] = ()
    nodes: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    rails: tuple[int, ...] = ()
    leaf: str | None = None
    touched: tuple[TouchedDevice, ...] = ()
    gone: tuple[str, ...] = ()
    where: str = ""


def kept(findings: Iterable[FabricFinding], seen: Sequence[SeenSubnet],
         racks: Mapping[str, str] | None = None) -> list[KeptFinding]:
    """What is wrong in a report, one value for each rule and place: two fans of a switch are one. What is
    unknown is not among it. `racks` are those of nodes, by the inventory."""
    links = {one.subnet.name: _links(one) for one in seen}
    nodes = _of_nodes(seen, links)
    places = {one.subnet.name: _Places(one, racks or {}, links[one.subnet.name], nodes) for one in seen}
    together: dict[tuple[str, FabricRule, PlaceKind, str], list[FabricFinding]] = defaultdict(list)
    for one in findings:
        if not one.unknown:
            together[one.plane, one.rule, one.place.kind, one.place.name].append(one)
    return [_one(those, places.get(those[0].plane)) for those in together.values()]


def _one(those: Sequence[FabricFinding], places: _Places | None) -> KeptFinding:
    worst = min(those, key=lambda one: _WORST.index(one.severity))
    words = "; ".join(dict.fromkeys(one.observed for one in those))
    made = KeptFinding(worst.rule, worst.place.kind, worst.place.name, worst.plane, worst.severity,
                       worst.owner, words[:_MOST_WORDS], worst.expected,
                       tuple(dict.fromkeys(end for one in those for end in one.place.ends))[:_MOST_ENDS],
                       worst.place.nodes, leaf=worst.place.leaf)
    return places.around(made) if places is not None else made


class _Places:
    """What stands around the places of one subnet."""

    def __init__(self, seen: SeenSubnet, racks: Mapping[str, str], links: Mapping[str, _Counts],
                 nodes: Mapping[str, _Counts]) -> None:
        self._seen, self._racks, self._links, self._of_nodes = seen, racks, links, nodes
        self._absent: Mapping[str, KnownAdapter] = {one.guid: one for one in seen.joined.absent}

    def around(self, one: KeptFinding) -> KeptFinding:
        """The finding with what it touches."""
        gone: tuple[str, ...] = ()
        if one.rule is FabricRule.UPLINKS:
            down = self._lost_uplinks(one.place)
            gone = tuple(dict.fromkeys(other.device for _, other in down))
            one = replace(one, ends=tuple(self._seen.ends[end] for end, _ in down if end in self._seen.ends))
        elif one.kind is PlaceKind.PORT:
            one = replace(one, nodes=tuple(dict.fromkeys((*one.nodes, *self._nodes_at(one.ends)))))
        elif one.kind is PlaceKind.LINK:
            one = replace(one, nodes=tuple(dict.fromkeys((*one.nodes, *self._nodes(one.ends)))))
        elif one.kind in (PlaceKind.LEAF, PlaceKind.SWITCH):
            one = replace(one, nodes=self._behind(one.place, one.ends))
        cable = one.kind in (PlaceKind.LINK, PlaceKind.PORT)
        beyond = self._beyond(one.ends) if one.kind is PlaceKind.PORT else ()
        hosts = tuple(dict.fromkeys((*one.ends, *beyond))) if cable else ()
        known = [self._seen.joined.adapters[end.guid] for end in hosts
                 if end.guid in self._seen.joined.adapters]
        one = replace(one, nodes=one.nodes[:_MOST_NODES])
        if one.kind is PlaceKind.LOT:
            return one      # it is at no place of its own
        return replace(one, parts=tuple(dict.fromkeys(self._parts(hosts))),
                       rails=tuple(sorted({place.rail for place in known if place.rail is not None})),
                       gone=gone, touched=tuple(self._touched(one)), where="; ".join(self._where(one)))

    def _lost_uplinks(self, leaf: str) -> list[tuple[PlannedEnd, PlannedEnd]]:
        """The leaf's end and the other of each uplink that is not up."""
        found = [(end, other) for cable in self._seen.cables
                 for end, other in ((cable.a, cable.b), (cable.b, cable.a))
                 if end.device == leaf and not self._seen.is_host(other.device)]
        return [ends for ends in found if not any(_works(self._port(each)) for each in ends)]

    def _port(self, end: PlannedEnd) -> FabricPort | None:
        there = self._seen.ends.get(end)
        return self._seen.subnet.port(there) if there is not None else None

    def _nodes(self, ends: Iterable[FabricEnd]) -> Iterator[str]:
        """The nodes of adapters, also of those that the subnet shows no more."""
        for end in ends:
            node = self._seen.node_of(end)
            if node is None and end.guid in self._absent:
                node = self._absent[end.guid].node
            if node is not None:
                yield node

    def _nodes_at(self, ends: Iterable[FabricEnd]) -> Iterator[str]:
        """The nodes to which ports lead, and are to lead."""
        yield from self._nodes(self._beyond(ends))
        for end in ends:
            for host in self._planned_hosts(end):
                yield host.device

    def _beyond(self, ends: Iterable[FabricEnd]) -> Iterator[FabricEnd]:
        for end in ends:
            port = self._seen.subnet.port(end)
            if port is not None and port.peer is not None:
                yield port.peer

    def _planned_hosts(self, end: FabricEnd) -> Iterator[PlannedEnd]:
        """The hosts' ends of the cable that is planned at a port."""
        cable = self._seen.cable_at(end)
        for each in (cable.a, cable.b) if cable is not None else ():
            if self._seen.is_host(each.device):
                yield each

    def _behind(self, name: str, ends: Sequence[FabricEnd]) -> tuple[str, ...]:
        """The nodes that a switch leads to by a cable of their own, by the plan and by what is there."""
        found = {host.device for cable in self._seen.cables if name in (cable.a.device, cable.b.device)
                 for host in (cable.a, cable.b) if self._seen.is_host(host.device)}
        for guid in {end.guid for end in ends}:
            device = self._seen.subnet.devices.get(guid)
            if device is not None and device.kind is DeviceKind.SWITCH:
                found |= {node for port in device.ports.values() if port.peer is not None
                          and (node := self._seen.node_of(port.peer)) is not None}
        return tuple(sorted(found))

    def _parts(self, ends: Iterable[FabricEnd]) -> Iterator[str]:
        """What nodes call these adapters: PCI addresses and display names."""
        for end in ends:
            place = self._seen.joined.adapters.get(end.guid)
            absent = self._absent.get(end.guid)
            known = place if place is not None else absent
            if known is not None:
                yield from (word for word in (known.pci, known.device) if word)
            for host in self._planned_hosts(end):
                yield host.port.partition("/")[0]

    @cached_property
    def _planned_links(self) -> Mapping[str, int]:
        found: dict[str, int] = defaultdict(int)
        for cable in self._seen.cables:
            for end in (cable.a, cable.b):
                found[end.device] += 1
        return found

    def _touched(self, one: KeptFinding) -> Iterator[TouchedDevice]:
        """The switches at its ends, and the node where it is one alone."""
        for guid in dict.fromkeys(end.guid for end in one.ends):
            links, up = self._links.get(guid, (0, 0))
            if not self._is_switch(guid, links):
                continue
            name = self._name(guid)
            kind = "leaf" if guid in self._seen.leaves or self._tier(name) is Tier.LEAF else "switch"
            yield TouchedDevice(kind, name, max(links, self._planned_links.get(name, 0)), up)
        if len(one.nodes) == 1 and one.kind is not PlaceKind.LEAF:
            yield TouchedDevice("node", "", *self._of_nodes.get(one.nodes[0], (0, 0)))

    def _is_switch(self, guid: str, links: int) -> bool:
        """A device that is gone is taken for one if it had several links and is no known adapter."""
        device = self._seen.subnet.devices.get(guid)
        if device is None:
            return links > 1 and guid not in self._absent
        return device.kind is DeviceKind.SWITCH

    def _name(self, guid: str) -> str:
        """A switch by the plan's name, which places have, too, else as it calls itself."""
        device = self._seen.subnet.devices.get(guid)
        planned = next((name.device for number in (device.ports if device is not None else ())
                        if (name := self._seen.planned_name.get(FabricEnd(guid, number))) is not None), None)
        return planned or self._seen.device_name(guid)

    def _tier(self, name: str) -> Tier | None:
        plan = self._seen.plan
        return plan.devices[name].tier if plan is not None and name in plan.devices else None

    def _where(self, one: KeptFinding) -> Iterator[str]:
        """Each device with its rack, each port as it is printed, and the cable."""
        said: dict[str, str] = {}
        for end in one.ends[:_ENDS_NAMED]:
            name = self._seen.planned_name.get(end)
            device = self._name(end.guid) if name is None else name.device
            shown = self._seen.subnet.port(end)
            label = name.port if name is not None else shown.label if shown is not None else None
            port = f" port {label}" if label and end.number and not self._seen.is_host(device) \
                and self._seen.kind(end) is not DeviceKind.ADAPTER else ""
            if rack := self._rack(device, end):
                said.setdefault(f"{device}{port}", rack)
        if one.kind in (PlaceKind.SWITCH, PlaceKind.LEAF) and (rack := self._rack(one.place, None)):
            said.setdefault(one.place, rack)
        for node in one.nodes[:1] if one.kind in (PlaceKind.LINK, PlaceKind.PORT) else ():
            if rack := self._rack(node, None):
                said.setdefault(node, rack)
        yield from (f"{name}: {rack}" for name, rack in said.items())
        if one.kind in (PlaceKind.LINK, PlaceKind.PORT):
            yield from self._cable_words(one.ends)

    def _rack(self, name: str, end: FabricEnd | None) -> str:
        plan = self._seen.plan
        planned = plan.devices.get(name) if plan is not None else None
        node = next(self._nodes((end,)), None) if end is not None else None
        known = self._racks.get(name) or (self._racks.get(node) if node is not None else None)
        rack = known or (planned.rack if planned is not None else None)
        unit = f" U{planned.unit}" if planned is not None and planned.unit is not None else ""
        return f"rack {rack}{unit}" if rack else ""

    def _cable_words(self, ends: Sequence[FabricEnd]) -> Iterator[str]:
        """The cable by its serial number and length, by the plan, else as the ports read it."""
        modules = self._seen.subnet.modules
        stated = [(one.serial, one.metres) for end in ends
                  for one in (self._seen.cable_at(end), modules.get(end)) if one is not None]
        serial = next((serial for serial, _ in stated if serial), None)
        metres = next((metres for _, metres in stated if metres), None)
        words = [*((f"serial {serial}",) if serial else ()), *((f"{metres:g} m",) if metres else ())]
        if words:
            yield f"cable {', '.join(words)}"


def _links(seen: SeenSubnet) -> dict[str, _Counts]:
    """By GUID how many links a device has, or had at the earlier sample, and how many of them are up."""
    found: dict[str, set[FabricEnd]] = defaultdict(set)
    for link in seen.subnet.links | (seen.before.links if seen.before is not None else frozenset()):
        for end in (link.a, link.b):
            found[end.guid].add(end)
    return {guid: (len(ends), sum(_works(seen.subnet.port(end)) for end in ends))
            for guid, ends in found.items()}


def _of_nodes(seen: Sequence[SeenSubnet], links: Mapping[str, Mapping[str, _Counts]]) -> dict[str, _Counts]:
    """The same by node, over all subnets of the check."""
    found: dict[str, _Counts] = {}
    for one in seen:
        nodes = {**{each.guid: each.node for each in one.joined.absent},
                 **{guid: place.node for guid, place in one.joined.adapters.items()}}
        for guid, (many, up) in links[one.subnet.name].items():
            if (node := nodes.get(guid)) is not None:
                before = found.get(node, (0, 0))
                found[node] = (before[0] + many, before[1] + up)
    return found


def _works(port: FabricPort | None) -> bool:
    return port is not None and port.peer is not None and port.state is not LinkState.DOWN
