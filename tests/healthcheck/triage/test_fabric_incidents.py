"""What subnets show is triaged: links, ports, switches and leaves are incidents, one for each thing to mend,
and no node is isolated for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.config.rulesfolder import folders
from healthcheck.model.faultkind import Isolation, Of
from healthcheck.model.outcome import Owner, Severity
from healthcheck.model.problem import Problem
from healthcheck.model.verdict import Incident
from healthcheck.ruleset.rulenames import read_rule_names
from healthcheck.store import fabricfindings, incidents, verdicts
from healthcheck.store.file import opened
from healthcheck.triage.fabricplaces import spots
from healthcheck.triage.gather import gather
from healthcheck.triage.plan import TriagePlan, make
from healthcheck.triage.policy import TriagePolicy
from healthcheck.triage.policyload import load_policy
from inventory.model import Lifecycle, LifecycleState, Node
from tests.healthcheck.subnet.faulty import PLAN, FaultyFabric
from tests.healthcheck.triage.made import NOW, problem
from tests.tries import tries

NODES = tuple(Node(f"gpu{at:02d}", leaf=tuple(sorted(
    cable.b.device for cable in PLAN.cables if cable.a.device == f"gpu{at:02d}"))) for at in range(1, 9))
LINK = ("leaf001", "2")     # leads to gpu02 mlx5_0
OWN = "mlx5_0/1 (0000:18:00.0)"


@pytest.fixture(scope="module")
def rules() -> TriagePolicy:
    found = folders(None)
    return load_policy(found, read_rule_names(found))


@pytest.fixture
def fabric() -> FaultyFabric:
    return FaultyFabric()


def planned(folder: Path, rules: TriagePolicy, *own: Problem, now: float = NOW, apply: bool = False,
            nodes: Iterable[Node] = NODES) -> TriagePlan:
    """What triage decides by the store, with these problems of nodes' own checks beside."""
    with opened(folder, make=True) as store:
        fleet = gather(store, nodes, rules, now)
        fleet = replace(fleet,
                        nodes=tuple(replace(past,
                                            problems=(*past.problems,
                                                      *(one for one in own if one.node == past.node)),
                                            state="healthy", seen=now)
                                    for past in fleet.nodes))
        plan = make(fleet, rules)
        if apply:
            verdicts.write(store, plan)
    return plan


def places(plan: TriagePlan) -> list[tuple[str, str]]:
    return [(one.kind, one.cause) for one in plan.incidents]


def only(plan: TriagePlan) -> Incident:
    (one,) = plan.incidents
    return one


def test_a_link_that_is_down_is_one_incident_of_the_link_with_the_hand_that_mends_it(
        tmp_path: Path, rules: TriagePolicy, fabric: FaultyFabric) -> None:
    fabric.down.add(fabric.cable(*LINK))
    fabric.store(tmp_path, NOW)
    one = only(plan := planned(tmp_path, rules))
    assert (one.kind, one.cause, one.owner, one.nodes,
            one.isolates) == ("link", "leaf001 port 2 to gpu02 mlx5_0", Owner.DATACENTRE, ("gpu02",), False)
    assert ("link-down: down (polling)" in one.why and "next: look at both ends" in one.why
            and "gpu02: rack r1" in one.why)
    assert plan.steps == () and plan.unfit == ()


def test_what_the_node_shows_of_its_port_is_the_same_incident_and_the_node_is_held_as_without_it(
    tmp_path: Path, rules: TriagePolicy, fabric: FaultyFabric,
) -> None:
    own = problem("port-state", OWN, node="gpu02", owner="network")
    alone = planned(tmp_path, rules, own)
    fabric.down.add(fabric.cable(*LINK))
    fabric.store(tmp_path, NOW)
    both = planned(tmp_path, rules, own)
    one = only(both)
    assert one.symptoms == ("subnet-link-down", "port-state") and "gpu02 itself shows port-state" in one.why
    assert [(step.act, step.node) for step in both.steps] == [(step.act, step.node)
                                                              for step in alone.steps] != []
    (verdict,), (before,) = both.verdicts, alone.verdicts
    assert (verdict.isolation, verdict.fault, verdict.incident) == (before.isolation, before.fault, 0)
    assert verdict.owner is Owner.DATACENTRE and f"one with incident {one.id}" in verdict.why


