"""NVMe drives by the kernel: state, identity, PCI Express link and temperature of each, and those that only
the PCI bus shows.

Formats: drivers/nvme/host/sysfs.c (state, model, serial, firmware_rev, transport, address),
drivers/nvme/host/hwmon.c (temp1_input and temp1_max, in thousandths of a degree; temp1_alarm, the bit of the
drive's critical warning for a temperature),
Documentation/ABI/testing/sysfs-bus-pci (link speed and width). `device/..` is the port that the drive is
plugged into: a drive of generation 5 in a slot of generation 4 runs at 4, rightly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from healthcheck.facts.base import Captures, fact, why
from healthcheck.facts.files import CapturedFiles
from healthcheck.facts.gpu import PCI
from healthcheck.facts.parsing import SECTOR, flag, matching, milli, natural, pcie_lanes, pcie_speed, whole
from healthcheck.facts.pci import PASSED_ON
from healthcheck.facts.values import UNSUPPORTED, Fact, Unmeasured, Unread, first_unread, parted, partial_if
from healthcheck.model.probes import Probe, ProbeKind
from healthcheck.model.recording import Outcome

BASE = "/sys/class/nvme"
_LINK = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")
NVME = Probe(
    "nvme.sysfs", ProbeKind.FILES,
    paths=(
        *(f"{BASE}/nvme*/{name}"
          for name in ("state", "model", "serial", "firmware_rev", "transport", "address")),
        *(f"{BASE}/nvme*/device/{name}" for name in _LINK),
        f"{BASE}/nvme*/device/../max_link_speed", f"{BASE}/nvme*/device/../max_link_width",
    ),
)
# A probe of its own: the kernel reads it from the drive, and a drive in reset does not answer.
HEAT = Probe("nvme.temperature", ProbeKind.FILES,
             paths=tuple(f"{BASE}/nvme*/hwmon*/temp1_{name}" for name in ("input", "max", "alarm")))

NO_DRIVE = "NVMe drives (none here)"
NO_NAMESPACE = "NVMe namespaces (none here)"
_CLASS = re.compile(r"^PCI_CLASS=108[0-9A-Fa-f]{2}$", re.MULTILINE)
_BOUND = re.compile(r"^DRIVER=.{1,64}$", re.MULTILINE)
_PASSED_ON = frozenset(f"DRIVER={driver}" for driver in PASSED_ON)
# The controllers' folders hold their namespaces: nvme0n1, or nvme0c0n1 where several paths may lead to it.
NAMESPACES = Probe("nvme.namespaces", ProbeKind.FILES,
                   paths=tuple(f"{BASE}/nvme*/nvme*n*/{name}" for name in ("ro", "size")))
_NAMESPACE = re.compile(rf"{BASE}/(nvme[0-9]{{1,4}})/"
                        rf"(nvme[0-9]{{1,4}}(?:c[0-9]{{1,4}})?n[0-9]{{1,6}})/(?:ro|size)")


class Nvme(Fact):
    """One NVMe controller ("nvme3 (0000:2b:00.0)"). `pci` and the link are UNSUPPORTED for one that is
    reached over a network.

    `width` (lanes) and `gigatransfers` (GT/s a lane) are those of the link now, the `_best` ones what drive
    and slot support. `namespaces` counts those that hold any bytes, `bytes` is what they hold together;
    UNSUPPORTED over a network. A node without NVMe drives has one entry, all UNSUPPORTED.
    """

    name: str
    device: str
    pci: str
    state: str
    model: str
    serial: str
    firmware: str
    width: int
    width_best: int
    gigatransfers: float
    gigatransfers_best: float
    namespaces: int
    bytes: int


class NvmeNamespace(Fact):
    """One namespace, a block device ("nvme3n1"), and whether the kernel refuses writes to it."""

    name: str
    read_only: bool


class NvmeHeat(Fact):
    """A drive's composite temperature and its warning limit, in degrees Celsius; `limit` is 0 where it has
    none. `alarm`: the drive warns of a temperature, of any of its sensors."""

    name: str
    celsius: float
    limit: float
    alarm: bool


class NvmeBus(Fact):
    """NVMe controllers by PCI address: those on the bus, those among them that the kernel's driver runs, and
    those that were passed on, to a program (SPDK) or a virtual machine. `unread` says why the driver may run
    more of them, and `free` are those that no driver is bound to, so that it runs none of these."""

    name: str
    on_pci: tuple[str, ...]
    driven: tuple[str, ...]
    passed_on: tuple[str, ...]
    free: tuple[str, ...]
    unread: str


_line = matching(r"[^\n]{1,200}")


def _limit(text: str) -> float:
    """A drive without a limit reports 0 kelvin, or the highest number there is."""
    celsius = milli(text)
    return max(celsius, 0.0) if celsius < 200 else 0.0


_DRIVE = re.compile(rf"{BASE}/(nvme[0-9]{{1,4}})/")
_HWMON = re.compile(rf"{BASE}/([^/]*)/hwmon")


def _devices(captures: Captures) -> list[str]:
    return sorted({found[1] for found in map(_DRIVE.match, captures.files(NVME)) if found}, key=natural)


@fact("nvmes", NVME, besides=(NAMESPACES,), each="nvme")
def nvmes(captures: Captures) -> Any:
    """Every NVMe controller, in natural order of their names."""
    files, devices = captures.files(NVME), captures.once(_devices)
    sizes = _sizes(captures, devices)
    result = tuple([_drive(files, device, sizes[device]) for device in devices]) or (Nvme.absent(NO_DRIVE),)
    return partial_if(result, files.unreadable())


@fact("nvme_namespaces", NAMESPACES, each="nvme_namespace")
def nvme_namespaces(captures: Captures) -> Any:
    """Every namespace, in natural order of their names."""
    files = captures.files(NAMESPACES)
    at = {found[2]: path.rpartition("/")[0] for path in files if (found := _NAMESPACE.fullmatch(path))}
    result = tuple([NvmeNamespace(name=name, read_only=files.read(f"{at[name]}/ro", flag))
                    for name in sorted(at, key=natural)]) or (NvmeNamespace.absent(NO_NAMESPACE),)
    return partial_if(result, files.unreadable())


def _sizes(captures: Captures, devices: list[str]) -> Mapping[str, Any]:
    """By drive, the bytes of each of its namespaces that holds any."""
    try:
        files = captures.files(NAMESPACES)
    except Unread as error:
        return dict.fromkeys(devices, Unmeasured(str(error)))
    if captures.outcome(NAMESPACES) is not Outcome.DONE:
        return dict.fromkeys(devices, Unmeasured(why(NAMESPACES, captures.capture(NAMESPACES))))
    # A folder that could not be listed is an entry of its own.
    paths = {device: [folder for folder in (BASE, f"{BASE}/{device}") if files.has(folder)]
             for device in devices}
    for device, name in {found.groups(): None for found in map(_NAMESPACE.fullmatch, files) if found}:
        if device in paths:
            paths[device].append(f"{BASE}/{device}/{name}/size")
    read = {device: [files.read(path, whole) for path in held] for device, held in paths.items()}
    return {device: first_unread(sizes) or [size * SECTOR for size in sizes if size > 0]
            for device, sizes in read.items()}


def _drive(files: CapturedFiles, device: str, sizes: Any) -> Nvme:
    at = f"{BASE}/{device}"
    transport = _transport(files, at)
    local = transport == "pcie" or isinstance(transport, Unmeasured)
    pci: Any = files.read(f"{at}/address", _line) if local else UNSUPPORTED
    if not local:
        sizes = UNSUPPORTED

    def link(file: str, parse: Callable[[str], Any]) -> Any:
        return files.optional(f"{at}/device/{file}", parse) if local else UNSUPPORTED

    return Nvme(
        name=f"{device} ({pci})" if isinstance(pci, str) else device,
        device=device,
        pci=pci,
        state=files.read(f"{at}/state", _line),
        model=files.read(f"{at}/model", _line),
        serial=files.read(f"{at}/serial", _line),
        firmware=files.read(f"{at}/firmware_rev", _line),
        width=link("current_link_width", pcie_lanes),
        width_best=_best(link("max_link_width", pcie_lanes), link("../max_link_width", pcie_lanes)),
        gigatransfers=link("current_link_speed", pcie_speed),
        gigatransfers_best=_best(link("max_link_speed", pcie_speed), link("../max_link_speed", pcie_speed)),
        namespaces=len(sizes) if isinstance(sizes, list) else sizes,
        bytes=sum(sizes) if isinstance(sizes, list) else sizes,
    )


def _transport(files: CapturedFiles, at: str) -> Any:
    """How a drive is reached; older kernels do not say it."""
    return files.read(f"{at}/transport", _line) if files.has(f"{at}/transport") else "pcie"


def _best(drive: Any, slot: Any) -> Any:
    """What both support; the slot counts where it is known."""
    if unread := first_unread((drive, slot)):
        return unread
    return drive if slot is UNSUPPORTED or drive is UNSUPPORTED else min(drive, slot)


@fact("nvme_heat", HEAT, each="nvme_sensor")
def nvme_heat(captures: Captures) -> Any:
    """The temperature of every NVMe drive with a sensor."""
    files = captures.files(HEAT)
    result = tuple([NvmeHeat(
        name=name, celsius=files.read(f"{at}/temp1_input", milli),
        limit=files.read(f"{at}/temp1_max", _limit) if files.has(f"{at}/temp1_max") else 0.0,
        alarm=files.read(f"{at}/temp1_alarm", flag) if files.has(f"{at}/temp1_alarm") else False)
        for name, at in _sensors(files)]) or (
        NvmeHeat.absent("NVMe temperatures (none here)"),)
    return partial_if(result, files.unreadable())


def _sensors(files: CapturedFiles) -> list[tuple[str, str]]:
    """For every sensor the drive's name, and its folder."""
    parts = [path.rpartition("/") for path in files]
    found = sorted({folder for folder, _, name in parts if name.startswith("temp1_")}, key=natural)
    return [(at.split("/")[4], at) for at in found]


