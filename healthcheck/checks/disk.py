"""Checks of disks: NVMe drives by the kernel, and kernel-log reports on disks and their file systems.

Messages of the log: block/blk-core.c ("I/O error, dev sda, sector 1"), fs/buffer.c, drivers/nvme/host/pci.c
and core.c, drivers/md, and those of ext4, XFS and Btrfs; gpud and node-problem-detector search for most of
them. An error of a disk or file system counts for the rest of its boot; a passing one (a reset) counts for
`hours` after the last, and a note reports older ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType

from healthcheck.checks.base import Findings, NotMeasured, check, listed
from healthcheck.checks.growth import DAY, HOUR, Growth
from healthcheck.checks.kernel_lines import evidence, quoted
from healthcheck.facts.disk import DiskHealth
from healthcheck.facts.kernel import KernelLine, KernelLog, MessagePattern
from healthcheck.facts.nvme import Nvme, NvmeBus, NvmeHeat, NvmeNamespace
from healthcheck.kernellog.emitter import CORE
from healthcheck.kernellog.ending import Ending, EndKind
from healthcheck.model.outcome import Finding, Note

_EMITTERS = (
    ("nvme nvme", "nvme"), ("nvme", "nvme-command"), ("block nvme", "nvme-multipath"), ("md/raid", "md"),
    ("EXT", "ext4"), ("XFS", "xfs"), ("BTRFS", "btrfs"),
)

# ---- NVMe drives as the kernel has them


@check("disk.nvme_count", counts=True)
def disk_nvme_count(nvme_bus: NvmeBus, *, expected: int) -> Iterator[Finding]:
    """The PCI bus holds as many NVMe drives as the node should have."""
    if len(nvme_bus.on_pci) != expected:
        yield Finding(f"{len(nvme_bus.on_pci)} on PCI", expected, "NVMe drives")


@check("disk.nvme_driven", counts=True)
def disk_nvme_driven(nvme_bus: NvmeBus) -> Findings:
    """The kernel's driver runs every NVMe drive on the PCI bus: it drops drives that do not come back from a
    reset. One that was passed on to a program (SPDK) or a virtual machine is not missing. Where a controller
    does not say which drive it is, only those without any driver are judged."""
    missing = [pci for pci in nvme_bus.on_pci if pci not in nvme_bus.driven and pci not in nvme_bus.passed_on
               and (not nvme_bus.unread or pci in nvme_bus.free)]
    if nvme_bus.unread and not missing:
        raise NotMeasured(nvme_bus, nvme_bus.unread)
    for pci in missing:
        yield Finding("on the PCI bus, and no driver runs it", "a controller below /sys/class/nvme",
                      f"NVMe drive {pci}")
    if nvme_bus.unread:
        yield Note(f"not all controllers are known: {nvme_bus.unread}")


@check("disk.nvme_state", answers=True)
def disk_nvme_state(nvme: Nvme) -> Iterator[Finding]:
    """Every NVMe controller is live: none is dead, being deleted, reset or connected anew."""
    if nvme.state != "live":
        yield Finding(nvme.state, "live")


@check("disk.nvme_pcie")
def disk_nvme_pcie(nvme: Nvme) -> Iterator[Finding]:
    """Every NVMe drive has the PCI Express lanes that it and its slot support."""
    if nvme.width < nvme.width_best:
        yield Finding(f"x{nvme.width}", f"x{nvme.width_best}")


@check("disk.nvme_pcie_speed")
def disk_nvme_pcie_speed(nvme: Nvme) -> Iterator[Finding]:
    """Every NVMe drive has the PCI Express speed that it and its slot support."""
    if nvme.gigatransfers < nvme.gigatransfers_best:
        yield Finding(f"{nvme.gigatransfers:g} GT/s", f"{nvme.gigatransfers_best:g} GT/s")


@check("disk.nvme_namespace")
def disk_nvme_namespace(nvme: Nvme) -> Iterator[Finding]:
    """Every NVMe drive of the node that is live has a namespace that holds something: without one it is no
    disk. One that is not live has lost its namespaces by that, which disk.nvme_state reports."""
    if nvme.state == "live" and not nvme.namespaces:
        yield Finding("no namespace, or none with any bytes", "at least one")


@check("disk.nvme_read_only")
def disk_nvme_read_only(nvme_namespace: NvmeNamespace) -> Iterator[Finding]:
    """No NVMe namespace is read-only, as worn drives make theirs."""
    if nvme_namespace.read_only:
        yield Finding("read-only", "writable")


@check("disk.nvme_temperature")
def disk_nvme_temperature(nvme_sensor: NvmeHeat, *, at_most_c: float) -> Iterator[Finding]:
    """No NVMe drive is hotter than its own warning limit, or than the rule allows where it has none, or warns
    of one of its sensors."""
    limit = nvme_sensor.limit or at_most_c
    if nvme_sensor.celsius > limit:
        yield Finding(f"{nvme_sensor.celsius:.0f} C", f"at most {limit:g} C")
    elif nvme_sensor.alarm:
        yield Finding(f"{nvme_sensor.celsius:.0f} C, and its temperature alarm is on", "no alarm")


# ---- reports in the kernel log

# An operation that a disk does not support is no error, nor is a discard or a write of zeroes that it
# declines.
IO_LINES = MessagePattern(
    r"Buffer I/O error on dev(?:ice)? (?P<a>[\w!-]{1,32}), logical block"
    r"|(?:blk_update_request: |print_req_error: |end_request: )?"
    r"(?:I/O|critical medium|critical nexus|timeout|protection|critical target)"
    r" error, dev (?P<b>[\w!-]{1,32}), sector \d{1,20}\b(?! op 0x[39]:)"
    r"|block (?P<c>nvme[\w-]{1,24}): no available path - failing I/O"
    r"|md/raid\S{0,40}: Disk failure on (?P<d>[\w!-]{1,32})"
    r"|(?P<e>nvme\d{1,4}n\d{1,4}): I/O Cmd\([^)\n]{0,40}\) @ LBA \d{1,20}, [^\n]{0,80}"
    r"\b(?:Media Error|Unrecovered Read|Write Fault)"
    r"|EXT[234]-fs \((?P<f>[\w!.-]{1,64})\): I/O error while writing superblock",
    "I/O error", "error, dev ", "failing I/O", "Disk failure on ", "I/O Cmd(",
)
FILESYSTEM_LINES = MessagePattern(
    r"EXT[234]-fs error \(device (?P<a>[\w!.-]{1,64})\)"
    r"|EXT[234]-fs \((?P<b>[\w!.-]{1,64})\): Remounting filesystem read-only"
    r"|XFS \((?P<c>[\w!.-]{1,64})\): (?:Corruption|[^\n]{0,40}(?:I/O [Ee]rror|corruption detected"
    r"|[Ss]hutting down filesystem|[Ff]ilesystem has been shut down)|Internal error)"
    r"|BTRFS(?: error| critical)? \(device (?P<d>[\w!.-]{1,64})[^)\n]{0,40}\):? [^\n]{0,80}"
    r"(?:forced readonly|corrupt|errno=-5)",
    "-fs error (device ", "Remounting filesystem read-only", "Corruption", "I/O error", "I/O Error",
    "corrupt", "hutting down filesystem", "ilesystem has been shut down", "Internal error", "forced readonly",
    "errno=-",
)
RESET_LINES = MessagePattern(
    r"nvme (?P<a>nvme\d{1,4}): (?:I/O (?:tag )?\d{1,6}[^\n]{0,80} timeout, "
    r"(?:reset controller|aborting|disable controller)|controller is down; will reset)",
    " timeout, ", "controller is down; will reset",
)
DEAD_LINES = MessagePattern(
    r"nvme (?P<a>nvme\d{1,4}): (?:Disabling device after reset failure|Removing after probe failure"
    r"|Device not ready; aborting (?:reset|init)|Identify Controller failed)",
    "Disabling device after reset failure", "Removing after probe failure", "Device not ready; aborting ",
    "Identify Controller failed",
)


@check("disk.log_io_errors")
def disk_log_io_errors(kernel_log: KernelLog, *, ignore: tuple[str, ...]) -> Findings:
    """The kernel reported no I/O error of a disk, an array or a path to one. `ignore` names devices, such as
    a BMC's virtual media."""
    yield from _reported(kernel_log, IO_LINES, "no I/O error", Ending(EndKind.REPAIR), ignore)


