"""Checks of disks: NVMe drives as the kernel has them, and what the kernel log says of disks and of the file systems on them.

Forms of the log: block/blk-core.c ("I/O error, dev sda, sector 1"), fs/buffer.c, drivers/nvme/host/pci.c and core.c, drivers/md, and the
messages of ext4, XFS and Btrfs; gpud and node-problem-detector look for most of them. An error of a disk or of a file system stays accused
in its boot; what passes by itself (a reset) for `hours` after the last, and what is older is said beside the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from healthcheck.checks.base import NotMeasured, check, increase
from healthcheck.facts.disk import DiskHealth
from healthcheck.facts.kernel import Form, KernelLine, KernelLog, moment
from healthcheck.facts.nvme import Nvme, NvmeBus, NvmeHeat
from healthcheck.kernellog.carried import telling
from healthcheck.kernellog.emitter import CORE
from healthcheck.kernellog.ending import Ending, Ends
from healthcheck.model.outcome import Finding, LogEvidence, Note

_LONGEST = 200
_EMITTERS = (
    ("nvme nvme", "nvme"), ("nvme", "nvme-command"), ("block nvme", "nvme-multipath"), ("md/raid", "md"),
    ("EXT", "ext4"), ("XFS", "xfs"), ("BTRFS", "btrfs"),
)
Said = Iterator[Finding | Note]

# ---- NVMe drives as the kernel has them


@check("disk.nvme_count", counts=True)
def disk_nvme_count(nvme_bus: NvmeBus, *, expected: int) -> Iterator[Finding]:
    """The PCI bus holds as many NVMe drives as the node should have."""
    if len(nvme_bus.on_pci) != expected:
        yield Finding("NVMe drives", f"{len(nvme_bus.on_pci)} on PCI", expected)


@check("disk.nvme_driven", counts=True)
def disk_nvme_driven(nvme_bus: NvmeBus) -> Iterator[Finding]:
    """The kernel's driver runs every NVMe drive that is on the PCI bus: it gives up those that do not come back from a reset."""
    for pci in nvme_bus.on_pci:
        if pci not in nvme_bus.driven:
            yield Finding(f"NVMe drive {pci}", "on the PCI bus, and no driver runs it", "a controller below /sys/class/nvme")


@check("disk.nvme_state")
def disk_nvme_state(nvmes: tuple[Nvme, ...]) -> Iterator[Finding]:
    """Every NVMe controller is live: none is dead, being deleted, reset or connected anew."""
    for drive in nvmes:
        if drive.state != "live":
            yield Finding(drive.name, drive.state, "live")


@check("disk.nvme_pcie")
def disk_nvme_pcie(nvmes: tuple[Nvme, ...]) -> Iterator[Finding]:
    """Every NVMe drive has the PCI Express lanes and speed that it and its slot both can."""
    for drive in nvmes:
        if drive.width < drive.width_best:
            yield Finding(drive.name, f"x{drive.width}", f"x{drive.width_best}")
        if drive.gigatransfers < drive.gigatransfers_best:
            yield Finding(drive.name, f"{drive.gigatransfers:g} GT/s", f"{drive.gigatransfers_best:g} GT/s")


@check("disk.nvme_temperature")
def disk_nvme_temperature(nvme_heat: tuple[NvmeHeat, ...], *, at_most_c: float) -> Iterator[Finding]:
    """No NVMe drive is hotter than the limit at which it warns itself, or than the rule allows where it has none."""
    for drive in nvme_heat:
        limit = drive.limit or at_most_c
        if drive.celsius > limit:
            yield Finding(drive.name, f"{drive.celsius:.0f} C", f"at most {limit:g} C")


# ---- what the kernel log says

