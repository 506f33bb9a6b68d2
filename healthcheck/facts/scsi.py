"""SCSI, SAS and SATA disks (sd*) by the kernel: the state of each, and how its commands ended.

Formats: drivers/scsi/scsi_sysfs.c (states in words; counters in hexadecimal, 32 bits, from 0 when the disk
was found). What they count: scsi_lib.c, scsi_complete(): each command's end is in iodone_cnt, and every end
that was not plain success in ioerr_cnt as well. Not all of those are faults: a disk declines commands (a
discard, a page that it does not have), a queue is full, and each ATA command that smartctl passes through for
its registers counts. scsi_error.c counts commands that were never answered in iotmo_cnt (Linux 6.0).
"""

from __future__ import annotations

import re
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.files import CapturedFiles
from healthcheck.facts.parsing import natural
from healthcheck.facts.values import Fact
from healthcheck.model.probes import MIB, Probe, ProbeKind
from healthcheck.model.recording import Outcome
from inventory.text import clean

BASE = "/sys/block"
_DEVICE = ("state", "model", "iodone_cnt", "ioerr_cnt", "iotmo_cnt")
SCSI = Probe(
    "disk.scsi", ProbeKind.FILES, limit=1 * MIB,
    paths=(f"{BASE}/sd*/removable", *(f"{BASE}/sd*/device/{name}" for name in _DEVICE)),
)
NO_DISK = "SCSI disks (none here)"
# scsi_sysfs.c, sdev_states.
_STATES = ("created", "running", "cancel", "deleted", "quiesce", "offline", "transport-offline", "blocked",
           "created-blocked")


class ScsiDisk(Fact):
    """One disk ("sda (SAMSUNG MZ7LH480)"). `done` counts commands that ended, `errors` those that failed,
    since it was found.

    `timeouts` is UNSUPPORTED before Linux 6.0. Disks with removable media (a BMC's virtual drive) are left
    out. A node without any has one entry, all UNSUPPORTED.
    """

    name: str
    state: str
    done: int
    errors: int
    timeouts: int


def state(text: str) -> str:
    """A disk's state; raises ValueError for a word that is not the kernel's."""
    if text not in _STATES:
        raise ValueError(text)
    return text


def counter(text: str) -> int:
    """A counter of 32 bits, "0x1f"; raises ValueError."""
    if re.fullmatch(r"0x[0-9a-f]{1,8}", text) is None:
        raise ValueError(text)
    return int(text, 16)


def _removable(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError(text)
    return text == "1"


def is_removable(captures: Captures, path: str) -> bool:
    """Whether the kernel says that the disk of this folder has removable media, as a BMC's virtual drive."""
    capture = captures.capture(SCSI)
    entry = capture.files.get(f"{path}/removable") if capture is not None else None
    return entry is not None and entry.outcome is Outcome.DONE and entry.text.strip() == "1"


@fact("scsi_disks", SCSI, each="scsi_disk")
def scsi_disks(captures: Captures) -> tuple[ScsiDisk, ...]:
    """Every disk without removable media, in natural order."""
    files = captures.files(SCSI)
    if files.has(BASE):
        files.text(BASE)    # an entry of its own: it could not be listed
    pattern = re.compile(re.escape(BASE) + r"/(sd[a-z]{1,4})/(?:removable|device/\w+)")
    names = sorted({found[1] for path in files if (found := pattern.fullmatch(path))}, key=natural)
    disks = tuple(_disk(files, name) for name in names
                  if files.read(f"{BASE}/{name}/removable", _removable) is not True)
    return disks or (ScsiDisk.absent(NO_DISK),)


def _disk(files: CapturedFiles, name: str) -> ScsiDisk:
    at = f"{BASE}/{name}/device"
    model = files.read(f"{at}/model", lambda text: clean(text, 40))
    timeouts: Any = files.optional(f"{at}/iotmo_cnt", counter)
    return ScsiDisk(
        f"{name} ({model})" if isinstance(model, str) and model else name, files.read(f"{at}/state", state),
        files.read(f"{at}/iodone_cnt", counter), files.read(f"{at}/ioerr_cnt", counter), timeouts,
    )
