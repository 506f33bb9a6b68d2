"""File system facts: what is mounted where, from /proc/self/mountinfo (proc(5)), how full it is and whether
it answers, from statvfs(3), what should be mounted, from fstab(5), and Lustre's own health (health_check;
Lustre Operations Manual, "Monitoring")."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, NamedTuple

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.files import CapturedFiles
from healthcheck.facts.parsing import nonempty
from healthcheck.facts.values import UNSUPPORTED, Fact, Unmeasured, Unread, changed
from healthcheck.model.probes import MIB, Probe, ProbeKind
from healthcheck.model.recording import Outcome

MOUNTINFO = "/proc/self/mountinfo"
# File systems that hold no user data, or are read-only and full by design.
PSEUDO = (
    "autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs",
    "efivarfs", "fusectl",
    "fuse.lxcfs", "fuse.portal", "hugetlbfs", "iso9660", "mqueue", "nsfs", "nullfs", "proc", "pstore",
    "ramfs", "rootfs",
    "rpc_pipefs", "securityfs", "selinuxfs", "squashfs", "sysfs", "tracefs",
)
_PSEUDO = frozenset(PSEUDO)
MOUNTS = Probe("filesystem.mounts", ProbeKind.MOUNTS, skip=PSEUDO, seconds=8.0, each_s=2.0, limit=2 * MIB)
FSTAB = "/etc/fstab"
_LUSTRE = ("/sys/fs/lustre/health_check", "/proc/fs/lustre/health_check")      # the latter before Lustre 2.11
# Options of a super block that takes no writes. Since Linux 6.15 ext4 leaves "rw" beside "emergency_ro" when
# it goes read-only for an error (fs/ext4/super.c, ext4_show_options), and says "shutdown" when it was shut
# down.
_GIVEN_UP = frozenset(("ro", "emergency_ro", "shutdown"))
PLAN = Probe("filesystem.plan", ProbeKind.FILES, paths=(FSTAB,))
LUSTRE = Probe("filesystem.lustre", ProbeKind.FILES, paths=_LUSTRE)


class Filesystem(Fact):
    """One mounted file system. `name` is its mount point; sizes in bytes; `available_bytes` is what an
    ordinary user may still write.

    `read_only` is the file system's own state, `mounted_read_only` that of this mount: when a device fails,
    the kernel changes only the former. `used_percent` counts as df(1) does: used of what an ordinary user
    could ever use.
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


class MountAnswer(Fact):
    """Whether a mounted file system answered statvfs(3): "" if it did, else how it failed.

    That is "hung" (no answer within the probe's limit), "wedged" (the reader of an earlier snapshot still
    waits for it) or the system's error (ESTALE, ENOTCONN). UNSUPPORTED where we may not ask, or where it was
    unmounted meanwhile.
    """

    IDENTITY = ("name", "source")

    name: str
    source: str
    fstype: str
    error: str


class FstabMount(NamedTuple):
    """A mount point that fstab has mounted at boot."""

    point: str
    fstype: str
    source: str


class MountPlan(Fact):
    """What is mounted where, and what should be. `mounted` includes automount points; `wanted` is UNSUPPORTED
    without an fstab."""

    name: str
    mounted: frozenset[str]
    wanted: tuple[FstabMount, ...]


class Lustre(Fact):
    """Lustre's health by its own report, its lines joined; UNSUPPORTED where no Lustre is loaded."""

    name: str
    health: str


_OCTAL = re.compile(r"\\([0-7]{3})")


def _unescape(text: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text) if "\\" in text else text


class _Mount(NamedTuple):
    point: str
    fstype: str
    source: str
    options: str
    mount_options: str


def parse_mountinfo(text: str) -> dict[str, _Mount]:
    """Mount points and what is visible at each (the last one mounted there); raises ValueError for a line in
    another format."""
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


@fact("filesystems", MOUNTS, each="filesystem")
def filesystems(captures: Captures) -> tuple[Filesystem, ...]:
    """Every mounted file system that can hold data, in the order of their mount points."""
    files, (_, held) = captures.files(MOUNTS), captures.once(_mounts)
    return tuple([_filesystem(files, mount) for mount in held])


# Outcomes that are not the file system's doing.
_OURS = (None, Outcome.DONE, Outcome.UNABLE, Outcome.DENIED, Outcome.MISSING)


