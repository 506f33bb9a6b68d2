"""The judge, fact by fact: what is not measured is never PASS, whatever the check's author did."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import FrozenInstanceError, dataclass
from functools import cached_property
from typing import Any

import pytest

from healthcheck.checks.base import SELECTIONS, NotJudged, NotMeasured, NotSupported, Peers, selection
from healthcheck.checks.fleet import Comparison, Undecided, outliers
from healthcheck.checks.growth import HOUR, MINUTE, Growth
from healthcheck.facts.base import MEMBERS
from healthcheck.facts.snapshot_time import SnapshotTime
from healthcheck.facts.values import (
    UNSUPPORTED,
    Fact,
    Partial,
    Unmeasured,
    changed,
    readable,
    reading,
    readings,
)
from healthcheck.judge.fleetjudge import judge_fleet
from healthcheck.judge.judge import judge
from healthcheck.judge.nodefacts import NodeFacts
from healthcheck.model.outcome import Finding, LogEvidence, Note, Origin, Result, Status
from healthcheck.ruleset.rule import Number, Rule, UnsupportedPolicy
from healthcheck.ruleset.sku import Sku
from tests.healthcheck.rules import Thing, rule, thing

COLD, HOT = thing("thing 0", 20), thing("thing 1", 99)
DARK = thing("thing 2", Unmeasured("the sensor hung"))
BARE = thing("thing 3", UNSUPPORTED)
NONE_SKU = Sku("none", "", {}, frozenset({"things"}), "none.yaml")


def hot(thing: Thing) -> Iterator[Finding]:
    if thing.heat > 50:
        yield Finding(thing.heat, "at most 50")


def judged(known: Rule, things: Any, sku: Sku | None = None, **others: Any) -> Result:
    """What the rule says of a node with these things."""
    return judge(known, NodeFacts({"things": things, **others}), sku)


def test_all_measured_and_fine_is_pass() -> None:
    assert judged(rule(hot), (COLD,)).status is Status.PASS


def test_a_finding_is_fail_is_of_its_subject_and_carries_the_remedy() -> None:
    result = judged(rule(hot), (COLD, HOT))
    assert (result.status, result.findings,
            result.remedy) == (Status.FAIL, (Finding(99, "at most 50", "thing 1"),), "Cool it.")


def test_an_unmeasured_reading_is_unknown_for_its_subject_and_names_it() -> None:
    result = judged(rule(hot), (COLD, DARK))
    assert (result.status, result.origin, result.reason) == (Status.UNKNOWN, Origin.NODE,
                                                             "thing 2: the sensor hung")


def test_a_reading_that_is_missing_by_our_own_fault_is_ours() -> None:
    ours = thing("thing 7", Unmeasured("no such table", Origin.MUSTER))
    assert judged(rule(hot), (COLD, ours)).origin is Origin.MUSTER
    assert judged(rule(hot), (ours, DARK)).origin is Origin.NODE


@pytest.mark.parametrize("order", [(DARK, HOT), (HOT, DARK), (DARK, COLD, HOT, BARE)])
def test_fail_outranks_unknown_and_both_are_reported_in_any_order(order: tuple[Thing, ...]) -> None:
    result = judged(rule(hot), order)
    assert result.status is Status.FAIL
    assert [finding.subject for finding in result.findings] == ["thing 1"]
    assert "thing 2: the sensor hung" in result.reason


def test_a_check_that_swallows_the_exception_is_unknown_all_the_same() -> None:
    def careless(thing: Thing) -> Iterator[Finding]:
        try:
            if thing.heat > 50:
                yield Finding(thing.heat, 50)
        except Exception:  # noqa: BLE001, S110
            pass

    assert judged(rule(careless), (COLD, DARK)).status is Status.UNKNOWN


def test_a_check_that_reads_with_getattr_and_a_default_is_unknown_all_the_same() -> None:
    def sly(things: tuple[Thing, ...]) -> Iterator[Finding]:
        yield from (Finding(1, 0, t.name) for t in things if getattr(t, "heat", 0) > 50)

    assert judged(rule(sly), (DARK,)).status is Status.UNKNOWN


def test_findings_about_a_subject_before_its_unmeasured_reading_are_kept() -> None:
    def both(thing: Thing) -> Iterator[Finding]:
        if thing.weight > 5:
            yield Finding(thing.weight, 5)
        if thing.heat > 50:
            yield Finding(thing.heat, 50)

    result = judged(rule(both), (thing("thing 9", Unmeasured("hung"), 8), HOT))
    assert [(f.subject, f.observed) for f in result.findings] == [("thing 9", 8), ("thing 1", 99)]
    assert "hung" in result.reason


def test_a_whole_collection_is_counted_whatever_of_it_could_not_be_read() -> None:
    def counted(things: tuple[Thing, ...]) -> Iterator[Finding]:
        if len(things) != 2:
            yield Finding(len(things), 2, "things")

    assert judged(rule(counted), (COLD, DARK)).status is Status.PASS
    assert judged(rule(counted), (COLD, DARK, BARE)).status is Status.FAIL


def test_a_check_that_concludes_from_what_is_not_there_says_nothing_where_anything_was_not_read() -> None:
    def counted(things: tuple[Thing, ...]) -> Iterator[Finding]:
        yield Finding(1, 2, "things")
        assert things[-1].heat

    known = rule(counted, counts=True)
    assert judged(known, (COLD,)).status is Status.FAIL
    assert (judged(known, (COLD, DARK)).status, judged(known, (COLD, DARK)).findings) == (Status.UNKNOWN, ())
    assert judged(known, Partial((COLD,), "cut")).findings == ()


def test_an_empty_collection_is_unknown_unless_the_sku_declares_it() -> None:
    assert judged(rule(hot), ()).status is Status.UNKNOWN
    assert judged(rule(hot), (), NONE_SKU).status is Status.SKIPPED


class Card(Fact):
    """What a node has GPUs or ports of; its name stands for it."""

    name: str


@pytest.mark.parametrize(("collection", "numbers", "provisional", "origin"), [
    # A SKU that someone wrote answers for what it does not count, too.
    ("things", {}, False, Origin.NODE), ("things", {"gpu_count": 8}, False, Origin.NODE),
    # One made of what most nodes showed answers for what they showed.
    ("things", {}, True, Origin.MUSTER), ("things", {"gpu_count": 8}, True, Origin.NODE),
    ("gpus", {"gpu_count": 8}, True, Origin.NODE), ("gpus", {"port_count": 8}, True, Origin.MUSTER),
    ("gpu_links", {"port_count": 8}, True, Origin.MUSTER), ("gpu_links", {"gpu_count": 8}, True, Origin.NODE),
    ("ports", {"port_count": 8}, True, Origin.NODE), ("ports", {"gpu_count": 8}, True, Origin.MUSTER),
    ("hcas", {"gpu_count": 8}, True, Origin.MUSTER), ("hcas", {"port_count": 8}, True, Origin.NODE),
])
def test_that_nothing_was_found_is_the_nodes_fault_where_its_sku_tells_that_there_should_be_something(
    collection: str, numbers: dict[str, Any], provisional: bool, origin: Origin, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(MEMBERS, "card", collection)

    def held(card: Card) -> Iterator[Finding]:
        yield Finding(card.name, "no card")

    sku = Sku("s", "", numbers, frozenset(), "s.yaml", provisional)
    result = judge(rule(held), NodeFacts({collection: ()}), sku)
    assert (result.status, result.origin) == (Status.UNKNOWN, origin)
    assert judge(rule(held), NodeFacts({collection: ()}), None).origin is Origin.MUSTER


def test_a_check_of_all_things_is_not_run_where_none_is_there_or_none_was_before() -> None:
    def always(things: tuple[Thing, ...]) -> Iterator[Finding]:
        yield Finding(len(things), 8, "things")

    def always_grown(things: tuple[Thing, ...], growth: Callable[[Thing], Growth[Thing]]) -> Iterator[Finding]:
        yield Finding(len(things), 8, "things")

    assert judged(rule(always), ()).findings == ()
    for before in ((), Unmeasured("denied")):
        result = trend(rule(always_grown), (COLD,), before)
        assert (result.status, result.findings) == (Status.UNKNOWN, ())


def test_what_a_pass_over_a_fact_does_not_cover_is_reported_beside_it() -> None:
    class Short(Fact):
        name: str
        heat: int
        caveat: str

    def warm(thing: Short) -> Iterator[Finding]:
        if thing.heat > 50:
            yield Finding(thing.heat, 50)

    one = Short("thing 0", 20, "by nvidia-smi, which does not give the memory's")
    result = judged(rule(warm), (one, changed(one, name="thing 1")))
    assert (result.status, result.reason) == (Status.PASS, "by nvidia-smi, which does not give the memory's")


def test_a_subject_that_did_not_answer_and_lacks_a_reading_of_ours_besides_has_both_reasons_once() -> None:
    def careless(thing: Thing) -> Iterator[Finding]:
        for _ in range(2):
            for field in ("heat", "weight"):
                with suppress(NotMeasured):
                    getattr(thing, field)
        return
        yield

    one = thing("thing 5", Unmeasured("hung", asked=("thing 5",)), Unmeasured("no table", Origin.MUSTER))
    assert judged(rule(careless), (one,)).reason == "thing 5: hung; thing 5: no table"


def test_a_whole_collection_of_which_some_lack_the_thing_passes_by_the_others() -> None:
    def quiet(things: Peers[Thing]) -> Iterator[Finding]:
        yield from (Finding(heat, 50, one.name) for one, heat in things.read(lambda one: one.heat) if heat > 50)

    result = judged(rule(quiet, unsupported=UnsupportedPolicy.SKIP), (BARE, COLD))
    assert (result.status, result.reason) == (Status.PASS, "not supported: heat of thing 3")


def test_a_fact_that_was_never_captured_is_unknown() -> None:
    assert judge(rule(hot), NodeFacts({}), None).status is Status.UNKNOWN


def test_a_fact_read_in_part_can_fail_but_not_pass() -> None:
    assert judged(rule(hot), Partial((COLD,), "cut")).status is Status.UNKNOWN
    failed = judged(rule(hot), Partial((HOT,), "cut"))
    assert (failed.status, failed.reason) == (Status.FAIL, "things: cut")
    assert judged(rule(hot), Partial((), "cut"), NONE_SKU).status is Status.UNKNOWN


@pytest.mark.parametrize(("policy", "status"),
                         [(UnsupportedPolicy.SKIP, Status.SKIPPED),
                          (UnsupportedPolicy.UNKNOWN, Status.UNKNOWN), (UnsupportedPolicy.FAIL, Status.FAIL)])
def test_unsupported_follows_the_rule(policy: UnsupportedPolicy, status: Status) -> None:
    assert judged(rule(hot, unsupported=policy), (BARE,)).status is status


def test_unsupported_on_one_subject_is_reported_beside_the_pass_of_the_others() -> None:
    result = judged(rule(hot, unsupported=UnsupportedPolicy.SKIP), (BARE, COLD))
    assert (result.status, result.reason) == (Status.PASS, "not supported: heat of thing 3")


def test_a_check_that_fails_by_itself_is_unknown_and_ours_and_hides_no_other_subject() -> None:
    def broken(thing: Thing) -> Iterator[Finding]:
        yield Finding(1 // (thing.heat - 20), 0)

    result = judged(rule(broken), (COLD,))
    assert (result.status, result.origin) == (Status.UNKNOWN, Origin.MUSTER)
    assert "ZeroDivisionError" in result.reason
    assert [found.subject for found in judged(rule(broken), (COLD, HOT)).findings] == ["thing 1"]


def test_a_flood_of_findings_is_bounded() -> None:
    def flood(thing: Thing) -> Iterator[Finding | Note]:
        number = 0
        while True:
            number += 1
            yield Finding(number, 0, f"thing {number}")

    assert len(judged(rule(flood), (COLD, HOT)).findings) == 200


def test_what_a_node_said_is_made_harmless_in_findings() -> None:
    def echo(thing: Thing) -> Iterator[Finding]:
        yield Finding("a\nb\x00" + "x" * 9999, "\udc80", "\x1b[31mred")

    (finding,) = judged(rule(echo), (COLD,)).findings
    assert finding.subject == "\\x1b[31mred"
    assert str(finding.observed).startswith("a\\nb\\x00") and len(str(finding.observed)) == 400
    assert finding.expected == "\\x80"


def test_a_note_is_reported_beside_the_result_once() -> None:
    def notes(thing: Thing) -> Iterator[Note]:
        yield Note("worth a look")

    result = judged(rule(notes), (COLD, HOT))
    assert (result.status, result.reason) == (Status.PASS, "worth a look")


def test_a_check_with_nothing_to_go_by_is_skipped() -> None:
    def declines(thing: Thing) -> Iterator[Finding]:
        raise NotJudged("there is one thing")
        yield

    result = judged(rule(declines), (COLD,))
    assert (result.status, result.reason) == (Status.SKIPPED, "there is one thing")


def test_a_subject_with_nothing_to_go_by_hides_no_fault_and_no_refusal_of_those_before_it() -> None:
    def declines_cold(thing: Thing) -> Iterator[Finding]:
        if thing.heat < 50:
            raise NotJudged("it is cold")
        yield Finding(thing.heat, 50)

    failed = judged(rule(declines_cold), (HOT, COLD))
    assert (failed.status, failed.reason) == (Status.FAIL, "it is cold")
    assert judged(rule(declines_cold), (DARK, COLD)).status is Status.UNKNOWN


def test_a_subject_to_which_a_check_does_not_apply_hides_no_fault_of_those_after_it() -> None:
    def declines_cold(thing: Thing) -> Iterator[Finding]:
        if thing.heat < 50:
            raise NotJudged("it is cold")
        yield Finding(thing.heat, 50)

    for order in ((COLD, HOT), (HOT, COLD), (COLD, HOT, COLD)):
        result = judged(rule(declines_cold), order)
        assert (result.status, [one.subject for one in result.findings], result.reason) == (Status.FAIL, ["thing 1"], "it is cold")
    assert judged(rule(declines_cold), (COLD, DARK)).status is Status.UNKNOWN
    assert judged(rule(declines_cold), (COLD, COLD)).reason == "it is cold"


def test_a_defect_of_one_subject_in_what_stands_beside_it_hides_no_fault_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd(Fact):
        """A thing whose identity cannot be computed where it is heavy."""

        name: str
        weight: int

        @property
        def identity(self) -> tuple[Any, ...]:
            return (self.name if self.weight < 9 else [],)

    monkeypatch.setitem(MEMBERS, "odd", "odds")

    def of_hot(odd: Odd, thing: Thing) -> Iterator[Finding]:
        if thing.heat > 50:
            yield Finding(thing.heat, 50)

    for odds in ((Odd("thing 0", 9), Odd("thing 1", 1)), (Odd("thing 1", 1), Odd("thing 0", 9))):
        result = judged(rule(of_hot), (COLD, HOT), odds=odds)
        assert (result.status, [one.subject for one in result.findings]) == (Status.FAIL, ["thing 1"])
        assert "the check failed: TypeError" in result.reason
    only = judged(rule(of_hot), (COLD, HOT), odds=(Odd("thing 0", 9), Odd("thing 0", 1)))
    assert (only.status, only.origin) == (Status.UNKNOWN, Origin.MUSTER)


def test_a_rule_left_out_is_skipped_and_visible() -> None:
    result = judged(rule(hot, left_out="left out by --skip"), (HOT,))
    assert (result.status, result.reason) == (Status.SKIPPED, "left out by --skip")


def test_a_number_without_a_sku_is_unknown_and_ours_and_a_declined_one_is_skipped() -> None:
    needs = rule(hot, parameters={"limit": Number("heat_limit")})
    unknown = judged(needs, (COLD,))
    assert (unknown.status, unknown.origin) == (Status.UNKNOWN, Origin.MUSTER)
    declined = Sku("s", "", {"heat_limit": None}, frozenset(), "s.yaml")
    assert judged(needs, (COLD,), declined).status is Status.SKIPPED


def test_a_check_may_say_itself_that_it_could_not_measure_one_subject() -> None:
    def picky(thing: Thing) -> Iterator[Finding]:
        if thing.heat < 50:
            raise NotMeasured(thing, "too cold to tell")
        yield Finding(thing.heat, 50)

    result = judged(rule(picky), (COLD, HOT))
    assert (result.status, result.reason) == (Status.FAIL, "thing 0: too cold to tell")
    assert judged(rule(picky), (COLD,)).status is Status.UNKNOWN


def test_a_check_that_cannot_tell_of_anything_is_unknown() -> None:
    def blank(things: tuple[Thing, ...]) -> Iterator[Finding]:
        raise NotMeasured(None, "nothing to compare")
        yield

    def blank_fleet(things: Mapping[str, Thing]) -> Comparison:
        raise NotMeasured(None, "nothing to compare")
        yield

    assert judged(rule(blank), (COLD,)).status is Status.UNKNOWN
    assert {r.status for r in judge_fleet(rule(blank_fleet, fleet=True),
                                          cohort(1, 1, 1)).values()} == {Status.UNKNOWN}


def test_one_rules_unmeasured_reading_is_not_laid_to_another_over_the_same_facts() -> None:
    def weighs(thing: Thing) -> Iterator[Finding]:
        if thing.weight > 5:
            yield Finding(thing.weight, 5)

    snapshot = NodeFacts({"things": (COLD, DARK)})
    for _ in range(2):
        assert judge(rule(hot), snapshot, None).status is Status.UNKNOWN
        assert judge(rule(weighs), snapshot, None).status is Status.PASS


# Members that are compared with each other

def odd(things: Peers[Thing]) -> Iterator[Finding]:
    heats = things.read(lambda thing: thing.heat)
    most = max(heat for _, heat in heats)
    for one, heat in heats:
        if heat < most:
            yield Finding(heat, most, one.name)


def test_a_peer_that_cannot_be_read_is_unknown_by_itself_and_the_others_are_compared() -> None:
    result = judged(rule(odd), (COLD, DARK, HOT))
    assert [found.subject for found in result.findings] == ["thing 0"]
    assert "thing 2: the sensor hung" in result.reason
    assert judged(rule(odd), (HOT, DARK)).status is Status.UNKNOWN


def test_where_no_peer_has_the_thing_the_rule_is_skipped() -> None:
    def listed(things: Peers[Thing]) -> Iterator[Finding]:
        yield from (Finding(heat, 0, one.name) for one, heat in things.read(lambda thing: thing.heat))

    known = rule(listed, unsupported=UnsupportedPolicy.SKIP)
    assert judged(known, (BARE,)).status is Status.SKIPPED
    assert judged(known, (BARE, COLD)).status is Status.FAIL


# Selections, and facts of the same identity

@pytest.fixture
def heavy() -> Iterator[str]:
    """A selection of the things that weigh more than 5."""
    @selection("heavy things")
    def chosen(things: Peers[Thing]) -> list[Thing]:
        return list(things.where(lambda thing: thing.weight > 5).members)

    yield "heavy things"
    del SELECTIONS["heavy things"]


def test_a_check_over_a_selection_judges_what_was_chosen_and_no_other(heavy: str) -> None:
    known = rule(hot, over=heavy)
    assert [f.subject for f in judged(known, (HOT, thing("heavy", 98, 9))).findings] == ["heavy"]
    assert judged(known, (HOT,)).status is Status.PASS


def test_what_a_selection_could_not_read_is_unknown(heavy: str) -> None:
    result = judged(rule(hot, over=heavy), (COLD, thing("odd", 1, Unmeasured("no scales"))))
    assert (result.status, result.reason) == (Status.UNKNOWN, "odd: no scales")


def test_a_selection_that_fails_costs_its_rules_only(heavy: str) -> None:
    @selection("heavy things")
    def fails(things: tuple[Thing, ...]) -> list[Thing]:
        raise KeyError("x")

    assert judged(rule(hot, over=heavy), (COLD,)).origin is Origin.MUSTER

    @selection("heavy things")
    def declines(things: tuple[Thing, ...]) -> list[Thing]:
        raise NotMeasured(None, "not one of them is there")

    result = judged(rule(hot, over=heavy), (COLD,))
    assert (result.status, result.reason) == (Status.UNKNOWN, "thing.heat: not one of them is there")
    before = NotMeasured(None, "it was not there before")

    @selection("heavy things")
    def declines_again(things: tuple[Thing, ...]) -> list[Thing]:
        raise before

    result = judged(rule(hot, over=heavy), (COLD,))
    assert (result.status, result.reason) == (Status.UNKNOWN, "thing.heat: it was not there before")


class Lid(Fact):
    """A part of a thing, found by the thing's name and its own number."""

    IDENTITY = ("thing", "number")

    name: str
    thing: str
    number: int


