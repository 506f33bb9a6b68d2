"""Checks of what slows a GPU down: heat, power, and low clocks.

A GPU at its power limit under load (the software power cap) works as designed, and is never reported for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from healthcheck.checks.base import NotJudged, NotMeasured, check
from healthcheck.checks.growth import Growth
from healthcheck.facts.gpu import Gpu
from healthcheck.facts.values import Unmeasured, reading
from healthcheck.model.outcome import Finding

# nvmlClocksEventReasons of nvml.h.
IDLE = 0x1
HW_SLOWDOWN = 0x8
SW_THERMAL = 0x20
HW_THERMAL = 0x40
HW_POWER_BRAKE = 0x80
SW_POWER_CAP = 0x4
# These reasons for a low clock are normal (idle, the power cap), or other rules judge them. The settings
# below are neither.
EXPLAINED = IDLE | SW_POWER_CAP | HW_SLOWDOWN | SW_THERMAL | HW_THERMAL | HW_POWER_BRAKE
# Settings that hold a clock down and that no other rule judges.
SETTINGS: Mapping[int, str] = MappingProxyType({
    0x2: "application or locked clocks", 0x10: "sync boost", 0x100: "display clocks",
})


@check("gpu.slowdown_hw")
def gpu_slowdown_hw(gpu: Gpu) -> Iterator[Finding]:
    """No GPU's hardware halves its clock without naming heat or the power brake, which have rules of their
    own.

    NVML may report this reason for a moment while clocks change, and for an idle GPU, so the clock itself
    must be halved too.
    """
    reasons = gpu.clock_reasons
    explained = reasons & (HW_THERMAL | HW_POWER_BRAKE | IDLE)
    if reasons & HW_SLOWDOWN and not explained and 2 * gpu.clock_sm_mhz <= gpu.clock_sm_max_mhz:
        yield Finding(f"hardware slowdown, SM clock {gpu.clock_sm_mhz} MHz",
                      f"none, {gpu.clock_sm_max_mhz} MHz")


@check("gpu.slowdown_thermal")
def gpu_slowdown_thermal(gpu: Gpu) -> Iterator[Finding]:
    """No GPU's hardware holds its clock down for heat."""
    if gpu.clock_reasons & HW_THERMAL:
        yield Finding("hardware thermal slowdown", "none")


@check("gpu.power_brake")
def gpu_power_brake(gpu: Gpu) -> Iterator[Finding]:
    """No GPU is slowed from outside by the power brake, as power supplies do when they cannot deliver."""
    if gpu.clock_reasons & HW_POWER_BRAKE:
        yield Finding("power brake slowdown", "none")


@check("gpu.slowdown_sw_thermal")
def gpu_slowdown_sw_thermal(gpu: Gpu) -> Iterator[Finding]:
    """No GPU's driver holds its clock down because GPU or memory are at their highest operating
    temperature."""
    if gpu.clock_reasons & SW_THERMAL and not gpu.clock_reasons & HW_THERMAL:
        yield Finding("software thermal slowdown", "none")


def _slowed(growth: Growth[Gpu], counter: str, now: int, allow_percent: float) -> Iterator[Finding]:
    """A GPU that was slowed for more than this share of the time between the snapshots; another rule names
    one that is slowed `now`."""
    slowed = growth.of(counter) / 1e9
    if not slowed or growth.now.clock_reasons & now:
        return
    share = 100 * slowed / growth.seconds
    if share > allow_percent:
        yield Finding(f"slowed for {slowed:.0f} s, {share:.1f}% of the time since the earlier snapshot",
                      f"at most {allow_percent:g}%")


@check("gpu.slowdown_thermal_time")
def gpu_slowdown_thermal_time(gpu: Gpu, growth: Growth[Gpu], *, allow_percent: float) -> Iterator[Finding]:
    """No GPU's hardware held its clock down for heat for more than this share of the time since the earlier
    snapshot."""
    yield from _slowed(growth, "slowdown_hw_thermal_ns", HW_THERMAL, allow_percent)


@check("gpu.power_brake_time")
def gpu_power_brake_time(gpu: Gpu, growth: Growth[Gpu], *, allow_percent: float) -> Iterator[Finding]:
    """The power brake slowed no GPU for more than this share of the time since the earlier snapshot."""
    yield from _slowed(growth, "slowdown_hw_power_brake_ns", HW_POWER_BRAKE, allow_percent)


@check("gpu.slowdown_sw_thermal_time")
def gpu_slowdown_sw_thermal_time(gpu: Gpu, growth: Growth[Gpu], *, allow_percent: float) -> Iterator[Finding]:
    """No GPU's driver held its clock down for heat for more than this share of the time since the earlier
    snapshot."""
    yield from _slowed(growth, "slowdown_sw_thermal_ns", SW_THERMAL, allow_percent)


@check("gpu.power_limit")
def gpu_power_limit(gpu: Gpu, *, at_least_watts: float) -> Iterator[Finding]:
    """Every GPU may draw what the SKU says: a lowered limit makes it slower than its peers, and nothing else
    shows it."""
    if gpu.power_limit_watts < at_least_watts:
        yield Finding(f"limited to {gpu.power_limit_watts:g} W", f"at least {at_least_watts:g} W")


