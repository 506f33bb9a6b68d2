"""What disks say of their own health, as smartctl of smartmontools (7.0 or newer) prints it in JSON, one command for each disk.

Names of members: smartmontools, nvmeprint.cpp (nvme_smart_health_information_log), ataprint.cpp (ata_smart_attributes) and scsiprint.cpp
(scsi_grown_defect_list); their meaning: NVM Express Base Specification, SMART / Health Information log. smartctl's exit status is a
set of bits (smartctl(8)): the lower three say that it could not ask, the others what it found, which the JSON says better.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from operator import attrgetter
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.files import Said
from healthcheck.facts.forms import Cut, Forms, Path
from healthcheck.facts.port import natural
from healthcheck.facts.text import of_paths
from healthcheck.facts.values import UNSUPPORTED, Fact, Partial, Unmeasured, reading
from healthcheck.facts.wholeforms import Part, WholeForms
from healthcheck.model.made import made
from healthcheck.model.probes import MIB, Kind, Probe
from healthcheck.model.recording import FileCapture, Outcome

SMART = Probe(
    "disk.smart", Kind.COMMAND, argv=("smartctl", "-j", "-a", "/dev/{name}"), each=("/sys/class/nvme/nvme*", "/sys/block/sd*"), most=64,
    seconds=20.0, each_s=5.0, limit=2 * MIB, root=True,
)
NO_TOOL = "SMART (smartctl is not installed)"
NO_DISK = "SMART (no NVMe or SCSI disk here)"
_COULD_NOT_ASK = 0b111
_LOG = "nvme_smart_health_information_log"
_MOST = 2**128
# Attributes of ATA disks that count sectors, whoever made the disk (smartctl's drive database; Backblaze's drive stats, SMART 5, 197, 198).
_REALLOCATED, _PENDING, _OFFLINE = 5, 197, 198


@dataclass(frozen=True)
class DiskHealth(Fact):
    """One disk ("nvme3 (SAMSUNG MZWLJ3T8HBLS-00007)"). What its kind does not count is UNSUPPORTED, and so is all of a disk behind
    a RAID controller, of a virtual one, and of the one entry that stands for none.

    `critical_warning` has a bit for each thing that an NVMe drive warns of; `spare` and `used_percent` are in per cent of what it was
    made with, `used_percent` may pass 100; `spare_threshold` is the drive's own. ATA disks count sectors; SCSI disks grown defects.
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


def _all(name: str, value: Any) -> DiskHealth:
    return DiskHealth(name, *[value] * (len(fields(DiskHealth)) - 1))


@fact("disk_health", SMART, each="disk")
def disk_health(captures: Captures) -> Any:
    """Every disk that was asked, in natural order of their names; one entry that is not supported where there is nobody to ask."""
    capture = captures.capture(SMART)
    if capture is not None and capture.outcome is Outcome.MISSING:
        return (_all(NO_TOOL, UNSUPPORTED),)
    wholly = capture is not None and capture.outcome is Outcome.DONE
    files = capture.files if capture is not None and wholly else {}
    result = _at_sight(files) or _one_by_one(captures.devices(SMART), files)
    if not result:
        return (_all(NO_DISK, UNSUPPORTED),)
    return result if wholly else Partial(result, "not every disk was asked in time")


_OUTCOME, _ALL_DONE = attrgetter("outcome"), [Outcome.DONE]


def _at_sight(files: Mapping[str, FileCapture]) -> tuple[DiskHealth, ...] | None:
    """The disks of a node whose answers are of forms that were met together; None where they are of none."""
    entries = list(files.values())
    if not entries or list(map(_OUTCOME, entries)) != _ALL_DONE * len(entries):
        return None
    found = _TOGETHER.find(_together(files, entries))
    if found is None or found[0].count != len(entries):
        return None
    every, said, values = found
    return every.disks(said, values)


def _one_by_one(answers: Mapping[str, Said | Unmeasured], files: Mapping[str, FileCapture]) -> tuple[DiskHealth, ...]:
    result, forms = [], {}
    for path in _in_order(tuple(answers)):
        disk, form = _disk_and_form(path.rpartition("/")[2], answers[path])
        result.append(disk)
        if form is not None:
            forms[path] = form
    if files and len(forms) == len(files):
        text = _together(files, files.values())
        head, *heads = [entry.text.partition("\n")[0] + "\n" for entry in files.values()]
        if text.count(_NUL) == 2 * len(files) - 1:      # so that it is in one way only that it is put together
            before = [_NUL.join([*files, head]), *[_NUL + head for head in heads]]
            parts = [Part(said, forms[path].cut) for said, path in zip(before, files, strict=True)]
            _TOGETHER.learn(text, parts, "", partial(_Disks, forms, tuple(files)))
    return tuple(result)


_NUL = "\0"


def _together(paths: Iterable[str], entries: Iterable[FileCapture]) -> str:
    """What all disks said, in one text."""
    return _NUL.join([*paths, *[entry.text for entry in entries]])


@of_paths(most=16)
def _in_order(paths: tuple[str, ...]) -> list[str]:
    return sorted(paths, key=natural)


def read_disk(device: str, answer: Said | Unmeasured) -> DiskHealth:
    """What smartctl said of a disk; never raises."""
    return _disk_and_form(device, answer)[0]


def _disk_and_form(device: str, answer: Said | Unmeasured) -> tuple[DiskHealth, _Form | None]:
    if isinstance(answer, Unmeasured):
        return _all(device, answer), None
    if answer.exit & _COULD_NOT_ASK:
        return read_whole(device, answer), None         # which may have nothing to do with what the document says
    found = _FORMS.find(device, answer.text)
    if found is not None:
        form, _, values = found
        return form.disk(values), form
    disk = read_whole(device, answer)
    if not isinstance(reading(disk, "kind"), Unmeasured):           # of what is no document the exit status is told, too
        _FORMS.learn(device, answer.text, partial(_Form, disk))
    return disk, None