@check("disk.log_filesystem")
def disk_log_filesystem(kernel_log: KernelLog, *, ignore: tuple[str, ...]) -> Findings:
    """No file system on a disk reported damage to itself, or was shut down or made read-only for it."""
    yield from _reported(kernel_log, FILESYSTEM_LINES, "no such report", Ending(EndKind.BOOT), ignore)


@check("disk.log_nvme_resets")
def disk_log_nvme_resets(kernel_log: KernelLog, *, hours: float) -> Findings:
    """No NVMe drive let a command time out, or had to be reset."""
    yield from _reported(kernel_log, RESET_LINES, "no timeout and no reset", Ending(EndKind.QUIET, hours), ())


@check("disk.log_nvme_dead")
def disk_log_nvme_dead(kernel_log: KernelLog) -> Findings:
    """The kernel gave up no NVMe drive."""
    yield from _reported(kernel_log, DEAD_LINES, "a drive that comes back", Ending(EndKind.BOOT), ())


def _reported(log: KernelLog, pattern: MessagePattern, expected: str, ends: Ending,
              ignore: tuple[str, ...]) -> Findings:
    """One finding for each device by its first line that still counts, and a note on the others."""
    recent: dict[str, list[KernelLine]] = {}
    older: dict[str, KernelLine] = {}
    for line, found in log.matching(pattern):
        device = next(filter(None, found.groups()), "")
        if device and any(fnmatchcase(device, name) for name in ignore):
            continue
        if ends.over(log.age_hours(line.seconds)):
            older[device] = line
        else:
            recent.setdefault(device, []).append(line)
    for device, lines in sorted(recent.items()):
        # The block layer's lines have no prefix.
        emitter = next((who for prefix, who in _EMITTERS if lines[0].text.startswith(prefix)), CORE)
        yield Finding(quoted(log, lines), expected, device or "disks", log=evidence(emitter, ends, lines))
    if older:
        over = [f"{device or 'disks'}, {log.age_hours(line.seconds):.0f} h ago"
                for device, line in sorted(older.items())]
        yield Note(f"over, quiet for {ends.hours:g} h: {listed(over)}")


