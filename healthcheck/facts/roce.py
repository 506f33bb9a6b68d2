"""RoCE ports: their counters of congestion and loss, their GIDs and their priority flow control (PFC).

hw_counters: NVIDIA, mlx5 counters (drivers/infiniband/hw/mlx5/counters.c). gid_attrs:
Documentation/ABI/testing/sysfs-class-infiniband (types "IB/RoCE v1" and "RoCE v2"; an entry that is not in
use cannot be read, EINVAL). PFC: `ethtool -S` of the port's interface with the names of mlx5
(Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst), one command for each.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from healthcheck.facts import port as ports_of
from healthcheck.facts.base import Captures, fact
from healthcheck.facts.files import CapturedFiles, DeviceOutput
from healthcheck.facts.parsing import said, whole
from healthcheck.facts.port import BASE, SYSFS, Port
from healthcheck.facts.values import (
    UNSUPPORTED,
    Fact,
    Partial,
    Unmeasured,
    Unread,
    changed,
    partial_if,
    reading,
)
from healthcheck.model.probes import MIB, Probe, ProbeKind
from healthcheck.model.recording import Outcome

COUNTERS = ("packet_seq_err", "implied_nak_seq_err", "roce_adp_retrans", "rx_icrc_encapsulated",
            "np_cnp_sent", "np_ecn_marked_roce_packets", "rp_cnp_handled")
# The first addresses of an interface: two kinds of link-local ones, then those of its first IPv4 address.
_GIDS = 8
ROCE = Probe(
    "roce.sysfs", ProbeKind.FILES, limit=1 * MIB,
    paths=(
        *(f"{BASE}/*/ports/*/hw_counters/{name}" for name in COUNTERS),
        *(f"{BASE}/*/ports/*/gid_attrs/types/{entry}" for entry in range(_GIDS)),
        *(f"{BASE}/*/ports/*/gids/{entry}" for entry in range(_GIDS)), f"{BASE}/*/device/net/*/mtu",
    ),
)
# Interfaces of InfiniBand ports are called ib..., and have no priorities.
ETHTOOL = Probe(
    "roce.ethtool", ProbeKind.COMMAND, argv=("ethtool", "-S", "{name}"), each=(f"{BASE}/*/device/net/[!i]*",),
    most=32, each_s=3.0,
    seconds=15.0, limit=4 * MIB,
)


class RocePort(Fact):
    """One RDMA port whose link is Ethernet; `name`, `pci` and `number` are those of the Port. Counters are
    since the driver was loaded, and UNSUPPORTED where it has none of that name.

    `routable`: one of the first GIDs is of RoCE v2 and not link-local. `mtu` is the interface's, the largest
    if there are several. A node without any has one entry, all UNSUPPORTED.
    """

    IDENTITY = ("pci", "number")

    name: str
    pci: str
    number: int
    active: bool
    routable: bool
    mtu: int
    packet_seq_err: int
    implied_nak_seq_err: int
    roce_adp_retrans: int
    rx_icrc_encapsulated: int
    np_cnp_sent: int
    np_ecn_marked_roce_packets: int
    rp_cnp_handled: int


class Pfc(Fact):
    """Pause frames of one interface of an RDMA device, all priorities together. `stalls` counts how often the
    adapter paused the network so long that it gave up and dropped packets (tx_pause_storm_error_events);
    `paused_us` is how many microseconds it was paused, `pausing_us` how many it paused its switch.

    A node without such interfaces, or without ethtool, has one entry, all UNSUPPORTED.
    """

    name: str
    interface: str
    stalls: int
    stall_warnings: int
    paused_us: int
    pausing_us: int


@fact("roce_ports", SYSFS, ROCE, each="roce_port")
def roce_ports(captures: Captures) -> Any:
    """Every RDMA port on Ethernet, in the ports' order."""
    found = captures.once(ports_of.ports)
    files = captures.files(ROCE)
    if files.has(BASE):
        files.text(BASE)
    every: tuple[Port, ...] = found.value if isinstance(found, Partial) else found
    layers = [(port, reading(port, "link_layer")) for port in every]
    unread = next((layer for _, layer in layers if isinstance(layer, Unmeasured)), None)
    ours = [port for port, layer in layers if layer == "Ethernet" and not reading(port, "virtual")]
    result = tuple(_port(files, port) for port in ours) or (RocePort.absent("RoCE ports"),)
    reason = (found.reason if isinstance(found, Partial) else unread.reason
              if isinstance(unread, Unmeasured) else None)
    return partial_if(result, reason)


