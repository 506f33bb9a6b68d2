"""The states of a burn-in: the next step of each, and which state follows. No clock, no I/O.

    NotBegun     the lease is there, nodes are looked at    begin -> NodesAlone
    NodesAlone   each node alone, then each rail alone      no step left -> PairRounds
    PairRounds   pairs, as a PairSearch asks for them       no round left -> RailRounds; of a screening
                                                            -> FabricRounds
    RailRounds   the accused once more, each rail alone     no round left -> FabricRounds
    FabricRounds a link burn, as planned for who is left,   no round left, none that would tell links apart
                 and rounds that tell links apart           -> AllNodes
    AllNodes     all nodes at once: all, train, soak        all passed -> AllSizes; else the next of the three
                                                            failed, and a node left for it -> again without it
                                                            failed, and no node left -> PartsOfAll
                                                            train failed -> the next of the three
    AllSizes     all nodes, over sizes                      -> the next of the three
    PartsOfAll   parts of them, as a Bisection asks         no part left -> the next of the three
    AllMeasured  no step is left
    RunOver      `BurninRun.end`, from any state: it is finished, was interrupted, or gave way to a job
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

from healthcheck.burnin import fabricwork, faults, rounds, stages
from healthcheck.burnin.bisect import Bisection, units
from healthcheck.burnin.fabricwork import FabricRound
from healthcheck.burnin.isolate import PairSearch
from healthcheck.burnin.judge import judge
from healthcheck.burnin.model import Accusation, BurnInStage, TaskResult
from healthcheck.burnin.pairjudge import PairJudge
from healthcheck.burnin.rails import RailSearch
from healthcheck.burnin.rounds import Round
from healthcheck.burnin.setting import rail_of
from healthcheck.burnin.stages import StageStep
from healthcheck.burnin.weigh import PairOutcome

if TYPE_CHECKING:
    from healthcheck.burnin.statemachine import BurninRun

_APART = 3              # rounds of a link burn that only tell links apart
_AGAIN = 3              # further tries of all nodes without those that the last try named
_TOGETHER = (BurnInStage.ALL, BurnInStage.TRAIN, BurnInStage.SOAK)


class RunState:
    """`next` is the step to run now, or the state to go on with: itself where there is no step; `after` is
    the state when that step is over with these results."""

    def next(self, run: BurninRun) -> StageStep | RunState:
        return self

    def after(self, run: BurninRun, step: StageStep, results: Sequence[TaskResult]) -> RunState:
        return self


@dataclass(frozen=True)
class NotBegun(RunState):
    """The lease is held, and the nodes' snapshots are being taken."""


@dataclass(frozen=True)
class NodesAlone(RunState):
    """Each node alone, then each of its rails: `steps` are left. A node that left takes no part."""

    steps: tuple[StageStep, ...]

    def next(self, run: BurninRun) -> StageStep | RunState:
        if not self.steps:
            return (PairRounds.of(run)
                    if {BurnInStage.LEAF_PAIRS, BurnInStage.CROSS_PAIRS} & run.wanted
                    else _after_pairs(run))
        step = self.steps[0]
        if tasks := tuple(task for task in step.tasks if not run.out.keys() & set(task.nodes)):
            return replace(step, tasks=tasks)
        run.missing.setdefault(step.stage, "all nodes had left before this stage")
        return NodesAlone(self.steps[1:])

    def after(self, run: BurninRun, step: StageStep, results: Sequence[TaskResult]) -> RunState:
        # Accused nodes leave, and those that are wrong or slow beside their equals.
        run.accuse_by_watching(results)
        run.accuse(judge(run.burnt, run.floors).accusations)
        run.finished_so_far()
        return NodesAlone(self.steps[1:])


@dataclass(frozen=True)
class PairRounds(RunState):
    """Rounds of pairs. Suspects are tested again, so no node leaves before the last round."""

    isolation: PairSearch
    judge: PairJudge

    @classmethod
    def of(cls, run: BurninRun) -> PairRounds:
        return cls(stages.isolated(run.left(), run.work, run.wanted),
                   PairJudge(run.by_name, run.floors, run.hardware))

    def next(self, run: BurninRun) -> StageStep | RunState:
        if (round_ := self.isolation.next()) is not None:
            return stages.pairs(round_, run.by_name, run.work)
        # Valid even if the burn-in ends during the tests of rails.
        run.found = run.not_explained(self.isolation.accusations())
        run.drop_noise(self.isolation.noise())
        run.finished_so_far()
        # A screening is short, and does not test rails.
        return self.over(run, run.found) if run.work.length == "screen" else RailRounds.of(run, self)

    def after(self, run: BurninRun, step: StageStep, results: Sequence[TaskResult]) -> RunState:
        if step.stage is not BurnInStage.LEAF_CONFIRM:
            self.judge.keep(results)
        self.isolation.add_results(self.judge.tests(results))
        return self

    def over(self, run: BurninRun, accusations: Iterable[Accusation]) -> RunState:
        """Takes the accusations of all rounds, those of single rails included: the accused leave."""
        run.found = run.not_explained(accusations)
        run.drop_noise(self.isolation.noise())
        accused = {result.task.id for result in run.results if result.accusations}
        run.remarks += [*self.isolation.notes, *(line for line in self.isolation.doubts()
                                                 if line.partition(":")[0] not in accused)]
        run.accuse(run.found)
        run.accuse(one for result in run.results for one in result.accusations)
        return _after_pairs(run)


