"""CPU checks: all CPUs there, running, and at full speed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from healthcheck.checks.base import NotJudged, NotMeasured, check, fleet_check, listed
from healthcheck.checks.fleet import Comparison, FleetReadings, far_off, outliers, read_all
from healthcheck.checks.growth import Growth
from healthcheck.facts.cpu import (
    Cores,
    CpuCeiling,
    CpuFrequency,
    Cpus,
    CpuTemperature,
    Governors,
    Microcode,
    Package,
    Turbo,
)
from healthcheck.facts.cpuquota import CpuQuota
from healthcheck.facts.values import attempt
from healthcheck.model.outcome import Finding, Owner

# With hardware threads switched off the second thread of every core is offline on purpose (kernel:
# Documentation/admin-guide/hw-vuln).
_THREADS_OFF = ("off", "forceoff")


@check("cpu.count")
def cpu_count(cpus: Cpus, *, expected: int) -> Iterator[Finding]:
    """The kernel runs as many CPUs (hardware threads) as the SKU has."""
    if cpus.online != expected:
        smt = attempt(lambda: cpus.smt)     # it only explains
        threads = f", hardware threads are {smt}" if smt in _THREADS_OFF else ""
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


# What has the powersave governor choose by load, and not the lowest frequency for ever.
_CHOOSING = ("intel_pstate", "amd-pstate-epp")


@check("cpu.governor_slowest")
def cpu_governor_slowest(governors: Governors) -> Iterator[Finding]:
    """No governor holds CPUs at their lowest frequency: `powersave` does, but with the drivers that let the
    hardware choose (intel_pstate and amd-pstate, active mode)."""
    held = dict(governors.governors).get("powersave", 0)
    if held and governors.driver not in _CHOOSING:
        total = sum(number for _, number in governors.governors)
        yield Finding(f"powersave on {held} of {total} policies with {governors.driver}, which is the lowest "
                      "frequency", "another governor")


@check("cpu.throttled")
def cpu_throttled(package: Package, growth: Growth[Package], *, allow: int) -> Iterator[Finding]:
    """No CPU package was throttled for its temperature, or by the board, more often between two snapshots
    than allowed."""
    if package.throttled == 0:
        return
    grown = growth.of("throttled")
    if grown > allow:
        yield Finding(f"throttled {grown} times since the earlier snapshot", f"at most {allow} times")


@check("cpu.core_throttled")
def cpu_core_throttled(cores: Cores, growth: Growth[Cores], *, allow: int) -> Iterator[Finding]:
    """No core was throttled for its own temperature more often between two snapshots than allowed; where its
    whole package was, cpu.throttled reports it."""
    before = growth.before.throttled
    reset = [cpu for cpu, now in cores.throttled.items() if now < before.get(cpu, 0)]
    if reset:
        raise NotMeasured(cores, f"the counter of CPU {reset[0]} was reset between the two snapshots")
    grown = {cpu: now - before[cpu] for cpu, now in sorted(cores.throttled.items())
             if cpu in before and now - before[cpu] > allow}
    if grown and growth.of("package_throttled") == 0:
        worst = sorted(grown, key=lambda cpu: (-grown[cpu], cpu))
        named = listed([str(cpu) for cpu in worst], 8)
        yield Finding(f"CPU {named} of {len(cores.throttled)} throttled, up to {grown[worst[0]]} times since "
                      "the earlier snapshot", f"at most {allow} times")


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


@check("cpu.frequency_setting")
def cpu_frequency_setting(cpu_ceiling: CpuCeiling, *, at_least_percent: float) -> Iterator[Finding]:
    """No setting keeps a CPU below this share of its highest frequency. What is below the base as well,
    cpu.frequency_cap reports."""
    share, base = at_least_percent / 100, cpu_ceiling.base_mhz
    low = [(mhz, most) for _, mhz, most, _ in cpu_ceiling.policies if share * base <= mhz < share * most]
    if low:
        mhz, most = min(low)
        yield Finding(f"{len(low)} of {len(cpu_ceiling.policies)} sampled CPUs are set to {mhz:g} MHz at "
                      "most (scaling_max_freq)", f"the highest frequency of {most:g} MHz")
    if cpu_ceiling.percent < at_least_percent:
        yield Finding(f"{cpu_ceiling.percent} % of the performance at most (intel_pstate/max_perf_pct)",
                      f"at least {at_least_percent:g} %")


@check("cpu.turbo")
def cpu_turbo(turbo: Turbo, *, expected: bool) -> Iterator[Finding]:
    """Turbo is on, or off where a site wants it so: then `expected` is false."""
    if turbo.enabled != expected:
        if expected and turbo.driver == "cppc_cpufreq":
            raise NotJudged("cppc_cpufreq leaves boost off until someone switches it on")
        yield Finding(f"{_switch(turbo.enabled)} ({turbo.file})", _switch(expected))


def _switch(on: bool) -> str:
    return "on" if on else "off"


@check("cpu.quota")
def cpu_quota(
    cpu_quota: CpuQuota, growth: Growth[CpuQuota], *, most_percent: float, least_periods: int,
) -> Iterator[Finding]:
    """No control group that jobs depend on used up its quota of CPU time in more than a share of its periods
    between two snapshots; one that is new since then is judged by all of its periods."""
    periods = cpu_quota.periods if growth.new else growth.of("periods")
    if periods < least_periods:
        return
    throttled = cpu_quota.throttled if growth.new else growth.of("throttled")
    share = 100 * throttled / periods
    if share > most_percent:
        yield Finding(f"stopped by its quota in {share:.0f} % of {periods} periods",
                      f"at most {most_percent:g} %")


@fleet_check("fleet.turbo")
def fleet_turbo(turbo: Mapping[str, Turbo]) -> Comparison:
    """Turbo is switched on every node as on the majority of its cohort."""
    yield from outliers(turbo, lambda fact: _switch(fact.enabled), "CPU turbo")


@fleet_check("fleet.cpu_frequency")
def fleet_cpu_frequency(
    cpu_ceiling: Mapping[str, CpuCeiling], *, spreads: float, floor_mhz: float, at_least: int,
) -> Comparison:
    """Every node's CPUs may reach the highest frequency that its peers' may: firmware that has switched turbo
    off, or another CPU, shows here. Favoured cores of single CPUs differ by little."""
    highest = read_all(cpu_ceiling, lambda fact: max(highest for *_, highest in fact.policies))
    yield from far_off([FleetReadings(node, ("highest CPU frequency",), (mhz,), "nodes")
                        for node, mhz in highest.items()],
                       " MHz", spreads=spreads, floor=floor_mhz, at_least=at_least)


@fleet_check("fleet.microcode")
def fleet_microcode(microcode: Mapping[str, Microcode]) -> Comparison:
    """Every node's CPUs run the microcode that the majority of its cohort runs."""
    yield from outliers(microcode, lambda fact: fact.revision, "microcode")
