"""Reads a snapshot's telemetry from its captures."""

from __future__ import annotations

from typing import Any

from healthcheck.facts.base import BY_BUILDER, Captures, build_fact, subjects_of
from healthcheck.facts.gpu import Gpu, gpus
from healthcheck.facts.host import Versions, versions
from healthcheck.facts.port import ports
from healthcheck.facts.values import Partial, reading
from healthcheck.facts.xid import Xids, xids
from healthcheck.model.recording import Recording
from healthcheck.store.telemetry import COUNTED, MOST_DEVICES, GpuTelemetry, PortTelemetry, Telemetry
from inventory.text import clean

_NS = 1e-9



def shown(recording: Recording, captures: Captures) -> Telemetry:
    """What a reached node's recording shows; what could not be read is left out."""
    software = build_fact(BY_BUILDER[versions], captures)
    known = software if isinstance(software, Versions) else None
    return Telemetry(
        tuple((name, capture.outcome.value, round(capture.seconds, 3))
              for name, capture in sorted(recording.captures.items())),
        tuple(_gpu(gpu) for gpu in subjects_of(gpus, captures)[0]
              if _text(reading(gpu, "pci")))[:MOST_DEVICES],
        tuple(PortTelemetry(_text(port.name.partition(" ")[0]), _text(reading(port, "pci")),
                        _number(reading(port, "link_downed")))
              for port in subjects_of(ports, captures)[0]
              if reading(port, "virtual") is not True)[:MOST_DEVICES],
        _text(reading(known, "driver")) if known is not None else "",
        _text(reading(known, "kernel")) if known is not None else "",
        clean(recording.host.boot_id, 64) if recording.host is not None else "", _xids(captures))


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
