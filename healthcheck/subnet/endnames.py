"""Which end of a subnet is which port of the plan: by GUID where it is known, else by the names that devices
give themselves.

A switch calls itself by its name, or as NVIDIA's managed switches do "MF0;leaf01:MQM9700/U1"; a host's
adapter "gpu001 mlx5_0" (rdma-ndd of rdma-core, whose default is "%h %d").
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from healthcheck.subnet.cabling import CablingPlan, PlannedDevice, PlannedEnd, Tier
from healthcheck.subnet.model import DeviceKind, FabricDevice, FabricEnd, Subnet
from healthcheck.subnet.portlabel import label_of, number_of
from inventory.text import clean

_MANAGED = re.compile(r"MF\d+;([^:;]{1,100}):[^/]{1,40}/[A-Z]\d+(?:/[A-Z]\d+)?")
_ADAPTER = re.compile(r"(\S{1,100}) ([A-Za-z0-9_.:-]{1,60})")

Adapters = Mapping[str, tuple[str, str]]


@dataclass(frozen=True)
class EndNames:
    """The planned name of each end that could be named, and a line for each device that could not, or whose
    name several have."""

    names: Mapping[FabricEnd, PlannedEnd]
    notes: tuple[str, ...] = ()


def end_names(plan: CablingPlan, subnets: Sequence[Subnet], adapters: Adapters | None = None) -> EndNames:
    """The names of all ends. `adapters` has by node GUID a host and the PCI address of its adapter, as nodes
    were asked: it goes before what adapters call themselves. A device that the plan does not have keeps the
    name that it calls itself."""
    naming = _Naming(plan, adapters or {})
    names: dict[FabricEnd, PlannedEnd] = {}
    calling: dict[str, set[str]] = defaultdict(set)
    for subnet in subnets:
        for device in subnet.devices.values():
            name = naming.name(device)
            if name is not None:
                calling[" ".join(name)].add(device.guid)
            for number in {*device.ports, *range(1, (device.port_count or 0) + 1)} - {0}:
                if name is not None:
                    names[FabricEnd(device.guid, number)] = naming.end(device, name, number)
    several = {name: guids for name, guids in calling.items() if len(guids) > 1}
    taken = {guid for guids in several.values() for guid in guids}
    notes = [
        f"{clean(name)}: {len(guids)} devices call themselves so ({', '.join(sorted(guids)[:4])}); none of "
        "them is taken for it"
        for name, guids in sorted(several.items())
    ]
    return EndNames({end: name for end, name in names.items() if end.guid not in taken}, tuple(notes))


class _Naming:
    """Names of devices, and of ports as the plan spells them."""

    def __init__(self, plan: CablingPlan, adapters: Adapters) -> None:
        self._adapters = adapters
        self._by_guid = {device.guid: device for device in plan.devices.values() if device.guid is not None}
        self._by_name = {device.name.lower(): device for device in plan.devices.values()}
        self._ports: dict[str, set[str]] = defaultdict(set)
        self._labels: dict[str, dict[int, str]] = defaultdict(dict)
        cages: Counter[bool] = Counter()
        for cable in plan.cables:
            for end in (cable.a, cable.b):
                self._ports[end.device].add(end.port)
                if (
                    plan.devices[end.device].tier is not Tier.HOST
                    and (number := number_of(end.port)) is not None
                ):
                    self._labels[end.device][number] = end.port
                    cages[end.port.count("/") > 1] += 1
        self._in_a_cage = 2 if cages[True] > cages[False] else 1

    def name(self, device: FabricDevice) -> tuple[str, str] | None:
        """The device's name and, of an adapter, that of the adapter; None where nothing shows it."""
        if device.kind is not DeviceKind.ADAPTER:
            known = self._by_guid.get(device.guid)
            called = _MANAGED.fullmatch(device.description)
            text = called[1] if called is not None else device.description.strip()
            return (known.name if known is not None else self._planned(text), "") if known or text else None
        if (asked := self._adapters.get(device.guid)) is not None:
            host, pci = self._planned(asked[0]), asked[1]
            described = _ADAPTER.fullmatch(device.description)
            planned = self._ports.get(host, set())
            if (
                pci in planned
                or described is None
                or not any(port.partition("/")[0] == described[2] for port in planned)
            ):
                return host, pci
            return host, described[2]
        described = _ADAPTER.fullmatch(device.description)
        return (self._host(described[1]), described[2]) if described is not None else None

    def end(self, device: FabricDevice, name: tuple[str, str], number: int) -> PlannedEnd:
        """One of its ports. The plan names the first port of an adapter with or without "/1"."""
        owner, adapter = name
        if not adapter:
            label = self._labels[owner].get(number) if owner in self._labels else None
            return PlannedEnd(owner, label or label_of(number, self._in_a_cage))
        numbered = f"{adapter}/{number}"
        plain = number == 1 and numbered not in self._ports.get(owner, ())
        return PlannedEnd(owner, adapter if plain else numbered)

    def _planned(self, text: str) -> str:
        """A name as the plan spells it."""
        known: PlannedDevice | None = self._by_name.get(text.lower())
        return known.name if known is not None else clean(text, 127)

    def _host(self, text: str) -> str:
        """A host by its full name, or by the first part of it."""
        whole = self._planned(text)
        return whole if whole.lower() in self._by_name else self._planned(text.partition(".")[0])
