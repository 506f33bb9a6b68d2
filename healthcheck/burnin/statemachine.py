"""What happens next in a burn-in: its states, what leads from one to the next, and what they carry.

No clock, no I/O.

`BurninRun` is the whole burn-in, step after step. `provisioning.burnin.run` runs its steps:

    NotBegun     the lease is there, nodes are looked at    begin -> NodesAlone
    NodesAlone   each node alone, then each rail alone      no step left -> PairRounds
    PairRounds   pairs, as a PairSearch asks for them       no round left -> RailRounds (screening: AllNodes)
    RailRounds   the accused once more, each rail alone     no round left -> AllNodes
    AllNodes     all nodes at once: all, train, soak        all passed -> AllSizes; else the next of the three
                                                            failed, and a node left for it -> again without it
                                                            failed, and no node left -> PartsOfAll
                                                            train failed -> the next of the three
    AllSizes     all nodes, over sizes                      -> the next of the three
    PartsOfAll   parts of them, as a Bisection asks         no part left -> the next of the three
    Measured     no step is left
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

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import Any

from healthcheck.burnin import faults, messages, rounds, stages
from healthcheck.burnin.bisect import Bisection, units
from healthcheck.burnin.counters import CounterGrowth
from healthcheck.burnin.floors import Floors
from healthcheck.burnin.isolate import PairSearch
from healthcheck.burnin.judge import Burnt, judge
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
from healthcheck.burnin.rails import Rails
from healthcheck.burnin.rounds import Round
from healthcheck.burnin.setting import SkuHardware, measures, rail_of
from healthcheck.burnin.stagecounters import StageCounters
from healthcheck.burnin.stages import BurnInWork, StageStep
from healthcheck.burnin.watch import Patience, RankState, StopReason, overdue, trouble
from healthcheck.burnin.weigh import PairOutcome
from healthcheck.burnin.wrongdata import wrong_data

_AGAIN = 3              # how often all nodes are tried anew without those whom the last try named
_TOGETHER = (BurnInStage.ALL, BurnInStage.TRAIN, BurnInStage.SOAK)
NEWS_S = 1.5            # by when a rank that was started has been heard of
LEFT_S = 6.0            # after which a process that cannot be killed is left to its node
PARTED_S = 20.0         # between the last report and the last process' end
# after which a rank ends itself, beyond what the head waits for past a task's own seconds
OVERTIME_S = 20.0


# ---- one task

class TaskState(Enum):
    """Where a task is between its order and its result."""

    JOINING = "joining"
    RUNNING = "running"
    STOPPING = "stopping"


class TaskRun:
    """A task from `sent` on. Only a rank's own node may speak of it: other messages are ignored.

    No rank enters a collective before all have joined, so that who never came is known by name.
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
        """Which of the three it is in."""
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
        """Takes a message of a node's agent, whatever it is."""
        if (place := messages.joined(message)) is not None and self._is(node, *place):
            self._know(place[1], joined=at)
        for position in messages.positions(message, at):
            if self._is(node, position.task, position.rank):
                self._know(position.rank, heard=at, progress=position.progress)
        if (ended := messages.ended(message)) is not None and self._is(node, ended.task, ended.rank):
            self._know(ended.rank, ended=at, code=ended.code, signal=ended.signal, last_line=ended.last_line)
        reported = messages.report(message)
        if (reported is not None and self._is(node, reported[0], reported[1])
                and reported[1] not in self._reports):
            _, rank, report = reported
            self._reports[rank] = replace(report, seat=self.task.seats[rank])
            done = report.end is RankEnd.DONE
            self._know(rank, reported=at, done=done,
                       raised=None if done else report.error or f"it was {report.end.value}")

    def agent_gone(self, node: str, why: str, at: float) -> None:
        """A node's agent went away, or was not there."""
        for rank, seen in enumerate(self._seen):
            if seen.seat.node == node and seen.lost is None and seen.ended is None:
                self._know(rank, lost=at, lost_why=why)

    def order(self, now: float) -> str | None:
        """The order to all its agents now: "go", "stop" or none."""
        if self.state is TaskState.STOPPING:
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
        if self.state is TaskState.JOINING and all(seen.joined is not None for seen in self._seen):
            self._went = now
            return "go"
        return None

    def call_off(self, now: float) -> str | None:
        """Ends it, though nothing is wrong: the order to its agents."""
        return None if self.state is TaskState.STOPPING else self._stop(now)

    def over(self, now: float) -> bool:
        """Whether nothing more is to come of it."""
        if self._stopped is None:
            return self._ended() and all(seen.done for seen in self._seen)
        passed = now - self._stopped
        known = [seen for seen in self._seen
                 if (seen.joined, seen.heard, seen.reported) != (None, None, None)]
        settled = all(seen.ended is not None or seen.lost is not None for seen in known)
        return self._ended() or passed > LEFT_S or (passed > NEWS_S and settled)

    def result(self, now: float) -> TaskResult:
        """What came of it.

        `named_after` counts from the trouble's beginning; for what only reports show, from the go.
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

    def _ended(self) -> bool:
        return all(seen.ended is not None or seen.lost is not None for seen in self._seen)

    def _is(self, node: str, task: str, rank: int) -> bool:
        return task == self.task.id and rank < len(self._seen) and self._seen[rank].seat.node == node

    def _know(self, rank: int, **what: Any) -> None:
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
    """A burn-in: `begin`, then run the step that `next` says, `add` each result, call `step_over`, until
    there is none; then `end`.

    `out` are the nodes that left, each with why, `found` the accusations that comparing tasks led to,
    `missing` why stages were not run; `doubts` say by node why it cannot pass, `withheld` why nothing that it
    showed counts.
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
        self.there: tuple[Participant, ...] = ()      # who was left when the step under way began
        self._step: StageStep | None = None
        # how many results came before it, and are of what was finished
        self._step_begin = self._finished = 0
        self._plan(places, work)

    def _plan(self, places: Sequence[Participant], work: BurnInWork) -> None:
        self.places, self.work = tuple(places), work
        self.by_name = {place.node: place for place in places}
        self.steps = stages.planned(places, work, self.wanted)

    def begin(self, places: Sequence[Participant], work: BurnInWork) -> None:
        """Nodes were looked at, and are so, with these ports.

        A node with a rail that cannot be measured does not pass.
        """
        self._plan(places, work)
        notes: dict[str, list[str]] = {}
        for one in self.places:
            ports = work.ports.get(one.node)
            for note in ports.notes if ports is not None else ():
                notes.setdefault(note, []).append(one.node)
            if ports is not None and BurnInStage.RAIL in self.wanted and len(ports.rails) < len(one.rails):
                lacking = ", ".join(str(rail.number) for rail in one.rails if rail.number not in ports.rails)
                self.doubts.setdefault(one.node,
                                       f"rail {lacking} was not measured: no RDMA device was seen for it")
        for note, nodes in notes.items():
            more = f" and {len(nodes) - 1} more nodes" if len(nodes) > 1 else ""
            self.port_notes.append(f"{note} ({nodes[0]}{more})")
        self.state = NodesAlone(tuple(step for step in self.steps
                                      if step.stage in (BurnInStage.NODE, BurnInStage.RAIL)))

    def next(self) -> StageStep | None:
        """The step to run now, the same until it is over; None when none is left."""
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
        """A node takes no part any more, and nothing of it passes."""
        self._out(node, why)
        self.doubts[node] = f"took no part: {why}"

    def end(self, *, interrupted: bool = False, gave_way: str = "") -> None:
        """It ends here. Of one that gave way to a job what was not finished is cut: it is not measured."""
        if gave_way:
            self._cut()
        stopped = RunEnding.INTERRUPTED if interrupted else RunEnding.FINISHED
        self.state = RunOver(RunEnding.GAVE_WAY if gave_way else stopped, gave_way)

    def _cut(self) -> None:
        """Of what was not finished only that stays which needs no comparison and no other test: a GPU whose
        own data was wrong.
        """
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
    def burnt(self) -> Burnt:
        """All results so far, as the judge takes them; without counters."""
        return Burnt(self.places, tuple(self.results), stages.asked(self.steps), tuple(self.found),
                     missing=dict(self.missing), hardware=self.hardware)

    def judged(self) -> tuple[Burnt, Judgement]:
        """All so far and what it comes to. By what is not finished no node passes."""
        missing, doubts = dict(self.missing), {**self.doubts, **self.withheld}
        if self.ending is not RunEnding.FINISHED:
            gave_way = self.state.gave_way if isinstance(self.state, RunOver) else ""
            why = f"it gave way: {gave_way}" if gave_way else "the burn-in was not finished"
            missing = {**dict.fromkeys((step.stage for step in self.steps), why), **missing}
            doubts = {**dict.fromkeys((place.node for place in self.places), why), **doubts}
        burnt = replace(self.burnt, counters=self.counters, missing=MappingProxyType(missing),
                        stage_counters=tuple(self.stage_counters))
        judgement = doubted(judge(burnt, self.floors), doubts, self.withheld,
                            {result.task.id: result.task.nodes for result in self.results})
        return burnt, replace(judgement, remarks=(*judgement.remarks, *self.remarks, *self.port_notes))

    # ---- what states ask and change

    def left(self) -> list[Participant]:
        """The nodes that take part still."""
        return [place for place in self.places if place.node not in self.out]

    def accuse(self, accusations: Iterable[Accusation]) -> None:
        """The accused leave; behind a leaf that is accused all of its nodes."""
        for one in accusations:
            if (node := node_of(one)) is not None:
                self._out(node, f"{one.name}: {one.fault}")
            elif one.object is Object.LEAF:
                for each in behind(one.name, self.by_name):
                    self._out(each, f"behind {one.name}: {one.fault}")

    def _out(self, node: str, why: str) -> None:
        if node in self.by_name:
            self.out.setdefault(node, why)

    def accuse_by_watching(self, results: Iterable[TaskResult]) -> None:
        """The nodes leave that single tasks named.

        What all have with a mount is no node's fault: the judge sees that later.
        """
        self.accuse(one for result in results if result.task.kind is not TaskKind.STORAGE
                    for one in result.accusations)

    def finished_so_far(self) -> None:
        """What was measured so far stands, though the burn-in gives way from now on."""
        self._finished = len(self.results)

    def not_explained(self, accusations: Iterable[Accusation]) -> list[Accusation]:
        """These, without what is unexplained and of which watching has put down every test to somebody."""
        named = {result.task.id for result in self.results for each in result.accusations
                 if node_of(each) is not None}
        return [one for one in accusations if one.object is not Object.UNEXPLAINED or not one.tests_for
                or not all(test.partition(":")[0] in named for test in one.tests_for)]

    def well(self, result: TaskResult) -> bool:
        """Whether a task of many nodes came to its end with right data and no speed below its floor."""
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
    """The lease is there, and nodes are looked at."""


