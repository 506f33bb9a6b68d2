"""A job's end by the scheduler's record, as evidence and as a sentence."""

from __future__ import annotations

import signal
from collections.abc import Iterator

from healthcheck.blame.evidence import Evidence, Weight
from healthcheck.model.outcome import Owner
from inventory.jobs import Job

# sacct(1), JOB STATE CODES.
_WORDS = {"COMPLETED": "completed", "FAILED": "failed", "NODE_FAIL": "ended as Slurm lost a node",
          "TIMEOUT": "reached its time limit", "OUT_OF_MEMORY": "ran out of host memory",
          "CANCELLED": "was cancelled", "PREEMPTED": "was preempted", "REQUEUED": "was requeued",
          "BOOT_FAIL": "did not start: a node did not boot", "DEADLINE": "reached its deadline",
          "RUNNING": "is running", "PENDING": "is waiting", "COMPLETING": "is ending",
          "SUSPENDED": "is suspended"}
FINE = ("COMPLETED",)
# Slurm ended its tasks
ORDERED = ("CANCELLED", "TIMEOUT", "DEADLINE", "PREEMPTED", "REQUEUED", "NODE_FAIL", "OUT_OF_MEMORY")


def ended(job: Job) -> str:
    """How it ended."""
    words = _WORDS.get(job.state, f"ended in state {job.state}")
    if job.by:
        words += f" by user {job.by}"
    if job.state == "FAILED" and (job.code or job.signal):
        # as a shell tells of a signal
        of_shell = f" ({_name(job.code - 128)})" if 128 < job.code < 160 else ""
        words += (f" with exit code {job.code}{of_shell}" if job.code
                  else f" by signal {job.signal} ({_name(job.signal)})")
    if job.requeues:
        words += f", after {job.requeues} earlier run{'s' * (job.requeues != 1)}"
    return words


def evidence(job: Job) -> Iterator[Evidence]:
    """What the record accuses, or excuses."""
    at, source = job.ended, job.source
    for node in job.failed:
        yield Evidence(node, Weight.LOST, "was lost by Slurm", source, at, at, "FailedNode", Owner.OPERATOR,
                       "Look at its console, its BMC's event log, and slurmctld's log around that time.",
                       group="lost")
    if job.state in ("NODE_FAIL", "BOOT_FAIL") and not job.failed:
        yield Evidence("", Weight.ODD, f"Slurm lost a node and does not say which: {job.state}", source, at,
                       at, "", Owner.OPERATOR, f"grep 'JobId={job.id}' in slurmctld's log names the node.",
                       group="lost")
    elif job.state == "PREEMPTED":
        yield Evidence("", Weight.ORDERED, "the scheduler preempted the job: no one's fault", source, at, at,
                       job.state, Owner.USER,
                       "Submit it again, or ask for a partition that is not preempted.", group="ordered")
    elif job.state in ("TIMEOUT", "DEADLINE"):
        yield Evidence("", Weight.STOPPED, f"the job {_WORDS[job.state]}: no one's fault", source, at, at,
                       job.state, Owner.USER, "Ask for more time, or save check-points; if it stood still "
                                              "before, its own log shows when its last step was.",
                       group="stopped")
    elif job.state == "CANCELLED":
        yield Evidence("", Weight.STOPPED, f"the job {ended(job)}: no one's fault", source, at, at, job.state,
                       Owner.USER, "", group="stopped")
    elif job.state == "OUT_OF_MEMORY":
        nodes = {node for step in job.steps if step.state == "OUT_OF_MEMORY" for node in step.nodes}
        where = next(iter(nodes)) if len(nodes) == 1 else ""
        yield Evidence(where, Weight.USER, "a process of the job was killed: it used more host memory than "
                                           "it asked for", source, at, at, job.state, Owner.USER,
                                           "Ask for more with --mem, or use less: fewer data loader workers, "
                                           "no copy in each.", group="oom")
    elif (job.state == "FAILED" and job.signal in (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL,
                                                   signal.SIGFPE, signal.SIGABRT)):
        yield Evidence("", Weight.LEAD, f"a process ended by {_name(job.signal)}", source, at, at,
                       f"{job.code}:{job.signal}", Owner.USER, "Its output names the process.", sure=False,
                       group="signal")


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