def test_a_problem_of_another_port_is_not_the_links(tmp_path: Path, rules: TriagePolicy,
                                                    fabric: FaultyFabric) -> None:
    fabric.down.add(fabric.cable(*LINK))
    fabric.store(tmp_path, NOW)
    other = problem("port-state", "mlx5_1/1 (0000:26:00.0)", node="gpu02", owner="network")
    assert "itself shows" not in only(plan := planned(tmp_path, rules, other)).why
    assert plan.verdicts[0].owner is Owner.NETWORK


@pytest.mark.parametrize("planned_", [True, False])
@pytest.mark.parametrize(("device", "kind"), [("spine001", "switch"), ("leaf001", "leaf")])
def test_a_switch_whose_links_are_all_down_is_one_incident(
    tmp_path: Path, rules: TriagePolicy, fabric: FaultyFabric, device: str, kind: str, planned_: bool,
) -> None:
    fabric.gone.add(device)
    fabric.store(tmp_path, NOW, planned=planned_)
    one = only(planned(tmp_path, rules))
    assert (one.owner is Owner.NETWORK
            and one.nodes == (("gpu01", "gpu02", "gpu03", "gpu04") if kind == "leaf" else ()))
    if planned_:
        assert (one.kind, one.cause) == (kind, device)


def test_half_of_a_switchs_links_with_errors_are_one_incident_and_one_link_more_elsewhere_is_another(
    tmp_path: Path, rules: TriagePolicy, fabric: FaultyFabric,
) -> None:
    for number in sorted(fabric.cables("leaf002"))[:5]:
        fabric.errors[number] = 5000
    fabric.errors[fabric.cable("leaf003", "1")] = 5000
    fabric.store(tmp_path, NOW)
    assert places(planned(tmp_path, rules)) == [("link", "leaf003 port 1 to gpu05 mlx5_0"),
                                                ("leaf", "leaf002")]


def test_several_findings_of_one_cable_are_one_incident(tmp_path: Path, rules: TriagePolicy,
                                                        fabric: FaultyFabric) -> None:
    number = fabric.cable(*LINK)
    fabric.errors[number] = 5000
    fabric.narrow.add(number)
    fabric.store(tmp_path, NOW)
    one = only(planned(tmp_path, rules))
    assert one.kind == "link" and set(one.symptoms) == {"subnet-link-errors", "subnet-link-width"}


def test_one_uplink_that_is_down_is_its_link_and_two_of_four_are_the_leaf(tmp_path: Path, rules: TriagePolicy,
                                                                          fabric: FaultyFabric) -> None:
    fabric.down.add(fabric.cable("leaf001", "5"))
    fabric.store(tmp_path, NOW - 60)
    first = only(planned(tmp_path, rules, apply=True))
    fabric.down.add(fabric.cable("leaf001", "6"))
    fabric.store(tmp_path, NOW)
    now = only(planned(tmp_path, rules, apply=True))
    # it has grown
    assert (first.kind, now.kind, now.cause, now.id) == ("link", "leaf", "leaf001", first.id)


def test_a_machine_that_is_off_is_no_incident_of_its_cables(tmp_path: Path, rules: TriagePolicy,
                                                            fabric: FaultyFabric) -> None:
    fabric.gone.add("gpu02")
    fabric.store(tmp_path, NOW, planned=False)
    assert planned(tmp_path, rules).incidents == ()
    fabric.store(tmp_path, NOW + 60)
    plan = planned(tmp_path, rules, now=NOW + 60)
    assert plan.incidents == () and [verdict.node for verdict in plan.verdicts] == ["gpu02"]


