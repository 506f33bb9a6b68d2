"""Small file systems in memory, and ways to fill them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(at: Path, kib: int) -> Iterator[Path]:
    """A file system of so many KiB; skips where none can be mounted."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small disk")
    at.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(at)], check=True)
    try:
        yield at
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)


def remounted(at: Path, options: str) -> None:
    """Mounted anew with these options: ro, rw, size=64k."""
    subprocess.run(["mount", "-o", f"remount,{options}", str(at)], check=True)


def filled(at: Path, leave: int = 0) -> Path:
    """Fills the disk but for so many bytes; gives the file that does."""
    path = at / "filler"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    size = 0
    try:
        while True:
            size += os.write(descriptor, bytes(4096))
    except OSError:
        os.ftruncate(descriptor, max(0, size - leave))
    finally:
        os.close(descriptor)
    return path
