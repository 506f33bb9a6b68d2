"""Verdicts as values: what is wrong with a node, what jobs may do there, what is done about it, by whom, and why."""

from __future__ import annotations

from dataclasses import dataclass

from healthcheck.outcome import Owner, Repair
from healthcheck.store.history import Problem
from healthcheck.triage.policy import FaultKind, Isolation


@dataclass(frozen=True)
class Fault:
    """Problems of one kind at one place: a component where it is known by its serial number, else a subject, else the node.

    `isolation` and `repair` are after confirmation, history and flap damping; `because` says, a sentence each, what history added;
    `raised`: it asks for another repair than it would by itself.
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

    `proven` is why the node may be returned, or empty; `unproven` why it may not be yet. Both are empty where nothing is held.
    """

    node: str
    isolation: Isolation
    repair: Repair
    owner: Owner | None
    fault: str
    why: str
    faults: tuple[Fault, ...] = ()
    incident: str = ""
    proven: str = ""
    unproven: str = ""


@dataclass(frozen=True)
class Incident:
    """One cause that is not of one node: the nodes are its evidence, and are not isolated for it."""

    kind: str
    cause: str
    nodes: tuple[str, ...]
    why: str
    owner: Owner
