"""What a line of a job's log means: in plain words, whom it accuses, of what, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from healthcheck.model.outcome import Owner, Severity


class Sure(Enum):
    """How sure a cause is; the order of the members is from most to least."""

    CERTAIN = "certain"     # the device, the kernel or the scheduler itself says so
    LIKELY = "likely"       # mostly so; other causes say the same now and then
    GUESS = "a guess"       # one of several causes that look like this


class Culprit(Enum):
    """Whose fault a line tells of."""

    NODE = "node"           # the node, or the rank on it, that said it
    PEER = "peer"           # the other end that it names
    ADAPTER = "adapter"     # the network adapter of that node that it names
    NONE = "none"           # no machine: it is said of the whole job


class FaultDomain(Enum):
    """What kind of thing is at fault."""

    GPU = "gpu"             # a GPU, its memory, links or driver
    NETWORK = "network"     # an adapter, a link, a switch, a route
    HOST = "host"           # storage, limits, services, the container
    NODE = "node"           # the node went away
    PROGRAM = "program"     # the job's own program or its setting
    ORDER = "order"         # the scheduler was asked to end the job
    STOP = "stop"           # a time limit, or someone who cancelled it
    END = "end"             # a process ended, or never came: where it began, without a why
    SPEED = "speed"         # the job is slower for it, and does not end by it


@dataclass(frozen=True, kw_only=True)
class Meaning:
    """What one kind of line, or of event, means. `brief` says it after a rank's or a node's name. `symptom`
    marks what follows from something else, such as a rank that waited; `job` what is no fault of a machine,
    and yet why a job ended. `least` is how often it must be said to count as a fault."""

    id: str
    meaning: str
    sure: Sure
    severity: Severity
    owner: Owner
    remedy: str
    fault: FaultDomain
    brief: str = ""
    accuses: Culprit = Culprit.NODE
    symptom: bool = False
    job: bool = False
    least: int = 1

    @property
    def by(self) -> str:
        """The source's name on a page."""
        return self.id
