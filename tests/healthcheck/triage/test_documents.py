"""What programs read of triage: the plan and the replay as documents, each by its JSON Schema,
and the lines that people read beside."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest

from healthcheck.replay.compare import IsolationPair, People, PeopleCordon, PolicyComparison, Side
from healthcheck.replay.run import Hold
from healthcheck.report import replay as report
from healthcheck.report.plan import document, text
from healthcheck.triage.past import NodeHistory, OpenCordon
from healthcheck.triage.plan import TriagePlan, make
from healthcheck.triage.windows import ChangeWindow
from provisioning.actions.slurm import SlurmBackend
from tests.documents import schema
from tests.healthcheck.triage.made import NOW, at, looks, problem
from tests.healthcheck.triage.test_breaker import bounded, fleet, packaged_policy, ports
from tests.healthcheck.triage.test_suspect import plan as suspecting
from tests.healthcheck.triage.test_suspect import sick


def lines(plan: TriagePlan) -> list[str]:
    return list(text(plan, 512, 512, NOW - 60))


def released() -> TriagePlan:
    well = NodeHistory("n001", over=(problem("host-memory", "", began=-9, ended=-5),),
                       cordons=(OpenCordon(7, "slurm", "why", at(-8), 1),), snapshots=looks(-3, -1),
                       state="healthy", seen=at(-1))
    return make(replace(fleet(32, {}), nodes=(well,)), bounded(4))


PLANS = {
    "empty": lambda: make(fleet(32, {}), packaged_policy()),
    "beyond the bound": lambda: make(fleet(512, ports(range(32), range(64, 96))), packaged_policy()),
    "in a window": lambda: make(fleet(64, {1: ("kernel-xid",)}),
                                bounded(4,
                                        windows=(ChangeWindow(
                                            at(-1), at(1), "x", frozenset({"gpu-lost"})),))),
    "at most": lambda: make(fleet(64, {1: ("kernel-xid",), 40: ("kernel-xid",)}), bounded(4), 1),
    "suspected": lambda: suspecting(*sick(41)),
    "released": released,
}


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_is_by_its_schema(name: str) -> None:
    jsonschema.validate(json.loads(json.dumps(document(PLANS[name]()))), schema("triage-1"))


def test_a_plan_that_lacks_a_member_is_not_by_the_schema() -> None:
    whole = json.loads(json.dumps(document(PLANS["empty"]())))
    for key in whole:
        wrong = {other: value for other, value in whole.items() if other != key}
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema("triage-1"))


def test_what_is_isolated_for_one_reason_is_one_line() -> None:
    plan = make(fleet(512, ports(range(32))), packaged_policy())
    assert len(plan.steps) == 32
    (said,) = [line for line in lines(plan) if line.startswith("isolate ")]
    assert (said.startswith("isolate   n[000-031]: incident ")
            and said.endswith("[no-new-jobs; inspect, by network]"))


def test_what_is_beyond_the_bound_is_a_line_for_each_incident_and_for_each_fault_of_the_rest() -> None:
    some = {**ports(range(32), range(64, 96)), **dict.fromkeys(range(128, 512, 5), ("host-memory",))}
    said = [line for line in lines(make(fleet(512, some), packaged_policy())) if line.startswith("withheld")]
    assert len(said) == 2 and sum("incident " in line for line in said) == 1
    assert any(line.startswith("withheld  isolate n[") and ": host-hardware, " in line
               and " nodes: the breaker is open: 6 new isolations in 1 h beside 32 in leaf leaf-" in line
               for line in said), said


def test_one_node_beyond_is_a_line_with_its_fault() -> None:
    said = lines(make(fleet(64, {1: ("kernel-xid",), 40: ("host-memory",)}), bounded(1)))
    assert any(line.startswith("withheld  isolate n040: host-hardware, 1 node: the breaker is open")
               for line in said), said


def test_jobs_that_should_end_are_left_to_a_person_with_the_command_for_it() -> None:
    held = NodeHistory("n007", problems=(problem("gpu-count", node="n007"),),
                       cordons=(OpenCordon(7, "slurm", "why", at(-8), 1),))
    some = fleet(64, {1: ("gpu-count",), 40: ("kernel-xid",)})
    plan = make(replace(some, nodes=(*some.nodes, held)), bounded(4))
    assert plan.to_end == ("n001", "n007")
    said = list(text(plan, 64, 64, NOW - 60, end_jobs=SlurmBackend().end_jobs))
    assert ("by hand   n[001,007]: end the jobs that still run there; muster ends none: "
            "scancel --nodelist=n[001,007]") in said
    whole = json.loads(json.dumps(document(plan, SlurmBackend().end_jobs)))
    jsonschema.validate(whole, schema("triage-1"))
    assert whole["by_hand"] == [{"nodes": ["n001", "n007"], "what": "end-jobs",
                                 "how": "scancel --nodelist=n[001,007]"}]
    assert any(line.endswith("muster ends none: by the scheduler's own command") for line in lines(plan))


def test_a_node_that_is_not_isolated_keeps_its_jobs() -> None:
    plan = make(fleet(64, {1: ("gpu-count",)}), bounded(4), 0)
    assert plan.to_end == () and not any(line.startswith("by hand") for line in lines(plan))


def test_a_sick_node_out_of_service_is_not_called_held_unless_we_hold_it() -> None:
    away = NodeHistory("n001", in_service=False, lifecycle="rma", problems=(problem("gpu-count"),))
    ours = replace(away, node="n002", cordons=(OpenCordon(7, "slurm", "why", at(-8), 1),))
    plan = make(replace(fleet(32, {}), nodes=(away, ours)), bounded(4))
    said = lines(plan)
    assert any(line.startswith("not in service n001: rma; gpu-lost: gpu-count") for line in said), said
    assert next(line for line in said if line.startswith("held ")).startswith("held      n002: gpu-lost: ")
    assert plan.unfit == () and "; 0 not fit for new jobs; " in said[0]


def hold(node: str, began: float, ended: float | None, why: str = "kernel-xid", back: str = "") -> Hold:
    return Hold(node, at(began), at(ended) if ended is not None else None, why, back)


def test_a_trial_is_by_its_schema_and_says_how_to_switch_it_on() -> None:
    ours, theirs = hold("n1", -20, -10, back="clean"), hold("n2", -5, None, "riser change")
    people = People((PeopleCordon(hold("n1", -18, -9), True, 7200.0), PeopleCordon(theirs, False)), 0, 8.0,
                    2.0, 6.0)
    found = PolicyComparison(at(-24), NOW, (IsolationPair(ours, None, False),),
                             Side(1, 1, 10.0, ((at(-20), "many"),)), Side(0, 0, 0.0, ()), 3, 40, people)
    jsonschema.validate(json.loads(json.dumps(report.document(found))), schema("replay-1"))
    said = "\n".join(report.text(found))
    assert ("people cordoned 2 times: triage agrees with 1, of which it would have isolated 1 earlier, by "
            "2.0 h in the median" in said)
    assert "node-hours out of service: 8.0 by both, 2.0 by triage alone, 6.0 by people alone" in said
    assert ("people alone  n2: riser change" in said and "muster triage --apply --at-most 2" in said
            and "*/5 * * * *" in said)
