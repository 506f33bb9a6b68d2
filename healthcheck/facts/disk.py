"""The health that disks report, as smartctl of smartmontools (7.0 or newer) prints it in JSON, one command
for each disk.

Names of members: smartmontools, nvmeprint.cpp (nvme_smart_health_information_log), ataprint.cpp
(ata_smart_attributes, endurance_used) and scsiprint.cpp (scsi_grown_defect_list, scsi_error_counter_log,
scsi_percentage_used_endurance_indicator); their meaning: NVM Express Base Specification, SMART / Health
Information log. smartctl's exit status is a set of bits (smartctl(8)): the lower
three mean that it could not read the disk, the others what it found, which the JSON has in detail.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from operator import itemgetter
from typing import Any

from healthcheck.facts import self_tests
from healthcheck.facts.base import Captures, fact, why
from healthcheck.facts.files import DeviceOutput
from healthcheck.facts.gpu import PCI
from healthcheck.facts.nvme import HEAT, NVME, over_network, with_sensor
from healthcheck.facts.parsing import json_object, member, natural
from healthcheck.facts.raid_tools import on_pci
from healthcheck.facts.scsi import SCSI, above, is_removable, over_fabric
from healthcheck.facts.values import UNSUPPORTED, Fact, Unmeasured, Unread, partial_if, reading
from healthcheck.model.probes import MIB, Probe, ProbeKind
from healthcheck.model.recording import Outcome

SMART = Probe(
    "disk.smart", ProbeKind.COMMAND, argv=("smartctl", "-j", "-a", "/dev/{name}"),
    each=("/sys/class/nvme/nvme*", "/sys/block/sd*"),
    most=256,
    seconds=20.0, each_s=5.0, limit=2 * MIB, root=True,
)
# Drives behind a MegaRAID or PERC, which the kernel does not show: smartctl --scan asks the controller for
# them.
RAID_SMART = Probe(
    "disk.raid-smart", ProbeKind.COMMAND, argv=("smartctl", "-j", "-a", "-d", "{name}", "{folder}"),
    each=("/sys/bus/pci/drivers/megaraid_sas",), scan=("smartctl", "--scan"), most=256,
    seconds=30.0, each_s=5.0, limit=2 * MIB, root=True,
)
NO_TOOL = "SMART (smartctl is not installed)"
NO_DISK = "SMART (no NVMe or SCSI disk here)"
_COULD_NOT_ASK = 0b111
_REFUSED = 0b100        # the disk refused a command at least
_LOG = "nvme_smart_health_information_log"
_MOST = 2**128
# Attributes of ATA disks that count the same, whoever made the disk (smartctl's drive database; Backblaze's
# drive stats, SMART 5, 187, 197, 198).
_REALLOCATED, _REPORTED, _PENDING, _OFFLINE = 5, 187, 197, 198
# Attributes of SSDs whose normalised value is the life left in per cent, with the name that smartctl's drive
# database gives them there: other makers use the same numbers otherwise. In the order of preference.
_LIFE_LEFT = (
    (202, "Percent_Lifetime_Remain"),       # Micron, Crucial
    (231, "SSD_Life_Left"),                 # Kingston, Phison, SandForce
    (233, "Media_Wearout_Indicator"),       # Intel, Solidigm
    (177, "Wear_Leveling_Count"),           # Samsung
    (169, "Remaining_Lifetime_Perc"),       # Silicon Motion, Apacer
)
_UNCORRECTED = "total_uncorrected_errors"
_TEMPERATURE = 0b10     # bit of the critical warning
_SPARE = 0b1
_MOST_LISTED = 8


class DiskHealth(Fact):
    """One disk ("nvme3 (SAMSUNG MZWLJ3T8HBLS-00007)"). What its kind does not count is UNSUPPORTED. So is
    every field of a disk without SMART (behind a RAID controller, virtual, on USB, over a network), and of
    the entry that stands for no disk. Disks with removable media (a BMC's virtual drive) are left out.

    `passed` is the disk's own word; an NVMe drive's only sums up its critical warnings, so one that gives
    any passes here. `failing` are ATA attributes that foretell a failure and are at their threshold now.
    `critical_warning` has a bit for each warning of an NVMe drive. `hot` is its bit for a temperature,
    UNSUPPORTED where the kernel has the drive's sensor, which shows it as well. `spare_low`: its spare is
    below its threshold, by its warning or by the figures. `spare` and `used_percent` are in per cent of the
    original, `used_percent` may pass 100; `spare_threshold` is the drive's own. ATA disks count sectors, SCSI
    disks grown defects; `unrecovered` are errors that an ATA or SCSI disk could not correct. `hours` is how
    long it has been switched on.
    `self_test` says how the newest self-test that came to an end failed; empty where it passed.
    """

    IDENTITY = ("serial",)

    name: str
    kind: str
    serial: str
    passed: bool
    failing: tuple[str, ...]
    critical_warning: int
    hot: bool
    media_errors: int
    spare: int
    spare_threshold: int
    spare_low: bool
    used_percent: int
    hours: int
    unsafe_shutdowns: int
    reallocated: int
    pending: int
    uncorrectable: int
    unrecovered: int
    grown_defects: int
    self_test: str


@fact("disk_health", SMART, besides=(SCSI, NVME, HEAT, RAID_SMART, PCI), each="disk")
def disk_health(captures: Captures) -> Any:
    """Every disk that was read, in natural order of their names, and then the drives behind a RAID
    controller; one entry, all UNSUPPORTED, where there is no tool or no disk."""
    outcome = captures.outcome(SMART)
    if outcome is Outcome.MISSING:
        return (DiskHealth.absent(NO_TOOL),)
    answers = captures.devices(SMART)
    sensors, files_above = with_sensor(captures), above(captures)
    shown = [_asked(captures, path, answers[path], sensors, files_above)
             for path in sorted(answers, key=natural) if not is_removable(captures, path)]
    behind, unasked = _behind_raid(captures)
    # A drive that the controller passes on as it is has been asked already.
    serials = {reading(disk, "serial") for disk in shown} - {UNSUPPORTED} if behind else ()
    result = (*shown, *(disk for disk in behind if reading(disk, "serial") not in serials))
    if not result and not unasked:
        return (DiskHealth.absent(NO_DISK),)
    return partial_if(result, unasked if outcome is Outcome.DONE else "not every disk was asked in time")


def _behind_raid(captures: Captures) -> tuple[list[DiskHealth], str]:
    """The drives behind RAID controllers, and why not all were asked, where there may be any."""
    capture = captures.capture(RAID_SMART)
    try:
        controller = "megaraid_sas" in captures.once(on_pci)
    except Unread:
        controller = None
    done = captures.outcome(RAID_SMART) is Outcome.DONE
    if not done and controller is False:
        return [], ""
    answers = captures.devices(RAID_SMART) if capture is not None and capture.files else {}
    lacking = "" if done else why(RAID_SMART, capture)
    if done and controller and not answers:
        lacking = "smartctl --scan lists no drive behind the RAID controller"
    disks = []
    for path in sorted(answers, key=natural):
        folder, _, kind = path.rpartition("/")
        disks.append(read_disk(f"{kind} on bus {folder.rpartition('/')[2]}", answers[path]))
    return disks, lacking


_NOT_ALLOWED = re.compile("permission|not permitted|privilege", re.IGNORECASE)


def _asked(captures: Captures, path: str, answer: DeviceOutput | Unmeasured, sensors: Collection[str],
           files_above: Collection[str]) -> DiskHealth:
    device = path.rpartition("/")[2]
    over = "over a network" if over_network(captures, device) else over_fabric(files_above, path)
    if over:
        return DiskHealth.absent(f"{device} ({over})")
    return read_disk(device, answer, sensor=device in sensors)


def read_disk(device: str, answer: DeviceOutput | Unmeasured, *, sensor: bool = False) -> DiskHealth:
    """smartctl's report on a disk, of which the kernel may have a temperature `sensor`; never raises."""
    if isinstance(answer, Unmeasured):
        return DiskHealth.absent(device, answer)
    document = json_object(answer.text)
    if document is None:
        return DiskHealth.absent(
            device, Unmeasured(f"smartctl of {device} printed no JSON (exit status {answer.exit}; it "
                               "needs version 7 or newer)"))
    model = document.get("model_name") or document.get("scsi_model_name")
    name = f"{device} ({model[:60]})" if isinstance(model, str) and model else device
    if member(document, "smart_support", "available") is False:
        return DiskHealth.absent(f"{name} (has no SMART)")
    if member(document, "smart_support", "enabled") is False and "smart_status" not in document:
        return DiskHealth.absent(name, Unmeasured(
            f"its SMART is switched off (smartctl -s on /dev/{device})"))
    if answer.exit & _COULD_NOT_ASK and "smart_status" not in document:
        complaint = _complaint(document) or answer.complaint or f"exit status {answer.exit}"
        if "USB bridge" in complaint:
            return DiskHealth.absent(f"{device} (on USB)")
        if "megaraid" in complaint.lower() or "-d" in complaint.split():
            return DiskHealth.absent(f"{device} (behind a RAID controller)")
        asked = () if _NOT_ALLOWED.search(complaint) else (device,)
        return DiskHealth.absent(name, Unmeasured(f"smartctl could not ask {device}: {complaint[:200]}",
                                                  asked=asked))
    refused = _complaint(document) or f"exit status {answer.exit}"
    return _disk(name, document, sensor, refused if answer.exit & _REFUSED else "")


def _complaint(document: dict[str, Any]) -> str:
    messages = member(document, "smartctl", "messages")
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, dict) and isinstance(message.get("string"), str):
            return str(message["string"])
    return ""