def test_beside_a_subject_a_check_may_have_the_fact_of_the_same_identity(
    monkeypatch: pytest.MonkeyPatch, heavy: str,
) -> None:
    def of_hot(lid: Lid, thing: Thing) -> Iterator[Finding]:
        if thing.heat > 50:
            yield Finding(thing.heat, 50)

    monkeypatch.setitem(MEMBERS, "lid", "lids")
    lids = (Lid("lid 1", "thing 0", 1), Lid("lid 2", "thing 1", 2))
    assert [f.subject for f in judged(rule(of_hot), (COLD, HOT), lids=lids).findings] == ["lid 2"]
    missing = judged(rule(of_hot), (COLD,), lids=lids)
    assert (missing.status, missing.reason) == (Status.UNKNOWN,
                                                "lid 2: there is no thing of the same identity")
    of_heavy = rule(of_hot, over=heavy)
    assert [f.subject for f in judged(of_heavy, (HOT, thing("thing 0", 98, 9)),
                                      lids=lids).findings] == ["lid 1"]
    # Where nothing was chosen, what cannot be identified is not asked for.
    odd = Lid("lid 3", UNSUPPORTED, 3)
    assert judged(of_heavy, (HOT,), lids=(odd,)).status is Status.PASS
    assert judged(of_heavy, (thing("thing 0", 98, 9),), lids=(odd,)).reason == "not supported: thing of lid 3"


