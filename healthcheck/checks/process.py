"""Process checks: stuck processes, zombies, and the kernel's tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from healthcheck.checks.base import check, listed
from healthcheck.checks.growth import Growth
from healthcheck.facts.owners import ProcessOwners, UserProcess
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


@check("process.without_job")
def process_without_job(
    process_owners: ProcessOwners, *, from_uid: int, exempt_uids: tuple[int, ...], exempt: tuple[str, ...],
    starters: tuple[str, ...], minutes: float,
) -> Iterator[Finding]:
    """No user without a job on the node has processes there, but those named in `exempt` and those younger
    than so many minutes.

    A process belongs to a job by its control group (Slurm, Kubernetes, a container, PBS), or because it comes
    from one of `starters` (patterns of names); not if the job of its group has ended.
    """
    by_user = _by_user(process_owners, from_uid, exempt_uids, exempt, starters)
    for uid, (outside, inside) in sorted(by_user.items()):
        old = [process for process in outside if process.seconds >= 60 * minutes]
        if old and not inside:
            yield _left_behind(old, uid, "none of a user without a job")


@check("process.lineage")
def process_lineage(
    process_owners: ProcessOwners, *, from_uid: int, exempt_uids: tuple[int, ...], exempt: tuple[str, ...],
    starters: tuple[str, ...], minutes: float,
) -> Iterator[Finding]:
    """No user with a job on the node has processes there outside of it; users without one process.without_job
    reports, which says what belongs to a job."""
    by_user = _by_user(process_owners, from_uid, exempt_uids, exempt, starters)
    for uid, (outside, inside) in sorted(by_user.items()):
        old = [process for process in outside if process.seconds >= 60 * minutes]
        if old and inside:
            job = inside[0].job or "by what started it"
            yield _left_behind(old, uid, f"only those of its job ({job})")


# Dynamic users of services (systemd.exec(5), DynamicUser=), and the user of no one (65534).
_NO_PERSON = (range(61184, 65520), (65534,))
_Users = dict[int, tuple[list[UserProcess], list[UserProcess]]]


def _by_user(owners: ProcessOwners, from_uid: int, exempt_uids: tuple[int, ...], exempt: tuple[str, ...],
             starters: tuple[str, ...]) -> _Users:
    """Each user's processes outside of jobs, without the exempt ones, and inside."""
    found: _Users = {}
    for process in owners.users:
        no_person = any(process.uid in uids for uids in _NO_PERSON)
        if process.uid < from_uid or process.uid in exempt_uids or no_person:
            continue
        outside, inside = found.setdefault(process.uid, ([], []))
        started = any(fnmatchcase(name, pattern) for name in process.lineage for pattern in starters)
        if started or (process.job and not process.ended):
            inside.append(process)
        elif not any(fnmatchcase(process.command, pattern) for pattern in exempt):
            outside.append(process)
    return found


def _left_behind(processes: list[UserProcess], uid: int, expected: str) -> Finding:
    oldest = max(processes, key=lambda process: process.seconds)
    named = listed([f"{process.command} ({process.pid})" for process in processes])
    of = f", of {oldest.job}, which has ended" if oldest.ended else ""
    return Finding(f"{len(processes)} left: {named}; the oldest runs for {oldest.seconds / 3600:.1f} h{of}",
                   expected, f"user {uid}")


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
