"""What many nodes cannot measure, or many are not reached by, is muster's own:
it is named and accuses none of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from healthcheck.model.faultkind import Of
from healthcheck.model.outcome import Owner
from healthcheck.model.problem import Problem
from healthcheck.model.verdict import Incident
from healthcheck.triage.ours import ours
from healthcheck.triage.past import NodeHistory, Quiet
from healthcheck.triage.policy import Causes, IncidentKind, IncidentPolicy, SharedUnknown
from tests.healthcheck.triage.made import fleet, policy, problem


def found(*rules: str, nodes: int = 5, severity: str = "critical", percent: float = 2) -> list[Incident]:
    """Nodes that cannot measure these rules, of a hundred;
    five are many where they are more than two in a hundred."""
    sick = (NodeHistory(f"n{number}",
                        problems=tuple(problem(rule, "", node=f"n{number}", status="unknown",
                                               severity=severity) for rule in rules))
            for number in range(nodes))
    return ours(fleet(*sick, healthy=100 - nodes), policy(ours=SharedUnknown(percent, 5)))[0]


def test_as_many_nodes_as_the_policy_says_are_many_and_one_fewer_are_not() -> None:
    assert [len(one.nodes) for one in found("gpu-ecc")] == [5] and found("gpu-ecc", nodes=4) == []


@pytest.mark.parametrize(("percent", "count"), [(4.99, 1), (5, 0)])
def test_more_than_the_share_that_the_policy_says_are_many_and_the_share_itself_is_not(
    percent: float, count: int,
) -> None:
    assert len(found("gpu-ecc", percent=percent)) == count


def test_nodes_in_service_count_and_among_them_those_of_which_nothing_needs_to_be_said() -> None:
    sick = [NodeHistory(f"n{number}", problems=(problem("", "", node=f"n{number}", status="unknown"),))
            for number in range(6)]
    away = replace(sick[5], in_service=False)
    ((one,), excused) = ours(fleet(*sick[:5], away, quiet=Quiet(45)), policy(ours=SharedUnknown(2, 5)))
    assert (one.why.startswith("5 of 50 nodes in service are not reached: ") and "n5" not in one.nodes
            and excused == {""})


def test_what_only_informs_is_no_incident_and_what_warns_is() -> None:
    assert len(found("gpu-ecc", severity="warning")) == 1 and found("gpu-ecc", severity="info") == []


def test_what_muster_answers_for_is_the_operators() -> None:
    assert [(one.kind, one.owner, one.symptoms) for rule in ("gpu-ecc", "")
            for one in found(rule)] == [("unmeasured", Owner.OPERATOR, ("gpu-ecc not measured",)),
                                        ("unreached", Owner.OPERATOR, ("not reached",))]


def test_at_most_four_of_the_rules_are_named_and_the_others_counted() -> None:
    rules = ("a-rule", "b-rule", "c-rule", "d-rule", "e-rule")
    (four,), (five,) = found(*rules[:4]), found(*rules)
    assert "cannot measure a-rule, b-rule, c-rule, d-rule: " in four.why
    assert "cannot measure a-rule, b-rule, c-rule, d-rule and 1 more: " in five.why


KINDS = {"rack": IncidentKind(Owner.DATACENTRE), "power": IncidentKind(Owner.DATACENTRE)}


def blind(number: int, rule: str = "gpu-ecc", began: float = -1, **more: str) -> Problem:
    return problem(rule, more.pop("subject", ""), node=f"n{number}", began=began,
                   **{"status": "unknown", **more})


def of_site(*problems: Problem, out: tuple[int, ...] = (), causes: tuple[Causes, ...] = ()) -> str:
    """What is said of twenty nodes, four in a rack and on a feed, with these problems; some are not in
    service, and were looked at."""
    nodes = (NodeHistory(f"n{number}", problems=tuple(one for one in problems if one.node == f"n{number}"),
                         domains={"rack": (f"r{number // 4}",), "power": (f"p{number // 4}",)},
                         state="healthy", in_service=number not in out) for number in range(20))
    by = policy(ours=SharedUnknown(2, 3), incidents=IncidentPolicy(kinds=KINDS, causes=causes))
    ((one,), _) = ours(fleet(*nodes), by)
    return one.why


def test_a_place_is_named_with_those_of_its_nodes_that_cannot_measure_the_rule_and_no_others() -> None:
    three = tuple(blind(number) for number in (4, 5, 6))
    for other in (blind(7, status="fail"), problem("gpu-count", node="n7"), blind(7, origin="muster")):
        assert "3 of 4 nodes of rack r1 and power domain p1: look there first" in of_site(*three, other)
    assert "all 4 nodes of rack r1 and power domain p1" in of_site(*three, blind(7))


def test_only_places_that_can_cause_it_are_named() -> None:
    causes = (Causes("a", "", frozenset({"rack"}), ("gpu-*",), Of.UNKNOWN),
              Causes("b", "", frozenset({"power"}), (), Of.UNREACHED),
              Causes("c", "", frozenset(KINDS), ("gpu-*",)))
    assert "all 4 nodes of rack r1: look" in of_site(*(blind(number) for number in range(4, 8)),
                                                     causes=causes)
    assert "all 4 nodes of power domain p1: look" in of_site(*(blind(number, "") for number in range(4, 8)),
                                                             causes=causes)


@pytest.mark.parametrize(("minutes", "before"), [(14, False), (15, False), (15.1, True)])
def test_a_node_out_of_service_had_it_before_where_it_began_there_more_than_a_window_earlier(
        minutes: float, before: bool) -> None:
    three = (blind(4, subject="GPU 1"), blind(4, began=-9, subject="GPU 2"), blind(5), blind(6))
    said = of_site(*three, blind(7, began=-9 - minutes / 60), out=(7,))
    words = "beside 1 not in service that had it before" if before else "1 of them not in service"
    assert f"all {4 - before} nodes of rack r1 and power domain p1 ({words}): look there first" in said
