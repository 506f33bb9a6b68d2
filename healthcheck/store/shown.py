"""A snapshot's telemetry: probes and their durations, GPUs, ports, versions, Xids."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from healthcheck.facts.base import BY_BUILDER, Captures, build_fact
from healthcheck.facts.gpu import Gpu, gpus
from healthcheck.facts.host import Versions, versions
from healthcheck.facts.port import ports
from healthcheck.facts.values import Partial, reading
from healthcheck.facts.xid import Xids, xids
from healthcheck.model.recording import Recording
from inventory.text import clean

# A node that lies cannot make more of itself than that; the largest machines have 16 GPUs and some 20 ports.
MOST_DEVICES = 64
_NS = 1e-9


@dataclass(frozen=True)
class GpuTelemetry:
    """One GPU; what could not be read is None. `id` is its UUID (its address where it has none),
    by which its own counters are followed.

    `counts` are what it has counted itself, by the names in `COUNTED`; those of slowdowns are seconds.
    """

    pci: str
    index: int
    id: str
    serial: str
    model: str
    vbios: str
    temperature: float | None
    watts: float | None
    ecc_corrected_lifetime: float | None
    counts: dict[str, float]

    def to_document(self) -> dict[str, Any]:
        """As the store keeps it, under the field names of its first version."""
        return {_STORED_AS.get(name, name): value for name, value in vars(self).items()}

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> GpuTelemetry:
        """The GPU of such a document."""
        return cls(**{field: document[_STORED_AS.get(field, field)] for field in cls.__annotations__})


_STORED_AS = {"ecc_corrected_lifetime": "ecc_corrected"}


@dataclass(frozen=True)
class PortTelemetry:
    """One port of an adapter; a virtual function is none."""

    name: str
    pci: str
    link_downed: float | None


@dataclass(frozen=True)
class Telemetry:
    """Of one look at one node. `probes` are (id, outcome, seconds); `xids` are (seconds since boot, number),
    None where the kernel's log was not read."""

    probes: tuple[tuple[str, str, float], ...] = ()
    gpus: tuple[GpuTelemetry, ...] = ()
    ports: tuple[PortTelemetry, ...] = ()
    driver: str = ""
    kernel: str = ""
    boot: str = ""
    xids: tuple[tuple[float, int], ...] | None = None


NOTHING = Telemetry()

# Counters of a GPU that the store adds up to counters of its node, each a sum of readings (nvml.h).
COUNTED: dict[str, tuple[str, ...]] = {
    "ecc_uncorrected": ("ecc_uncorrected_lifetime",), "rows_corrected": ("rows_corrected",),
    "rows_uncorrected": ("rows_uncorrected",),
    "slow_thermal": ("slowdown_hw_thermal_ns", "slowdown_sw_thermal_ns"),
    "slow_power_brake": ("slowdown_hw_power_brake_ns",),
}


def shown(recording: Recording, captures: Captures) -> Telemetry:
    """What a reached node's recording shows; what could not be read is left out."""
    software = build_fact(BY_BUILDER[versions], captures)
    known = software if isinstance(software, Versions) else None
    return Telemetry(
        tuple((name, capture.outcome.value, round(capture.seconds, 3))
              for name, capture in sorted(recording.captures.items())),
        tuple(_gpu(gpu) for gpu in _several(captures, gpus) if _text(reading(gpu, "pci")))[:MOST_DEVICES],
        tuple(PortTelemetry(_text(port.name.partition(" ")[0]), _text(reading(port, "pci")),
                        _number(reading(port, "link_downed")))
              for port in _several(captures, ports) if reading(port, "virtual") is not True)[:MOST_DEVICES],
        _text(reading(known, "driver")) if known is not None else "",
        _text(reading(known, "kernel")) if known is not None else "",
        clean(recording.host.boot_id, 64) if recording.host is not None else "", _xids(captures))


def _several(captures: Captures, builder: Any) -> Iterator[Any]:
    value = build_fact(BY_BUILDER[builder], captures)
    yield from value if type(value) is tuple else value.value if isinstance(value, Partial) else ()


def _gpu(gpu: Gpu) -> GpuTelemetry:
    counts = {}
    for name, fields in COUNTED.items():
        values = [_number(reading(gpu, field)) for field in fields]
        if values and None not in values:
            counts[name] = sum(value for value in values if value is not None) * (
                _NS if name.startswith("slow") else 1)
    pci, uuid, serial, model, vbios = (_text(reading(gpu, field))
                                       for field in ("pci", "uuid", "serial", "model", "vbios"))
    celsius, watts, corrected = (
        _number(reading(gpu, field)) for field in ("temperature_c", "power_watts", "ecc_corrected_lifetime"))
    return GpuTelemetry(pci.lower(), gpu.index, uuid or pci, serial, model, vbios, celsius, watts, corrected,
                        counts)


def _xids(captures: Captures) -> tuple[tuple[float, int], ...] | None:
    value = build_fact(BY_BUILDER[xids], captures)
    found = value.value if isinstance(value, Partial) else value
    return tuple((event.seconds, event.number) for event in found.events) if isinstance(found, Xids) else None


def _text(value: Any) -> str:
    return clean(value, 80) if isinstance(value, str) else ""


def _number(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) else None
