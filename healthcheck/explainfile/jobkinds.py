"""What events of a job's log mean of which no saying says more: ends of processes, exceptions, timeouts, and the scheduler's words."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from healthcheck.explainfile.model import Sure
from healthcheck.joblog.model import JobEvent, Kind
from healthcheck.outcome import Owner, Severity


@dataclass(frozen=True)
class Meaning:
    """As a saying, of an event. `symptom` and `job` are those of `model.Cause`."""

    id: str
    meaning: str
    sure: Sure
    severity: Severity
    owner: Owner
    remedy: str
    symptom: bool = False
    job: bool = False


_CRITICAL, _WARNING, _INFO = Severity.CRITICAL, Severity.WARNING, Severity.INFO
_FIRST = "See the first failure before it, and run again with NCCL_DEBUG=INFO where there is none."

_KINDS: Mapping[Kind, Meaning] = MappingProxyType({meaning[0]: Meaning(*meaning[1:]) for meaning in (
    (Kind.GPU, "job-gpu", "CUDA says that the GPU or its driver failed", Sure.LIKELY, _CRITICAL, Owner.OPERATOR,
     "Drain the node and look at its kernel log (muster explain FILE)."),
    (Kind.GPU_MEMORY, "job-gpu-memory", "The program asked for more GPU memory than was free", Sure.CERTAIN, _WARNING, Owner.USER,
     "Make the batch or the model's share smaller.", False, True),
    (Kind.CUDA, "job-cuda", "A CUDA call of the program failed", Sure.GUESS, _WARNING, Owner.USER,
     "Look for an Xid of that GPU at that time; without one it is the program's.", False, True),
    (Kind.NETWORK, "job-network", "NCCL met an error of an adapter or of the way to a peer", Sure.LIKELY, _CRITICAL, Owner.NETWORK,
     "Look at the ports of both nodes (muster check)."),
    (Kind.PEER, "job-peer", "The process of a peer went away; it failed before the one that says so", Sure.LIKELY, _WARNING, Owner.USER,
     "Look for what ended that peer's process first.", True),
    (Kind.SETUP, "job-setup", "NCCL could not begin on that node", Sure.LIKELY, _CRITICAL, Owner.USER,
     "Compare its environment and adapters with those of nodes where it goes well."),
    (Kind.NCCL, "job-nccl", "NCCL warns of something that muster does not know", Sure.GUESS, _WARNING, Owner.USER, _FIRST, True),
    (Kind.TIMEOUT, "job-timeout", "Ranks waited in a collective until their time was up; who says so is not who was late",
     Sure.LIKELY, _WARNING, Owner.USER,
     "Find the rank that says nothing of it: its log, its node (muster blame, or the flight recorder's dumps).", True),
    (Kind.EXCEPTION, "job-exception", "The program ended with an exception of its own", Sure.LIKELY, _WARNING, Owner.USER,
     "Read its traceback; no machine is at fault by it.", False, True),
    (Kind.OOM, "slurm-oom", "The kernel killed a process of the job for want of host memory", Sure.CERTAIN, _WARNING, Owner.USER,
     "Ask for more memory (--mem), or use less: fewer data-loader workers, smaller caches.", False, True),
    (Kind.NODE_FAIL, "slurm-node-fail", "Slurm lost this node while the job ran", Sure.CERTAIN, _CRITICAL, Owner.OPERATOR,
     "Look whether the node is up, at its kernel log and at its BMC's event log (muster check NODE)."),
    (Kind.LAUNCH, "slurm-launch", "Slurm could not start the job on this node", Sure.CERTAIN, _CRITICAL, Owner.OPERATOR,
     "Read slurmd's log on the node."),
    (Kind.MEMORY_ERROR, "slurm-memory-error", "The node met an uncorrectable memory error while the job ran", Sure.CERTAIN, _CRITICAL,
     Owner.VENDOR, "Drain the node; its kernel log and BMC name the DIMM."),
    (Kind.TIME_LIMIT, "slurm-time-limit", "The job's time was up", Sure.CERTAIN, _WARNING, Owner.USER,
     "Ask for more time, or see whether it hung: the last lines before this one tell.", False, True),
    (Kind.PREEMPTED, "slurm-preempted", "The job was stopped for one of higher priority; nothing failed", Sure.CERTAIN, _WARNING,
     Owner.USER, "Have it requeued, and write checkpoints.", False, True),
    (Kind.REQUEUED, "slurm-requeued", "The job was put back into the queue", Sure.CERTAIN, _INFO, Owner.USER,
     "See why, with sacct --duplicates.", False, True),
    (Kind.CANCELLED, "slurm-cancelled", "The job or a step of it was cancelled, by a person or because another part of it had failed",
     Sure.CERTAIN, _WARNING, Owner.USER, "See the first failure before it; without one, who ran scancel.", True, True),
    (Kind.STEP_CANCELLED, "slurm-step-cancelled", "A step of the job was cancelled, by a person or because another part of it had failed",
     Sure.CERTAIN, _WARNING, Owner.USER, "See the first failure before it; without one, who ran scancel.", True, True),
)})

_SIGNALS: Mapping[int, Meaning] = MappingProxyType({
    signal.SIGKILL: Meaning("exit-killed", "A process was killed from outside (SIGKILL): mostly for want of host memory, or by the "
                             "scheduler when another part failed", Sure.GUESS, _WARNING, Owner.USER,
                             "Look in that node's kernel log for 'Out of memory: Killed process' at that time."),
    signal.SIGBUS: Meaning("exit-bus", "A process ended with a bus error: /dev/shm was full, a mapped file went away, or memory failed",
                            Sure.GUESS, _WARNING, Owner.USER, "See df /dev/shm and the node's kernel log."),
    signal.SIGSEGV: Meaning("exit-segv", "A process used memory that is not its own", Sure.LIKELY, _WARNING, Owner.USER,
                             "The program's or a library's; have it write a core dump. On one node only, again and again: test its memory.",
                             False, True),
    signal.SIGABRT: Meaning("exit-abort", "A process gave up by itself", Sure.LIKELY, _WARNING, Owner.USER, _FIRST, True),
    signal.SIGTERM: Meaning("exit-term", "A process was told to end, as others are when one has failed", Sure.LIKELY, _INFO, Owner.USER,
                             _FIRST, True),
})
_EXIT = Meaning("exit", "A process ended with an error", Sure.LIKELY, _WARNING, Owner.USER,
                "Its own last lines say why; the earliest that ended leads nearest to the cause.", True)


def meaning(event: JobEvent) -> Meaning | None:
    """What the event means; None for one that tells nothing by itself."""
    if event.kind is Kind.EXIT:
        return _SIGNALS.get(-event.code, _EXIT) if event.code is not None and event.code < 0 else _EXIT
    return _KINDS.get(event.kind)
