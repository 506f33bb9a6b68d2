"""Arrays of disks: Linux md from sysfs, ZFS pools from their kernel statistics, without running a tool.

Formats: the kernel's Documentation/admin-guide/md.rst ("MD devices in sysfs"; level, array_state, degraded,
sync_action, mismatch_cnt, dev-*/state), and OpenZFS's /proc/spl/kstat/zfs/POOL/state (module/os/linux/spl,
the names of zpool status). `raid0` and `linear` have no redundancy, and so none of the files about it; their
state is "broken" once a member is gone.
"""

from __future__ import annotations

import re
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.files import CapturedFiles
from healthcheck.facts.parsing import matched, matching, natural, whole
from healthcheck.facts.values import Fact, first_unread, partial_if
from healthcheck.model.probes import Probe, ProbeKind

_BLOCK, _POOLS = "/sys/block", "/proc/spl/kstat/zfs"
_FILES = ("level", "metadata_version", "raid_disks", "array_state", "degraded", "sync_action",
          "sync_completed", "mismatch_cnt", "dev-*/state")
MD = Probe("raid.md", ProbeKind.FILES, paths=tuple(f"{_BLOCK}/md*/md/{name}" for name in _FILES))
ZFS = Probe("raid.zfs", ProbeKind.FILES, paths=(f"{_POOLS}/*/state",))

NO_ARRAY = "md arrays (none here)"
NO_POOL = "ZFS pools (none here)"


class Array(Fact):
    """One md array ("md0 (raid1)"). `missing` is how many members it lacks, `faulty` names those that it
    removed, and `spares` counts those that hold no data yet: what is being rebuilt is among them.

    `container`: it holds the arrays of a firmware RAID, and no data of its own. Its `level` is empty, and so
    is that of an array that waits for members and was never started (drivers/md/md.c, level_show).
    `action` is idle, resync, recover, check, repair, reshape or frozen; `done_percent` is its progress. A
    node without arrays has one entry, all UNSUPPORTED.
    """

    name: str
    level: str
    container: bool
    state: str
    disks: int
    missing: int
    faulty: tuple[str, ...]
    spares: int
    action: str
    done_percent: float
    mismatches: int


class Pool(Fact):
    """One ZFS pool; `state` in capitals, as zpool status has it. A node without pools has one entry of state
    UNSUPPORTED."""

    name: str
    state: str


_OF_ARRAY = re.compile(rf"{_BLOCK}/md[^/]*/md/")
_PROGRESS = re.compile(r"([0-9]{1,19}) / ([0-9]{1,19})")
# Of an array an empty level is one; states never are.
_level, _state_word = matching(r"[a-z0-9_-]{0,32}"), matching(r"[a-z0-9_-]{1,32}")
_flags = matching(r"[a-z_,]{0,200}")
_metadata = matching(r"[A-Za-z0-9._:/-]{1,64}")


def _done(text: str) -> Any:
    """The percentage of "123 / 4567" sectors; "none" and "delayed" are 0."""
    if text in ("none", "delayed"):
        return 0.0
    found = matched(_PROGRESS, text)
    if int(found[2]) == 0:
        raise ValueError(text)
    return round(100 * int(found[1]) / int(found[2]), 1)


def _is_container(text: str) -> bool:
    """Of "external:imsm" it is; of its arrays, "external:/md127/0" (or "-md127/0", read-only), it is not."""
    kind, _, of = _metadata(text).partition(":")
    return kind == "external" and not of.startswith(("/", "-"))


@fact("arrays", MD, each="array")
def arrays(captures: Captures) -> Any:
    """Every md array, in natural order of their names."""
    files = captures.files(MD)
    names = {path.split("/")[3] for path in files if _OF_ARRAY.match(path)}
    result = tuple(_array(files, name) for name in sorted(names, key=natural)) or (
        Array.absent(NO_ARRAY),)
    return partial_if(result, files.unreadable())


def _array(files: CapturedFiles, name: str) -> Array:
    at = f"{_BLOCK}/{name}/md"

    def optional(file: str, parse: Any) -> Any:
        return files.optional(f"{at}/{file}", parse)

    level = files.read(f"{at}/level", _level)
    members = {path.split("/")[-2].removeprefix("dev-"): files.read(path, _flags) for path in files
               if path.startswith(f"{at}/dev-") and path.endswith("/state")}
    unread: Any = first_unread(members.values())
    faulty = tuple(sorted(member for member, flags in members.items()
                          if isinstance(flags, str) and "faulty" in flags.split(",")))
    return Array(
        name=f"{name} ({level})" if isinstance(level, str) else name,
        level=level,
        container=files.read(f"{at}/metadata_version", _is_container),
        state=files.read(f"{at}/array_state", _state_word),
        disks=optional("raid_disks", lambda text: whole(text.partition(" ")[0])),
        missing=optional("degraded", whole),
        faulty=faulty if unread is None or faulty else unread,
        spares=sum("spare" in flags.split(",") for flags in members.values()) if unread is None else unread,
        action=optional("sync_action", _state_word),
        done_percent=optional("sync_completed", _done),
        mismatches=optional("mismatch_cnt", whole),
    )


@fact("pools", ZFS, each="pool")
def pools(captures: Captures) -> Any:
    """Every imported ZFS pool, in the order of their names."""
    files = captures.files(ZFS)
    paths = sorted(path for path in files if path.endswith("/state"))
    result = (tuple(Pool(path.split("/")[-2], files.read(path, matching(r"[A-Z]{2,16}"))) for path in paths)
              or (Pool.absent(NO_POOL),))
    return partial_if(result, files.unreadable())