@check("gpu.power_limit_default")
def gpu_power_limit_default(gpu: Gpu, *, sku_watts: float = 0.0) -> Iterator[Finding]:
    """No GPU's power limit is below its default, where the SKU does not say what it should be; where it does,
    gpu.power_limit judges."""
    if sku_watts:
        raise NotJudged("the SKU gives power_limit_watts, so the default is not judged")
    if gpu.power_limit_watts < gpu.power_limit_default_watts:
        default = f"its default of {gpu.power_limit_default_watts:g} W, or more"
        yield Finding(f"limited to {gpu.power_limit_watts:g} W", default)


@check("gpu.power_draw")
def gpu_power_draw(gpu: Gpu, *, most_of_limit: float) -> Iterator[Finding]:
    """Every GPU draws some power, and no more than this multiple of its limit: else its sensor or its
    regulation is broken."""
    if gpu.power_watts <= 0:
        yield Finding(f"draws {gpu.power_watts:g} W", "more than 0 W")
    elif gpu.power_watts > (most := most_of_limit * gpu.power_limit_watts):
        yield Finding(f"draws {gpu.power_watts:g} W",
                      f"at most {most:g} W ({most_of_limit:g} times its limit)")


@check("gpu.temperature")
def gpu_temperature(gpu: Gpu, *, margin_c: int) -> Iterator[Finding]:
    """Every GPU is at least this far below its highest operating temperature, by its own margin (T.Limit).

    The margin is 0 at that temperature, and negative beyond it: on H100 the GPU slows down at -2 or -3 and
    shuts down at -5 or -8. A temperature of 0 degrees or less, or of more than 150, is no measurement.
    """
    now, margin = _temperature(gpu), gpu.temperature_margin_c
    if margin < margin_c:
        where = f"{margin} C below" if margin > 0 else f"{-margin} C above" if margin else "at"
        yield Finding(f"{now} C, {where} its highest operating temperature (T.Limit {margin} C)",
                      f"at least {margin_c} C below it")


@check("gpu.temperature_slowdown")
def gpu_temperature_slowdown(gpu: Gpu, *, margin_c: int) -> Iterator[Finding]:
    """Every GPU without a margin of its own (T.Limit) is at least this far below the temperature at which it
    slows down; one that has the margin is not judged by this other scale, and one whose margin was not read
    passes by neither."""
    now, below = _temperature(gpu), gpu.temperature_below_slowdown_c
    if below < margin_c:
        where = f"{below} C below" if below > 0 else f"{-below} C above" if below else "at"
        yield Finding(f"{now} C, {where} its slowdown temperature of {now + below} C",
                      f"at least {margin_c} C below it")
    elif isinstance(margin := reading(gpu, "temperature_margin_c"), Unmeasured):
        raise NotMeasured(gpu, margin.reason, margin.origin, margin.asked)


# Degrees C; a GPU shuts itself down long before. 255 is what a sensor without an answer reads.
_HOTTEST = 150


def _temperature(gpu: Gpu) -> int:
    return _possible(gpu, "temperature", gpu.temperature_c)


def _possible(gpu: Gpu, what: str, celsius: int) -> int:
    if not 0 < celsius <= _HOTTEST:
        raise NotMeasured(gpu, f"its {what} reads {celsius} C, which cannot be")
    return celsius


@check("gpu.memory_temperature")
def gpu_memory_temperature(gpu: Gpu, *, at_most_c: int) -> Iterator[Finding]:
    """No GPU's memory is hotter than allowed; the GPU's own temperature does not show it. A reading of 0 or
    less, or of more than 150, is no measurement."""
    now = _possible(gpu, "memory's temperature", gpu.temperature_memory_c)
    if now > at_most_c:
        yield Finding(f"memory at {now} C", f"at most {at_most_c} C")


@check("gpu.clocks_low")
def gpu_clocks_low(gpu: Gpu, *, loaded_percent: int, at_least_percent: int) -> Iterator[Finding]:
    """The SM clock of a GPU at work is at least this share of its maximum, or NVML says why it is not.

    Idleness, the power cap, heat and brakes are reasons; the last two have rules of their own. A setting
    (application or locked clocks, sync boost, display clocks) is none: a site may choose it above this share,
    and below it the GPU is as slow as a broken one.
    """
    if gpu.clock_reasons & EXPLAINED or gpu.utilization_percent < loaded_percent:
        return
    if 100 * gpu.clock_sm_mhz < at_least_percent * gpu.clock_sm_max_mhz:
        held = [name for bit, name in SETTINGS.items() if gpu.clock_reasons & bit]
        yield Finding(
            f"SM clock {gpu.clock_sm_mhz} of {gpu.clock_sm_max_mhz} MHz at {gpu.utilization_percent}% load, "
            + (f"held down by a setting: {', '.join(held)}" if held else "without a reason"),
            f"at least {at_least_percent}% of the maximum",
        )
