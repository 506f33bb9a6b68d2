"""Members that are compared, selections, and facts of the same identity."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from healthcheck.checks.base import SELECTIONS, NotMeasured, Peers, selection
from healthcheck.facts.base import MEMBERS
from healthcheck.facts.values import (
    UNSUPPORTED,
    Fact,
    Unmeasured,
    readable,
)
from healthcheck.judge.judge import judge
from healthcheck.judge.nodefacts import NodeFacts
from healthcheck.model.outcome import Finding, Origin, Status
from healthcheck.ruleset.rule import UnsupportedPolicy
from tests.healthcheck.judge.things import BARE, COLD, DARK, HOT, hot, judged
from tests.healthcheck.rules import Thing, rule, thing


@pytest.fixture
def heavy() -> Iterator[str]:
    """A selection of the things that weigh more than 5."""
    @selection("heavy things")
    def chosen(things: Peers[Thing]) -> list[Thing]:
        return list(things.where(lambda thing: thing.weight > 5).members)

    yield "heavy things"
    del SELECTIONS["heavy things"]


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
    assert [f.subject for f in judge(rule(any_lid, over="high lids"), NodeFacts({"lids": lids}),
                                     None).findings] == ["lid 2"]


class Slot(Fact):
    """A thing that is known by its serial number."""

    IDENTITY = ("serial",)

    name: str
    serial: str
    weight: int


def test_of_two_collections_of_which_one_cannot_be_read_at_all_nothing_was_judged(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MEMBERS, "slot", "slots")

    def both(things: tuple[Thing, ...], slots: tuple[Slot, ...]) -> Iterator[Finding]:
        heats = list(readable(things, lambda thing: thing.heat))
        if heats and sum(slot.weight for slot in slots) > 100:
            yield Finding(len(heats), 0)

    known = rule(both, unsupported=UnsupportedPolicy.SKIP)
    slots = (Slot("slot 0", "S1", 1),)
    assert judged(known, (BARE,), slots=slots).status is Status.SKIPPED
    assert judged(known, (BARE, COLD), slots=slots).status is Status.PASS
