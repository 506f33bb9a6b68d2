"""SCSI, SAS and SATA disks (sd*) by the kernel: the state of each, and how its commands ended.

Formats: drivers/scsi/scsi_sysfs.c (states in words; counters in hexadecimal, 32 bits, from 0 when the disk
was found). What they count: scsi_lib.c, scsi_complete(): each command's end is in iodone_cnt, and every end
that was not plain success in ioerr_cnt as well. Not all of those are faults: a disk declines commands (a
discard, a page that it does not have), a queue is full, and each ATA command that smartctl passes through for
its registers counts. scsi_error.c counts commands that were never answered in iotmo_cnt (Linux 6.0).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.files import CapturedFiles
from healthcheck.facts.parsing import SECTOR, flag, hexadecimal, natural, one_of, whole
from healthcheck.facts.values import Fact
from healthcheck.model.probes import MIB, Probe, ProbeKind
from inventory.text import clean

BASE = "/sys/block"
_DEVICE = ("state", "model", "rev", "iodone_cnt", "ioerr_cnt", "iotmo_cnt")
# Above the disk in the kernel's tree: its target, and then the session or the port that it is reached over.
_OVER = {
    "device/../../iscsi_session": "over iSCSI", "device/../../fc_remote_ports": "over Fibre Channel",
    "device/../../../bInterfaceClass": "on USB",
}
SCSI = Probe(
    "disk.scsi", ProbeKind.FILES, limit=1 * MIB,
    paths=(f"{BASE}/sd*/removable", f"{BASE}/sd*/size", *(f"{BASE}/sd*/device/{name}" for name in _DEVICE),
           f"{BASE}/sd*/device/../../iscsi_session/session*/state",
           f"{BASE}/sd*/device/../../fc_remote_ports/rport-*/port_state",
           f"{BASE}/sd*/device/../../../bInterfaceClass"),
)
_OF_DISK = re.compile(re.escape(BASE) + r"/(sd[a-z]{1,4})/(?:removable|size|device/\w+)")
NO_DISK = "SCSI disks (none here)"
# scsi_sysfs.c, sdev_states.
_STATES = ("created", "running", "cancel", "deleted", "quiesce", "offline", "transport-offline", "blocked",
           "created-blocked")


class ScsiDisk(Fact):
    """One disk ("sda (SAMSUNG MZ7LH480)"). `done` counts commands that ended, `errors` those that failed,
    since it was found.

    `timeouts` is UNSUPPORTED before Linux 6.0. `over` is how the node reaches it, where it is no disk of its
    own: "over iSCSI", "over Fibre Channel", "on USB"; else empty. Disks with removable media (a BMC's virtual
    drive) are left out. A node without any has one entry, all UNSUPPORTED.
    """

    name: str
    state: str
    done: int
    errors: int
    timeouts: int
    model: str
    firmware: str
    bytes: int
    over: str


def state(text: str) -> str:
    """A disk's state; raises ValueError for a word that is not the kernel's."""
    return one_of(_STATES, text)


def is_removable(captures: Captures, path: str) -> bool:
    """Whether the kernel says that the disk of this folder has removable media, as a BMC's virtual drive."""
    return captures.whole_text(SCSI, f"{path}/removable") == "1"


@fact("scsi_disks", SCSI, each="scsi_disk")
def scsi_disks(captures: Captures) -> tuple[ScsiDisk, ...]:
    """Every disk without removable media, in natural order."""
    files = captures.files(SCSI)
    if files.has(BASE):
        files.text(BASE)    # an entry of its own: it could not be listed
    names = sorted({found[1] for found in map(_OF_DISK.fullmatch, files) if found}, key=natural)
    files_above = _above(files)
    disks = tuple([_disk(files, name, _reached(files_above, f"{BASE}/{name}")) for name in names
                   if files.read(f"{BASE}/{name}/removable", flag) is not True])
    return disks or (ScsiDisk.absent(NO_DISK),)


def _disk(files: CapturedFiles, name: str, over: str) -> ScsiDisk:
    at = f"{BASE}/{name}/device"
    model = files.read(f"{at}/model", lambda text: clean(text, 40))
    timeouts: Any = files.optional(f"{at}/iotmo_cnt", hexadecimal)
    size: Any = files.optional(f"{BASE}/{name}/size", whole)
    return ScsiDisk(
        f"{name} ({model})" if isinstance(model, str) and model else name, files.read(f"{at}/state", state),
        files.read(f"{at}/iodone_cnt", hexadecimal), files.read(f"{at}/ioerr_cnt", hexadecimal), timeouts,
        model,
        files.optional(f"{at}/rev", lambda text: clean(text, 40)),
        size * SECTOR if isinstance(size, int) else size, over,
    )


def _reached(files: Iterable[str], path: str) -> str:
    """How the disk of this folder is reached by the files above it; empty where it is the node's own."""
    return min((words for file in files for part, words in _OVER.items()
                if file.startswith(f"{path}/{part}")), default="")


def above(captures: Captures) -> list[str]:
    """The files above disks, which say how these are reached."""
    capture = captures.capture(SCSI)
    return _above(capture.files) if capture is not None else []


def _above(files: Iterable[str]) -> list[str]:
    return [path for path in files if "/device/../../" in path]


def over_fabric(files: Iterable[str], path: str) -> str:
    """How the disk of this folder is reached over a network or a fabric by the files above it; empty where it
    is not."""
    over = _reached(files, path)
    return over if over.startswith("over ") else ""
