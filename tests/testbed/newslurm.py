"""Slurm 24.11 of Debian 13 beside the machine's own: its programs in a root file system of theirs, each run there by a small wrapper.

The root file system is made once, by mmdebstrap (70 s), in MUSTER_TESTBED_CACHE (else ~/.cache/muster-testbed). Needs root and a mirror.
The machine's munged serves both, and all share its network and its /tmp.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

from tests.testbed.require import require

_SUITE = "trixie"
_NAMES = ("slurmctld", "slurmd", "scontrol", "sinfo", "squeue", "sbatch", "scancel", "sacctmgr")
_RUN = """#!/bin/sh
# In a mount namespace of its own, which ends with the program.
exec unshare --mount sh -c 'for at in proc dev sys; do mount --rbind /$at {root}/$at; done; mount --rbind /tmp {root}/tmp
export PATH=/usr/sbin:/usr/bin:/sbin:/bin; exec chroot {root} "$0" "$@"' {name} "$@"
"""


def programs(folder: Path) -> Path:
    """A folder of wrappers below `folder`, which must be below /tmp; skips where they cannot be had."""
    require(os.geteuid() == 0 and shutil.which("mmdebstrap") is not None and folder.is_relative_to("/tmp"),
            "no root, no mmdebstrap, or no temporary folder below /tmp: apt-get install -y mmdebstrap")
    root = _root()
    shutil.copy("/etc/hosts", root / "etc" / "hosts")
    found = folder / "programs"
    found.mkdir()
    for name in _NAMES:
        (found / name).write_text(_RUN.format(root=root, name=name))
        (found / name).chmod(0o755)
    return found


def _root() -> Path:
    cache = Path(os.environ.get("MUSTER_TESTBED_CACHE") or Path("~/.cache/muster-testbed").expanduser())
    cache.mkdir(parents=True, exist_ok=True)
    made = cache / f"slurm-{_SUITE}"
    with (cache / f"{made.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            half = cache / f"{made.name}.tmp"
            shutil.rmtree(half, ignore_errors=True)
            done = subprocess.run(["mmdebstrap", "--variant=minbase", "--include=slurmctld,slurmd,slurm-client", _SUITE, str(half)],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
            require(done.returncode == 0, f"mmdebstrap cannot make a root file system here: {done.stderr[-400:]}")
            half.rename(made)
    return made