def with_sensor(captures: Captures) -> frozenset[str]:
    """The drives of whose sensor the kernel shows the alarm."""
    capture = captures.capture(HEAT)
    return frozenset([found[1] for path, entry in capture.files.items()
                      if path.endswith("/temp1_alarm") and entry.outcome is Outcome.DONE
                      and (found := _HWMON.match(path))] if capture is not None else ())


def over_network(captures: Captures, device: str) -> bool:
    """Whether the kernel says that this controller is reached over a network (NVMe-oF)."""
    return captures.whole_text(NVME, f"{BASE}/{device}/transport") not in ("", "pcie")


def _on_pci(captures: Captures) -> Any:
    """The PCI addresses of NVMe controllers, each with the line that names its driver, "" without one."""
    bus = captures.files(PCI)
    found = {path.split("/")[-2]: match[0] if (match := _BOUND.search(text)) else "" for path in bus
             if path.endswith("/uevent") and "PCI_CLASS=108" in (text := bus.text(path))
             and _CLASS.search(text)}
    return partial_if(found, bus.unreadable())


@fact("nvme_bus", PCI, NVME)
def nvme_bus(captures: Captures) -> Any:
    """NVMe controllers that the PCI bus holds (class 0108), and those that the driver runs."""
    found, files = captures.once(_on_pci), captures.files(NVME)
    driven, unread = [], ""
    devices = captures.once(_devices)
    for device in devices:
        at = f"{BASE}/{device}"
        # It says whether the drive must be on the bus.
        pci = transport = _transport(files, at)
        if transport == "pcie":
            pci = files.read(f"{at}/address", _line)
        if isinstance(pci, Unmeasured):
            unread = unread or pci.reason
        elif transport == "pcie":
            driven.append(pci)
    if files.unreadable():
        # The fact `nvmes` reports what could not be read of a drive.
        files.ignore(path.replace("*", device[4:]) for device in devices for path in NVME.paths)
    on_pci: dict[str, str]
    on_pci, lacking = parted(found)
    value = NvmeBus("NVMe drives", tuple(sorted(on_pci)), tuple(sorted(driven)),
                    tuple(sorted(pci for pci, bound in on_pci.items() if bound in _PASSED_ON)),
                    tuple(sorted(pci for pci, bound in on_pci.items() if not bound)), unread)
    return partial_if(value, lacking or files.unreadable())
