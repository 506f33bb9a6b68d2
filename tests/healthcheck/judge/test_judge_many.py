"""The judge over very many subjects: what they lack is reported all the same, and in bounded time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from healthcheck.checks.growth import Growth
from healthcheck.facts.snapshot_time import SnapshotTime
from healthcheck.facts.values import UNSUPPORTED, Unmeasured
from healthcheck.judge.judge import judge
from healthcheck.judge.limits import MOST_FINDINGS, MOST_SUBJECTS
from healthcheck.judge.nodefacts import NodeFacts
from healthcheck.model.outcome import Finding, Result, Status
from healthcheck.ruleset.rule import UnsupportedPolicy
from tests.healthcheck.rules import Thing, rule, thing


def hot(thing: Thing) -> Iterator[Finding]:
    if thing.heat > 50:
        yield Finding(thing.heat, "at most 50")


def bare(number: int) -> tuple[Thing, ...]:
    return tuple(thing(f"thing {n}", UNSUPPORTED) for n in range(number))


def judged(things: tuple[Thing, ...], unsupported: UnsupportedPolicy = UnsupportedPolicy.SKIP) -> Result:
    return judge(rule(hot, unsupported=unsupported), NodeFacts({"things": things}), None)


@pytest.mark.parametrize("number", [1, 144, 4000])
def test_a_reading_that_not_one_of_many_has_skips_the_rule(number: int) -> None:
    result = judged(bare(number))
    assert result.status is Status.SKIPPED, result.reason
    assert result.reason.startswith("not supported: heat of thing 0")


@pytest.mark.parametrize("number", [1, 144, 4000])
def test_a_reading_that_all_of_many_must_have_fails_for_each(number: int) -> None:
    result = judged(bare(number), UnsupportedPolicy.FAIL)
    assert (result.status, len(result.findings),
            result.reason) == (Status.FAIL, min(number, MOST_FINDINGS), "")


def test_one_of_many_that_could_not_be_read_is_unknown_all_the_same() -> None:
    dark = thing("dark", Unmeasured("the sensor hung"))
    for things in ((*bare(144), dark), (dark, *bare(144))):
        assert judged(things).status is Status.UNKNOWN


def test_one_of_many_that_is_hot_fails_all_the_same() -> None:
    for things in ((*bare(144), thing("hot", 99)), (thing("hot", 99), *bare(144))):
        assert [finding.subject for finding in judged(things).findings] == ["hot"]


def test_of_more_subjects_than_are_judged_none_passes() -> None:
    assert judged(tuple(thing(f"thing {n}", 1) for n in range(MOST_SUBJECTS))).status is Status.PASS
    result = judged(tuple(thing(f"thing {n}", 1) for n in range(MOST_SUBJECTS + 1)))
    assert (result.status, str(MOST_SUBJECTS) in result.reason) == (Status.UNKNOWN, True)


def test_many_are_compared_with_many() -> None:
    def warmer(thing: Thing, growth: Growth[Thing]) -> Iterator[Finding]:
        if growth.of("heat"):
            yield Finding(thing.heat, "no warmer")

    facts = {"things": (*bare(4000), thing("hot", 9)),
             "snapshot_time": SnapshotTime("snapshot_time", 2.0, 2.0)}
    before = {"things": (*bare(4000), thing("hot", 8)),
              "snapshot_time": SnapshotTime("snapshot_time", 1.0, 1.0)}
    result = judge(rule(warmer, unsupported=UnsupportedPolicy.SKIP), NodeFacts(facts, before), None)
    assert [finding.subject for finding in result.findings] == ["hot"]
