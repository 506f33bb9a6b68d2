"""What a node shows of whether GPUs belong in it, of any maker: the PCI bus, kernel modules, installed
drivers, firmware's name of the machine, the kernel log, and what earlier snapshots of it showed.

It serves one question only: may a node for which no one named a SKU be taken for a machine without GPUs? A
machine whose GPUs have all left the bus shows none either, so that each of these has to be read and to say no
(`healthcheck.judge.gpuless`). The kernel log and systemd's list can only say yes: they forget.

PCI classes and subclasses are those of the PCI code and ID assignment specification, vendors those of the PCI
ID database. Where drivers leave their files: the Debian, Ubuntu and RPM packages of NVIDIA's driver, DKMS,
and NVIDIA's own installer (NVIDIA driver README, "Installed components").
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from healthcheck.facts.base import BY_BUILDER, Captures, build_fact, subjects_of
from healthcheck.facts.driver import FILES, MODULE, PROC
from healthcheck.facts.firmware import DMI, firmware, installation
from healthcheck.facts.gpu import NVIDIA_VENDOR, PCI, gpus, uevent
from healthcheck.facts.gpuservers import is_gpu_server, is_placeholder
from healthcheck.facts.kernel import KMSG
from healthcheck.facts.kernel import LOG as KERNEL_LOG
from healthcheck.facts.module import MODULES, live
from healthcheck.facts.module import PATH as LOADED
from healthcheck.facts.unit import units
from healthcheck.facts.values import Fact, Unread, reading
from healthcheck.model.probes import KIB, Probe, ProbeKind
from healthcheck.model.recording import Capture, Outcome, Recording
from inventory.text import clean, many

# Small files, of which only the presence counts; a module's first bytes are read in vain.
INSTALLED = Probe("gpu.installed", ProbeKind.FILES, limit=32 * KIB, paths=(
    "/usr/src/nvidia*/dkms.conf", "/lib/modules/*/*/nvidia.ko*", "/lib/modules/*/*/*/nvidia.ko*",
    "/lib/modules/*/kernel/drivers/video/nvidia.ko*", "/etc/OpenCL/vendors/nvidia.icd",
    "/usr/lib/systemd/system/nvidia-*.service", "/lib/systemd/system/nvidia-*.service",
    "/etc/systemd/system/nvidia-*.service", "/usr/lib/modprobe.d/nvidia*.conf",
    "/etc/modprobe.d/nvidia*.conf", "/etc/nvidia-container-runtime/config.toml",
    "/var/lib/dpkg/info/nvidia-*.list", "/var/lib/dpkg/info/libnvidia-*.list",
    "/usr/src/amdgpu-*/dkms.conf", "/opt/rocm/.info/version"))
# What proves that a machine has no GPUs; the rest that is read can only speak against it.
PROBES = (PCI, MODULES, FILES, DMI, INSTALLED)
GPUS_CAPTURE = "muster.gpus"

_OF_GPUS = frozenset(("nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset", "nvidia_peermem",
                      "nv_peer_mem", "nouveau", "nova_core", "amdgpu", "habanalabs"))
_VGA, _3D, _OTHER_DISPLAY = 0x0300, 0x0302, 0x0380
_ACCELERATORS = 0x12
_BRIDGE = 0x0604
_AMD, _INTEL, _MELLANOX = "1002", "8086", "15b3"
# Emulated displays of virtual machines: QEMU and virtio, VMware, VirtualBox, Hyper-V.
_EMULATED = frozenset(("1234", "1af4", "1b36", "15ad", "80ee", "1414"))
# PCI Express switches, behind which servers put GPUs: PLX, Microsemi Switchtec, Broadcom PEX88000 and newer.
_SWITCHES = re.compile(r"10b5:|11f8:|1000:c0")
_NETWORK = 0x02
_MANY_ADAPTERS = 4      # of cards with 200 Gb/s and more: one for one or two GPUs
# The driver's messages, and the kernel's list of devices at boot ("pci 0000:18:00.0: [10de:2330] type 00").
_IN_LOG = re.compile(
    r"^[^;\n]{0,300};(?:NVRM: |nvidia[ -]|nouveau |amdgpu |pci \S{1,40} \[10de:[0-9a-f]{4}\])", re.MULTILINE)
_LOG_WORDS = ("NVRM: ", "nvidia", "nouveau ", "amdgpu ", "[10de:")      # every such line holds one of them


@dataclass(frozen=True)
class GpuSigns:
    """What one node shows. `signs` say, in words, that GPUs belong in it, `unread` what could not be read, so
    that it says neither. `gpus`: there are GPUs or accelerators on its bus, or its driver lists them.

    `machine` is firmware's name of its maker and product, by which equals are found, "" where there is none.
    `identities` tell the machine from others, as `healthcheck.store.hardware.machine_identity` does.
    """

    signs: tuple[str, ...]
    unread: tuple[str, ...]
    gpus: bool
    machine: str
    identities: tuple[str, ...]


def gpu_signs(captures: Captures) -> GpuSigns:
    """What these captures show; earlier snapshots are for `shown_before`."""
    signs: list[str] = []
    unread: list[str] = []
    there = ""
    try:
        devices = _devices(captures)
        there = _on_bus(devices)
        signs += _bus(devices)
    except Unread as error:
        unread.append(f"the PCI bus was not read ({error})")
    if listed := _listed(captures):
        signs.append(f"it has {listed}")
    for what, probe, look in (("whether a driver is loaded", FILES, _driver),
                              ("the kernel's modules", MODULES, _modules),
                              ("which drivers are installed", INSTALLED, _installed)):
        try:
            signs += look(captures)
        except Unread as error:
            unread.append(f"not read: {what} ({probe.id}: {error})")
    machine, names = _named(captures)
    signs += [f"firmware calls it {name}, which is built for GPUs" for name in names if is_gpu_server(name)]
    if not machine:
        unread.append("firmware gives the machine no name (DMI)")
    signs += [*_services(captures), *_log(captures)]
    return GpuSigns(tuple(dict.fromkeys(clean(sign, 200) for sign in signs)),
                    tuple(clean(why, 300) for why in unread), bool(there or listed), machine,
                    tuple(_identities(captures)))


def shown_before(previous: Recording | None) -> str:
    """What an earlier snapshot of the node showed of GPUs, in words; "" where none is known to have shown
    any. `previous` is the newest before this one, of any boot."""
    if previous is None:
        return ""
    kept = previous.captures.get(GPUS_CAPTURE)
    return clean(kept.text, 200) if kept is not None and kept.text else _gpus(previous)


def gpus_capture(recording: Recording, previous: Recording | None) -> Capture | None:
    """The capture that is stored with this snapshot: that the node has or had GPUs, which no later snapshot
    forgets; None where none showed any."""
    words = shown_before(previous) or _gpus(recording)
    return Capture(Outcome.DONE, bytes=len(words), text=words) if words else None


def _gpus(recording: Recording) -> str:
    if recording.host is None:
        return ""
    captures = Captures(recording)
    try:
        found = _on_bus(_devices(captures))
    except Unread:
        found = ""
    return found or _listed(captures)


@dataclass(frozen=True)
class _Device:
    slot: str       # domain and bus
    id: str         # "10de:2330"
    cls: int        # class and subclass


def _devices(captures: Captures) -> Sequence[_Device]:
    """All of the PCI bus; raises Unread unless it was wholly read."""
    files = captures.files(PCI)
    found = []
    for path in files:
        fields = uevent(files.text(path))
        slot = fields.get("PCI_SLOT_NAME", path).lower()
        try:
            found.append(_Device(slot.rpartition(":")[0], fields["PCI_ID"].lower(),
                                 int(fields["PCI_CLASS"], 16) >> 8))
        except (KeyError, ValueError):
            raise Unread(f"{path} is not in the kernel's format") from None
    if not found or captures.outcome(PCI) is not Outcome.DONE:
        raise Unread("there is no device, or not all of them")
    return found


def _is_gpu(device: _Device) -> bool:
    vendor = device.id[:4]
    if device.cls >> 8 == _ACCELERATORS or device.cls == _3D:
        return True
    if device.cls == _OTHER_DISPLAY:
        return vendor not in _EMULATED
    # An Intel display on the first bus is a part of the processor or chipset.
    return device.cls == _VGA and (vendor in (NVIDIA_VENDOR.lower(), _AMD)
                                   or (vendor == _INTEL and not device.slot.endswith(":00")))


def _on_bus(devices: Sequence[_Device]) -> str:
    """The GPUs and accelerators on the bus, in words; "" for none."""
    found = sorted(device.id for device in devices if _is_gpu(device))
    return f"{many(len(found), 'GPU')} on PCI ({', '.join(sorted(set(found))[:4])})" if found else ""


def _bus(devices: Sequence[_Device]) -> Iterator[str]:
    if words := _on_bus(devices):
        yield f"it has {words}"
    elif ours := [device for device in devices if device.id.startswith(NVIDIA_VENDOR.lower())]:
        yield f"it has {many(len(ours), 'NVIDIA device')} on PCI ({ours[0].id})"
    switches = [device for device in devices if device.cls == _BRIDGE and _SWITCHES.match(device.id)]
    if switches:
        yield f"it has a PCI Express switch ({switches[0].id}), behind which servers have GPUs"
    # Virtual functions of one adapter share its bus.
    adapters = {device.slot for device in devices
                if device.cls >> 8 == _NETWORK and device.id.startswith(_MELLANOX)}
    if len(adapters) >= _MANY_ADAPTERS:
        yield f"it has {len(adapters)} NVIDIA network adapters, as GPU servers have"


def _listed(captures: Captures) -> str:
    """That the driver lists GPUs, in words."""
    there = len(subjects_of(gpus, captures)[0])
    return f"{many(there, 'GPU')} that its driver lists" if there else ""


def _driver(captures: Captures) -> Iterator[str]:
    files = captures.files(FILES)
    for path in (MODULE, PROC):
        if path not in files:
            raise Unread(f"{path} was not captured")
        if files.has(path):
            yield f"NVIDIA's driver is loaded ({path})"


def _modules(captures: Captures) -> Iterator[str]:
    files = captures.files(MODULES)
    if LOADED in files and not files.has(LOADED):
        return      # a kernel without modules
    try:
        loaded = live(files.text(LOADED))
    except ValueError:
        raise Unread(f"{LOADED} is not in the kernel's format") from None
    if found := sorted(_OF_GPUS & loaded):
        yield f"the kernel module {found[0]} is loaded"


def _installed(captures: Captures) -> Iterator[str]:
    """A folder that could not be listed is no proof of anything."""
    files = captures.files(INSTALLED)
    if found := [path for path in files if files.has(path) and "*" not in path
                 and files.outcome(path) in (Outcome.DONE, Outcome.TRUNCATED)]:
        yield f"a GPU driver's files are installed ({sorted(found)[0]})"
    elif captures.outcome(INSTALLED) is not Outcome.DONE or files.unreadable():
        raise Unread(files.unreadable() or "not wholly")


def _named(captures: Captures) -> tuple[str, list[str]]:
    """Maker and product as firmware names them, "" where it does not; and all names of product and board."""
    maker, product, board = (_of_firmware(captures, name) for name in ("maker", "product", "board"))
    names = [name for name in (product, board) if name]
    return " ".join(filter(None, (maker, product or board))) if names else "", names


def _identities(captures: Captures) -> Iterator[str]:
    if installed := installation(captures):
        yield f"machine={installed}"
    if serial := _of_firmware(captures, "serial"):
        yield f"chassis={hashlib.sha256(f'muster {serial}'.encode()).hexdigest()[:16]}"


def _of_firmware(captures: Captures, field: str) -> str:
    found = build_fact(BY_BUILDER[firmware], captures)
    text = reading(found, field) if isinstance(found, Fact) else ""
    return text if isinstance(text, str) and not is_placeholder(text) else ""


def _services(captures: Captures) -> Iterator[str]:
    found = build_fact(BY_BUILDER[units], captures)
    states = reading(found, "states") if isinstance(found, Fact) else None
    if isinstance(states, Mapping):
        for name, (load, _, _) in sorted(states.items()):
            if name.startswith("nvidia-") and load != "not-found":
                yield f"systemd has {name}.service"
                return


def _log(captures: Captures) -> Iterator[str]:
    capture = captures.capture(KERNEL_LOG)
    entry = capture.files.get(KMSG) if capture is not None else None
    if entry is not None and any(word in entry.text for word in _LOG_WORDS) and (
            match := _IN_LOG.search(entry.text)):
        yield f"the kernel log names a GPU ({match[0].partition(';')[2].strip()})"