def test_a_link_to_a_node_out_of_service_may_be_down_and_not_count_errors(tmp_path: Path, rules: TriagePolicy,
                                                                          fabric: FaultyFabric) -> None:
    number = fabric.cable(*LINK)
    away = [replace(node, lifecycle=Lifecycle(LifecycleState.MAINTENANCE)) if node.name == "gpu02" else node
            for node in NODES]
    fabric.down.add(number)
    fabric.store(tmp_path, NOW - 60)
    assert planned(tmp_path, rules, nodes=away).incidents == ()
    fabric.down.clear()
    fabric.errors[number] = 5000
    fabric.store(tmp_path, NOW)
    assert [kind for kind, _ in places(planned(tmp_path, rules, nodes=away))] == ["link"]


def leaf_is_down(node: str) -> Problem:
    return problem("port-state", OWN, node=node, owner="network", began=-0.1)


def test_nodes_that_share_a_leaf_and_what_the_subnet_shows_of_the_leaf_are_one_incident(
        tmp_path: Path, rules: TriagePolicy, fabric: FaultyFabric) -> None:
    many = [*NODES, *(Node(f"far{at:03d}", leaf=("other",)) for at in range(60))]
    own = [leaf_is_down(f"gpu{at:02d}") for at in range(1, 5)]
    alone = planned(tmp_path, rules, *own, nodes=many)
    one = only(alone)
    assert (one.kind, one.isolates) == ("leaf", True)
    fabric.gone.add(one.cause)
    fabric.store(tmp_path, NOW)
    both = planned(tmp_path, rules, *own, nodes=many, apply=True)
    assert (only(both).kind, only(both).cause) == (one.kind, one.cause)
    assert "; the subnet shows switch-missing at" in only(both).why
    assert [(step.act, step.node) for step in both.steps] == [(step.act, step.node) for step in alone.steps]
    again = planned(tmp_path, rules, *own, nodes=many, now=NOW + 60)
    assert only(again).why.count("the subnet shows") == 1 and only(again).id == only(both).id


def test_an_incident_is_over_when_a_check_measured_it_and_the_same_one_if_it_comes_back(
        tmp_path: Path, rules: TriagePolicy, fabric: FaultyFabric) -> None:
    number = fabric.cable(*LINK)
    fabric.down.add(number)
    fabric.store(tmp_path, NOW - 300)
    first = only(planned(tmp_path, rules, now=NOW - 290, apply=True))
    fabric.down.clear()
    fabric.store(tmp_path, NOW - 200)
    over = planned(tmp_path, rules, now=NOW - 190, apply=True)
    assert (over.incidents == () and [(end.id, end.why) for end in over.ends]
            == [(first.id, "a check of the subnet measured it, and it is not there any more")])
    fabric.down.add(number)
    fabric.store(tmp_path, NOW - 100)
    assert only(planned(tmp_path, rules, now=NOW - 90)).id == first.id


def test_an_incident_that_no_check_measures_any_more_stays_open_and_says_since_when(
        tmp_path: Path, rules: TriagePolicy, fabric: FaultyFabric) -> None:
    fabric.gone.add("spine002")
    fabric.store(tmp_path, NOW - 3600)
    planned(tmp_path, rules, now=NOW - 3600, apply=True)
    fabric.gone.clear()
    fabric.store(tmp_path, NOW, planned=False)
    why = only(planned(tmp_path, rules)).why
    assert "last measured" in why and "no plan of it was given" in why


def test_what_a_person_closed_is_not_opened_again_until_it_begins_anew(tmp_path: Path, rules: TriagePolicy,
                                                                       fabric: FaultyFabric) -> None:
    number = fabric.cable(*LINK)
    fabric.down.add(number)
    fabric.store(tmp_path, NOW - 300)
    one = only(planned(tmp_path, rules, now=NOW - 290, apply=True))
    with opened(tmp_path) as store:
        incidents.close(store, one.id, "the port is retired", "ann", NOW - 280)
    fabric.store(tmp_path, NOW - 200)
    assert planned(tmp_path, rules, now=NOW - 190, apply=True).incidents == ()
    fabric.down.clear()
    fabric.store(tmp_path, NOW - 100)
    fabric.down.add(number)
    fabric.store(tmp_path, NOW - 50)
    assert only(planned(tmp_path, rules)).id != one.id


