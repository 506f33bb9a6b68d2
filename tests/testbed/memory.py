"""Folders in memory, for tests that are about no disk: each fsync waits for one, and so does each of a
fleet's 14,000 files that goes."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

_MEMORY = Path("/dev/shm")
_MIB = 1024 * 1024


def in_memory(mebibytes: int = 32) -> tempfile.TemporaryDirectory[str]:
    """A new folder, in memory where this machine has that and room in it."""
    return tempfile.TemporaryDirectory(dir=_MEMORY if _room(mebibytes) else None)


def base_in_memory(otherwise: Path) -> Path:
    """Where a fleet of simulated nodes may put its folder: in memory where there is room and programs may
    run, or else there."""
    return _MEMORY if _room(512) else otherwise


def _room(mebibytes: int) -> bool:
    return (_MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > 2 * mebibytes * _MIB
            and not os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC)
