"""Small mounts for tests: a folder bound to itself, and a file system of a few MiB in a file."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

WHY_NOT = ("mounting takes root, and mkfs.ext4 for a file system of its own: run this as root, apt-get "
           "install -y e2fsprogs")


def can_mount() -> bool:
    """Whether this user may mount, which is tried."""
    return os.geteuid() == 0 and shutil.which("mkfs.ext4") is not None and subprocess.run(
        ["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0


@contextmanager
def bound(folder: Path) -> Iterator[Path]:
    """The folder, as a mount point of the file system that it is on."""
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "--bind", str(folder), str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def ext4(folder: Path, size: int) -> Iterator[Path]:
    """An ext4 of so many bytes on a folder."""
    image = folder.with_suffix(".image")
    with image.open("wb") as file:
        file.truncate(size)
    folder.mkdir()
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], check=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def mount(stack: ExitStack, point: Path, *words: str) -> None:
    """As long as the stack lasts."""
    subprocess.run(["mount", *words, str(point)], check=True)
    stack.callback(subprocess.run, ["umount", "--lazy", str(point)], check=True)