# An operation that a disk does not know is no error of it, nor is a discard or a write of zeroes that it declines.
IO_LINES = Form(
    r"Buffer I/O error on dev(?:ice)? (?P<a>[\w!-]{1,32}), logical block"
    r"|(?:blk_update_request: |print_req_error: |end_request: )?(?:I/O|critical medium|critical nexus|timeout|protection|critical target)"
    r" error, dev (?P<b>[\w!-]{1,32}), sector \d{1,20}\b(?! op 0x[39]:)"
    r"|block (?P<c>nvme[\w-]{1,24}): no available path - failing I/O"
    r"|md/raid\S{0,40}: Disk failure on (?P<d>[\w!-]{1,32})"
    r"|(?P<e>nvme\d{1,4}n\d{1,4}): I/O Cmd\([^)\n]{0,40}\) @ LBA \d{1,20}, [^\n]{0,80}\b(?:Media Error|Unrecovered Read|Write Fault)"
    r"|EXT[234]-fs \((?P<f>[\w!.-]{1,64})\): I/O error while writing superblock",
    "I/O error", "error, dev ", "failing I/O", "Disk failure on ", "I/O Cmd(",
)
FILESYSTEM_LINES = Form(
    r"EXT[234]-fs error \(device (?P<a>[\w!.-]{1,64})\)|EXT[234]-fs \((?P<b>[\w!.-]{1,64})\): Remounting filesystem read-only"
    r"|XFS \((?P<c>[\w!.-]{1,64})\): (?:Corruption|[^\n]{0,40}(?:I/O [Ee]rror|corruption detected|[Ss]hutting down filesystem"
    r"|[Ff]ilesystem has been shut down)|Internal error)"
    r"|BTRFS(?: error| critical)? \(device (?P<d>[\w!.-]{1,64})[^)\n]{0,40}\):? [^\n]{0,80}(?:forced readonly|corrupt|errno=-5)",
    "-fs error (device ", "Remounting filesystem read-only", "Corruption", "I/O error", "I/O Error", "corrupt", "hutting down filesystem",
    "ilesystem has been shut down", "Internal error", "forced readonly", "errno=-",
)
RESET_LINES = Form(
    r"nvme (?P<a>nvme\d{1,4}): (?:I/O (?:tag )?\d{1,6}[^\n]{0,80} timeout, (?:reset controller|aborting|disable controller)"
    r"|controller is down; will reset)",
    " timeout, ", "controller is down; will reset",
)
DEAD_LINES = Form(
    r"nvme (?P<a>nvme\d{1,4}): (?:Disabling device after reset failure|Removing after probe failure"
    r"|Device not ready; aborting (?:reset|init)|Identify Controller failed)",
    "Disabling device after reset failure", "Removing after probe failure", "Device not ready; aborting ", "Identify Controller failed",
)


@check("disk.log_io_errors")
def disk_log_io_errors(kernel_log: KernelLog, *, ignore: tuple[str, ...]) -> Said:
    """The kernel reported no I/O error of a disk, an array or a path to one. `ignore` names devices, such as a BMC's virtual media."""
    yield from _reported(kernel_log, IO_LINES, "no I/O error", Ending(Ends.REPAIR), ignore)


@check("disk.log_filesystem")
def disk_log_filesystem(kernel_log: KernelLog, *, ignore: tuple[str, ...]) -> Said:
    """No file system on a disk reported damage to itself, or was shut down or made read-only for it."""
    yield from _reported(kernel_log, FILESYSTEM_LINES, "no such report", Ending(Ends.BOOT), ignore)


@check("disk.log_nvme_resets")
def disk_log_nvme_resets(kernel_log: KernelLog, *, hours: float) -> Said:
    """No NVMe drive let a command time out, or had to be reset."""
    yield from _reported(kernel_log, RESET_LINES, "no timeout and no reset", Ending(Ends.QUIET, hours), ())


@check("disk.log_nvme_dead")
def disk_log_nvme_dead(kernel_log: KernelLog) -> Said:
    """The kernel gave up no NVMe drive."""
    yield from _reported(kernel_log, DEAD_LINES, "a drive that comes back", Ending(Ends.BOOT), ())


def _emitter(line: str) -> str:
    """Whose message a line of these forms is: the block layer's, which has no prefix, or a driver's."""
    return next((emitter for prefix, emitter in _EMITTERS if line.startswith(prefix)), CORE)


def _reported(log: KernelLog, form: Form, expected: str, ends: Ending, ignore: tuple[str, ...]) -> Said:
    """One finding for each device, by the first line that is not over, and a note on what is."""
    recent: dict[str, list[KernelLine]] = {}
    older: dict[str, KernelLine] = {}
    for line, found in log.matching(form):
        device = next(filter(None, found.groups()), "")
        if device and any(fnmatchcase(device, name) for name in ignore):
            continue
        if ends.over(log.age_hours(line.seconds)):
            older[device] = line
        else:
            recent.setdefault(device, []).append(line)
    for device, lines in sorted(recent.items()):
        count = f"{len(lines)} lines, the first " if len(lines) > 1 else ""
        at = moment(lines[0].seconds, log.newest if log.uptime else 0.0)
        evidence = LogEvidence(_emitter(lines[0].text), str(ends), len(lines), lines[0].seconds, lines[-1].seconds,
                               telling([line.sequence for line in lines]))
        yield Finding(device or "disks", f"{count}{at}: {lines[0].text[:_LONGEST]}", expected, log=evidence)
    if older:
        said = [f"{device or 'disks'}, {log.age_hours(line.seconds):.0f} h ago" for device, line in sorted(older.items())]
        more = f" and {len(said) - 3} more" if len(said) > 3 else ""
        yield Note(f"over, having been quiet for {ends.hours:g} h: {', '.join(said[:3])}{more}")


# ---- what disks say of themselves

