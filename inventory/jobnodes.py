"""Which nodes Slurm's jobs have, by squeue. squeue(1) of Slurm 22.05: --states=all, for every state that
holds a node; %A is the job's number, %T its state, %N the nodes that it has. A job that completes still has
its nodes. Jobs that squeue hides from this user (PrivateData) are not among them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from inventory.discover import Run, output
from inventory.errors import InventoryError, UsageError
from inventory.nodeset import expand
from inventory.text import clean, short

SQUEUE = ("squeue", "--noheader", "--all", "--states=all", "--format=%A|%T|%N")
# States of slurm.h's job_states in which a job has no node any more; whatever is none of these has.
OVER = frozenset({
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL",
    "OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"})


@dataclass(frozen=True)
class JobNodes:
    """A job that has nodes, by its number."""

    job: str
    nodes: tuple[str, ...]


def jobs_now(run: Run | None = None) -> tuple[JobNodes, ...]:
    """The jobs that have nodes now. Raises UsageError, one line."""
    if run is None and shutil.which(SQUEUE[0]) is None:
        raise UsageError("squeue was not found; run this where Slurm's commands are, or give --jobs-from "
                         "FILE")
    return parse(output(SQUEUE, run).decode("utf-8", "backslashreplace"), "squeue")


def parse(text: str, name: str) -> tuple[JobNodes, ...]:
    """The jobs in what `SQUEUE` printed, `name` in messages. Raises UsageError, one line."""
    found: dict[str, dict[str, None]] = {}
    for at, line in enumerate(text.split("\n"), 1):
        number, _, rest = line.strip().partition("|")
        state, bar, nodes = rest.partition("|")
        if not line.strip() or state in OVER or (bar and not nodes):
            continue
        try:
            if not (number.isascii() and number.isdecimal() and bar):
                raise InventoryError("a job's number, its state and its nodes are wanted")
            found.setdefault(clean(number, 20), {}).update(dict.fromkeys(expand(nodes)))
        except InventoryError as error:
            raise UsageError(f"{name}:{at}: {short(line.strip())}: {error}, as printed by: squeue --noheader "
                             f"--all --states=all --format='{SQUEUE[-1].partition('=')[2]}'") from None
    return tuple(JobNodes(job, tuple(nodes)) for job, nodes in found.items())
