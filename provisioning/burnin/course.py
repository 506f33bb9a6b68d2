"""The course of a burn-in: stage after stage, the accused leave and the others go on. Steps are run by whoever made it: no clock here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from healthcheck.burnin import faults, rounds
from healthcheck.burnin.bisect import Bisection, units
from healthcheck.burnin.floors import Floors
from healthcheck.burnin.isolate import Isolation
from healthcheck.burnin.judge import Burnt, judge
from healthcheck.burnin.merged import behind, node_of
from healthcheck.burnin.model import Accusation, Kind, Object, Place, Stage, TaskResult
from healthcheck.burnin.pairjudge import PairJudge
from healthcheck.burnin.rails import Rails
from healthcheck.burnin.setting import Hardware, measures, rail_of
from healthcheck.burnin.weigh import Outcome
from provisioning.burnin import stages
from provisioning.burnin.stages import Step, Work

Do = Callable[[Step], Iterable[TaskResult]]
_AGAIN = 3      # how often all nodes are tried anew without those whom the last try named


class Course:
    """Give it `do`, which runs a step; `go` runs them all. What came of it is in the attributes, also when `go` is cut short."""

    def __init__(self, places: Sequence[Place], work: Work, wanted: Collection[Stage], floors: Floors, hardware: Mapping[str, Hardware],
                 do: Do) -> None:
        self.places = tuple(places)
        self.steps = stages.planned(places, work, wanted)
        self.results: list[TaskResult] = []
        self.found: list[Accusation] = []
        self.missing: dict[Stage, str] = {}
        self.remarks: list[str] = []
        self.out: dict[str, str] = {}       # nodes that left, and of what they were accused
        self._stands = 0                    # so many of the results are of what was finished
        self._by_name = {place.node: place for place in places}
        self.work, self.wanted, self.do = work, frozenset(wanted), do
        self._floors, self._hardware = floors, hardware

    @property
    def burnt(self) -> Burnt:
        """All so far, as the judge wants it; without counters."""
        return Burnt(self.places, tuple(self.results), stages.asked(self.steps), tuple(self.found), missing=dict(self.missing),
                     hardware=self._hardware)

    def left(self) -> list[Place]:
        """The nodes that nobody has accused."""
        return [place for place in self.places if place.node not in self.out]

    def leave(self, node: str, why: str) -> None:
        """A node takes no part any more."""
        if node in self._by_name:
            self.out.setdefault(node, why)

    def go(self) -> None:
        """All stages."""
        for step in self.steps:
            if step.stage in (Stage.NODE, Stage.RAIL):
                self._step(step)
                self._accuse(judge(self.burnt, self._floors).accusations)
                self._stands = len(self.results)
        if {Stage.LEAF_PAIRS, Stage.CROSS_PAIRS} & self.wanted:
            self._pairs()
            self._stands = len(self.results)
        for stage in (Stage.ALL, Stage.TRAIN, Stage.SOAK):
            if stage in self.wanted and any(step.stage is stage for step in self.steps):
                self._together(stage)
                self._stands = len(self.results)

    def cut(self) -> None:
        """It ends here: what was not finished is not measured. Of it only that stays which needs no comparison and no other test: a GPU
        whose own data was wrong."""
        begun = self.results[self._stands:]
        self.results[self._stands:] = [
            replace(result, accusations=tuple(filter(_of_own_data, result.accusations)),
                    reports=tuple(replace(one, figures={}, checksums={}) for one in result.reports))
            for result in begun if _alone_and_wrong(result) or any(map(_of_own_data, result.accusations))]

    def _step(self, step: Step) -> list[TaskResult]:
        """Runs what of a step is left: tasks of nodes that have left are not."""
        tasks = tuple(task for task in step.tasks if not self.out.keys() & set(task.nodes))
        if not tasks:
            self.missing.setdefault(step.stage, "all nodes had left before it")
            return []
        found = self._run(Step(step.stage, step.name, tasks, step.seconds))
        # What all nodes have with a mount is nobody's fault, which the judge sees when the step is over.
        self._accuse(accusation for result in found if result.task.kind is not Kind.STORAGE for accusation in result.accusations)
        return found

    def _run(self, step: Step) -> list[TaskResult]:
        found = []
        for result in self.do(step):
            found.append(result)
            self.results.append(result)     # each at once: whatever happens next, it is kept
        return found

    def _accuse(self, accusations: Iterable[Accusation]) -> None:
        for one in accusations:
            if (node := node_of(one)) is not None:
                self.leave(node, f"{one.name}: {one.fault}")
            elif one.object is Object.LEAF:
                for each in behind(one.name, self._by_name):
                    self.leave(each, f"behind {one.name}: {one.fault}")

    def _pairs(self) -> None:
        isolation = stages.isolated(self.left(), self.work, self.wanted)
        judge_of = PairJudge(self._by_name, self._floors, self._hardware)
        while (the := isolation.next()) is not None:
            step = stages.pairs(the, self._by_name, self.work)
            # Who is suspected is tried again, so nobody leaves between two rounds but by the isolation's own word.
            results = self._run(step)
            if the.stage is not Stage.LEAF_CONFIRM:
                judge_of.keep(results)
            isolation.told(judge_of.tests(results))
        before = self.found
        # So it stands, should the burn-in end while rails are tried.
        self.found = [*before, *(one for one in isolation.accusations() if not self._explained(one))]
        self._stands = len(self.results)
        accusations = [one for one in self._by_rail(isolation) if not self._explained(one)]
        self.found = [*before, *accusations]
        self.remarks += [*isolation.notes, *isolation.doubts()]
        self._accuse(accusations)
        self._accuse(accusation for result in self.results for accusation in result.accusations)

    def _by_rail(self, isolation: Isolation) -> tuple[Accusation, ...]:
        """What the pairs come to, and of which rails that is; a screening is short, and leaves that to a burn-in."""
        if self.work.length == "screen":
            return isolation.accusations()
        usable = {node: ports.rails for node, ports in self.work.ports.items()}
        rails = Rails(isolation.accusations(), isolation.proven(), {place.node: place for place in self.left()}, usable, self.work.seed)
        judge_of = PairJudge(self._by_name, self._floors, self._hardware)
        number = 0
        while (these := rails.next()) is not None:
            number += 1
            results = [result for step in stages.rails_of_pairs(number, these, self._by_name, self.work) for result in self._run(step)]
            of_rail = {rail: [result for result in results if rail_of(result.task) == rail] for rail in these}
            # Before any is judged: a round has few pairs to a rail, and all rails are equals.
            judge_of.keep(result for rail, own in of_rail.items() if these[rail].stage is not Stage.LEAF_CONFIRM for result in own)
            rails.told({rail: judge_of.tests(own) for rail, own in of_rail.items()})
        return rails.accusations()

    def _explained(self, one: Accusation) -> bool:
        """Whether it is said to be unexplained what watching has already put down to somebody, in every test of it."""
        named = {result.task.id for result in self.results for each in result.accusations if node_of(each) is not None}
        return one.object is Object.UNEXPLAINED and bool(one.tests_for) and all(test.partition(":")[0] in named for test in one.tests_for)

    def _together(self, stage: Stage) -> None:
        """All that are left, in several orders; once more without whom a try names; and in parts, where nobody can be named."""
        count = stages.RING_ORDERS[self.work.length] if stage is Stage.ALL else 1
        done = tries = 0
        number = 1
        while done < count:
            left = self.left()
            if len(left) < 2:
                self.missing.setdefault(stage, "fewer than two nodes were left")
                return
            orders = rounds.rings(left, count)
            if done >= len(orders):
                break
            [step] = stages.together(stage, number, [orders[done]], self._by_name, self.work)
            before = len(self.out)
            results = self._step(step)
            number += 1
            if all(self._well(result) for result in results):
                done += 1
                continue
            tries += 1
            if len(self.out) == before or tries > _AGAIN:
                if stage is not Stage.TRAIN:        # parts of them would do all-reduces, which were right before
                    self._apart(left, results)
                return
        if stage is Stage.ALL:
            self._sizes()

    def _sizes(self) -> None:
        """The sweep of all that are left, once more without whom a try names."""
        for number in range(1, _AGAIN + 2):
            left = self.left()
            if len(left) < 2:
                return
            before = len(self.out)
            step = stages.sweep_together(number, rounds.rings(left, 1)[0], self._by_name, self.work)
            results = self._step(step)
            if all(result.whole for result in results) or len(self.out) == before:
                return

    def _well(self, result: TaskResult) -> bool:
        if not result.whole or result.accusations or any(report.wrong_total for report in result.reports):
            return False
        for one in measures([result], self._by_name, self._hardware):
            floor = self._floors.of(one.setting)
            if floor is not None and one.value < floor.least:
                return False
        return True

    def _apart(self, left: Sequence[Place], results: Sequence[TaskResult]) -> None:
        """A failure that only scale shows: by halves of the leaves, each filled up with nodes that have passed."""
        failed = next(result for result in results if not self._well(result))
        wrong = any(report.wrong_total for report in failed.reports)
        fault = faults.WRONG_DATA if wrong else faults.SLOW if failed.whole else faults.RAISED
        bisection = Bisection(units(left), failed.task.id, fault=fault)
        number = 1
        while (parts := bisection.next()) is not None:
            # Each has nodes of its own; one of a single node has nobody to talk with.
            steps = [stages.together(Stage.BISECT, number + at, [part.nodes], self._by_name, self.work)[0]
                     for at, part in enumerate(parts) if len(part.nodes) > 1]
            tasks = tuple(step.tasks[0] for step in steps)
            of = {task.nodes: task.id for task in tasks}
            number += len(parts)
            seconds = max((step.seconds for step in steps), default=0.0)
            done = {result.task.id: result for result in self._run(Step(Stage.BISECT, f"{len(tasks)} parts", tasks, seconds))}
            bisection.told([self._part(of.get(part.nodes, ""), done) for part in parts])
        accusations = bisection.accusations()
        self.found += accusations
        self._accuse(accusations)

    def _part(self, name: str, done: Mapping[str, TaskResult]) -> tuple[str, Outcome]:
        result = done.get(name)
        if result is None:
            return name, Outcome.UNKNOWN
        if self._well(result):
            return name, Outcome.PASS
        known = result.whole or result.accusations
        return name, Outcome.FAIL if known else Outcome.UNKNOWN


def _alone_and_wrong(result: TaskResult) -> bool:
    kind = result.task.kind
    return not kind.together and not kind.of_node and any(report.wrong_total for report in result.reports)


def _of_own_data(one: Accusation) -> bool:
    return one.object is Object.GPU and one.fault == faults.WRONG_DATA
