"""What stands for facts that are alike (healthcheck.judge.fleetalike) lets a fleet pass that passes by its own facts, and no other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from healthcheck.judge.fleetalike import all_pass
from healthcheck.judge.guard import Guards
from healthcheck.judge.shared import Shared
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.checks import fleet
from healthcheck.checks.fleet import Readings, far_off
from healthcheck.checks.fleet_gpu import fleet_gpu_model
from healthcheck.facts.values import UNSUPPORTED, Partial, Unmeasured
from healthcheck.judge.fleetjudge import judge_fleet
from healthcheck.model.outcome import Finding, Status
from tests.healthcheck.rules import Thing, rule

Fleet = Mapping[str, tuple[Thing, ...]]


def heaviest(things: Fleet) -> Iterator[tuple[str, Finding]]:
    """By majority."""
    weights = {node: sum(thing.weight for thing in found) for node, found in things.items()}
    usual = Counter(weights.values()).most_common(1)[0][0]
    yield from ((node, Finding(weight, usual, "weight")) for node, weight in weights.items() if weight != usual)


def hottest(things: Fleet, previous_things: Fleet) -> Iterator[tuple[str, Finding]]:
    """What is read of one look depends on the other."""
    for node, found in things.items():
        for thing, earlier in zip(found, previous_things[node], strict=False):
            if thing.weight > 1 and thing.heat > earlier.weight:
                yield node, Finding(thing.heat, earlier.weight, thing.name)


def swallows(things: Fleet) -> Iterator[tuple[str, Finding]]:
    """A check that goes on whatever it meets."""
    for node, found in things.items():
        for thing in found:
            try:
                hot = thing.heat > 50
            except Exception:  # noqa: BLE001
                hot = False
            if hot:
                yield node, Finding(thing.heat, 50, thing.name)


def compares(things: Fleet) -> Iterator[tuple[str, Finding]]:
    """Facts themselves."""
    first = next(iter(things.values()))
    for node, found in things.items():
        if found != first:
            yield node, Finding("others", "the same", "things")


CHECKS = [(heaviest, ("things",)), (hottest, ("things", "previous_things")), (swallows, ("things",)), (compares, ("things",))]
RULES = tuple(replace(rule(check, facts, fleet=True), id=check.__name__) for check, facts in CHECKS)
# What makes marks worth their while.
USER = (rule(lambda things: iter(())),
        replace(rule(lambda previous_things: iter(()), ("previous_things",)), id="earlier"))
NAMES = ("things", "previous_things")
WEIGHT = st.sampled_from([1, 1, 1, 1, 2, 2, UNSUPPORTED, Unmeasured("no scales")])
HEAT = st.sampled_from([*range(48), 60, 70, UNSUPPORTED, Unmeasured("the sensor hung")])
ODD = st.sampled_from([(), Unmeasured("no answer"), Partial((Thing("a", 1),), "cut")])
ALIKE = st.integers(0, 40).map(lambda heat: (Thing("a", heat, 1), Thing("b", heat + 1, 1)))
THINGS = ALIKE | ALIKE | ALIKE | st.lists(st.builds(Thing, st.sampled_from("ab"), HEAT, WEIGHT), min_size=1, max_size=2).map(tuple) | ODD


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(THINGS, ALIKE | st.none()), min_size=3, max_size=8), st.integers(2, 4))
def test_a_fleet_is_told_the_same_with_and_without_what_stands_for_its_facts(nodes: list[Any], times: int) -> None:
    shared, cohort, like = Shared(), {}, {}
    for number, (things, before) in enumerate(nodes * times):
        facts, previous = {"things": things}, None if before is None else {"things": before}
        shared.results(USER, facts, previous, None)
        like[f"n{number}"] = shared.like(NAMES, facts, previous)
        cohort[f"n{number}"] = {**facts, **({} if previous is None else {"previous_things": before})}
    guards = Guards(few=True)
    for one in RULES:
        told = judge_fleet(one, cohort)
        assert judge_fleet(one, cohort, None, guards, like) == told


def alike(number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """So many nodes whose things differ in heat alone, and what stands for them."""
    shared, cohort, like = Shared(), {}, {}
    for heat in range(number):
        facts = {"things": (Thing("a", heat, 5),)}
        shared.results(USER, facts, None, None)
        like[f"n{heat}"], cohort[f"n{heat}"] = shared.like(NAMES, facts, None), facts
    return cohort, like


def test_a_rule_that_reads_what_is_alike_looks_at_one_node_for_all() -> None:
    cohort, like = alike(20)
    assert all_pass(RULES[0], cohort, Guards(), like)
    assert len({id(like[node]["things"]) for node in list(cohort)[-12:]}) == 1


@pytest.mark.parametrize("which", [1, 2, 3])
def test_a_rule_that_reads_what_is_each_nodes_own_is_not_found_to_pass_by_what_stands_for_it(which: int) -> None:
    cohort, like = alike(40)
    assert not all_pass(RULES[which], {node: facts | {"previous_things": facts["things"]} for node, facts in cohort.items()}, Guards(), like)


def test_one_node_that_is_not_alike_is_still_found() -> None:
    cohort, like = alike(20)
    odd = cohort["n19"] = {"things": (Thing("a", 1, 6),)}
    like = like | {"n19": {}}
    told = judge_fleet(RULES[0], cohort, None, None, like)
    assert odd and [node for node, said in told.items() if said.status is not Status.PASS] == ["n19"]


def test_nodes_that_share_their_gpus_have_one_model_as_much_as_others() -> None:
    things: Any = [type("Model", (), {"name": "GPU 0", "model": word})() for word in ("H100", "H200")]
    shared, odd = (things[0],), (things[1],)
    assert not list(fleet_gpu_model({f"n{number}": shared for number in range(4)}))
    assert [node for node, _ in fleet_gpu_model({f"n{number}": shared for number in range(4)} | {"n4": odd})] == ["n4"]


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["x", "y"]), st.lists(st.sampled_from([0.0, 0, 0, 1.0, 7]), max_size=3)), min_size=1, max_size=9),
       st.integers(1, 12), st.sampled_from([0.0, 1.0]), st.sampled_from([-1.0, 0.0, 2.0]))
def test_readings_that_are_all_the_same_are_told_as_if_their_median_had_been_taken(
    nodes: list[Any], at_least: int, floor: float, spreads: float,
) -> None:
    blocks: dict[Any, Any] = {}     # nodes share values that are equal
    readings = [Readings(f"n{at}", [f"s{n}" for n in range(len(values))], blocks.setdefault(tuple(values), values), peers)
                for at, (peers, values) in enumerate(nodes)]
    told = list(far_off(readings, "", spreads=spreads, floor=floor, at_least=at_least))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fleet, "_level", lambda group, at_least: False)
        assert told == list(far_off(readings, "", spreads=spreads, floor=floor, at_least=at_least))
