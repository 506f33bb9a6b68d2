"""The meaning of job log events without a matching entry: process ends, exceptions, timeouts, Slurm."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from types import MappingProxyType

from healthcheck.joblog.meaning import Culprit, FaultDomain, Meaning, Sure
from healthcheck.joblog.model import JobEvent, JobEventKind
from healthcheck.model.outcome import Owner, Severity

_CRITICAL, _WARNING, _INFO = Severity.CRITICAL, Severity.WARNING, Severity.INFO
_FIRST = "See the first failure before it, and run again with NCCL_DEBUG=INFO where there is none."
_MEM = "Ask for more memory (--mem), or use less: fewer data-loader workers, smaller caches."


def _of(
    id_: str, meaning: str, sure: Sure, severity: Severity, owner: Owner, remedy: str, fault: FaultDomain,
    brief: str, *, symptom: bool = False, job: bool = False, accuses: Culprit = Culprit.NODE,
) -> Meaning:
    return Meaning(id=id_, meaning=meaning, sure=sure, severity=severity, owner=owner, remedy=remedy,
                   fault=fault, brief=brief, symptom=symptom, job=job, accuses=accuses)


_KINDS: Mapping[JobEventKind, Meaning] = MappingProxyType({
    JobEventKind.GPU: _of("job-gpu", "CUDA says that the GPU or its driver failed", Sure.LIKELY, _CRITICAL,
        Owner.OPERATOR, "Drain the node and look at its kernel log (muster explain FILE).", FaultDomain.GPU,
        "CUDA says that the GPU failed"),
    JobEventKind.GPU_MEMORY: _of("job-gpu-memory", "The program asked for more GPU memory than was free",
        Sure.CERTAIN, _WARNING, Owner.USER, "Make the batch or the model's share smaller.",
        FaultDomain.PROGRAM, "ran out of GPU memory", job=True),
    JobEventKind.CUDA: _of("job-cuda", "A CUDA call of the program failed", Sure.GUESS, _WARNING, Owner.USER,
        "Look for an Xid of that GPU at that time; without one it is the program's.", FaultDomain.PROGRAM,
        "an error of a CUDA call", job=True),
    JobEventKind.NETWORK: _of("job-network", "NCCL met an error of an adapter or of the way to a peer",
        Sure.LIKELY, _CRITICAL, Owner.NETWORK, "Look at the ports of both nodes (muster check).",
        FaultDomain.NETWORK, "NCCL lost the network"),
    JobEventKind.PEER: _of("job-peer", "The process of a peer went away; it failed before the one that says "
        "so", Sure.LIKELY, _WARNING, Owner.USER, "Look for what ended that peer's process first.",
        FaultDomain.END, "lost a peer", symptom=True, accuses=Culprit.PEER),
    JobEventKind.SETUP: _of("job-setup", "NCCL could not begin on that node", Sure.LIKELY, _CRITICAL,
        Owner.USER, "Compare its environment and adapters with those of nodes where it goes well.",
        FaultDomain.HOST, "NCCL could not begin"),
    JobEventKind.NCCL: _of("job-nccl", "NCCL warns of something that muster does not know", Sure.GUESS,
        _WARNING, Owner.USER, _FIRST, FaultDomain.HOST, "NCCL warns", symptom=True),
    JobEventKind.TIMEOUT: _of("job-timeout", "Ranks waited in a collective until their time was up; who says "
        "so is not who was late", Sure.LIKELY, _WARNING, Owner.USER, "Find the rank that says nothing of it: "
        "its log, its node (muster blame with the logs of all ranks, or the flight recorder's dumps).",
        FaultDomain.END, "waited in a collective until its time was up", symptom=True),
    JobEventKind.EXCEPTION: _of("job-exception", "The program ended with an exception of its own",
        Sure.LIKELY, _WARNING, Owner.USER, "Read its traceback; no machine is at fault by it.",
        FaultDomain.PROGRAM, "the program raised an error", job=True),
    JobEventKind.OOM: _of("slurm-oom", "The kernel killed a process of the job for want of host memory",
        Sure.CERTAIN, _WARNING, Owner.USER, _MEM, FaultDomain.PROGRAM,
        "a process of the job was killed for want of host memory", job=True),
    JobEventKind.NODE_FAIL: _of("slurm-node-fail", "Slurm lost this node while the job ran", Sure.CERTAIN,
        _CRITICAL, Owner.OPERATOR, "Look whether the node is up, at its kernel log and at its BMC's event "
        "log (muster check NODE).", FaultDomain.NODE, "Slurm lost the node"),
    JobEventKind.LAUNCH: _of("slurm-launch", "Slurm could not start the job on this node", Sure.CERTAIN,
        _CRITICAL, Owner.OPERATOR, "Read slurmd's log on the node.", FaultDomain.NODE,
        "Slurm could not start the job there"),
    JobEventKind.MEMORY_ERROR: _of("slurm-memory-error", "The node met an uncorrectable memory error while "
        "the job ran", Sure.CERTAIN, _CRITICAL, Owner.VENDOR,
        "Drain the node; its kernel log and BMC name the DIMM.", FaultDomain.GPU,
        "an uncorrectable memory error"),
    JobEventKind.TIME_LIMIT: _of("slurm-time-limit", "The job's time was up", Sure.CERTAIN, _WARNING,
        Owner.USER, "Ask for more time, or see whether it hung: the last lines before this one tell.",
        FaultDomain.STOP, "the job reached its time limit: no one's fault", job=True),
    JobEventKind.PREEMPTED: _of("slurm-preempted", "The job was stopped for one of higher priority; nothing "
        "failed", Sure.CERTAIN, _WARNING, Owner.USER, "Have it requeued, and write checkpoints.",
        FaultDomain.ORDER, "the scheduler preempted the job: no one's fault", job=True),
    JobEventKind.REQUEUED: _of("slurm-requeued", "The job was put back into the queue", Sure.CERTAIN, _INFO,
        Owner.USER, "See why, with sacct --duplicates.", FaultDomain.ORDER,
        "the job was requeued: no one's fault", job=True),
    JobEventKind.CANCELLED: _of("slurm-cancelled", "The job or a step of it was cancelled, by a person or "
        "because another part of it had failed", Sure.CERTAIN, _WARNING, Owner.USER,
        "See the first failure before it; without one, who ran scancel.", FaultDomain.STOP,
        "the job was cancelled: no one's fault", symptom=True, job=True),
    JobEventKind.STEP_CANCELLED: _of("slurm-step-cancelled", "A step of the job was cancelled, by a person "
        "or because another part of it had failed", Sure.CERTAIN, _WARNING, Owner.USER,
        "See the first failure before it; without one, who ran scancel.", FaultDomain.END,
        "a step was cancelled", symptom=True, job=True),
    JobEventKind.ABORT: _of("mpi-abort", "This rank gave up and ended the job by MPI_ABORT; the program or a "
        "library of it called that", Sure.LIKELY, _WARNING, Owner.USER, "Read what this rank said just "
        "before; if that is an error of NCCL, UCX or CUDA, it is the cause.", FaultDomain.END,
        "ended the job by MPI_ABORT", job=True),
    JobEventKind.DAEMON: _of("mpi-daemon-lost", "mpirun lost its daemon on this node while the job ran; the "
        "node, its network or the daemon died", Sure.LIKELY, _CRITICAL, Owner.OPERATOR,
        "Look whether the node is up, at its kernel log and at its BMC's event log (muster check NODE).",
        FaultDomain.NODE, "mpirun lost its daemon there"),
    JobEventKind.DAEMON_START: _of("mpi-daemon-start", "mpirun could not start its daemons on all nodes, or "
        "they could not connect back; it does not say on which node", Sure.LIKELY, _CRITICAL, Owner.OPERATOR,
        "See the lines before it for a host's name; try ssh NODE orted --version (Open MPI 5: prted) on "
        "each, and that no firewall stands between the nodes.", FaultDomain.HOST,
        "mpirun could not start a daemon on a node", accuses=Culprit.NONE),
})

_SIGNALS: Mapping[int, Meaning] = MappingProxyType({
    signal.SIGKILL: _of("exit-killed", "A process was killed from outside (SIGKILL): mostly for want of host "
        "memory, or by the scheduler when another part failed", Sure.GUESS, _WARNING, Owner.OPERATOR,
        "Look in that node's kernel log for 'Out of memory: Killed process' at that time.", FaultDomain.END,
        ""),
    signal.SIGBUS: _of("exit-bus", "A process ended with a bus error: /dev/shm was full, a mapped file went "
        "away, or memory failed", Sure.GUESS, _WARNING, Owner.OPERATOR,
        "See df /dev/shm and the node's kernel log.", FaultDomain.END, ""),
    signal.SIGSEGV: _of("exit-segv", "A process used memory that is not its own", Sure.LIKELY, _WARNING,
        Owner.OPERATOR, "The program's or a library's; have it write a core dump. On one node only, again "
        "and again: test its memory.", FaultDomain.END, "", job=True),
    signal.SIGABRT: _of("exit-abort", "A process gave up by itself", Sure.LIKELY, _WARNING, Owner.OPERATOR,
        _FIRST, FaultDomain.END, ""),
    signal.SIGTERM: _of("exit-term", "A process was asked to end, as others are when one has failed",
        Sure.LIKELY, _INFO, Owner.USER, _FIRST, FaultDomain.END, "", symptom=True),
})
_EXIT = _of("exit", "A process ended with an error", Sure.LIKELY, _WARNING, Owner.USER,
            "Its own last lines say why; the earliest that ended leads nearest to the cause.",
            FaultDomain.END, "")
_OTHER_SIGNAL = _of("exit-signal", "A process was ended by a signal", Sure.LIKELY, _WARNING, Owner.OPERATOR,
                    "Its own last lines and the node's kernel log say why.", FaultDomain.END, "")
ABSENT = _of("absent", "It did not come to a collective that others waited in until their time was up",
             Sure.LIKELY, _CRITICAL, Owner.OPERATOR, "Look at that rank's own log, at its GPU (Xids in the "
             "node's kernel log) and whether its process hung; py-spy dump of a process that still hangs "
             "tells where.", FaultDomain.END, "did not come to a collective")


def meaning(event: JobEvent) -> Meaning | None:
    """What the event means; None for one that tells nothing by itself."""
    if event.message is not None:
        return event.message
    if event.kind is JobEventKind.EXIT:
        if event.code is not None and event.code < 0:
            return _SIGNALS.get(-event.code, _OTHER_SIGNAL)
        return _EXIT
    return _KINDS.get(event.kind)


def of_kind(kind: JobEventKind) -> Meaning | None:
    """The meaning of events of this kind without a matching entry."""
    return _KINDS.get(kind)
