"""File system facts: what is mounted where, from /proc/self/mountinfo (proc(5)), and how full it is, from statvfs(3)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from healthcheck.facts.base import UNSUPPORTED, Captures, Fact, Files, Unread, fact
from healthcheck.probes import MIB, Kind, Probe

MOUNTINFO = "/proc/self/mountinfo"
# File systems that hold no data of anybody's, or are read-only and full by design.
PSEUDO = (
    "autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs", "fusectl",
    "fuse.lxcfs", "fuse.portal", "hugetlbfs", "iso9660", "mqueue", "nsfs", "nullfs", "proc", "pstore", "ramfs", "rootfs",
    "rpc_pipefs", "securityfs", "selinuxfs", "squashfs", "sysfs", "tracefs",
)
MOUNTS = Probe("filesystem.mounts", Kind.MOUNTS, skip=PSEUDO, seconds=8.0, each_s=2.0, limit=2 * MIB)


@dataclass(frozen=True)
class Filesystem(Fact):
    """One mounted file system. `name` is its mount point; sizes in bytes; `available_bytes` is what an ordinary user may still write.

    `read_only` speaks of the file system itself, `mounted_read_only` of this mount of it: the kernel, when a device fails, makes
    the former so and leaves the latter.
    `used_percent` counts as df(1) does: used of what an ordinary user could ever use.
    """

    name: str
    source: str
    fstype: str
    read_only: bool
    mounted_read_only: bool
    size_bytes: int
    available_bytes: int
    used_percent: float
    inodes_used_percent: float


_OCTAL = re.compile(r"\\([0-7]{3})")


def _unescape(text: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)


@dataclass(frozen=True)
class _Mount:
    point: str
    fstype: str
    source: str
    options: str
    mount_options: str


def parse_mountinfo(text: str) -> dict[str, _Mount]:
    """Mount points and what is visible at each (the last one mounted there); raises ValueError on a line of another form."""
    mounts: dict[str, _Mount] = {}
    for line in text.split("\n"):  # a mount point may hold any other separator
        if not line:
            continue
        before, dash, after = line.partition(" - ")
        left, right = before.split(" "), after.split(" ")
        if not dash or len(left) < 6 or len(right) < 3:
            raise ValueError(line)
        point = _unescape(left[4])
        mounts[point] = _Mount(point, right[0], _unescape(right[1]), right[2], left[5])
    return mounts


@fact("filesystems", MOUNTS)
def filesystems(captures: Captures) -> tuple[Filesystem, ...]:
    """Every mounted file system that can hold data, in the order of their mount points."""
    files = captures.files(MOUNTS)
    try:
        mounts = parse_mountinfo(files.text(MOUNTINFO))
    except ValueError:
        raise Unread(f"{MOUNTINFO} is not of the documented form") from None
    return tuple(_filesystem(files, mounts[point]) for point in sorted(mounts) if mounts[point].fstype not in PSEUDO)


def _filesystem(files: Files, mount: _Mount) -> Filesystem:
    def number(pick: str) -> Any:
        return files.read(mount.point, lambda text: _FIGURES[pick]([int(word) for word in text.split()]))

    return Filesystem(
        name=mount.point, source=mount.source, fstype=mount.fstype, read_only="ro" in mount.options.split(","),
        mounted_read_only="ro" in mount.mount_options.split(","),
        size_bytes=number("size"), available_bytes=number("available"), used_percent=number("used"),
        inodes_used_percent=number("inodes"),
    )


# The collector's ten figures: bsize frsize blocks bfree bavail files ffree favail flag namemax.
def _used(v: list[int]) -> Any:
    used = v[2] - v[3]
    usable = used + v[4]
    return UNSUPPORTED if v[2] == 0 else round(100 * used / usable, 2) if usable > 0 else 100.0


_FIGURES: dict[str, Any] = {
    "size": lambda v: v[1] * v[2],
    "available": lambda v: v[1] * v[4],
    "used": _used,
    "inodes": lambda v: UNSUPPORTED if v[5] == 0 else round(100 * (v[5] - v[6]) / v[5], 2),
}
