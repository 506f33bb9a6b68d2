"""Whether OpenSSH would believe a configuration file, by its owner and mode."""

from __future__ import annotations

import functools
import grp
import os
import pwd
import shutil
import stat
import subprocess
from pathlib import Path

from inventory.errors import LACKING, ConfigError


def check_owner(path: Path, found: os.stat_result) -> None:
    """Raises ConfigError for a file that others than root and this user own or may write (readconf.c), and
    OSError where this machine lacks what it takes to tell."""
    if found.st_uid not in (0, os.getuid()):
        raise ConfigError(f"{path}: bad owner: uid {found.st_uid} owns it, expected this user or root; ssh "
                          "refuses it, and so does muster")
    if not stat.S_ISREG(found.st_mode):
        return
    if found.st_mode & 0o002 or (found.st_mode & 0o020 and not (_debian() and _alone(found.st_gid))):
        raise ConfigError(f"{path}: bad permissions: mode {stat.S_IMODE(found.st_mode):04o} lets others "
                          f"write it; ssh refuses it, and so does muster; chmod go-w {path}")


@functools.cache
def _debian() -> bool:
    """Whether ssh is Debian's or Ubuntu's, which lets a group of this user alone write (user-group-modes)."""
    if (ssh := shutil.which("ssh")) is None:
        return False
    try:
        said = subprocess.run([ssh, "-V"], stdin=subprocess.DEVNULL, capture_output=True, timeout=10,
                              check=False).stderr[:200]
    except (OSError, subprocess.TimeoutExpired) as error:
        if isinstance(error, OSError) and error.errno in LACKING:
            raise       # an answer would be kept
        return False
    return b"Debian" in said or b"Ubuntu" in said


def _alone(gid: int) -> bool:
    """Whether this user is the group's only member."""
    try:
        name, group = pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(gid)
    except KeyError:
        return False
    members = {*group.gr_mem, *(user.pw_name for user in pwd.getpwall() if user.pw_gid == gid)}
    return members == {name}
