"""Ethernet interfaces of PCI devices, and bonds of them.

Files of /sys/class/net: Documentation/ABI/testing/sysfs-class-net; flags: include/uapi/linux/if.h. Counts of all interfaces are in
/proc/net/dev (net/core/net-procfs.c). /proc/net/bonding: Documentation/networking/bonding.rst and drivers/net/bonding/bond_procfs.c.
The kernel shows what LACP agreed on to CAP_NET_ADMIN only, so root reads these files once more.
An interface that belongs to no PCI device (a bridge, one of a container) is nobody's hardware, and a virtual function is none either.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from healthcheck.facts.base import Captures, fact, part
from healthcheck.facts.files import Files
from healthcheck.facts.port import count, device_id, slot
from healthcheck.facts.text import of_paths
from healthcheck.facts.values import UNSUPPORTED, Fact, Unmeasured, made
from healthcheck.probes import MIB, Kind, Probe

BASE = "/sys/class/net"
_BONDING = "/proc/net/bonding"
_COUNTS = "/proc/net/dev"
# Few and cheap: on a node with many containers each file is looked for once for each of their interfaces.
_NAMES = ("device/uevent", "device/physfn/uevent", "type", "flags", "operstate", "speed", "duplex", "mtu", "carrier_up_count",
          "carrier_down_count")
NETDEV = Probe(
    "netdev.sysfs", Kind.FILES, limit=1 * MIB, paths=(_COUNTS, f"{_BONDING}/*", *(f"{BASE}/*/{name}" for name in _NAMES)),
)
LACP = Probe("netdev.lacp", Kind.FILES, root=True, paths=(f"{_BONDING}/*",))
_ETHERNET = "1"     # ARPHRD_ETHER
_UP = 0x1           # IFF_UP
NONE = "Ethernet interfaces"


@dataclass(frozen=True)
class NetDev(Fact):
    """One Ethernet interface of a PCI device: "eth0 (0000:0b:00.0)". `kind` is its PCI vendor and device; `bond` is empty if it is in none.

    `up` says that it was set up (IFF_UP), `link` that it has one; `link` is UNSUPPORTED where the driver does not tell, `mbps` and `duplex`
    also where there is no link. `ups` and `downs` count changes of the link since the driver was loaded. `rx_frame` counts frames that were
    damaged on the wire (CRC, alignment, length), and is a part of `rx_errors`. A node without any has one of which nothing is supported.
    """

    name: str
    interface: str
    pci: str
    kind: str
    bond: str
    up: bool
    link: bool
    mbps: int
    duplex: str
    mtu: int
    ups: int
    downs: int
    rx_packets: int
    rx_errors: int
    rx_drops: int
    rx_frame: int
    tx_errors: int


@dataclass(frozen=True)
class Slave:
    """An interface in a bond. `aggregator` and the churn states are empty where the mode is not 802.3ad."""

    interface: str
    up: bool
    aggregator: str
    churn: tuple[str, ...]


@dataclass(frozen=True)
class Bond(Fact):
    """One bond. `partner` is the switch's LACP address of an 802.3ad bond as root sees it; in other modes there is none.

    `active` is the aggregator that carries traffic, empty where none does. A node without bonds has one of which nothing is supported.
    """

    name: str
    mode: str
    up: bool
    lacp: bool
    partner: str
    active: str
    slaves: tuple[Slave, ...]


def _link(text: str) -> Any:
    """RFC 2863's words; 'unknown' is what drivers say that do not tell."""
    if text not in ("up", "down", "unknown", "dormant", "lowerlayerdown", "notpresent", "testing"):
        raise ValueError(text)
    return UNSUPPORTED if text == "unknown" else text in ("up", "dormant")


def _mbps(text: str) -> Any:
    """-1 is unknown, and so is its unsigned form of older kernels."""
    if text in ("-1", "4294967295"):
        return UNSUPPORTED
    return count(text)


def _duplex(text: str) -> Any:
    if text not in ("full", "half", "unknown"):
        raise ValueError(text)
    return UNSUPPORTED if text == "unknown" else text


