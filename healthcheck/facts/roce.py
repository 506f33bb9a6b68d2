"""RoCE ports: their counters of congestion and loss, their GIDs, their priority flow control (PFC), and what
their Ethernet interfaces dropped or repaired.

hw_counters: NVIDIA, mlx5 counters (drivers/infiniband/hw/mlx5/counters.c). gid_attrs:
Documentation/ABI/testing/sysfs-class-infiniband (types "IB/RoCE v1" and "RoCE v2"; an entry that is not in
use cannot be read, EINVAL). PFC: `ethtool -S` of the port's interface with the names of mlx5
(Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst), one command for each. Dropped
packets have other names with bnxt_en (bnxt_ethtool.c), ice (ice_ethtool.c) and ionic (ionic_stats.c).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from healthcheck.facts import port as ports_of
from healthcheck.facts.base import Captures, fact
from healthcheck.facts.files import CapturedFiles, DeviceOutput
from healthcheck.facts.parsing import nonempty, whole
from healthcheck.facts.port import BASE, SYSFS, Port, entries, gid, is_sub_function
from healthcheck.facts.values import (
    UNSUPPORTED,
    Fact,
    Unmeasured,
    Unread,
    Unsupported,
    changed,
    first_unread,
    parted,
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


class EthernetCounters(Fact):
    """What one interface of an RDMA device dropped and repaired since its driver was loaded, "mlx5_0 rail0".

    `discards` are received packets for which the adapter had no buffer, `no_buffers` those for which the host
    had given it none; `symbols` could not be repaired by error correction, `corrected_bits` were. `gbps` is
    the speed of its RDMA port, in 1e9 bit/s. UNSUPPORTED where the driver has no such counter.

    A node without such interfaces, or without ethtool, has one entry, all UNSUPPORTED.
    """

    name: str
    gbps: float
    discards: int
    no_buffers: int
    symbols: int
    corrected_bits: int


# The names of a counter by driver; an interface has one of them.
_NAMES = {
    "discards": ("rx_discards_phy", "rx_total_discard_pkts", "rx_dropped.nic", "frames_rx_dropped"),
    "no_buffers": ("rx_out_of_buffer",),
    "symbols": ("rx_pcs_symbol_err_phy",),
    "corrected_bits": ("rx_corrected_bits_phy",),
}


@fact("roce_ports", SYSFS, ROCE, each="roce_port")
def roce_ports(captures: Captures) -> Any:
    """Every RDMA port on Ethernet, in the ports' order."""
    found = captures.once(ports_of.ports)
    files = captures.files(ROCE)
    if files.has(BASE):
        files.text(BASE)
    every: tuple[Port, ...]
    every, lacking = parted(found)
    layers = [(port, reading(port, "link_layer")) for port in every]
    unread = first_unread(layer for _, layer in layers)
    ours = [port for port, layer in layers if layer == "Ethernet" and not reading(port, "virtual")]
    # A folder that could not be listed has an entry of its own.
    sized = [path for path in files if "/device/net" in path]
    result = tuple(_port(files, port, sized) for port in ours) or (RocePort.absent("RoCE ports"),)
    return partial_if(result, lacking or (unread.reason if unread else None))


def unlisted_interfaces(files: CapturedFiles) -> list[str]:
    """The folders of RDMA devices' interfaces that could not be listed: each has an entry of its own."""
    return [path for path in files if path.endswith("/device/net")]


def _port(files: CapturedFiles, port: Port, sized: list[str]) -> RocePort:
    """`sized` are the files of all interfaces' sizes."""
    at = f"{BASE}/{port.device}/ports/{port.number}"
    values: dict[str, Any] = {
        name: files.optional(f"{at}/hw_counters/{name}", whole) for name in COUNTERS}
    interfaces = f"{BASE}/{port.device}/device/net"
    sizes = [files.read(path, whole) for path in sized if path.startswith(interfaces)]
    mtu: Any = first_unread(sizes) or max(sizes, default=UNSUPPORTED)
    state = reading(port, "state")
    active: Any = state if isinstance(state, Unmeasured) else state == "ACTIVE"
    return RocePort(port.name, reading(port, "pci"), port.number, active, _routable(files, at), mtu, **values)


def _routable(files: CapturedFiles, at: str) -> Any:
    """Whether an entry is routable; Unmeasured where none is and one could not be read, or all that are read
    are in use, as the table may go on. An unused entry gives EINVAL."""
    types = entries(files, f"{at}/gid_attrs/types", _GIDS)
    if not types:
        return UNSUPPORTED
    unread, used = None, 0
    for entry, path in enumerate(types):
        kind = files.read(path, nonempty)
        used += isinstance(kind, str)
        if isinstance(kind, Unmeasured):
            unread = unread if kind.reason.endswith("(EINVAL)") else kind
            continue
        if kind == "RoCE v2":
            routes = files.read(f"{at}/gids/{entry}", _gid)
            if routes is True:
                return True
            unread = routes if isinstance(routes, Unmeasured) else unread
    if used == _GIDS and unread is None:
        return Unmeasured(f"only its first {_GIDS} GIDs are read, and none of them routes")
    return unread or False