def test_a_silence_on_the_node_is_one_of_its_link(tmp_path: Path, rules: TriagePolicy,
                                                  fabric: FaultyFabric) -> None:
    fabric.down.add(fabric.cable(*LINK))
    fabric.store(tmp_path, NOW)
    with opened(tmp_path) as store:
        fleet = gather(store, NODES, rules, NOW,
                       silenced=lambda one: one.node == "gpu02" and one.rule == "subnet-link-down")
    plan = make(fleet, rules)
    assert plan.incidents == () and [one.node for one in plan.held_back] == ["gpu02"]


@pytest.mark.parametrize(("isolation", "nodes"), [(Isolation.NONE, []), (Isolation.NO_NEW_JOBS, ["gpu02"])])
def test_a_node_is_isolated_for_what_the_subnet_shows_only_where_the_policy_says_so(
    tmp_path: Path, rules: TriagePolicy, fabric: FaultyFabric, isolation: Isolation, nodes: list[str],
) -> None:
    fabric.down.add(fabric.cable(*LINK))
    fabric.store(tmp_path, NOW)
    rules = replace(rules, kinds=tuple(replace(kind, isolation=isolation) if kind.id == "subnet-shows"
                                       else kind for kind in rules.kinds))
    assert [step.node for step in planned(tmp_path, rules).steps] == nodes


def test_the_packaged_policy_isolates_no_node_for_anything_that_a_subnet_shows(rules: TriagePolicy) -> None:
    for name in fabricfindings.RULES:
        kind = rules.kind(Of.FAIL, name, Severity.WARNING)
        assert kind is not None and (kind.id, kind.isolation) == ("subnet-shows", Isolation.NONE)


FAULTS = st.sets(st.sampled_from(["down", "narrow", "errors"]).flatmap(
    lambda what: st.tuples(st.just(what), st.integers(0, len(PLAN.cables) - 1))), max_size=8)


@settings(max_examples=tries(40), deadline=None)
@given(faults=FAULTS, gone=st.sets(st.sampled_from(sorted(PLAN.devices)), max_size=2), plan=st.booleans(),
       own=st.sets(st.sampled_from([node.name for node in NODES]), max_size=8))
def test_whatever_subnets_show_the_same_nodes_are_isolated_and_each_finding_is_of_one_place_at_most(
    tmp_path_factory: pytest.TempPathFactory, rules: TriagePolicy, faults: set[tuple[str, int]],
    gone: set[str], plan: bool, own: set[str],
) -> None:
    folder, fabric = tmp_path_factory.mktemp("any"), FaultyFabric()
    shown = [leaf_is_down(node) for node in sorted(own)]
    alone = planned(folder, rules, *shown)
    for what, number in faults:
        if what == "errors":
            fabric.errors[number] = 5000
        else:
            getattr(fabric, what).add(number)
    fabric.gone |= gone
    fabric.store(folder, NOW, planned=plan)
    both = planned(folder, rules, *shown, apply=True)
    assert {(step.act, step.node) for step in both.steps} == {(step.act, step.node) for step in alone.steps}
    assert both.unfit == alone.unfit and both.is_open == alone.is_open
    assert (len(set(places(both))) == len(places(both))
            and len({one.id for one in both.incidents}) == len(both.incidents))
    with opened(folder) as store:
        found = fabricfindings.lasting(store)
        taken = [each.id for spot in spots(found) for each in spot.troubles]
        assert len(taken) == len(set(taken)) and set(taken) <= {each.id for each in found}
    again = planned(folder, rules, *shown, now=NOW + 1)
    assert sorted(places(again)) == sorted(places(both)) and again.ends == ()
