"""A burn-in, step after step: what it has found so far, who is left, and who passes. No clock, no I/O.

`provisioning.burnin.run` runs the steps of `BurninRun`; its states (`healthcheck.burnin.runstates`) say which
step comes next. What becomes of

    a rank that dies or hangs   after the step the accused leave, and the others go on (`BurninRun.accuse`).
    a node that is not there    `BurninRun.leave`: it takes part in no step from then on, and does not pass.
    a stage that fails          nodes alone: the accused leave; pairs: more rounds; all nodes: see AllNodes.
    a job that wants the nodes  `BurninRun.end`, gave_way: what was finished stands, the rest is cut.
    a user who interrupts       `BurninRun.end`, interrupted: what was measured is kept, and no node passes.
    a lease that is lost        `BurninRun.withheld`: nothing is believed of these nodes, no fault either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from healthcheck.burnin import fabricresult, faults, stages
from healthcheck.burnin.counters import CounterGrowth
from healthcheck.burnin.fabricresult import FabricCounters, FabricVerdict
from healthcheck.burnin.floors import Floors
from healthcheck.burnin.judge import BurnInResults, judge
from healthcheck.burnin.judgement import Judgement, doubted
from healthcheck.burnin.merged import behind, node_of
from healthcheck.burnin.model import Accusation, BurnInStage, Object, Participant, Task, TaskKind, TaskResult
from healthcheck.burnin.runstates import NodesAlone, NotBegun, RunEnding, RunOver, RunState
from healthcheck.burnin.setting import SkuHardware, measures
from healthcheck.burnin.stagecounters import StageCounters
from healthcheck.burnin.stages import BurnInWork, StageStep
from healthcheck.burnin.weigh import SOFT
from healthcheck.subnet.burnplanes import BurnPlane

_OFTEN = 0.1            # of a node's tests with others: what accuses the same part so often is no noise
_OF_PAIRS = (BurnInStage.LEAF_PAIRS, BurnInStage.LEAF_CONFIRM, BurnInStage.CROSS_PAIRS)


class BurninRun:
    """A burn-in: `begin`, then run each step of `next`, `add` results, `step_over`; at last `end`. `out` are
    the nodes that left, each with why; `found` the accusations by comparison of tasks; `missing` why stages
    were not run; `doubts` why nodes cannot pass; `withheld` nodes whose results do not count, and why."""

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

    # What states ask and change.

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
        """The accused nodes leave, with all nodes behind an accused leaf, and those that may share in what is
        unexplained if they are few."""
        for one in accusations:
            where = f"behind {one.name}" if one.object is Object.LEAF else one.name
            doubtful = one.nodes if 2 * len(one.nodes) < len(self.left()) else ()
            for node in (*self._behind(one), *doubtful):
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
        """The nodes that single tasks accuse leave; not for faults of mounts, which the judge compares."""
        self.accuse(one for result in results if result.task.kind is not TaskKind.STORAGE
                    for one in result.accusations)

    def drop_noise(self, tests: Collection[str]) -> None:
        """Takes back what noise can cause: by these tests of pairs, and by tests of single rails (which only
        narrow accusations) that accuse nodes which no pair named. A pair that passed when it was measured
        again speaks against it, unless other tests said the same of the same part: noise does not choose."""
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


def _alone_and_wrong(result: TaskResult) -> bool:
    kind = result.task.kind
    return not kind.together and not kind.of_node and any(report.wrong_total for report in result.reports)


def _of_own_data(one: Accusation) -> bool:
    return one.object is Object.GPU and one.fault == faults.WRONG_DATA