def _disk(name: str, document: dict[str, Any], sensor: bool, refused: str) -> DiskHealth:
    """`refused` is what smartctl says of commands that the disk refused; its attributes may be among them."""
    log = document.get(_LOG)
    table: Any = _rows(member(document, "ata_smart_attributes", "table"))
    if not table and refused and member(document, "device", "protocol") == "ATA":
        table = Unmeasured(f"its attributes were not read: {refused[:150]}")
    passed = member(document, "smart_status", "passed")
    counters: dict[str, Any] = log if isinstance(log, dict) else {}
    kind: Any = member(document, "device", "protocol")
    serial: Any = document.get("serial_number")
    unsupported: Any = UNSUPPORTED
    of_log: dict[str, Any] = {field: _count(counters[member], member) if member in counters else UNSUPPORTED
                              for field, member in _OF_LOG}
    of_log["used_percent"] = _used(document, of_log["used_percent"], table)
    warning = of_log["critical_warning"]
    return DiskHealth(
        **of_log,
        name=name,
        kind=kind if isinstance(kind, str) else unsupported,
        serial=serial if isinstance(serial, str) else unsupported,
        passed=_passed(passed, warning, nvme=isinstance(log, dict)),
        failing=_failing(table, passed),
        hot=unsupported if sensor else _bit(warning, _TEMPERATURE),
        spare_low=_spare_low(warning, of_log["spare"], of_log["spare_threshold"]),
        hours=_hours(document, counters),
        reallocated=_sectors(table, _REALLOCATED),
        pending=_sectors(table, _PENDING),
        uncorrectable=_sectors(table, _OFFLINE),
        unrecovered=_unrecovered(document, table),
        grown_defects=_plain(document, "scsi_grown_defect_list"),
        self_test=self_tests.newest(document),
    )