def test_what_was_chosen_of_the_collection_itself_needs_no_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MEMBERS, "lid", "lids")

    @selection("high lids")
    def chosen(lids: Peers[Lid]) -> list[Lid]:
        return list(lids.where(lambda lid: lid.number > 1).members)

    monkeypatch.setitem(SELECTIONS, "high lids", SELECTIONS.pop("high lids"))

    def any_lid(lid: Lid) -> Iterator[Finding]:
        yield Finding(lid.number, 0)

    lids = (Lid("lid 1", "thing 0", 1), Lid("lid 2", Unmeasured("no label"), 2))
    assert [f.subject for f in judge(rule(any_lid, over="high lids"), NodeFacts({"lids": lids}), None).findings] == ["lid 2"]


# Trend rules

def grew(thing: Thing, growth: Growth[Thing]) -> Iterator[Finding]:
    if growth.of("weight") > 0:
        yield Finding(thing.weight, growth.before.weight)


TREND = rule(grew)


def trend(known: Rule, now: Any, before: Any, seconds: float = 60.0) -> Result:
    """What a rule says of these things, and those of so many seconds before."""
    earlier = {"things": before, "look": SnapshotTime("look", 1000.0 - seconds, 0.0)}
    return judge(known, NodeFacts({"things": now, "look": SnapshotTime("look", 1000.0, 0.0)}, earlier), None)


