"""Process facts: tasks that are stuck or were not waited for, and how full the kernel's tables are.

States are those of proc(5), /proc/PID/stat. A task that did not run between two snapshots has the same switch
counts in both, as in the kernel's own detector of hung tasks (kernel/hung_task.c).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.parsing import decimal, whole
from healthcheck.facts.values import Fact, Partial, Unread, first_unread
from healthcheck.model.probes import Probe, ProbeKind
from inventory.text import clean

# The daemons that start jobs, which inherit their limits. Names as the kernel has them (15 characters).
STARTERS = ("slurmd", "pbs_mom", "containerd", "dockerd")
TASKS = Probe("process.tasks", ProbeKind.PROCESSES, argv=STARTERS, seconds=8.0, each_s=5.0)

LOADAVG = "/proc/loadavg"
PID_MAX = "/proc/sys/kernel/pid_max"
THREADS_MAX = "/proc/sys/kernel/threads-max"
FILE_NR = "/proc/sys/fs/file-nr"
TABLES = Probe("process.tables", ProbeKind.FILES, paths=(LOADAVG, PID_MAX, THREADS_MAX, FILE_NR))


@dataclass(frozen=True)
class BlockedProcess:
    """One process in uninterruptible sleep. `started` is in clock ticks since boot; `switches` counts how
    often it left a CPU; `waits` is the kernel function that it sleeps in, empty where we may not read it."""

    pid: int
    started: int
    command: str
    switches: int
    waits: str


class Processes(Fact):
    """All processes: their number, the number of zombies and their commonest names, and the processes in
    uninterruptible sleep. Only each process's first thread is read."""

    name: str
    total: int
    zombies: int
    zombie_names: tuple[str, ...]
    sleepers: tuple[BlockedProcess, ...]


class Tables(Fact):
    """The kernel's tables: threads and open files, their limits, and the load average of 15 minutes."""

    name: str
    threads: int
    threads_max: int
    files: int
    files_max: int
    load: float


def process_document(captures: Captures) -> dict[str, Any]:
    """The reader's output, checked: states, processes, waits and limits; raises Unread."""
    try:
        document = json.loads(captures.text(TASKS))
        checked = {
            "states": {str(key): _whole(value) for key, value in document["states"].items()},
            "processes": [[_whole(pid), str(state), _whole(started), _whole(switches), str(name)]
                          for pid, state, started, switches, name in document["processes"]],
            "waits": {str(key): str(value) for key, value in document["waits"].items()},
            "limits": [[_whole(pid), str(name), str(text)] for pid, name, text in document["limits"]],
            "hidden": document["hidden"] is True,
        }
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise Unread("the list of processes is not in the reader's format") from None
    if checked["hidden"]:
        raise Unread("/proc hides the processes of other users")
    if not checked["states"]:
        raise Unread("/proc holds no process")
    return checked


def _whole(value: object) -> int:
    if type(value) is not int:
        raise ValueError(value)
    return value


@fact("processes", TASKS)
def processes(captures: Captures) -> Any:
    """Counted in one pass over /proc; raises Unread where it hides the processes of other users (hidepid)."""
    document = process_document(captures)
    names = Counter(row[4] for row in document["processes"] if row[1] == "Z")
    rows = [row for row in document["processes"] if row[1] == "D"]
    sleepers = tuple(BlockedProcess(pid, started, clean(name, 20), switches,
                                    _function(document["waits"].get(str(pid), "")))
                     for pid, _, started, switches, name in rows if switches >= 0)
    found = Processes("processes", sum(document["states"].values()), document["states"].get("Z", 0),
                      tuple(clean(name, 20) for name, _ in names.most_common(3)), sleepers)
    more = document["states"].get("D", 0) - len(sleepers)
    return (Partial(found, f"{more} more processes in uninterruptible sleep could not be examined")
            if more > 0 else found)


_FUNCTION = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,63}")


def _function(waits: str) -> str:
    """The kernel function, which is "0" for users who may not read it."""
    return waits if _FUNCTION.fullmatch(waits) else ""


@fact("tables", TABLES)
def tables(captures: Captures) -> Tables:
    """From /proc/loadavg ("0.20 0.18 0.12 1/2931 11206") and the limits of /proc/sys. The file table is of
    the kernel as a whole."""
    files = captures.files(TABLES)
    limits = [files.read(path, whole) for path in (PID_MAX, THREADS_MAX)]
    unread: Any = first_unread(limits)
    return Tables(
        "kernel",
        threads=files.read(LOADAVG, lambda text: whole(text.split()[3].partition("/")[2])),
        threads_max=unread or min(limits), files=files.read(FILE_NR, lambda text: whole(text.split()[0])),
        files_max=files.read(FILE_NR, lambda text: whole(text.split()[2])),
        load=files.read(LOADAVG, lambda text: decimal(text.split()[2])),
    )