@dataclass(frozen=True)
class NodesAlone(RunState):
    """Each node alone, then each rail of it: these steps are left. A node that left takes no part."""

    steps: tuple[StageStep, ...]

    def next(self, run: BurninRun) -> StageStep | RunState:
        if not self.steps:
            return (PairRounds.of(run)
                    if {BurnInStage.LEAF_PAIRS, BurnInStage.CROSS_PAIRS} & run.wanted else _together(run))
        step = self.steps[0]
        if tasks := tuple(task for task in step.tasks if not run.out.keys() & set(task.nodes)):
            return replace(step, tasks=tasks)
        run.missing.setdefault(step.stage, "all nodes had left before it")
        return NodesAlone(self.steps[1:])

    def after(self, run: BurninRun, step: StageStep, results: Sequence[TaskResult]) -> RunState:
        # Whom a task named leaves, and who is wrong or slow beside its equals.
        run.accuse_by_watching(results)
        run.accuse(judge(run.burnt, run.floors).accusations)
        run.finished_so_far()
        return NodesAlone(self.steps[1:])


@dataclass(frozen=True)
class PairRounds(RunState):
    """Rounds of pairs. A suspect is tried again, so no node leaves before the last round."""

    isolation: PairSearch
    judge: PairJudge

    @classmethod
    def of(cls, run: BurninRun) -> PairRounds:
        return cls(stages.isolated(run.left(), run.work, run.wanted),
                   PairJudge(run.by_name, run.floors, run.hardware))

    def next(self, run: BurninRun) -> StageStep | RunState:
        if (the := self.isolation.next()) is not None:
            return stages.pairs(the, run.by_name, run.work)
        # So it stands, should the burn-in end while rails are tried.
        run.found = run.not_explained(self.isolation.accusations())
        run.finished_so_far()
        # A screening is short, and leaves rails to a burn-in.
        return self.over(run, run.found) if run.work.length == "screen" else RailRounds.of(run, self)

    def after(self, run: BurninRun, step: StageStep, results: Sequence[TaskResult]) -> RunState:
        if step.stage is not BurnInStage.LEAF_CONFIRM:
            self.judge.keep(results)
        self.isolation.told(self.judge.tests(results))
        return self

    def over(self, run: BurninRun, accusations: Iterable[Accusation]) -> RunState:
        """These are what all rounds come to, those of single rails included: the accused leave."""
        run.found = run.not_explained(accusations)
        run.remarks += [*self.isolation.notes, *self.isolation.doubts()]
        run.accuse(run.found)
        run.accuse(one for result in run.results for one in result.accusations)
        return _together(run)


