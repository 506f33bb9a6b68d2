"""The plan: who is isolated and returned, in what order, and what holds a step back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from healthcheck.model.faultkind import Isolation
from healthcheck.model.outcome import Owner
from healthcheck.triage.past import Anew, NodeHistory, OpenVerdict, SilencedHistory, VersionChange
from healthcheck.triage.plan import Act, TriagePlan, make
from healthcheck.triage.policy import BreakerPolicy, IncidentKind, IncidentPolicy
from tests.healthcheck.triage.made import NOW, at, fleet, held, looks, past, policy, problem

OVER = problem("gpu-count", began=-9, ended=-3)


def plan(
    *nodes: NodeHistory, healthy: int = 100, changes: dict[str, Any] | None = None, **more: Any,
) -> TriagePlan:
    return make(fleet(*nodes, healthy=healthy, **more), policy(**changes or {}))


def acts(made: TriagePlan) -> list[tuple[str, str]]:
    return [(step.act.value, step.node) for step in made.steps]


def sick(name: str, rule: str = "kernel-xid", **more: Any) -> NodeHistory:
    return past(name, problem(rule, node=name), **more)


def test_a_healthy_fleet_has_an_empty_plan() -> None:
    made = plan()
    assert (made.verdicts, made.steps, made.withheld, made.incidents, made.is_open) == ((), (), (), (), False)


@pytest.mark.parametrize(("more", "unmeasured"), [
    ({"state": "healthy", "seen": at(-1)}, False), ({"state": "degraded", "seen": at(-23)}, False),
    ({}, True), ({"state": "unknown", "seen": at(-1)}, True), ({"state": "healthy", "seen": at(-25)}, True),
    ({"state": "unknown", "seen": at(-1), "in_service": False}, False)])
def test_a_node_of_which_no_fresh_sweep_says_how_it_is_is_reported(
    more: dict[str, Any], unmeasured: bool,
) -> None:
    assert plan(NodeHistory("n1", **more), healthy=0).unmeasured == ("n1",) * unmeasured


def test_a_node_that_is_not_fit_is_isolated_and_one_that_proved_itself_returned_first() -> None:
    well = NodeHistory("n2", over=(OVER,), cordons=(held(-8, number=7),), snapshots=looks(-3, -1))
    made = plan(sick("n1"), well)
    assert acts(made) == [("release", "n2"), ("isolate", "n1")]
    assert (made.steps[0].backend, made.steps[0].cordon) == ("slurm", 7)
    assert made.steps[1].why.startswith("error: kernel-xid of GPU 3: 7 (expected 8)")


def test_what_flaps_and_is_away_takes_no_node_and_keeps_one_that_is_held() -> None:
    away = tuple(problem("kernel-xid", began=began, ended=began + 0.5, node="n1") for began in (-6, -4, -2))
    free = plan(NodeHistory("n1", over=away))
    assert (acts(free), [one.act for one in free.withheld]) == ([], [Act.ISOLATE])
    assert "flaps and is away now" in free.withheld[0].why
    kept = plan(NodeHistory("n1", over=away, cordons=(held(-7),), snapshots=looks(-1, -0.5)))
    assert acts(kept) == [] and kept.verdicts[0].isolation is Isolation.NO_NEW_JOBS
    assert acts(plan(past("n1", problem("kernel-xid", node="n1"), over=away))) == [("isolate", "n1")]
    # what only warns there makes it no more urgent, and another fault there takes the node
    assert acts(plan(past("n1", problem("fan", node="n1", severity="warning"), over=away))) == []
    assert acts(plan(sick("n1", "gpu-count", over=away))) == [("isolate", "n1")]


@pytest.mark.parametrize(("more", "told"), [
    ({"others": "others hold it: new cables"}, "new cables"),
    ({"overridden": "it was given back by hand"}, "by hand"),
])
def test_what_people_hold_or_gave_back_is_theirs(more: dict[str, Any], told: str) -> None:
    made = plan(sick("n1", **more))
    assert acts(made) == [] and told in made.withheld[0].why and not made.withheld[0].by_breaker


def test_what_a_person_gave_back_stays_so_for_the_verdict_that_they_saw_and_for_no_other() -> None:
    seen = {"overridden": "it was given back by hand",
            "verdict": OpenVerdict(1, "error", Isolation.NO_NEW_JOBS, at(-1))}
    assert acts(plan(sick("n1", "kernel-xid", **seen))) == []
    assert acts(plan(sick("n1", "gpu-count", **seen))) == [("isolate", "n1")]


@pytest.mark.parametrize(("came", "more", "new"), [
    ({"subject": "GPU 5"}, {}, "kernel-xid of GPU 5"),
    ({"rule": "gpu-recovery-action"}, {}, ""),              # another verdict: nothing was decided against it
    ({"serial": "B2"}, {}, "kernel-xid of GPU 3"),          # another board in the same slot
    ({"serial": None}, {}, None),                           # one that cannot be read any more
    ({"subject": "GPU 5", "began": -6}, {}, None), ({"subject": "GPU 5", "began": -5}, {}, None),
    ({}, {}, None),
    # It came before, and comes again.
    ({"subject": "GPU 5"}, {"over": (problem("kernel-xid", "GPU 5", began=-9, ended=-8, node="n1"),)}, None),
])
def test_what_is_new_on_a_node_since_a_person_gave_it_back_they_have_not_seen_and_it_isolates(
    came: dict[str, Any], more: dict[str, Any], new: str | None,
) -> None:
    fault = "driver" if "rule" in came else "error"
    node = past("n1", problem("kernel-xid", began=-6, serial="A1"),
                problem(**{"rule": "kernel-xid", "began": -1, **came}),
                overridden="it was given back by hand", overridden_at=at(-5),
                verdict=OpenVerdict(1, "error", Isolation.NO_NEW_JOBS, at(-6)), **more)
    if not came:
        node = replace(node, problems=node.problems[:1])
    made = plan(node)
    assert acts(made) == ([] if new is None else [("isolate", "n1")])
    if new is None:
        assert made.withheld[0].why == "it was given back by hand"
    else:
        assert made.steps[0].verdict.fault == fault
        assert not new or made.steps[0].why.endswith(f"; {new} is new since it was given back by hand")


def test_what_only_warns_and_is_new_since_a_person_gave_the_node_back_takes_it_from_no_one() -> None:
    made = plan(past("n1", problem("kernel-xid", began=-6), problem("fan", began=-1, severity="warning"),
                     overridden="it was given back by hand", overridden_at=at(-5)))
    assert acts(made) == [] and made.withheld[0].why == "it was given back by hand"


def test_a_node_that_a_person_gave_back_against_an_incident_is_not_taken_for_what_comes_of_it_later() -> None:
    def of_rack(rack: str, *failing: str, number: int, **more: Any) -> NodeHistory:
        name = f"{rack}n{number}"
        return past(name, *(problem("port-state", port, node=name, began=-1) for port in failing),
                    domains={"rack": (rack,)}, **more)

    given_back = of_rack("r1", "port 1", number=0, overridden="it was given back by hand",
                         overridden_at=at(-2),
                         verdict=OpenVerdict(1, "incident", Isolation.NO_NEW_JOBS, at(-3), incident=1))
    made = plan(given_back, *(of_rack("r1", "port 1", number=number) for number in range(1, 8)),
                *(of_rack("r2", number=number) for number in range(60)), since=at(-2000),
                changes={"incidents": IncidentPolicy(kinds={"rack": IncidentKind(Owner.NETWORK, True)}),
                         "breaker": BreakerPolicy(8, 50, 1.0, {}, 2, None)})
    (incident,) = made.incidents
    assert incident.isolates and acts(made) == [("isolate", f"r1n{number}") for number in range(1, 8)]
    assert [(one.node, one.why) for one in made.withheld] == [("r1n0", "it was given back by hand")]


def test_a_node_that_is_leased_is_neither_isolated_nor_returned() -> None:
    well = NodeHistory("n2", over=(OVER,), cordons=(held(-8),), snapshots=looks(-3, -1),
                       leased="it is leased as muster-3-ab: diagnostics")
    made = plan(sick("n1", leased="it is leased as muster-4-cd: diagnostics"), well)
    assert acts(made) == [] and [one.why for one in made.withheld] == [
        "it is leased as muster-3-ab: diagnostics", "it is leased as muster-4-cd: diagnostics"]


def test_a_cordon_by_hand_is_neither_doubled_nor_ended() -> None:
    by_hand = (held(verdict=None),)
    assert acts(plan(sick("n1", cordons=by_hand))) == []
    assert acts(plan(NodeHistory("n1", over=(OVER,), cordons=by_hand, snapshots=looks(-1.5, -1)))) == []


def test_of_two_cordons_on_a_node_that_proved_itself_ours_ends_and_a_persons_stays() -> None:
    made = plan(NodeHistory("n1", over=(OVER,), cordons=(held(-8), held(-8, None, 2)),
                            snapshots=looks(-2, -1)))
    assert [(step.act, step.cordon) for step in made.steps] == [(Act.RELEASE, 1)]


def test_of_a_node_that_is_still_sick_no_return_is_spoken() -> None:
    assert plan(sick("n1", cordons=(held(-8),))).withheld == ()


def test_a_node_out_of_service_is_neither_isolated_nor_returned() -> None:
    away = {"in_service": False, "lifecycle": "maintenance"}
    made = plan(sick("n1", **away),
                NodeHistory("n2", over=(OVER,), cordons=(held(-8),), snapshots=looks(-3, -1),
                            **away))  # type: ignore[arg-type]
    assert acts(made) == [] and [one.node for one in made.withheld] == ["n2"]


def test_no_one_is_isolated_for_what_no_sweep_has_seen_for_a_day() -> None:
    made = plan(past("n1", problem("kernel-xid", began=-60, seen=-25)))
    assert acts(made) == [] and "no sweep has looked for 25 h" in made.withheld[0].why


def test_what_a_sweep_sees_beside_makes_no_old_fault_fresh_and_what_a_burn_in_found_is_not_old() -> None:
    old = problem("kernel-xid", node="n1", began=-60, seen=-30)
    assert acts(plan(past("n1", old, problem("fan", node="n1", severity="warning")))) == []
    assert acts(plan(past("n1", old, problem("port-state", node="n1", began=-60)))) == [("isolate", "n1")]
    assert acts(plan(past("n1", problem("kernel-xid", node="n1", began=-60, seen=-13)))) == [
        ("isolate", "n1")]
    assert acts(plan(past("n1", old, problem("burnin-slow", node="n1", began=-60, seen=-50)))) == [
        ("isolate", "n1")]


def test_a_node_of_which_a_part_is_at_the_vendors_goes_before_all_others() -> None:
    away = past("n9", problem("port-state", node="n9"), away="RMA 3 is open: it smells")
    assert acts(plan(sick("n1", "gpu-count"), away)) == [("isolate", "n9"), ("isolate", "n1")]


def test_an_open_rma_keeps_a_node() -> None:
    made = plan(NodeHistory("n1", away="RMA 3 is open: fan", cordons=(held(-8),),
                            verdict=OpenVerdict(1, "x", Isolation.NONE, at(-1))))
    assert acts(made) == [] and made.verdicts[0].fault == "rma"


@pytest.mark.parametrize(("number", "percent", "healthy", "allowed"), [
    (3, 100, 100, 3), (100, 3, 90, 3), (100, 3, 0, 1), (100, 1, 0, 1), (2, 50, 100, 2)])
def test_the_breaker_bounds_by_number_and_by_share_and_always_allows_one(
    number: int, percent: float, healthy: int, allowed: int,
) -> None:
    nodes = [sick(f"n{index}") for index in range(10)]
    made = plan(*nodes, healthy=healthy, changes={"breaker": BreakerPolicy(number, percent, 1, {}, 0, None)})
    assert len(made.steps) == allowed and made.is_open and made.opens
    assert sum(one.by_breaker for one in made.withheld) == 10 - allowed


def test_a_small_cluster_has_room_for_a_few_all_the_same() -> None:
    made = plan(*[sick(f"n{index}") for index in range(4)], healthy=2,
                changes={"breaker": BreakerPolicy(8, 5, 1, {}, 0, None, least=3)})
    assert len(made.steps) == 3 and "breaker.least 3" in made.opens


def test_exactly_as_many_as_are_allowed_do_not_open_it() -> None:
    made = plan(*[sick(f"n{index}") for index in range(3)],
                changes={"breaker": BreakerPolicy(3, 100, 1, {}, 0, None)})
    assert len(made.steps) == 3 and not made.is_open


def test_the_most_urgent_get_the_room_and_the_worst_the_reserve() -> None:
    nodes = [sick("a1", "disk-state"), sick("a2", "disk-state"), sick("z1", "kernel-xid"),
             sick("z2", "gpu-count"), sick("z3", "gpu-answers"), sick("z4", "gpu-count")]
    made = plan(*nodes, changes={"breaker": BreakerPolicy(3, 100, 1, {}, 1, None)})
    assert acts(made) == [("isolate", "z2"), ("isolate", "z3"), ("isolate", "z4")]
    assert made.is_open and {one.node for one in made.withheld} == {"a1", "a2", "z1"}


@pytest.mark.parametrize("rules", [("gpu-count",), ("gpu-worn",), ("kernel-xid", "gpu-count"),
                                   ("gpu-worn", "port-state")])
def test_a_node_with_one_of_the_worst_faults_may_use_the_reserve_whatever_else_it_has_and_no_other_may(
    rules: tuple[str, ...],
) -> None:
    changes = {"breaker": BreakerPolicy(4, 50, 1.0, {}, 2, None)}
    before = (("h1", -0.5), ("h2", -0.5))
    assert acts(plan(past("n1", *(problem(rule, node="n1") for rule in rules)), isolated=before,
                     changes=changes)) == [("isolate", "n1")]
    assert acts(plan(sick("n1"), isolated=before, changes=changes)) == []


def test_of_two_as_urgent_the_one_of_which_something_is_wrong_for_longer_goes_first() -> None:
    both = past("n9", problem("kernel-xid", node="n9", began=-1), problem("port-state", node="n9", began=-9))
    made = plan(past("n1", problem("kernel-xid", node="n1", began=-5)), both,
                past("n2", problem("gpu-count", node="n2", began=-0.5)))
    assert acts(made) == [("isolate", "n2"), ("isolate", "n9"), ("isolate", "n1")]


@pytest.mark.parametrize(("hour", "steps"), [(-0.9, 0), (-1.1, 1)])
def test_what_was_isolated_within_the_window_takes_room_and_before_it_none(hour: float, steps: int) -> None:
    made = plan(sick("n1"), isolated=(("h1", hour), ("h2", hour)),
                changes={"breaker": BreakerPolicy(2, 100, 1, {}, 0, None)})
    assert len(made.steps) == steps


def test_once_open_it_stays_so_and_holds_up_no_release() -> None:
    well = NodeHistory("n2", over=(OVER,), cordons=(held(-8),), snapshots=looks(-3, -1))
    made = plan(sick("n1"), well, sick("n3", "gpu-count"), open_since=at(-100))
    assert acts(made) == [("release", "n2"), ("isolate", "n3")]        # the reserve
    assert made.is_open and not made.opens and "--close-breaker" in made.withheld[0].why


@pytest.mark.parametrize(("hours", "is_open"), [(None, True), (5, True), (3, False)])
def test_it_closes_by_itself_only_where_the_policy_says_when(hours: float | None, is_open: bool) -> None:
    made = plan(sick("n1"), open_since=at(-4), changes={"breaker": BreakerPolicy(8, 50, 1, {}, 0, hours)})
    assert made.is_open is is_open and bool(made.closes) is not is_open and len(made.steps) == (not is_open)


def test_a_failure_domain_that_is_full_holds_up_its_own_nodes_alone() -> None:
    rack = {"domains": {"rack": ("r1",)}}
    nodes = [sick(f"n{index}", **rack) for index in range(3)] + [sick("n9", domains={"rack": ("r2",)})]
    made = plan(*nodes, changes={"breaker": BreakerPolicy(8, 50, 1, {"rack": 2}, 2, None)})
    assert acts(made) == [("isolate", "n0"), ("isolate", "n1"), ("isolate", "n9")]
    assert not made.is_open and made.withheld[0].by_breaker and "rack r1" in made.withheld[0].why


def test_the_same_unknown_on_many_nodes_is_an_incident_and_isolates_no_one() -> None:
    nodes = [past(f"n{index}", problem("gpu-ecc", "", node=f"n{index}", status="unknown", sweeps=9),
                  problem("gpu-power", "", node=f"n{index}", status="unknown", sweeps=9))
             for index in range(6)]
    made = plan(*nodes, healthy=94)
    assert acts(made) == [] and made.verdicts == ()
    (incident,) = made.incidents
    assert (incident.nodes == tuple(f"n{index}" for index in range(6)) and "6 of 100 nodes" in incident.why
            and "gpu-power" in incident.why)
    few = plan(*nodes[:5], healthy=95)
    assert few.incidents == () and len(few.steps) == 5


def test_an_incident_excuses_no_other_fault() -> None:
    nodes = [past(f"n{index}", problem("", "", node=f"n{index}", status="unknown", sweeps=9))
             for index in range(20)]
    made = plan(*nodes, sick("x1"), healthy=10)
    assert acts(made) == [("isolate", "x1")] and made.incidents[0].kind == "unreached"


def test_nodes_out_of_service_make_no_incident_and_do_not_count() -> None:
    planned = [NodeHistory(f"p{index}", in_service=False, lifecycle="planned",
                           problems=(problem("", "", node=f"p{index}", status="unknown", sweeps=9),))
               for index in range(50)]
    assert plan(*planned).incidents == ()


def test_the_same_fleet_gives_the_same_plan_whatever_order_its_nodes_stand_in() -> None:
    nodes = [sick(f"n{index}", rule)
             for index, rule in enumerate(("disk-state", "gpu-count", "kernel-xid") * 5)]
    some = {"breaker": BreakerPolicy(4, 100, 1, {}, 1, None)}
    one, other = (make(fleet(*order), policy(**some)) for order in (nodes, nodes[::-1]))
    assert acts(one) == acts(other) and one.now == NOW
    assert [step.act for step in one.steps] == [Act.ISOLATE] * 4


def test_what_silences_hold_back_is_named_with_the_verdict_that_would_be() -> None:
    def silenced(name: str, rule: str, *heard: str, **more: Any) -> NodeHistory:
        hidden = SilencedHistory((problem(rule, node=name, **more),))
        return past(name, *(problem(one, node=name) for one in heard), hidden=hidden)

    warned = past("n5", problem("fan", node="n5", severity="warning"),
                  hidden=SilencedHistory((problem("kernel-xid", node="n5"),)))
    made = plan(silenced("n1", "gpu-count"), silenced("n2", "fan", severity="warning"),
                silenced("n3", "kernel-xid", "gpu-count"), past("n4"), warned)
    assert acts(made) == [("isolate", "n3")]
    assert [(one.node, one.problems[0].rule, one.verdict.isolation if one.verdict is not None else None)
            for one in made.held_back] == [("n1", "gpu-count", Isolation.EVICT), ("n2", "fan", None),
                                           ("n3", "kernel-xid", None),
                                           ("n5", "kernel-xid", Isolation.NO_NEW_JOBS)]


def test_a_held_node_with_only_silenced_problems_is_withheld_and_no_step_is_taken() -> None:
    hidden = SilencedHistory((problem("gpu-count", node="n1"),))
    made = plan(past("n1", hidden=hidden, cordons=(held(-8),), snapshots=looks(-3, -1)))
    assert acts(made) == [] and made.unfit == ()
    (one,) = made.withheld
    assert one.act is Act.RELEASE and one.why.startswith("only silenced problems are left: gpu-count fails")


def test_a_node_that_came_anew_while_it_was_held_is_held_again_though_what_is_left_is_silenced() -> None:
    anew = Anew(at(-5), "lost", Isolation.EVICT)
    hidden = SilencedHistory((problem("gpu-count", node="n1"),))
    was = {"anew": anew, "snapshots": looks(-3, -1),
           "verdict": OpenVerdict(1, "lost", Isolation.NONE, at(-6))}
    made = plan(past("n1", hidden=hidden, **was))
    assert acts(made) == [("isolate", "n1")] and "only silenced problems are left" in made.steps[0].why
    assert acts(plan(past("n1", **was))) == []


def test_jobs_are_to_end_where_a_node_is_kept_and_its_fault_says_so_and_nowhere_else() -> None:
    made = plan(sick("n1", "gpu-count"), sick("n2"), sick("n3", "gpu-count", others="others hold it: cables"),
                sick("n4", "gpu-count", cordons=(held(),)), sick("n5", cordons=(held(),)),
                NodeHistory("n6", over=(OVER,), cordons=(held(-8),), snapshots=looks(-3, -1)))
    assert acts(made) == [("release", "n6"), ("isolate", "n1"), ("isolate", "n2")]
    assert made.to_end == ("n1", "n4")


# ---- changes of what nodes are judged by

def change(rule: str = "gpu-count", began: float = -2, kind: str = "rule") -> VersionChange:
    """A change that the sweep half an hour later confirms."""
    return VersionChange(kind, rule, "new", at(began), at(began - 0.5), at(began + 0.5), was="old")


def test_nodes_that_jobs_keep_away_from_for_nothing_but_a_change_are_listed_with_its_time() -> None:
    def new(node: str, rule: str = "gpu-count", began: float = -2, **more: Any) -> Any:
        return problem(rule, node=node, began=began, **more)

    made = plan(past("n1", new("n1")), past("n2", new("n2"), new("n2", "kernel-xid", -9)),
                past("n3", new("n3"), new("n3", "fan", -9, severity="warning")),
                past("n4", new("n4", "fan", severity="warning")), past("n5", new("n5", "disk-state")),
                past("n6", new("n6"), new("n6", "kernel-xid", -1)), past("n7", new("n7", "kernel-xid", -1)),
                every_change=(change(), change("fan"), change("kernel-xid", -1),
                              change("muster", -2, "muster")))
    assert made.only_since == {"n1": at(-2), "n3": at(-2), "n6": at(-2), "n7": at(-1)}
    assert [verdict.why for verdict in made.verdicts if verdict.node == "n1"] == [
        "gpu-count of GPU 3: 7 (expected 8); only since rule gpu-count (old -> new) changed at "
        "2027-01-15T06:00Z"]


def test_a_node_is_returned_with_the_change_that_its_fault_was_over_with() -> None:
    well = NodeHistory("n1", over=(OVER,), cordons=(held(-8),), snapshots=looks(-3, -1))
    (step,) = plan(well, every_change=(change(began=-3),)).steps
    assert step.why.endswith("; gpu-count was over when rule gpu-count (old -> new) changed at "
                             "2027-01-15T05:00Z")
    (step,) = plan(well).steps
    assert "was over" not in step.why


@pytest.mark.parametrize(("hours", "shown"), [(-0.1, 1), (-13, 1), (-23, 1), (-25, 0)])
def test_a_plan_shows_what_changed_within_a_day(hours: float, shown: int) -> None:
    assert plan(every_change=(change(began=hours),)).changes == (change(began=hours),) * shown
