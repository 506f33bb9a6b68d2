"""Settings in the PCI Express configuration space of GPUs, RDMA adapters and the ports above them: payload
and read request sizes, relaxed ordering, ACS.

Registers and their fields: PCI Express Base Specification, Device Control and ACS Control;
include/uapi/linux/pci_regs.h. Drivers that have plain Ethernet adapters as well (bnxt_en, ice, idpf, ionic)
count where the device has an RDMA device. A virtual function that was handed to this machine has a Device
Control of zeros (Single Root I/O Virtualization specification: its physical function holds the settings), and
is left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.parsing import matched
from healthcheck.facts.pcie import ADAPTERS, BASE, ETHERNET_ADAPTERS
from healthcheck.facts.port import BASE as RDMA
from healthcheck.facts.port import SYSFS, slot
from healthcheck.facts.values import UNSUPPORTED, Fact, Unmeasured, Unread, partial_if
from healthcheck.model.probes import Probe, ProbeKind
from healthcheck.model.recording import Outcome

DEVICES = ("nvidia", *ADAPTERS, *ETHERNET_ADAPTERS)
CONFIG = Probe("pcie.config", ProbeKind.CONFIG, paths=tuple(f"{BASE}/{driver}/*:*" for driver in DEVICES),
               root=True)

_WORDS = re.compile(
    r"(?:driver ([a-z0-9_-]{1,32})\n)?(?:conventional"
    r"|flags ([0-9a-f]{4})\ndevcap ([0-9a-f]{8})\ndevctl ([0-9a-f]{4})(?:\nacs [0-9a-f]{4} ([0-9a-f]{4}))?)")
_PATH = re.compile(r"/sys/devices/[^\n]{0,400}/([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])/config")
_ROOT, _SWITCH_DOWN = 4, 6
_SETTINGS = 0x7FFF  # all of Device Control but the bit that resets the function
_LARGEST = 5    # 128 << 5: 4096 bytes


class Function(NamedTuple):
    """One device or port. `driver` is empty for a port; `place` is for people: "mlx5_core 0000:18:00.0",
    "port 0000:17:00.0 above mlx5_core 0000:18:00.0". `above` is the address of the port above it, empty where
    that is not PCI Express.

    Sizes are in bytes: the payload limit in use, the supported one, and the largest read request. `relaxed`:
    it may ask for relaxed ordering. `acs` is the ACS Control register, 0 where there is none; `switch`: it is
    a downstream port of a switch.
    """

    address: str
    driver: str
    place: str
    above: str
    payload: int
    payload_supported: int
    read_request: int
    relaxed: bool
    acs: int
    switch: bool


class PcieConfig(Fact):
    """GPUs, RDMA adapters and the ports above them, in the order of their paths; `switch_ports` and
    `adapters` are some of them.

    `switch_ports` are the downstream ports of switches with two or more of them: below a single one (in a
    BlueField, for example) there are no peers. Each is UNSUPPORTED where all was read and there is none.
    """

    name: str
    functions: tuple[Function, ...]
    switch_ports: tuple[Function, ...]
    adapters: tuple[Function, ...]


def _size(code: int) -> int:
    if code > _LARGEST:
        raise ValueError(code)
    return 128 << code


def words(text: str) -> tuple[str, tuple[int, int, int, int] | None]:
    """The driver's name, and flags, Device Capabilities, Device Control and ACS Control; None for a device
    without PCI Express."""
    match = matched(_WORDS, text)
    driver, flags, devcap, devctl, acs = match.groups()
    if flags is None:
        return driver or "", None
    if (int(flags, 16) >> 4 & 0xF in (_ROOT, _SWITCH_DOWN)) != (acs is not None):
        raise ValueError(text)
    return driver or "", (int(flags, 16), int(devcap, 16), int(devctl, 16), int(acs or "0", 16))


def _function(path: str, text: str) -> tuple[str, Function | None]:
    driver, held = words(text)
    if held is None:
        return driver, None
    flags, devcap, devctl, acs = held
    if driver and not devctl & _SETTINGS:
        return driver, None
    address = path.split("/")[-2]
    return driver, Function(
        address, driver, f"{driver} {address}" if driver else f"port {address}", "", _size(devctl >> 5 & 7),
        _size(devcap & 7),
        _size(devctl >> 12 & 7), bool(devctl & _RELAXED), acs, flags >> 4 & 0xF == _SWITCH_DOWN)


_RELAXED = 0x10         # PCI_EXP_DEVCTL_RELAX_EN


def _with_rdma(captures: Captures) -> frozenset[str]:
    """The PCI addresses of all RDMA devices; raises Unread unless each was read."""
    files = captures.files(SYSFS)
    if captures.outcome(SYSFS) is not Outcome.DONE:
        raise Unread(f"{SYSFS.id} was not wholly read")
    if files.has(RDMA):
        files.text(RDMA)        # it could not be listed
    return frozenset(slot(files.text(path)) for path in files
                     if path.startswith(f"{RDMA}/") and path.endswith("/device/uevent"))


def _left_out(captures: Captures, functions: Iterable[Function]) -> tuple[frozenset[str], str]:
    """Addresses of Ethernet adapters without an RDMA device; and why that is not known, if so."""
    plain = frozenset(one.address for one in functions if one.driver in ETHERNET_ADAPTERS)
    if not plain:
        return plain, ""
    try:
        return plain - _with_rdma(captures), ""
    except (Unread, ValueError) as error:
        return plain, f"which Ethernet adapters have RDMA is not known: {error}"


@fact("pcie_config", CONFIG, besides=(SYSFS,))
def pcie_config(captures: Captures) -> Any:
    """Every function that could be read; where one could not, the rest is Partial."""
    files = captures.files(CONFIG)
    found: dict[str, Function] = {}
    below: Counter[str] = Counter()     # devices below each folder, readable or not
    unread = ""
    for path in files:
        if _PATH.fullmatch(path):
            folder = _parent(path)
            below[_parent(folder)] += 1
            held = files.read(path, partial(_function, path))
            if isinstance(held, Unmeasured):
                unread = unread or held.reason
            elif held[1] is not None:
                found[folder] = held[1]
    plain, unknown = _left_out(captures, found.values())
    unread = unread or files.unreadable() or unknown or ""
    first, kept = _below(found, plain)
    functions = {folder: _placed(folder, one, found, first) for folder, one in found.items()
                 if one.address not in plain and (one.driver or folder not in first or folder in kept)}

    def some(chosen: Iterable[Function]) -> Any:
        return tuple(chosen) or (() if unread else UNSUPPORTED)

    made = PcieConfig(
        "PCI Express settings", some(functions.values()),
        some(one for folder, one in functions.items() if one.switch and below[_parent(folder)] > 1),
        some(one for one in functions.values() if one.driver in (*ADAPTERS, *ETHERNET_ADAPTERS)))
    return partial_if(made, unread)


def _below(found: Mapping[str, Function], plain: Collection[str]) -> tuple[dict[str, str], set[str]]:
    """For each folder with devices below it, the place of the first one; and the folders with one below them
    that is not left out."""
    first: dict[str, str] = {}
    kept: set[str] = set()
    for folder, one in found.items():
        above = _parent(folder) if one.driver else ""
        while above:
            first.setdefault(above, one.place)
            if one.address not in plain:
                kept.add(above)
            above = _parent(above)
    return first, kept


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _placed(folder: str, held: Function, found: Mapping[str, Function], first: Mapping[str, str]) -> Function:
    """The function with the port above it, and a port with the first device below it."""
    above = found.get(_parent(folder))
    below = "" if held.driver else first.get(folder)
    return held._replace(place=f"{held.place} above {below}" if below else held.place,
                         above=above.address if above else "")