def _port(files: CapturedFiles, port: Port) -> RocePort:
    at = f"{BASE}/{port.device}/ports/{port.number}"
    values: dict[str, Any] = {
        name: files.optional(f"{at}/hw_counters/{name}", whole) for name in COUNTERS}
    sizes = [files.read(path, whole) for path in files
             if path.startswith(f"{BASE}/{port.device}/device/net/") and path.endswith("/mtu")]
    wrong = [size for size in sizes if isinstance(size, Unmeasured)]
    mtu: Any = wrong[0] if wrong else max(sizes, default=UNSUPPORTED)
    state = reading(port, "state")
    active: Any = state if isinstance(state, Unmeasured) else state == "ACTIVE"
    return RocePort(port.name, reading(port, "pci"), port.number, active, _routable(files, at), mtu, **values)


def _routable(files: CapturedFiles, at: str) -> Any:
    """Whether an entry is routable; Unmeasured where none is and one could not be read. An unused entry gives
    EINVAL."""
    last = max((entry for entry in range(_GIDS) if files.has(f"{at}/gid_attrs/types/{entry}")), default=None)
    if last is None:
        return UNSUPPORTED
    unread = None
    for entry in range(last + 1):
        kind = files.read(f"{at}/gid_attrs/types/{entry}", said)
        if isinstance(kind, Unmeasured):
            unread = unread if kind.reason.endswith("(EINVAL)") else kind
            continue
        if kind == "RoCE v2":
            gid = files.read(f"{at}/gids/{entry}", _gid)
            if gid is True:
                return True
            unread = gid if isinstance(gid, Unmeasured) else unread
    return unread or False


def _gid(text: str) -> bool:
    """Whether an address can be reached from another subnet: it is neither empty nor link-local."""
    if not re.fullmatch(r"[0-9a-fA-F]{4}(:[0-9a-fA-F]{4}){7}", text):
        raise ValueError(text)
    return text.strip("0:") != "" and not 0xFE80 <= int(text[:4], 16) <= 0xFEBF


@fact("pfcs", ETHTOOL, each="pfc")
def pfcs(captures: Captures) -> tuple[Pfc, ...]:
    """ethtool's statistics of each interface of an RDMA device, by name."""
    capture = captures.capture(ETHTOOL)
    if capture is not None and capture.outcome is Outcome.MISSING:
        return (Pfc.absent("ethtool"),)
    found = tuple(_pfc(path, answer) for path, answer in sorted(captures.devices(ETHTOOL).items()))
    return found or (Pfc.absent("RoCE interfaces"),)


def _pfc(path: str, answer: DeviceOutput | Unmeasured) -> Pfc:
    interface = path.rpartition("/")[2]
    name = f"{path[len(BASE) + 1:].partition('/')[0]} {interface}"
    try:
        if isinstance(answer, Unmeasured):
            raise Unread(answer.reason)
        if answer.exit:
            raise Unread(f"ethtool -S {interface} ended with exit status {answer.exit}: {answer.complaint}")
        try:
            counts = parse_statistics(answer.text)
        except ValueError as error:
            raise Unread(f"ethtool -S {interface}: {error}") from None
    except Unread as error:
        return changed(Pfc.absent(name, Unmeasured(str(error))), interface=interface)
    values: list[Any] = [counts.get(f"tx_pause_storm_{kind}_events", UNSUPPORTED)
                         for kind in ("error", "warning")]
    for way in ("rx", "tx"):
        durations = [counts[key] for key in counts
                     if re.fullmatch(rf"{way}_(prio\d|global)_pause_duration", key)]
        values.append(sum(durations) if durations else UNSUPPORTED)
    return Pfc(name, interface, *values)


def parse_statistics(text: str) -> Mapping[str, int]:
    """`ethtool -S`: "NIC statistics:", then " name: number" a line; raises ValueError for another format."""
    head, _, rest = text.partition("\n")
    if head.strip() != "NIC statistics:" or not text.endswith("\n"):
        raise ValueError("the answer is not in the known format")
    found: dict[str, int] = {}
    for line in rest.splitlines():
        name, colon, value = line.rpartition(":")
        if not colon or not re.fullmatch(r"-?\d{1,20}", value.strip()):
            raise ValueError(f"{line.strip()[:60]!r} is no counter")
        found[name.strip()] = int(value)
    return found