@dataclass(frozen=True)
class RailRounds(RunState):
    """Rounds of accused and proven nodes by single rails: round `number` has the pairs `by_rail`, `steps` are
    left of it, `results` are there."""

    pairs: PairRounds
    rails: RailSearch
    judge: PairJudge
    number: int = 0
    by_rail: Mapping[int, Round] = field(default_factory=dict)
    steps: tuple[StageStep, ...] = ()
    results: tuple[TaskResult, ...] = ()

    @classmethod
    def of(cls, run: BurninRun, pairs: PairRounds) -> RailRounds:
        isolation, usable = pairs.isolation, {node: ports.rails for node, ports in run.work.ports.items()}
        return cls(pairs, RailSearch(isolation.accusations(), isolation.proven(),
                                {place.node: place for place in run.left()}, usable, run.work.seed),
                   PairJudge(run.by_name, run.floors, run.hardware))

    def next(self, run: BurninRun) -> StageStep | RunState:
        if self.steps:
            return self.steps[0]
        if (these := self.rails.next()) is None:
            return self.pairs.over(run, self.rails.accusations())
        steps = tuple(stages.rails_of_pairs(self.number + 1, these, run.by_name, run.work))
        return replace(self, number=self.number + 1, by_rail=these, steps=steps, results=())

    def after(self, run: BurninRun, step: StageStep, results: Sequence[TaskResult]) -> RunState:
        behind = replace(self, steps=self.steps[1:], results=(*self.results, *results))
        if not behind.steps:
            of_rail = {rail: [result for result in behind.results if rail_of(result.task) == rail]
                       for rail in self.by_rail}
            # Before any is judged: a round has few pairs of a rail, and all rails are equals.
            self.judge.keep(result for rail, own in of_rail.items()
                            if self.by_rail[rail].stage is not BurnInStage.LEAF_CONFIRM for result in own)
            self.rails.add_results({rail: self.judge.tests(own) for rail, own in of_rail.items()})
        return behind


@dataclass(frozen=True)
class FabricRounds(RunState):
    """Rounds of a link burn: `rounds` are left, `apart` were to tell links apart."""

    rounds: tuple[FabricRound, ...]
    apart: int = 0

    def next(self, run: BurninRun) -> StageStep | RunState:
        left = {place.node: place for place in run.left()}
        if self.rounds:
            step, without = stages.fabric(self.rounds[0], left, run.work)
            if step.tasks:
                return step
            run.remarks += without
            return replace(self, rounds=self.rounds[1:])
        links = run.links()
        if links is not None and links.more and self.apart < _APART:
            return FabricRounds(links.more, self.apart + 1)
        # Behind a slow link of its own a node would slow all others.
        for node, why in links.slow_nodes.items() if links is not None else ():
            run.out.setdefault(node, why)
        return _together(run)

    def after(self, run: BurninRun, step: StageStep, results: Sequence[TaskResult]) -> RunState:
        there = {place.node: place for place in run.there}
        run.remarks += stages.fabric(self.rounds[0], there, run.work)[1]
        run.accuse_by_watching(results)
        return replace(self, rounds=self.rounds[1:])


@dataclass(frozen=True)
class AllNodes(RunState):
    """All remaining nodes at once, in several ring orders: `passed` are done, `failed` tries failed."""

    stage: BurnInStage
    passed: int = 0
    failed: int = 0

    def next(self, run: BurninRun) -> StageStep | RunState:
        left = run.left()
        count = stages.RING_ORDERS[run.work.length] if self.stage is BurnInStage.ALL else 1
        if self.passed < count and len(left) < 2:
            run.missing.setdefault(self.stage, "fewer than two nodes were left")
            return _together(run, self.stage)
        if self.passed < len(orders := rounds.rings(left, count)):
            number = self.passed + self.failed + 1
            return stages.together(self.stage, number, [orders[self.passed]], run.by_name, run.work)[0]
        return AllSizes() if self.stage is BurnInStage.ALL else _together(run, self.stage)

    def after(self, run: BurninRun, step: StageStep, results: Sequence[TaskResult]) -> RunState:
        run.accuse_by_watching(results)
        failed = next((result for result in results if not run.succeeded(result)), None)
        if failed is None:
            return replace(self, passed=self.passed + 1)
        if len(run.left()) < len(run.there) and self.failed < _AGAIN:
            return replace(self, failed=self.failed + 1)
        # Parts of a training would be all-reduces, which passed before.
        return (_together(run, self.stage)
                if self.stage is BurnInStage.TRAIN else PartsOfAll.of(run, self.stage, failed))


