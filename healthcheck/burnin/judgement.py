"""What comes of a burn-in: an outcome for each node with the stages that it did, who is accused, and what
figures were held against.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType

from healthcheck.burnin.floors import Floor
from healthcheck.burnin.merged import node_of, task_of
from healthcheck.burnin.model import Accusation, BurnInStage
from healthcheck.burnin.published import Setting


class BurnInOutcome(Enum):
    """Of a node, or of a burn-in as a whole. What was not measured is never a pass."""

    PASS = "pass"  # noqa: S105  (no password)
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class StageDone:
    """One stage of one node: whether all of it was measured, and if not, why."""

    stage: BurnInStage
    done: bool
    why: str = ""


@dataclass(frozen=True)
class NodeOutcome:
    """One node: its outcome, why it is not a pass, its stages in order, and its figures (the least of its
    GPUs, the median of tasks).
    """

    node: str
    outcome: BurnInOutcome
    why: tuple[str, ...] = ()
    stages: tuple[StageDone, ...] = ()
    figures: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True)
class JudgedFigure:
    """A group of equal measures: how many, their median and least, the floor that they were held against
    (None: there is none), and whether they were held against each other.
    """

    setting: Setting
    n: int
    median: float
    least: float
    floor: Floor | None = None
    equals: bool = False


@dataclass(frozen=True)
class Judgement:
    """All of it; accusations with what weighs most first."""

    outcomes: tuple[NodeOutcome, ...]
    accusations: tuple[Accusation, ...] = ()
    held: tuple[JudgedFigure, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def verdict(self) -> BurnInOutcome:
        """Fail where anything is accused, though it be unexplained; pass where every node passes, and there
        is one.
        """
        if self.accusations or any(one.outcome is BurnInOutcome.FAIL for one in self.outcomes):
            return BurnInOutcome.FAIL
        return (BurnInOutcome.PASS if self.outcomes
                and all(one.outcome is BurnInOutcome.PASS for one in self.outcomes)
                else BurnInOutcome.UNKNOWN)


def doubted(
    judgement: Judgement, doubts: Mapping[str, str], withheld: Mapping[str, str],
    tasks: Mapping[str, Sequence[str]],
) -> Judgement:
    """The judgement in which no node passes of which there is a doubt.

    Of nodes that are `withheld` nothing is believed, no fault either; what is nobody's is believed if a task
    without them shows it, by the nodes of each task.
    """
    outcomes = []
    for one in judgement.outcomes:
        why = doubts.get(one.node)
        if why is not None and (one.outcome is not BurnInOutcome.FAIL or one.node in withheld):
            one = replace(one, outcome=BurnInOutcome.UNKNOWN, why=(why, *one.why))
        outcomes.append(one)
    every = [one.node for one in judgement.outcomes]

    def stands(one: Accusation) -> bool:
        node = node_of(one)
        shown = [tasks[name] for name in (one.name, *map(task_of, one.tests_for)) if name in tasks] or [every]
        return (node not in withheld
                if node is not None else any(withheld.keys().isdisjoint(nodes) for nodes in shown))

    return replace(judgement, outcomes=tuple(outcomes),
                   accusations=tuple(filter(stands, judgement.accusations)))
