"""A snapshot's telemetry: probes and their durations, GPUs, ports, versions, Xids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# A node that lies cannot make more of itself than that; the largest machines have 16 GPUs and some 20 ports.
MOST_DEVICES = 64

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
