"""A cabling plan as the topology file that ibnetdiscover prints and ibsim reads (linux-rdma/ibsim,
ibsim/sim_net.c, `parse_port_connection_data`; rdma-core, infiniband-diags/ibnetdiscover.c).

A switch has the number of ports of its tier; each adapter of a host is a channel adapter of its own, named
"host adapter" as drivers name them, whose port is 1 or what stands behind a slash ("mlx5_0/2").
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from healthcheck.subnet.cabling import CablingPlan, PlannedCable, PlannedEnd, Tier
from healthcheck.subnet.plancheck import named
from healthcheck.subnet.portlabel import number_of
from inventory.errors import UsageError

_OURS = 0x0200_0000_0000_0000  # the bit of a locally administered EUI-64 (IEEE, "Guidelines for EUI")


@dataclass
class _Block:
    """One node of the file: its id, and per port the other end with what stands behind the comment sign."""

    id: str
    name: str
    guid: str
    switch: bool
    ports: dict[int, tuple[str, int, str, str]] = field(default_factory=dict)


def guid_of(name: str) -> str:
    """A node GUID for a device without one: made of its name, the same each time."""
    number = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=7).digest(), "big") << 8
    return f"{number & 0x00FF_FFFF_FFFF_FF00 | _OURS:016x}"


def topology(plan: CablingPlan, radix: int | None = None, plane: str | None = None) -> str:
    """The file of a plane's subnet (None: of all cables). `radix` is how many ports switches have; None: the
    highest number that the plan uses. UsageError for a switch port whose number its label does not show."""
    cables = [cable for cable in plan.cables if plane is None or cable.plane == plane]
    blocks: dict[str, _Block] = {}
    lids: dict[str, int] = {}
    for cable in cables:
        (one, at), (other, to) = (_place(plan, end, blocks, lids) for end in (cable.a, cable.b))
        rate = _rate(cable)
        one.ports[at] = (other.id, to, other.name, rate)
        other.ports[to] = (one.id, at, one.name, rate)
    most = radix or max((number for block in blocks.values() if block.switch for number in block.ports),
                        default=1)
    lines = ["# Topology of the plan: muster fabric plan --format topology"]
    for block in sorted(blocks.values(), key=lambda block: block.switch):
        lines += ["", *_lines(block, most, lids)]
    return "\n".join(lines) + "\n"


def _place(plan: CablingPlan, end: PlannedEnd, blocks: dict[str, _Block],
           lids: dict[str, int]) -> tuple[_Block, int]:
    """The block of an end, made where it is new, and the number of its port."""
    device = plan.devices.get(end.device)
    if device is not None and device.tier is Tier.HOST:
        adapter, _, port = end.port.partition("/")
        name, number = f"{end.device} {adapter}", int(port) if port.isascii() and port.isdigit() else 1
    else:
        found = number_of(end.port)
        if found is None:
            raise UsageError(f"{named(end)}: no port number can be read from its label; expected one such as "
                             "12, 1/12 or 1/12/2")
        name, number = end.device, found
    if name not in blocks:
        switch = name == end.device
        guid = device.guid if device is not None and device.guid and switch else guid_of(name)
        blocks[name] = _Block(f"{'S' if switch else 'H'}-{guid}", name, guid, switch)
        lids[blocks[name].id] = len(lids) + 1
    return blocks[name], number


def _rate(cable: PlannedCable) -> str:
    return f"{cable.width or 4}x{cable.speed or 'HDR'}"


def _lines(block: _Block, radix: int, lids: Mapping[str, int]) -> list[str]:
    lid = lids[block.id]
    if block.switch:
        lines = [f"switchguid=0x{block.guid}({block.guid})",
                 f'Switch\t{max(radix, *block.ports)} "{block.id}"\t\t# "{block.name}" '
                 f"enhanced port 0 lid {lid} lmc 0"]
    else:
        lines = [f"caguid=0x{block.guid}", f'Ca\t{max(block.ports)} "{block.id}"\t\t# "{block.name}"']
    for number, (other, to, name, rate) in sorted(block.ports.items()):
        lines.append(
            f'[{number}]\t"{other}"[{to}]{_port_guid(other, to)} \t\t# "{name}" lid {lids[other]} {rate}'
            if block.switch else
            f'[{number}]({_number(block.guid, number)}) \t"{other}"[{to}]\t\t# lid {lid} lmc 0 "{name}" '
            f"lid {lids[other]} {rate}")
    return lines


def _port_guid(other: str, port: int) -> str:
    """ibnetdiscover gives the port GUID of an adapter only."""
    return f"({_number(other[2:], port)})" if other.startswith("H") else ""


def _number(guid: str, port: int) -> str:
    """ibsim gives port n of an adapter its node GUID and n."""
    return f"{int(guid, 16) + port:016x}"


def ports_of(plan: CablingPlan) -> Mapping[str, tuple[PlannedEnd, ...]]:
    """The planned ports of each device, in the plan's order."""
    found: dict[str, list[PlannedEnd]] = defaultdict(list)
    for cable in plan.cables:
        found[cable.a.device].append(cable.a)
        found[cable.b.device].append(cable.b)
    return {name: tuple(ends) for name, ends in found.items()}
