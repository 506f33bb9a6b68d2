"""Bonds of Ethernet interfaces.

/proc/net/bonding: Documentation/networking/bonding.rst and drivers/net/bonding/bond_procfs.c. The kernel
shows what LACP agreed on to CAP_NET_ADMIN only, so root reads these files once more (`LACP`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from healthcheck.facts.files import CapturedFiles
from healthcheck.facts.parsing import one_of
from healthcheck.facts.values import UNSUPPORTED, Fact, Unmeasured
from healthcheck.model.probes import Probe, ProbeKind

BONDING = "/proc/net/bonding"
LACP = Probe("netdev.lacp", ProbeKind.FILES, root=True, paths=(f"{BONDING}/*",))
NO_PARTNER = "00:00:00:00:00:00"
_SLAVE = re.compile(r"(?m)^Slave Interface: ")
_NO_AGGREGATOR = re.compile(r"(?m)^bond \S{1,64} has no active aggregator$")

class Slave(NamedTuple):
    """An interface in a bond. `aggregator` and the churn states are empty where the mode is not 802.3ad."""

    interface: str
    up: bool
    aggregator: str
    churn: tuple[str, ...]


class Bond(Fact):
    """One bond. `partner` is the switch's LACP address of an 802.3ad bond as root sees it; in other modes
    there is none.

    `active` is the aggregator that carries traffic, empty where none does. A node without bonds has one
    entry, all UNSUPPORTED.
    """

    name: str
    mode: str
    up: bool
    lacp: bool
    partner: str
    active: str
    slaves: tuple[Slave, ...]


def unlisted(files: CapturedFiles, *paths: str) -> list[str]:
    """The folders that have an entry of their own, which means that they could not be listed."""
    return [path for path in paths if files.has(path)]


def members_of(found: Iterable[tuple[str, Bond | Unmeasured]]) -> Mapping[str, str] | Unmeasured:
    """The bond that each interface is in, by the interface's name."""
    members: dict[str, str] = {}
    for name, read in found:
        if isinstance(read, Unmeasured):
            return read
        members.update({slave.interface: name for slave in read.slaves})
    return members


def each_bond(found: Iterable[tuple[str, Bond | Unmeasured]]) -> tuple[Bond, ...]:
    """The bonds; one entry, all UNSUPPORTED, where there is none."""
    bonds = [Bond.absent(name, read) if isinstance(read, Unmeasured) else read for name, read in found]
    return tuple(bonds) or (Bond.absent("bonds"),)


def read_bonds(files: CapturedFiles) -> list[tuple[str, Bond | Unmeasured]]:
    """Every bond by name, with what was read of it."""
    found = [(path.rpartition("/")[2], path) for path in sorted(files) if path.startswith(f"{BONDING}/")]
    return [(name, files.read(path, partial(parse_bond, name))) for name, path in found]


def parse_bond(name: str, text: str) -> Bond:
    """One file of /proc/net/bonding; raises ValueError for another format and for a truncated file."""
    head, *parts = _SLAVE.split(text)
    top = _pairs(head)
    mode = top["Bonding Mode"]
    lacp = "802.3ad" in mode
    partner: Any = UNSUPPORTED
    active: Any = UNSUPPORTED
    if lacp:
        hidden = Unmeasured(f"what {BONDING}/{name} says of LACP needs root (CAP_NET_ADMIN)")
        partner, active = top.get("Partner Mac Address", hidden), top.get("Aggregator ID", hidden)
        if _NO_AGGREGATOR.search(head):
            partner, active = NO_PARTNER, ""
    slaves = []
    for slave in parts:
        interface, _, rest = slave.partition("\n")
        pairs = _pairs(rest)
        churn = tuple(pairs[key] for key in ("Actor Churn State", "Partner Churn State") if key in pairs)
        if "Slave queue ID" not in pairs:
            raise ValueError(interface)
        slaves.append(Slave(interface.strip(), _mii(pairs["MII Status"]),
                            pairs["Aggregator ID"] if lacp else "", churn))
    return Bond(name, mode, _mii(top["MII Status"]), lacp, partner, active, tuple(slaves))


def _mii(text: str) -> bool:
    """bond_slave_link_status() of the driver; a link that comes or goes is not one yet."""
    return one_of(("up", "down", "going down", "going back"), text) in ("up", "going down")


def _pairs(text: str) -> dict[str, str]:
    """The first value of each key: below it stand those of LACP's units, under headings."""
    return {key.strip(): value.strip() for line in reversed(text.splitlines())
            for key, colon, value in (line.partition(":"),) if colon}
