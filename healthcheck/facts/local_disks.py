"""The sizes of a node's own disks, to compare nodes by: NVMe drives and SCSI disks, by the kernel.

Disks over a network or a fabric, on USB, and with removable media are none of the node's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.gpu import PCI
from healthcheck.facts.nvme import NAMESPACES, NVME, nvme_bus, nvmes
from healthcheck.facts.scsi import SCSI, scsi_disks
from healthcheck.facts.values import UNSUPPORTED, Fact, Partial, Unmeasured, Unread, reading

_GB, _TB = 10**9, 10**12
# A mirror of two disks of 1 TB has 999.65 GB behind a RAID controller: to three digits that is 1 TB.
_ROUNDS_TO_TB = 999_500_000_000


class LocalDisks(Fact):
    """The node's own disks. `sizes` says how many there are of each size, the largest first: "8 of 3.84 TB, 2
    of 960 GB"; makers round, so sizes are compared to three digits. UNSUPPORTED without a disk, and where the
    kernel lacks a drive that is there, or its namespace: other rules report that, or it was passed on."""

    name: str
    sizes: str


@fact("local_disks", NVME, NAMESPACES, SCSI, PCI)
def local_disks(captures: Captures) -> LocalDisks:
    """All of them. Raises Unread unless the size of each was read."""
    bus = captures.once(nvme_bus)
    if isinstance(bus, Partial):
        raise Unread(bus.reason)
    counts = _bytes(captures)
    if set(bus.on_pci) - set(bus.driven) or 0 in counts:
        return LocalDisks.absent("disks (a drive is there that the kernel does not have in whole)")
    sizes: Counter[tuple[float, str]] = Counter()
    for count, disks in Counter(counts).items():
        sizes[_size(count)] += disks
    ordered = sorted(sizes.items(), key=lambda item: -item[0][0])
    text: Any = ", ".join(f"{count} of {size[1]}" for size, count in ordered) or UNSUPPORTED
    return LocalDisks("disks", sizes=text)


def _bytes(captures: Captures) -> list[int]:
    """The size of each disk that has one of its own; raises Unread where it was not read."""
    found = [_read(drive) for drive in _members(captures.once(nvmes))]
    for disk in _members(captures.once(scsi_disks)):
        if reading(disk, "over") == "":
            # Without a size it is there, and not whole.
            size = _read(disk)
            found.append(0 if size is UNSUPPORTED else size)
    return [size for size in found if isinstance(size, int)]


def _read(disk: Fact) -> Any:
    """The size of a disk; raises Unread where it was not read."""
    size = reading(disk, "bytes")
    if isinstance(size, Unmeasured):
        raise Unread(f"{disk.name}: {size.reason}")
    return size


def _members(value: Any) -> Iterable[Fact]:
    if isinstance(value, Partial):
        raise Unread(value.reason)
    members: Iterable[Fact] = value
    return members


def _size(count: int) -> tuple[float, str]:
    """A number of bytes to three digits: to sort by, and in words."""
    unit, name = (_TB, "TB") if count >= _ROUNDS_TO_TB else (_GB, "GB")
    text = f"{count / unit:.3g}"
    return float(text) * unit, f"{text} {name}"
