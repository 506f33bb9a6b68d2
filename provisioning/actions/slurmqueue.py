"""Jobs that wait in Slurm, and whether one could start if some nodes were free; pure. squeue(1) and sinfo(1)
of Slurm 22.05 and 23.11. %D of a job that waits is the least number of nodes it takes, %P may name several
partitions, %v is the reservation it is to run in. A job counts as waiting for nodes unless it is certain that
it waits for something else."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from inventory.text import clean
from provisioning.actions.base import ActionError

SQUEUE = ("squeue", "--noheader", "--all", "--states=PENDING", "--format=%i|%D|%v|%P|%r")
SINFO = ("sinfo", "--noheader", "--all", "--Node", "--format=%N|%R|%T")
_NO_RESERVATION = ("", "(null)", "N/A")
# How the reasons begin (job_state_reason of slurm.h) of jobs that no free node would help. "None" is of a job
# at which the scheduler has not looked yet, seconds old: by the next look it has another one.
_NOT_NODES = (
    "None", "Dependency", "JobHeld", "JobHoldMaxRequeue", "BeginTime", "JobArrayTaskLimit", "Licenses",
    "BurstBuffer", "Cleaning", "PartitionDown", "PartitionInactive", "PartitionNodeLimit",
    "PartitionTimeLimit", "Assoc", "QOS", "MaxJobs", "Invalid", "AccountNotAllowed", "AccountingPolicy",
    "BadConstraints", "ReservationDeleted", "FrontEndDown", "DeadLine",
)
# States of nodes that no job could be given now; a node in any other state may be free for all that is known.
_AWAY = frozenset({
    "allocated", "down", "drained", "draining", "drain", "fail", "failing", "failg", "maint", "future",
    "unknown", "inval", "powering_down", "powered_down", "power_down", "reboot", "reboot_issued",
    "reboot_requested", "no_respond", "blocked",
})
_COUNT = re.compile(r"(\d{1,9})(?:\.\d+)?([KM]?)")      # squeue writes 2048 as 2K
_TIMES = {"": 1, "K": 1024, "M": 1024**2}

# By partition its nodes, and of each whether a job could be given it, for all that is known.
Partitions = Mapping[str, Mapping[str, bool]]


@dataclass(frozen=True)
class Waiting:
    """A job that waits: its number, how many nodes it takes at least, in which partitions, and why."""

    job: str
    nodes: int
    partitions: tuple[str, ...]
    reason: str


def waiting(printed: str) -> Iterator[Waiting]:
    """The jobs that wait for nodes, by SQUEUE, without those of a reservation. Raises ActionError."""
    for line in filter(str.strip, printed.splitlines()):
        fields = [field.strip() for field in line.split("|", 4)]
        count = _COUNT.fullmatch(fields[1]) if len(fields) == 5 else None
        if count is None:
            raise ActionError(f"squeue printed {clean(line, 100)!r}, which cannot be read: expected five "
                              "fields, the second a number of nodes")
        job, _, reservation, partitions, reason = fields
        if reservation in _NO_RESERVATION and not reason.startswith(_NOT_NODES):
            nodes = max(1, int(count[1]) * _TIMES[count[2]])
            yield Waiting(clean(job, 40), nodes, tuple(partitions.split(",")), clean(reason, 60))


def partitions(printed: str) -> Partitions:
    """All partitions, by what SINFO printed. Raises ActionError."""
    found: dict[str, dict[str, bool]] = {}
    for line in filter(str.strip, printed.splitlines()):
        node, _, rest = line.strip().partition("|")
        name, bar, state = rest.partition("|")
        if not bar:
            raise ActionError(f"sinfo printed {clean(line, 100)!r}, which cannot be read: "
                              "expected three fields")
        # A state may carry signs, such as "idle*" and "down$" (sinfo(1), NODE STATE CODES).
        found.setdefault(name, {})[node] = re.sub(r"[^a-z_].*", "", state.strip().lower()) not in _AWAY
    return found


def could_start(jobs: Iterable[Waiting], known: Partitions, ours: Collection[str]) -> str:
    """Which job could start if `ours` were free, or "": not one that takes more than are then free."""
    wanted = frozenset(ours)
    for job in jobs:
        for name in job.partitions:
            members = known.get(name, {})
            free = sum(is_free or node in wanted for node, is_free in members.items())
            if wanted & members.keys() and job.nodes <= free:
                many = f"{job.nodes} node{'s' * (job.nodes != 1)}"
                return f"job {job.job} waits for {many} of partition {clean(name, 60)} ({job.reason})"
    return ""
