"""The outcome of a burn-in: nodes with their stages, accusations, and the judged figures."""

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
    """The outcome of a node or of a whole burn-in. What was not measured is never a pass."""

    PASS = "pass"  # noqa: S105  (no password)
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class StageDone:
    """One stage of one node: whether it was measured completely, and if not, why."""

    stage: BurnInStage
    done: bool
    why: str = ""


@dataclass(frozen=True)
class NodeOutcome:
    """One node: outcome, why it is no pass, stages in order, and figures (least of GPUs, median of tasks)."""

    node: str
    outcome: BurnInOutcome
    why: tuple[str, ...] = ()
    stages: tuple[StageDone, ...] = ()
    figures: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True)
class JudgedFigure:
    """A group of equal measures: n, median, least, floor (None: none), and whether equals judged it."""

    setting: Setting
    n: int
    median: float
    least: float
    floor: Floor | None = None
    equals: bool = False


@dataclass(frozen=True)
class Judgement:
    """Outcomes, accusations (the gravest first), judged figures and remarks. `links_proven`: whether a link
    burn, if there was one, is proven to have loaded every link, and judged every pair."""

    outcomes: tuple[NodeOutcome, ...]
    accusations: tuple[Accusation, ...] = ()
    held: tuple[JudgedFigure, ...] = ()
    remarks: tuple[str, ...] = ()
    links_proven: bool = True

    @property
    def verdict(self) -> BurnInOutcome:
        """Fail where anything is accused; pass where all nodes pass, there is one, and links are proven."""
        if self.accusations or any(one.outcome is BurnInOutcome.FAIL for one in self.outcomes):
            return BurnInOutcome.FAIL
        return (BurnInOutcome.PASS if self.outcomes and self.links_proven
                and all(one.outcome is BurnInOutcome.PASS for one in self.outcomes)
                else BurnInOutcome.UNKNOWN)


def doubted(
    judgement: Judgement, doubts: Mapping[str, str], withheld: Mapping[str, str],
    tasks: Mapping[str, Sequence[str]],
) -> Judgement:
    """The judgement in which no node with a doubt passes, and nothing about `withheld` nodes counts, faults
    included. What accuses no single node counts if one of the `tasks` (by id their nodes) without them shows
    it."""
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
        return (node not in withheld if node is not None
                else any(withheld.keys().isdisjoint(nodes) for nodes in shown))

    return replace(judgement, outcomes=tuple(outcomes),
                   accusations=tuple(filter(stands, judgement.accusations)))