def test_a_trend_without_an_earlier_snapshot_is_skipped_visibly() -> None:
    result = judged(TREND, (COLD,), look=SnapshotTime("look", 1.0, 1.0))
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


# Fleet rules

def same_heat(things: Mapping[str, Thing]) -> Comparison:
    yield from outliers(things, lambda thing: str(thing.heat), "heat")


FLEET = rule(same_heat, fleet=True)


def cohort(*heats: Any) -> dict[str, NodeFacts]:
    return {f"n{i}": NodeFacts({"things": thing(f"n{i}", heat)}) for i, heat in enumerate(heats)}


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


# Facts that refuse

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
    (HEATLESS, lambda nest: nest.heat), (HEATLESS, lambda nest: nest.warm),
    (HEATLESS, lambda nest: nest.hottest), (HEATLESS, lambda nest: nest.__dict__["heat"]),
    (HEATLESS, lambda nest: getattr(nest, "heat", 0)), (HEATLESS, lambda nest: hasattr(nest, "heat")),
    (DARK_INSIDE, lambda nest: nest.inner.heat), (DARK_INSIDE, lambda nest: nest.hottest),
    (DARK_INSIDE, lambda nest: nest.over(50)), (DARK_INSIDE, lambda nest: [t.heat for t in nest.several]),
    (HEATLESS, lambda nest: nest.no_such_field)])
