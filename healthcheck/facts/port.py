"""Port facts: InfiniBand and RoCE ports from /sys/class/infiniband, by the kernel's documented ABI
(Documentation/ABI/stable/sysfs-class-infiniband)."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from healthcheck.facts.base import UNSUPPORTED, Captures, Fact, Files, Partial, fact
from healthcheck.probes import MIB, Kind, Probe

_BASE = "/sys/class/infiniband"
SYSFS = Probe(
    "port.sysfs", Kind.FILES, limit=1 * MIB,
    paths=(
        *(f"{_BASE}/*/ports/*/{name}" for name in ("state", "phys_state", "rate", "link_layer")),
        f"{_BASE}/*/ports/*/counters/link_downed", f"{_BASE}/*/device/uevent",
    ),
)


@dataclass(frozen=True)
class Port(Fact):
    """One port of an RDMA device. Its identity is the PCI address, lower case, in full form, and its number on the device.

    `name` is for people: "mlx5_0/1 (0000:18:00.0)". `state` and `phys_state` are the kernel's words ("ACTIVE", "LinkUp");
    `rate_gbps` is in 1e9 bit/s; `link_downed` counts since it was last reset, and stays at 255 (an 8-bit counter of the
    InfiniBand specification); drivers that have no such counter leave it UNSUPPORTED.
    """

    name: str
    pci: str
    number: int
    state: str
    phys_state: str
    rate_gbps: float
    link_layer: str
    link_downed: int


_PORT = re.compile(re.escape(_BASE) + r"/([^/]+)/ports/(\d+)/")


def _word(text: str) -> str:
    """The word of "4: ACTIVE"."""
    number, colon, word = text.partition(":")
    if not colon or not number.strip().isdigit() or not word.strip():
        raise ValueError(text)
    return word.strip()


def _rate(text: str) -> float:
    """The figure of "400 Gb/sec (4X NDR)"."""
    figure, unit = text.split()[:2]
    if unit != "Gb/sec" or not math.isfinite(float(figure)):
        raise ValueError(text)
    return float(figure)


def _slot(text: str) -> str:
    for line in text.splitlines():
        key, _, value = line.partition("=")
        if key == "PCI_SLOT_NAME" and value:
            return value.lower()
    raise ValueError(text)


def _count(text: str) -> int:
    if not text.isdigit() or len(text) > 20:
        raise ValueError(text)
    return int(text)


@fact("ports", SYSFS)
def ports(captures: Captures) -> Any:
    """Every port of every RDMA device, in natural order of their names."""
    files = captures.files(SYSFS)
    found = sorted({(m[1], int(m[2])) for path in files if (m := _PORT.match(path))}, key=lambda at: (_natural(at[0]), at[1]))
    result = tuple(_port(files, device, number) for device, number in found)
    unseen = files.unseen()
    return Partial(result, unseen) if unseen else result


def _natural(name: str) -> tuple[str, int]:
    head = name.rstrip("0123456789")
    return head, int(name[len(head):] or 0)


def _port(files: Files, device: str, number: int) -> Port:
    at = f"{_BASE}/{device}/ports/{number}"
    pci = files.read(f"{_BASE}/{device}/device/uevent", _slot)
    counter = f"{at}/counters/link_downed"
    downed: Any = files.read(counter, _count) if files.has(counter) else UNSUPPORTED
    return Port(
        name=f"{device}/{number} ({pci})" if isinstance(pci, str) else f"{device}/{number}",
        pci=pci,
        number=number,
        state=files.read(f"{at}/state", _word),
        phys_state=files.read(f"{at}/phys_state", _word),
        rate_gbps=files.read(f"{at}/rate", _rate),
        link_layer=files.read(f"{at}/link_layer", str),
        link_downed=downed,
    )