# ---- disks' own reports

# NVM Express Base Specification, SMART / Health Information log, Critical Warning. The first two bits, spare
# and temperature, are judged by themselves.
_WARNINGS: Mapping[int, str] = MappingProxyType({
    2: "reliability is degraded by media or internal errors", 3: "the media is read-only",
    4: "the backup of the volatile memory failed",
    5: "the persistent memory region is read-only or unreliable", 6: "bit 6", 7: "bit 7",
})


@check("disk.smart_failed")
def disk_smart_failed(disk: DiskHealth) -> Iterator[Finding]:
    """No disk reports that it is failing, by an attribute or by its overall health."""
    if disk.failing:
        yield Finding(f"failing now: {', '.join(disk.failing)}", "every attribute above its threshold")
    elif not disk.passed:
        yield Finding("failing, by its own report", "passed")


@check("disk.smart_warning")
def disk_smart_warning(disk: DiskHealth) -> Iterator[Finding]:
    """No NVMe drive gives a critical warning that its media or memory is failing."""
    if words := [text for bit, text in _WARNINGS.items() if disk.critical_warning >> bit & 1]:
        yield Finding(f"{disk.critical_warning:#04x}: {'; '.join(words)}", "no critical warning")


@check("disk.smart_temperature")
def disk_smart_temperature(disk: DiskHealth) -> Iterator[Finding]:
    """No NVMe drive without a sensor in the kernel warns of its temperature."""
    if disk.hot:
        yield Finding("a temperature is beyond its threshold", "within its thresholds")


@check("disk.smart_media_errors")
def disk_smart_media_errors(disk: DiskHealth, *, at_most: int) -> Iterator[Finding]:
    """No NVMe drive has lost more data in its life than allowed."""
    if disk.media_errors > at_most:
        yield Finding(f"{disk.media_errors} media and data integrity errors", f"at most {at_most}")


@check("disk.smart_media_errors_growing")
def disk_smart_media_errors_growing(disk: DiskHealth, growth: Growth[DiskHealth]) -> Iterator[Finding]:
    """No NVMe drive has lost data since the earlier snapshot."""
    if growth.new and not disk.media_errors:
        return
    if grown := growth.of("media_errors"):
        yield Finding(f"{grown} more media and data integrity errors since the earlier snapshot", "no growth")


@check("disk.smart_spare")
def disk_smart_spare(disk: DiskHealth, *, above: int) -> Iterator[Finding]:
    """Every NVMe drive's spare is above its vendor's threshold by so many points; below the threshold another
    rule judges."""
    least = min(disk.spare_threshold + above, 100)
    if disk.spare_threshold <= disk.spare < least:
        yield Finding(f"{disk.spare}% spare (its threshold is {disk.spare_threshold}%)", f"at least {least}%")