def test_no_way_of_reading_what_a_fact_lacks_makes_a_pass(nest: Nest, read: Callable[[Any], Any],
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    def reads(nest: Nest) -> Iterator[Finding]:
        read(nest)
        yield from ()

    monkeypatch.setitem(MEMBERS, "nest", "nests")
    for _ in range(2):
        found = judge(rule(reads), NodeFacts({"nests": (nest,)}), None)
        assert found.status is Status.UNKNOWN, found


def test_what_is_measured_of_it_is_read_as_it_is() -> None:
    assert (DARK_INSIDE.heat, DARK_INSIDE.warm, DARK_INSIDE.inner.weight,
            len(DARK_INSIDE.several)) == (20, False, 1, 2)
    assert repr(HEATLESS).startswith("Nest(name='nest', heat=Unmeasured(reason='hung'")


def test_other_code_asks_for_the_value_or_the_reason() -> None:
    assert (reading(HEATLESS, "heat"), reading(HEATLESS, "warm")) == (Unmeasured("hung"),) * 2
    assert (reading(BARE, "heat"), reading(COLD, "heat"),
            reading(DARK_INSIDE, "warm")) == (UNSUPPORTED, 20, False)
    assert readings(BARE) == {"name": "thing 3", "heat": UNSUPPORTED, "weight": 1}
    assert [found for _, found in readable((COLD, DARK, BARE, HOT), lambda thing: thing.heat)] == [20, 99]


def test_asking_for_the_reason_is_no_refusal_of_a_check() -> None:
    def asks(thing: Thing) -> Iterator[Finding]:
        reading(thing, "heat")
        yield from ()

    assert judged(rule(asks), (DARK,)).status is Status.PASS


def test_a_fact_can_be_copied_pickled_and_compared_whatever_it_lacks() -> None:
    for fact in (DARK, BARE, COLD, HEATLESS, DARK_INSIDE):
        for same in (copy.copy(fact), copy.deepcopy(fact), pickle.loads(pickle.dumps(fact))):  # noqa: S301
            assert (same, hash(same), repr(same)) == (fact, hash(fact), repr(fact))
    assert thing("thing 2", Unmeasured("another reason")) != DARK
    assert DARK != thing("thing 2", UNSUPPORTED) != COLD
    assert changed(DARK, weight=5) == thing("thing 2", Unmeasured("the sensor hung"), 5)
    with pytest.raises(NotMeasured, match="the sensor hung"):
        _ = changed(DARK, weight=5).heat
    with pytest.raises(NotSupported, match="thing 3: heat is not supported"):
        _ = BARE.heat


def test_a_field_with_a_default_is_refused_when_the_class_is_made() -> None:
    with pytest.raises(TypeError, match=r"Lax\.heat has a default"):
        class Lax(Fact):
            name: str
            heat: int = 0


@pytest.mark.parametrize("given",
                         [{}, {"name": "x"}, {"name": "x", "heat": 1, "colour": 2}, {"name": "x", "haet": 1}])
def test_a_fact_is_made_with_exactly_its_fields(given: dict[str, Any]) -> None:
    class Pot(Fact):
        name: str
        heat: int

    assert Pot("x", 1) == Pot(name="x", heat=1) == Pot("x", heat=1) != Pot("x", 2)
    with pytest.raises(TypeError, match="Pot has the fields name, heat; missing or not among them: "):
        Pot(**given)
    for values, named in ((("x", 1, 2), {}), (("x", 1), {"heat": 2})):
        with pytest.raises(TypeError, match="3 values"):
            Pot(*values, **named)


def test_a_plug_ins_fact_that_is_a_dataclass_besides_refuses_what_it_lacks_too() -> None:
    @dataclass(frozen=True)
    class Kettle(Fact):
        name: str
        heat: int

    with pytest.raises(NotMeasured, match="no probe"):
        _ = Kettle("kettle", Unmeasured("no probe")).heat  # type: ignore[arg-type]


def test_a_misspelt_field_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Thing has no haet"):
        _ = COLD.haet  # type: ignore[attr-defined]


def test_a_check_can_change_nothing() -> None:
    def writes(thing: Thing) -> Iterator[Finding]:
        thing.heat = 20  # type: ignore[misc]
        yield from ()

    def deletes(thing: Thing) -> Iterator[Finding]:
        del thing.heat
        yield from ()

    for check in (writes, deletes):
        assert judged(rule(check), (DARK,)).status is Status.UNKNOWN
        assert judged(rule(check), (COLD,)).status is Status.UNKNOWN
    with pytest.raises(FrozenInstanceError):
        COLD.heat = 3  # type: ignore[misc]


# What is not there to be judged

NOW = SnapshotTime("look", 1000.0, 0.0)
BEFORE = SnapshotTime("look", 940.0, 0.0)


@pytest.mark.parametrize(("now", "earlier"), [
    (Unmeasured("denied"), {"things": (COLD,), "look": BEFORE}),
    ((), {"things": (COLD,), "look": BEFORE}),
    ((COLD,), None),
    ((COLD,), {"look": BEFORE}),
    ((COLD,), {"things": Unmeasured("denied"), "look": BEFORE}),
    ((COLD,), {"things": (), "look": BEFORE}),
])
def test_a_check_is_not_run_where_one_of_its_snapshots_has_nothing_to_judge(now: Any, earlier: Any) -> None:
    run = []

    def counted(thing: Thing, growth: Growth[Thing]) -> Iterator[Finding]:
        run.append(thing.name)
        return iter(())

    judge(rule(counted), NodeFacts({"things": now, "look": NOW}, earlier), None)
    assert run == []
    assert trend(rule(counted), (COLD,), (COLD,)).status is Status.PASS
    assert run == ["thing 0"]


def test_a_refusal_that_was_made_elsewhere_is_unknown_all_the_same() -> None:
    made = NotMeasured(HOT, "it was asked before")

    def again(thing: Thing) -> Iterator[Finding]:
        raise made
        yield

    result = judged(rule(again), (HOT,))
    assert (result.status, result.reason) == (Status.UNKNOWN, "thing 1: it was asked before")


def test_a_check_that_does_not_apply_to_what_it_could_read_has_judged_nothing() -> None:
    def declines_cold(thing: Thing) -> Iterator[Finding]:
        if thing.heat < 50:
            raise NotJudged("it is cold")
        return iter(())

    def declines_bare(things: Peers[Thing]) -> Iterator[Finding]:
        if not things.read(lambda thing: thing.heat):
            raise NotJudged("nothing has heat")
        return iter(())

    skips = UnsupportedPolicy.SKIP
    result = judged(rule(declines_cold, unsupported=skips), (BARE, COLD))
    assert (result.status, result.reason) == (Status.SKIPPED, "not supported: heat of thing 3; it is cold")
    assert judged(rule(declines_cold, unsupported=skips), (BARE, HOT)).status is Status.PASS
    assert judged(rule(declines_bare, unsupported=skips), (BARE,)).status is Status.SKIPPED


class Slot(Fact):
    """A thing that is known by its serial number."""

    IDENTITY = ("serial",)

    name: str
    serial: str
    weight: int


def test_a_subject_that_cannot_be_paired_hides_no_other_that_was_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MEMBERS, "slot", "slots")

    def heavier(slot: Slot, growth: Growth[Slot]) -> Iterator[Finding]:
        if growth.of("weight"):
            yield Finding(slot.weight, 0)

    known = rule(heavier, unsupported=UnsupportedPolicy.SKIP)
    paired, bare = Slot("slot 0", "S1", 1), Slot("slot 1", UNSUPPORTED, 1)

    def result(*slots: Slot) -> Result:
        return judge(known, NodeFacts({"slots": slots, "look": NOW}, {"slots": slots, "look": BEFORE}), None)

    assert (result(paired, bare).status, result(paired, bare).reason) == (Status.PASS, "not supported: serial of slot 1")
    assert result(bare).status is Status.SKIPPED


