"""The bound on nodes: however failures are explained, one window isolates so many,
and one physical domain beside them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from healthcheck.config.rulesfolder import packaged
from healthcheck.model.verdict import IncidentMember, StoredIncident
from healthcheck.ruleset.ruleset import load_ruleset
from healthcheck.triage.breaker import Breaker
from healthcheck.triage.past import FleetHistory, Isolated, NodeHistory, Quiet
from healthcheck.triage.plan import Act, TriagePlan, make
from healthcheck.triage.policy import BreakerPolicy, TriagePolicy
from healthcheck.triage.policyload import load_policy
from tests.healthcheck.triage.made import NOW, at, past, problem


@cache
def packaged_policy() -> TriagePolicy:
    return load_policy([packaged()], load_ruleset([packaged()]))


def bounded(number: int = 8, as_one: int = 32, reserve: int = 0, **more: Any) -> TriagePolicy:
    """The packaged policy with another bound, and none in a domain."""
    held = packaged_policy()
    return replace(held, breaker=BreakerPolicy(number, 100, 1, more.pop("domains", {}), reserve, None,
                                               least=1), incidents=replace(held.incidents, as_one=as_one),
                   **more)


def node(number: int, *rules: str, of_rack: int = 8, of_leaf: int = 32, **more: Any) -> NodeHistory:
    """One of a fleet: racks of 8, leaves of 32, power domains of 64; what fails was seen three times,
    first an hour ago."""
    where = {"rack": (f"r{number // of_rack}",), "leaf": (f"leaf-{number // of_leaf}",),
             "power": (f"p{number // 64}",)}
    wrong = tuple(problem(rule, "", node=f"n{number:03}", sweeps=3, began=-1 - number / 1000)
                  for rule in rules)
    return NodeHistory(f"n{number:03}", problems=wrong, domains=where, boots=(at(-900),), state="healthy",
                       seen=at(-0.1), **more)


def fleet(
    size: int, sick: dict[int, tuple[str, ...]], isolated: tuple[Isolated, ...] = (), **more: Any,
) -> FleetHistory:
    held = {one.node for one in isolated}
    return FleetHistory(NOW, tuple(node(number, *sick.get(number, ())) for number in range(size)
                                   if f"n{number:03}" not in held), isolated, since=at(-2000),
                        quiet=Quiet(len(held)), **more)


def ports(*ranges: range) -> dict[int, tuple[str, ...]]:
    return {number: ("port-state",) for each in ranges for number in each}


def isolated(plan: TriagePlan) -> list[str]:
    return [step.node for step in plan.steps if step.act is Act.ISOLATE]


def done(hours: float, place: tuple[str, str], names: range, incident: int = 1) -> tuple[Isolated, ...]:
    return tuple(Isolated(f"n{number:03}", at(hours), incident, place) for number in names)


def test_memory_that_fails_behind_half_of_all_leaves_isolates_six_nodes_and_opens_the_breaker() -> None:
    plan = make(fleet(512, {number: ("host-memory",) for leaf in range(8)
                            for number in range(leaf * 64, leaf * 64 + 32)}), packaged_policy())
    assert (len(isolated(plan)) == 6 and plan.is_open
            and "at most 8 are allowed, 2 of them for the worst faults" in plan.opens)
    assert sum(one.by_breaker and one.fault == "host-hardware" for one in plan.withheld) == 250
    assert not any(one.kind in ("leaf", "rack", "power") for one in plan.incidents)


def test_ports_that_fail_behind_half_of_all_leaves_isolate_one_leaf_and_what_is_left_of_the_limit() -> None:
    plan = make(fleet(512, ports(*(range(leaf * 64, leaf * 64 + 32) for leaf in range(8)))),
                packaged_policy())
    leaves = Counter(int(name[1:]) // 32 for name in isolated(plan))
    assert (len(isolated(plan)) <= 8 + 32 and sorted(leaves.values())[-1] == 32
            and sum(sorted(leaves.values())[:-1]) <= 6 and plan.is_open)


@pytest.mark.parametrize(("size", "as_one", "steps"), [(512, 32, 32), (512, 16, 16 + 6), (64, 32, 16 + 6)])
def test_one_domain_goes_beside_the_limit_with_as_one_of_its_nodes_and_a_quarter_of_all(
    size: int, as_one: int, steps: int,
) -> None:
    some = fleet(size, ports(range(min(32, size * 2 // 3))))
    plan = make(some, bounded(6, as_one))
    assert (len(isolated(plan)) == steps and plan.is_open is (steps < min(32, size * 2 // 3))
            and len(plan.incidents) == 1)


def test_the_isolations_of_a_second_domain_count_node_by_node() -> None:
    plan = make(fleet(512, ports(range(32), range(64, 96))), bounded(5))
    assert ({incident.kind for incident in plan.incidents} == {"leaf"} and len(isolated(plan)) == 32 + 5
            and plan.is_open)
    assert plan.opens.startswith("5 new isolations in 1 h beside 32 in leaf leaf-")


def test_a_rail_isolates_node_by_node() -> None:
    def of_rail(number: int) -> NodeHistory:
        ports = {f"0000:{16 + rail:02x}:00.0": (f"leaf-{number // 16}", str(rail)) for rail in range(8)}
        wrong = (problem("port-state", "mlx5_5/1 (0000:15:00.0)", node=f"n{number:03}", sweeps=3,
                         began=-1 - 7 * (number % 89)),)
        return NodeHistory(f"n{number:03}", problems=wrong if number % 7 == 0 else (), ports=ports,
                           domains={"leaf": (f"leaf-{number // 16}",)}, boots=(at(-900),))

    plan = make(FleetHistory(NOW, tuple(of_rail(number) for number in range(256)), since=at(-2000)),
                bounded(5))
    assert ([incident.kind for incident in plan.incidents] == ["rail"]
            and all(step.verdict.incident for step in plan.steps))
    assert len(isolated(plan)) == 5 and plan.is_open


@pytest.mark.parametrize(("kind", "more"), [
    ("driver", {"versions": {"driver": "580.2"}}), ("kernel", {"versions": {"kernel": "6.8"}}),
    ("firmware", {"versions": {"firmware": "96.1"}}), ("batch", {"domains": {"batch": ("2026-11",)}})])
def test_a_version_and_a_batch_explain_and_each_node_stands_for_itself(
    kind: str, more: dict[str, Any],
) -> None:
    sick = [NodeHistory(f"n{number:03}",
                        problems=(problem("host-memory" if kind != "driver" else "gpu-ecc-uncorrected", "",
                                          node=f"n{number:03}", sweeps=3, began=-1 - 9 * number),),
                        boots=(at(-900),), **more)
                                                           for number in range(40)]
    plan = make(FleetHistory(NOW, (*sick, *(NodeHistory(f"w{number}") for number in range(400))),
                             since=at(-2000)), bounded(5))
    (one,) = plan.incidents
    assert (one.kind == kind and not one.isolates and len(isolated(plan)) == 5
            and not any(step.verdict.incident for step in plan.steps))


def test_a_policy_that_says_that_a_version_isolates_is_not_followed() -> None:
    held = bounded(5)
    kinds = {kind: replace(each, isolates=True) for kind, each in held.incidents.kinds.items()}
    sick = [past(f"n{number:03}",
                 problem("host-memory", "", node=f"n{number:03}", sweeps=3, began=-1 - 9 * number),
                 versions={"driver": "1", "kernel": "6.8"}, boots=(at(-900),)) for number in range(40)]
    plan = make(FleetHistory(NOW, (*sick, *(NodeHistory(f"w{number}") for number in range(400))),
                             since=at(-2000)),
                replace(held, incidents=replace(held.incidents, kinds=kinds)))
    assert (plan.incidents[0].kind == "kernel" and not any(step.verdict.incident for step in plan.steps)
            and len(isolated(plan)) == 5)


# ---- the window

def test_a_domain_that_an_earlier_run_isolated_is_the_one_of_its_window() -> None:
    before = done(-0.5, ("leaf", "leaf-8"), range(256, 288))
    assert len(isolated(make(fleet(512, ports(range(32)), before), bounded(5)))) == 5
    assert len(isolated(make(fleet(512, ports(range(32)), done(-1.1, ("leaf", "leaf-8"), range(256, 288))),
                             bounded(5)))) == 32


def test_a_domain_is_counted_by_its_place_whatever_the_number_of_its_incident() -> None:
    rest = dict.fromkeys(range(16, 32), ("port-state",))
    same = done(-0.5, ("leaf", "leaf-0"), range(16), incident=77)
    assert len(isolated(make(fleet(512, rest, same), bounded(5)))) == 16
    # Two places that one incident answers for by now are two: what the second has taken, it has taken.
    two = (*done(-0.5, ("rack", "r0"), range(8), incident=1),
           *done(-0.5, ("rack", "r1"), range(8, 12), incident=1))
    assert len(isolated(make(fleet(512, {300: ("kernel-xid",), 301: ("kernel-xid",)}, two), bounded(5)))) == 1


def test_a_node_that_was_isolated_more_than_once_in_a_window_counts_once() -> None:
    thrice = tuple(Isolated("n009", at(-hours)) for hours in (0.9, 0.6, 0.3))
    sick = dict.fromkeys((300, 340, 380), ("kernel-xid",))
    plan = make(fleet(512, sick, thrice), bounded(3))
    assert len(isolated(plan)) == 2 and "3 new isolations in 1 h" in plan.opens


def test_a_node_that_was_isolated_in_this_window_takes_no_room_again_and_an_open_breaker_holds_it() -> None:
    healthy = fleet(512, {9: ("kernel-xid",)})
    full = (*done(-0.9, ("", ""), range(5)), Isolated("n009", at(-0.8)))
    again = replace(healthy, isolated=full)
    assert isolated(make(again, bounded(6))) == ["n009"]
    plan = make(replace(again, open_since=at(-0.2)), bounded(6))
    assert isolated(plan) == [] and plan.is_open
    worst = replace(fleet(512, {9: ("gpu-answers",)}), isolated=full, open_since=at(-0.2))
    assert isolated(make(worst, bounded(6))) == ["n009"]


def test_a_node_that_was_isolated_for_itself_and_in_an_incidents_name_counts_with_the_others() -> None:
    both = (*done(-0.5, ("leaf", "leaf-0"), range(16)), *done(-0.4, ("", ""), range(3)))
    sick = dict.fromkeys(range(300, 304), ("kernel-xid",))
    assert len(isolated(make(fleet(512, sick, both), bounded(5)))) == 2


def test_an_incident_that_was_isolated_under_no_place_takes_room() -> None:
    plan = make(fleet(512, {300: ("kernel-xid",)}, done(-0.5, ("", ""), range(5), incident=3)), bounded(5))
    assert isolated(plan) == [] and plan.is_open


def test_a_version_takes_no_domain() -> None:
    plan = make(fleet(512, {300: ("kernel-xid",)}, done(-0.5, ("driver", "580"), range(5), incident=3)),
                bounded(5))
    assert isolated(plan) == []


def test_what_counts_in_a_failure_domain_is_bounded_there_and_the_one_domain_is_not() -> None:
    plan = make(fleet(512, {number: ("host-memory", "port-state") if number < 4 else ("port-state",)
                            for number in range(32)}),
                bounded(20, domains={"leaf": 2, "rack": 1}))
    alone = [step.node for step in plan.steps if not step.verdict.incident]
    assert len(isolated(plan)) == 28 + 1 and alone == ["n003"]
    refused = [one for one in plan.withheld if one.by_breaker]
    assert ({one.node for one in refused} == {"n000", "n001", "n002"}
            and "1 new isolation in 1 h in rack r0, at most 1 is allowed" in refused[0].why)
    assert not plan.is_open


def test_what_is_withheld_in_an_incidents_name_says_what_the_node_has_of_it() -> None:
    made = make(fleet(512, ports(range(32), range(64, 96))), bounded(5))
    assert ({one.fault for one in made.withheld} == {"network-port"}
            and all(one.incident for one in made.withheld))


# ---- the reserve

@pytest.mark.parametrize(("limit", "reserve", "usual"),
                         [(1, 2, 1), (2, 2, 1), (3, 2, 1), (4, 2, 2), (8, 2, 6), (8, 0, 8), (8, 20, 1)])
def test_the_reserve_lies_inside_the_limit_and_leaves_one_for_any_fault(
    limit: int, reserve: int, usual: int,
) -> None:
    some = dict.fromkeys(range(0, 512, 40), ("kernel-xid",))
    assert len(isolated(make(fleet(512, some), bounded(limit, reserve=reserve)))) == usual
    worst = dict.fromkeys(range(0, 512, 40), ("gpu-answers",))
    assert len(isolated(make(fleet(512, worst), bounded(limit, reserve=reserve)))) == limit
    both = {number: ("gpu-answers" if number % 80 else "kernel-xid",) for number in range(0, 512, 40)}
    plan = make(fleet(512, both), bounded(limit, reserve=reserve))
    assert len(isolated(plan)) == max(min(6, limit), usual) and plan.is_open


def test_an_open_breaker_lets_the_worst_use_all_of_the_limit_and_others_none() -> None:
    some = {number: ("kernel-xid",) if number < 200 else ("gpu-answers",) for number in range(0, 512, 40)}
    plan = make(fleet(512, some, open_since=at(-0.2)), bounded(4, reserve=1))
    assert (len(isolated(plan)) == 4 and all(int(name[1:]) >= 200 for name in isolated(plan))
            and not plan.opens)


def test_an_open_breaker_isolates_no_domain_but_for_the_worst() -> None:
    assert isolated(make(fleet(512, ports(range(32)), open_since=at(-0.2)), bounded(4))) == []
    lost = dict.fromkeys(range(8), ("gpu-answers",))
    assert len(isolated(make(fleet(512, lost, open_since=at(-0.2)), bounded(2)))) == 8


# ---- closing

@pytest.mark.parametrize(("count", "is_open"), [(4, True), (3, True), (2, False)])
def test_it_closes_by_itself_only_where_there_is_room_for_any_fault(count: int, is_open: bool) -> None:
    policy = bounded(4, reserve=1)
    policy = replace(policy, breaker=replace(policy.breaker, close_hours=2.0))
    before = tuple(Isolated(f"n{number:03}", at(-0.5)) for number in range(count))
    plan = make(fleet(512, {}, before, open_since=at(-3)), policy)
    assert plan.is_open is is_open and bool(plan.closes) is not is_open


# ---- a bound for one run

@pytest.mark.parametrize(("at_most", "steps"), [(0, 0), (1, 1), (3, 3), (99, 6)])
def test_a_run_isolates_no_more_than_it_is_reported_and_that_alone_opens_no_breaker(
    at_most: int, steps: int,
) -> None:
    plan = make(fleet(512, dict.fromkeys(range(0, 512, 40), ("kernel-xid",))), bounded(6), at_most)
    assert len(isolated(plan)) == steps and plan.is_open is (steps == 6)
    if steps < 6:
        assert {one.why for one in plan.withheld} == {f"--at-most {at_most}: this run isolates no more"}
        assert not any(one.by_breaker for one in plan.withheld)


def test_what_the_breaker_refuses_takes_nothing_of_the_bound_of_a_run() -> None:
    some = {0: ("host-memory",), 1: ("host-memory",), 2: ("host-memory",), 300: ("host-memory",)}
    assert isolated(make(fleet(512, some), bounded(6, domains={"rack": 1}), 2)) == ["n300", "n002"]


# ---- what was an incident of a place that cannot cause it, before the policy said so

def test_an_open_incident_of_a_place_that_cannot_cause_it_ends_and_each_node_stands_for_itself() -> None:
    known = StoredIncident(4, "leaf", "leaf-0", ("host-memory",), "network", "", 1e9, at(-2), at(-0.2),
                           tuple(IncidentMember(f"n{number:03}", at(-2), at(-0.2)) for number in range(32)))
    plan = make(fleet(512, dict.fromkeys(range(32), ("host-memory",)), incidents=(known,), next_incident=5),
                packaged_policy())
    assert [(end.id, end.why) for end in plan.ends] == [
        (4, "by the policy such a place does not cause that: leaf")]
    assert (len(isolated(plan)) == 4 and {one.by_breaker for one in plan.withheld} == {True}
            and not any(step.verdict.incident for step in plan.steps))


# ---- the breaker by itself

def breaker(isolated: tuple[Isolated, ...], nodes: tuple[NodeHistory, ...] = (), **bound: Any) -> Breaker:
    values: dict[str, Any] = {"number": 8, "percent": 50, "reserve": 2, **bound}
    return Breaker(FleetHistory(NOW, nodes, isolated, quiet=Quiet(256 - len(nodes))),
                   BreakerPolicy(**values), 32)


LEAF, RACK = ("leaf", "leaf-1"), ("rack", "r9")


def test_the_one_domain_goes_beside_though_the_reserve_is_used_up() -> None:
    full = breaker(done(-0.5, ("", ""), range(8)))
    assert full.take(node(100), reserve=False, place=LEAF) == "" and full.take(node(101), reserve=False) != ""


def test_within_a_failure_domain_those_of_the_one_place_beside_do_not_count_whatever_else_was_isolated(
) -> None:
    there = tuple(NodeHistory(f"n{number:03}", domains={"rack": (f"r{number // 3 % 30}",)})
                  for number in (*range(40), 90, 91, 92))
    before = (*done(-0.5, LEAF, range(5)), *done(-0.5, RACK, range(10, 11)),
              *done(-0.5, ("", ""), range(20, 26)))
    room = breaker(before, there, number=20, domains={"rack": 2})
    # r0 has three of the leaf's, and now one that counts
    assert room.take(there[-3], reserve=False) == ""
    assert room.take(there[-2], reserve=False) == ""
    assert (room.take(there[-1],
                      reserve=False) == "2 new isolations in 1 h in rack r0, at most 2 are allowed: look at "
                                        "it first")


def test_a_place_that_only_draws_level_with_the_one_beside_is_counted() -> None:
    other = ("leaf", "leaf-2")
    full = breaker((*done(-0.5, ("", ""), range(4)), *done(-0.5, LEAF, range(10, 15)),
                    *done(-0.5, other, range(20, 24))), reserve=0)
    assert full.take(node(100), reserve=False, place=other).startswith(
        "the breaker is open: 8 new isolations in 1 h beside 5 in leaf leaf-1")


def test_what_goes_beside_is_held_up_by_no_bound_of_a_failure_domain() -> None:
    there = tuple(NodeHistory(f"n{number:03}", domains={"rack": ("r0",)}) for number in range(3))
    room = breaker((*done(-0.5, RACK, range(3)), *done(-0.5, LEAF, range(10, 14))), there,
                   domains={"rack": 2})
    assert room.take(NodeHistory("n090", domains={"rack": ("r0",)}), reserve=False, place=LEAF) == ""
    assert "in rack r0, at most 2 are allowed" in room.take(NodeHistory("n091", domains={"rack": ("r0",)}),
                                                            reserve=False)


@pytest.mark.parametrize(("isolated", "reserve", "said"), [
    (done(-0.5, ("", ""), range(8)), 0,
     "8 new isolations in 1 h, and at most 8 are allowed (breaker.number 8)"),
    (done(-0.5, ("", ""), range(8)), 2,
     "8 new isolations in 1 h, and at most 8 are allowed, 2 of them for the worst faults (breaker.number 8)"),
    ((*done(-0.5, ("", ""), range(8)), *done(-0.5, LEAF, range(10, 13))), 0,
     "8 new isolations in 1 h beside 3 in leaf leaf-1, and at most 8 are allowed (breaker.number 8)")])
def test_the_breaker_says_how_many_count_what_goes_beside_and_what_is_kept(
    isolated: tuple[Isolated, ...], reserve: int, said: str,
) -> None:
    full = breaker(isolated, reserve=reserve)
    assert full.take(node(100), reserve=False) == f"the breaker is open: {said}" and full.opens == said


def test_whom_a_domain_refused_is_isolated_once_the_incident_has_grown_so_that_its_nodes_go_beside() -> None:
    """At the third node both places have three, and the other one goes beside;
    from the fourth on it is this leaf."""
    sick = [number for rack in range(64, 96, 8) for number in range(rack, rack + 4)]
    plan = make(fleet(128, ports(sick), done(-0.5, ("rack", "r5"), range(40, 43))),
                bounded(domains={"rack": 2}))
    assert {step.place for step in plan.steps} == {("leaf", "leaf-2")}
    assert sorted(isolated(plan)) == [f"n{number:03}" for number in sick]
    assert not plan.withheld and not plan.opens
    assert isolated(plan)[-2:] == ["n089", "n088"]
