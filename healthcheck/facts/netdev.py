"""Ethernet interfaces of PCI devices and of a cloud's virtual machines, and which bond or team each is in.

Files of /sys/class/net: Documentation/ABI/testing/sysfs-class-net; flags: include/uapi/linux/if.h. Counts of
all interfaces are in /proc/net/dev (net/core/net-procfs.c). Interfaces of Hyper-V (hv_netvsc, on the VMBus)
and virtio have a driver and no PCI address of their own. Any other interface without a PCI device (a bridge,
one of a container) and a virtual function are no hardware, and left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from operator import itemgetter
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.bond import BONDING, LACP, Bond, each_bond, members_of, read_bonds, unlisted
from healthcheck.facts.files import CapturedFiles
from healthcheck.facts.gpu import uevent
from healthcheck.facts.parsing import hexadecimal, one_of, whole, wholes
from healthcheck.facts.port import BASE as RDMA
from healthcheck.facts.port import SYSFS, card, device_id, is_lag, pci_of, slot
from healthcheck.facts.team import TEAMD, read_teams
from healthcheck.facts.values import UNSUPPORTED, Fact, Unmeasured, Unread, Unsupported, reading
from healthcheck.model.probes import MIB, Probe, ProbeKind

BASE = "/sys/class/net"
_COUNTS = "/proc/net/dev"
# Few and cheap: on a node with many containers each file is read for each of their interfaces.
_NAMES = ("device/uevent", "device/physfn/uevent", "type", "flags", "operstate", "speed", "duplex", "mtu",
          "carrier_up_count", "carrier_down_count")
NETDEV = Probe(
    "netdev.sysfs", ProbeKind.FILES, limit=1 * MIB,
    paths=(_COUNTS, f"{BONDING}/*", *(f"{BASE}/*/{name}" for name in _NAMES)),
)
_ETHERNET = 1     # ARPHRD_ETHER
_UP = 0x1           # IFF_UP
NONE = "Ethernet interfaces"


# In a virtual machine: their `device` is one of the VMBus or of virtio (uevent of drivers/hv/vmbus_drv.c and
# drivers/virtio/virtio.c), which has no PCI_SLOT_NAME.
VIRTUAL_DRIVERS = ("hv_netvsc", "virtio_net")


class NetDev(Fact):
    """One Ethernet interface of a PCI device, "eth0 (0000:0b:00.0)", or of a virtual machine, "eth0
    (hv_netvsc)", whose `pci` is empty. `kind` is its PCI vendor and device, or that driver; `driver` is empty
    where none is bound, and `bond` if it is in none. `place` is what interfaces of equal nodes share.

    `up`: it was set up (IFF_UP); `link`: it has a link. `link` is UNSUPPORTED where the driver does not
    report it, `mbps` and `duplex` also where there is no link. `ups` and `downs` count changes of the link
    since the driver was loaded. `rx_frame` counts frames that were damaged on the wire (CRC, alignment,
    length), a part of `rx_errors`. A node without any has one entry, all UNSUPPORTED.
    """

    IDENTITY = ("pci", "interface")

    name: str
    interface: str
    pci: str
    place: str
    kind: str
    driver: str
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


def _link(text: str) -> Any:
    """RFC 2863's words; 'unknown' where the driver does not report it."""
    one_of(("up", "down", "unknown", "dormant", "lowerlayerdown", "notpresent", "testing"), text)
    return UNSUPPORTED if text == "unknown" else text in ("up", "dormant")


def _mbps(text: str) -> Any:
    """-1 is unknown, and so is the same as an unsigned number of older kernels."""
    return UNSUPPORTED if text in ("-1", "4294967295") else whole(text)


def _duplex(text: str) -> Any:
    return UNSUPPORTED if text == "unknown" else one_of(("full", "half"), text)


def parse_counts(text: str) -> Mapping[str, list[int]]:
    """/proc/net/dev by interface: received bytes, packets, errs, drop, fifo, frame, compressed, multicast,
    and eight of sent ones."""
    found: dict[str, list[int]] = {}
    for line in text.splitlines():
        name, colon, rest = line.rpartition(":")
        if not colon:
            continue
        words = rest.split()
        if len(words) != 16:
            raise ValueError(line)
        found[name.strip()] = wholes(words)
    return found


def _unlinked(files: CapturedFiles, path: str, parse: Any) -> Any:
    """A file that gives EINVAL without a link, or of a driver that cannot say."""
    value = files.read(path, parse)
    return UNSUPPORTED if isinstance(value, Unmeasured) and value.reason.endswith("(EINVAL)") else value


@fact("netdevs", NETDEV, besides=(TEAMD,), each="netdev")
def netdevs(captures: Captures) -> tuple[NetDev, ...]:
    """Every Ethernet interface of a PCI device, or of Hyper-V or virtio, that is no virtual function, by
    name. Where teams could not be listed their members count as in none, and are judged alone."""
    files = captures.files(NETDEV)
    files.require(*unlisted(files, BASE, BONDING))
    members = members_of(captures.once(_kernel_bonds) + _teams_if_listed(captures))
    counts = files.read(_COUNTS, parse_counts)
    devices = [(name, _device(files, name)) for name in _names(files)]
    return (tuple([_netdev(name, known, members, counts) for name, known in devices if known is not None])
            or (NetDev.absent(NONE),))


def _teams_if_listed(captures: Captures) -> list[tuple[str, Bond | Unmeasured]]:
    try:
        return captures.once(read_teams)
    except Unread:
        return []


def _names(files: CapturedFiles) -> list[str]:
    return sorted([path.split("/")[4] for path in files if path.endswith("/device/uevent")])


