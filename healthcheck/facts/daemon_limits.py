"""The limits of the daemons that start jobs, which jobs inherit: /proc/PID/limits (proc(5))."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.process import TASKS, process_document
from healthcheck.facts.values import UNSUPPORTED, Fact, Unmeasured
from inventory.text import clean

# Daemons whose own limit of locked memory jobs inherit; a container's limit is set by its engine.
MEMLOCK_STARTERS = ("slurmd", "pbs_mom")
_LIMIT = r"^{}\s+(\d{{1,20}}|unlimited)\s+(?:\d{{1,20}}|unlimited)\s"
_MEMLOCK = re.compile(_LIMIT.format("Max locked memory"), re.MULTILINE)
_NOFILE = re.compile(_LIMIT.format("Max open files"), re.MULTILINE)
UNLIMITED = -1


@dataclass(frozen=True)
class DaemonLimit:
    """One soft limit of one daemon ("slurmd, process 2211"); -1 is unlimited."""

    daemon: str
    value: int


class Starters(Fact):
    """The limits of the daemons that start jobs: bytes of locked memory, where jobs inherit the daemon's, and
    open files.

    UNSUPPORTED where no known daemon runs.
    """

    name: str
    memlock: tuple[DaemonLimit, ...]
    nofile: tuple[DaemonLimit, ...]


@fact("starters", TASKS)
def starters(captures: Captures) -> Starters:
    """From /proc/PID/limits (proc(5)), which any user may read."""
    rows = process_document(captures)["limits"]
    locking = [row for row in rows if row[1] in MEMLOCK_STARTERS]
    return Starters("limits of what starts jobs", memlock=_limits(_MEMLOCK, locking),
                    nofile=_limits(_NOFILE, rows))


def _limits(pattern: re.Pattern[str], rows: list[list[Any]]) -> Any:
    found = []
    for pid, name, text in rows:
        match = pattern.search(text)
        if match is None:
            return Unmeasured(f"the limits of {clean(name, 20)} are not in the documented format")
        found.append(DaemonLimit(f"{clean(name, 20)}, process {pid}",
                                 UNLIMITED if match[1] == "unlimited" else int(match[1])))
    return tuple(found) or UNSUPPORTED