def test_of_two_collections_of_which_one_cannot_be_read_at_all_nothing_was_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MEMBERS, "slot", "slots")

    def both(things: tuple[Thing, ...], slots: tuple[Slot, ...]) -> Iterator[Finding]:
        heats = list(readable(things, lambda thing: thing.heat))
        if heats and sum(slot.weight for slot in slots) > 100:
            yield Finding(len(heats), 0)

    known = rule(both, unsupported=UnsupportedPolicy.SKIP)
    slots = (Slot("slot 0", "S1", 1),)
    assert judged(known, (BARE,), slots=slots).status is Status.SKIPPED
    assert judged(known, (BARE, COLD), slots=slots).status is Status.PASS


class Guarded(Fact):
    """A thing with words on what a PASS over it does not cover."""

    name: str
    heat: int
    caveat: str


def test_what_is_not_judged_for_a_subjects_silence_is_reported_in_lines_of_a_bounded_length() -> None:
    mute = Guarded("thing 2", Unmeasured("x" * 5000, asked=("GPU 0",)), "n" * 5000)
    result = judged(rule(hot), (mute,))
    assert [(len(one.text), one.note) for one in result.unjudged] == [(1000, False), (1000, True)]


def test_a_reason_is_one_line_of_a_bounded_length() -> None:
    assert judged(rule(hot, left_out="x" * 5000), (HOT,)).reason == "x" * 999 + "…"