def _netdev(name: str, known: Mapping[str, Any], members: Mapping[str, str] | Unmeasured,
            counts: Any) -> NetDev:
    row: Any = (counts if isinstance(counts, Unmeasured)
                else counts.get(name, Unmeasured(f"{_COUNTS} has no {name}")))
    bond: Any = members if isinstance(members, Unmeasured) else members.get(name, "")
    counted: tuple[Any, ...] = (row,) * 5 if isinstance(row, Unmeasured) else _COLUMNS(row)
    packets, errors, drops, frame, sent = counted
    return NetDev(**known, bond=bond, rx_packets=packets, rx_errors=errors, rx_drops=drops, rx_frame=frame,
                  tx_errors=sent)


_COLUMNS = itemgetter(1, 2, 3, 5, 10)       # of parse_counts


def _device(files: CapturedFiles, name: str) -> dict[str, Any] | None:
    """The interface's own fields; None where it is not Ethernet, or has no PCI device of its own."""
    at = f"{BASE}/{name}"
    device = f"{at}/device/uevent"
    if not files.has(device) or files.has(f"{at}/device/physfn/uevent"):
        return None
    pci, model = files.read(device, slot), files.read(device, device_id)
    text = files.read(device, str)
    driver: Any = uevent(text).get("DRIVER", "") if isinstance(text, str) else text
    if isinstance(text, str) and "PCI_SLOT_NAME=" not in text:
        if driver not in VIRTUAL_DRIVERS:
            return None
        pci, model = "", driver
    kind = files.read(f"{at}/type", whole)
    if kind != _ETHERNET and not isinstance(kind, Unmeasured):
        return None
    return {
        "name": f"{name} ({pci or driver})" if isinstance(pci, str) else name,
        "interface": name, "pci": pci, "kind": model, "driver": driver,
        "place": pci if pci else f"interface {name}",
        "up": files.read(f"{at}/flags", lambda text: bool(hexadecimal(text) & _UP)),
        "link": files.read(f"{at}/operstate", _link),
        "mbps": _unlinked(files, f"{at}/speed", _mbps),
        "duplex": _unlinked(files, f"{at}/duplex", _duplex),
        "mtu": files.read(f"{at}/mtu", whole),
        "ups": files.optional(f"{at}/carrier_up_count", whole),        # since Linux 4.16
        "downs": files.optional(f"{at}/carrier_down_count", whole),
    }


@fact("bonds", NETDEV, TEAMD, each="bond")
def bonds(captures: Captures) -> tuple[Bond, ...]:
    """Every bond and team, by name."""
    files = captures.files(NETDEV)
    files.require(*unlisted(files, BONDING))
    return each_bond(captures.once(_bonds))


@fact("lacp_bonds", LACP, TEAMD, each="lacp_bond")
def lacp_bonds(captures: Captures) -> tuple[Bond, ...]:
    """Every bond and team, by name, as root sees it."""
    files = captures.files(LACP)
    files.require(*unlisted(files, BONDING))
    return each_bond(read_bonds(files) + captures.once(read_teams))


class LagCards(Fact):
    """The cards ("0000:4b:00") of which one RDMA device stands for all functions, as these are one bond (RoCE
    LAG): by mlx5's own name for that device, or, as udev may give it another, by the bond of two of its
    functions (drivers/net/ethernet/mellanox/mlx5/core/lag/lag.c)."""

    name: str
    cards: frozenset[str]


@fact("lag_cards", SYSFS, besides=(NETDEV, TEAMD))
def lag_cards(captures: Captures) -> LagCards:
    """From the names of RDMA devices, and from bonds and teams as far as these were read."""
    files = captures.files(SYSFS)
    named = {path[len(RDMA) + 1:].partition("/")[0] for path in files}
    addresses = [pci_of(files, device) for device in sorted(named) if is_lag(device)]
    found = {card(pci) for pci in addresses if isinstance(pci, str)}
    try:
        interfaces = captures.once(netdevs)
    except Unread:
        interfaces = ()
    functions = Counter((card(pci), bond) for pci, bond in (
        (reading(netdev, "pci"), reading(netdev, "bond")) for netdev in interfaces)
        if isinstance(pci, str) and pci and isinstance(bond, str) and bond)
    return LagCards("RoCE LAG", frozenset(found | {at for (at, _), count in functions.items() if count > 1}))


class BondSetup(Fact):
    """The bonds and teams of a node as they are set up, in one line that equal nodes share: name, mode, and
    the members by their PCI addresses. Empty where there is none."""

    name: str
    line: str


@fact("bond_setup", NETDEV, TEAMD)
def bond_setup(captures: Captures) -> BondSetup:
    """The bonds of the node, by name."""
    found = captures.once(bonds)
    if not captures.once(_bonds):
        return BondSetup("bonds", "")
    at = {netdev.interface: netdev.pci for netdev in captures.once(netdevs) if _at_pci(netdev)}
    lines = []
    for one in found:
        slaves = reading(one, "slaves")
        if isinstance(slaves, Unmeasured):
            raise Unread(f"{one.name} was not read")
        members = sorted(at.get(slave.interface, slave.interface) for slave in slaves)
        lines.append(f"{one.name}, {one.mode}, of {' and '.join(members) or 'no interface'}")
    return BondSetup("bonds", "; ".join(lines))


def _at_pci(netdev: NetDev) -> bool:
    pci = reading(netdev, "pci")
    return not isinstance(pci, (Unmeasured, Unsupported)) and pci != ""


def _bonds(captures: Captures) -> list[tuple[str, Bond | Unmeasured]]:
    """The bonds as any user may read them, and the teams."""
    return captures.once(_kernel_bonds) + captures.once(read_teams)


def _kernel_bonds(captures: Captures) -> list[tuple[str, Bond | Unmeasured]]:
    return read_bonds(captures.files(NETDEV))
