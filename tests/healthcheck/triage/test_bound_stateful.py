"""The bound on nodes among all that fails, in fleets of 8 to 512: whatever the order, no window isolates
more, and whoever stays sick is isolated.

The store is imagined: what a plan says is done at once, or a part of it, where a run is killed. The bound is
counted here from the isolations alone, by the text of healthcheck/help/triage.md, and asks nothing of the
breaker.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from healthcheck.model.faultkind import Isolation
from healthcheck.model.problem import Problem
from healthcheck.replay.incidents import Incidents
from healthcheck.replay.record import StoreHistory, Sweeps
from healthcheck.triage.past import FleetHistory, Isolated, NodeHistory, OpenCordon, OpenVerdict
from healthcheck.triage.plan import Act, PlannedAction, TriagePlan, make
from healthcheck.triage.policy import BreakerPolicy
from tests.healthcheck.triage.made import NOW, problem
from tests.healthcheck.triage.test_breaker import packaged_policy

HOUR = 3600.0
RULES = ("host-memory", "port-state", "gpu-answers", "kernel-xid", "gpu-ecc-uncorrected", "disk-nvme-state",
         "gpu-power-brake")
SIZES = st.sampled_from([8, 11, 16, 24, 32, 48, 64, 96, 128, 256, 512])
SHARE = st.sampled_from([0.1, 0.5, 1.0])


def by_act(step: PlannedAction) -> tuple[str, str]:
    return step.act.value, step.node


class Bound(RuleBasedStateMachine):
    """Racks of 8, leaves of 32, power domains of 64, two drivers, four delivery batches."""

    @initialize(size=SIZES, number=st.integers(1, 10), percent=st.sampled_from([1.0, 5.0, 30.0]),
                reserve=st.integers(0, 3), least=st.integers(1, 3), as_one=st.sampled_from([4, 8, 32]),
                domains=st.booleans(), close_hours=st.sampled_from([None, 2.0]))
    def begin(
        self, size: int, number: int, percent: float, reserve: int, least: int, as_one: int, domains: bool,
        close_hours: float | None,
    ) -> None:
        held = packaged_policy()
        self.size, self.now = size, NOW
        self.policy = replace(held,
                              breaker=BreakerPolicy(number, percent, 1.0,
                                                    held.breaker.domains if domains else {}, reserve,
                                                    close_hours, least),
                              incidents=replace(held.incidents, as_one=as_one))
        self.limit = min(number, max(least, int(percent * size / 100)))
        self.usual = max(1, self.limit - reserve)
        self.beside = min(as_one, size // 4)
        self.wrong: dict[int, dict[str, float]] = {number: {} for number in range(size)}
        self.over: dict[int, list[Problem]] = {number: [] for number in range(size)}
        self.cordons: dict[str, OpenCordon] = {}
        self.verdicts: dict[str, OpenVerdict] = {}
        # since a person closed the breaker last
        self.made: list[tuple[float, str, tuple[str, str], bool]] = []
        self.isolated: list[Isolated] = []
        self.known = Incidents(StoreHistory(Sweeps(())), self.now)
        self.open: float | None = None
        self.number = 0

    def name(self, number: int) -> str:
        return f"n{number:03}"

    def past(self, number: int) -> NodeHistory:
        name = self.name(number)
        wrong = tuple(replace(problem(each, "", node=name, sweeps=9), began=began, seen=self.now)
                      for each, began in self.wrong[number].items())
        ours = (self.cordons[name],) if name in self.cordons else ()
        return NodeHistory(
            name, problems=wrong, over=tuple(self.over[number]), cordons=ours,
            verdict=self.verdicts.get(name), boots=(NOW - 900 * HOUR,),
            domains={"rack": (f"r{number // 8}",), "leaf": (f"leaf-{number // 32}",),
                     "power": (f"p{number // 64}",), "batch": (f"b{number % 4}",)},
            versions={"driver": "570" if number % 3 else "580"}, state="unhealthy" if wrong else "healthy",
            seen=self.now)

    # ---- what fails

    def fails(self, numbers: list[int], what: str, spread: float = 60.0) -> None:
        for at, number in enumerate(numbers):
            self.wrong[number].setdefault(what, self.now - spread * (1 + at % 7))

    @rule(kind=st.sampled_from([8, 32, 64]), at=st.integers(0, 63), share=SHARE, what=st.sampled_from(RULES))
    def a_place_fails(self, kind: int, at: int, share: float, what: str) -> None:
        first = at * kind % max(1, self.size)
        inside = list(range(first - first % kind, min(self.size, first - first % kind + kind)))
        self.fails(inside[:max(1, int(len(inside) * share))], what)

    @rule(what=st.sampled_from(RULES), step=st.sampled_from([2, 3, 4]),
          spread=st.sampled_from([10.0, 9000.0]))
    def a_version_a_batch_or_a_moment_fails(self, what: str, step: int, spread: float) -> None:
        self.fails(list(range(0, self.size, step)), what, spread)

    @rule(numbers=st.lists(st.integers(0, 511), min_size=1, max_size=6), what=st.sampled_from(RULES))
    def nodes_fail(self, numbers: list[int], what: str) -> None:
        self.fails([number % self.size for number in numbers], what)

    @rule(first=st.integers(0, 511), count=st.sampled_from([1, 8, 64, 512]))
    def some_are_mended(self, first: int, count: int) -> None:
        for number in range(first % self.size, min(self.size, first % self.size + count)):
            for what, began in self.wrong[number].items():
                gone = problem(what, "", node=self.name(number), sweeps=9)
                self.over[number] = [*self.over[number],
                                     replace(gone, began=began, seen=self.now, ended=self.now)][-4:]
            self.wrong[number] = {}

    @rule(minutes=st.sampled_from([1, 10, 40, 59, 61, 130]))
    def time_goes_on(self, minutes: int) -> None:
        self.now += minutes * 60

    @rule(count=st.integers(1, 64))
    def a_person_gives_nodes_back(self, count: int) -> None:
        for name in list(self.cordons)[:count]:
            del self.cordons[name]
            self.verdicts.pop(name, None)

    @rule()
    def a_person_closes_the_breaker(self) -> None:
        if self.open is not None:
            self.open, self.isolated, self.made = None, [], []

    # ---- what triage does

    @rule(most=st.sampled_from([999, 999, 3]), told=st.sampled_from([None, None, 2]))
    def triage(self, most: int, told: int | None) -> None:
        """A run, which is killed after so many steps; its bound for itself is `told`."""
        self.now += 1
        known, number = self.known.known(self.now, 60 * 24 * HOUR)
        self.isolated = [one for one in self.isolated if one.time > self.now - HOUR]
        fleet = FleetHistory(self.now, tuple(self.past(each) for each in range(self.size)),
                             tuple(self.isolated), self.open, "", NOW - 900 * HOUR, known, number)
        was_open = self.open is not None
        plan = make(fleet, self.policy, told)
        turned = make(replace(fleet, nodes=fleet.nodes[::-1]), self.policy, told)
        assert sorted(turned.steps, key=by_act) == sorted(plan.steps,
                                                          key=by_act), "the order of nodes decides"
        self.known.take(plan)
        self.remember(plan)
        steps = plan.steps[:most]
        if plan.closes:
            was_open, self.open = False, None
        for step in steps:
            if step.act is Act.RELEASE:
                del self.cordons[step.node]
                continue
            assert step.node not in self.cordons, f"{step.node} is isolated twice"
            assert step.place[0] in ("", "rack", "leaf", "power"), f"{step.place} isolates"
            worst = any(fault.kind.reserve and fault.isolation is not Isolation.NONE
                        for fault in step.verdict.faults)
            assert worst or not was_open, "the breaker is open"
            self.number += 1
            self.cordons[step.node] = OpenCordon(self.number, "imagined", step.why, self.now,
                                                 self.verdicts[step.node].id)
            self.isolated.append(Isolated(step.node, self.now, step.verdict.incident, step.place))
            self.made.append((self.now, step.node, step.place, worst))
            self.is_within_the_bound()
        if plan.opens and len(steps) == len(plan.steps):
            self.open = self.now
        assert told is None or sum(step.act is Act.ISOLATE for step in plan.steps) <= told

    def is_within_the_bound(self) -> None:
        recent = [one for one in self.made if one[0] > self.now - HOUR]
        places: dict[str, set[tuple[str, str]]] = {}
        for _, node, place, _ in recent:
            places.setdefault(node, set()).add(place)
        at = Counter(next(iter(own)) for own in places.values() if len(own) == 1 and own != {("", "")})
        counted = len(places) - min(self.beside, max(at.values(), default=0))
        assert counted <= self.limit, (counted, self.limit, recent)
        beside = at.most_common(1)[0][0] if at else None
        if not any(worst for *_, worst in recent):
            assert counted <= self.usual, (counted, self.usual, beside, recent)

    def remember(self, plan: TriagePlan) -> None:
        for verdict in plan.verdicts:
            held = self.verdicts.get(verdict.node)
            if (held is None or (held.fault, held.isolation, held.incident)
                != (verdict.fault, verdict.isolation, verdict.incident)):
                self.number += 1
                self.verdicts[verdict.node] = OpenVerdict(self.number, verdict.fault, verdict.isolation,
                                                          self.now, verdict.incident)
        for name in self.verdicts.keys() - {verdict.node for verdict in plan.verdicts}:
            del self.verdicts[name]

    @rule()
    def people_close_the_breaker_until_all_that_is_sick_is_isolated(self) -> None:
        for _ in range(8):
            sick = {self.name(number) for number, wrong in self.wrong.items() if wrong}
            if sick <= self.cordons.keys():
                break
            self.now += 1.02 * HOUR
            self.a_person_closes_the_breaker()
            left = len(sick - self.cordons.keys())
            self.triage(999, None)
            assert len(sick - self.cordons.keys()) < left, "a node stays sick, and is not isolated"


def walk(examples: int, steps: int) -> None:
    run_state_machine_as_test(Bound,
                              settings=settings(max_examples=examples, stateful_step_count=steps,
                                                deadline=None, suppress_health_check=list(HealthCheck)))


@pytest.mark.timeout(300)
def test_the_bound_among_all_that_fails() -> None:
    walk(15, 14)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_bound_among_all_that_fails_for_longer() -> None:
    walk(600, 40)