def _gid(text: str) -> bool:
    """Whether an address can be reached from another subnet: it is neither empty nor link-local."""
    return gid(text) and not 0xFE80 <= int(text[:4], 16) <= 0xFEBF


@fact("pfcs", ETHTOOL, besides=(SYSFS,), each="pfc")
def pfcs(captures: Captures) -> tuple[Pfc, ...]:
    """ethtool's pauses of each interface of an RDMA device, by name."""
    if _no_tool(captures):
        return (Pfc.absent("ethtool"),)
    found = tuple(_pfc(*each) for each in captures.once(_statistics))
    return found or (Pfc.absent("RoCE interfaces"),)


@fact("ethernet_counters", ETHTOOL, besides=(SYSFS,), each="ethernet_counter")
def ethernet_counters(captures: Captures) -> tuple[EthernetCounters, ...]:
    """ethtool's other counters of each interface of an RDMA device, by name."""
    if _no_tool(captures):
        return (EthernetCounters.absent("ethtool"),)
    speeds = _speeds(captures)
    unread = Unmeasured("its RDMA device has no port whose speed was read")
    found = [_counters(name, counts, speeds.get(device, unread))
             for name, device, _, counts in captures.once(_statistics)]
    return tuple(found) or (EthernetCounters.absent("RoCE interfaces"),)


def _no_tool(captures: Captures) -> bool:
    return captures.outcome(ETHTOOL) is Outcome.MISSING


_Statistics = Mapping[str, int] | Unmeasured | Unsupported


_NO_STATISTICS = 94     # "no stats available": do_gstats of ethtool.c


def _statistics(captures: Captures) -> list[tuple[str, str, str, _Statistics]]:
    """What ethtool printed of each interface but those of sub-functions: its name for people, device and
    interface, and the counters."""
    found: list[tuple[str, str, str, _Statistics]] = []
    files = captures.files_if_any(SYSFS)
    for path, answer in sorted(captures.devices(ETHTOOL).items()):
        device, interface = path[len(BASE) + 1:].partition("/")[0], path.rpartition("/")[2]
        if is_sub_function(files, device):
            continue
        found.append((f"{device} {interface}", device, interface, _counts(interface, answer)))
    return found


def _counts(interface: str, answer: DeviceOutput | Unmeasured) -> _Statistics:
    """One interface's counters; UNSUPPORTED where its driver has none."""
    if isinstance(answer, Unmeasured):
        return answer
    if answer.exit == _NO_STATISTICS or (answer.exit and "not supported" in answer.complaint):
        return UNSUPPORTED
    if answer.exit:
        return Unmeasured(f"ethtool -S {interface} ended with exit status {answer.exit}: {answer.complaint}")
    try:
        return parse_statistics(answer.text)
    except ValueError as error:
        return Unmeasured(f"ethtool -S {interface}: {error}")


_PAUSED = re.compile(r"(rx|tx)_(?:prio[0-9]|global)_pause_duration")


def _pfc(name: str, _: str, interface: str, counts: _Statistics) -> Pfc:
    if not isinstance(counts, Mapping):
        return changed(Pfc.absent(name, counts), interface=interface)
    values: list[Any] = [counts.get(f"tx_pause_storm_{kind}_events", UNSUPPORTED)
                         for kind in ("error", "warning")]
    durations: dict[str, list[int]] = {"rx": [], "tx": []}
    for key, count in counts.items():
        if match := _PAUSED.fullmatch(key):
            durations[match[1]].append(count)
    values += [sum(of_way) if of_way else UNSUPPORTED for of_way in durations.values()]
    return Pfc(name, interface, *values)


def _counters(name: str, counts: _Statistics, gbps: Any) -> EthernetCounters:
    if not isinstance(counts, Mapping):
        return EthernetCounters.absent(name, counts)
    values: dict[str, Any] = {field: next((counts[key] for key in keys if key in counts), UNSUPPORTED)
                              for field, keys in _NAMES.items()}
    return EthernetCounters(name=name, gbps=gbps, **values)


def _speeds(captures: Captures) -> dict[str, Any]:
    """The speed of each RDMA device's port, the fastest if it has several; Unmeasured if one was not read."""
    try:
        found = captures.once(ports_of.ports)
    except Unread:
        return {}
    every: tuple[Port, ...] = parted(found)[0]
    speeds: dict[str, list[Any]] = {}
    for port in every:
        speeds.setdefault(port.device, []).append(reading(port, "rate_gbps"))
    return {device: first_unread(of_ports) or max(of_ports) for device, of_ports in speeds.items()}


_COUNT = re.compile(r"-?[0-9]{1,20}")


def parse_statistics(text: str) -> Mapping[str, int]:
    """`ethtool -S`: "NIC statistics:", then " name: number" a line; raises ValueError for another format."""
    head, _, rest = text.partition("\n")
    if head.strip() != "NIC statistics:" or not text.endswith("\n"):
        raise ValueError("the answer is not in the known format")
    found: dict[str, int] = {}
    for line in rest.splitlines():
        name, colon, value = line.rpartition(":")
        if not colon or not _COUNT.fullmatch(value.strip()):
            raise ValueError(f"{line.strip()[:60]!r} is no counter")
        found[name.strip()] = int(value)
    return found