def _filesystem(files: CapturedFiles, mount: _Mount) -> Filesystem:
    read = files.read(mount.point, _figures)
    if isinstance(read, Unmeasured) and files.outcome(mount.point) not in _OURS:
        read = replace(read, asked=(mount.point,))
    figures: tuple[Any, ...] = (read,) * 4 if isinstance(read, Unmeasured) else read
    size, available, used, inodes = figures
    return Filesystem(
        name=mount.point,
        source=mount.source,
        fstype=mount.fstype,
        read_only=not _GIVEN_UP.isdisjoint(mount.options.split(",")),
        mounted_read_only="ro" in mount.mount_options.split(","),
        size_bytes=size,
        available_bytes=available,
        used_percent=used,
        inodes_used_percent=inodes,
    )


def _figures(text: str) -> tuple[Any, ...]:
    """Size and available in bytes, space and inodes used in per cent, from the collector's ten figures: bsize
    frsize blocks bfree bavail files ffree favail flag namemax."""
    _, unit, blocks, free, available, inodes, free_inodes, *_ = map(int, text.split())
    used, usable = blocks - free, blocks - free + available
    return (
        unit * blocks, unit * available,
        UNSUPPORTED if blocks == 0 else round(100 * used / usable, 2) if usable > 0 else 100.0,
        UNSUPPORTED if inodes == 0 else round(100 * (inodes - free_inodes) / inodes, 2),
    )


@fact("mount_answers", MOUNTS, each="mount_answer")
def mount_answers(captures: Captures) -> tuple[MountAnswer, ...]:
    """Every mounted file system that can hold data, and whether it answered."""
    _, held = captures.once(_mounts)
    files, note = captures.files(MOUNTS), captures.note(MOUNTS)
    # A reader of this snapshot that could not be killed is not one that an earlier snapshot left behind.
    return tuple([MountAnswer(mount.point, mount.source, mount.fstype,
                              _answer(files, mount.point, f"{mount.point}: wedged since" in note))
                  for mount in held])


def _mounts(captures: Captures) -> tuple[frozenset[str], tuple[_Mount, ...]]:
    """All mount points, and the mounts that can hold data, in the order of their points."""
    try:
        mounts = parse_mountinfo(captures.files(MOUNTS).text(MOUNTINFO))
    except ValueError:
        raise Unread(f"{MOUNTINFO} is not in the documented format") from None
    return frozenset(mounts), tuple([mounts[point] for point in sorted(mounts)
                                     if mounts[point].fstype not in _PSEUDO])


def _answer(files: CapturedFiles, point: str, since_earlier: bool) -> Any:
    outcome = files.outcome(point)
    if outcome is None:
        return Unmeasured("the probe's time was over before its turn")
    if outcome is Outcome.DONE:
        return ""
    if outcome is Outcome.UNABLE:
        return Unmeasured("our own reader could not ask it")
    if outcome in (Outcome.TIMEOUT, Outcome.WEDGED):
        return "wedged" if since_earlier else "hung"
    if outcome in (Outcome.DENIED, Outcome.MISSING):
        return UNSUPPORTED
    return files.complaint(point) or Unmeasured("statvfs failed without an error of the system")


@fact("mount_plan", MOUNTS, PLAN)
def mount_plan(captures: Captures) -> MountPlan:
    """The mounts of mountinfo and fstab."""
    mounted, _ = captures.once(_mounts)
    files = captures.files(PLAN)
    if not files.has(FSTAB) and FSTAB in files:
        return changed(MountPlan.absent("mounts"), mounted=mounted)
    return MountPlan("mounts", mounted, files.read(FSTAB, parse_fstab))


def parse_fstab(text: str) -> tuple[FstabMount, ...]:
    """The entries that are mounted at boot, in the file's order; raises ValueError for a line in another
    format."""
    wanted = []
    for line in text.split("\n"):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) < 3:
            raise ValueError(line)
        source, point, fstype = (_unescape(word) for word in words[:3])
        options = words[3].split(",") if len(words) > 3 else []
        if point.startswith("/") and fstype not in ("swap", "ignore") and "noauto" not in options:
            wanted.append(FstabMount(point.rstrip("/") or "/", fstype, source))
    return tuple(wanted)


@fact("lustre", LUSTRE)
def lustre(captures: Captures) -> Lustre:
    """The text of health_check, wherever this version of Lustre has it."""
    files = captures.files(LUSTRE)
    for path in _LUSTRE:
        if files.has(path):
            return Lustre("Lustre", files.read(path, _joined))
    read = all(path in files for path in _LUSTRE)
    return Lustre.absent("Lustre", UNSUPPORTED if read else Unmeasured("health_check was not captured"))


def _joined(text: str) -> str:
    return "; ".join(line.strip() for line in nonempty(text).splitlines() if line.strip())
