"""The planned name of each port that a subnet shows: by GUID, by its device's own name, last by its place."""

from __future__ import annotations

import re
import string
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

from healthcheck.subnet.byplace import ByPlace
from healthcheck.subnet.cabling import CablingPlan, PlannedEnd, Tier
from healthcheck.subnet.join import (
    AdapterPlace,
    FabricJoin,
    JoinedBy,
    any_case,
    described,
    labelled,
    system_name,
)
from healthcheck.subnet.model import DeviceKind, FabricDevice, FabricEnd, Subnet
from healthcheck.subnet.portlabel import number_of
from healthcheck.subnet.readers.toolwords import guid_of
from inventory.errors import UsageError
from inventory.nodeset import natural
from inventory.text import clean

_PLAIN = re.compile(r"[A-Za-z]{0,12}([0-9]{1,3})")
_LETTERS = string.ascii_letters + "_"


def other_guids(plan: CablingPlan, subnet: Subnet) -> Mapping[str, str]:
    """Switches with the name of a planned one of which the plan has another GUID: that by their own."""
    planned = {name: guid_of(device.guid) for name, device in plan.devices.items() if device.guid is not None}
    return {guid: known for guid, name in switch_names(plan, subnet).items()
            if (known := planned.get(name)) is not None and known != guid}


def switch_names(plan: CablingPlan, subnet: Subnet) -> Mapping[str, str]:
    """The planned name of each switch of a subnet, by GUID: by the GUID that the plan has, or by what the
    switch calls itself. A name that two switches of one subnet give is given to none."""
    by_guid = {guid: device.name for device in plan.devices.values()
               if device.guid is not None and (guid := guid_of(device.guid)) is not None}
    switches = [device for device in subnet.devices.values() if device.kind is DeviceKind.SWITCH]
    known = any_case({name for name, planned in plan.devices.items() if planned.tier is not Tier.HOST})
    said = {device.guid: next((known[name] for word in (
        device.description, system_name(device.description),
        *(device.description.partition(".")[:1] * subnet.ethernet))
        for name in (word, word.lower()) if name in known), None) for device in switches}
    fixed = {device.guid: by_guid[device.guid] for device in switches if device.guid in by_guid}
    times = Counter(name for guid, name in said.items() if guid not in fixed)
    return {**{guid: name for guid, name in said.items()
               if name is not None and times[name] == 1 and name not in fixed.values()}, **fixed}


@dataclass(frozen=True)
class PlannedNames:
    """The planned name of each port of a subnet that has one: `said` by GUID, by what the device calls itself
    and by the switch's port number, `placed` by nothing but what it is joined to (`byplace`). Of those in
    `of_host` the host is known, and which of its adapters it is is not."""

    said: Mapping[FabricEnd, PlannedEnd] = field(default_factory=lambda: MappingProxyType({}))
    placed: Mapping[FabricEnd, PlannedEnd] = field(default_factory=lambda: MappingProxyType({}))
    of_host: frozenset[FabricEnd] = frozenset()

    @property
    def all(self) -> Mapping[FabricEnd, PlannedEnd]:
        """Either."""
        return {**self.said, **self.placed}


