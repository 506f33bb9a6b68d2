"""CPU checks: all CPUs there, running, and at full speed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from healthcheck.checks.base import NotMeasured, check, fleet_check, increase
from healthcheck.checks.fleet import outliers
from healthcheck.facts.cpu import Cpus, Governors, Microcode, Package
from healthcheck.model.outcome import Finding

# With hardware threads switched off the second thread of every core is offline on purpose (kernel: Documentation/admin-guide/hw-vuln).
_THREADS_OFF = ("off", "forceoff")


@check("cpu.count")
def cpu_count(cpus: Cpus, *, expected: int) -> Iterator[Finding]:
    """The kernel runs as many CPUs (hardware threads) as the SKU has."""
    if cpus.online != expected:
        threads = f", hardware threads are {cpus.smt}" if cpus.smt in _THREADS_OFF else ""
        yield Finding("CPUs", f"{cpus.online} of {cpus.present} online{threads}", expected)


@check("cpu.offline")
def cpu_offline(cpus: Cpus) -> Iterator[Finding]:
    """No CPU that firmware presents is offline, but for the second threads of cores where hardware threads are switched off."""
    offline = len(cpus.offline)
    if offline and not (cpus.smt in _THREADS_OFF and offline <= cpus.present // 2):
        listed = ", ".join(map(str, cpus.offline[:8])) + (" ..." if offline > 8 else "")
        yield Finding("CPUs", f"{offline} offline: {listed}", f"all {cpus.present} online")


@check("cpu.governor")
def cpu_governor(governors: Governors, *, expected: str) -> Iterator[Finding]:
    """Every CPU's frequency is governed as expected."""
    total = sum(number for _, number in governors.governors)
    for governor, number in governors.governors:
        if governor != expected:
            yield Finding("CPU frequency", f"{governor} on {number} of {total} policies", expected)


@check("cpu.throttled")
def cpu_throttled(packages: tuple[Package, ...], previous_packages: tuple[Package, ...], *, allow: int) -> Iterator[Finding]:
    """No CPU package was throttled for its temperature, or by the board, more often between the two looks than allowed."""
    before = {package.name: package for package in previous_packages}
    for package in packages:
        if package.throttled == 0:
            continue
        earlier = before.get(package.name)
        if earlier is None:
            raise NotMeasured(package, "the earlier look has no such package")
        grown = increase(package, earlier, "throttled")
        if grown > allow:
            yield Finding(package.name, f"throttled {grown} times since the last look", f"at most {allow} times")


@fleet_check("fleet.microcode")
def fleet_microcode(microcode: Mapping[str, Microcode]) -> Iterator[tuple[str, Finding]]:
    """Every node's CPUs run the microcode that the majority of its cohort runs."""
    yield from outliers({node: fact.revision for node, fact in microcode.items()}, "microcode")
