"""Port facts: InfiniBand and RoCE ports from /sys/class/infiniband, by the kernel's documented ABI
(Documentation/ABI/stable/sysfs-class-infiniband)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.files import CapturedFiles
from healthcheck.facts.parsing import hexadecimal, matched, natural, nonempty, searched, whole
from healthcheck.facts.values import UNSUPPORTED, Fact, first_unread, partial_if, readable
from healthcheck.model.probes import MIB, Probe, ProbeKind

BASE = "/sys/class/infiniband"
# Only the first entries of the tables, which may have 256 GIDs and 128 partition keys: checks ask whether
# there are any.
ENTRIES = 4
SYSFS = Probe(
    "port.sysfs", ProbeKind.FILES, limit=1 * MIB,
    paths=(
        *(f"{BASE}/*/ports/*/{name}"
          for name in ("state", "phys_state", "rate", "link_layer", "lid", "sm_lid")),
        *(f"{BASE}/*/ports/*/{table}/{entry}" for table in ("gids", "pkeys") for entry in range(ENTRIES)),
        f"{BASE}/*/ports/*/counters/link_downed", f"{BASE}/*/device/uevent", f"{BASE}/*/device/physfn/uevent",
        f"{BASE}/*/board_id",
    ),
)


class Port(Fact):
    """One port of an RDMA device. Its identity is the PCI address, lower case, in full form, and its number
    on the device.

    `name` is for people: "mlx5_0/1 (0000:18:00.0)". `kind` is the adapter's PCI vendor and device with the
    link layer, "15b3:1021 InfiniBand", and empty where it cannot be read. `state` and `phys_state` are the
    kernel's words ("ACTIVE", "LinkUp"); `rate_gbps` is in 1e9 bit/s; `link_downed` counts since it was last
    reset, and stays at 255 (an 8-bit counter of the InfiniBand specification); UNSUPPORTED where the driver
    has no such counter. `lanes` is the 4 of "4X NDR". `lid` and `sm_lid` are 0 where no subnet manager gave
    any. `gids` counts the first GIDs that are not zero; `keys` are the first partition keys that are not
    zero, 0xffff being full membership of the default partition. `board` is the adapter's PSID. `virtual`: a
    function of SR-IOV.
    """

    IDENTITY = ("pci", "number")

    name: str
    device: str
    pci: str
    number: int
    kind: str
    state: str
    phys_state: str
    rate_gbps: float
    link_layer: str
    link_downed: int
    lanes: int
    lid: int
    sm_lid: int
    gids: int
    keys: tuple[int, ...]
    board: str
    virtual: bool

    def full(self, counter: str) -> int | None:
        """An 8-bit counter of the InfiniBand specification stays at its highest value."""
        return LINK_DOWNED_FULL if counter == "link_downed" else None


LINK_DOWNED_FULL = 255
_PORT = re.compile(re.escape(BASE) + r"/([^/]+)/ports/([0-9]+)/")


def _word(text: str) -> str:
    """The word of "4: ACTIVE"."""
    number, _, word = text.partition(":")
    if not number.isdecimal() or not word.strip():
        raise ValueError(text)
    return word.strip()


_RATE = re.compile(r"([0-9]{1,6}(?:\.[0-9])?) Gb/sec\b.*")


def _rate(text: str) -> float:
    """The figure of "400 Gb/sec (4X NDR)"."""
    return float(matched(_RATE, text)[1])


_WIDTH = re.compile(r"\(([0-9]{1,2})X")


def _lanes(text: str) -> int:
    """The 4 of "400 Gb/sec (4X NDR)"."""
    return int(searched(_WIDTH, text)[1])


def _counted(text: str) -> Any:
    """A counter; "N/A (no PMA)" where the port has no agent that counts (drivers/infiniband/core/sysfs.c)."""
    return UNSUPPORTED if text.startswith("N/A") else whole(text)


_GID = re.compile(r"[0-9a-fA-F]{4}(:[0-9a-fA-F]{4}){7}")


def gid(text: str) -> bool:
    """Whether "fe80:0000:0000:0000:a088:c203:00ab:cdef" is one; an entry that is not in use is all zeros."""
    matched(_GID, text)
    return text.strip("0:") != ""


def entries(files: CapturedFiles, table: str, most: int) -> list[str]:
    """The paths of a table's entries up to the last one of the first `most` that is there."""
    paths = [f"{table}/{entry}" for entry in range(most)]
    while paths and not files.has(paths[-1]):
        del paths[-1]
    return paths


def _table(files: CapturedFiles, at: str, parse: Callable[[str], Any]) -> Any:
    """The first entries of a port's table that are in use; UNSUPPORTED where it has no such table, Unmeasured
    if one cannot be read."""
    paths = entries(files, at, ENTRIES)
    if not paths:
        return UNSUPPORTED
    read = [files.read(path, parse) for path in paths]
    return first_unread(read) or tuple([value for value in read if value])


_SLOT = re.compile(r"^PCI_SLOT_NAME=(\S+)", re.MULTILINE)
_PCI_ID = re.compile(r"^PCI_ID=([0-9A-Fa-f]{1,4}):([0-9A-Fa-f]{1,4})$", re.MULTILINE)


def is_lag(device: str) -> bool:
    """Whether an RDMA device stands for both functions of its card, which are one bond: mlx5_core's own name
    for it (drivers/infiniband/hw/mlx5/main.c, "mlx5_bond_%d")."""
    return device.startswith("mlx5_bond_")


