"""CPU checks: all CPUs there, running, and at full speed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from healthcheck.checks.base import check, fleet_check
from healthcheck.checks.fleet import Comparison, outliers
from healthcheck.checks.growth import Growth
from healthcheck.facts.cpu import Cpus, Governors, Microcode, Package
from healthcheck.model.outcome import Finding

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


@fleet_check("fleet.microcode")
def fleet_microcode(microcode: Mapping[str, Microcode]) -> Comparison:
    """Every node's CPUs run the microcode that the majority of its cohort runs."""
    yield from outliers(microcode, lambda fact: fact.revision, "microcode")