def _flags(text: str) -> bool:
    if not re.fullmatch(r"0x[0-9a-fA-F]{1,8}", text):
        raise ValueError(text)
    return bool(int(text, 16) & _UP)


def parse_counts(text: str) -> Mapping[str, list[str]]:
    """/proc/net/dev by interface, each a number: received bytes, packets, errs, drop, fifo, frame, compressed, multicast, and eight of sent
    ones."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, colon, rest = line.rpartition(":")
        if not colon:
            continue
        words = rest.split()
        if len(words) != 16 or not "".join(words).isdecimal() or max(map(len, words)) > 20:
            raise ValueError(line)
        found[name.strip()] = words
    return found


def _unlinked(files: Files, path: str, parse: Any) -> Any:
    """A file that a kernel or driver may lack, or that says EINVAL without a link."""
    if not files.has(path):
        return UNSUPPORTED
    value = files.read(path, parse)
    return UNSUPPORTED if isinstance(value, Unmeasured) and value.reason.endswith("(EINVAL)") else value


@fact("netdevs", NETDEV)
def netdevs(captures: Captures) -> tuple[NetDev, ...]:
    """Every Ethernet interface of a PCI device that is no virtual function, by name."""
    files = captures.files(NETDEV)
    files.must(*_folders(files, BASE, _BONDING))
    members = _members(captures.once(_in_netdev))
    counts = files.read(_COUNTS, parse_counts)
    devices = files.but(_is_no_device, _devices, files.found(_names))
    return tuple([_netdev(known["interface"], known, members, counts) for known in devices]) or (_nothing(),)


def _is_no_device(path: str) -> bool:
    """Whether this is a file of no one interface."""
    return not path.startswith(f"{BASE}/")


def _devices(files: Files, names: list[str]) -> list[dict[str, Any]]:
    return [known for name in names if (known := files.alike(_paths(name), _device, name)) is not None]


@of_paths(most=16)
def _names(paths: tuple[str, ...]) -> list[str]:
    return sorted({path[len(BASE) + 1:].partition("/")[0] for path in paths if path.startswith(f"{BASE}/")})


@lru_cache(maxsize=1024)
def _paths(name: str) -> tuple[str, ...]:
    return tuple(f"{BASE}/{name}/{file}" for file in _NAMES)


def _netdev(name: str, known: Mapping[str, Any], members: Mapping[str, str] | Unmeasured, counts: Any) -> NetDev:
    row: Any = counts if isinstance(counts, Unmeasured) else counts.get(name, Unmeasured(f"{_COUNTS} has no {name}"))
    bond: Any = members if isinstance(members, Unmeasured) else members.get(name, "")
    return made(NetDev, {
        **known, "bond": bond, **{field: row if isinstance(row, Unmeasured) else int(row[place]) for field, place in _COLUMNS},
    })


_COLUMNS = (("rx_packets", 1), ("rx_errors", 2), ("rx_drops", 3), ("rx_frame", 5), ("tx_errors", 10))


def _device(files: Files, name: str) -> dict[str, Any] | None:
    """What an interface is and how it is linked; None where it is not one of Ethernet and of a PCI device of its own."""
    at = f"{BASE}/{name}"
    device = f"{at}/device/uevent"
    if not files.has(device) or files.has(f"{at}/device/physfn/uevent"):
        return None
    pci = files.read(device, slot)
    said = files.read(device, str)
    if isinstance(said, str) and "PCI_SLOT_NAME=" not in said:
        return None
    kind = files.read(f"{at}/type", str)
    if kind != _ETHERNET and not isinstance(kind, Unmeasured):
        return None
    return {
        "name": f"{name} ({pci})" if isinstance(pci, str) else name,
        "interface": name, "pci": pci,
        "kind": files.read(device, device_id),
        "up": files.read(f"{at}/flags", _flags),
        "link": files.read(f"{at}/operstate", _link),
        "mbps": _unlinked(files, f"{at}/speed", _mbps),
        "duplex": _unlinked(files, f"{at}/duplex", _duplex),
        "mtu": files.read(f"{at}/mtu", count),
        "ups": _unlinked(files, f"{at}/carrier_up_count", count),
        "downs": _unlinked(files, f"{at}/carrier_down_count", count),
    }


def _nothing() -> NetDev:
    no: Any = UNSUPPORTED
    return NetDev(NONE, *(no,) * 16)


def _members(found: tuple[Bond, ...]) -> Mapping[str, str] | Unmeasured:
    """The bond that each interface is in, by the interface's name."""
    members: dict[str, str] = {}
    for bond in found:
        if isinstance(bond.slaves, Unmeasured):
            return bond.slaves
        members.update({slave.interface: bond.name for slave in bond.slaves})
    return members


