"""The health that disks report, as smartctl of smartmontools (7.0 or newer) prints it in JSON, one command
for each disk.

Names of members: smartmontools, nvmeprint.cpp (nvme_smart_health_information_log), ataprint.cpp
(ata_smart_attributes) and scsiprint.cpp (scsi_grown_defect_list); their meaning: NVM Express Base
Specification, SMART / Health Information log. smartctl's exit status is a set of bits (smartctl(8)): the
lower three mean that it could not read the disk, the others what it found, which the JSON has in detail.
"""

from __future__ import annotations

import json
import re
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.files import DeviceOutput
from healthcheck.facts.parsing import natural
from healthcheck.facts.values import UNSUPPORTED, Fact, Partial, Unmeasured
from healthcheck.model.probes import MIB, Probe, ProbeKind
from healthcheck.model.recording import Outcome

SMART = Probe(
    "disk.smart", ProbeKind.COMMAND, argv=("smartctl", "-j", "-a", "/dev/{name}"),
    each=("/sys/class/nvme/nvme*", "/sys/block/sd*"),
    most=64,
    seconds=20.0, each_s=5.0, limit=2 * MIB, root=True,
)
NO_TOOL = "SMART (smartctl is not installed)"
NO_DISK = "SMART (no NVMe or SCSI disk here)"
_COULD_NOT_ASK = 0b111
_LOG = "nvme_smart_health_information_log"
_MOST = 2**128
# Attributes of ATA disks that count sectors, whoever made the disk (smartctl's drive database; Backblaze's
# drive stats, SMART 5, 197, 198).
_REALLOCATED, _PENDING, _OFFLINE = 5, 197, 198


class DiskHealth(Fact):
    """One disk ("nvme3 (SAMSUNG MZWLJ3T8HBLS-00007)"). What its kind does not count is UNSUPPORTED. So is
    every field of a disk behind a RAID controller, of a virtual one, and of the entry that stands for no
    disk.

    `critical_warning` has a bit for each warning of an NVMe drive; `spare` and `used_percent` are in per cent
    of the original, `used_percent` may pass 100; `spare_threshold` is the drive's own. ATA disks count
    sectors; SCSI disks grown defects.
    """

    IDENTITY = ("serial",)

    name: str
    kind: str
    serial: str
    passed: bool
    critical_warning: int
    media_errors: int
    spare: int
    spare_threshold: int
    used_percent: int
    unsafe_shutdowns: int
    reallocated: int
    pending: int
    uncorrectable: int
    grown_defects: int


@fact("disk_health", SMART, each="disk")
def disk_health(captures: Captures) -> Any:
    """Every disk that was read, in natural order of their names; one entry, all UNSUPPORTED, where there is
    no tool or no disk."""
    capture = captures.capture(SMART)
    if capture is not None and capture.outcome is Outcome.MISSING:
        return (DiskHealth.absent(NO_TOOL),)
    answers = captures.devices(SMART)
    result = tuple([read_disk(path.rpartition("/")[2], answers[path])
                    for path in sorted(answers, key=natural)])
    if not result:
        return (DiskHealth.absent(NO_DISK),)
    return (result if capture is not None
            and capture.outcome is Outcome.DONE else Partial(result, "not every disk was asked in time"))


_NOT_ALLOWED = re.compile("permission|not permitted|privilege", re.IGNORECASE)


def read_disk(device: str, answer: DeviceOutput | Unmeasured) -> DiskHealth:
    """smartctl's report on a disk; never raises."""
    if isinstance(answer, Unmeasured):
        return DiskHealth.absent(device, answer)
    try:
        document = json.loads(answer.text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        return DiskHealth.absent(
            device, Unmeasured(f"smartctl of {device} printed no JSON (exit status {answer.exit}; it "
                               "needs version 7 or newer)"))
    model = document.get("model_name") or document.get("scsi_model_name")
    name = f"{device} ({model[:60]})" if isinstance(model, str) and model else device
    complaint = _complaint(document) or answer.complaint or f"exit status {answer.exit}"
    if answer.exit & _COULD_NOT_ASK and "smart_status" not in document:
        if "megaraid" in complaint.lower() or "-d" in complaint.split():
            return DiskHealth.absent(f"{device} (behind a RAID controller)")
        asked = () if _NOT_ALLOWED.search(complaint) else (device,)
        return DiskHealth.absent(name, Unmeasured(f"smartctl could not ask {device}: {complaint[:200]}",
                                                  asked=asked))
    return _disk(name, document)


def _complaint(document: dict[str, Any]) -> str:
    messages = _member(document, "smartctl", "messages")
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, dict) and isinstance(message.get("string"), str):
            return str(message["string"])
    return ""


def _member(document: Any, *names: str) -> Any:
    for name in names:
        document = document.get(name) if isinstance(document, dict) else None
    return document


def _disk(name: str, document: dict[str, Any]) -> DiskHealth:
    log = document.get(_LOG)
    attributes = _attributes(_member(document, "ata_smart_attributes", "table"))
    passed = _member(document, "smart_status", "passed")

    counters: dict[str, Any] = log if isinstance(log, dict) else {}
    kind, serial = _member(document, "device", "protocol"), document.get("serial_number")
    return DiskHealth(**{
        "name": name,
        "kind": kind if isinstance(kind, str) else UNSUPPORTED,
        "serial": serial if isinstance(serial, str) else UNSUPPORTED,
        "passed": passed if isinstance(passed, bool) else UNSUPPORTED,
        **{field: _count(counters[member], member) if member in counters else UNSUPPORTED
           for field, member in _OF_LOG},
        "reallocated": attributes.get(_REALLOCATED, UNSUPPORTED),
        "pending": attributes.get(_PENDING, UNSUPPORTED),
        "uncorrectable": attributes.get(_OFFLINE, UNSUPPORTED),
        "grown_defects": _count(document["scsi_grown_defect_list"], "scsi_grown_defect_list")
        if "scsi_grown_defect_list" in document else UNSUPPORTED,
    })


_OF_LOG = (
    ("critical_warning", "critical_warning"), ("media_errors", "media_errors"), ("spare", "available_spare"),
    ("spare_threshold", "available_spare_threshold"), ("used_percent", "percentage_used"),
    ("unsafe_shutdowns", "unsafe_shutdowns"),
)


def _count(value: Any, what: str) -> Any:
    """A whole number. smartctl adds those that JSON readers may not hold as text, under another name."""
    if type(value) is int and 0 <= value < _MOST:
        return value
    return Unmeasured(f"{what} is {str(value)[:40]!r}, which is no whole number")


def _attributes(table: Any) -> dict[int, Any]:
    """Raw values by attribute. The lower 32 bits count sectors; some disks use the upper ones otherwise."""
    found: dict[int, Any] = {}
    for row in table if isinstance(table, list) else ():
        number, raw = _member(row, "id"), _member(row, "raw", "value")
        if number in (_REALLOCATED, _PENDING, _OFFLINE):
            value = _count(raw, f"attribute {number}")
            found[number] = value & 0xFFFFFFFF if isinstance(value, int) else value
    return found
