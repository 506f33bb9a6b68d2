"""A snapshot's data of a node's components for the store: serial numbers by slot, and counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from healthcheck.facts.base import BY_BUILDER, Captures, build_fact, subjects_of
from healthcheck.facts.components import hardware_of
from healthcheck.facts.disk import disk_health
from healthcheck.facts.firmware import Dimms, Firmware, dimms, firmware, installation
from healthcheck.facts.firmwareversions import firmware_reading
from healthcheck.facts.gpu import gpus
from healthcheck.facts.nvme import nvmes
from healthcheck.facts.port import ports
from healthcheck.facts.values import reading
from healthcheck.facts.values import readings as fact_readings
from healthcheck.model.firmware import FirmwareReading
from healthcheck.model.hardware import Now
from healthcheck.model.recording import Recording
from healthcheck.store.shown import shown
from healthcheck.store.telemetry import NOTHING, Telemetry
from inventory.text import clean

# By fact: the kind of component, and the counters of it that are worth a trend over weeks.
_GPU = ("ecc_corrected_lifetime", "ecc_uncorrected_lifetime", "sram_uncorrected_lifetime", "rows_corrected",
        "rows_uncorrected", "pcie_replays", "pages_retired_corrected", "pages_retired_uncorrected")
_PORT = ("link_downed",)
# What makers leave where a serial number should be.
_PLACEHOLDERS = ("N/A", "NONE", "UNKNOWN", "NOT SPECIFIED", "NOT AVAILABLE", "DEFAULT STRING",
                 "TO BE FILLED BY O.E.M.", "SYSTEM SERIAL NUMBER", "EMPTY", "0123456789", "123456789")


@dataclass(frozen=True)
class Component:
    """Something with a serial number of its own: `kind` is gpu, hca, nvme, disk, dimm, board or chassis,
    `slot` where it sits (a PCI address, a device's name, or the firmware's name of a slot).

    `name` is what findings call it at this look ("GPU 3").
    """

    kind: str
    slot: str
    serial: str
    name: str


@dataclass(frozen=True)
class CounterReading:
    """A counter's value; `slot` as a component's."""

    slot: str
    name: str
    value: float


@dataclass(frozen=True)
class NodeReadings:
    """One snapshot of one node. `kinds` are the kinds of component that were read completely:
    others of them are absent.

    `boot` names the node's boot, `machine` its installation, both empty where the node does not say. `shown`
    is what of the look is kept until the next one, `hardware` what certificates are held against, and
    `firmware` what firmware components run.
    """

    components: tuple[Component, ...]
    counters: tuple[CounterReading, ...]
    kinds: frozenset[str]
    boot: str = ""
    shown: Telemetry = NOTHING
    hardware: Now | None = None
    machine: str = ""
    firmware: FirmwareReading | None = None


def readings(recording: Recording) -> NodeReadings:
    """What a reached node's recording tells; what could not be read is left out."""
    captures = Captures(recording)
    components: list[Component] = []
    counters: list[CounterReading] = []
    whole: set[str] = set()
    for kind, builder, slot, named in (("gpu", gpus, "pci", _GPU), ("nvme", nvmes, "name", ()),
                                       ("port", ports, "name", _PORT)):
        subjects, complete = subjects_of(builder, captures)
        if complete:
            whole.add(kind)
        for subject in subjects:
            at = reading(subject, slot)
            if not isinstance(at, str):
                whole.discard(kind)
                continue
            at = _slot(at)
            serial = next(_serials(subject), None)
            if serial is not None:
                components.append(Component(kind, at, serial, subject.name))
            else:
                whole.discard(kind)
            counters += [CounterReading(at, name, float(number)) for name in named
                         if type(number := reading(subject, name)) is int]
    chassis = build_fact(BY_BUILDER[firmware], captures)
    if isinstance(chassis, Firmware):
        for kind, field in (("chassis", "serial"), ("board", "board_serial")):
            if (serial := next(_serials(chassis, field), None)) is not None:
                components.append(Component(kind, kind, serial, kind))
                whole.add(kind)
    hardware = hardware_of(recording, captures)
    components += _adapters(hardware, whole)
    components += _disks(captures, whole)
    components += _modules(captures, whole)
    boot = recording.host.boot_id if recording.host is not None else ""
    return NodeReadings(tuple(components), tuple(counters), frozenset(whole - {"port"}), clean(boot, 64),
                        shown(recording, captures), hardware, installation(captures),
                        firmware_reading(captures))


def _adapters(hardware: Now, whole: set[str]) -> Iterator[Component]:
    """RDMA adapters by the GUID that stands for their serial number (`healthcheck.facts.components`)."""
    found = {name.partition(" ")[2]: part.get("uuid") for name, part in hardware.hardware.items()
             if name.startswith("nic ")}
    if "nic" in hardware.whole and all(found.values()):
        whole.add("hca")
    for slot, number in found.items():
        if number:
            yield Component("hca", slot, number, f"hca at {slot}")


def _disks(captures: Captures, whole: set[str]) -> Iterator[Component]:
    """SATA and SAS drives as smartctl shows them; NVMe drives are known by the kernel."""
    disks, complete = subjects_of(disk_health, captures)
    taken: set[str] = set()
    if complete:
        whole.add("disk")
    for disk in disks:
        slot = _slot(disk.name)
        if slot.startswith("nvme"):
            continue
        serial = next(_serials(disk, "serial"), None)
        if serial is None or slot in taken:
            whole.discard("disk")
            continue
        taken.add(slot)
        yield Component("disk", slot, serial, disk.name)


def _modules(captures: Captures, whole: set[str]) -> Iterator[Component]:
    """Memory modules, for root. The bank tells slots of one name apart."""
    value = build_fact(BY_BUILDER[dimms], captures)
    modules = fact_readings(value).get("modules") if isinstance(value, Dimms) else None
    if not isinstance(modules, tuple):
        return
    names = Counter(module.slot for module in modules)
    if not fact_readings(value).get("unread"):
        whole.add("dimm")
    for module in modules:
        if is_number(module.serial):
            slot = clean(f"{module.slot} {module.bank}" if names[module.slot] > 1 else module.slot, 64)
            yield Component("dimm", slot, module.serial, f"module {slot}")
        else:
            whole.discard("dimm")


def _slot(text: str) -> str:
    """An NVMe drive's or port's name goes on with its model or address, which the slot is without."""
    return clean(text.partition(" ")[0], 64)


def _serials(subject: Any, *fields: str) -> Iterator[str]:
    """A board's serial number, else the GPU's UUID. Some boards have none, or all the same."""
    for field in fields or ("serial", "uuid"):
        value = fact_readings(subject).get(field)
        if isinstance(value, str) and is_number(value):
            yield clean(value.strip(), 64)


def is_number(text: str) -> bool:
    """Whether it is a serial number, and not what a maker leaves in its place."""
    return bool(text.strip("0 ")) and text.strip().upper() not in _PLACEHOLDERS
