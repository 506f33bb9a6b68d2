"""Guards that look up no more than is read (Guards.few) show a check what all others show it, of facts of many fields too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, make_dataclass, replace
from typing import Any

import pytest
from healthcheck.judge.guard import _MANY_FIELDS, Guards
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.facts.values import UNSUPPORTED, Fact, Unmeasured
from healthcheck.judge.fleetjudge import judge_fleet
from healthcheck.judge.judge import judge
from healthcheck.model.outcome import Finding, Note, Status
from tests.healthcheck.rules import rule


@dataclass(frozen=True)
class Plain(Fact):
    """What any fact holds."""

    name: str
    heat: float
    word: str
    parts: Any

    @property
    def hot(self) -> bool:
        """A property, which reads a field."""
        return self.heat > 50

    def over(self, limit: float) -> bool:
        """A method, which does so too."""
        return self.heat > limit


Wide: Any = make_dataclass("Wide", [(f"x{number}", int, number) for number in range(_MANY_FIELDS)], bases=(Plain,), frozen=True)
HEAT = st.sampled_from([1, 1.0, True, 60, 70.5, UNSUPPORTED, Unmeasured("the sensor hung")])
ONE = st.builds(lambda kind, *of: kind(*of), st.sampled_from([Plain, Wide]), st.sampled_from(["a", "b"]), HEAT,
                st.sampled_from(["yes", UNSUPPORTED]), st.sampled_from(["all", "all", (1,)]))
READS: list[Callable[[Any, Any], Any]] = [
    lambda one, _: one.heat, lambda one, _: one.hot, lambda one, _: one.over(50), lambda one, _: one.word, lambda one, _: one.parts,
    lambda one, _: vars(one)["heat"], lambda one, _: replace(one, name="c").heat, lambda one, _: hash(one) and 0, lambda one, _: one.nothing,
    lambda one, other: one == other, lambda one, _: isinstance(one, Wide), lambda one, _: getattr(one, "x3", 0),
    lambda one, other: len({one.name: one, other.name: other}),
]


@settings(max_examples=400, deadline=None)
@given(st.lists(ONE, min_size=1, max_size=4).map(tuple), st.lists(st.sampled_from(READS), min_size=1, max_size=3))
def test_a_check_is_shown_the_same_however_much_is_looked_up_beforehand(ones: tuple[Any, ...], reads: list[Any]) -> None:
    def check(things: tuple[Any, ...]) -> Iterator[Finding | Note]:
        for thing in things:
            for read in reads:
                yield Note(f"{thing.name} {read(thing, things[0])}")

    few, facts = Guards(few=True), {"things": ones}
    for _ in range(2):
        assert judge(rule(check), facts, None, None, few) == judge(rule(check), facts, None, None)


@pytest.mark.parametrize("kind", [Plain, Wide])
@pytest.mark.parametrize("read", READS[:2])
def test_what_one_node_lacks_is_unknown_there_and_nowhere_else(kind: Any, read: Any) -> None:
    def check(things: Any) -> Iterator[tuple[str, Finding]]:
        for node, found in things.items():
            if read(found, None) == "never":
                yield node, Finding(1, 2, "thing")

    cohort = {f"n{number}": {"things": kind("a", Unmeasured("hung") if number == 3 else number, "yes", ())} for number in range(6)}
    for guards in (Guards(), Guards(few=True)):
        told = judge_fleet(rule(check, fleet=True), cohort, None, guards)
        assert [said.status for said in told.values()] == [Status.UNKNOWN if number == 3 else Status.PASS for number in range(6)]


def test_a_whole_fact_of_many_fields_is_compared_by_its_values() -> None:
    kind = make_dataclass("Whole", [(f"x{number}", int) for number in range(_MANY_FIELDS + 1)], bases=(Fact,), namespace={"name": "whole"}, frozen=True)
    one, same = (kind(*range(_MANY_FIELDS + 1)) for _ in range(2))

    def check(things: tuple[Any, ...]) -> Iterator[Note]:
        yield Note(f"{things[0] == things[1]} {len(set(things))} {vars(things[0]) == vars(one)} {things[0]}")

    assert judge(rule(check), {"things": (one, same)}, None, None, Guards(few=True)) == judge(rule(check), {"things": (one, same)}, None, None)
