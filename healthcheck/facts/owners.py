"""Who has which process, and which job it belongs to, by its control group and by what started it.

Slurm puts the processes of job 12 below `slurmstepd.scope/job_12` (cgroup/v2; with several slurmd on a node
below `NODE_slurmstepd.scope`) or `/slurm/uid_1000/job_12` (cgroup/v1); the kubelet below `kubepods` with the
pod's UID; container engines into a group named for the container (`docker-ID.scope`, `cri-containerd-ID`,
`libpod-ID`); PBS into `pbs_jobs.service/jobid/ID`. Without such groups what counts is the lineage: processes
of a job come from the daemon's helper of that job, as NHC's check_ps_userproc_lineage has it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.limits import ANCESTORS
from healthcheck.facts.parsing import decimal
from healthcheck.facts.values import Fact, Partial, Unread
from healthcheck.model.probes import MIB, Probe, ProbeKind
from inventory.text import clean

# A pass over every process's state, which beside a job is done only where a rule asks for it.
OWNERS = Probe("process.owners", ProbeKind.OWNERS, seconds=10.0, each_s=8.0, limit=4 * MIB)

_TICKS = 100        # USER_HZ of every architecture of today (include/asm-generic/param.h)
_SLURM = re.compile(r"/(?:slurm(?:_[^/\n]*)?|(?:[^/\n]+_)?slurmstepd\.scope)/(?:uid_[0-9]{1,10}/)?"
                    r"job_([0-9]{1,12})(?:/|$)", re.MULTILINE)
_OTHERS = (
    ("pod", re.compile(r"/kubepods[^\n]*pod([0-9a-f]{8}[0-9a-f_-]{23,28})")),
    ("container", re.compile(r"/(?:docker|libpod|cri-containerd|crio|nerdctl|podman)[-/](?:[^/\n]*-)?"
                             r"([0-9a-f]{12,64})")),
    ("PBS job", re.compile(r"/pbs_jobs\.service/jobid/([^/\n]{1,64})")),
    ("virtual machine", re.compile(r"/machine(?:\.slice)?/([^/\n]{1,100})")),
)
_SLURM_STEP = "slurmstepd"


@dataclass(frozen=True)
class UserProcess:
    """A process of a user other than root: since how many seconds it runs, the job of its control group
    ("Slurm job 12", "pod 0b6f...", "" for none), and the names of what it comes from, the nearest first.

    `ended`: it is in the group of a Slurm job of which no process comes from slurmstepd any more.
    """

    pid: int
    uid: int
    command: str
    seconds: float
    job: str
    ended: bool
    lineage: tuple[str, ...]


class ProcessOwners(Fact):
    """The processes of users other than root, without muster's own and those that started it, and the bytes
    of huge pages that all processes have mapped, a page that several share once for each."""

    name: str
    users: tuple[UserProcess, ...]
    huge_page_bytes: int


@dataclass(frozen=True)
class _Row:
    pid: int
    parent: int
    uid: int
    started: int
    huge_kib: int
    command: str
    group: str


def _rows(document: Mapping[str, Any]) -> dict[int, _Row]:
    names, groups = document["names"], document["cgroups"]
    rows = {}
    for row in document["processes"]:
        if [type(part) for part in row] != [int] * 7 or min(row) < 0:
            raise ValueError(row)
        pid, parent, uid, started, huge, name, group = row
        rows[pid] = _Row(pid, parent, uid, started, huge, clean(str(names[name]), 20), str(groups[group]))
    return rows


@fact("process_owners", OWNERS)
def process_owners(captures: Captures) -> Any:
    """From one pass over /proc; raises Unread where it hides the processes of other users (hidepid), or where
    the collector runs in a PID namespace of its own."""
    try:
        document = json.loads(captures.text(OWNERS))
        hidden, strange = document["hidden"] is True, document["strange"] is True
        rows, more = _rows(document), int(document["more"])
        uptime = decimal(str(document["uptime"]).split()[0])
        own = frozenset(map(int, document["own"]))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError):
        raise Unread("the list of processes is not in the reader's format") from None
    if hidden:
        raise Unread("/proc hides the processes of other users")
    if strange:
        raise Unread("the collector runs in a PID namespace of its own and sees no process outside of it")
    if not rows:
        raise Unread("/proc holds no process that can be read")
    lineages = {pid: _lineage(rows, pid) for pid, row in rows.items() if row.uid and pid not in own}
    jobs = {pid: _job(rows[pid].group) for pid in lineages}
    alive = {jobs[pid] for pid, names in lineages.items() if _SLURM_STEP in names}
    users = tuple(UserProcess(
        pid, rows[pid].uid, rows[pid].command, max(0.0, uptime - rows[pid].started / _TICKS), jobs[pid],
        jobs[pid].startswith("Slurm") and jobs[pid] not in alive, names,
    ) for pid, names in sorted(lineages.items()))
    found = ProcessOwners("processes", users, 1024 * sum(row.huge_kib for row in rows.values()))
    return Partial(found, f"{more} more processes were not read") if more > 0 else found


def _lineage(rows: Mapping[int, _Row], pid: int) -> tuple[str, ...]:
    """Names of parent, its parent and so on, up to the first process; a circle ends it."""
    names: list[str] = []
    seen = {pid}
    parent = rows[pid].parent
    while parent in rows and parent not in seen and len(names) < ANCESTORS:
        seen.add(parent)
        names.append(rows[parent].command)
        parent = rows[parent].parent
    return tuple(names)


def _job(group: str) -> str:
    if found := _SLURM.search(group):
        return f"Slurm job {found[1]}"
    for kind, pattern in _OTHERS:
        if match := pattern.search(group):
            return f"{kind} {clean(match[1], 64)}"
    return ""
