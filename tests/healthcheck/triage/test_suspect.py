"""Muster suspects itself: a rule that newly fails on many nodes since what judges them changed isolates no
node, and one of a few does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from healthcheck.config.rulesfolder import packaged
from healthcheck.facts.base import FACTS
from healthcheck.facts.kernel import LOG
from healthcheck.model.faultkind import FaultKind, Isolation
from healthcheck.model.outcome import Severity
from healthcheck.model.verdict import IncidentMember, StoredIncident
from healthcheck.ruleset.ruleset import load_ruleset
from healthcheck.store.versions import POLICY
from healthcheck.triage.past import FleetHistory, NodeHistory, OpenCordon, OpenVerdict, Quiet, VersionChange
from healthcheck.triage.plan import Act, TriagePlan, make
from healthcheck.triage.policy import TriagePolicy
from healthcheck.triage.suspect import RULES, suspected, suspects
from tests.healthcheck.triage.made import NOW, at, problem
from tests.healthcheck.triage.test_breaker import bounded

BEGAN, BEFORE, UNTIL = at(-2), at(-2.1), at(-1.9)
RULE = VersionChange("rule", "host-memory", "b", BEGAN, BEFORE, UNTIL)


def node(number: int, rule: str = "host-memory", began: float = -2, **more: Any) -> NodeHistory:
    wrong = (problem(rule, "", node=f"n{number:03}", sweeps=9, began=began),) if rule else ()
    values: dict[str, Any] = {"problems": wrong, "boots": (at(-900),), "state": "healthy", "seen": at(-0.1),
                              **more}
    return NodeHistory(f"n{number:03}", **values)


def plan(
    *nodes: NodeHistory, size: int = 512, changes: tuple[VersionChange, ...] = (RULE,),
    policy: TriagePolicy | None = None, **more: Any,
) -> TriagePlan:
    others = tuple(NodeHistory(f"w{number:03}", state="healthy", seen=at(-0.1))
                   for number in range(size - len(nodes)))
    return make(FleetHistory(NOW, (*nodes, *others), since=at(-2000), changes=changes, **more),
                policy or bounded(1000))


def sick(count: int, **more: Any) -> tuple[NodeHistory, ...]:
    return tuple(node(number, **more) for number in range(count))


def isolated(made: TriagePlan) -> int:
    return sum(step.act is Act.ISOLATE for step in made.steps)


def test_a_rule_that_newly_fails_on_many_since_its_text_changed_is_musters_own_and_says_what_changed(
) -> None:
    made = plan(*sick(41))
    (one,) = made.incidents
    assert (one.kind, one.cause, one.owner.value, len(one.nodes)) == (
        RULES, "rule host-memory since 2027-01-15T06:00Z", "operator", 41)
    assert one.why == ("rule host-memory changed after 2027-01-15T05:54Z, first sweep with it "
                       "2027-01-15T06:00Z; 41 of 512 nodes in service fail it since; before: 0: look at what "
                       "changed before any node; no node is isolated for it")
    assert (made.steps == () and made.withheld == () and made.verdicts == () and not made.is_open
            and not one.isolates)


def test_what_began_before_the_change_or_long_after_it_is_each_nodes_own() -> None:
    assert isolated(plan(*sick(41, began=-3))) == 41
    assert isolated(plan(*sick(41, began=-1))) == 41
    made = plan(*sick(41), *(node(number, began=-3) for number in range(100, 103)))
    assert isolated(made) == 3 and "before: 3" in made.incidents[0].why


def test_a_rule_that_came_and_went_on_a_node_before_the_change_is_not_excused_there() -> None:
    old = (problem("host-memory", "DIMM 3", node="n000", began=-9, ended=-2),)
    long_ago = (problem("host-memory", "DIMM 3", node="n001", began=-90, ended=-80),)
    made = plan(node(0, over=old), node(1, over=long_ago), *sick(41)[2:])
    assert [step.node for step in made.steps] == ["n000"]


@pytest.mark.parametrize(("count", "size", "excused"), [
    (1, 512, 0), (2, 512, 0), (25, 512, 0), (26, 512, 26), (2, 8, 0), (3, 8, 3), (26, 520, 0), (26, 522, 0)])
def test_a_fault_of_a_few_nodes_right_after_a_change_isolates_them(
    count: int, size: int, excused: int,
) -> None:
    made = plan(*sick(count), size=size)
    assert (isolated(made) == count - excused and sum(one.kind == RULES for one in made.incidents)
            == bool(excused))


def test_a_fault_for_which_only_the_policy_of_now_keeps_jobs_away_is_musters_own_where_many_nodes_have_it(
) -> None:
    before = (FaultKind("fans", "", ("fan-*",), isolation=Isolation.NO_NEW_JOBS),)
    newly = VersionChange(POLICY, "host-hardware", "b", BEGAN, BEFORE, UNTIL, faults=before)
    made = plan(*sick(41, began=-9), changes=(newly,))
    (one,) = made.incidents
    assert isolated(made) == 0 and (
        "41 of 512 nodes in service fail host-memory, which counts for more since: look at" in one.why)
    other = replace(newly, name="gpu-lost")
    assert isolated(plan(*sick(41, began=-9), changes=(other,))) == 41


def test_what_is_known_of_the_change_of_a_rule_is_said_from_what_to_what() -> None:
    severe = replace(RULE, was="a", said={"severity": "warning"}, says={"severity": "critical"})
    assert plan(*sick(41, began=-9), changes=(severe,)).incidents[0].why == (
        "rule host-memory changed after 2027-01-15T05:54Z (severity warning -> critical), first sweep with "
        "it 2027-01-15T06:00Z; 41 of 512 nodes in service fail it, which counts for more since: look at what "
        "changed before any node; no node is isolated for it")


def test_another_fault_of_such_a_node_isolates_it() -> None:
    both = tuple(replace(one,
                         problems=(*one.problems,
                                   problem("gpu-count", "", node=one.node, began=-2, sweeps=3)))
                 for one in sick(2))
    made = plan(*both, *sick(41)[2:])
    assert {(step.node, step.verdict.fault) for step in made.steps} == {
        ("n000", "gpu-lost"), ("n001", "gpu-lost")}


@pytest.mark.parametrize(("change", "rule", "excused"), [
    (VersionChange("rule", "port-state", "b", BEGAN, BEFORE, UNTIL), "host-memory", False),
    (VersionChange("rule", "host-memory", "b", BEGAN, None, UNTIL), "host-memory", True),
    (VersionChange("muster", "muster", "0.2.0", BEGAN, BEFORE, UNTIL), "host-memory", True),
    (VersionChange("sku", "h100", "b", BEGAN, BEFORE, UNTIL), "host-memory", True),
    (VersionChange("sku", "h200", "b", BEGAN, BEFORE, UNTIL), "host-memory", False),
    (VersionChange("baseline", "kernel/nvidia.yaml", "b", BEGAN, BEFORE, UNTIL), "kernel-fault", True),
    (VersionChange("baseline", "kernel/nvidia.yaml", "b", BEGAN, BEFORE, UNTIL), "host-memory", False),
    (VersionChange("baseline", "kernel/nvme.yaml", "b", BEGAN, BEFORE, UNTIL), "disk-log-io-errors", True),
    (VersionChange("baseline", "emitter/rdma.yaml", "b", BEGAN, BEFORE, UNTIL), "hca-log-fatal", True),
    (VersionChange("baseline", "xid.yaml", "b", BEGAN, BEFORE, UNTIL), "kernel-xid", True),
    (VersionChange("baseline", "sxid.yaml", "b", BEGAN, BEFORE, UNTIL), "kernel-sxid", True),
    (VersionChange("baseline", "xid.yaml", "b", BEGAN, BEFORE, UNTIL), "kernel-fault", False)])
def test_what_changed_answers_for_what_it_decides_on(change: VersionChange, rule: str, excused: bool) -> None:
    made = plan(*sick(41, rule=rule, sku="h100"), changes=(change,))
    assert isolated(made) == (0 if excused else 41)
    if excused:
        (one,) = made.incidents
        assert (("is new" in one.why) is (change.before is None)
                and (change.name in one.why or "muster 0.2.0" in one.why))


def test_every_rule_that_reads_the_kernels_log_is_decided_on_by_the_files_for_it() -> None:
    nvidia = VersionChange("baseline", "kernel/nvidia.yaml", "b", BEGAN, BEFORE, UNTIL)
    by_log = [rule for rule in load_ruleset([packaged()]).rules
              if any(probe.id == LOG.id for fact in rule.checked.facts if fact in FACTS
                     for probe in FACTS[fact].probes)]
    assert len(by_log) > 20
    for rule in by_log:
        if rule.severity is Severity.CRITICAL:
            assert isolated(plan(*sick(41, rule=rule.id), changes=(nvidia,))) == 0, rule.id


def test_the_change_that_explains_most_answers_alone() -> None:
    both = (RULE, VersionChange("muster", "muster", "0.2.0", BEGAN, BEFORE, UNTIL))
    two_rules = tuple(replace(one,
                              problems=(*one.problems,
                                        problem("cpu-count", "", node=one.node, began=-2, sweeps=3)))
                      for one in sick(41))
    made = plan(*two_rules, changes=both)
    assert ([one.cause.partition(" since ")[0] for one in made.incidents] == ["muster 0.2.0"]
            and isolated(made) == 0)
    assert ("41 of 512 nodes in service fail cpu-count since; before: 0, 41 of 512 nodes in service fail "
            "host-memory since" in made.incidents[0].why)


def driver(number: int, began: float = -2, digest: str = "580.2", **more: Any) -> NodeHistory:
    change = VersionChange("driver", f"n{number:03}", digest, at(began), at(began - 0.1), at(began + 0.1))
    return node(number, "gpu-answers", began, changed=(change,), versions={"driver": digest}, **more)


def test_a_rule_that_newly_fails_under_a_new_driver_is_an_incident_of_that_version_and_isolates_no_node(
) -> None:
    made = plan(*(driver(number, began=-2 - number / 10) for number in range(41)), changes=())
    (one,) = made.incidents
    assert (one.kind, one.isolates, len(one.nodes)) == ("driver", False, 41) and made.steps == ()
    assert (one.cause == "580.2 since 2027-01-15T02:00Z"
            and one.why.startswith("driver 580.2 changed after 2027-01-15T01:54Z, first sweep with it "))
    assert one.why.endswith(": look at that version before any node; no node is isolated for it")
    assert suspected(one.kind, one.cause) and "41 of 512 nodes in service fail gpu-answers since" in one.why
    assert isolated(plan(*(driver(number) for number in range(2)), changes=())) == 2
    assert isolated(plan(*(driver(number, digest=str(number)) for number in range(41)), changes=())) == 41


@pytest.mark.parametrize(("severity", "count"), [("info", 0), ("warning", 1)])
def test_a_rule_that_only_informs_is_no_incident_and_one_that_warns_is(severity: str, count: int) -> None:
    told = tuple(replace(one, problems=tuple(replace(each, severity=severity) for each in one.problems))
                 for one in sick(41))
    assert sum(one.kind == RULES for one in plan(*told).incidents) == count


def test_nodes_whose_kind_no_one_named_may_be_of_the_one_that_changed() -> None:
    changed = VersionChange("sku", "h100", "b", BEGAN, BEFORE, UNTIL)
    assert isolated(plan(*sick(41, sku=""), changes=(changed,))) == 0
    assert "before: 0" in plan(*sick(41, sku="h100"),
                               *(node(number, began=-3, sku="h200") for number in range(41, 44)),
                               changes=(changed,)).incidents[0].why


@pytest.mark.parametrize(("began", "excused"), [(-1.9, 41), (-1.89, 0)])
def test_what_the_sweep_after_the_change_shows_is_still_of_it(began: float, excused: int) -> None:
    assert isolated(plan(*sick(41, began=began))) == 41 - excused


@pytest.mark.parametrize(("ended", "rule", "excused"),
                         [(-20, "host-memory", False), (-28, "host-memory", True), (-20, "cpu-count", True)])
def test_a_rule_that_failed_on_a_node_within_a_day_before_the_change_is_not_excused_there(
    ended: float, rule: str, excused: bool,
) -> None:
    old = (problem(rule, "DIMM 3", node="n000", began=-30, ended=ended),)
    unmeasured = (problem("host-memory", "DIMM 3", node="n001", began=-9, ended=-3, status="unknown"),)
    assert isolated(plan(node(0, over=old), node(1, over=unmeasured), *sick(41)[2:])) == (0 if excused else 1)


def test_nodes_of_which_nothing_is_to_be_said_are_in_service_too() -> None:
    assert isolated(plan(*sick(10), size=10)) == 0
    assert isolated(plan(*sick(10), size=10, quiet=Quiet(serving=500))) == 10
    assert "10 of 110 nodes in service" in plan(*sick(10), size=10, quiet=Quiet(serving=100)).incidents[0].why


@pytest.mark.parametrize(("count", "more"), [(4, ""), (5, ", and 1 rules more")])
def test_at_most_four_rules_are_named(count: int, more: str) -> None:
    rules = ("cpu-count", "disk-state", "fan-speed", "gpu-count", "host-memory")[:count]
    wrong = tuple(replace(one, problems=tuple(problem(rule, "", node=one.node, began=-2, sweeps=9)
                                              for rule in rules)) for one in sick(41))
    (one,) = plan(*wrong,
                  changes=(VersionChange("muster", "muster", "0.2.0", BEGAN, BEFORE, UNTIL),)).incidents
    assert f"fail {rules[3]} since; before: 0{more}: look" in one.why


@pytest.mark.parametrize(("kind", "cause", "of_a_change"),
                         [(RULES, "rule host-memory since then", True), ("driver", "580.2 since then", True),
                          ("driver", "580.2", False), ("rack", "r3 since then", False)])
def test_an_incident_of_a_change_says_since_when(kind: str, cause: str, of_a_change: bool) -> None:
    assert suspected(kind, cause) is of_a_change


def test_of_two_changes_the_one_that_explains_more_answers_and_the_other_for_what_it_leaves() -> None:
    rule = replace(RULE, began=at(-1), before=at(-1.1), until=at(-0.9))
    muster = VersionChange("muster", "muster", "0.2.0", BEGAN, BEFORE, UNTIL)
    made = plan(*sick(60), *(node(number, began=-1) for number in range(60, 100)), changes=(rule, muster))
    assert [(one.cause.partition(" since")[0], len(one.nodes)) for one in made.incidents] == [
        ("muster 0.2.0", 60), ("rule host-memory", 40)]
    assert isolated(made) == 0


def test_what_answers_for_nothing_on_a_node_excuses_nothing_there() -> None:
    few = tuple(node(number, "cpu-count") for number in range(100, 102))
    nodes = (*sick(41), *few, *(NodeHistory(f"w{number:03}", state="healthy", seen=at(-0.1))
                                for number in range(400)))
    _, waived = suspects(FleetHistory(NOW, nodes, since=at(-2000),
                                      changes=(RULE,
                                               VersionChange("muster", "muster", "0.2.0", BEGAN, BEFORE,
                                                             UNTIL))), bounded(1000))
    assert waived == {f"n{number:03}": frozenset({"host-memory"}) for number in range(41)}


# ---- how it lasts, and ends

def known(made: TriagePlan, number: int = 1, **more: Any) -> StoredIncident:
    """The incident as the store remembers it afterwards."""
    one = made.incidents[0]
    return replace(StoredIncident(number, one.kind, one.cause, one.symptoms, one.owner.value, one.why, 0.0,
                                  one.began, NOW, one.members),
                   **more)


def test_it_lasts_while_most_of_its_nodes_fail_and_then_each_stands_for_itself() -> None:
    first = known(plan(*sick(40)))
    well = tuple(node(number, "") for number in range(20))
    made = plan(*well, *sick(40)[20:], incidents=(first,), next_incident=2)
    # under the share by now
    assert [(one.id, len(one.nodes)) for one in made.incidents] == [(1, 20)] and isolated(made) == 0
    made = plan(*well, node(20, ""), *sick(40)[21:], incidents=(first,), next_incident=2)
    assert ([one.kind for one in made.incidents] == ["moment"] and [end.id for end in made.ends] == [1]
            and isolated(made) == 19)
    ended = replace(first, ended=at(-0.1), by="triage",
                    members=tuple(replace(one, ended=at(-0.1)) for one in first.members))
    made = plan(*sick(40), incidents=(ended,), next_incident=2)
    assert isolated(made) == 40 and not any(one.kind == RULES for one in made.incidents)


def test_it_ends_when_what_changed_changes_again() -> None:
    first = known(plan(*sick(41)))
    made = plan(*sick(41),
                changes=(replace(RULE, digest="c", began=at(-1), before=at(-1.1), until=at(-0.9)),),
                incidents=(first,), next_incident=2)
    assert [end.id for end in made.ends] == [1] and isolated(made) == 41


def test_a_person_ends_it_and_each_node_stands_for_itself_within_the_bound() -> None:
    first = known(plan(*sick(41)))
    closed = replace(first, ended=at(-0.1), by="a person", closed="the rule is right",
                     members=tuple(IncidentMember(one.node, one.began, one.seen, at(-0.1))
                                   for one in first.members))
    made = plan(*sick(41), incidents=(closed,), next_incident=2, policy=bounded(5))
    assert isolated(made) == 5 and made.is_open and not any(one.kind == RULES for one in made.incidents)


def test_what_was_excused_makes_no_one_a_repeat_offender_later() -> None:
    first = known(plan(*sick(41)), ended=at(-0.1), by="triage")
    over = (problem("host-memory", "", node="n000", began=-2, ended=-0.1),)
    again = node(0, "host-memory", -0.05, over=over * 3)
    made = plan(again, changes=(), incidents=(first,), next_incident=2)
    assert isolated(made) == 1 and "repeat" not in made.steps[0].why and "came" not in made.steps[0].why


def test_a_node_that_is_held_for_it_is_not_returned_while_the_rule_fails() -> None:
    held = node(0, cordons=(OpenCordon(7, "slurm", "why", at(-1.5), 1),),
                verdict=OpenVerdict(1, "host-hardware", Isolation.NO_NEW_JOBS, at(-1.5)))
    made = plan(held, *sick(41)[1:])
    assert [(one.act, one.node) for one in made.withheld] == [(Act.RELEASE, "n000")] and made.steps == ()
