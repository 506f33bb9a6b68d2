"""What happens next in a burn-in: its states, what leads from one to the next, and what they carry.

No clock, no I/O.

`BurninRun` is the whole burn-in, step after step. `provisioning.burnin.run` runs its steps:

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
    RunOver      `end`, from any state: it is finished, was interrupted, or gave way to a job

`TaskRun` is one task of a step. `provisioning.burnin.conductor` carries messages between it and the agents:

    JOINING      agents start its ranks                     all have joined -> "go", RUNNING
    RUNNING      the ranks work                             all are done and their processes ended -> over
    STOPPING     "stop", from either: something is wrong, or it is called off. What ends now accuses no rank.
                                                            all have ended, or `LEFT_S` have passed -> over

What becomes of

    a rank that dies or hangs   `watch.trouble` names it. Its task is stopped (`TaskRun.order`); others go on.
                                After the step the accused leave, and the others go on (`BurninRun.accuse`).
    a node that is not there    `BurninRun.leave`: it takes part in no step from then on, and does not pass.
    a stage that fails          nodes alone: the accused leave; pairs: more rounds; all nodes: see AllNodes.
    a job that wants the nodes  `BurninRun.end`, gave_way: what was finished stands, the rest is cut.
    a user who interrupts       `BurninRun.end`, interrupted: what was measured is kept, and no node passes.
    a lease that is lost        `BurninRun.withheld`: nothing is believed of these nodes, no fault either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import Any

from healthcheck.burnin import fabricresult, fabricwork, faults, messages, rounds, stages
from healthcheck.burnin.bisect import Bisection, units
from healthcheck.burnin.counters import CounterGrowth
from healthcheck.burnin.fabricresult import FabricCounters, FabricVerdict
from healthcheck.burnin.fabricwork import FabricRound
from healthcheck.burnin.floors import Floors
from healthcheck.burnin.isolate import PairSearch
from healthcheck.burnin.judge import BurnInResults, judge
from healthcheck.burnin.judgement import Judgement, doubted
from healthcheck.burnin.late import late
from healthcheck.burnin.merged import behind, node_of
from healthcheck.burnin.model import (
    Accusation,
    BurnInStage,
    Object,
    Participant,
    RankEnd,
    RankProgress,
    RankReport,
    Task,
    TaskKind,
    TaskResult,
)
from healthcheck.burnin.pairjudge import PairJudge
from healthcheck.burnin.rails import RailSearch
from healthcheck.burnin.rounds import Round
from healthcheck.burnin.setting import SkuHardware, measures, rail_of
from healthcheck.burnin.stagecounters import StageCounters
from healthcheck.burnin.stages import BurnInWork, StageStep
from healthcheck.burnin.watch import Patience, RankState, StopReason, overdue, trouble
from healthcheck.burnin.weigh import SOFT, PairOutcome
from healthcheck.burnin.wrongdata import wrong_data
from healthcheck.subnet.burnplanes import BurnPlane

_APART = 3              # rounds of a link burn that only tell links apart
_AGAIN = 3              # further tries of all nodes without those that the last try named
_OFTEN = 0.1            # of a node's tests with others: what accuses the same part so often is no noise
_OF_PAIRS = (BurnInStage.LEAF_PAIRS, BurnInStage.LEAF_CONFIRM, BurnInStage.CROSS_PAIRS)
_TOGETHER = (BurnInStage.ALL, BurnInStage.TRAIN, BurnInStage.SOAK)
NEWS_S = 1.5            # until a started rank has been heard of
LEFT_S = 6.0            # until a process that cannot be killed is left to its node
PARTED_S = 20.0         # between the last report and the last process's end
# beyond the task's seconds and the head's wait, until a rank ends itself
OVERTIME_S = 20.0


# ---- one task

class TaskState(Enum):
    """Where a task is between its order and its result."""

    JOINING = "joining"
    RUNNING = "running"
    STOPPING = "stopping"


class TaskRun:
    """A task from `sent` on. Messages about a rank count only from the rank's own node.

    No rank enters a collective before all have joined, so that missing ranks are known by name.
    """

    def __init__(self, task: Task, patience: Patience, sent: float) -> None:
        self.task = task
        self._patience = patience
        self._sent = sent
        self._went: float | None = None
        self._stopped: float | None = None
        self._trouble: StopReason | None = None
        self._named_at = 0.0
        self._seen = [RankState(seat) for seat in task.seats]
        self._reports: dict[int, RankReport] = {}

    @property
    def state(self) -> TaskState:
        """The task's state."""
        if self._stopped is not None:
            return TaskState.STOPPING
        return TaskState.JOINING if self._went is None else TaskState.RUNNING

    def start_orders(self) -> dict[str, dict[str, Any]]:
        """The first order to each of its nodes."""
        task = self.task
        whole = {"id": task.id, "kind": task.kind.value, "stage": task.stage.value, "seconds": task.seconds,
                 "params": dict(task.params), "world": len(task.seats),
                 "overtime": self._patience.start(len(task.seats)) + OVERTIME_S}
        return {node: {"task": {**whole, "environment": task.on(node),
                                "seats": [[rank, seat.gpu] for rank, seat in enumerate(task.seats)
                                          if seat.node == node]}} for node in task.nodes}

    def message(self, node: str, message: Mapping[str, Any], at: float) -> None:
        """Handles any message of a node's agent."""
        if (place := messages.joined(message)) is not None and self._is_rank(node, *place):
            self._update(place[1], joined=at)
        for position in messages.positions(message, at):
            if self._is_rank(node, position.task, position.rank):
                self._update(position.rank, heard=at, progress=position.progress)
        if (ended := messages.ended(message)) is not None and self._is_rank(node, ended.task, ended.rank):
            self._update(ended.rank, ended=at, code=ended.code, signal=ended.signal,
                         last_line=ended.last_line)
        reported = messages.report(message)
        if (reported is not None and self._is_rank(node, reported[0], reported[1])
                and reported[1] not in self._reports):
            _, rank, report = reported
            self._reports[rank] = replace(report, seat=self.task.seats[rank])
            done = report.end is RankEnd.DONE
            self._update(rank, reported=at, done=done,
                       raised=None if done else report.error or f"it was {report.end.value}")

    def agent_gone(self, node: str, why: str, at: float) -> None:
        """A node's agent disconnected, or was never there."""
        for rank, seen in enumerate(self._seen):
            if seen.seat.node == node and seen.lost is None and seen.ended is None:
                self._update(rank, lost=at, lost_why=why)

    @property
    def waits(self) -> bool:
        """Whether ranks of it have not joined yet, and nothing is wrong so far."""
        return self.state is TaskState.JOINING and not self._joined() and not self._failed()

    def order(self, now: float, hold: bool = False) -> str | None:
        """The order for all its agents now: "go", "stop" or None. With `hold` those that have joined wait
        for other tasks."""
        if self.state is TaskState.STOPPING or (
                hold and self.state is TaskState.JOINING and self._joined() and not self._failed()):
            return None
        found = trouble(self.task, self._seen, self._sent, self._went, now, self._patience)
        if found is None and all(seen.done for seen in self._seen):
            last = max(seen.reported or now for seen in self._seen)
            return self._stop(now) if now - last > PARTED_S and not self._ended() else None
        if found is None and now - self._sent > self.task.seconds:
            found = overdue(self.task, self._seen, self._sent + self.task.seconds, self._went, now,
                            self._patience)
        if found is not None:
            self._trouble, self._named_at = found, now
            return self._stop(now)
        if self.state is TaskState.JOINING and self._joined():
            self._went = now
            return "go"
        return None

    def call_off(self, now: float) -> str | None:
        """Ends a task in which nothing is wrong: the order for its agents."""
        return None if self.state is TaskState.STOPPING else self._stop(now)

    def over(self, now: float) -> bool:
        """Whether no more messages are expected."""
        if self._stopped is None:
            return self._ended() and all(seen.done for seen in self._seen)
        passed = now - self._stopped
        known = [seen for seen in self._seen
                 if (seen.joined, seen.heard, seen.reported) != (None, None, None)]
        all_ended = all(seen.ended is not None or seen.lost is not None for seen in known)
        return self._ended() or passed > LEFT_S or (passed > NEWS_S and all_ended)

    def result(self, now: float) -> TaskResult:
        """The task's result.

        `named_after` counts from the beginning of the trouble; for what only reports show, from the go.
        """
        reports = tuple(self._report(rank, seen) for rank, seen in enumerate(self._seen))
        if self._trouble is not None:
            accusations = (*self._trouble.accusations, *wrong_data(self.task, reports))
            named_after: float | None = self._named_at - self._trouble.since
        else:
            accusations = (*wrong_data(self.task, reports), *late(self.task, reports))
            named_after = now - (self._went or self._sent)
        return TaskResult(self.task, reports, accusations, self._sent, now,
                          named_after if accusations else None)

    def _stop(self, now: float) -> str:
        self._stopped = now
        return "stop"

    def _joined(self) -> bool:
        return all(seen.joined is not None for seen in self._seen)

    def _failed(self) -> bool:
        return any(seen.failed is not None for seen in self._seen)

    def _ended(self) -> bool:
        return all(seen.ended is not None or seen.lost is not None for seen in self._seen)

    def _is_rank(self, node: str, task: str, rank: int) -> bool:
        return task == self.task.id and rank < len(self._seen) and self._seen[rank].seat.node == node

    def _update(self, rank: int, **what: Any) -> None:
        self._seen[rank] = replace(self._seen[rank], **what)

    def _report(self, rank: int, seen: RankState) -> RankReport:
        own = self._reports.get(rank, RankReport(seen.seat, RankEnd.CALLED_OFF))
        last = seen.progress
        if own.last != RankProgress():
            last = replace(last, iteration=own.last.iteration, phase=own.last.phase)
        if seen.done:
            return replace(own, last=last, code=seen.code if seen.signal is None else seen.signal)
        failed = seen.failed
        if failed is None or (self._stopped is not None and failed > self._stopped):
            never = seen.joined is None and seen.heard is None and failed is None
            return replace(own, end=RankEnd.NEVER if never else RankEnd.CALLED_OFF, last=last)
        if seen.lost is not None and seen.ended is None and seen.reported is None:
            return replace(own, end=RankEnd.LOST, error=seen.lost_why, last=last)
        if seen.signal is not None:
            return replace(own, end=RankEnd.SIGNAL, code=seen.signal, error=own.error or seen.last_line,
                           last=last)
        end = RankEnd.RAISED if seen.raised is not None else RankEnd.EXIT
        return replace(own, end=end, code=seen.code, error=own.error or seen.last_line, last=last)


