"""Checks of SCSI, SAS and SATA disks: one that the kernel gave up, commands that were never answered, and many that fail."""

from __future__ import annotations

from collections.abc import Iterator

from healthcheck.checks.base import NotMeasured, check, increase
from healthcheck.facts.scsi import ScsiDisk
from healthcheck.model.outcome import Finding


def _with_earlier(disks: tuple[ScsiDisk, ...], previous: tuple[ScsiDisk, ...]) -> Iterator[tuple[ScsiDisk, ScsiDisk]]:
    """Each disk with its earlier self; another model in the same place is another disk."""
    before = {disk.name: disk for disk in previous}
    for disk in disks:
        earlier = before.get(disk.name)
        if earlier is None and disk.done:
            raise NotMeasured(disk, "the earlier look has no such disk")
        if earlier is not None:
            yield disk, earlier


@check("disk.scsi_state")
def disk_scsi_state(scsi_disks: tuple[ScsiDisk, ...]) -> Iterator[Finding]:
    """The kernel talks to every SCSI or SATA disk: none was taken offline after errors, and the way to none is blocked."""
    for disk in scsi_disks:
        if disk.state != "running":
            yield Finding(disk.name, disk.state, "running")


@check("disk.scsi_timeouts")
def disk_scsi_timeouts(scsi_disks: tuple[ScsiDisk, ...], previous_scsi_disks: tuple[ScsiDisk, ...], *, at_most: int) -> Iterator[Finding]:
    """No SCSI or SATA disk left more commands unanswered than allowed since the earlier look."""
    for disk, earlier in _with_earlier(scsi_disks, previous_scsi_disks):
        if (grown := increase(disk, earlier, "timeouts")) > at_most:
            yield Finding(disk.name, f"{grown} commands without an answer since the earlier look", f"at most {at_most}")


@check("disk.scsi_errors_growing")
def disk_scsi_errors_growing(
    scsi_disks: tuple[ScsiDisk, ...], previous_scsi_disks: tuple[ScsiDisk, ...], *, at_least: int, percent: float,
) -> Iterator[Finding]:
    """Since the earlier look fewer of each disk's commands failed than `percent` of them, or fewer than `at_least`.

    Sound disks decline commands, too, so that some failures are no fault: who reads SMART makes a few each time.
    """
    for disk, earlier in _with_earlier(scsi_disks, previous_scsi_disks):
        failed, done = increase(disk, earlier, "errors"), increase(disk, earlier, "done")
        if failed >= at_least and failed * 100 > done * percent:
            yield Finding(disk.name, f"{failed} of {done} commands failed since the earlier look", f"at most {percent:g}%")