def names_of(plan: CablingPlan, subnet: Subnet, joined: FabricJoin) -> PlannedNames:
    """The planned names of a subnet's ports: of a switch's port the plan's word, else its number; of a host's
    the adapter by PCI address or display name, whichever the plan uses; with neither, what its place says. A
    description that several adapters give is none's. UsageError where a planned port's number of an
    InfiniBand switch cannot be read."""
    words = _PortWords(plan)
    switches = switch_names(plan, subnet)
    planned_hosts = any_case({name for name, planned in plan.devices.items() if planned.tier is Tier.HOST})
    said: dict[FabricEnd, PlannedEnd] = {}
    hosts: dict[FabricEnd, str | None] = {}
    claims: dict[PlannedEnd, list[FabricEnd]] = defaultdict(list)
    for device in subnet.devices.values():
        if device.kind is DeviceKind.SWITCH:
            if (name := switches.get(device.guid)) is not None:
                said.update(words.of_switch(device, name, ethernet=subnet.ethernet))
            continue
        place = joined.adapters.get(device.guid) or _by_plan(device, planned_hosts)
        for port in device.ports.values():
            name_of_port = words.of_adapter(place, port.end.number) if place is not None else None
            if name_of_port is None:
                hosts[port.end] = place.node if place is not None else None
            else:
                said[port.end] = name_of_port
                claims[name_of_port].append(port.end)
    for end in [one for ends in claims.values() if len({end.guid for end in ends}) > 1 for one in ends]:
        place = joined.adapters.get(end.guid)
        if place is None or place.by is not JoinedBy.GUID:
            del said[end]
            hosts[end] = None
    placed = ByPlace(plan, subnet, said, hosts, partial(words.of_switch, ethernet=subnet.ethernet)).find()
    return PlannedNames(said, placed, frozenset(end for end in placed if hosts.get(end) is not None))


class _PortWords:
    """The words that a plan has for ports."""

    def __init__(self, plan: CablingPlan) -> None:
        self._plan = plan
        self._words: dict[str, set[str]] = defaultdict(set)
        self._numbers: dict[str, dict[int, str]] = defaultdict(dict)
        for end in (end for cable in plan.cables for end in (cable.a, cable.b)):
            self._words[end.device].add(end.port)
            if plan.devices[end.device].tier is not Tier.HOST and (number := number_of(end.port)) is not None:
                self._numbers[end.device].setdefault(number, end.port)

    def of_switch(self, device: FabricDevice, name: str, *, ethernet: bool) -> Mapping[FabricEnd, PlannedEnd]:
        """The ports of a switch, as the planned one of this name."""
        words, labels = self._words[name], {port.label for port in device.ports.values()}
        odd = [] if ethernet else [word for word in words if number_of(word) is None and word not in labels]
        if odd:
            raise UsageError(f"{clean(name)} port {clean(min(odd, key=natural))}: no port number can be read "
                             "from its label; expected one such as 12, 1/12 or 1/12/2")
        found = {}
        for port in device.ports.values():
            word = port.label if port.label in words else None
            if word is None and ethernet:
                # "Ethernet2/1" and "Management1" are other ports than "Ethernet1/1" and "Ethernet1".
                plain = _PLAIN.fullmatch(port.label or "")
                word = plain[1] if plain is not None and plain[1] in words else None
            elif word is None:
                word = self._numbers[name].get(port.end.number)
            found[port.end] = PlannedEnd(name, word or port.label or str(port.end.number))
        return found

    def of_adapter(self, place: AdapterPlace, number: int) -> PlannedEnd | None:
        """A port of an adapter; None where the plan names this host's adapters in another form."""
        known = [word for word in (place.pci, place.device) if word is not None]
        planned = self._words.get(place.node, set())
        choices = (*(f"{one}/{number}" for one in known), *known)
        word = next((one for one in choices if one in planned), None)
        other_form = planned and not set(map(_form, planned)) & set(map(_form, known))
        if word is None and (not known or other_form):
            return None
        return PlannedEnd(place.node, word or known[-1])


def _form(word: str) -> str:
    """In which way a host's port is named: by PCI address, or by the letters that its name begins with."""
    return ":" if ":" in word else word[: len(word) - len(word.lstrip(_LETTERS))].lower()


def _by_plan(device: FabricDevice, hosts: Mapping[str, str]) -> AdapterPlace | None:
    """A host of the plan that the inventory does not know, by the adapter's description."""
    node, shown = described(device, hosts)
    return (AdapterPlace(node, JoinedBy.DESCRIPTION, labelled(device), shown or None) if node is not None
            else None)
