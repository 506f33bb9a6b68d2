"""Rules that compare the nodes of a cohort."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from healthcheck.checks.base import NotMeasured
from healthcheck.checks.fleet import Comparison, Undecided, outliers
from healthcheck.facts.values import (
    UNSUPPORTED,
    Unmeasured,
)
from healthcheck.judge.fleetjudge import judge_fleet
from healthcheck.judge.nodefacts import NodeFacts
from healthcheck.model.outcome import Finding, Origin, Status
from healthcheck.ruleset.rule import UnsupportedPolicy
from tests.healthcheck.judge.things import cohort
from tests.healthcheck.rules import Thing, rule, thing


def same_heat(things: Mapping[str, Thing]) -> Comparison:
    yield from outliers(things, lambda thing: str(thing.heat), "heat")


FLEET = rule(same_heat, fleet=True)


def test_the_outlier_of_a_majority_is_named_with_the_majoritys_value() -> None:
    results = judge_fleet(FLEET, cohort(1, 1, 1, 2))
    assert [results[f"n{i}"].status for i in range(4)] == [Status.PASS] * 3 + [Status.FAIL]
    assert results["n3"].findings == (Finding("2", "1, as on 3 of 4 nodes", "heat"),)


def test_without_a_majority_no_one_is_blamed_and_no_one_passes() -> None:
    results = judge_fleet(FLEET, cohort(1, 1, 2, 2))
    assert {(r.status, r.origin) for r in results.values()} == {(Status.UNKNOWN, Origin.MUSTER)}


def test_a_cohort_too_small_to_compare_is_skipped() -> None:
    assert {r.status for r in judge_fleet(FLEET, cohort(1, 2)).values()} == {Status.SKIPPED}


def test_a_cohort_too_small_once_those_that_could_not_be_read_are_out_is_skipped() -> None:
    results = judge_fleet(FLEET, cohort(1, 2, Unmeasured("hung")))
    assert [results[node].status for node in ("n0", "n1", "n2")] == [
        Status.SKIPPED, Status.SKIPPED, Status.UNKNOWN]


def test_a_node_that_was_not_measured_is_unknown_and_does_not_vote() -> None:
    nodes = {**cohort(1, 1, 1, 2), "n9": NodeFacts({"things": thing("n9", Unmeasured("hung"))}),
             "n8": NodeFacts({"things": Unmeasured("denied")})}
    results = judge_fleet(FLEET, nodes)
    assert (results["n9"].status, results["n8"].status,
            results["n3"].status) == (Status.UNKNOWN, Status.UNKNOWN, Status.FAIL)
    assert "as on 3 of 4" in str(results["n3"].findings[0].expected)


def test_nodes_that_share_one_fact_that_cannot_be_read_are_all_unknown() -> None:
    shared = thing("n", Unmeasured("hung"))
    nodes = {**cohort(1, 1, 1), **{f"x{n}": NodeFacts({"things": shared}) for n in range(2)}}
    results = judge_fleet(FLEET, nodes)
    assert [results[node].status for node in ("n0", "x0", "x1")] == [
        Status.PASS, Status.UNKNOWN, Status.UNKNOWN]


def test_nodes_without_the_thing_leave_the_cohort() -> None:
    nodes = {**cohort(1, 1, 1), "n9": NodeFacts({"things": thing("n9", UNSUPPORTED)})}
    results = judge_fleet(rule(same_heat, fleet=True, unsupported=UnsupportedPolicy.SKIP), nodes)
    assert (results["n9"].status, results["n0"].status) == (Status.SKIPPED, Status.PASS)


def test_a_fleet_rule_left_out_is_skipped_and_visible_on_each_node() -> None:
    results = judge_fleet(rule(same_heat, fleet=True, left_out="left out by --skip"), cohort(1, 1, 2))
    assert {(r.status, r.reason) for r in results.values()} == {(Status.SKIPPED, "left out by --skip")}


def test_a_node_whose_peers_disagree_is_unknown_by_itself_and_not_by_its_own_fault() -> None:
    def torn(things: Mapping[str, Thing]) -> Comparison:
        yield "n1", Undecided("slot 3", "two halves differ")

    results = judge_fleet(rule(torn, fleet=True), cohort(1, 1, 1))
    assert [results[f"n{i}"].status for i in range(3)] == [Status.PASS, Status.UNKNOWN, Status.PASS]
    assert (results["n1"].reason, results["n1"].origin) == ("slot 3: two halves differ", Origin.MUSTER)


def test_a_node_that_refused_a_reading_is_accused_of_nothing_that_a_check_found_of_it_without() -> None:
    def careless(things: Mapping[str, Thing]) -> Comparison:
        for node, one in things.items():
            heat = 99
            with suppress(NotMeasured):
                heat = one.heat
            if heat > 50:
                yield node, Finding("hot", 50, "x")
                yield node, Undecided("x", "it is hot")

    results = judge_fleet(rule(careless, fleet=True), cohort(1, 99, 1, Unmeasured("hung")))
    assert (results["n3"].status, results["n3"].findings, results["n3"].reason) == (
        Status.UNKNOWN, (), "n3: hung")
    assert results["n1"].status is Status.FAIL


def test_a_fleet_check_that_fails_by_itself_is_unknown_for_all() -> None:
    def broken(things: Mapping[str, Thing]) -> Comparison:
        raise KeyError("x")
        yield

    assert {r.status for r in judge_fleet(rule(broken, fleet=True),
                                          cohort(1, 1, 1)).values()} == {Status.UNKNOWN}


def test_a_fleet_check_that_reads_past_its_helpers_what_was_not_measured_passes_no_one() -> None:
    def careless(things: Mapping[str, Thing]) -> Comparison:
        yield from ((node, Finding(thing.heat, 50, "x")) for node, thing in things.items() if thing.heat > 50)

    results = judge_fleet(rule(careless, fleet=True), cohort(1, 99, 1, Unmeasured("hung")))
    assert {result.status for result in results.values()} == {Status.UNKNOWN}


def test_a_finding_that_is_none_costs_its_rule_only() -> None:
    def odd_node(things: Mapping[str, Thing]) -> Comparison:
        yield "nobody", Finding(1, 2, "x")

    def lists(things: Mapping[str, Thing]) -> Comparison:
        yield "n0", Finding(["a"], 2, "x")

    assert {r.status for r in judge_fleet(rule(odd_node, fleet=True),
                                          cohort(1, 1, 1)).values()} == {Status.UNKNOWN}
    assert judge_fleet(rule(lists, fleet=True), cohort(1, 1, 1))["n0"].findings == (Finding("['a']", 2, "x"),)