@dataclass(frozen=True)
class RailRounds(RunState):
    """The accused of the pairs and some proven nodes, each rail alone: round `number` has the pairs
    `by_rail`; `steps` are left of it, `results` are there.
    """

    pairs: PairRounds
    rails: Rails
    judge: PairJudge
    number: int = 0
    by_rail: Mapping[int, Round] = field(default_factory=dict)
    steps: tuple[StageStep, ...] = ()
    results: tuple[TaskResult, ...] = ()

    @classmethod
    def of(cls, run: BurninRun, pairs: PairRounds) -> RailRounds:
        isolation, usable = pairs.isolation, {node: ports.rails for node, ports in run.work.ports.items()}
        return cls(pairs, Rails(isolation.accusations(), isolation.proven(),
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
            # Before any is judged: a round has few pairs to a rail, and all rails are equals.
            self.judge.keep(result for rail, own in of_rail.items()
                            if self.by_rail[rail].stage is not BurnInStage.LEAF_CONFIRM for result in own)
            self.rails.told({rail: self.judge.tests(own) for rail, own in of_rail.items()})
        return behind


@dataclass(frozen=True)
class AllNodes(RunState):
    """All that are left at once, in several orders: `passed` of them are done, `failed` tries were not well.
    """

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
        failed = next((result for result in results if not run.well(result)), None)
        if failed is None:
            return replace(self, passed=self.passed + 1)
        if len(run.left()) < len(run.there) and self.failed < _AGAIN:
            return replace(self, failed=self.failed + 1)
        # Parts of a training would do all-reduces, which were right before.
        return (_together(run, self.stage)
                if self.stage is BurnInStage.TRAIN else PartsOfAll.of(run, self.stage, failed))


@dataclass(frozen=True)
class AllSizes(RunState):
    """All that are left over sizes; `number` is which try it is."""

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
    """A failure that only scale shows: halves of the leaves, each filled up with nodes that have passed;
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
        # Each part has nodes of its own; one of a single node has no other to talk with.
        steps = [stages.together(BurnInStage.BISECT, number, [part.nodes], run.by_name, run.work)[0]
                 for number, part in enumerate(parts, self.number + 1) if len(part.nodes) > 1]
        return StageStep(BurnInStage.BISECT, f"{len(steps)} parts", tuple(step.tasks[0] for step in steps),
                         max((step.seconds for step in steps), default=0.0))

    def after(self, run: BurninRun, step: StageStep, results: Sequence[TaskResult]) -> RunState:
        parts = self.bisection.next() or ()
        tasks = {task.nodes: task.id for task in step.tasks}
        done = {result.task.id: result for result in results}
        names = [tasks.get(part.nodes, "") for part in parts]
        self.bisection.told([(name, _outcome(run, done.get(name))) for name in names])
        return replace(self, number=self.number + len(parts))


@dataclass(frozen=True)
class Measured(RunState):
    """No step is left."""


@dataclass(frozen=True)
class RunOver(RunState):
    """It has ended so; `gave_way` says to which job, where it gave way."""

    ending: RunEnding
    gave_way: str = ""


def _together(run: BurninRun, after: BurnInStage | None = None) -> RunState:
    """The first stage of all nodes that is planned behind this one. What came before it is finished."""
    run.finished_so_far()
    later = _TOGETHER[_TOGETHER.index(after) + 1:] if after is not None else _TOGETHER
    planned = {step.stage for step in run.steps}
    return next((AllNodes(stage) for stage in later if stage in planned), Measured())


def _outcome(run: BurninRun, result: TaskResult | None) -> PairOutcome:
    if result is None or not (result.whole or result.accusations):
        return PairOutcome.UNKNOWN
    return PairOutcome.PASS if run.well(result) else PairOutcome.FAIL


def _alone_and_wrong(result: TaskResult) -> bool:
    kind = result.task.kind
    return not kind.together and not kind.of_node and any(report.wrong_total for report in result.reports)


def _of_own_data(one: Accusation) -> bool:
    return one.object is Object.GPU and one.fault == faults.WRONG_DATA
