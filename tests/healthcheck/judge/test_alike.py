"""Marks of facts that are alike (healthcheck.judge.alike), and what rules say of them (healthcheck.judge.settled): found out once, and never another's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from healthcheck.judge.alike import _IN_VAIN, Core
from healthcheck.judge.settled import _TRIES
from healthcheck.judge.shared import Shared
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.facts.values import UNSUPPORTED, Fact, Partial, Unmeasured
from healthcheck.judge.judge import judge
from healthcheck.model.outcome import Finding, Note, Result, Status
from healthcheck.ruleset.rule import Rule, Unsupported
from tests.healthcheck.rules import Thing, rule


def hot(things: tuple[Thing, ...]) -> Iterator[Finding]:
    for thing in things:
        if thing.heat > 50:
            yield Finding(thing.heat, "at most 50", thing.name)


def hot_if_heavy(things: tuple[Thing, ...]) -> Iterator[Finding]:
    """What is read depends on what was read."""
    for thing in things:
        if thing.weight > 1 and thing.heat > 50:
            yield Finding(thing.heat, "at most 50", thing.name)


def together(things: tuple[Thing, ...]) -> Iterator[Finding | Note]:
    """Not each by itself."""
    total = sum(thing.heat for thing in things)
    yield Note(f"{len(things)} things of {total}")


def same(things: tuple[Thing, ...]) -> Iterator[Finding]:
    """Compares facts wholly."""
    for thing in things:
        if thing.heat > 0 and things.count(thing) > 1:
            yield Finding("twice", "once", thing.name)


def different(things: tuple[Thing, ...]) -> Iterator[Note]:
    for thing in things:
        if thing.heat > 0:
            yield Note(f"{len(set(things))} kinds")


def weighed(things: tuple[Thing, ...], others: tuple[Thing, ...]) -> Iterator[Finding]:
    for thing in things:
        if thing.heat > sum(other.weight for other in others):
            yield Finding(thing.heat, "less", thing.name)


def results(shared: Shared, rules: tuple[Rule, ...], facts: Mapping[str, Any], previous: Mapping[str, Any] | None = None) -> dict[str, Result]:
    """What the rules say of a node, by their ids."""
    of_all, own = shared.results(rules, facts, previous, None)
    return {**of_all, **own}


VALUE = st.sampled_from([1, 60, UNSUPPORTED, UNSUPPORTED, UNSUPPORTED, Unmeasured("the sensor hung")])
THINGS = st.lists(st.builds(Thing, st.sampled_from(["a", "b", "c"]), VALUE, st.sampled_from([1, 2, 3, 4, UNSUPPORTED])), max_size=5).map(tuple)
FACT = THINGS | THINGS.map(lambda things: Partial(things, "cut")) | st.just(Unmeasured("no answer"))
def growing(things: tuple[Thing, ...], previous_things: tuple[Thing, ...]) -> Iterator[Finding]:
    for thing, earlier in zip(things, previous_things, strict=False):
        if thing.heat > earlier.heat:
            yield Finding(thing.heat, earlier.heat, thing.name)


RULES = [rule(check, unsupported=word) for check in (hot, hot_if_heavy, together, same, different) for word in Unsupported]
RULES += [rule(weighed, ("things", "others"))]
grown = rule(growing, ("things", "previous_things"))


@settings(max_examples=150, deadline=None)
@given(nodes=st.lists(st.tuples(FACT, FACT), min_size=2, max_size=12), order=st.permutations(RULES))
def test_a_node_is_judged_among_those_like_it_as_it_is_judged_alone(nodes: list[tuple[Any, Any]], order: list[Any]) -> None:
    shared = Shared()
    rules = tuple(replace(each, id=str(number)) for number, each in enumerate(order[:6]))
    for things, others in [*nodes, *nodes, *nodes]:
        facts = {"things": things, "others": others}
        told = {each.id: judge(each, facts, None, None) for each in rules}
        assert results(shared, rules, facts) == told
        judged = shared.judging(facts, None, None)
        assert {each.id: judged(each) for each in rules} == told


@settings(max_examples=400, deadline=None)
@given(
    nodes=st.lists(st.tuples(FACT, FACT, st.none() | FACT, st.booleans(), st.booleans()), min_size=2, max_size=8),
    turns=st.lists(st.tuples(st.integers(0, 7), st.booleans()), max_size=30), order=st.permutations(RULES),
)
def test_a_node_is_judged_by_what_it_is_whoever_came_before_it(nodes: list[Any], turns: list[tuple[int, bool]], order: list[Any]) -> None:
    """Facts that nodes have in common, earlier looks that some lack, two sets of rules, and rules that are asked one by one."""
    shared = Shared()
    sets = [tuple(replace(each, id=str(number)) for number, each in enumerate(some)) for some in (order[:5], (order[0], grown))]
    for number, second in turns:
        things, others, before, common, one_by_one = nodes[number % len(nodes)]
        facts = {"things": shared.given(things) if common else things, "others": others}
        previous, rules = None if before is None else {"things": before}, sets[second]
        told = {each.id: judge(each, facts, previous, None) for each in rules}
        if one_by_one:
            judged = shared.judging(facts, previous, None)
            assert {each.id: judged(each) for each in rules} == told
        else:
            assert results(shared, rules, facts, previous) == told


def bare(weight: int, number: int = 4) -> tuple[Thing, ...]:
    return tuple(Thing(f"thing {n}", UNSUPPORTED, weight) for n in range(number))  # type: ignore[arg-type]


def runs_of(nodes: list[Any], check: Any = hot) -> list[int]:
    """How often a check was run for each of the nodes."""
    runs: list[int] = []

    def counted(things: tuple[Thing, ...]) -> Iterator[Finding]:
        runs[-1] += 1
        yield from check(things)

    shared, one = Shared(), rule(counted)
    rules = (one,)
    for things in nodes:
        runs.append(0)
        facts = {"things": things}
        assert results(shared, rules, facts) == {one.id: judge(rule(check), facts, None, None)}
    return runs


def test_nodes_that_differ_in_what_is_not_read_are_judged_once() -> None:
    runs = runs_of([bare(weight) for weight in range(20)])
    assert all(runs[:4]) and runs[8:] == [0] * 12


def test_a_node_that_differs_in_what_is_read_is_judged_by_itself() -> None:
    odd = (*bare(1, 3), Thing("thing 3", 7))
    runs = runs_of([*(bare(weight) for weight in range(20)), odd, bare(30), (*bare(2, 3), Thing("thing 3", 70)), bare(31)])
    assert [run > 0 for run in runs[20:]] == [True, False, True, False]


def test_a_node_with_a_fault_is_told_its_own_numbers() -> None:
    runs = runs_of([(Thing("a", 60 if weight % 2 else 60.0, weight),) for weight in range(12)])  # type: ignore[arg-type]
    assert all(runs)


def test_a_rule_that_reads_what_is_each_nodes_own_is_judged_once_for_each() -> None:
    nodes = [(*bare(1, 3), Thing("heat", number)) for number in range(_TRIES + 20)]
    runs = runs_of(nodes)
    assert set(runs[-8:]) == {runs[0]}


@pytest.mark.parametrize("check", [same, different])
def test_a_check_that_compares_facts_with_one_another_is_judged_for_every_node(check: Any) -> None:
    twins = (Thing("a", 1, 1), Thing("a", 1, 1), *bare(1))
    parted = (Thing("a", 1, 1), Thing("a", 1, 2), *bare(1))
    assert all(runs_of([parted, twins, parted, twins, twins, parted] * 3, check))


def test_a_number_of_the_sku_that_differs_is_another_verdict() -> None:
    def above(things: tuple[Thing, ...], *, most: int) -> Iterator[Finding]:
        for thing in things:
            if thing.heat > most:
                yield Finding(thing.heat, f"at most {most}", thing.name)

    rules: tuple[Rule, ...] = tuple(replace(rule(above, parameters={"most": most}), id=f"above-{most}") for most in (1, 5))
    shared = Shared()
    for weight in range(12):
        facts = {"things": (Thing("a", 3, weight),)}
        assert results(shared, rules, facts) == {one.id: judge(one, facts, None, None) for one in rules}


@dataclass(frozen=True)
class Box(Fact):
    """A fact with a reading that cannot be hashed."""

    name: str
    held: Mapping[str, int]
    colour: str


def test_a_mark_stands_for_what_nodes_have_in_common() -> None:
    core = Core()
    marks = [core.mark((Thing("a", heat, 5),)) for heat in range(8)]
    assert marks[-1] == marks[-2] < 0 and core.common >= {"name", "weight"} and "heat" not in core.common
    assert core.mark((Thing("a", 1, 6),)) != marks[-1] and core.mark((Thing("a", 1, 5), Thing("b", 1, 5))) != marks[-1]
    assert core.mark(Thing("a", 1, 5)) != marks[-1] and core.mark(Partial((Thing("a", 1, 5),), "cut")) != marks[-1]


def test_a_part_bears_another_mark_than_the_whole_and_than_one_for_another_reason() -> None:
    core, things = Core(), (Thing("a", 1),)
    values = [things, Partial(things, "cut"), Partial(things, "late"), things[0], Partial(things[0], "cut"), (), Partial((), "cut"),
              Unmeasured("cut"), Unmeasured("late")]
    assert [core.mark(value) for value in values] == [0] * len(values)
    marks = [core.mark(value) for value in values]
    assert len(set(marks)) == len(values) and max(marks) < 0


def test_few_odd_nodes_do_not_part_a_field_from_what_nodes_have_in_common() -> None:
    core = Core()
    core.uses = 1
    for number in range(400):
        core.mark((Thing("a", 1 if number % 20 else number),))
    assert core.whole and core.mark((Thing("a", 1),)) < 0


def test_a_reading_that_cannot_be_hashed_is_each_nodes_own() -> None:
    core = Core()
    marks = [core.mark((Box("a", {"b": 1}, "red"),)) for _ in range(4)]
    assert marks[-1] < 0 and core.common >= {"name", "colour"} and "held" not in core.common


def test_facts_whose_names_are_each_nodes_own_and_facts_of_several_kinds_bear_no_mark() -> None:
    names, kinds = Core(), Core()
    assert {names.mark((Thing(f"{number}", 1),)) for number in range(20)} == {0}
    assert {kinds.mark((Thing("a", 1), Box("b", {}, "red"))) for _ in range(4)} == {0}


def test_a_check_that_asks_what_kind_a_fact_is_judges_guarded_facts_too() -> None:
    def of_kind(things: tuple[Any, ...]) -> Iterator[Finding]:
        for thing in things:
            match thing:
                case Thing(heat=heat) if heat > 50:
                    yield Finding(heat, "at most 50", thing.name)

    nodes = [(Thing("a", 60 if number in (9, 11) else 1, number), Thing("b", 1, UNSUPPORTED)) for number in range(12)]  # type: ignore[arg-type]
    shared, one = Shared(), rule(of_kind)
    told = [results(shared, (one,), {"things": things})[one.id].status for things in nodes]
    assert told == [Status.FAIL if number in (9, 11) else Status.PASS for number in range(12)]


def test_a_check_that_reads_fields_by_their_names_is_judged_by_each_nodes_own() -> None:
    def by_name(things: tuple[Any, ...]) -> Iterator[Finding]:
        for thing in things:
            if vars(thing)["weight"] > 1:
                yield Finding(vars(thing)["weight"], "at most 1", thing.name)

    # A node's own heat, which is not read, decides whether a thing has a guard, and so whether its fields may be read by name.
    unread = [(Thing("a", heat, 2),) for heat in range(6)] + [(Thing("a", Unmeasured(f"hung {number}"), 2),) for number in range(8)]
    shared, one = Shared(), rule(by_name)
    told = [results(shared, (one,), {"things": things})[one.id].status for things in (*unread, (Thing("a", 99, 2),))]
    assert told == [Status.FAIL] * 6 + [Status.UNKNOWN] * 8 + [Status.FAIL]


@dataclass(frozen=True, order=True)
class Switch(Fact):
    """Of many fields; and there is nothing of it without ports."""

    name: str
    serial: int
    ports: int
    a: int = 0
    b: int = 0
    c: int = 0
    d: int = 0
    e: int = 0
    f: int = 0

    def __bool__(self) -> bool:
        return self.ports > 0


@pytest.mark.parametrize("odd", [
    lambda things: [thing for thing in things if not thing], lambda things: [thing for thing in things if thing > things[0]],
])
def test_facts_that_know_operators_of_their_own_are_judged_as_alone(odd: Any) -> None:
    def check(things: tuple[Any, ...]) -> Iterator[Finding]:
        for thing in odd(things):
            yield Finding(thing.ports, "more", thing.name)

    shared, one = Shared(), rule(check)
    for serial in range(40):
        facts = {"things": (Switch("a", 0, 1), Switch("a", 0, 1, f=serial % 2), Switch("b", -serial, (serial * 7) % 3 if serial > 20 else 1))}
        assert results(shared, (one,), facts)[one.id] == judge(one, facts, None, None)


def test_a_check_that_counts_one_object_twice_is_judged_for_every_node() -> None:
    thing = Thing("a", 1, 1)
    assert all(runs_of([(thing, thing), (Thing("a", 1, 1), Thing("a", 1, 2))] * 6, same))


def test_facts_that_cannot_be_compared_are_judged_all_the_same() -> None:
    class Bare(Fact):
        name = "bare"
        heat = 60

    core = Core()
    assert {core.mark((Bare(),)) for _ in range(4)} == {0}
    assert all(runs_of([(Bare(),)] * 4))


def test_marks_that_serve_nobody_are_given_up() -> None:
    core = Core()
    marks = [core.mark((Thing("a", 1),)) for _ in range(_IN_VAIN + 2)]
    assert marks[_IN_VAIN - 1] < 0 and marks[-1] == 0
