"""Which process holds a lease, and whether it lives: the machine's boot, the process's number and its start,
as the number may be another's by now (proc(5): field 22 of /proc/PID/stat, in ticks since the boot)."""

from __future__ import annotations

import json
import os
from enum import Enum
from pathlib import Path


class HolderState(Enum):
    """What is known of a holder. Of one on another boot or machine nothing is: what it sent may still run."""

    ALIVE = "alive"
    DEAD = "dead"
    ELSEWHERE = "elsewhere"


def me() -> str:
    """This process, as JSON."""
    return json.dumps({"boot": _boot(), "pid": os.getpid(), "start": _start(os.getpid())})


def life(holder: str) -> HolderState:
    """Whether the process lives that `me` described."""
    try:
        refusals = json.loads(holder)
        boot, pid, start = refusals["boot"], int(refusals["pid"]), refusals["start"]
    except (ValueError, TypeError, KeyError):
        return HolderState.ELSEWHERE
    if not boot or boot != _boot():
        return HolderState.ELSEWHERE
    return HolderState.ALIVE if start is not None and _start(pid) == start else HolderState.DEAD


def pid_of(holder: str) -> int | None:
    """The number of the process that `me` described; None where no one can tell."""
    try:
        return int(json.loads(holder)["pid"])
    except (ValueError, TypeError, KeyError):
        return None


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _start(pid: int) -> int | None:
    """When the process started; None where there is none, or only what was not waited for."""
    try:
        # Its name, in parentheses, may hold anything.
        rest = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return None if rest[0] in (b"Z", b"X") else int(rest[19])
    except (OSError, ValueError, IndexError):
        return None
