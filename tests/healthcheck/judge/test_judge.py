"""The judge, fact by fact: what is not measured is never PASS, whatever the check's author did."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import wraps
from typing import Any

import pytest

from healthcheck.checks.base import NotJudged, NotMeasured, Peers
from healthcheck.checks.fleet import Comparison
from healthcheck.checks.growth import Growth
from healthcheck.facts.base import MEMBERS
from healthcheck.facts.values import (
    Fact,
    Partial,
    Unmeasured,
    changed,
)
from healthcheck.judge.fleetjudge import judge_fleet
from healthcheck.judge.judge import judge
from healthcheck.judge.nodefacts import NodeFacts
from healthcheck.model.outcome import Finding, LogEvidence, Note, Origin, Status
from healthcheck.ruleset.rule import Number, UnsupportedPolicy
from healthcheck.ruleset.sku import Sku
from tests.healthcheck.judge.things import BARE, COLD, DARK, HOT, NONE_SKU, cohort, hot, judged, trend
from tests.healthcheck.rules import Thing, rule, thing


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


def over(thing: Thing, *, limit: int, by: int = 10) -> Iterator[Finding]:
    if thing.heat > limit + by:
        yield Finding(thing.heat, f"at most {limit} + {by}")


@wraps(over)
def wrapped(*given: Any, **values: Any) -> Iterator[Finding]:
    yield from over(*given, **values)


@pytest.mark.parametrize("function", [over, wrapped])
@pytest.mark.parametrize(("values", "expected"), [
    ({"limit": 50}, "at most 50 + 10"), ({"limit": 5, "by": 2}, "at most 5 + 2"), ({"limit": 90}, None)])
def test_a_check_is_called_with_its_rules_values_and_its_own_defaults(
        function: Callable[..., Any], values: dict[str, int], expected: str | None) -> None:
    found = judged(rule(function, parameters=dict(values)), (HOT,)).findings
    assert [one.expected for one in found] == ([expected] if expected else [])
    assert judged(rule(function, parameters={"limit": 0, "by": 0}), (HOT,)).findings   # of each rule its own


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
    collection: str, numbers: dict[str, Any], provisional: bool, origin: Origin,
    monkeypatch: pytest.MonkeyPatch,
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

    def always_grown(things: tuple[Thing, ...],
                     growth: Callable[[Thing], Growth[Thing]]) -> Iterator[Finding]:
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
        yield from (Finding(heat, 50, one.name)
                    for one, heat in things.read(lambda one: one.heat) if heat > 50)

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


def test_a_subject_to_which_a_check_does_not_apply_hides_no_fault_and_no_refusal_of_another() -> None:
    def declines_cold(thing: Thing) -> Iterator[Finding]:
        if thing.heat < 50:
            raise NotJudged("it is cold")
        yield Finding(thing.heat, 50)

    for order in ((COLD, HOT), (HOT, COLD), (COLD, HOT, COLD)):
        result = judged(rule(declines_cold), order)
        assert (result.status, [one.subject for one in result.findings],
                result.reason) == (Status.FAIL, ["thing 1"], "it is cold")
    assert {judged(rule(declines_cold), order).status
            for order in ((COLD, DARK), (DARK, COLD))} == {Status.UNKNOWN}
    assert judged(rule(declines_cold), (COLD, COLD)).reason == "it is cold"


def test_a_defect_of_one_subject_in_what_stands_beside_it_hides_no_fault_of_another(
        monkeypatch: pytest.MonkeyPatch) -> None:
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
    (LogEvidence("x" * 500, "y" * 500, records=(5, True, "7", 3)),
     LogEvidence("x" * 79 + "…", "y" * 19 + "…")),  # type: ignore[arg-type]
    (None, None)])
def test_the_evidence_of_a_log_is_numbers_and_bounded_words(given: LogEvidence | None,
                                                            kept: LogEvidence | None) -> None:
    def logged(thing: Thing) -> Iterator[Finding]:
        yield Finding(thing.heat, 50, log=given)

    (found,) = judged(rule(logged), (HOT,)).findings
    assert found.log == kept
    assert found.log is None or found.log.records == (5, 3)


def test_what_is_no_evidence_of_a_log_is_a_defect_of_its_check() -> None:
    def logged(thing: Thing) -> Iterator[Finding]:
        yield Finding(thing.heat, 50, log="a line")     # type: ignore[arg-type]

    result = judged(rule(logged), (HOT,))
    assert (result.status is Status.UNKNOWN
            and "the check failed: ValueError: 'a line' is no evidence of a log" in result.reason)