@dataclass(frozen=True)
class AllSizes(RunState):
    """All remaining nodes over sizes; `number` counts the tries."""

    number: int = 1

    def next(self, run: BurninRun) -> StageStep | RunState:
        left = run.left()
        if self.number > _AGAIN + 1 or len(left) < 2:
            return _together(run, BurnInStage.ALL)
        return stages.sweep_together(self.number, rounds.rings(left, 1)[0], run.by_name, run.work)

    def after(self, run: BurninRun, step: StageStep, results: Sequence[TaskResult]) -> RunState:
        run.accuse_by_watching(results)
        if all(result.whole for result in results) or len(run.left()) == len(run.there):
            return _together(run, BurnInStage.ALL)
        return AllSizes(self.number + 1)


@dataclass(frozen=True)
class PartsOfAll(RunState):
    """A failure that only scale shows: halves of the leaves, filled up with good nodes; `number` were run."""

    stage: BurnInStage
    bisection: Bisection
    number: int = 0

    @classmethod
    def of(cls, run: BurninRun, stage: BurnInStage, failed: TaskResult) -> PartsOfAll:
        wrong = any(report.wrong_total for report in failed.reports)
        fault = faults.WRONG_DATA if wrong else faults.SLOW if failed.whole else faults.RAISED
        return cls(stage, Bisection(units(run.there), failed.task.id, fault=fault))

    def next(self, run: BurninRun) -> StageStep | RunState:
        if (parts := self.bisection.next()) is None:
            accusations = self.bisection.accusations()
            run.found += accusations
            run.accuse(accusations)
            return _together(run, self.stage)
        # Parts share no node; a part of a single node has no partner.
        steps = [stages.together(BurnInStage.BISECT, number, [part.nodes], run.by_name, run.work)[0]
                 for number, part in enumerate(parts, self.number + 1) if len(part.nodes) > 1]
        return StageStep(BurnInStage.BISECT, f"{len(steps)} parts", tuple(step.tasks[0] for step in steps),
                         max((step.seconds for step in steps), default=0.0))

    def after(self, run: BurninRun, step: StageStep, results: Sequence[TaskResult]) -> RunState:
        parts = self.bisection.next() or ()
        tasks = {task.nodes: task.id for task in step.tasks}
        done = {result.task.id: result for result in results}
        names = [tasks.get(part.nodes, "") for part in parts]
        self.bisection.add_results([(name, _outcome(run, done.get(name))) for name in names])
        return replace(self, number=self.number + len(parts))


@dataclass(frozen=True)
class AllMeasured(RunState):
    """No step is left."""


class RunEnding(Enum):
    """How a burn-in ended."""

    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    GAVE_WAY = "gave way"


@dataclass(frozen=True)
class RunOver(RunState):
    """The burn-in has ended; `gave_way` names the job that it gave way to."""

    ending: RunEnding
    gave_way: str = ""


def _after_pairs(run: BurninRun) -> RunState:
    """The link burn of who is left, where one is wanted; else all nodes together."""
    if BurnInStage.FABRIC not in run.wanted or run.work.fabric is None:
        return _together(run)
    run.finished_so_far()
    run.fabric_planes = run.work.fabric.planes({place.node for place in run.left()})
    found = tuple(fabricwork.rounds(run.fabric_planes))
    if not found:
        run.missing.setdefault(BurnInStage.FABRIC, "no pair of the nodes that are left loads any link")
    return FabricRounds(found)


def _together(run: BurninRun, after: BurnInStage | None = None) -> RunState:
    """The next planned stage of all nodes after this one. All results before it are finished."""
    run.finished_so_far()
    later = _TOGETHER[_TOGETHER.index(after) + 1:] if after is not None else _TOGETHER
    planned = {step.stage for step in run.steps}
    return next((AllNodes(stage) for stage in later if stage in planned), AllMeasured())


def _outcome(run: BurninRun, result: TaskResult | None) -> PairOutcome:
    if result is None or not (result.whole or result.accusations):
        return PairOutcome.UNKNOWN
    return PairOutcome.PASS if run.succeeded(result) else PairOutcome.FAIL
