"""Host checks: memory, swap, clock."""

from __future__ import annotations

from collections.abc import Iterator

from healthcheck.checks.base import GIB, check
from healthcheck.facts.host import Clock, Memory, Swap
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
