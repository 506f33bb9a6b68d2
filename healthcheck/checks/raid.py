"""Checks of disk arrays: whether they are whole, and what is being done about it where they are not."""

from __future__ import annotations

from collections.abc import Iterator

from healthcheck.checks.base import check
from healthcheck.facts.raid import Array, Pool
from healthcheck.model.outcome import Finding

# In these states an array serves its data (md.rst, array_state).
_SERVING = ("clean", "active", "active-idle", "write-pending", "read-auto", "readonly")
_BUILDING = ("recover", "resync", "reshape")
_PARITY = ("raid4", "raid5", "raid6")


@check("raid.state")
def raid_state(arrays: tuple[Array, ...]) -> Iterator[Finding]:
    """Every md array serves its data: none is broken, stopped half-way or waiting for members."""
    for array in arrays:
        # The container of a firmware RAID holds arrays and no data of its own: it is inactive by nature.
        if array.state not in _SERVING and array.level != "container":
            yield Finding(array.name, array.state, "active or clean")


@check("raid.degraded")
def raid_degraded(arrays: tuple[Array, ...]) -> Iterator[Finding]:
    """No md array with redundancy lacks a member."""
    for array in arrays:
        if array.missing > 0:
            out = f" (faulty: {', '.join(array.faulty)})" if array.faulty else ""
            yield Finding(array.name, f"{array.missing} of {array.disks} members missing{out}", "all members")


@check("raid.rebuilding")
def raid_rebuilding(arrays: tuple[Array, ...]) -> Iterator[Finding]:
    """No md array is being rebuilt, which slows every read of it."""
    for array in arrays:
        if array.action in _BUILDING:
            yield Finding(array.name, f"{array.action}, {array.done_percent:g}% done", "idle")


@check("raid.mismatch")
def raid_mismatch(arrays: tuple[Array, ...]) -> Iterator[Finding]:
    """The last check of no array with parity found blocks that disagree. Of mirrors it means little: swap and memory maps make them so."""
    for array in arrays:
        if array.mismatches > 0 and array.level in _PARITY:
            yield Finding(array.name, f"{array.mismatches} sectors disagree with their parity", "0")


@check("zpool.healthy")
def zpool_healthy(pools: tuple[Pool, ...]) -> Iterator[Finding]:
    """Every imported ZFS pool is online with all its devices."""
    for pool in pools:
        if pool.state != "ONLINE":
            yield Finding(f"pool {pool.name}", pool.state, "ONLINE")
