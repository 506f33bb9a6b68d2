"""What takes long is made once, and kept in MUSTER_TESTBED_CACHE, else ~/.cache/muster-testbed."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.testbed.require import require


def kept(name: str, make: Callable[[Path], None]) -> Path:
    """The folder of this name; `make` gets the path of one not there yet, in one process at a time."""
    cache = Path(os.environ.get("MUSTER_TESTBED_CACHE") or Path("~/.cache/muster-testbed").expanduser())
    cache.mkdir(parents=True, exist_ok=True)
    made, half = cache / name, cache / f"{name}.tmp"
    with (cache / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.is_dir():
            _remove(half)
            make(half)
            half.rename(made)
    return made


def _remove(half: Path) -> None:
    """What a killed process left. mmdebstrap mounts this machine's own /dev/shm and /proc there, whose
    content stays."""
    for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
        at = Path(line.split()[1])
        if at.is_relative_to(half):
            subprocess.run(["umount", "--lazy", at], check=True)
    shutil.rmtree(half, ignore_errors=True)


def bootstrapped(name: str, suite: str, *options: str) -> Path:
    """A root file system of mmdebstrap's, kept under this name; skips where it cannot be made."""
    def make(half: Path) -> None:
        done = subprocess.run(["mmdebstrap", *options, suite, str(half)], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False)
        require(done.returncode == 0, f"mmdebstrap cannot make a root file system here: {done.stderr[-400:]}")

    return kept(name, make)