_OF_LOG = (
    ("critical_warning", "critical_warning"), ("media_errors", "media_errors"), ("spare", "available_spare"),
    ("spare_threshold", "available_spare_threshold"), ("used_percent", "percentage_used"),
    ("unsafe_shutdowns", "unsafe_shutdowns"),
)


def _passed(passed: Any, warning: Any, *, nvme: bool) -> Any:
    """The disk's own word. That of an NVMe drive sums up its critical warnings, which are judged one by one;
    where they were not read, a refusal may stand for any of them."""
    if not isinstance(passed, bool):
        return UNSUPPORTED
    if passed or not nvme:
        return passed
    if not isinstance(warning, int):
        return Unmeasured("it says that it fails, and its critical warning, which says why, was not read")
    return warning > 0


def _count(value: Any, what: str) -> Any:
    """A whole number. smartctl adds those that JSON readers may not hold as text, under another name."""
    if type(value) is int and 0 <= value < _MOST:
        return value
    return Unmeasured(f"{what} is {str(value)[:40]!r}, which is no whole number")


def _plain(document: dict[str, Any], member: str) -> Any:
    return _count(document[member], member) if member in document else UNSUPPORTED


def _rows(table: Any) -> Mapping[int, dict[str, Any]]:
    """The attributes of an ATA disk by number."""
    return {row["id"]: row for row in table if isinstance(row, dict) and type(row.get("id")) is int
            } if isinstance(table, list) else {}


