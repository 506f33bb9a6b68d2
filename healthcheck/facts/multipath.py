"""Disks that the device mapper reaches over several paths (multipath), and the state of each path.

Formats: drivers/md/dm-sysfs.c (dm/name, dm/uuid: multipath-tools begins its uuids with "mpath-") and the
state of the disk or the controller that each path is, below slaves/ (drivers/scsi/scsi_sysfs.c,
drivers/nvme/host/sysfs.c).
"""

from __future__ import annotations

import re
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.files import CapturedFiles
from healthcheck.facts.parsing import natural
from healthcheck.facts.values import Fact, Unmeasured, first_unread, partial_if
from healthcheck.model.probes import Probe, ProbeKind
from inventory.text import clean

_BASE = "/sys/block"
MULTIPATH = Probe("disk.multipath", ProbeKind.FILES, paths=(
    f"{_BASE}/dm-*/dm/name", f"{_BASE}/dm-*/dm/uuid", f"{_BASE}/dm-*/slaves/*/device/state"))
NO_MULTIPATH = "multipath disks (none here)"
_UUID = re.compile(rf"{_BASE}/(dm-[0-9]{{1,5}})/dm/uuid")
_USED = ("running", "live")


class Multipath(Fact):
    """One disk ("mpatha"). `paths` counts those that the kernel has, `lost` names those of them that it does
    not use, with their state ("sdc offline"), whatever could not be read of another. A node without any has
    one entry, all UNSUPPORTED."""

    name: str
    paths: int
    lost: tuple[str, ...]


@fact("multipaths", MULTIPATH, each="multipath")
def multipaths(captures: Captures) -> Any:
    """Every such disk, in natural order of the kernel's names."""
    files = captures.files(MULTIPATH)
    names = sorted((found[1] for path in files if (found := _UUID.fullmatch(path))), key=natural)
    uuids = {name: files.read(f"{_BASE}/{name}/dm/uuid", str) for name in names}
    unread = next((uuid.reason for uuid in uuids.values() if isinstance(uuid, Unmeasured)), None)
    ours = [name for name, uuid in uuids.items() if str(uuid).startswith("mpath-")]
    disks = [_disk(files, name) for name in ours]
    # Of other mapped disks nothing else is wanted.
    others = tuple(f"{_BASE}/{name}/" for name in uuids if name not in ours)
    files.ignore(path for path in files if path.startswith(others))
    return partial_if(tuple(disks) or (Multipath.absent(NO_MULTIPATH),), unread or files.unreadable())


def _disk(files: CapturedFiles, name: str) -> Multipath:
    title = files.read(f"{_BASE}/{name}/dm/name", lambda text: clean(text, 60))
    states = {path.split("/")[5]: files.read(path, lambda text: clean(text, 30)) for path in files
              if path.startswith(f"{_BASE}/{name}/slaves/") and path.endswith("/device/state")}
    known = tuple(f"{path} {states[path]}" for path in sorted(states, key=natural)
                  if isinstance(states[path], str) and states[path] not in _USED)
    lost: Any = known or first_unread(states.values()) or ()
    return Multipath(title if isinstance(title, str) and title else name, paths=len(states), lost=lost)