# NVM Express Base Specification, SMART / Health Information log, Critical Warning.
_WARNINGS = (
    "the spare is below its threshold", "a temperature is beyond its threshold", "reliability is degraded by media or internal errors",
    "the media is read-only", "the backup of the volatile memory failed", "the persistent memory region is read-only or unreliable",
)


@check("disk.smart_failed")
def disk_smart_failed(disk_health: tuple[DiskHealth, ...]) -> Iterator[Finding]:
    """No disk says that it is failing (SMART overall health)."""
    for disk in disk_health:
        if not disk.passed:
            yield Finding(disk.name, "failing, by its own word", "passed")


@check("disk.smart_warning")
def disk_smart_warning(disk_health: tuple[DiskHealth, ...]) -> Iterator[Finding]:
    """No NVMe drive gives a critical warning."""
    for disk in disk_health:
        warning = disk.critical_warning
        said = [text for bit, text in enumerate(_WARNINGS) if warning >> bit & 1]
        said += [f"bit {bit}" for bit in range(len(_WARNINGS), 8) if warning >> bit & 1]
        if warning:
            yield Finding(disk.name, f"{warning:#04x}: {'; '.join(said)}", "no critical warning")


@check("disk.smart_media_errors")
def disk_smart_media_errors(disk_health: tuple[DiskHealth, ...], *, at_most: int) -> Iterator[Finding]:
    """No NVMe drive has lost more data in its life than allowed."""
    for disk in disk_health:
        if disk.media_errors > at_most:
            yield Finding(disk.name, f"{disk.media_errors} media and data integrity errors", f"at most {at_most}")


@check("disk.smart_media_errors_growing")
def disk_smart_media_errors_growing(
    disk_health: tuple[DiskHealth, ...], previous_disk_health: tuple[DiskHealth, ...],
) -> Iterator[Finding]:
    """No NVMe drive has lost data since the earlier look."""
    before = {disk.serial: disk for disk in previous_disk_health}
    for disk in disk_health:
        earlier = before.get(disk.serial)
        if earlier is None and disk.media_errors:
            raise NotMeasured(disk, "the earlier look has no such disk")
        if earlier is not None and (grown := increase(disk, earlier, "media_errors")):
            yield Finding(disk.name, f"{grown} more media and data integrity errors since the earlier look", "no growth")


@check("disk.smart_spare")
def disk_smart_spare(disk_health: tuple[DiskHealth, ...], *, above: int) -> Iterator[Finding]:
    """Every NVMe drive has more spare than the threshold that its maker set, by so many points above it."""
    for disk in disk_health:
        least = min(disk.spare_threshold + above, 100)
        if disk.spare < least:
            yield Finding(disk.name, f"{disk.spare}% spare (its threshold is {disk.spare_threshold}%)", f"at least {least}%")


@check("disk.smart_wear")
def disk_smart_wear(disk_health: tuple[DiskHealth, ...], *, below_percent: int) -> Iterator[Finding]:
    """No NVMe drive has used up so much of the life that its maker gives it."""
    for disk in disk_health:
        if disk.used_percent >= below_percent:
            yield Finding(disk.name, f"{disk.used_percent}% of its life used", f"below {below_percent}%")


@check("disk.smart_sectors")
def disk_smart_sectors(disk_health: tuple[DiskHealth, ...], *, reallocated: int, pending: int, uncorrectable: int) -> Iterator[Finding]:
    """No ATA disk has more sectors reallocated, waiting to be, or unreadable than allowed."""
    for disk in disk_health:
        for number, most, what in ((disk.reallocated, reallocated, "reallocated"), (disk.pending, pending, "pending"),
                                   (disk.uncorrectable, uncorrectable, "uncorrectable")):
            if number > most:
                yield Finding(disk.name, f"{number} {what} sectors", f"at most {most}")


@check("disk.smart_defects")
def disk_smart_defects(disk_health: tuple[DiskHealth, ...], *, at_most: int) -> Iterator[Finding]:
    """No SCSI disk has grown more defects than allowed."""
    for disk in disk_health:
        if disk.grown_defects > at_most:
            yield Finding(disk.name, f"{disk.grown_defects} grown defects", f"at most {at_most}")


@check("disk.smart_unsafe_shutdowns")
def disk_smart_unsafe_shutdowns(
    disk_health: tuple[DiskHealth, ...], previous_disk_health: tuple[DiskHealth, ...],
) -> Iterator[Finding]:
    """No NVMe drive lost power since the earlier look of the same boot: the node did not, so its slot or its supply did."""
    before = {disk.serial: disk for disk in previous_disk_health}
    for disk in disk_health:
        earlier = before.get(disk.serial)
        if earlier is not None and (grown := increase(disk, earlier, "unsafe_shutdowns")):
            yield Finding(disk.name, f"{grown} more unsafe shutdowns since the earlier look", "none while the node is up")
