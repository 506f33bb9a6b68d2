"""File system checks."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from healthcheck.checks.base import NotMeasured, check
from healthcheck.facts.filesystem import Filesystem
from healthcheck.outcome import Finding


def _judged(filesystems: tuple[Filesystem, ...], ignore: tuple[str, ...], types: tuple[str, ...]) -> Iterator[Filesystem]:
    """Those of the given types: what is mounted over a network, or by a user, is not the node's to answer for."""
    judged = [f for f in filesystems if f.fstype in types and not any(fnmatchcase(f.name, pattern) for pattern in ignore)]
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