_Table = Mapping[int, dict[str, Any]] | Unmeasured


def _sectors(table: _Table, number: int) -> Any:
    """An attribute's raw value. The lower 32 bits count; some disks use the upper ones otherwise."""
    if isinstance(table, Unmeasured):
        return table
    if number not in table:
        return UNSUPPORTED
    value = _count(member(table[number], "raw", "value"), f"attribute {number}")
    return value & 0xFFFFFFFF if isinstance(value, int) else value


def _failing(table: _Table, passed: Any) -> Any:
    """Attributes at their threshold that foretell a failure; those of age and temperature do not. One that
    calls itself failing says so without them."""
    if isinstance(table, Unmeasured):
        return () if passed is False else table
    failing = [(number, row) for number, row in table.items()
               if row.get("when_failed") == "now" and member(row, "flags", "prefailure") is True]
    failing.sort(key=itemgetter(0))
    return tuple([f"attribute {number} {str(row.get('name'))[:40]}"
                  for number, row in failing[:_MOST_LISTED]])


def _bit(warning: Any, bit: int) -> Any:
    return bool(warning & bit) if isinstance(warning, int) else warning


def _spare_low(warning: Any, spare: Any, threshold: Any) -> Any:
    """By the drive's warning or by the figures: each counts where the other was not read."""
    warned = _bit(warning, _SPARE)
    if not isinstance(spare, int) or not isinstance(threshold, int):
        return warned
    figures = spare < threshold
    return warned or figures if isinstance(warned, bool) else figures


def _used(document: dict[str, Any], of_log: Any, table: _Table) -> Any:
    """How much of the rated life is used: by the disk itself, else by its maker's attribute."""
    if of_log is not UNSUPPORTED:
        return of_log
    own = _plain(document, "scsi_percentage_used_endurance_indicator")
    if own is UNSUPPORTED:
        used = member(document, "endurance_used", "current_percent")
        own = UNSUPPORTED if used is None else _count(used, "endurance_used")
    if own is not UNSUPPORTED:
        return own
    if isinstance(table, Unmeasured):
        return table
    for number, name in _LIFE_LEFT:
        row = table.get(number, {})
        left = row.get("value")
        if row.get("name") == name and type(left) is int and 0 <= left <= 100:
            return 100 - left
    return UNSUPPORTED


def _hours(document: dict[str, Any], log: dict[str, Any]) -> Any:
    hours = member(document, "power_on_time", "hours")
    if hours is None:
        hours = log.get("power_on_hours")
    return UNSUPPORTED if hours is None else _count(hours, "power_on_time")


def _unrecovered(document: dict[str, Any], table: _Table) -> Any:
    """Errors that were not corrected: an ATA disk's attribute, or the sum of a SCSI disk's log."""
    log = document.get("scsi_error_counter_log")
    if not isinstance(log, dict):
        return _sectors(table, _REPORTED)
    counts = [_count(row.get(_UNCORRECTED), f"{_UNCORRECTED} ({what})") for what, row in sorted(log.items())
              if isinstance(row, dict)]
    wrong = [value for value in counts if not isinstance(value, int)]
    return wrong[0] if wrong else sum(counts) if counts else UNSUPPORTED
