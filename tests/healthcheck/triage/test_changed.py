"""What a change of rules, SKUs, policy, baselines or muster can have brought, and what is none of it; in
words that claim no more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from healthcheck.model.faultkind import FaultKind, Isolation
from healthcheck.model.problem import Problem
from healthcheck.store.versions import POLICY, THERE
from healthcheck.triage.changed import (
    ChangeIndex,
    back,
    brings,
    came_with,
    difference,
    failed_before,
    judges,
    line,
    lines,
    raises,
    went_with,
    words,
)
from healthcheck.triage.decidedby import SECTION
from healthcheck.triage.past import CameWith, VersionChange
from healthcheck.xid.xidtableload import NAMES
from inventory.times import minute
from tests.healthcheck.triage.made import KINDS, NOW, at, past, policy, problem

P = policy()
NONE = ChangeIndex(())


def change(kind: str = "rule", name: str = "gpu-count", began: float = -2, until: float = -1.5,
           **more: Any) -> VersionChange:
    """A change two hours ago, that the next sweep half an hour later confirms."""
    return VersionChange(kind, name, **{"digest": "new", "began": at(began), "before": at(began - 0.5),
                                        "until": at(until), "was": "old", **more})


@pytest.mark.parametrize(("made", "rule", "can"), [
    (change(), "gpu-count", True), (change(), "gpu-answers", False),
    (change("sku", "hgx"), "gpu-count",
     True),                                              # which rules it concerns is not known
    (change("sku", "hgx", rules=frozenset({"gpu-count"})), "gpu-count", True),
    (change("sku", "hgx", rules=frozenset({"gpu-count"})), "disk-full", False),
    (change("baseline", next(iter(NAMES))), "kernel-xid", True),
    (change("baseline", next(iter(NAMES))), "kernel-trouble", False),
    (change("baseline", "kernel"), "kernel-trouble", True),
    (change("baseline", "kernel"), "gpu-count", False),
    (change(POLICY, f"{SECTION}lost"), "gpu-count", False), (change("muster", "muster"), "gpu-count", True)])
def test_a_change_can_make_only_rules_fail_that_it_is_about(made: VersionChange, rule: str,
                                                            can: bool) -> None:
    assert judges(made, rule) is can


def test_only_what_says_which_rules_or_faults_it_is_about_is_exact() -> None:
    made = (change(), change(POLICY, "lost"), change("sku", "hgx", rules=frozenset({"gpu-count"})),
            change("sku", "hgx"), change("muster", "muster"), change("baseline", "kernel"))
    assert [one.exact for one in made] == [True, True, True, False, False, False]


def test_a_rule_that_was_there_and_is_only_judged_since_then_is_not_known_to_have_made_anything() -> None:
    there = {"says": {THERE: True}}
    judged = change(before=None, was="", **there)
    assert judged.first_judged and not judged.exact and words(judged).endswith("(judged for the first time)")
    for other in (change(**there), change(before=None)):
        assert not other.first_judged and other.exact


@pytest.mark.parametrize(("began", "after", "does"), [
    (-1, None, True), (0, None, True), (1, None, False), (-1, 1, True), (-1, 0, False), (1, 2, False)])
def test_a_change_holds_from_the_first_sweep_with_it_until_another_follows(
        began: float, after: float | None, does: bool) -> None:
    made = change(began=began, after=at(after) if after is not None else None)
    assert made.holds(NOW) is does


def test_what_is_over_and_came_with_a_change_that_says_so_is_not_the_nodes_own() -> None:
    over, there = problem(began=-2, ended=-1), problem(began=-2)
    exact = CameWith("", True, at(-2))
    for found, came, own in ((over, exact, False), (there, exact, True),
                             (over, replace(exact, exact=False), True)):
        assert past("n1", came={found: came}).not_its_own(found) is not own
    assert not past("n1", came={there: exact}).not_its_own(over)


SEVERE = {"said": {"severity": "warning"}, "says": {"severity": "critical"}}


@pytest.mark.parametrize(("made", "found", "does"), [
    (change(**SEVERE), problem(), True), (change(**SEVERE), problem(severity="warning"), False),
    (change(**SEVERE), problem("other"), False),
    (change(said={"severity": "critical"}, says={"severity": "warning"}), problem(severity="warning"), False),
    (change(said={}, says={"severity": "critical"}), problem(), False)])
def test_a_rule_that_is_more_severe_raises_what_was_there(made: VersionChange, found: Problem,
                                                          does: bool) -> None:
    assert raises(made, found, P) is does


def kind_changed(was: FaultKind | None, name: str = "lost") -> VersionChange:
    """The fault of lost GPUs was another, or there was none of it."""
    return change(POLICY, name, faults=tuple(one for one in (was, KINDS[-1]) if one is not None))


LOST = KINDS[0]


@pytest.mark.parametrize(("was", "does"), [
    (None, True), (replace(LOST, isolation=Isolation.NONE), True),
    (replace(LOST, isolation=Isolation.NO_NEW_JOBS), False),
    (replace(LOST, confirm=6), True), (replace(LOST, confirm=5), False)])
def test_a_policy_raises_what_it_left_alone_before(was: FaultKind | None, does: bool) -> None:
    assert raises(kind_changed(was), problem(sweeps=5), P) is does


def test_a_policy_raises_nothing_that_another_fault_is_or_that_keeps_no_jobs_away() -> None:
    assert not raises(kind_changed(None, "worn"), problem(), P)
    assert not raises(change(POLICY, "watch", faults=(LOST,)), problem("disk-slow", severity="warning"), P)
    assert not raises(change(POLICY, "lost"), problem(), P)         # what it was is not known
    assert not raises(kind_changed(None), problem(severity="info", rule="disk-slow"), P)
    assert not raises(kind_changed(None), problem(status="unknown", origin="muster"), P)


def test_what_lasts_longer_before_it_counts_is_asked_only_of_what_fails() -> None:
    wedged = replace(next(one for one in KINDS if one.id == "wedged"), confirm=9)
    made = change(POLICY, "wedged", faults=(wedged,))
    assert not raises(made, problem("disk-slow", status="unknown", sweeps=5), P)
    assert raises(change(POLICY, "wedged", faults=(replace(wedged, isolation=Isolation.NONE),)),
                  problem("disk-slow", status="unknown", sweeps=5), P)


@pytest.mark.parametrize(("began", "ended", "does"),
                         [(-2, None, True), (-1.5, None, True), (-2.01, None, False), (-1.49, None, False),
                          (-2, -1.6, True)])
def test_a_change_brings_what_begins_with_it_until_the_next_sweep(began: float, ended: float | None,
                                                                  does: bool) -> None:
    assert brings(change(), problem(began=began, ended=ended), P) is does


@pytest.mark.parametrize(("began", "ended", "does"),
                         [(-9, None, True), (-1.5, None, True), (-1.49, None, False), (-9, -2, True),
                          (-9, -2.01, False)])
def test_a_change_that_raises_brings_what_was_there_at_the_time(began: float, ended: float | None,
                                                                does: bool) -> None:
    assert brings(change(**SEVERE), problem(began=began, ended=ended), P) is does


def test_what_is_not_measured_no_rule_has_brought() -> None:
    assert not brings(change(), problem(began=-2, status="unknown"), P)


@pytest.mark.parametrize(("found", "did"), [
    (problem(began=-5, ended=-3), True), (problem(began=-5), True), (problem(began=-2), False),
    (problem(began=-40, ended=-26), True), (problem(began=-40, ended=-26.01), False),
    (problem("other", began=-5), False), (problem(began=-5, status="unknown"), False)])
def test_what_failed_in_the_day_before_is_none_of_the_change(found: Problem, did: bool) -> None:
    node = past("n1", *([found] if found.ended is None else []),
                over=(found,) if found.ended is not None else ())
    assert failed_before(node, "gpu-count", change(), P, NONE) is did


def test_one_failure_before_is_enough_beside_others_that_were_not() -> None:
    node = past("n1", problem("other", began=-5), problem(began=-5))
    assert failed_before(node, "gpu-count", change(), P, NONE)


FIRST = change(began=-9, until=-8.5, said={"allow": 3, "severity": "warning"},
               says={"allow": 1, "severity": "warning"}, was="a", digest="b")
LAST = change(began=-4, until=-3.5, said={"allow": 1, "severity": "warning"},
              says={"allow": 3, "severity": "warning"}, was="b", digest="a")


def test_a_change_is_back_where_all_is_as_it_was() -> None:
    assert back(FIRST, LAST)
    assert not back(FIRST, replace(LAST, digest="c"))
    assert not back(FIRST, replace(LAST, says={"allow": 2, "severity": "warning"}))
    assert not back(FIRST, replace(LAST, says={"allow": 3, "severity": "critical"}))


def test_what_was_not_there_is_back_where_it_is_gone_or_switched_off() -> None:
    new = replace(FIRST, before=None)
    assert back(new, replace(LAST, digest="")) and back(new, replace(LAST, says={"enabled": False}))
    assert not back(new, LAST) and not back(new, replace(LAST, says={"enabled": True}))


def undone(began: float, ended: float, *more: VersionChange, first: VersionChange = FIRST,
           last: VersionChange = LAST, **of: Any) -> bool:
    return ChangeIndex((first, last, *more)).undid(problem(began=began, ended=ended, **of))


def test_what_began_with_a_change_and_ended_with_it_back_was_undone() -> None:
    assert undone(-9, -4) and undone(-6, -3.5)
    assert not undone(-9.01, -4)            # it was there before
    assert not undone(-4, -3.6)             # it began with the change back
    assert not undone(-6, -4.01)            # it was over before
    assert not undone(-6, -3.49)            # it stayed longer
    assert not undone(-9, -4, status="unknown")
    assert not undone(-9, -4, last=replace(LAST, digest="c"))
    assert not undone(-9, -4, rule="gpu-answers")


def test_that_another_muster_came_and_went_has_undone_nothing_for_certain() -> None:
    muster = {"kind": "muster", "name": "muster"}
    assert not undone(-9, -4, first=replace(FIRST, **muster), last=replace(LAST, **muster))


def test_a_sku_that_is_not_about_the_rule_has_undone_nothing_of_it() -> None:
    sku = {"kind": "sku", "name": "hgx", "rules": frozenset({"disk-full"})}
    assert not undone(-9, -4, first=replace(FIRST, **sku), last=replace(LAST, **sku))
    mine = {**sku, "rules": frozenset({"gpu-count"})}
    assert undone(-9, -4, first=replace(FIRST, **mine), last=replace(LAST, **mine))


def test_changes_of_a_sku_are_about_nodes_of_it_and_about_those_that_may_be() -> None:
    sku, rule, muster, driver = change("sku", "hgx"), change(), change("muster",
                                                                       "muster"), change("driver", "550")
    index = ChangeIndex((sku, rule, muster, driver))
    assert list(index.about("gpu-count", "hgx")) == list(index.about("gpu-count")) == [rule, sku, muster]
    assert list(index.about("gpu-count", "dgx")) == [rule,
                                                     muster] and list(index.about("other", "dgx")) == [muster]
    assert index and not ChangeIndex((driver,))


@pytest.mark.parametrize(("began", "seen", "ended", "did"), [
    (-8.5, -3.5, None, True), (-8.5, -3.51, None, False), (-8.5, 0, -3.49, True), (-8.5, 0, -3.5, False),
    (-4, -1, None, False), (-4.01, -1, None, True)])
def test_what_is_there_still_when_the_change_was_back_for_a_sweep_is_none_of_it(
        began: float, seen: float, ended: float | None, did: bool) -> None:
    assert ChangeIndex((FIRST, LAST)).outlived(problem(began=began, seen=seen, ended=ended), FIRST) is did


def test_a_change_does_not_outlive_itself() -> None:
    same = replace(FIRST, digest="a", was="a", said={}, says={})
    assert not ChangeIndex((same,)).outlived(problem(began=-20), same)


def test_of_several_changes_the_rules_own_text_explains_best_then_the_newest() -> None:
    muster, baseline, sku = (change("muster", "muster"), change("baseline",
                                                                "kernel"),
                             change("sku", "hgx", rules=frozenset({"kernel-xid"})))
    rule = change("rule", "kernel-trouble")
    found = problem("kernel-trouble", began=-2)
    node = past("n1", found)

    def named(*changes: VersionChange) -> str:
        return came_with(node, ChangeIndex(changes), P)[found].words

    assert named(muster, baseline,
                 rule) == f"only since rule kernel-trouble (old -> new) changed at {minute(at(-2))}"
    assert named(muster, baseline, sku).startswith("first seen when baseline kernel")
    newer = change("baseline", "site", began=-1.9, until=-1.4)
    late = problem("kernel-trouble", began=-1.8)
    assert "baseline site" in came_with(past("n1", late), ChangeIndex((baseline, newer)), P)[late].words


def test_what_a_change_brought_is_reported_of_what_is_over_too_and_not_where_it_failed_before() -> None:
    over = problem(began=-2, ended=-1)
    assert list(came_with(past("n1", over=(over,)), ChangeIndex((change(),)), P)) == [over]
    assert came_with(past("n1", over=(over, problem(began=-9, ended=-8))), ChangeIndex((change(),)), P) == {}


def test_what_ended_with_a_change_is_said_and_only_where_that_is_exact() -> None:
    def said(found: Problem, made: VersionChange, since: float = -24) -> str:
        return went_with(past("n1", over=(found,)), ChangeIndex((made,)), at(since))

    told = f"gpu-count was over when rule gpu-count (old -> new) changed at {minute(at(-2))}"
    assert said(problem(began=-9, ended=-2), change()) == said(problem(began=-9, ended=-1.5),
                                                               change()) == told
    assert said(problem(began=-9, ended=-2.01), change()) == said(problem(began=-9, ended=-1.49),
                                                                  change()) == ""
    assert said(problem(began=-9, ended=-2), change(),
                -2) == told and said(problem(began=-9, ended=-2), change(), -1.99) == ""
    assert said(problem(began=-9, ended=-2, status="unknown"), change()) == ""
    assert said(problem(began=-9, ended=-2), change("muster", "muster")) == ""
    assert said(problem(began=-9, ended=-2), change("sku", "hgx", rules=frozenset({"disk-full"}))) == ""
    # one that is not over says nothing
    node = past("n1", over=(problem(began=-9, ended=-2), problem(began=-9)))
    assert went_with(node, ChangeIndex((change(),)), at(-24)) == told


@pytest.mark.parametrize(("said", "says", "how"), [
    ({}, {}, "old -> new"), ({"allow": 3}, {}, "old -> new"), ({"allow": 3}, {"allow": 1}, "allow 3 -> 1"),
    ({"on": True, "at": None}, {"on": False, "at": [1, "a"]}, "at null -> [1, a], on true -> false"),
    ({"share": 0.5}, {"share": 0.25}, "share 0.5 -> 0.25"),
    ({"with": {"a": 1, "b": 2}}, {"with": {"a": 1, "c": 3}}, "b 2 -> -, c - -> 3"),
    ({"with": {"a": 1}}, {"with": 3}, "with {'a': 1} -> 3"),
    ({"a": 1, "b": 1, "c": 1}, {"a": 2, "b": 2, "c": 2}, "a 1 -> 2, b 1 -> 2, c 1 -> 2"),
    (dict.fromkeys("abcd", 1), dict.fromkeys("abcd", 2), "a 1 -> 2, b 1 -> 2, c 1 -> 2 and 1 more")])
def test_a_difference_is_told_by_what_it_was_and_is(said: dict[str, Any], says: dict[str, Any],
                                                    how: str) -> None:
    assert difference(change(said=said, says=says)) == how


def test_what_is_new_gone_or_of_unknown_text_is_said_so() -> None:
    assert (words(change(before=None, was="")) == "rule gpu-count (new)"
            and words(change(digest="")) == "rule gpu-count (gone)")
    assert difference(change(was="")) == "" == difference(change(digest=""))
    assert words(change(was="")) == "rule gpu-count"


def test_a_line_names_all_kinds_that_changed_and_counts_what_it_leaves_out() -> None:
    when = minute(at(-2))
    rule, sku, muster = change(), change("sku", "hgx"), change("muster", "muster")
    assert line(at(-2), [rule]) == f"rules changed at {when}: rule gpu-count (old -> new)"
    assert line(at(-2), [muster, rule]).startswith(f"muster and rules changed at {when}: ")
    assert line(at(-2), [muster, sku, rule]).startswith(f"muster, SKUs and rules changed at {when}: ")
    four = [change(name=f"r{at}") for at in range(4)]
    assert ("more" not in line(at(-2), four)
            and line(at(-2), [*four, rule]).endswith("; and 1 more: muster history --changes"))


def test_a_rule_that_is_judged_for_the_first_time_is_listed_as_no_change_of_rules() -> None:
    judged = change(name="port-flapping", before=None, was="", says={THERE: True})
    assert list(lines([judged])) == []
    assert list(lines([judged, change()])) == [line(at(-2), [change()])]


def test_of_many_changes_the_newest_are_listed_and_the_others_counted() -> None:
    many = [change(began=-hours, until=-hours + 0.1) for hours in (6, 5, 4, 3, 2)]
    assert len(list(lines(many))) == 5 and "times before" not in next(lines(many))
    more = list(lines([*many, change(began=-7, until=-6.9)]))
    assert (len(more) == 6
            and more[0] == "what nodes are judged by changed 1 times before that: muster history --changes")
    assert more[-1].startswith(f"rules changed at {minute(at(-2))}")
