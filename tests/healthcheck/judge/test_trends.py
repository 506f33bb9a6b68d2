"""Rules of growth: what pairs a subject with its earlier snapshot, and what is not known without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from healthcheck.checks.base import Peers
from healthcheck.checks.growth import HOUR, MINUTE, Growth
from healthcheck.facts.base import MEMBERS
from healthcheck.facts.snapshot_time import SnapshotTime
from healthcheck.facts.values import (
    UNSUPPORTED,
    Fact,
    NotMeasured,
    Partial,
    Unmeasured,
)
from healthcheck.judge.judge import judge
from healthcheck.judge.nodefacts import NodeFacts, pair
from healthcheck.model.outcome import Finding, Result, Status
from healthcheck.ruleset.rule import UnsupportedPolicy
from tests.healthcheck.judge.things import COLD, DARK, HOT, judged, trend
from tests.healthcheck.rules import Thing, rule, thing


def grew(thing: Thing, growth: Growth[Thing]) -> Iterator[Finding]:
    if growth.of("weight") > 0:
        yield Finding(thing.weight, growth.before.weight)


TREND = rule(grew)


def test_a_trend_without_an_earlier_snapshot_is_skipped_visibly() -> None:
    result = judged(TREND, (COLD,), snapshot_time=SnapshotTime("snapshot_time", 1.0, 1.0))
    assert (result.status, result.reason) == (Status.SKIPPED, "no earlier snapshot of this node in this boot")


def test_a_trend_compares_with_the_earlier_snapshot_by_identity() -> None:
    now = (thing("thing 1", 20, 1), thing("thing 0", 20, 5))
    assert trend(TREND, now, now).status is Status.PASS
    assert [f.subject for f in trend(TREND, now, (COLD, thing("thing 1", 20, 1))).findings] == ["thing 0"]


def test_a_counter_that_went_down_was_reset_and_is_not_health() -> None:
    result = trend(TREND, (COLD, HOT), (thing("thing 0", 20, 5), thing("thing 1", 20, 0)))
    assert [f.subject for f in result.findings] == ["thing 1"]
    assert "thing 0: weight went from 5 to 1" in result.reason and "reset" in result.reason


def test_a_subject_that_is_new_is_unknown_and_a_check_may_ask_for_it() -> None:
    assert trend(TREND, (COLD, HOT), (COLD,)).reason == "thing 1: the earlier snapshot has no such thing"

    def only_known(thing: Thing, growth: Growth[Thing]) -> Iterator[Finding]:
        if not growth.new and growth.of("weight"):
            yield Finding(thing.weight, 0)

    assert trend(rule(only_known), (COLD, HOT), (COLD,)).status is Status.PASS


@pytest.mark.parametrize(("before", "reason"), [
    (Unmeasured("denied"), "earlier things: denied"),
    ((), "earlier things: the earlier snapshot found no things")])
def test_an_earlier_snapshot_that_lacks_the_fact_is_unknown(before: Any, reason: str) -> None:
    result = trend(TREND, (COLD,), before)
    assert (result.status, result.reason) == (Status.UNKNOWN, reason)


def test_an_earlier_snapshot_of_which_a_part_was_read_can_show_growth_and_does_not_pass() -> None:
    assert trend(TREND, (COLD,), Partial((COLD,), "cut")).status is Status.UNKNOWN
    assert trend(TREND, (thing("thing 0", 1, 9),), Partial((COLD,), "cut")).status is Status.FAIL


def test_a_rate_is_over_a_minute_at_least_and_unknown_where_the_clock_went_back() -> None:
    def fast(thing: Thing, growth: Growth[Thing]) -> Iterator[Finding]:
        yield Finding(growth.rate("weight", per=HOUR), 0)

    now, before = (thing("thing 0", 1, 11),), (thing("thing 0", 1, 1),)
    assert [trend(rule(fast), now, before, seconds).findings[0].observed
            for seconds in (1, MINUTE, HOUR)] == [600.0, 600.0, 10.0]
    back = trend(rule(fast), now, before, -5.0)
    assert (back.status, "5 s later" in back.reason) == (Status.UNKNOWN, True)
    assert trend(rule(fast), before, before, -5.0).findings[0].observed == 0.0


def test_a_counter_that_is_full_counts_no_more() -> None:
    class Narrow(Fact):
        name: str
        weight: int

        def full(self, counter: str) -> int | None:
            return 255 if counter == "weight" else None

    result = trend(TREND, (Narrow("n", 255),), (Narrow("n", 255),))
    assert (result.status, "full at 255" in result.reason) == (Status.UNKNOWN, True)
    assert trend(TREND, (Narrow("n", 255),), (Narrow("n", 250),)).status is Status.FAIL


def test_a_whole_collection_is_given_what_finds_the_growth_of_each_member() -> None:
    def most(things: Peers[Thing], growth: Callable[[Thing], Growth[Thing]]) -> Iterator[Finding]:
        for one, grown in things.read(lambda thing: growth(thing).of("weight")):
            if grown > 3:
                yield Finding(grown, 3, one.name)

    result = trend(rule(most), (COLD, thing("thing 1", 1, 9), DARK), (COLD, HOT))
    assert [f.subject for f in result.findings] == ["thing 1"]
    assert "thing 2: the earlier snapshot has no such thing" in result.reason


NOW = SnapshotTime("snapshot_time", 1000.0, 0.0)
BEFORE = SnapshotTime("snapshot_time", 940.0, 0.0)


@pytest.mark.parametrize(("now", "earlier"), [
    (Unmeasured("denied"), {"things": (COLD,), "snapshot_time": BEFORE}),
    ((), {"things": (COLD,), "snapshot_time": BEFORE}),
    ((COLD,), None),
    ((COLD,), {"snapshot_time": BEFORE}),
    ((COLD,), {"things": Unmeasured("denied"), "snapshot_time": BEFORE}),
    ((COLD,), {"things": (), "snapshot_time": BEFORE}),
])
def test_a_check_is_not_run_where_one_of_its_snapshots_has_nothing_to_judge(now: Any, earlier: Any) -> None:
    run = []

    def counted(thing: Thing, growth: Growth[Thing]) -> Iterator[Finding]:
        run.append(thing.name)
        return iter(())

    judge(rule(counted), NodeFacts({"things": now, "snapshot_time": NOW}, earlier), None)
    assert run == []
    assert trend(rule(counted), (COLD,), (COLD,)).status is Status.PASS
    assert run == ["thing 0"]


class Slot(Fact):
    """A thing that is known by its serial number."""

    IDENTITY = ("serial",)

    name: str
    serial: str
    weight: int


def test_a_subject_that_cannot_be_paired_hides_no_other_that_was_judged(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MEMBERS, "slot", "slots")

    def heavier(slot: Slot, growth: Growth[Slot]) -> Iterator[Finding]:
        if growth.of("weight"):
            yield Finding(slot.weight, 0)

    known = rule(heavier, unsupported=UnsupportedPolicy.SKIP)
    paired, bare = Slot("slot 0", "S1", 1), Slot("slot 1", UNSUPPORTED, 1)

    def result(*slots: Slot) -> Result:
        return judge(known, NodeFacts({"slots": slots, "snapshot_time": NOW},
                                      {"slots": slots, "snapshot_time": BEFORE}), None)

    assert (result(paired, bare).status, result(paired, bare).reason) == (Status.PASS,
                                                                          "not supported: serial of slot 1")
    assert result(bare).status is Status.SKIPPED


def test_of_several_subjects_of_one_identity_each_is_compared_with_the_one_of_its_name() -> None:
    def grown(before: tuple[Slot, ...], *now: Slot) -> list[int]:
        found = pair(now, {"slots": before, "snapshot_time": BEFORE}, "slots", NOW)
        return [found[id(one)].of("weight") for one in now]

    first, second = Slot("slot 0", "S1", 900), Slot("slot 1", "S1", 0)
    for before in ((first, second), (second, first)):
        assert grown(before, first, second) == grown(before, second, first) == [0, 0]
        assert grown(before, first, Slot("slot 1", "S1", 7)) == [0, 7]
    assert grown((first,), Slot("slot 9", "S1", 901)) == [1]
    assert grown((first, second, Slot("slot 5", "S2", 3)), Slot("slot 6", "S2", 4)) == [1], "it has moved"
    with pytest.raises(NotMeasured, match="the earlier snapshot has no such"):
        grown((first, second), Slot("slot 9", "S1", 901))
