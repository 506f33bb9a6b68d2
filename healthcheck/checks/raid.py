"""Checks of disk arrays: whether they are complete, and whether they are being rebuilt."""

from __future__ import annotations

from collections.abc import Iterator

from healthcheck.checks.base import check
from healthcheck.facts.raid import Array, Pool
from healthcheck.facts.values import reading
from healthcheck.model.outcome import Finding, Owner, Repair
from inventory.text import many

# In these states an array serves its data (md.rst, array_state).
_SERVING = ("clean", "active", "active-idle", "write-pending", "read-auto", "readonly")
_BUILDING = ("recover", "resync", "reshape")
_WAIT = ("The missing member was exchanged and is being rebuilt (cat /proc/mdstat): wait until it ends. "
         "Until then one more loss costs data.")
_PARITY = ("raid4", "raid5", "raid6")


@check("raid.state")
def raid_state(array: Array) -> Iterator[Finding]:
    """Every md array serves its data: none is broken, stopped half-way or waiting for members."""
    if array.state in _SERVING:
        return
    # The container of a firmware RAID is inactive by nature. So is its level empty, which alone proves
    # nothing: that of an array that waits for members is, too.
    if array.state == "inactive" and array.level == "" and array.container:
        return
    yield Finding(array.state, "active or clean")


@check("raid.degraded")
def raid_degraded(array: Array) -> Iterator[Finding]:
    """No md array with redundancy lacks a member. One does whose members were exchanged, and are being
    rebuilt, until that has ended; where that is so of all that it lacks, no one has to replace another."""
    if array.missing <= 0:
        return
    disks, faulty, spares = (reading(array, field) for field in ("disks", "faulty", "spares"))
    lacking = (f"{array.missing} of {disks} members missing" if isinstance(disks, int)
               else f"{many(array.missing, 'member')} missing")
    if isinstance(faulty, tuple) and faulty:
        yield Finding(f"{lacking} (faulty: {', '.join(faulty)})", "all members")
    elif reading(array, "action") == "recover" and isinstance(spares, int) and spares >= array.missing:
        yield Finding(f"{lacking}, rebuilt now", "all members", remedy=_WAIT, owner=Owner.OPERATOR,
                      repair=Repair.WATCH)
    else:
        yield Finding(lacking, "all members")


@check("raid.rebuilding")
def raid_rebuilding(array: Array) -> Iterator[Finding]:
    """No md array is being rebuilt, which slows every read of it."""
    if array.action in _BUILDING:
        yield Finding(f"{array.action}, {array.done_percent:g}% done", "idle")


@check("raid.frozen")
def raid_frozen(array: Array) -> Iterator[Finding]:
    """No md array is frozen: one that lacks a member would not be rebuilt."""
    if array.action == "frozen":
        yield Finding("frozen: no rebuild and no check begins", "idle")


@check("raid.mismatch")
def raid_mismatch(array: Array) -> Iterator[Finding]:
    """The last check of no array with parity found blocks that disagree. In mirrors, swap and memory maps
    cause harmless ones."""
    if array.mismatches > 0 and array.level in _PARITY:
        yield Finding(f"{array.mismatches} sectors disagree with their parity", "0")


@check("zpool.healthy")
def zpool_healthy(pool: Pool) -> Iterator[Finding]:
    """Every imported ZFS pool is online with all its devices."""
    if pool.state != "ONLINE":
        yield Finding(pool.state, "ONLINE", f"pool {pool.name}")
