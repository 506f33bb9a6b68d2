"""What checks are given of one node: its facts, its earlier snapshot, and what belongs to a subject."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from healthcheck.checks.growth import Growth
from healthcheck.facts.snapshot_time import SnapshotTime
from healthcheck.facts.values import Fact, NotMeasured, Partial, Unmeasured
from healthcheck.judge.nodefacts import Input, NodeFacts, pair
from healthcheck.model.outcome import Finding
from tests.healthcheck.judge.things import hot
from tests.healthcheck.rules import Thing, rule, thing

NOW, BEFORE = SnapshotTime("snapshot_time", 1000.0, 0.0), SnapshotTime("snapshot_time", 940.0, 0.0)
COLD = thing("thing 0", 20)
MISSING: Any = object()


class Worded(Fact):
    """A fact with a caveat of its own."""

    name: str
    caveat: str


def grew(thing: Thing, growth: Growth[Thing]) -> Iterator[Finding]:
    if growth.of("weight"):
        yield Finding(thing.weight, 0)


def facts(things: Any, look: Any = NOW) -> dict[str, Any]:
    """Facts of a snapshot, without those that are MISSING."""
    return {name: fact for name, fact in (("things", things), ("snapshot_time", look)) if fact is not MISSING}


@pytest.mark.parametrize(("things", "plain"), [
    ((COLD,), True), ((COLD, thing("thing 1", Unmeasured("hung"))), True), ((), False),
    (Unmeasured("denied"), False),
    (Partial((COLD,), "cut"), False), ((Worded("a", "not the fan"),), False), ((Worded("a", ""),), True),
    (MISSING, False)])
def test_a_fact_is_plain_where_it_was_wholly_measured_and_nothing_is_to_be_added(things: Any,
                                                                                 plain: bool) -> None:
    node = NodeFacts(facts(things))
    assert [node.plain(rule(hot).checked) for _ in range(2)] == [plain, plain]


@pytest.mark.parametrize(("earlier", "plain"), [
    (facts((COLD,), BEFORE), True), (None, False), (facts(MISSING, BEFORE), False),
    (facts((COLD,), MISSING), False),
    (facts((), BEFORE), False), (facts(Unmeasured("denied"), BEFORE), False),
    (facts(Partial((COLD,), "cut"), BEFORE), False)])
def test_a_trend_is_plain_where_the_earlier_snapshot_was_wholly_measured_too(earlier: Any,
                                                                             plain: bool) -> None:
    node = NodeFacts(facts((COLD,)), earlier)
    assert [node.plain(rule(grew).checked) for _ in range(2)] == [plain, plain]


def test_each_caveat_stands_once_in_the_order_of_the_members() -> None:
    found = Input.of((Worded("a", "fan"), Worded("b", ""), Worded("c", "slot"), Worded("d", "fan"), COLD))
    assert found.caveats == ("fan", "slot")
    assert Input.of((COLD, "a plug-in's own value")).caveats == ()


def test_between_two_snapshots_as_much_time_has_passed_as_between_their_times() -> None:
    (growth,) = pair((COLD,), facts((COLD,), BEFORE), "things", NOW).values()
    assert growth.seconds == 60.0


@pytest.mark.parametrize(("now", "before"), [(None, BEFORE), (NOW, MISSING), (None, MISSING), (NOW, NOW)])
def test_without_both_times_and_without_time_between_them_no_rate_is_made_up(now: Any, before: Any) -> None:
    (growth,) = pair((COLD,), facts((COLD,), before), "things", now).values()
    with pytest.raises(NotMeasured, match="the earlier snapshot has the same time, or none"):
        _ = growth.seconds
