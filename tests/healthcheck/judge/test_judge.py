"""The judge, fact by fact: what is not measured is never PASS, whatever the check's author did."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pytest
from healthcheck.judge.guard import Guards

from healthcheck.checks.base import NotMeasured, increase
from healthcheck.checks.fleet import outliers
from healthcheck.facts.values import UNSUPPORTED, Fact, Partial, Unmeasured
from healthcheck.judge.fleetjudge import judge_fleet
from healthcheck.judge.judge import judge
from healthcheck.model.outcome import Finding, Origin, Status
from healthcheck.ruleset.rule import Number, Unsupported
from healthcheck.ruleset.sku import Sku
from tests.healthcheck.rules import Thing, rule

COLD, HOT = Thing("thing 0", 20), Thing("thing 1", 99)
DARK = Thing("thing 2", Unmeasured("the sensor hung"))  # type: ignore[arg-type]
BARE = Thing("thing 3", UNSUPPORTED)  # type: ignore[arg-type]
NONE_SKU = Sku("none", "", {}, frozenset({"things"}), "none.yaml")


def hot(things: tuple[Thing, ...]) -> Iterator[Finding]:
    for thing in things:
        if thing.heat > 50:
            yield Finding(thing.heat, "at most 50", thing.name)


def test_all_measured_and_fine_is_pass() -> None:
    assert judge(rule(hot), {"things": (COLD,)}, None, None).status is Status.PASS


def test_a_finding_is_fail_and_carries_the_remedy() -> None:
    result = judge(rule(hot), {"things": (COLD, HOT)}, None, None)
    assert (result.status, result.findings, result.remedy) == (Status.FAIL, (Finding(99, "at most 50", "thing 1"),), "Cool it.")


def test_an_unmeasured_reading_is_unknown_for_its_subject_and_names_it() -> None:
    result = judge(rule(hot), {"things": (COLD, DARK)}, None, None)
    assert (result.status, result.origin, result.reason) == (Status.UNKNOWN, Origin.NODE, "thing 2: the sensor hung")


@pytest.mark.parametrize("order", [(DARK, HOT), (HOT, DARK), (DARK, COLD, HOT, BARE)])
def test_fail_outranks_unknown_and_both_are_told_in_any_order(order: tuple[Thing, ...]) -> None:
    result = judge(rule(hot), {"things": order}, None, None)
    assert result.status is Status.FAIL
    assert [finding.subject for finding in result.findings] == ["thing 1"]
    assert "thing 2: the sensor hung" in result.reason


def test_a_check_that_swallows_the_exception_is_unknown_all_the_same() -> None:
    def careless(things: tuple[Thing, ...]) -> Iterator[Finding]:
        for thing in things:
            try:
                if thing.heat > 50:
                    yield Finding(thing.heat, 50, thing.name)
            except Exception:  # noqa: BLE001, S110
                pass

    assert judge(rule(careless), {"things": (COLD, DARK)}, None, None).status is Status.UNKNOWN


def test_a_check_that_reads_with_getattr_and_a_default_is_unknown_all_the_same() -> None:
    def sly(things: tuple[Thing, ...]) -> Iterator[Finding]:
        yield from (Finding(1, 0, t.name) for t in things if getattr(t, "heat", 0) > 50)

    assert judge(rule(sly), {"things": (DARK,)}, None, None).status is Status.UNKNOWN


def test_findings_about_a_subject_before_its_unmeasured_reading_are_kept() -> None:
    heavy_dark = Thing("thing 9", Unmeasured("hung"), weight=8)  # type: ignore[arg-type]

    def both(things: tuple[Thing, ...]) -> Iterator[Finding]:
        for thing in things:
            if thing.weight > 5:
                yield Finding(thing.weight, 5, thing.name)
            if thing.heat > 50:
                yield Finding(thing.heat, 50, thing.name)

    result = judge(rule(both), {"things": (heavy_dark, HOT)}, None, None)
    assert [(f.subject, f.observed) for f in result.findings] == [("thing 9", 8), ("thing 1", 99)]
    assert "hung" in result.reason


def test_a_count_still_counts_what_could_not_be_read() -> None:
    def counted(things: tuple[Thing, ...]) -> Iterator[Finding]:
        cool = [thing for thing in things if thing.heat < 50]
        if len(things) != 2:
            yield Finding(len(things), 2, "things")
        assert len(cool) <= 2

    result = judge(rule(counted), {"things": (COLD, DARK)}, None, None)
    assert (result.status, result.findings) == (Status.UNKNOWN, ())


def test_an_empty_collection_is_unknown_unless_the_sku_declares_it() -> None:
    assert judge(rule(hot), {"things": ()}, None, None).status is Status.UNKNOWN
    assert judge(rule(hot), {"things": ()}, None, NONE_SKU).status is Status.SKIPPED


def test_a_fact_that_was_never_captured_is_unknown() -> None:
    assert judge(rule(hot), {}, None, None).status is Status.UNKNOWN


def test_a_fact_read_in_part_can_fail_but_not_pass() -> None:
    assert judge(rule(hot), {"things": Partial((COLD,), "cut")}, None, None).status is Status.UNKNOWN
    failed = judge(rule(hot), {"things": Partial((HOT,), "cut")}, None, None)
    assert (failed.status, failed.reason) == (Status.FAIL, "things: cut")
    assert judge(rule(hot), {"things": Partial((), "cut")}, None, NONE_SKU).status is Status.UNKNOWN


@pytest.mark.parametrize(("policy", "status"), [
    (Unsupported.SKIP, Status.SKIPPED), (Unsupported.UNKNOWN, Status.UNKNOWN), (Unsupported.FAIL, Status.FAIL),
])
def test_unsupported_follows_the_rule(policy: Unsupported, status: Status) -> None:
    assert judge(rule(hot, unsupported=policy), {"things": (BARE,)}, None, None).status is status


def test_unsupported_on_one_subject_is_said_beside_the_pass_of_the_others() -> None:
    result = judge(rule(hot, unsupported=Unsupported.SKIP), {"things": (BARE, COLD)}, None, None)
    assert (result.status, result.reason) == (Status.PASS, "not supported: heat of thing 3")


def test_a_check_that_fails_by_itself_is_unknown_and_ours() -> None:
    def broken(things: tuple[Thing, ...]) -> Iterator[Finding]:
        yield Finding(1 // (len(things) - 1), 0, "x")

    result = judge(rule(broken), {"things": (COLD,)}, None, None)
    assert (result.status, result.origin) == (Status.UNKNOWN, Origin.MUSTER)
    assert "ZeroDivisionError" in result.reason


def test_a_flood_of_findings_is_bounded() -> None:
    def flood(things: tuple[Thing, ...]) -> Iterator[Finding]:
        number = 0
        while True:
            number += 1
            yield Finding(number, 0, f"thing {number}")

    assert len(judge(rule(flood), {"things": (COLD,)}, None, None).findings) == 200


def test_what_a_node_said_is_made_harmless_in_findings() -> None:
    def echo(things: tuple[Thing, ...]) -> Iterator[Finding]:
        yield Finding("a\nb\x00" + "x" * 9999, "\udc80", "\x1b[31mred")

    (finding,) = judge(rule(echo), {"things": (COLD,)}, None, None).findings
    assert finding.subject == "\\x1b[31mred"
    assert str(finding.observed).startswith("a\\nb\\x00") and len(str(finding.observed)) == 400
    assert finding.expected == "\\x80"


def test_a_rule_left_out_is_skipped_and_visible() -> None:
    result = judge(rule(hot, left_out="left out by --skip"), {"things": (HOT,)}, None, None)
    assert (result.status, result.reason) == (Status.SKIPPED, "left out by --skip")


def test_a_number_without_a_sku_is_unknown_and_ours_and_a_declined_one_is_skipped() -> None:
    needs = rule(hot, parameters={"limit": Number("heat_limit")})
    unknown = judge(needs, {"things": (COLD,)}, None, None)
    assert (unknown.status, unknown.origin) == (Status.UNKNOWN, Origin.MUSTER)
    declined = Sku("s", "", {"heat_limit": None}, frozenset(), "s.yaml")
    assert judge(needs, {"things": (COLD,)}, None, declined).status is Status.SKIPPED


# Trend rules

def grew(things: tuple[Thing, ...], previous_things: tuple[Thing, ...]) -> Iterator[Finding]:
    for now, before in zip(things, previous_things, strict=True):
        if increase(now, before, "weight") > 0:
            yield Finding(now.weight, before.weight, now.name)


TREND = rule(grew, ("things", "previous_things"))


def test_a_trend_without_an_earlier_look_is_skipped_visibly() -> None:
    result = judge(TREND, {"things": (COLD,)}, None, None)
    assert (result.status, result.reason) == (Status.SKIPPED, "no earlier look at this node in this boot")


def test_a_trend_compares_with_the_earlier_look() -> None:
    now = (Thing("thing 0", 20, weight=5),)
    assert judge(TREND, {"things": now}, {"things": now}, None).status is Status.PASS
    assert judge(TREND, {"things": now}, {"things": (COLD,)}, None).status is Status.FAIL


def test_a_counter_that_went_down_was_reset_and_is_not_health() -> None:
    before = (Thing("thing 0", 20, weight=5),)
    result = judge(TREND, {"things": (COLD,)}, {"things": before}, None)
    assert result.status is Status.UNKNOWN
    assert "went from 5 to 1" in result.reason and "reset" in result.reason


def test_an_earlier_look_that_lacks_the_fact_is_unknown() -> None:
    assert judge(TREND, {"things": (COLD,)}, {"things": Unmeasured("denied")}, None).status is Status.UNKNOWN


# Fleet rules

def same_heat(things: Mapping[str, Thing]) -> Iterator[tuple[str, Finding]]:
    yield from outliers({node: str(thing.heat) for node, thing in things.items()}, "heat")


FLEET = rule(same_heat, fleet=True)


def cohort(*heats: Any) -> dict[str, Any]:
    return {f"n{i}": {"things": Thing(f"n{i}", heat)} for i, heat in enumerate(heats)}


def test_the_outlier_of_a_majority_is_named_with_the_majoritys_value() -> None:
    results = judge_fleet(FLEET, cohort(1, 1, 1, 2))
    assert [results[f"n{i}"].status for i in range(4)] == [Status.PASS] * 3 + [Status.FAIL]
    assert results["n3"].findings == (Finding("2", "1, as on 3 of 4 nodes", "heat"),)


def test_without_a_majority_nobody_is_blamed_and_nobody_passes() -> None:
    results = judge_fleet(FLEET, cohort(1, 1, 2, 2))
    assert {(r.status, r.origin) for r in results.values()} == {(Status.UNKNOWN, Origin.MUSTER)}


def test_a_cohort_too_small_to_compare_is_skipped() -> None:
    assert {r.status for r in judge_fleet(FLEET, cohort(1, 2)).values()} == {Status.SKIPPED}


def test_a_node_that_was_not_measured_is_unknown_and_does_not_vote() -> None:
    nodes = {**cohort(1, 1, 1, 2), "n9": {"things": Thing("n9", Unmeasured("hung"))}, "n8": {"things": Unmeasured("denied")}}  # type: ignore[arg-type]
    results = judge_fleet(FLEET, nodes)
    assert (results["n9"].status, results["n8"].status, results["n3"].status) == (Status.UNKNOWN, Status.UNKNOWN, Status.FAIL)
    assert "as on 3 of 4" in str(results["n3"].findings[0].expected)


def test_nodes_without_the_thing_leave_the_cohort() -> None:
    nodes = {**cohort(1, 1, 1), "n9": {"things": Thing("n9", UNSUPPORTED)}}  # type: ignore[arg-type]
    fleet = rule(same_heat, fleet=True, unsupported=Unsupported.SKIP)
    results = judge_fleet(fleet, nodes)
    assert (results["n9"].status, results["n0"].status) == (Status.SKIPPED, Status.PASS)


def test_a_fleet_check_that_fails_by_itself_is_unknown_for_all() -> None:
    def broken(things: Mapping[str, Thing]) -> Iterator[tuple[str, Finding]]:
        raise KeyError("x")
        yield

    assert {r.status for r in judge_fleet(rule(broken, fleet=True), cohort(1, 1, 1)).values()} == {Status.UNKNOWN}


def test_a_check_may_say_itself_that_it_could_not_measure() -> None:
    def picky(things: tuple[Thing, ...]) -> Iterator[Finding]:
        for thing in things:
            if thing.heat < 50:
                raise NotMeasured(thing, "too cold to tell")
            yield Finding(thing.heat, 50, thing.name)

    result = judge(rule(picky), {"things": (COLD,)}, None, None)
    assert (result.status, result.reason) == (Status.UNKNOWN, "thing 0: too cold to tell")


def test_a_check_that_never_comes_to_an_end_of_what_it_could_not_measure_is_stopped_and_does_not_pass() -> None:
    def endless(things: tuple[Thing, ...]) -> Iterator[Finding]:
        if len(things):
            raise NotMeasured(Thing("made up", 1), "for ever")
        yield Finding(0, 0, "never")

    assert judge(rule(endless), {"things": (COLD,)}, None, None).status is Status.UNKNOWN


def test_a_check_that_cannot_tell_of_anything_is_unknown() -> None:
    def blank(things: tuple[Thing, ...]) -> Iterator[Finding]:
        raise NotMeasured(None, "nothing to compare")
        yield

    def blank_fleet(things: Mapping[str, Thing]) -> Iterator[tuple[str, Finding]]:
        raise NotMeasured(None, "nothing to compare")
        yield

    assert judge(rule(blank), {"things": (COLD,)}, None, None).status is Status.UNKNOWN
    assert {r.status for r in judge_fleet(rule(blank_fleet, fleet=True), cohort(1, 1, 1)).values()} == {Status.UNKNOWN}


def test_a_finding_that_is_none_costs_its_rule_only() -> None:
    def odd(things: Mapping[str, Thing]) -> Iterator[tuple[str, Finding]]:
        yield "nobody", Finding(1, 2, "x")

    def lists(things: Mapping[str, Thing]) -> Iterator[tuple[str, Finding]]:
        yield "n0", Finding(["a"], 2, "x")

    assert {r.status for r in judge_fleet(rule(odd, fleet=True), cohort(1, 1, 1)).values()} == {Status.UNKNOWN}
    assert judge_fleet(rule(lists, fleet=True), cohort(1, 1, 1))["n0"].findings == (Finding("['a']", 2, "x"),)


# The guard

@dataclass(frozen=True)
class Nest(Fact):
    """A fact with facts inside, a property, a method and a property that remembers."""

    name: str
    heat: int
    inner: Thing
    several: tuple[Thing, ...]

    @property
    def warm(self) -> bool:
        return self.heat > 30

    @cached_property
    def hottest(self) -> int:
        return max(self.heat, self.inner.heat)

    def over(self, limit: int) -> bool:
        return any(thing.heat > limit for thing in self.several)


HEATLESS = Nest("nest", Unmeasured("hung"), COLD, (COLD,))  # type: ignore[arg-type]
DARK_INSIDE = Nest("nest", 20, DARK, (COLD, DARK))


@pytest.mark.parametrize(("nest", "read"), [
    (HEATLESS, lambda nest: nest.heat), (HEATLESS, lambda nest: nest.warm), (HEATLESS, lambda nest: nest.hottest),
    (HEATLESS, vars), (HEATLESS, lambda nest: nest.__dict__.get("heat")), (HEATLESS, lambda nest: getattr(nest, "heat", 0)),
    (HEATLESS, lambda nest: hasattr(nest, "heat")), (DARK_INSIDE, lambda nest: nest.inner.heat), (DARK_INSIDE, lambda nest: nest.hottest),
    (DARK_INSIDE, lambda nest: nest.over(50)), (DARK_INSIDE, lambda nest: [t.heat for t in nest.several]),
    (HEATLESS, lambda nest: replace(nest, name="x")), (HEATLESS, lambda nest: nest.no_such_field),
])
def test_no_way_of_reading_a_fact_that_is_not_whole_goes_past_the_guard(nest: Nest, read: Callable[[Any], Any]) -> None:
    def reads(nests: tuple[Nest, ...]) -> Iterator[Finding]:
        for each in nests:
            read(each)
        yield from ()

    guards = Guards()
    for _ in range(2):      # as the second of two rules over the same facts too
        found = judge(rule(reads, ("nests",)), {"nests": (nest,)}, None, None, guards)
        assert found.status is Status.UNKNOWN, found


def test_what_is_measured_of_it_is_read_as_it_is() -> None:
    def reads(nests: tuple[Nest, ...]) -> Iterator[Finding]:
        for each in nests:
            assert (each.name, each.heat, each.warm, each.inner.weight, len(each.several)) == ("nest", 20, False, 1, 2)
            assert [thing.name for thing in each.several] == ["thing 0", "thing 2"] and repr(each) == "<nest>"
        yield from ()

    assert judge(rule(reads, ("nests",)), {"nests": (DARK_INSIDE,)}, None, None).status is Status.PASS


def test_one_rules_unmeasured_reading_is_not_laid_to_another_over_the_same_facts() -> None:
    def weighs(things: tuple[Thing, ...]) -> Iterator[Finding]:
        yield from (Finding(thing.weight, 5, thing.name) for thing in things if thing.weight > 5)

    guards, facts = Guards(), {"things": (COLD, DARK)}
    for _ in range(2):
        assert judge(rule(hot), facts, None, None, guards).status is Status.UNKNOWN
        assert judge(rule(weighs), facts, None, None, guards).status is Status.PASS


def test_a_check_can_change_nothing() -> None:
    def writes(things: tuple[Thing, ...]) -> Iterator[Finding]:
        things[0].heat = 20  # type: ignore[misc]
        yield from ()

    def deletes(things: tuple[Thing, ...]) -> Iterator[Finding]:
        del things[0].heat  # type: ignore[misc]
        yield from ()

    for check in (writes, deletes):
        assert judge(rule(check), {"things": (DARK,)}, None, None).status is Status.UNKNOWN
        assert judge(rule(check), {"things": (COLD,)}, None, None).status is Status.UNKNOWN
