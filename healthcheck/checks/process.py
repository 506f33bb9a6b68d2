"""Process checks: stuck processes, zombies, and the kernel's tables."""

from __future__ import annotations

import re
from collections.abc import Iterator

from healthcheck.checks.base import check
from healthcheck.checks.growth import Growth
from healthcheck.facts.process import BlockedProcess, Processes, Tables
from healthcheck.model.outcome import Finding

# The driver's own threads and tools: nv_queue, nvidia-smi, nvidia-modeset, nv-fabricmanager (cut to 15
# characters), nv-hostengine.
_DRIVER = re.compile(r"nvidia|nv[-_]")


@check("process.stuck")
def process_stuck(processes: Processes, growth: Growth[Processes]) -> Iterator[Finding]:
    """No process was in uninterruptible sleep in both snapshots without having run in between; another rule
    judges NVIDIA's."""
    for task in _stuck(growth):
        if not _DRIVER.match(task.command):
            yield _finding(task, growth.seconds)


@check("process.stuck_driver")
def process_stuck_driver(processes: Processes, growth: Growth[Processes]) -> Iterator[Finding]:
    """None of NVIDIA's processes and kernel threads was in uninterruptible sleep in both snapshots without
    having run in between."""
    for task in _stuck(growth):
        if _DRIVER.match(task.command):
            yield _finding(task, growth.seconds)


def _stuck(growth: Growth[Processes]) -> Iterator[BlockedProcess]:
    earlier = {(task.pid, task.started, task.switches) for task in growth.before.sleepers}
    yield from (task for task in growth.now.sleepers if (task.pid, task.started, task.switches) in earlier)


def _finding(task: BlockedProcess, seconds: float) -> Finding:
    waits = f" in {task.waits}" if task.waits else ""
    asleep = f"asleep{waits} for {seconds / 60:.0f} min, and cannot be killed"
    return Finding(asleep, "runs, or can be killed", f"{task.command}, process {task.pid}")


@check("process.zombies")
def process_zombies(processes: Processes, *, most: int) -> Iterator[Finding]:
    """No more processes than allowed have ended without their parent waiting for them."""
    if processes.zombies > most:
        names = ", ".join(processes.zombie_names)
        yield Finding(f"{processes.zombies} zombies, mostly {names}", f"at most {most}")


@check("process.table")
def process_table(tables: Tables, *, most_percent: float) -> Iterator[Finding]:
    """The kernel's table of threads has room left."""
    if tables.threads > tables.threads_max * most_percent / 100:
        yield Finding(tables.threads, f"at most {most_percent:g} % of {tables.threads_max}", "threads")


@check("process.files")
def process_files(tables: Tables, *, most_percent: float) -> Iterator[Finding]:
    """The kernel's table of open files has room left."""
    if tables.files > tables.files_max * most_percent / 100:
        yield Finding(tables.files, f"at most {most_percent:g} % of {tables.files_max}", "open files")
