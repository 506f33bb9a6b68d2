"""Verdicts and incidents: what is wrong with a node, what jobs may do there, who repairs it, how, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from healthcheck.model.faultkind import FaultKind, Isolation
from healthcheck.model.outcome import Owner, Repair
from healthcheck.model.problem import Problem

# Stands for the fault in a verdict for an incident.
INCIDENT = "incident"
# Stands for the fault in the verdict on a node with a part at the vendor's.
RMA = "rma"
# Stands for the fault in the verdict on a node whose name another, unproven machine has.
MACHINE = "another-machine"


@dataclass(frozen=True)
class IncidentMember:
    """A node of an incident, and when it showed a symptom; `ended` is None while it belongs to it."""

    node: str
    began: float
    seen: float
    ended: float | None = None


@dataclass(frozen=True)
class StoredIncident:
    """An incident as stored; `ended` is None while it is open, and `by` says who closed it."""

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
    """Problems of one kind at one place: a component known by its serial number, else a subject, else the
    node.

    `isolation` and `repair` are after confirmation, history and flap damping; `because` says, a sentence
    each, what history added. `raised`: history asks for a stronger repair than the fault alone.
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
    """One node's verdict. `faults` from worst to least; the first gives the fault's id, its reason, the owner
    and the repair, which is more where another fault of the same owner needs more than a restart or a reset.

    `incident` is the number of the incident that holds or held the node; 0 where it is held for a fault of
    its own. `proven` is why the node may be returned, `unproven` why not yet. Both are empty where nothing is
    held.
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
    """One cause shared by several nodes. `kind` and `cause` say where: a kind of place and its name, or a
    cause in muster itself.

    `nodes` show it now, `members` are all that did, with their times; `symptoms` what they show.
    `likelihood`: by chance this happens once in so many times, 0 where not computed. `isolates`: nodes that
    it makes unusable are isolated in its name; otherwise each stands for itself.
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
    """An incident that ends, and why; `into` is the number of the one that absorbed it, or 0."""

    id: int
    why: str
    into: int = 0


class Decided(Protocol):
    """What the store keeps of a plan: verdicts, incidents, and why the breaker opens or closes."""

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
