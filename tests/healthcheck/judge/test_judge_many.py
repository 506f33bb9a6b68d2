"""The judge over more subjects than it sets aside one by one: what they lack is told all the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from healthcheck.facts.values import UNSUPPORTED, Unmeasured
from healthcheck.judge.judge import MOST_FINDINGS, MOST_RUNS, judge
from healthcheck.model.outcome import Finding, Status
from healthcheck.ruleset.rule import Unsupported
from tests.healthcheck.rules import Thing, rule


def hot(things: tuple[Thing, ...]) -> Iterator[Finding]:
    for thing in things:
        if thing.heat > 50:
            yield Finding(thing.heat, "at most 50", thing.name)


def bare(number: int) -> tuple[Thing, ...]:
    return tuple(Thing(f"thing {n}", UNSUPPORTED) for n in range(number))  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [1, MOST_RUNS, MOST_RUNS + 1, 144, 4000])
def test_a_reading_that_not_one_of_many_has_skips_the_rule(number: int) -> None:
    result = judge(rule(hot, unsupported=Unsupported.SKIP), {"things": bare(number)}, None, None)
    assert result.status is Status.SKIPPED, result.reason
    assert result.reason.startswith("not supported: heat of thing 0")


@pytest.mark.parametrize("number", [1, MOST_RUNS + 1, 144, 4000])
def test_a_reading_that_all_of_many_must_have_fails_for_each(number: int) -> None:
    result = judge(rule(hot, unsupported=Unsupported.FAIL), {"things": bare(number)}, None, None)
    assert (result.status, len(result.findings), result.reason) == (Status.FAIL, min(number, MOST_FINDINGS), "")


def test_one_of_many_that_could_not_be_read_is_unknown_all_the_same() -> None:
    dark = Thing("dark", Unmeasured("the sensor hung"))  # type: ignore[arg-type]
    for things in ((*bare(144), dark), (dark, *bare(144))):
        result = judge(rule(hot, unsupported=Unsupported.SKIP), {"things": things}, None, None)
        assert result.status is Status.UNKNOWN


def test_one_of_many_that_is_hot_fails_all_the_same() -> None:
    for things in ((*bare(144), Thing("hot", 99)), (Thing("hot", 99), *bare(144))):
        result = judge(rule(hot, unsupported=Unsupported.SKIP), {"things": things}, None, None)
        assert [finding.subject for finding in result.findings] == ["hot"]


def warmer(things: tuple[Thing, ...], previous_things: tuple[Thing, ...]) -> Iterator[Finding]:
    before = {thing.name: thing for thing in previous_things}
    for thing in things:
        if thing.heat > before[thing.name].heat:
            yield Finding(thing.heat, "no warmer", thing.name)


def test_many_that_are_compared_with_many_cost_no_more_than_can_be_borne() -> None:
    facts = {"things": bare(4000)}
    result = judge(rule(warmer, ("things", "previous_things"), unsupported=Unsupported.SKIP), facts, facts, None)
    assert (result.status, "too much of this node" in result.reason or "not supported" in result.reason) == (Status.UNKNOWN, True)
