"""File system checks."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from healthcheck.checks.base import check
from healthcheck.facts.filesystem import Filesystem
from healthcheck.outcome import Finding


def _judged(filesystems: tuple[Filesystem, ...], ignore: tuple[str, ...], types: tuple[str, ...]) -> Iterator[Filesystem]:
    for filesystem in filesystems:
        if filesystem.fstype not in types and not any(fnmatchcase(filesystem.name, pattern) for pattern in ignore):
            yield filesystem


@check("filesystem.space")
def filesystem_space(
    filesystems: tuple[Filesystem, ...], *, at_most_percent: float, ignore: tuple[str, ...], ignore_types: tuple[str, ...],
) -> Iterator[Finding]:
    """No file system is fuller than allowed, counted as df does."""
    for filesystem in _judged(filesystems, ignore, ignore_types):
        if filesystem.used_percent > at_most_percent:
            left = filesystem.available_bytes / 2**30
            yield Finding(filesystem.name, f"{filesystem.used_percent:.1f}% used, {left:.1f} GiB left", f"at most {at_most_percent:g}%")


@check("filesystem.inodes")
def filesystem_inodes(
    filesystems: tuple[Filesystem, ...], *, at_most_percent: float, ignore: tuple[str, ...], ignore_types: tuple[str, ...],
) -> Iterator[Finding]:
    """No file system has used more of its inodes than allowed."""
    for filesystem in _judged(filesystems, ignore, ignore_types):
        if filesystem.inodes_used_percent > at_most_percent:
            yield Finding(filesystem.name, f"{filesystem.inodes_used_percent:.1f}% of inodes used", f"at most {at_most_percent:g}%")


@check("filesystem.read_only")
def filesystem_read_only(
    filesystems: tuple[Filesystem, ...], *, ignore: tuple[str, ...], ignore_types: tuple[str, ...],
) -> Iterator[Finding]:
    """No file system is read-only: the kernel remounts one so when its device fails."""
    for filesystem in _judged(filesystems, ignore, ignore_types):
        if filesystem.read_only:
            yield Finding(filesystem.name, f"read-only ({filesystem.fstype} on {filesystem.source})", "writable")
