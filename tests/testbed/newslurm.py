"""Slurm 24.11 of Debian 13 beside the machine's own: its programs in a root file system of theirs, each run
there by a small wrapper.

The root file system is made once, by mmdebstrap (70 s). Needs root and a mirror.
The machine's munged serves both, and all share its network and its /tmp.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.testbed.kept import bootstrapped
from tests.testbed.require import require

_SUITE = "trixie"
_NAMES = ("slurmctld", "slurmd", "scontrol", "sinfo", "squeue", "sbatch", "scancel", "sacctmgr")
_RUN = """#!/bin/sh
# In a mount namespace of its own, which ends with the program.
exec unshare --mount sh -c 'for at in proc dev sys; do mount --rbind /$at {root}/$at; done; mount --rbind /tmp {root}/tmp
export PATH=/usr/sbin:/usr/bin:/sbin:/bin; exec chroot {root} "$0" "$@"' {name} "$@"
"""  # noqa: E501


def programs(folder: Path) -> Path:
    """A folder of wrappers below `folder`, which must be below /tmp; skips where they cannot be had."""
    require(os.geteuid() == 0 and shutil.which("mmdebstrap") is not None and folder.is_relative_to("/tmp"),
            "no root, no mmdebstrap, or no temporary folder below /tmp: apt-get install -y mmdebstrap")
    root = bootstrapped(f"slurm-{_SUITE}", _SUITE, "--variant=minbase",
                        "--include=slurmctld,slurmd,slurm-client")
    shutil.copy("/etc/hosts", root / "etc" / "hosts")
    found = folder / "programs"
    found.mkdir()
    for name in _NAMES:
        (found / name).write_text(_RUN.format(root=root, name=name))
        (found / name).chmod(0o755)
    return found
