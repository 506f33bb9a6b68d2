"""A folder in memory for tests of orders of events: what they try is no disk, and each of its fsyncs waits for one."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

_MEMORY = Path("/dev/shm")
_ENOUGH = 32 * 1024 * 1024


def in_memory() -> tempfile.TemporaryDirectory[str]:
    """A new folder, in memory where this machine has that and room in it."""
    there = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ENOUGH
    return tempfile.TemporaryDirectory(dir=_MEMORY if there else None)
