"""File system checks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase, translate
from functools import lru_cache

from healthcheck.checks.base import NotMeasured, check
from healthcheck.facts.filesystem import Filesystem, Lustre, MountAnswer, MountPlan
from healthcheck.model.outcome import Finding, Owner


@lru_cache(maxsize=64)
def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    """What matches a name that any of these patterns matches; with none of them nothing."""
    return re.compile("|".join(map(translate, names)) or r"(?!)")


def _judged(filesystems: tuple[Filesystem, ...], ignore: tuple[str, ...], types: tuple[str, ...]) -> Iterator[Filesystem]:
    """Those of the given types: what is mounted over a network, or by a user, is not the node's to answer for."""
    matches = _pattern(tuple(ignore)).match
    judged = [f for f in filesystems if f.fstype in types and not matches(f.name)]
    if not judged:
        raise NotMeasured(None, f"no file system of the types {', '.join(types)} is mounted")
    yield from judged


@check("filesystem.space")
def filesystem_space(
    filesystems: tuple[Filesystem, ...], *, at_most_percent: float, ignore: tuple[str, ...], types: tuple[str, ...],
) -> Iterator[Finding]:
    """No file system is fuller than allowed, counted as df does."""
    for filesystem in _judged(filesystems, ignore, types):
        if filesystem.used_percent > at_most_percent:
            left = filesystem.available_bytes / 2**30
            yield Finding(filesystem.name, f"{filesystem.used_percent:.1f}% used, {left:.1f} GiB left", f"at most {at_most_percent:g}%")


@check("filesystem.inodes")
def filesystem_inodes(
    filesystems: tuple[Filesystem, ...], *, at_most_percent: float, ignore: tuple[str, ...], types: tuple[str, ...],
) -> Iterator[Finding]:
    """No file system has used more of its inodes than allowed."""
    for filesystem in _judged(filesystems, ignore, types):
        if filesystem.inodes_used_percent > at_most_percent:
            yield Finding(filesystem.name, f"{filesystem.inodes_used_percent:.1f}% of inodes used", f"at most {at_most_percent:g}%")


@check("filesystem.read_only")
def filesystem_read_only(
    filesystems: tuple[Filesystem, ...], *, writable: tuple[str, ...], ignore: tuple[str, ...], types: tuple[str, ...],
) -> Iterator[Finding]:
    """No file system was made read-only by the kernel, as it does when the device fails, and those that must be writable are.

    One that somebody mounted read-only is read-only as a mount as well; one that the kernel gave up is so underneath only.
    """
    for filesystem in _judged(filesystems, ignore, types):
        if filesystem.read_only and (not filesystem.mounted_read_only or filesystem.name in writable):
            yield Finding(filesystem.name, f"read-only ({filesystem.fstype} on {filesystem.source})", "writable")


# Served by somebody else's machine: what it does not answer is first the network's or the server's.
_NETWORK = (
    "nfs", "nfs4", "cifs", "smb3", "lustre", "ceph", "fuse.ceph", "beegfs", "gpfs", "wekafs", "glusterfs", "fuse.glusterfs", "panfs", "9p",
    "afs", "orangefs", "fuse.juicefs", "fuse.cvmfs2",
)


def _asked(answers: tuple[MountAnswer, ...], ignore: tuple[str, ...], ignore_types: tuple[str, ...]) -> Iterator[MountAnswer]:
    """Those that are not some user's own."""
    for answer in answers:
        if answer.fstype not in ignore_types and not any(fnmatchcase(answer.name, pattern) for pattern in ignore):
            yield answer


def _silent(answer: MountAnswer, observed: str, expected: str) -> Finding:
    owner = Owner.NETWORK if answer.fstype in _NETWORK else Owner.OPERATOR
    return Finding(answer.name, f"{observed} ({answer.fstype} of {answer.source})", expected, owner=owner)


@check("filesystem.answers")
def filesystem_answers(
    mount_answers: tuple[MountAnswer, ...], *, ignore: tuple[str, ...], ignore_types: tuple[str, ...],
) -> Iterator[Finding]:
    """Every mounted file system answers statvfs(3). One that is silent is unknown, one for which an earlier look still waits is dead."""
    for answer in _asked(mount_answers, ignore, ignore_types):
        error = answer.error
        if error == "hung":
            raise NotMeasured(answer, f"statvfs of {answer.name} ({answer.fstype} of {answer.source}) did not return in time")
        if error == "wedged":
            yield _silent(answer, "no answer: an earlier look still waits for it", "an answer")
        elif error:
            yield _silent(answer, f"error {error}", "an answer")


@check("filesystem.hung")
def filesystem_hung(
    mount_answers: tuple[MountAnswer, ...], previous_mount_answers: tuple[MountAnswer, ...], *, ignore: tuple[str, ...],
    ignore_types: tuple[str, ...],
) -> Iterator[Finding]:
    """No mounted file system was silent at this look and at the earlier one."""
    before = {(answer.name, answer.source): answer for answer in previous_mount_answers}
    for answer in _asked(mount_answers, ignore, ignore_types):
        earlier = before.get((answer.name, answer.source))
        if answer.error in ("hung", "wedged") and earlier is not None and earlier.error in ("hung", "wedged"):
            yield _silent(answer, "no answer, now and at the earlier look", "an answer")


@check("filesystem.expected")
def filesystem_expected(mount_plan: MountPlan, *, expected: tuple[str, ...], ignore: tuple[str, ...]) -> Iterator[Finding]:
    """All that fstab has mounted at boot is mounted, and so is what the rule names besides."""
    for point in expected:
        if point not in mount_plan.mounted:
            yield Finding(point, "not mounted", "mounted, as the rule says")
    for entry in mount_plan.wanted:
        if entry.point not in mount_plan.mounted and entry.point not in expected \
                and not any(fnmatchcase(entry.point, pattern) for pattern in ignore):
            yield Finding(entry.point, f"not mounted ({entry.fstype} of {entry.source})", "mounted, as /etc/fstab says")


@check("filesystem.lustre")
def filesystem_lustre(lustre: Lustre) -> Iterator[Finding]:
    """Lustre calls itself healthy."""
    if lustre.health != "healthy":
        yield Finding("Lustre", lustre.health[:200] or "nothing", "healthy")