def is_sub_function(files: CapturedFiles, device: str) -> bool:
    """Whether an RDMA device is a sub-function, which has no PCI address of its own and shares its adapter's
    port: it stands on the auxiliary bus (drivers/base/auxiliary.c, auxiliary_uevent; rdma_rename.c of
    rdma-core)."""
    text = files.read(f"{BASE}/{device}/device/uevent", str)
    return isinstance(text, str) and "MODALIAS=auxiliary:" in text


def shares_port(files: CapturedFiles, device: str) -> bool:
    """Whether an RDMA device is a virtual function or a sub-function: its port and module are another's."""
    return files.has(f"{BASE}/{device}/device/physfn/uevent") or is_sub_function(files, device)


def card(pci: str) -> str:
    """The address of a function's card."""
    return pci.rpartition(".")[0]


def slot(text: str) -> str:
    """The PCI address in a device's uevent file; raises ValueError where there is none."""
    return searched(_SLOT, text)[1].lower()


def device_id(text: str) -> str:
    """The PCI vendor and device ("15b3:1021") in a device's uevent file; raises ValueError where there is
    none."""
    found = searched(_PCI_ID, text)
    return f"{found[1].lower():0>4}:{found[2].lower():0>4}"


@fact("ports", SYSFS, each="port")
def ports(captures: Captures) -> Any:
    """Every port of every RDMA device, in natural order of their names."""
    files = captures.files(SYSFS)
    result = tuple([_port(files, device, number) for device, number in numbered(files)])
    return partial_if(result, files.unreadable())


def _gids(files: CapturedFiles, at: str) -> Any:
    """How many of a port's first GIDs are in use; UNSUPPORTED where it has no such table, Unmeasured if one
    cannot be read."""
    gids = _table(files, at, gid)
    return len(gids) if isinstance(gids, tuple) else gids


def numbered(files: CapturedFiles) -> list[tuple[str, int]]:
    """Every port as its device and its number there, in natural order, without those of sub-functions."""
    folders = {path[:path.rfind("/") + 1] for path in files}
    named = {match.groups() for folder in folders if (match := _PORT.match(folder))}
    parts = {device for device in {device for device, _ in named} if is_sub_function(files, device)}
    found = {(device, int(number)) for device, number in named if device not in parts}
    return sorted(found, key=lambda at: (natural(at[0]), at[1]))


def pci_of(files: CapturedFiles, device: str) -> Any:
    """The PCI address of an RDMA device; Unmeasured where it cannot be read."""
    return files.read(f"{BASE}/{device}/device/uevent", slot)


def phys_state(files: CapturedFiles, device: str, number: int) -> Any:
    """The kernel's word for a port's physical state; Unmeasured where it cannot be read."""
    return files.read(f"{BASE}/{device}/ports/{number}/phys_state", _word)


def _port(files: CapturedFiles, device_name: str, number: int) -> Port:
    at = f"{BASE}/{device_name}/ports/{number}"
    pci = pci_of(files, device_name)
    device = files.read(f"{BASE}/{device_name}/device/uevent", device_id)
    layer = files.read(f"{at}/link_layer", nonempty)
    rate = f"{at}/rate"
    return Port(
        name=f"{device_name}/{number} ({pci})" if isinstance(pci, str) else f"{device_name}/{number}",
        device=device_name,
        pci=pci,
        number=number,
        kind=f"{device} {layer}" if isinstance(device, str) and isinstance(layer, str) else "",
        state=files.read(f"{at}/state", _word),
        phys_state=phys_state(files, device_name, number),
        rate_gbps=files.read(rate, _rate),
        link_layer=layer,
        link_downed=files.optional(f"{at}/counters/link_downed", _counted),
        lanes=files.read(rate, _lanes),
        lid=files.read(f"{at}/lid", hexadecimal),
        sm_lid=files.read(f"{at}/sm_lid", hexadecimal),
        gids=_gids(files, f"{at}/gids"),
        keys=_table(files, f"{at}/pkeys", hexadecimal),
        board=files.optional(f"{BASE}/{device_name}/board_id", nonempty),
        virtual=shares_port(files, device_name),
    )


# Virtual functions of mlx5 adapters (PCI ID database, vendor 15b3), and of BlueField.
VIRTUAL = tuple(f"15b3:{device}" for device in ("1014", "1016", "1018", "101a", "101c", "101e", "a2d3"))


def most_common_kind(ports: Iterable[Port]) -> tuple[Port, ...]:
    """The ports of the most common kind: a machine's compute ports where no plan names them.

    This separates the eight adapters beside the GPUs from the two of storage, or from a BlueField in either
    mode. Kinds of equal number all count, a port whose kind cannot be read always counts, and virtual
    functions count only where there is nothing else.
    """
    known = [(port, kind, virtual)
             for port, (kind, virtual) in readable(ports, lambda port: (port.kind, port.virtual))]
    real = [(port, kind) for port, kind, virtual in known if not virtual and not kind.startswith(VIRTUAL)]
    real = real or [(port, kind) for port, kind, _ in known]
    counts = Counter(kind for _, kind in real if kind)
    most = {kind for kind, count in counts.items() if count == max(counts.values())}
    return tuple(port for port, kind in real if not kind or kind in most)
