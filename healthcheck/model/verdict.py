"""Verdicts and incidents as values: what is wrong with a node, what jobs may do there, what is done about it,
by whom, and why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from healthcheck.model.faultkind import FaultKind, Isolation
from healthcheck.model.outcome import Owner, Repair
from healthcheck.model.problem import Problem

# What stands for the fault in a verdict in an incident's name.
INCIDENT = "incident"
# What stands for the fault in the verdict on a node of which something is at the vendor's.
RMA = "rma"


@dataclass(frozen=True)
class IncidentMember:
    """A node of an incident: when it first and last showed a symptom of it; `ended` is None while it is in
    it.
    """

    node: str
    began: float
    seen: float
    ended: float | None = None


@dataclass(frozen=True)
class StoredIncident:
    """An incident as the store remembers it; `ended` is None while it is open, and `by` says who closed it."""

    id: int
    kind: str
    place: str
    symptoms: tuple[str, ...]
    owner: str
    why: str
    likelihood: float
    began: float
    seen: float
    members: tuple[IncidentMember, ...]
    ended: float | None = None
    by: str = ""
    closed: str = ""


@dataclass(frozen=True)
class Fault:
    """Problems of one kind at one place: a component where it is known by its serial number, else a subject,
    else the node.

    `isolation` and `repair` are after confirmation, history and flap damping; `because` says, a sentence
    each, what history added; `raised`: it asks for another repair than it would by itself.
    """

    kind: FaultKind
    place: str
    problems: tuple[Problem, ...]
    isolation: Isolation
    repair: Repair
    owner: Owner
    began: float
    because: tuple[str, ...] = ()
    raised: bool = False

    @property
    def urgency(self) -> tuple[int, int]:
        """For sorting: the worst last."""
        return list(Isolation).index(self.isolation), list(Repair).index(self.repair)


@dataclass(frozen=True)
class Verdict:
    """One node. `faults` from worst to least; the first gives the fault's id, its reason and the owner.

    `incident` is the number of the one in whose name the node is held, or was until it ended; 0 where it is
    for a fault of its own. `proven` is why the node may be returned, or empty; `unproven` why it may not be
    yet. Both are empty where nothing is held.
    """

    node: str
    isolation: Isolation
    repair: Repair
    owner: Owner | None
    fault: str
    why: str
    faults: tuple[Fault, ...] = ()
    incident: int = 0
    proven: str = ""
    unproven: str = ""


@dataclass(frozen=True)
class Incident:
    """One cause that is not of one node. `kind` and `cause` say where: a kind of place and its name, or what
    muster itself is to blame for.

    `nodes` are those that show it now, `members` all that did, with their times; `symptoms` what they show.
    `likelihood`: chance does the same once in so many times, 0 where that was not asked. `isolates`: nodes
    that it makes unusable are isolated in its name; else each stands for itself.
    """

    kind: str
    cause: str
    nodes: tuple[str, ...]
    why: str
    owner: Owner
    id: int = 0
    symptoms: tuple[str, ...] = ()
    members: tuple[IncidentMember, ...] = ()
    began: float = 0.0
    likelihood: float = 0.0
    isolates: bool = False


@dataclass(frozen=True)
class IncidentEnd:
    """An incident that ends, and why; `into` is the number of the one that it became part of, 0 where of
    none.
    """

    id: int
    why: str
    into: int = 0


class Decided(Protocol):
    """What of a plan the store keeps: what is decided at `now`, the words with which the breaker opens or
    closes, and incidents that are open with it or end.
    """

    @property
    def now(self) -> float: ...
    @property
    def verdicts(self) -> Sequence[Verdict]: ...
    @property
    def incidents(self) -> Sequence[Incident]: ...
    @property
    def ends(self) -> Sequence[IncidentEnd]: ...
    @property
    def opens(self) -> str: ...
    @property
    def closes(self) -> str: ...
