"""What only a change took from jobs may be given back: where all is as it was, and a fresh sweep by that
found the node fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from healthcheck.model.faultkind import Isolation
from healthcheck.model.outcome import Repair
from healthcheck.model.verdict import Verdict
from healthcheck.store.verdicts import VerdictEvidence
from healthcheck.store.versions import POLICY
from healthcheck.triage.past import FleetHistory, NodeHistory, SilencedHistory, VersionChange
from healthcheck.triage.plan import Act, TriagePlan
from healthcheck.triage.undo import held_for, undo
from tests.healthcheck.triage.made import NOW, at, fleet, held, policy, problem
from tests.healthcheck.triage.test_changed import change

P = policy()
SINCE = -12
STRICTER = change(began=-9, until=-8.5, said={"allow": 3}, says={"allow": 1}, was="a", digest="b")
BACK = change(began=-4, until=-3.5, said={"allow": 1}, says={"allow": 3}, was="b", digest="a")
OVER = problem(began=-9, ended=-4)


def node(**more: Any) -> NodeHistory:
    """It is held since it failed by the stricter rule, and was found well when that was back."""
    return NodeHistory("n1", **{"over": (OVER,), "cordons": (held(-8.9),), "state": "healthy",
                                "seen": at(-0.1), "sku": "hgx", **more})


def plan(past: NodeHistory, *changes: VersionChange, since: float = SINCE,
         evidence: VerdictEvidence | None = None,
         **more: Any) -> TriagePlan:
    made = changes or (STRICTER, BACK)
    world: FleetHistory = fleet(past, every_change=made, **more)
    verdict = Verdict(past.node, Isolation.NO_NEW_JOBS, Repair.REBOOT, None, "lost", "why", ())
    return undo(world, P, TriagePlan(NOW, (verdict,), (), (), ()), made, at(since),
                {1: evidence} if evidence is not None else {})


def why(past: NodeHistory, *changes: VersionChange, **more: Any) -> str:
    """Why it is not given back; "" where it is."""
    made = plan(past, *changes, **more)
    assert [(one.act, one.node) for one in (*made.steps, *made.withheld)] == [(Act.RELEASE, "n1")]
    return made.withheld[0].why if made.withheld else ""


def test_a_node_that_only_a_stricter_rule_took_is_given_back_when_the_rule_is_back() -> None:
    made = plan(node())
    assert made.withheld == () and made.changes == (STRICTER, BACK) and not made.is_open
    (step,) = made.steps
    assert (step.act, step.node, step.cordon, step.backend) == (Act.RELEASE, "n1", 1, "slurm")
    assert step.why.startswith("nothing but rule gpu-count (allow 3 -> 1) held it; ")
    assert plan(node(), open_since=at(-1)).is_open


def test_cordons_of_people_and_of_before_are_not_looked_at() -> None:
    for cordon, given in ((held(-8.9, None), False), (held(-12), True), (held(-12.01), False)):
        made = plan(node(cordons=(cordon,)))
        assert bool(made.steps or made.withheld) is given
    assert held_for(fleet(node(cordons=(held(-1, 4), held(-1, None), held(-1, 9))))) == [4, 9]


def test_a_rule_that_holds_still_keeps_the_node() -> None:
    assert why(node(problems=(problem(began=-9),), over=()),
               STRICTER).startswith("rule gpu-count (allow 3 -> 1) holds still")


def test_a_change_of_another_sku_is_neither_the_cause_nor_in_the_way() -> None:
    sku = change("sku", "hgx", began=-9, until=-8.5, rules=frozenset({"gpu-count"}), was="a", digest="b",
                 said={"gpus": 8}, says={"gpus": 9})
    again = change("sku", "hgx", began=-4, until=-3.5, rules=frozenset({"gpu-count"}), was="b", digest="a",
                   said={"gpus": 9}, says={"gpus": 8})
    assert why(node(), sku, again) == "" and why(node(sku=""), sku, again) == ""
    assert why(node(sku="dgx"), sku, again).startswith("it is not held for a change alone")
    other = change("sku", "dgx", began=-5, until=-4.5, rules=frozenset({"disk-full"}), was="a", digest="b")
    assert why(node(), STRICTER, BACK, other) == ""
    for mine in ("dgx", ""):
        assert why(node(sku=mine), STRICTER, BACK, other).startswith("sku dgx (a -> b) changed, too")


def test_another_rule_that_changed_too_is_in_the_way_unless_it_is_back_or_new() -> None:
    other = change("rule", "disk-full", began=-5, until=-4.5, was="c", digest="d")
    assert why(node(), STRICTER, BACK, other).startswith("rule disk-full (c -> d) changed, too")
    assert why(node(), STRICTER, BACK, other, replace(other, began=at(-3), was="d", digest="c")) == ""
    assert why(node(), STRICTER, BACK, replace(other, before=None)) == ""
    assert why(node(), STRICTER, BACK, change(POLICY, "worn", began=-5, until=-4.5)) == ""


def test_of_an_exact_cause_and_muster_itself_the_exact_one_counts() -> None:
    muster = change("muster", "muster", began=-9, until=-8.5, was="0.1", digest="0.2")
    gone = replace(muster, began=at(-4), was="0.2", digest="0.1")
    assert plan(node(), STRICTER, BACK, muster,
                gone).steps[0].why.startswith("nothing but rule gpu-count (allow 3 -> 1) held it; ")
    assert plan(node(), muster, gone).steps[0].why.startswith("nothing but muster (0.1 -> 0.2) held it")


POLICY_NOW = change(POLICY, "watch", began=-4, until=-3.5, was="b", digest="a")
STRICT = change(POLICY, "watch", began=-9, until=-8.5, was="a", digest="b")
SLOW = problem("disk-slow", "md0", severity="warning", began=-20)
HELD_FOR_SLOW = VerdictEvidence("watch", (("watch", "disk-slow", "md0"),))


def test_what_counts_for_less_again_is_known_by_what_the_verdict_rested_on() -> None:
    slow = node(problems=(SLOW,), over=())
    assert why(slow, STRICT, POLICY_NOW, evidence=HELD_FOR_SLOW) == ""
    assert why(slow, STRICT, POLICY_NOW).startswith("nothing that changed")
    other = VerdictEvidence("watch", (("watch", "disk-slow", "md1"),))
    assert why(slow, STRICT, POLICY_NOW, evidence=other).startswith("nothing that changed")
    # A verdict that rested on it in the first place, and no change tells why it does not count any more.
    assert why(slow, STRICTER, BACK,
               evidence=HELD_FOR_SLOW) == "it is not held for a change alone: disk-slow of md0"
    worn = [replace(one, name="worn") for one in (STRICT, POLICY_NOW)]
    assert why(slow, *worn, evidence=HELD_FOR_SLOW) == "it is not held for a change alone: disk-slow of md0"
    beside = VerdictEvidence("lost", (("watch", "disk-slow", "md0"),))
    assert why(slow, STRICTER, BACK, evidence=beside).startswith("nothing that changed")
    assert why(slow, STRICT, POLICY_NOW, evidence=beside) == ""


def test_a_severity_explains_what_was_there_before_though_the_rule_changed_again_since() -> None:
    severe = change("rule", "gpu-count", began=-9, until=-8.5, said={"severity": "warning"},
                    says={"severity": "critical"}, was="a", digest="b")
    again = change("rule", "gpu-count", began=-4, until=-3.5, said={"severity": "critical"},
                   says={"severity": "critical"}, was="b", digest="c")
    assert why(node(problems=(problem(began=-20),), over=()), severe,
               again).startswith("rule gpu-count (b -> c) holds still")


def test_a_rule_that_was_more_severe_explains_what_is_a_warning_again() -> None:
    severe = change("rule", "disk-slow", began=-9, until=-8.5, said={"severity": "warning"},
                    says={"severity": "critical"}, was="a", digest="b")
    mild = change("rule", "disk-slow", began=-4, until=-3.5, said={"severity": "critical"},
                  says={"severity": "warning"}, was="b", digest="a")
    assert why(node(problems=(SLOW,), over=()), severe, mild, evidence=HELD_FOR_SLOW) == ""
    same = [replace(one, said={"severity": "warning"}, says={"severity": "warning"})
            for one in (severe, mild)]
    assert why(node(problems=(SLOW,), over=()), *same,
               evidence=HELD_FOR_SLOW).startswith("it is not held for a change alone")
    told = problem("disk-slow", "md0", severity="info", began=-20)
    warned = [replace(severe, said={"severity": "info"}, says={"severity": "warning"}),
              replace(mild, said={"severity": "warning"}, says={"severity": "info"})]
    assert why(node(problems=(told,), over=()), *warned, evidence=HELD_FOR_SLOW) == ""
    # Of another rule: none of it.
    away = [replace(one, name="disk-full") for one in (severe, mild)]
    assert why(node(problems=(SLOW,), over=()), *away,
               evidence=HELD_FOR_SLOW).startswith("it is not held for a change alone")


@pytest.mark.parametrize(("more", "said"), [
    ({"state": "unhealthy"}, "no fresh sweep"), ({"seen": at(-4.01)}, "no fresh sweep"),
    ({"seen": at(0.01)}, "no fresh sweep"),
    ({"hidden": SilencedHistory(problems=(SLOW,))}, "only silenced problems"),
    ({"in_service": False, "lifecycle": "rma"}, "its lifecycle is rma"),
    ({"leased": "it is leased"}, "it is leased"),
    ({"problems": (problem(began=-9),)}, "no sweep by what held before"),
    ({"seen": at(-4)}, ""), ({"seen": at(0)}, ""),         # the sweep with the change back, and that of now
    # What no change explains.
    ({"problems": (problem("gpu-worn", began=-9),)}, "it is not held for a change alone: gpu-worn of GPU 3"),
    ({"over": (problem(began=-9.5, ended=-4),)}, "it is not held for a change alone: gpu-count of GPU 3"),
    ({"over": ()}, "nothing that changed since "),
    # What was over before the cordon is not what it is held for; what failed before the change, too, is not
    # of it.
    ({"over": (OVER, problem("gpu-worn", began=-20, ended=-8.91))}, ""),
    ({"over": (OVER, problem("gpu-worn", began=-20, ended=-8.9))},
     "it is not held for a change alone: gpu-worn"),
    ({"over": (OVER, problem(began=-11, ended=-10))}, "it is not held for a change alone"),
    # What was over before the change was back is no proof.
    ({"over": (problem(began=-9, ended=-4.01),)}, "gpu-count was over before that was put back"),
    ({"over": (problem(began=-9, ended=-4),)}, "")])
def test_a_node_is_kept_until_a_fresh_sweep_has_found_it_fit_and_a_change_explains_all(more: dict[str, Any],
                                                                                       said: str) -> None:
    found = why(node(**more))
    assert found.startswith(said) and bool(found) is bool(said)


def test_a_sweep_of_a_day_ago_is_not_fresh() -> None:
    early = [replace(one, began=one.began - 40 * 3600, until=one.until - 40 * 3600, before=at(-60))
             for one in (STRICTER, BACK)]
    past = node(over=(problem(began=-49, ended=-44),), cordons=(held(-48.9),))
    assert why(replace(past, seen=at(-24)), *early, since=-60) == ""
    assert why(replace(past, seen=at(-24.01)), *early, since=-60).startswith("no fresh sweep")


def test_of_two_causes_the_later_one_counts() -> None:
    other = change("rule", "gpu-answers", began=-9, until=-8.5, was="c", digest="d")
    later = replace(other, began=at(-2), was="d", digest="c")
    both = node(over=(OVER, problem("gpu-answers", began=-9, ended=-2)))
    assert why(both, STRICTER, BACK, other, later).startswith("gpu-count was over before that was put back")