def read_whole(device: str, answer: Said) -> DiskHealth:
    """What smartctl said of a disk, read from its first word to its last."""
    try:
        document = json.loads(answer.text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        return _all(device, Unmeasured(f"smartctl of {device} printed no JSON (exit status {answer.exit}; it needs version 7 or newer)"))
    model = document.get("model_name") or document.get("scsi_model_name")
    name = f"{device} ({model[:60]})" if isinstance(model, str) and model else device
    complaint = _complaint(document) or answer.complaint or f"exit status {answer.exit}"
    if answer.exit & _COULD_NOT_ASK and "smart_status" not in document:
        if "megaraid" in complaint.lower() or "-d" in complaint.split():
            return _all(f"{device} (behind a RAID controller)", UNSUPPORTED)
        return _all(name, Unmeasured(f"smartctl could not ask {device}: {complaint[:200]}"))
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

    said: dict[str, Any] = log if isinstance(log, dict) else {}
    kind, serial = _member(document, "device", "protocol"), document.get("serial_number")
    return made(DiskHealth, {
        "name": name,
        "kind": kind if isinstance(kind, str) else UNSUPPORTED,
        "serial": serial if isinstance(serial, str) else UNSUPPORTED,
        "passed": passed if isinstance(passed, bool) else UNSUPPORTED,
        **{field: _count(said[member], member) if member in said else UNSUPPORTED for field, member in _OF_LOG},
        "reallocated": attributes.get(_REALLOCATED, UNSUPPORTED),
        "pending": attributes.get(_PENDING, UNSUPPORTED),
        "uncorrectable": attributes.get(_OFFLINE, UNSUPPORTED),
        "grown_defects": _count(document["scsi_grown_defect_list"], "scsi_grown_defect_list")
        if "scsi_grown_defect_list" in document else UNSUPPORTED,
    })


_OF_LOG = (
    ("critical_warning", "critical_warning"), ("media_errors", "media_errors"), ("spare", "available_spare"),
    ("spare_threshold", "available_spare_threshold"), ("used_percent", "percentage_used"), ("unsafe_shutdowns", "unsafe_shutdowns"),
)


def _count(value: Any, what: str) -> Any:
    """A whole number. smartctl adds the text of those that JSON readers may not hold, under another name."""
    if type(value) is int and 0 <= value < _MOST:
        return value
    return Unmeasured(f"{what} is {str(value)[:40]!r}, which is no whole number")


def _attributes(table: Any) -> dict[int, Any]:
    """Raw values by attribute. Of the sector counts the lower 32 bits count; some disks keep other things above."""
    found: dict[int, Any] = {}
    for row in table if isinstance(table, list) else ():
        number, raw = _member(row, "id"), _member(row, "raw", "value")
        if number in (_REALLOCATED, _PENDING, _OFFLINE):
            value = _count(raw, f"attribute {number}")
            found[number] = value & 0xFFFFFFFF if isinstance(value, int) else value
    return found


def _of_log(member: str, value: Any) -> Any:
    return _count(value, member)


# What nothing is made of may differ from disk to disk and look to look (times, temperatures, what was read and written), and so may what
# is a field as it stands.
_WHOLLY_READ = frozenset((
    "model_name", "scsi_model_name", "smartctl", "smart_status", "device", "ata_smart_attributes", "scsi_grown_defect_list", _LOG))
_TAKEN: Mapping[Path, tuple[str, Callable[[Any], Any]]] = {
    ("serial_number",): ("serial", lambda value: value if isinstance(value, str) else UNSUPPORTED),
    **{(_LOG, member): (field, partial(_of_log, member)) for field, member in _OF_LOG},
}


class _Form:
    """What is known of what a disk says, and which of the values that differ make its fields."""

    def __init__(self, disk: DiskHealth, cut: Cut) -> None:
        self.cut = cut
        self._known = vars(disk)
        self.taken = [(place, *_TAKEN[path]) for place, path in enumerate(cut.paths) if path in _TAKEN]

    def disk(self, values: Sequence[Any], start: int = 0) -> DiskHealth:
        """The disk that says this; its own values begin at `start`."""
        return made(DiskHealth, {**self._known, **{field: take(values[start + place]) for place, field, take in self.taken}})


_FORMS: Forms[_Form] = Forms(lambda path: path[0] not in _WHOLLY_READ or (len(path) == 2 and path[0] == _LOG))


class _Disks:
    """What is known of what all disks of a node say, and the last that said it: of most both looks differ only in what is no field."""

    def __init__(self, forms: Mapping[str, _Form], paths: Sequence[str], starts: Sequence[int]) -> None:
        """`forms` are by path in the order of the disks, `paths` as they were captured, each with the place where its own values begin."""
        self.count = len(paths)
        begin = dict(zip(paths, starts, strict=True))
        self._forms = [(form, begin[path]) for path, form in forms.items()]
        self._taken = [start + place for form, start in self._forms for place, _, _ in form.taken]
        self._last: tuple[list[str], tuple[DiskHealth, ...]] | None = None

    def disks(self, said: Sequence[str], values: Sequence[Any]) -> tuple[DiskHealth, ...]:
        """The disks that say this, as text and as JSON has it, where what disks of these forms say differs."""
        own, last = [said[place] for place in self._taken], self._last
        if last is None or last[0] != own:
            last = self._last = own, tuple([form.disk(values, start) for form, start in self._forms])
        return last[1]


_TOGETHER: WholeForms[_Disks] = WholeForms()
