"""File system checks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase, translate
from functools import lru_cache

from healthcheck.checks.base import GIB, NotMeasured, Peers, check
from healthcheck.checks.growth import Growth
from healthcheck.facts.filesystem import Filesystem, Lustre, MountAnswer, MountPlan
from healthcheck.model.outcome import Finding, Owner


@lru_cache(maxsize=64)
def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    """What matches a name that any of these patterns matches; with none of them nothing."""
    return re.compile("|".join(map(translate, names)) or r"(?!)")


def _judged(
    filesystems: Peers[Filesystem], ignore: tuple[str, ...], types: tuple[str, ...],
) -> Peers[Filesystem]:
    """Those of the given types: mounts over a network, or by a user, are not the node's own."""
    matches = _pattern(tuple(ignore)).match
    judged = filesystems.where(lambda filesystem: filesystem.fstype in types and not matches(filesystem.name))
    if not len(judged):
        raise NotMeasured(None, f"no file system of the types {', '.join(types)} is mounted")
    return judged


@check("filesystem.space")
def filesystem_space(
    filesystems: Peers[Filesystem], *, at_most_percent: float, ignore: tuple[str, ...],
    types: tuple[str, ...],
) -> Iterator[Finding]:
    """No file system is fuller than allowed, counted as df does."""
    judged = _judged(filesystems, ignore, types)
    for filesystem, (used, available) in judged.read(lambda each: (each.used_percent, each.available_bytes)):
        if used > at_most_percent:
            observed = f"{used:.1f}% used, {available / GIB:.1f} GiB left"
            yield Finding(observed, f"at most {at_most_percent:g}%", filesystem.name)


@check("filesystem.inodes")
def filesystem_inodes(
    filesystems: Peers[Filesystem], *, at_most_percent: float, ignore: tuple[str, ...],
    types: tuple[str, ...],
) -> Iterator[Finding]:
    """No file system has used more of its inodes than allowed."""
    for filesystem, used in _judged(filesystems, ignore, types).read(lambda each: each.inodes_used_percent):
        if used > at_most_percent:
            yield Finding(f"{used:.1f}% of inodes used", f"at most {at_most_percent:g}%", filesystem.name)


@check("filesystem.read_only")
def filesystem_read_only(
    filesystems: Peers[Filesystem], *, writable: tuple[str, ...], ignore: tuple[str, ...],
    types: tuple[str, ...],
) -> Iterator[Finding]:
    """The kernel made no file system read-only, as it does when a device fails, and those that must be
    writable are.

    One that was mounted read-only is read-only as a mount as well; the kernel changes only the file system.
    """
    wrongly = _judged(filesystems, ignore, types).where(
        lambda each: each.read_only and (not each.mounted_read_only or each.name in writable))
    for filesystem in wrongly.members:
        yield Finding(f"read-only ({filesystem.fstype} on {filesystem.source})", "writable", filesystem.name)


# Served by another machine: a fault is first the network's or the server's.
_NETWORK = (
    "nfs", "nfs4", "cifs", "smb3", "lustre", "ceph", "fuse.ceph", "beegfs", "gpfs", "wekafs", "glusterfs",
    "fuse.glusterfs", "panfs", "9p",
    "afs", "orangefs", "fuse.juicefs", "fuse.cvmfs2",
)


def _of_a_user(answer: MountAnswer, ignore: tuple[str, ...], ignore_types: tuple[str, ...]) -> bool:
    """Whether it is a user's own mount."""
    return answer.fstype in ignore_types or any(fnmatchcase(answer.name, pattern) for pattern in ignore)


def _silent(answer: MountAnswer, observed: str, expected: str) -> Finding:
    owner = Owner.NETWORK if answer.fstype in _NETWORK else Owner.OPERATOR
    return Finding(f"{observed} ({answer.fstype} of {answer.source})", expected, owner=owner)


@check("filesystem.answers", answers=True)
def filesystem_answers(
    mount_answer: MountAnswer, *, ignore: tuple[str, ...], ignore_types: tuple[str, ...],
) -> Iterator[Finding]:
    """Every mounted file system answers statvfs(3). A silent one is unknown; one for which an earlier reader
    still waits is dead."""
    if _of_a_user(mount_answer, ignore, ignore_types):
        return
    error = mount_answer.error
    if error == "hung":
        what = f"{mount_answer.name} ({mount_answer.fstype} of {mount_answer.source})"
        raise NotMeasured(mount_answer, f"statvfs of {what} did not return in time")
    if error == "wedged":
        yield _silent(mount_answer, "no answer: an earlier reader still waits for it", "an answer")
    elif error:
        yield _silent(mount_answer, f"error {error}", "an answer")


_SILENT = ("hung", "wedged")


@check("filesystem.hung")
def filesystem_hung(
    mount_answer: MountAnswer, growth: Growth[MountAnswer], *, ignore: tuple[str, ...],
    ignore_types: tuple[str, ...],
) -> Iterator[Finding]:
    """No mounted file system was silent in this snapshot and in the earlier one."""
    if _of_a_user(mount_answer, ignore, ignore_types):
        return
    if mount_answer.error in _SILENT and not growth.new and growth.before.error in _SILENT:
        yield _silent(mount_answer, "no answer, now and in the earlier snapshot", "an answer")


@check("filesystem.expected")
def filesystem_expected(mount_plan: MountPlan, *, expected: tuple[str, ...],
                        ignore: tuple[str, ...]) -> Iterator[Finding]:
    """Everything that fstab mounts at boot is mounted, and so is what the rule names."""
    for point in expected:
        if point not in mount_plan.mounted:
            yield Finding("not mounted", "mounted, as the rule says", point)
    for entry in mount_plan.wanted:
        if entry.point not in mount_plan.mounted and entry.point not in expected \
                and not any(fnmatchcase(entry.point, pattern) for pattern in ignore):
            observed = f"not mounted ({entry.fstype} of {entry.source})"
            yield Finding(observed, "mounted, as /etc/fstab says", entry.point)


@check("filesystem.lustre")
def filesystem_lustre(lustre: Lustre) -> Iterator[Finding]:
    """Lustre reports itself healthy."""
    if lustre.health != "healthy":
        yield Finding(lustre.health[:200], "healthy")