# ---- the whole burn-in: what every state carries on

class RunEnding(Enum):
    """How a burn-in ended."""

    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    GAVE_WAY = "gave way"


class BurninRun:
    """A burn-in: `begin`, then run each step of `next`, `add` results, `step_over`; at last `end`.

    `out` are the nodes that left, each with why; `found` the accusations by comparison of tasks; `missing`
    why stages were not run; `doubts` why nodes cannot pass; `withheld` nodes whose results do not count, and
    why.
    """

    def __init__(self, places: Sequence[Participant], work: BurnInWork, wanted: Collection[BurnInStage],
                 floors: Floors, hardware: Mapping[str, SkuHardware]) -> None:
        self.wanted, self.floors, self.hardware = frozenset(wanted), floors, hardware
        self.state: RunState = NotBegun()
        self.results: list[TaskResult] = []
        self.found: list[Accusation] = []
        self.missing: dict[BurnInStage, str] = {}
        self.remarks: list[str] = []
        self.port_notes: list[str] = []
        self.out: dict[str, str] = {}
        self.doubts: dict[str, str] = {}
        self.withheld: dict[str, str] = {}
        self.counters: tuple[CounterGrowth, ...] = ()
        self.stage_counters: Sequence[StageCounters] = ()
        # of the link burn: its plan, from when its rounds begin, and what the fabric's ports counted
        self.fabric_planes: tuple[BurnPlane, ...] = ()
        self.fabric_counters = FabricCounters()
        self.there: tuple[Participant, ...] = ()      # participants when the current step began
        self._step: StageStep | None = None
        # numbers of results: before the current step, and of finished work
        self._step_begin = self._finished = 0
        self._plan(places, work)

    def _plan(self, places: Sequence[Participant], work: BurnInWork) -> None:
        self.places, self.work = tuple(places), work
        self.by_name = {place.node: place for place in places}
        self.steps = stages.planned(places, work, self.wanted)

    def begin(self, places: Sequence[Participant], work: BurnInWork) -> None:
        """Takes the ports of the nodes' snapshots; a node with an unmeasurable rail does not pass."""
        self._plan(places, work)
        notes: dict[str, list[str]] = {}
        for one in self.places:
            ports = work.ports.get(one.node)
            for note in ports.notes if ports is not None else ():
                notes.setdefault(note, []).append(one.node)
            if ports is not None and BurnInStage.RAIL in self.wanted and len(ports.rails) < len(one.rails):
                lacking = ", ".join(str(rail.number) for rail in one.rails if rail.number not in ports.rails)
                self.doubts.setdefault(one.node,
                                       f"rail {lacking} was not measured: it has no RDMA device")
        for note, nodes in notes.items():
            more = f" and {len(nodes) - 1} more nodes" if len(nodes) > 1 else ""
            self.port_notes.append(f"{note} ({nodes[0]}{more})")
        self.state = NodesAlone(tuple(step for step in self.steps
                                      if step.stage in (BurnInStage.NODE, BurnInStage.RAIL)))

    def next(self) -> StageStep | None:
        """The step to run now, the same until it is over; None at the end."""
        while not isinstance(found := self.state.next(self), StageStep):
            if found is self.state:
                return None
            self.state = found
        self._step, self._step_begin, self.there = found, len(self.results), tuple(self.left())
        return found

    def add(self, result: TaskResult) -> None:
        """A task of the step is over."""
        self.results.append(result)

    def left_out(self, step: StageStep, why: str) -> None:
        """A task of the step may not be run."""
        self.missing.setdefault(step.stage, why)
        self.remarks.append(f"{step.stage.value} {step.name} was left out: {why}")

    def step_over(self) -> None:
        """All tasks of the step that could be run are over."""
        if self._step is not None:
            self.state = self.state.after(self, self._step, self.results[self._step_begin:])

    def leave(self, node: str, why: str) -> None:
        """The node takes no further part, and does not pass."""
        self._out(node, why)
        self.doubts[node] = f"took no part: {why}"

    def end(self, *, interrupted: bool = False, gave_way: str = "") -> None:
        """Ends the burn-in. Where it gave way to a job, unfinished work counts as not measured."""
        if gave_way:
            self._cut()
        stopped = RunEnding.INTERRUPTED if interrupted else RunEnding.FINISHED
        self.state = RunOver(RunEnding.GAVE_WAY if gave_way else stopped, gave_way)

    def _cut(self) -> None:
        """Of unfinished work keeps only a GPU's own wrong data, which needs no comparison."""
        begun = self.results[self._finished:]
        self.results[self._finished:] = [
            replace(result, accusations=tuple(filter(_of_own_data, result.accusations)),
                    reports=tuple(replace(one, figures={}, checksums={}) for one in result.reports))
            for result in begun if _alone_and_wrong(result) or any(map(_of_own_data, result.accusations))]

    @property
    def ending(self) -> RunEnding | None:
        """How it ended; None while it goes on."""
        return self.state.ending if isinstance(self.state, RunOver) else None

    @property
    def burnt(self) -> BurnInResults:
        """All results so far, as the judge takes them; without counters."""
        return BurnInResults(self.places, tuple(self.results), stages.asked(self.steps), tuple(self.found),
                     missing=dict(self.missing), hardware=self.hardware)

    def judged(self) -> tuple[BurnInResults, Judgement]:
        """All results so far and their judgement. No node passes an unfinished burn-in."""
        missing, doubts = dict(self.missing), {**self.doubts, **self.withheld}
        if self.ending is not RunEnding.FINISHED:
            gave_way = self.state.gave_way if isinstance(self.state, RunOver) else ""
            why = f"it gave way: {gave_way}" if gave_way else "the burn-in was not finished"
            missing = {**dict.fromkeys((step.stage for step in self.steps), why), **missing}
            doubts = {**dict.fromkeys((place.node for place in self.places), why), **doubts}
        burnt = replace(self.burnt, counters=self.counters, missing=MappingProxyType(missing),
                        stage_counters=tuple(self.stage_counters))
        if (links := self.links()) is not None:
            burnt = replace(burnt, found=(*burnt.found, *links.accusations), fabric=links.coverage)
            doubts = {**links.doubts, **doubts}
        judgement = doubted(judge(burnt, self.floors), doubts, self.withheld,
                            {result.task.id: result.task.nodes for result in self.results})
        return burnt, replace(judgement, remarks=(*judgement.remarks, *self.remarks, *self.port_notes))

    # ---- what states ask and change

    def links(self) -> FabricVerdict | None:
        """What the link burn says so far; None where none has begun."""
        if self.work.fabric is None or not self.fabric_planes:
            return None
        return fabricresult.verdict(self.fabric_planes, self.results, self.work.fabric.means,
                                    self.fabric_counters)

    def left(self) -> list[Participant]:
        """The nodes that still take part."""
        return [place for place in self.places if place.node not in self.out]

    def accuse(self, accusations: Iterable[Accusation]) -> None:
        """The accused nodes leave, with all nodes behind an accused leaf."""
        for one in accusations:
            where = f"behind {one.name}" if one.object is Object.LEAF else one.name
            for node in self._behind(one):
                self._out(node, f"{where}: {one.fault}")

    def _behind(self, one: Accusation) -> Collection[str]:
        """The nodes that an accusation concerns."""
        if one.object is Object.LEAF:
            return behind(one.name, self.by_name)
        return () if (node := node_of(one)) is None else (node,)

    def _out(self, node: str, why: str) -> None:
        if node in self.by_name:
            self.out.setdefault(node, why)

    def accuse_by_watching(self, results: Iterable[TaskResult]) -> None:
        """The nodes that single tasks accuse leave.

        Faults of mounts are left to the judge, who sees what all nodes share.
        """
        self.accuse(one for result in results if result.task.kind is not TaskKind.STORAGE
                    for one in result.accusations)

    def drop_noise(self, tests: Collection[str]) -> None:
        """Takes back what noise can cause: by these tests of pairs, and by tests of single rails that accuse
        nodes which no pair named.

        It is one task's word. A pair that passed when it was measured again speaks against it, unless other
        tests said the same of the same part: noise does not choose. Tests of single rails narrow accusations,
        but make none.
        """
        named = {node for one in self.found for node in self._behind(one)}
        often = self._named_again()

        def stands(task: Task, one: Accusation) -> bool:
            if one.fault not in SOFT:
                return True
            by_rail = task.stage is BurnInStage.RAIL_CONFIRM
            return (task.id not in tests or one.name in often) and (not by_rail or node_of(one) in named)

        self.results = [replace(result, accusations=tuple(
            one for one in result.accusations if stands(result.task, one))) for result in self.results]

    def _named_again(self) -> frozenset[str]:
        """What several tests of pairs accuse, and a tenth of its node's or more."""
        of_pairs = [result for result in self.results if result.task.stage in _OF_PAIRS]
        tests = Counter(node for result in of_pairs for node in result.task.nodes)
        times = Counter((one.name, node) for result in of_pairs for one in result.accusations
                        if (node := node_of(one)) is not None)
        return frozenset(name for (name, node), count in times.items()
                         if count > 1 and count >= _OFTEN * tests[node])

    def finished_so_far(self) -> None:
        """All results so far stay valid if the burn-in gives way from now on."""
        self._finished = len(self.results)

    def not_explained(self, accusations: Iterable[Accusation]) -> list[Accusation]:
        """The accusations, without unexplained ones whose every test the watch has explained."""
        named = {result.task.id for result in self.results for each in result.accusations
                 if node_of(each) is not None}
        return [one for one in accusations if one.object is not Object.UNEXPLAINED or not one.tests_for
                or not all(test.partition(":")[0] in named for test in one.tests_for)]

    def succeeded(self, result: TaskResult) -> bool:
        """Whether a task of many nodes completed with right data and no speed below its floor."""
        if not result.whole or result.accusations or any(report.wrong_total for report in result.reports):
            return False
        for one in measures([result], self.by_name, self.hardware):
            floor = self.floors.of(one.setting)
            if floor is not None and one.value < floor.least:
                return False
        return True


# ---- the whole burn-in: its states

class RunState:
    """`next` is the step to run now, or the state to go on with: itself where there is no step.

    `after` is the state when that step is over with these results.
    """

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
    """Rounds of accused and proven nodes by single rails.

    Round `number` has the pairs `by_rail`; `steps` are left of it, `results` are there.
    """

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
    """A failure that only scale shows: halves of the leaves, filled up with good nodes.

    `number` parts were run.
    """

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


def _alone_and_wrong(result: TaskResult) -> bool:
    kind = result.task.kind
    return not kind.together and not kind.of_node and any(report.wrong_total for report in result.reports)


def _of_own_data(one: Accusation) -> bool:
    return one.object is Object.GPU and one.fault == faults.WRONG_DATA