@part(NETDEV)
def _in_netdev(captures: Captures) -> tuple[Bond, ...]:
    """The bonds of which anybody may read, those there are."""
    return _each_bond(captures.files(NETDEV))


@fact("bonds", NETDEV)
def bonds(captures: Captures) -> tuple[Bond, ...]:
    """Every bond, by name."""
    files = captures.files(NETDEV)
    files.must(*_folders(files, _BONDING))
    return captures.once(_in_netdev) or _no_bonds()


@fact("lacp_bonds", LACP)
def lacp_bonds(captures: Captures) -> tuple[Bond, ...]:
    """Every bond, by name, as root sees it."""
    files = captures.files(LACP)
    files.must(*_folders(files, _BONDING))
    return _each_bond(files) or _no_bonds()


def _folders(files: Files, *paths: str) -> list[str]:
    """Those that have an entry of their own: they could not be listed."""
    return [path for path in paths if files.has(path)]


def _each_bond(files: Files) -> tuple[Bond, ...]:
    return tuple([_read_bond(files, path) for path in sorted(files.found(_bonds_in))])


def _no_bonds() -> tuple[Bond, ...]:
    no: Any = UNSUPPORTED
    return (Bond("bonds", *(no,) * 6),)


@of_paths(most=16)
def _bonds_in(paths: tuple[str, ...]) -> list[str]:
    return [path for path in paths if path.startswith(f"{_BONDING}/")]


def _read_bond(files: Files, path: str) -> Bond:
    name = path.rpartition("/")[2]
    said = files.read(path, lambda text: parse_bond(name, text))
    bond: Bond = Bond(name, *(said,) * 6) if isinstance(said, Unmeasured) else said  # type: ignore[arg-type]
    return bond


NO_PARTNER = "00:00:00:00:00:00"
_NO_AGGREGATOR = re.compile(r"(?m)^bond \S{1,64} has no active aggregator$")


# Which nothing is made of, and which differs from node to node.
_ADDRESS = re.compile(r"(?m)^Permanent HW addr: [0-9a-f:]{0,60}\n")


def parse_bond(name: str, text: str) -> Bond:
    """One file of /proc/net/bonding; raises ValueError for what is none, and for one that is cut."""
    return _parse_bond(name, _ADDRESS.sub("", text)) if len(text) <= _LONGEST else _parse_bond.__wrapped__(name, text)


_LONGEST = 16 * 1024


@lru_cache(maxsize=256)
def _parse_bond(name: str, text: str) -> Bond:
    head, *parts = re.split(r"(?m)^Slave Interface: ", text)
    top = _pairs(head)
    mode = top["Bonding Mode"]
    lacp = "802.3ad" in mode
    partner: Any = UNSUPPORTED
    active: Any = UNSUPPORTED
    if lacp:
        hidden = Unmeasured(f"what {_BONDING}/{name} says of LACP needs root (CAP_NET_ADMIN)")
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
        slaves.append(Slave(interface.strip(), _mii(pairs["MII Status"]), pairs.get("Aggregator ID", ""), churn))
    return Bond(name, mode, _mii(top["MII Status"]), lacp, partner, active, tuple(slaves))


def _mii(text: str) -> bool:
    """bond_slave_link_status() of the driver; a link that comes or goes is not one yet."""
    if text not in ("up", "down", "going down", "going back"):
        raise ValueError(text)
    return text in ("up", "going down")


def _pairs(text: str) -> dict[str, str]:
    """The first value of each key: below it stand those of LACP's units, under headings."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            found.setdefault(key.strip(), value.strip())
    return found
