"""The values of blame: a job's time and nodes, pieces of evidence, and what was not measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum

from healthcheck.model.outcome import Owner
from inventory.model import Node


class Weight(Enum):
    """What a piece of evidence is, by how well it explains a job's end, from best to least."""

    ORDERED = "ordered"             # the scheduler was asked to end the job: preemption, a requeue
    DEVICE = "device"               # a GPU, its memory or links, or the host's hardware failed
    ACTION = "action"               # muster itself rebooted the node
    # the node went away: it booted anew, no one reached it, the scheduler lost it
    LOST = "lost"
    NETWORK = "network"             # a port, an adapter or the fabric
    HOST = "host"                   # storage, services, the kernel
    USER = "user"                   # the job's own: memory, an exception, an address
    STOPPED = "stopped"             # its time limit, or someone who cancelled it
    # where it began, without a why: the first rank that ended, the one that did not come
    LEAD = "lead"
    # something of the node that is not as it should be, and ends no job by itself
    ODD = "odd"
    SYMPTOM = "symptom"             # what a job shows whose other part failed


@dataclass(frozen=True)
class JobWindow:
    """A job's time, `start` to `end` in epoch seconds, and its nodes. `known`: someone or something says when
    it was; `whole`: these are all of its nodes, and not only those that its logs name."""

    start: float
    end: float
    nodes: tuple[str, ...]
    known: bool = True
    whole: bool = True


@dataclass(frozen=True)
class Evidence:
    """One thing that was seen of a node (empty: of the job), after `after` and not later than `by` (epoch
    seconds): the same where the time is exact, None where nothing is known. `what` says it in our words,
    `said` is what was said, foreign and not yet escaped, `source` where from. `sure`: who says so saw it
    itself, and the words can mean nothing else. `group` names the kind, so that the same of several nodes is
    known as such. `place`: which of what the job's logs say it is, likeliest first (0: of something else)."""

    node: str
    weight: Weight
    what: str
    source: str
    after: float | None = None
    by: float | None = None
    said: str = ""
    owner: Owner | None = None
    advice: str = ""
    sure: bool = True
    group: str = ""
    rank: int | None = None
    place: int = 0

    @property
    def exact(self) -> bool:
        """Whether the moment is known."""
        return self.by is not None and self.after is not None and self.by - self.after < 1.0


@dataclass(frozen=True)
class SharedPlace:
    """What several nodes share, and they: a leaf, a rack, a power domain, an incident of the store."""

    kind: str
    name: str
    nodes: frozenset[str]
    why: str = ""
    owner: Owner | None = None


@dataclass(frozen=True)
class Case:
    """All that is known of a job's end: when it began to fail (`failed`), by the earliest word, how it ended,
    in a sentence, and in some words each what could not be looked at (`unmeasured`)."""

    title: str
    window: JobWindow
    ended: str
    failed: float
    evidence: tuple[Evidence, ...]
    shared: tuple[SharedPlace, ...] = ()
    unmeasured: tuple[str, ...] = ()
    looked: tuple[str, ...] = ()
    fine: bool = False


_OWNERS = {"leaf": Owner.NETWORK, "rack": Owner.DATACENTRE, "power domain": Owner.DATACENTRE,
           "NVLink domain": Owner.OPERATOR}


def shared(nodes: Iterable[Node], of_job: Collection[str]) -> tuple[SharedPlace, ...]:
    """Each leaf, rack, power or NVLink domain, by the inventory, that two nodes of the job or more share."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for node in nodes:
        if node.name in of_job:
            for kind, names in (("leaf", node.leaf), ("rack", (node.rack,)), ("power domain", (node.power,)),
                                ("NVLink domain", (node.nvlink_domain,))):
                for name in names:
                    if name:
                        found[kind, name].add(node.name)
    return tuple(SharedPlace(kind, name, frozenset(names), "", _OWNERS[kind])
                 for (kind, name), names in sorted(found.items()) if len(names) > 1)
