"""CPU checks: all CPUs there, running, and at full speed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from healthcheck.checks.base import NotMeasured, check, fleet_check
from healthcheck.checks.fleet import Comparison, outliers
from healthcheck.checks.growth import Growth
from healthcheck.facts.cpu import CpuFrequency, Cpus, CpuTemperature, Governors, Microcode, Package
from healthcheck.model.outcome import Finding, Owner

# With hardware threads switched off the second thread of every core is offline on purpose (kernel:
# Documentation/admin-guide/hw-vuln).
_THREADS_OFF = ("off", "forceoff")


@check("cpu.count")
def cpu_count(cpus: Cpus, *, expected: int) -> Iterator[Finding]:
    """The kernel runs as many CPUs (hardware threads) as the SKU has."""
    if cpus.online != expected:
        threads = f", hardware threads are {cpus.smt}" if cpus.smt in _THREADS_OFF else ""
        yield Finding(f"{cpus.online} of {cpus.present} online{threads}", expected)


@check("cpu.offline")
def cpu_offline(cpus: Cpus) -> Iterator[Finding]:
    """No CPU that firmware presents is offline, but for the second threads of cores where hardware threads
    are switched off."""
    offline = len(cpus.offline)
    if offline and not (cpus.smt in _THREADS_OFF and offline <= cpus.present // 2):
        listed = ", ".join(map(str, cpus.offline[:8])) + (" ..." if offline > 8 else "")
        yield Finding(f"{offline} offline: {listed}", f"all {cpus.present} online")


@check("cpu.governor")
def cpu_governor(governors: Governors, *, expected: str) -> Iterator[Finding]:
    """Every CPU's frequency is governed as expected."""
    total = sum(number for _, number in governors.governors)
    for governor, number in governors.governors:
        if governor != expected:
            yield Finding(f"{governor} on {number} of {total} policies", expected)


@check("cpu.throttled")
def cpu_throttled(package: Package, growth: Growth[Package], *, allow: int) -> Iterator[Finding]:
    """No CPU package was throttled for its temperature, or by the board, more often between two snapshots
    than allowed."""
    if package.throttled == 0:
        return
    grown = growth.of("throttled")
    if grown > allow:
        yield Finding(f"throttled {grown} times since the earlier snapshot", f"at most {allow} times")


@check("cpu.temperature")
def cpu_temperature(cpu_temperature: CpuTemperature, *, at_most_c: float) -> Iterator[Finding]:
    """No CPU package is at the temperature from which it throttles itself; where its driver names none, above
    this. A reading of 0 degrees or less is no measurement."""
    now, limit = cpu_temperature.celsius, cpu_temperature.limit_c
    if now <= 0:
        raise NotMeasured(cpu_temperature, f"its temperature reads {now:g} C, which cannot be")
    if limit and now >= limit:
        yield Finding(f"{now:g} C", f"less than {limit:g} C, at which it throttles")
    elif not limit and now > at_most_c:
        yield Finding(f"{now:g} C", f"at most {at_most_c:g} C")


_HELD_BY = {
    "bios_limit": (
        "by the firmware",
        "Look at the power supplies, the power cap and the power profile in the BMC, and at the firmware's "
        "settings: it tells the kernel to go no higher.", Owner.DATACENTRE),
    "scaling_max_freq": (
        "by a setting",
        "cpupower frequency-set -u with the CPU's highest frequency; see who lowered it (a tuned profile, a "
        "power daemon, a script).", Owner.OPERATOR),
}


@check("cpu.frequency_cap")
def cpu_frequency_cap(cpu_frequency: CpuFrequency, *, at_least_percent: float) -> Iterator[Finding]:
    """No CPU is held below this share of its base frequency, by the firmware or by a setting."""
    base, allowed = cpu_frequency.base_mhz, cpu_frequency.allowed
    for cause, (whose, remedy, owner) in _HELD_BY.items():
        low = [mhz for _, mhz, file in allowed if file == cause and 100 * mhz < at_least_percent * base]
        if low:
            yield Finding(f"{len(low)} of {len(allowed)} sampled CPUs may run at {min(low):g} MHz at most, "
                          f"{whose} ({cause})", f"the base frequency of {base:g} MHz, or more",
                          remedy=remedy, owner=owner)


@check("cpu.frequency_low")
def cpu_frequency_low(
    cpu_frequency: CpuFrequency, *, loaded_percent: float, at_least_percent: float,
) -> Iterator[Finding]:
    """The CPUs of a node at work run at this share of their base frequency at least, most of them: else they
    are throttled for heat, for power or by the board (PROCHOT), which AMD's and Arm's CPUs do not count."""
    base, now = cpu_frequency.base_mhz, cpu_frequency.current_mhz
    load = 100 * cpu_frequency.load
    if load >= loaded_percent and 100 * now < at_least_percent * base:
        yield Finding(f"half of the sampled CPUs run at {now:g} MHz or less, at {load:.0f}% load",
                      f"at least {at_least_percent:g}% of the base frequency of {base:g} MHz")


@fleet_check("fleet.microcode")
def fleet_microcode(microcode: Mapping[str, Microcode]) -> Comparison:
    """Every node's CPUs run the microcode that the majority of its cohort runs."""
    yield from outliers(microcode, lambda fact: fact.revision, "microcode")