@check("disk.smart_spare_low")
def disk_smart_spare_low(disk: DiskHealth) -> Iterator[Finding]:
    """No NVMe drive's spare is below its vendor's threshold."""
    if disk.spare_low:
        yield Finding("the spare is below its threshold", "above it")


@check("disk.smart_wear")
def disk_smart_wear(disk: DiskHealth, *, below_percent: int) -> Iterator[Finding]:
    """No SSD has used up so much of its vendor's rated life."""
    if disk.used_percent >= below_percent:
        yield Finding(f"{disk.used_percent}% of its life used", f"below {below_percent}%")


@check("disk.smart_life")
def disk_smart_life(disk: DiskHealth, *, days: int, from_percent: int,
                    below_percent: int) -> Iterator[Finding]:
    """No SSD wears out within so many days at the rate of its life so far: by the hours that it was on and
    the life that it used. Below `from_percent` the figure is too coarse, from `below_percent` disk.smart_wear
    judges."""
    if not from_percent <= disk.used_percent < below_percent or not disk.hours:
        return
    left = disk.hours / 24 * (100 - disk.used_percent) / disk.used_percent
    if left < days:
        yield Finding(f"{disk.used_percent}% of its life used in {disk.hours / 24:.0f} days of operation: "
                      f"{left:.0f} days left at that rate", f"at least {days} days")


@check("disk.smart_life_now")
def disk_smart_life_now(disk: DiskHealth, growth: Growth[DiskHealth], *, days: int, points: int,
                        from_hours: float) -> Iterator[Finding]:
    """No SSD wears out within so many days at the rate since the earlier snapshot, where that is `from_hours`
    old or older and the disk used at least `points` per cent of its life in between: one may be a step that
    was due."""
    if growth.new or not disk.used_percent or (grown := growth.of("used_percent")) < points:
        return
    if growth.seconds < from_hours * HOUR:
        return
    left = max(100 - disk.used_percent, 0) * growth.seconds / grown / DAY
    if left < days:
        yield Finding(f"{grown}% of its life used in {growth.seconds / HOUR:.1f} h: {left:.1f} days left at "
                      "that rate", f"at least {days} days")


@check("disk.smart_reallocated")
def disk_smart_reallocated(disk: DiskHealth, *, at_most: int) -> Iterator[Finding]:
    """No ATA disk has replaced more bad sectors than allowed."""
    if disk.reallocated > at_most:
        yield Finding(f"{disk.reallocated} reallocated sectors", f"at most {at_most}")


@check("disk.smart_pending")
def disk_smart_pending(disk: DiskHealth, *, at_most: int) -> Iterator[Finding]:
    """No ATA disk has more sectors that wait to be replaced than allowed."""
    if disk.pending > at_most:
        yield Finding(f"{disk.pending} pending sectors", f"at most {at_most}")


@check("disk.smart_uncorrectable")
def disk_smart_uncorrectable(disk: DiskHealth, *, at_most: int) -> Iterator[Finding]:
    """No ATA disk has found more sectors unreadable by itself than allowed."""
    if disk.uncorrectable > at_most:
        yield Finding(f"{disk.uncorrectable} uncorrectable sectors", f"at most {at_most}")


@check("disk.smart_unrecovered")
def disk_smart_unrecovered(disk: DiskHealth, *, at_most: int) -> Iterator[Finding]:
    """No ATA or SCSI disk has reported more errors that it could not correct than allowed."""
    if disk.unrecovered > at_most:
        yield Finding(f"{disk.unrecovered} errors that were not corrected", f"at most {at_most}")


@check("disk.smart_self_test")
def disk_smart_self_test(disk: DiskHealth) -> Iterator[Finding]:
    """The newest self-test of no disk failed."""
    if disk.self_test:
        yield Finding(disk.self_test, "a self-test that passes")


@check("disk.smart_defects")
def disk_smart_defects(disk: DiskHealth, *, at_most: int) -> Iterator[Finding]:
    """No SCSI disk has grown more defects than allowed."""
    if disk.grown_defects > at_most:
        yield Finding(f"{disk.grown_defects} grown defects", f"at most {at_most}")


@check("disk.smart_unsafe_shutdowns")
def disk_smart_unsafe_shutdowns(disk: DiskHealth, growth: Growth[DiskHealth]) -> Iterator[Finding]:
    """No NVMe drive lost power since the earlier snapshot of the same boot: the node did not, so its slot or
    its supply did."""
    if not growth.new and (grown := growth.of("unsafe_shutdowns")):
        observed = f"{grown} more unsafe shutdowns since the earlier snapshot"
        yield Finding(observed, "none while the node is up")
