"""Triage names an open change as a possible cause of what began since on its canary, and does what it would
do without it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from healthcheck.change.cause import explained
from healthcheck.change.model import ChangeJudgement, ChangeVerdict, SiteChange
from healthcheck.model.outcome import Owner
from healthcheck.model.problem import Problem
from healthcheck.model.verdict import Incident
from healthcheck.triage.plan import TriagePlan, make
from tests.healthcheck.change import planted
from tests.healthcheck.triage import made


def change(hours: float, *canary: str, name: str = "driver-575") -> SiteChange:
    return replace(planted.fleet(1).change, name=name, began=made.at(hours), canary=canary)


def plan(*problems: Problem) -> TriagePlan:
    nodes = [made.past(one.node, one) for one in problems]
    return make(made.fleet(*nodes, healthy=40), made.policy())


def without_words(found: TriagePlan) -> TriagePlan:
    """The plan but for the words of its verdicts, incidents and steps."""
    return replace(found, verdicts=tuple(replace(one, why="") for one in found.verdicts),
                   incidents=tuple(replace(one, why="") for one in found.incidents),
                   steps=tuple(replace(one, why="", verdict=replace(one.verdict, why=""))
                               for one in found.steps))


def test_what_began_on_the_canary_since_is_named_and_the_steps_are_the_same() -> None:
    before = plan(made.problem(node="n1", began=-1), made.problem(node="n2", began=-1),
                  made.problem(node="n3", began=-9))
    after = explained(before, [change(-5, "n1", "n3")])
    words = {one.node: one.why for one in after.verdicts}
    assert (words["n1"].startswith("possible cause: change driver-575, begun at 20")
            and "possible" not in words["n2"] + words["n3"])
    (step,) = [one for one in after.steps if one.node == "n1"]
    assert step.why == f"lost: {words['n1']}" and step.verdict.why == words["n1"]
    assert without_words(after) == without_words(before)


@pytest.mark.parametrize("other", ["passed", "later", "long ago", "other nodes", "none"])
def test_a_change_that_cannot_be_it_is_not_named(other: str) -> None:
    before = plan(made.problem(node="n1", began=-1))
    passed = ChangeJudgement(made.at(-2), "ann", ChangeVerdict.PASSED, "", ())
    changes = {"passed": [replace(change(-5, "n1"), judgements=(passed,))], "later": [change(-0.5, "n1")],
               "long ago": [change(-24 * 15, "n1")], "other nodes": [change(-5, "n2")], "none": []}[other]
    assert explained(before, changes) == before


def test_one_that_was_found_worse_is_named_and_of_several_the_newest() -> None:
    worse = ChangeJudgement(made.at(-2), "ann", ChangeVerdict.WORSE, "", ())
    found = explained(plan(made.problem(node="n1", began=-1)), [
        change(-9, "n1", name="older"), replace(change(-5, "n1", name="newer"), judgements=(worse,))])
    assert "change newer" in found.verdicts[0].why and "older" not in found.verdicts[0].why


def test_an_incident_names_it_with_how_many_of_its_nodes_are_the_canary() -> None:
    shared = replace(plan(made.problem(node="n1", began=-9)), incidents=(
        Incident("rack", "r1", ("n1", "n2", "n9"), "three nodes behind rack r1", Owner.DATACENTRE),
        Incident("rack", "r2", ("n1", "n2"), "older than the change", Owner.DATACENTRE, began=made.at(-7))))
    after = explained(shared, [change(-5, "n1", "n2", "n3", "n4")])
    assert [one.why.endswith(before.why)
            for one, before in zip(after.incidents, shared.incidents, strict=True)] == [True, True]
    assert (after.incidents[0].why.startswith("possible cause: change driver-575")
            and "2 of its 3 nodes" in after.incidents[0].why)
    assert after.incidents[1] == shared.incidents[1] and without_words(after) == without_words(shared)


def test_words_that_triage_has_kept_name_a_change_once_however_often_it_runs() -> None:
    shared = replace(plan(made.problem(node="n1", began=-1)), incidents=(
        Incident("rack", "r1", ("n1", "n2"), "two nodes behind rack r1; look there", Owner.DATACENTRE),))
    once = explained(shared, [change(-5, "n1")])
    again = explained(replace(shared, incidents=once.incidents), [change(-5, "n1")])
    assert again == once and once.incidents[0].why.endswith("; two nodes behind rack r1; look there")
