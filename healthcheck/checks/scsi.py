"""Checks of SCSI, SAS and SATA disks: the kernel's state of each, commands without an answer, and many failed
ones."""

from __future__ import annotations

from collections.abc import Iterator

from healthcheck.checks.base import check
from healthcheck.checks.growth import Growth
from healthcheck.facts.scsi import ScsiDisk
from healthcheck.model.outcome import Finding


def _unused(disk: ScsiDisk, growth: Growth[ScsiDisk]) -> bool:
    """Whether the disk is new and has done nothing yet. Another model in the same place is another disk."""
    return growth.new and not disk.done


@check("disk.scsi_state", answers=True)
def disk_scsi_state(scsi_disk: ScsiDisk) -> Iterator[Finding]:
    """The kernel reaches every SCSI or SATA disk: none was taken offline after errors, and the path to none
    is blocked."""
    if scsi_disk.state != "running":
        yield Finding(scsi_disk.state, "running")


@check("disk.scsi_timeouts")
def disk_scsi_timeouts(scsi_disk: ScsiDisk, growth: Growth[ScsiDisk], *, at_most: int) -> Iterator[Finding]:
    """No SCSI or SATA disk left more commands unanswered than allowed since the earlier snapshot."""
    if not _unused(scsi_disk, growth) and (grown := growth.of("timeouts")) > at_most:
        yield Finding(f"{grown} commands without an answer since the earlier snapshot", f"at most {at_most}")


@check("disk.scsi_errors_growing")
def disk_scsi_errors_growing(
    scsi_disk: ScsiDisk, growth: Growth[ScsiDisk], *, at_least: int, percent: float,
) -> Iterator[Finding]:
    """Since the earlier snapshot, fewer than `at_least` of each disk's commands failed, or less than
    `percent` of them.

    Healthy disks decline commands too, so some failures are no fault: reading SMART causes a few each time.
    """
    if _unused(scsi_disk, growth):
        return
    failed, done = growth.of("errors"), growth.of("done")
    if failed >= at_least and failed * 100 > done * percent:
        observed = f"{failed} of {done} commands failed since the earlier snapshot"
        yield Finding(observed, f"at most {percent:g}%")
