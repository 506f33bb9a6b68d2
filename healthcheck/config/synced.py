"""Makes renames survive a power failure; imports little, because the gate waits for it."""

from __future__ import annotations

import os


def sync_folder(folder: str) -> None:
    """Writes the folder's renames to the disk."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
