"""Why a GPU is slow, by its own clock, power and throttle reasons."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from healthcheck.burnin.model import TaskKind, TaskResult

# NVML's bits (nvml.h, nvmlClocksEventReason*), worst first: which are faults, and which are only reported.
REASONS = {
    0x80: "hardware power brake", 0x40: "hardware thermal slowdown", 0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x04: "power cap", 0x10: "sync boost", 0x02: "application clocks", 0x100: "display clocks", 0x01: "idle",
}
# Drivers report 0x08 with 0x40 or 0x80, or for the power connector itself.
NAMED = 0x80 | 0x40 | 0x08
_LOW = 0.97     # of the median of equals


@dataclass(frozen=True)
class ClockSample:
    """What was sampled of one GPU while it worked; None: not sampled."""

    mhz: float | None
    watts: float | None
    celsius: float | None
    reasons: int | None


def clocks(results: Iterable[TaskResult]) -> dict[str, ClockSample]:
    """By seat what was sampled while GEMM ran; reasons of several tasks or-ed, of the rest the last."""
    found: dict[str, ClockSample] = {}
    for result in results:
        if result.task.kind is not TaskKind.RATE:
            continue
        for report in result.reports:
            figures = report.figures
            bits = figures.get("throttle_bits")
            old = found.get(str(report.seat))
            seen = (old.reasons if old is not None else None, int(bits) if bits is not None else None)
            known = [each for each in seen if each is not None]
            found[str(report.seat)] = ClockSample(figures.get("clock_mhz"), figures.get("power_w"),
                                                  figures.get("temperature_c"),
                                                  known[0] | known[-1] if known else None)
    return found


def clock_reason(seat: str, all_: Mapping[str, ClockSample], equals: Iterable[str]) -> str:
    """What a slow GPU's clocks show beside those of its equals; "" where nothing was sampled."""
    own = all_.get(seat)
    if own is None or own == ClockSample(None, None, None, None):
        return ""
    parts = []
    usual = [clock.mhz for name in equals if (clock := all_.get(name)) is not None and clock.mhz is not None]
    if own.mhz is not None:
        median = statistics.median(usual) if len(usual) > 1 else None
        low = median is not None and own.mhz < _LOW * median
        parts.append(f"SM clock {own.mhz:.0f} MHz"
                     + (f", equals {median:.0f}" if median is not None and low else ""))
    if own.watts is not None:
        parts.append(f"{own.watts:.0f} W")
    if own.celsius is not None:
        parts.append(f"{own.celsius:.0f} C")
    names = [name for bit, name in REASONS.items() if own.reasons is not None and own.reasons & bit]
    if names:
        parts.append(", ".join(names))
    return ("cause: " if own.reasons is not None and own.reasons & NAMED else "") + ", ".join(parts)
