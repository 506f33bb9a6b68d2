"""Incidents among shared failures, people and repairs: no one is held for one that is over."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from healthcheck.store.cordons import open_cordons
from healthcheck.store.file import opened
from healthcheck.store.incidents import close, incidents
from healthcheck.triage.plan import Act
from healthcheck.triage.policy import BreakerPolicy
from provisioning.actions.cordon import cordon
from tests.provisioning.triage.test_incidents import POLICY, World
from tests.testbed.memory import in_memory

NUMBER, IN_RACK, AS_ONE = 4, 2, 5
LIMITS = replace(POLICY,
                 breaker=BreakerPolicy(number=NUMBER, percent=50, hours=1, reserve=0, least=1,
                                       domains={"rack": IN_RACK}, close_hours=3.0),
                 incidents=replace(POLICY.incidents, as_one=AS_ONE))
RACK = st.integers(2, 5)
SEVERAL = st.lists(st.integers(0, 127), min_size=1, max_size=4, unique=True)


class Incidents(RuleBasedStateMachine):
    """128 nodes in 16 racks; four of the racks have all the trouble."""

    @initialize()
    def begin(self) -> None:
        self.folder = in_memory()
        self.world = World(Path(self.folder.name), LIMITS)
        self.theirs: set[str] = set()
        # when, which node, of which rack, for which place
        self.made: list[tuple[float, str, str, tuple[str, str]]] = []

    @rule(number=RACK, most=st.integers(3, 8), what=st.sampled_from(["port-state", "gpu-count"]))
    def a_place_fails(self, number: int, most: int, what: str) -> None:
        self.world.breaks(self.world.rack(number, most), what)

    @rule(number=st.sampled_from([1, 2]))
    def a_leaf_fails(self, number: int) -> None:
        self.world.breaks(self.world.names[number * 16:number * 16 + 16])

    @rule(number=RACK, most=st.integers(3, 8), dead=st.booleans())
    def a_rack_goes_dark_or_comes_back(self, number: int, most: int, dead: bool) -> None:
        rack = set(self.world.rack(number, most))
        self.world.dead = self.world.dead | rack if dead else self.world.dead - rack

    @rule(some=SEVERAL, what=st.sampled_from(["port-state", "gpu-count"]))
    def single_nodes_fail(self, some: list[int], what: str) -> None:
        self.world.breaks([self.world.names[at] for at in some], what)

    @rule(number=RACK, most=st.integers(1, 8), what=st.sampled_from(["port-state", "gpu-count"]))
    def a_place_is_mended(self, number: int, most: int, what: str) -> None:
        self.world.heals(self.world.rack(number)[-most:], what)

    @rule()
    def all_is_mended(self) -> None:
        self.world.dead = set()
        for what in ("port-state", "gpu-count"):
            self.world.heals(self.world.names, what)

    @rule(times=st.integers(1, 4), minutes=st.sampled_from([1.0, 20.0, 70.0]))
    def sweeps(self, times: int, minutes: float) -> None:
        self.world.sweep(times, minutes)

    @rule(numbers=st.lists(RACK, min_size=1, max_size=4, unique=True), most=st.integers(5, 8),
          dead=st.booleans())
    def places_fail_and_triage_acts(self, numbers: list[int], most: int, dead: bool) -> None:
        for number in numbers:
            if dead and len(self.world.dead) + most < 7:
                self.world.dead = self.world.dead | set(self.world.rack(number, most))
            else:
                self.world.breaks(self.world.rack(number, most))
        self.world.sweep(3)
        self.triage()

    @rule(number=RACK, most=st.integers(1, 8), sweeps=st.sampled_from([1, 13]))
    def a_place_is_mended_and_triage_acts(self, number: int, most: int, sweeps: int) -> None:
        self.world.dead = set()
        self.world.heals(self.world.rack(number)[-most:])
        self.world.sweep(1, 1)
        self.world.sweep(1, sweeps * 5)
        self.triage()

    @rule()
    def all_is_mended_and_triage_acts(self) -> None:
        self.all_is_mended()
        self.world.sweep(1, 1)
        self.world.sweep(1, 65)
        self.triage()

    @rule(some=SEVERAL)
    def a_person_drains(self, some: list[int]) -> None:
        for at in some:
            node = self.world.names[at]
            if node not in self.world.back.holds:
                self.world.back.write(node, "mine")
                self.theirs.add(node)

    @rule(some=SEVERAL)
    def a_person_cordons(self, some: list[int]) -> None:
        with self.world.store() as store:
            cordon(store, self.world.back, [self.world.names[at] for at in some], "mine", "a person",
                   lambda: self.world.now)

    @rule()
    def a_person_closes_an_incident(self) -> None:
        with self.world.store() as store:
            for one in incidents(store):
                if one.ended is None:
                    self.world.now += 1
                    assert close(store, one.id, "I know better", "a person", self.world.now)
                    break

    @rule()
    def triage(self) -> None:
        before = self.world.held()
        plan = self.world.triage()      # which looks, too, that a second plan has nothing to do
        done = Counter(step.node for step in plan.steps)
        assert not done or max(done.values()) == 1, "isolated or released twice"
        for step in plan.steps:
            if step.act is Act.ISOLATE:
                assert step.node not in before, f"{step.node} was held"
                rack = self.world.nodes[step.node].rack or ""
                self.made.append((self.world.now, step.node, rack, step.place))
                fresh = [one for one in self.made if one[0] > self.world.now - 3600]
                at = Counter(place for *_, place in fresh if place != ("", ""))
                assert len(fresh) - min(AS_ONE, max(at.values(), default=0)) <= NUMBER, fresh
                own = [one for one in fresh if one[3] == ("", "")]
                assert sum(one[2] == rack for one in own) <= IN_RACK, fresh
        self.no_one_is_held_for_what_is_over()

    def no_one_is_held_for_what_is_over(self) -> None:
        """After triage, who is held for an incident has it open, or was not found fit since."""
        with self.world.store() as store:
            known = {one.id: one for one in incidents(store)}
            rows = store.rows(
                "SELECT cordon.node, verdict.incident, cordon.began, verdict.isolation, spell.state, "
                "spell.seen FROM cordon JOIN verdict ON verdict.id = cordon.verdict JOIN node ON "
                "node.name = cordon.node JOIN spell ON spell.node = node.id AND spell.ended IS NULL WHERE "
                "cordon.ended IS NULL AND verdict.incident IS NOT NULL AND verdict.ended IS NULL")
            own = {
                row[0] for row in store.rows(
                    "SELECT name FROM problem JOIN node ON node.id = problem.node JOIN cordon ON cordon.node "
                    "= name AND cordon.ended IS NULL WHERE coalesce(problem.ended, 9e99) >= cordon.began")}
        for node, number, began, isolation, state, seen in rows:
            one = known[number]
            if isolation != "none":
                assert one.ended is None, f"{node} is held by incident {number}, which is closed"
                assert node in {
                    member.node
                    for member in one.members}, f"{node} is held by incident {number}, and never was in it"
            elif one.ended is not None and state in ("healthy", "degraded") and seen > began:
                assert node in own, f"{node} is fit, incident {number} is over, and it is held"

    @invariant()
    def what_a_person_holds_is_as_they_left_it(self) -> None:
        if hasattr(self, "world"):
            assert all(self.world.back.holds.get(node) == "mine" for node in self.theirs)

    @invariant()
    def there_is_one_open_incident_of_a_place_and_each_open_one_has_nodes(self) -> None:
        if hasattr(self, "world"):
            there = [one for one in self.world.known() if one.ended is None]
            assert len({(one.kind, one.place) for one in there}) == len(there)
            assert all(any(member.ended is None for member in one.members) for one in there), there
            with opened(self.world.folder) as store:
                nodes = [one.node for one in open_cordons(store)]
            assert len(nodes) == len(set(nodes))

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()


def test_an_open_incident_whose_place_has_another_now_is_not_part_of_a_third() -> None:
    state = Incidents()
    state.begin()
    state.a_place_fails(number=2, most=7, what="port-state")
    state.places_fail_and_triage_acts(numbers=[2, 3], most=5, dead=False)
    state.all_is_mended()
    state.places_fail_and_triage_acts(numbers=[2], most=6, dead=True)
    state.single_nodes_fail(some=[26, 29], what="port-state")
    state.places_fail_and_triage_acts(numbers=[4], most=8, dead=False)
    state.there_is_one_open_incident_of_a_place_and_each_open_one_has_nodes()
    state.teardown()


def test_an_incident_that_goes_on_is_not_made_part_of_another_by_the_next_plan() -> None:
    state = Incidents()
    state.begin()
    state.a_place_fails(number=2, most=7, what="port-state")
    state.places_fail_and_triage_acts(numbers=[2, 3, 4, 5], most=8, dead=False)
    state.all_is_mended()
    state.places_fail_and_triage_acts(numbers=[2, 5, 4, 3], most=5, dead=True)
    state.places_fail_and_triage_acts(numbers=[3, 4], most=5, dead=False)
    state.places_fail_and_triage_acts(numbers=[3], most=6, dead=False)
    state.all_is_mended()
    state.places_fail_and_triage_acts(numbers=[4], most=5, dead=False)
    state.a_place_fails(number=3, most=8, what="gpu-count")
    state.all_is_mended()
    state.single_nodes_fail(some=[105, 55, 43, 51], what="gpu-count")
    state.a_place_is_mended(number=3, most=5, what="gpu-count")
    state.places_fail_and_triage_acts(numbers=[3, 5, 4, 2], most=6, dead=True)
    state.teardown()


def walk(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        Incidents,
        settings=settings(max_examples=examples, stateful_step_count=steps, deadline=None,
                          suppress_health_check=list(HealthCheck)))


@pytest.mark.parametrize(("examples", "steps"), [
    pytest.param(2, 25, marks=pytest.mark.timeout(300)),
    pytest.param(300, 50, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])])
def test_incidents_among_all_that_happens(examples: int, steps: int) -> None:
    walk(examples, steps)
