"""Port facts: InfiniBand and RoCE ports from /sys/class/infiniband, by the kernel's documented ABI
(Documentation/ABI/stable/sysfs-class-infiniband)."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
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

    `name` is for people: "mlx5_0/1 (0000:18:00.0)". `kind` is the adapter's PCI vendor and device with the link layer,
    "15b3:1021 InfiniBand", and empty where it cannot be read. `state` and `phys_state` are the kernel's words ("ACTIVE", "LinkUp");
    `rate_gbps` is in 1e9 bit/s; `link_downed` counts since it was last reset, and stays at 255 (an 8-bit counter of the
    InfiniBand specification); drivers that have no such counter leave it UNSUPPORTED.
    """

    name: str
    pci: str
    number: int
    kind: str
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


def _device(text: str) -> str:
    for line in text.splitlines():
        key, _, value = line.partition("=")
        if key == "PCI_ID" and re.fullmatch(r"[0-9A-Fa-f]{1,4}:[0-9A-Fa-f]{1,4}", value):
            return ":".join(part.lower().zfill(4) for part in value.split(":"))
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


def _port(files: Files, device_name: str, number: int) -> Port:
    at = f"{_BASE}/{device_name}/ports/{number}"
    pci = files.read(f"{_BASE}/{device_name}/device/uevent", _slot)
    device = files.read(f"{_BASE}/{device_name}/device/uevent", _device)
    layer = files.read(f"{at}/link_layer", str)
    counter = f"{at}/counters/link_downed"
    downed: Any = files.read(counter, _count) if files.has(counter) else UNSUPPORTED
    return Port(
        name=f"{device_name}/{number} ({pci})" if isinstance(pci, str) else f"{device_name}/{number}",
        pci=pci,
        number=number,
        kind=f"{device} {layer}" if isinstance(device, str) and isinstance(layer, str) else "",
        state=files.read(f"{at}/state", _word),
        phys_state=files.read(f"{at}/phys_state", _word),
        rate_gbps=files.read(f"{at}/rate", _rate),
        link_layer=layer,
        link_downed=downed,
    )


# Virtual functions of mlx5 adapters (PCI ID database, vendor 15b3), and of BlueField.
_VIRTUAL = tuple(f"15b3:{device}" for device in ("1014", "1016", "1018", "101a", "101c", "101e", "a2d3"))


def most_alike(ports: Iterable[Port]) -> tuple[Port, ...]:
    """The ports of the most numerous kind: what a machine's compute ports are when nobody says which they are.

    It tells the eight adapters beside the GPUs from the two of storage, or from a BlueField, whichever mode that is in. Kinds of equal
    number all count, a port whose kind cannot be read counts always, and virtual functions count only where there is nothing else.
    """
    ports = tuple(ports)
    real = tuple(port for port in ports if not port.kind.startswith(_VIRTUAL)) or ports
    counts = Counter(port.kind for port in real if port.kind)
    most = max(counts.values(), default=0)
    return tuple(port for port in real if not port.kind or counts[port.kind] == most)
