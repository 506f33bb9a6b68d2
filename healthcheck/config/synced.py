"""Renames that outlast a power failure; imports nothing, for the gate waits for it."""

from __future__ import annotations

import os


def sync_folder(folder: str) -> None:
    """What was renamed there is so on the disk, too."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
