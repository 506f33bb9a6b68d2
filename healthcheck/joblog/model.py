"""The values of a job's logs: one event for each relevant line, by kind."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from healthcheck.joblog.meaning import Meaning

LONGEST_LINE = 8192     # characters of one line that are looked at


class JobEventKind(Enum):
    """What a line tells."""

    GPU = "gpu"                     # CUDA says that the GPU, or its memory or links, failed
    GPU_MEMORY = "gpu-memory"       # the program wanted more GPU memory than there is
    # another error of a CUDA call: an address, an assertion, a kernel that died
    CUDA = "cuda"
    # an adapter or the fabric failed: a completion with an error, a port event, a route
    NETWORK = "network"
    PEER = "peer"                   # another rank closed its connection: it is the one that went first
    # NCCL could not begin: no interface, versions that differ, a missing device
    SETUP = "setup"
    NCCL = "nccl"                   # any other warning of NCCL
    TIMEOUT = "timeout"             # this rank waited in a collective until its time was up
    ENTERED = "entered"             # how far this rank had come in a process group
    EXCEPTION = "exception"         # the program's own error
    EXIT = "exit"                   # a process of the job ended with an error
    OOM = "oom"                     # the kernel killed a process for want of host memory
    NODE_FAIL = "node-fail"         # the scheduler lost the node
    LAUNCH = "launch"               # the scheduler could not start the job there
    MEMORY_ERROR = "memory-error"   # the scheduler was informed of an uncorrectable memory error
    TIME_LIMIT = "time-limit"
    PREEMPTED = "preempted"
    REQUEUED = "requeued"
    CANCELLED = "cancelled"
    ABORT = "abort"                 # a process of an MPI job gave up by MPI_ABORT
    DAEMON = "daemon"               # the launcher lost its daemon on a node
    DAEMON_START = "daemon-start"   # the launcher could not start its daemons; it does not say where
    SAID = "said"                   # what only a known message of rules/joblog matches
    # by a person, or by srun as one of its tasks failed: the line does not say
    STEP_CANCELLED = "step-cancelled"


@dataclass(frozen=True)
class JobEvent:
    """One event of a log: what `line` (from 1) of `file` says of a node, a rank or a process.

    `text` is what was said, without time and prefix, as foreign as it came. `node` is the host that said it
    or that it was said of, empty if unknown; `rank` is the rank in the whole job, `time` in epoch seconds,
    `device` the CUDA device of the process, `peer` the host or address of the other end. `group` names the
    process group and `work` the collective in it (TIMEOUT: the one that did not end; ENTERED: the last one
    that was begun), `op` its type, `done` the last that had ended (ENTERED). `code` is the exit code of an
    EXIT (negative: minus the signal). `first`: the launcher says that it saw this failure first. `awaited`
    are the ranks that did not come, `joined` how many of how many did. `part` is the network adapter,
    `message` what rules/joblog says.
    """

    kind: JobEventKind
    text: str
    line: int = 0
    node: str = ""
    rank: int | None = None
    time: float | None = None
    device: int | None = None
    peer: str = ""
    group: str = ""
    work: int | None = None
    op: str = ""
    code: int | None = None
    first: bool = False
    file: str = ""
    done: int | None = None
    awaited: tuple[int, ...] = ()
    joined: tuple[int, int] | None = None
    part: str = ""
    message: Meaning | None = None


@dataclass(frozen=True)
class JobLog:
    """The merged logs of one job. `hosts` gives the node of a rank, as far as known; `world` how many ranks
    there are; `addresses` the node of an IP address or RDMA GID. `heard` are the nodes with a line, `span` is
    the first and the last time, in epoch seconds. `forms` are what was recognised; `caveats` say what could
    not be read, `unread` are the ranks whose dumps could not."""

    events: tuple[JobEvent, ...] = ()
    hosts: Mapping[int, str] = field(default_factory=lambda: MappingProxyType({}))
    world: int | None = None
    addresses: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    heard: frozenset[str] = frozenset()
    span: tuple[float, float] | None = None
    forms: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    unread: frozenset[int] = frozenset()


@dataclass(frozen=True)
class LogClock:
    """Makes times of what logs write, which name no zone and often no year.
    `near` (epoch seconds) tells the year; zone None is local."""

    near: float
    zone: dt.tzinfo | None = None

    def at(self, year: int | None, month: int, day: int, clock: str) -> float | None:
        """Epoch seconds of a date and an HH:MM:SS, perhaps with a fraction; None for no such time."""
        hours, minutes, seconds = clock.split(":")
        whole, _, fraction = seconds.partition(".")
        around = dt.datetime.fromtimestamp(self.near, self.zone)
        found = []
        for one in (year,) if year is not None else (around.year - 1, around.year, around.year + 1):
            try:
                time = dt.datetime(one, month, day, int(hours), int(minutes), int(whole),
                                   tzinfo=self.zone).timestamp()
            except (ValueError, OverflowError, OSError):
                continue
            found.append(time + (float(f"0.{fraction}") if fraction else 0.0))
        return min(found, key=lambda time: abs(time - self.near), default=None)

    def iso(self, text: str) -> float | None:
        """Epoch seconds of 2026-11-21 10:00:00, with a blank, a T or a _ between date and time."""
        date, clock = text[:10], text[11:]
        year, month, day = date.split("-")
        return self.at(int(year), int(month), int(day), clock)
