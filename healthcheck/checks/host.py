"""Host checks: memory, swap, clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from healthcheck.checks.base import GIB, check, fleet_check
from healthcheck.checks.fleet import Comparison, Uncompared, odd_ones, read_all
from healthcheck.facts.host import Clock, ClockSource, Memory, Swap
from healthcheck.model.outcome import Finding


@check("host.memory")
def host_memory(memory: Memory, *, expected_gib: float, tolerance_percent: float) -> Iterator[Finding]:
    """The kernel manages as much memory as the SKU has, less what firmware and kernel reserve: a lost DIMM is
    more than that."""
    least = expected_gib * (1 - tolerance_percent / 100)
    if memory.total_bytes < least * GIB:
        yield Finding(f"{memory.total_bytes / GIB:.0f} GiB",
                      f"at least {least:.0f} GiB (of {expected_gib:g} GiB)", "memory")


@check("host.swap")
def host_swap(swap: Swap, *, allow_gib: float) -> Iterator[Finding]:
    """No more swap is in use by the kernel than allowed: training memory that is swapped out stalls every
    rank."""
    if swap.total_bytes > allow_gib * GIB:
        yield Finding(f"{swap.total_bytes / GIB:.1f} GiB on {', '.join(swap.areas)}",
                      f"at most {allow_gib:g} GiB", "swap")


@check("host.clock_synchronised")
def host_clock_synchronised(clock: Clock) -> Iterator[Finding]:
    """The kernel says that a time service disciplines its clock."""
    if not clock.synchronised:
        yield Finding("not synchronised", "disciplined by a time service (chrony, ntpd, systemd-timesyncd)",
                      "clock")


@check("host.clock_source")
def host_clock_source(clock_source: ClockSource, *, slow: tuple[str, ...]) -> Iterator[Finding]:
    """The kernel reads the time from no device that takes a system call and a microsecond each time, as every
    trace, log line and timeout of a job asks for it."""
    if clock_source.current in slow:
        best = next((name for name in clock_source.available if name not in slow), "")
        expected = f"{best}, which is available" if best else "none of the slow ones"
        yield Finding(clock_source.current, expected)


@fleet_check("fleet.clock_source")
def fleet_clock_source(clock_source: Mapping[str, ClockSource], *, slow: tuple[str, ...]) -> Comparison:
    """Every node reads the time from what the majority of its cohort does; a slow one host.clock_source
    reports."""
    current = read_all(clock_source, lambda fact: fact.current)
    for node, found in odd_ones([(node, "clock source", name) for node, name in current.items()],
                                "clock source", "nodes"):
        alone = current[node] not in slow
        yield node, found if alone else Uncompared("clock source", "host-clock-source judges a slow one")
