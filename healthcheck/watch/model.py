"""The values of a watched job: what a rank reports of its steps, windows of steps, and what is found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

NOT_MEASURED = math.nan     # a phase or value that a rank does not report


class StepPhase(Enum):
    """The parts of a step that a rank may time; the order is that of `StepTime.phases`."""

    DATA = "data"
    FORWARD = "forward"
    BACKWARD = "backward"
    COMMUNICATION = "communication"     # waiting for the other ranks included
    CHECKPOINT = "checkpoint"


PHASES = tuple(StepPhase)
COMMUNICATION = PHASES.index(StepPhase.COMMUNICATION)


class StepTime(NamedTuple):
    """What one rank reports of one step, or of some steps in a row, of which `step` is the last. `seconds`,
    and each of `phases` (in the order of StepPhase; NOT_MEASURED where not timed), is the mean of one step.
    `time` is when the last one ended, in epoch seconds by the rank's clock. `rank` is None where the line
    speaks for the whole job, `attempt` where it does not say. Ranks of equal `role` (such as a pipeline
    stage) do equal work. `gc` (Python's garbage collector), `delay` (waiting for a CPU) and `cpu` (on a CPU)
    in seconds a step, `faults` (major page faults a step) and `memory` (bytes) are NOT_MEASURED unless
    reported. `gpu` is its GPU's PCI address, UUID or number on its host, empty where the line does not
    say."""

    job: str
    rank: int | None
    host: str
    attempt: int | None
    step: int
    steps: int
    time: float
    seconds: float
    phases: tuple[float, ...]
    role: str = ""
    gc: float = NOT_MEASURED
    delay: float = NOT_MEASURED
    faults: float = NOT_MEASURED
    memory: float = NOT_MEASURED
    cpu: float = NOT_MEASURED
    gpu: str = ""


@dataclass(frozen=True)
class JobAttempt:
    """One start of the job: from `first` to `last` step, `began` to `ended` (epoch seconds of the first and
    the last line). `lost_steps` are those that the attempt before had done and this one did again, and
    `idle_s` is the time between the two."""

    number: int
    first: int
    last: int
    began: float
    ended: float
    ranks: int
    lost_steps: int = 0
    idle_s: float = 0.0


@dataclass(frozen=True)
class StepWindow:
    """The job in one window: steps `first` to `last` of an attempt, which ended at `time` (epoch seconds).
    `seconds` is the median step time over ranks; `phases` likewise. `worst_s` is the most that a rank's own
    work (what is not communication) exceeds the median by, in seconds a step. `ranks` of how many
    reported."""

    attempt: int
    first: int
    last: int
    time: float
    ranks: int
    seconds: float
    phases: Mapping[StepPhase, float] = field(default_factory=lambda: MappingProxyType({}))
    own_s: float = NOT_MEASURED
    worst_s: float = 0.0
    gc_s: float = NOT_MEASURED


class SlowPattern(Enum):
    """The shape in time and space of what is found."""

    STEADY = "slow since the start"
    STEP_DOWN = "a step down that stays"
    SLOW_START = "a slow start"
    OSCILLATION = "oscillation"
    DRIFT = "a slow decay"
    HANG = "a hang"


class WatchLevel(Enum):
    """Who a finding is about."""

    RANK = "rank"
    HOST = "host"       # all its ranks that report, of two or more
    PLACE = "place"     # a rack or another place with several hosts
    JOB = "job"


class WatchCause(Enum):
    """Why; the text completes 'slow by ...'."""

    THERMAL = "thermal throttling"
    POWER = "power throttling"
    CORRECTED_MEMORY = "corrected memory errors"
    LINK = "a slow or flapping link"
    PCIE = "a degraded PCIe link"
    HOST_MEMORY = "host memory pressure or swapping"
    CPU = "too little CPU: steal, a quota or a busy neighbour"
    STORAGE = "slow storage"
    DATA_LOADING = "data loading"
    GARBAGE_COLLECTION = "garbage collection"
    UNKNOWN = "cannot tell"


class Certainty(Enum):
    """How sure a cause is."""

    LIKELY = "likely"           # its evidence is there, and no other cause's is
    POSSIBLE = "possible"       # the phase fits and nothing speaks against it; or another cause fits, too
    NONE = "cannot tell"


@dataclass(frozen=True)
class CauseVerdict:
    """A cause with its evidence, others that fit as well, and the hosts whose measurements speak for it."""

    cause: WatchCause = WatchCause.UNKNOWN
    certainty: Certainty = Certainty.NONE
    evidence: tuple[str, ...] = ()
    rivals: tuple[WatchCause, ...] = ()
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True)
class WatchFinding:
    """One thing that slows the job, or holds it up. `subject` is "rank 5", "host gpu001", "place rack 3" or
    "the job"; `phase` None where unknown. `since_step` and `since` (epoch seconds) are where it began,
    `windows` for how many it was seen, `last` when. `lost_s` is what it costs the job in each step, as far as
    step times tell, `share` that in parts of the usual step. `still`: whether it was there in the newest
    windows."""

    id: str
    level: WatchLevel
    subject: str
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    pattern: SlowPattern
    phase: StepPhase | None
    attempt: int
    since_step: int
    since: float
    last: float
    windows: int
    lost_s: float
    share: float
    still: bool
    verdict: CauseVerdict = CauseVerdict()
    evidence: tuple[str, ...] = ()
