"""What a rule says of facts that are alike in what its check reads (healthcheck.alike): found out once, and never another's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.alike import _TRIES
from healthcheck.facts.base import UNSUPPORTED, Partial, Unmeasured
from healthcheck.judge import judge
from healthcheck.outcome import Finding, Note
from healthcheck.rule import Unsupported
from healthcheck.shared import Shared
from tests.healthcheck.rules import Thing, rule


def hot(things: tuple[Thing, ...]) -> Iterator[Finding]:
    for thing in things:
        if thing.heat > 50:
            yield Finding(thing.name, thing.heat, "at most 50")


def hot_if_heavy(things: tuple[Thing, ...]) -> Iterator[Finding]:
    """What is read depends on what was read."""
    for thing in things:
        if thing.weight > 1 and thing.heat > 50:
            yield Finding(thing.name, thing.heat, "at most 50")


def together(things: tuple[Thing, ...]) -> Iterator[Finding | Note]:
    """Not each by itself."""
    total = sum(thing.heat for thing in things)
    yield Note(f"{len(things)} things of {total}")


def same(things: tuple[Thing, ...]) -> Iterator[Finding]:
    """Compares facts wholly."""
    for thing in things:
        if thing.heat > 0 and things.count(thing) > 1:
            yield Finding(thing.name, "twice", "once")


def different(things: tuple[Thing, ...]) -> Iterator[Note]:
    for thing in things:
        if thing.heat > 0:
            yield Note(f"{len(set(things))} kinds")


def weighed(things: tuple[Thing, ...], others: tuple[Thing, ...]) -> Iterator[Finding]:
    for thing in things:
        if thing.heat > sum(other.weight for other in others):
            yield Finding(thing.name, thing.heat, "less")


VALUE = st.sampled_from([1, 60, UNSUPPORTED, UNSUPPORTED, UNSUPPORTED, Unmeasured("the sensor hung")])
THINGS = st.lists(st.builds(Thing, st.sampled_from(["a", "b", "c"]), VALUE, st.sampled_from([1, 2, UNSUPPORTED])), max_size=5).map(tuple)
FACT = THINGS | THINGS.map(lambda things: Partial(things, "cut")) | st.just(Unmeasured("no answer"))
RULES = [rule(check, unsupported=word) for check in (hot, hot_if_heavy, together, same, different) for word in Unsupported]
RULES += [rule(weighed, ("things", "others"))]


@settings(max_examples=400, deadline=None)
@given(nodes=st.lists(st.tuples(FACT, FACT), min_size=2, max_size=8), order=st.permutations(RULES))
def test_a_node_is_judged_among_those_like_it_as_it_is_judged_alone(nodes: list[tuple[Any, Any]], order: list[Any]) -> None:
    shared = Shared()
    for things, others in [*nodes, *nodes]:
        facts = {"things": things, "others": others}
        judged = shared.judging(facts, None, None)
        for each in order[:6]:
            assert judged(each) == judge(each, facts, None, None)


def bare(weight: int, number: int = 4) -> tuple[Thing, ...]:
    return tuple(Thing(f"thing {n}", UNSUPPORTED, weight) for n in range(number))  # type: ignore[arg-type]


def runs_of(nodes: list[tuple[Thing, ...]]) -> list[int]:
    """How often a check that reads heat alone was run for each of the nodes."""
    runs: list[int] = []

    def counted(things: tuple[Thing, ...]) -> Iterator[Finding]:
        runs[-1] += 1
        yield from hot(things)

    shared, one = Shared(), rule(counted)
    for things in nodes:
        runs.append(0)
        shared.judging({"things": things}, None, None)(one)
    return runs


def test_nodes_that_differ_in_what_is_not_read_are_judged_once() -> None:
    first, *others = runs_of([bare(weight) for weight in range(10)])
    assert first > 4 and others == [0] * 9


def test_a_node_that_differs_in_what_is_read_is_judged_by_itself() -> None:
    odd = (*bare(1, 3), Thing("thing 3", 7))
    assert [run > 0 for run in runs_of([bare(1), bare(2), odd, bare(3), odd])] == [True, False, True, False, False]


def test_a_rule_for_which_no_two_nodes_are_alike_is_no_longer_compared() -> None:
    nodes = [(*bare(1, 3), Thing("heat", number)) for number in range(_TRIES + 2)]
    runs = runs_of(nodes)
    assert runs[-1] == runs[-2] < runs[0]


@pytest.mark.parametrize("check", [same, different])
def test_a_check_that_compares_facts_with_one_another_is_judged_for_every_node(check: Any) -> None:
    twins = (Thing("a", 1, 1), Thing("a", 1, 1), *bare(1))
    parted = (Thing("a", 1, 1), Thing("a", 1, 2), *bare(1))
    shared, one = Shared(), rule(check)
    for things in (parted, twins, parted):
        assert shared.judging({"things": things}, None, None)(one) == judge(one, {"things": things}, None, None)
