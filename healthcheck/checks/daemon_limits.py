"""Checks of the limits that jobs get from what starts them."""

from __future__ import annotations

from collections.abc import Iterator

from healthcheck.checks.base import check
from healthcheck.facts.daemon_limits import UNLIMITED, Starters
from healthcheck.model.outcome import Finding


@check("limits.memlock")
def limits_memlock(starters: Starters) -> Iterator[Finding]:
    """Daemons that start jobs may lock any amount of memory: RDMA pins what it registers, and every rank
    inherits the limit."""
    for daemon in starters.memlock:
        if daemon.value != UNLIMITED:
            yield Finding(f"{daemon.value // 1024} KiB of locked memory", "unlimited", daemon.daemon)


@check("limits.nofile")
def limits_nofile(starters: Starters, *, least: int) -> Iterator[Finding]:
    """Daemons that start jobs may open so many files at least."""
    for daemon in starters.nofile:
        if UNLIMITED < daemon.value < least:
            yield Finding(f"{daemon.value} open files", f"at least {least}", daemon.daemon)
