"""PCI Express facts of the devices that a job depends on and of the ports above them: error counters, and how
the IOMMU treats them (Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats,
sysfs-kernel-iommu_groups)."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.files import CapturedFiles
from healthcheck.facts.parsing import matched, matching, whole
from healthcheck.facts.values import UNSUPPORTED, Fact, Unmeasured, Unread, first_unread, partial_if
from healthcheck.model.probes import MIB, Probe, ProbeKind

BASE = "/sys/bus/pci/drivers"
# Drivers of RDMA adapters: those whose every device is one, and those that have plain Ethernet adapters as
# well. Slingshot's is cxi_ss1 (HewlettPackard/shs-cxi-driver).
ADAPTERS, ETHERNET_ADAPTERS = ("mlx5_core", "efa", "hfi1", "cxi_ss1"), ("bnxt_en", "ice", "idpf", "ionic")
ENDPOINTS = ("nvidia", "nvme", *ADAPTERS, *ETHERNET_ADAPTERS, "nvidia-nvswitch")
PORTS = "pcieport"
# Devices that move a job's data past the CPU.
DIRECT = ("nvidia", "mlx5_core")
# every kernel has it: distinguishes a node without such devices from one that was not read
ALWAYS = "/proc/meminfo"
KINDS = ("fatal", "nonfatal", "correctable")
AER = Probe("pcie.aer", ProbeKind.FILES, limit=1 * MIB, paths=(
    ALWAYS, *(f"{BASE}/{driver}/*:*/aer_dev_{kind}" for driver in (*ENDPOINTS, PORTS) for kind in KINDS),
    f"{BASE}/{PORTS}/*:*/secondary_bus_number",
))
IOMMU = Probe("pcie.iommu", ProbeKind.FILES,
              paths=(ALWAYS, *(f"{BASE}/{driver}/*:*/iommu_group/type" for driver in DIRECT)))

_AER = re.compile(re.escape(BASE)
                  + r"/([a-z0-9_-]{1,32})/([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])/aer_dev_[a-z]{1,20}")
_GROUP = re.compile(re.escape(BASE) + r"/([a-z0-9_]{1,32})/([0-9a-f:.]{1,20})/iommu_group/type")
_LINE = re.compile(r"([A-Za-z_][A-Za-z0-9_ -]{0,40}?)\s+([0-9]{1,20})")
_kind = matching(r"[A-Za-z-]{1,32}")
_TOTALS = frozenset(("TOTAL_ERR_COR", "TOTAL_ERR_FATAL", "TOTAL_ERR_NONFATAL"))


class PcieErrorCount(NamedTuple):
    """Errors that one device reported since boot, by severity. `place` is for people: "nvme 0000:22:00.0", or
    for a port "port 0000:1a:01.0 above nvidia 0000:1b:00.0"."""

    address: str
    place: str
    fatal: int
    nonfatal: int
    correctable: int


class PcieErrors(Fact):
    """The errors of each device and port; UNSUPPORTED where none reports any (virtual machines, or firmware
    that handles them)."""

    name: str
    devices: tuple[PcieErrorCount, ...]


class Iommu(Fact):
    """The type of the IOMMU group of each GPU and mlx5 adapter ("nvidia 0000:1b:00.0"): identity, DMA,
    DMA-FQ, blocked; UNSUPPORTED without an IOMMU or any of these devices."""

    name: str
    groups: tuple[tuple[str, str], ...]


def total(text: str) -> int:
    """The errors of one severity: the last line, or the sum of the others where that is more, since a message
    may stand for several."""
    counts: dict[str, int] = {}
    for line in text.splitlines():
        match = matched(_LINE, line.strip())
        counts[match[1]] = int(match[2])
    totals = [value for key, value in counts.items() if key in _TOTALS]
    if len(totals) != 1:
        raise ValueError(text)
    return max(totals[0], sum(counts.values()) - totals[0])


@fact("pcie_errors", AER)
def pcie_errors(captures: Captures) -> Any:
    """Every device and port whose counters could be read; where some could not, the rest is Partial."""
    files = captures.files(AER)
    files.text(ALWAYS)
    found = sorted({(match[2], match[1]) for path in files if (match := _AER.fullmatch(path))})
    below = {address.rpartition(":")[0]: f"{driver} {address}" for address, driver in reversed(found)}
    counted, unread = [], ""
    for address, driver in found:
        figures = [files.read(f"{BASE}/{driver}/{address}/aer_dev_{kind}", total) for kind in KINDS]
        if wrong := first_unread(figures):
            unread = unread or wrong.reason
            continue
        counted.append(PcieErrorCount(address, _place(files, driver, address, below), *figures))
    unread = unread or files.unreadable() or ""
    devices: Any = tuple(counted) if counted or unread else UNSUPPORTED
    made = PcieErrors("PCI Express", devices)
    return partial_if(made, unread)


def _place(files: CapturedFiles, driver: str, address: str, below: dict[str, str]) -> str:
    if driver != PORTS:
        return f"{driver} {address}"
    path = f"{BASE}/{driver}/{address}/secondary_bus_number"
    bus = files.read(path, whole) if files.has(path) else None
    under = below.get(f"{address.partition(':')[0]}:{bus:02x}") if isinstance(bus, int) else None
    return f"port {address}" + (f" above {under}".replace(f" {PORTS} ", " port ") if under else "")


@fact("iommu", IOMMU)
def iommu(captures: Captures) -> Any:
    """The groups' types, which the kernel shows since 5.11; raises Unread where none was read."""
    files = captures.files(IOMMU)
    files.text(ALWAYS)
    found, unread = [], ""
    for path in files:
        if match := _GROUP.fullmatch(path):
            kind = files.read(path, _kind)
            if isinstance(kind, Unmeasured):
                unread = unread or kind.reason
            else:
                found.append((f"{match[1]} {match[2]}", kind))
    unread = unread or files.unreadable() or ""
    if unread and not found:
        raise Unread(unread)
    groups: Any = tuple(found) if found else UNSUPPORTED
    return partial_if(Iommu("IOMMU", groups), unread)
