"""Checks of hardware RAID: controllers, volumes, the drives behind them, and what keeps their cache."""

from __future__ import annotations

from collections.abc import Iterator

from healthcheck.checks.base import check
from healthcheck.facts.raid_controller import RaidBattery, RaidController, RaidDrive, RaidVolume
from healthcheck.facts.storcli import COPYING, OPTIMAL, REBUILDING, SOUND
from healthcheck.model.outcome import Finding, Owner, Repair

_WELL = ("Optimal", "OK")
_SERVING = ("degraded", "partially degraded", "recovering")
_WAIT = ("The drive that is named is being rebuilt: wait until it ends (storcli64 /cX/eY/sZ show rebuild). "
         "Until then one more loss may cost data.")


@check("raid.controller_state")
def raid_controller_state(raid_controller: RaidController) -> Iterator[Finding]:
    """Every hardware RAID controller can be asked and calls itself optimal, or what is wrong with it is a
    volume's, a drive's or a battery's, which rules of their own report."""
    if raid_controller.status not in _WELL and not raid_controller.explained:
        yield Finding(raid_controller.status, "Optimal")


@check("raid.controller_memory")
def raid_controller_memory(raid_controller: RaidController) -> Iterator[Finding]:
    """No hardware RAID controller met errors of its memory that it could not correct."""
    if raid_controller.memory_errors:
        yield Finding(f"{raid_controller.memory_errors} memory errors that were not corrected", "none")


@check("raid.volume_state")
def raid_volume_state(raid_volume: RaidVolume) -> Iterator[Finding]:
    """Every volume of a hardware RAID controller is optimal: it has all its drives. One that still serves its
    data and is being rebuilt needs no other drive."""
    if raid_volume.state != OPTIMAL:
        observed = f"{raid_volume.state} ({raid_volume.why})" if raid_volume.why else raid_volume.state
        if raid_volume.rebuilding and raid_volume.state in _SERVING:
            yield Finding(observed, OPTIMAL, remedy=_WAIT, owner=Owner.OPERATOR, repair=Repair.WATCH)
        else:
            yield Finding(observed, OPTIMAL)


@check("raid.drive_state")
def raid_drive_state(raid_drive: RaidDrive) -> Iterator[Finding]:
    """No drive behind a hardware RAID controller failed, is offline or is refused; where its volume is not
    optimal for it, that finding names the drive."""
    if raid_drive.state not in SOUND and not raid_drive.named:
        yield Finding(raid_drive.state, "online, or free")


@check("raid.drive_foreign")
def raid_drive_foreign(raid_drive: RaidDrive) -> Iterator[Finding]:
    """No drive behind a hardware RAID controller holds the configuration of another controller: its data is
    not used until that is imported."""
    if raid_drive.foreign:
        yield Finding("holds a foreign configuration", "the configuration of its controller")


@check("raid.drive_failing")
def raid_drive_failing(raid_drive: RaidDrive) -> Iterator[Finding]:
    """No drive behind a hardware RAID controller says that it will fail."""
    if raid_drive.failing:
        yield Finding(raid_drive.failing, "no warning")


@check("raid.drive_media_errors")
def raid_drive_media_errors(raid_drive: RaidDrive, *, at_most: int) -> Iterator[Finding]:
    """No drive behind a hardware RAID controller has had more media errors than allowed."""
    if raid_drive.media_errors > at_most:
        yield Finding(f"{raid_drive.media_errors} media errors", f"at most {at_most}")


@check("raid.drive_rebuilding")
def raid_drive_rebuilding(raid_drive: RaidDrive) -> Iterator[Finding]:
    """No drive behind a hardware RAID controller is being rebuilt or copied, which slows its volume."""
    if raid_drive.state in (REBUILDING, COPYING):
        yield Finding(raid_drive.state, "online, or free")


@check("raid.battery_state")
def raid_battery_state(raid_battery: RaidBattery, *, sound: tuple[str, ...]) -> Iterator[Finding]:
    """What keeps a hardware RAID controller's cache without power is in one of the states that the rule
    allows; without it the controller writes through, which is slow, or may lose what was written."""
    if raid_battery.state not in sound:
        yield Finding(raid_battery.state, " or ".join(sound))