def test_a_findings_own_remedy_is_one_line_of_a_bounded_length() -> None:
    def remedied(thing: Thing) -> Iterator[Finding]:
        yield Finding(thing.heat, 50, remedy="x" * 5000)

    assert judged(rule(remedied), (HOT,)).findings[0].remedy == "x" * 999 + "…"


@pytest.mark.parametrize(("given", "kept"), [
    (LogEvidence("x" * 500, "y" * 500, records=(5, True, "7", 3)), LogEvidence("x" * 79 + "…", "y" * 19 + "…")),  # type: ignore[arg-type]
    (None, None)])
def test_the_evidence_of_a_log_is_numbers_and_bounded_words(given: LogEvidence | None, kept: LogEvidence | None) -> None:
    def logged(thing: Thing) -> Iterator[Finding]:
        yield Finding(thing.heat, 50, log=given)

    (found,) = judged(rule(logged), (HOT,)).findings
    assert found.log == kept
    assert found.log is None or found.log.records == (5, 3)


def test_what_is_no_evidence_of_a_log_is_a_defect_of_its_check() -> None:
    def logged(thing: Thing) -> Iterator[Finding]:
        yield Finding(thing.heat, 50, log="a line")     # type: ignore[arg-type]

    result = judged(rule(logged), (HOT,))
    assert result.status is Status.UNKNOWN and "the check failed: ValueError: 'a line' is no evidence of a log" in result.reason
