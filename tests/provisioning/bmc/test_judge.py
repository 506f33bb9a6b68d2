"""What a controller says is judged by the node's rules; and who may be turned off."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from healthcheck.config import rulesfolder
from healthcheck.model.outcome import NodeReport, NodeState, Status
from healthcheck.ruleset.rule import Rule
from healthcheck.ruleset.ruleset import load_ruleset
from inventory.model import CordonBy, Inventory, IsolationBackend, Lifecycle, LifecycleState, Node
from provisioning.actions.base import ActionError, Holder, NodeHold
from provisioning.bmc import permission
from provisioning.bmc.base import BmcError, BmcErrorReason
from provisioning.bmc.judge import facts, judged, lines, rules_of
from tests.provisioning.bmc.redfishdocs import ref, service
from tests.provisioning.bmc.test_redfish_log import logged

NODE = Node("gpu001")
TIME = "2026-11-20T03:10:11Z"


@pytest.fixture(scope="module")
def rules() -> list[Rule]:
    return rules_of(load_ruleset(rulesfolder.folders(None)).rules)


def report(rules: list[Rule], documents: dict[str, Any]) -> NodeReport:
    return judged(NODE, rules, facts(service(documents)[0], 0.0))


def statuses(found: NodeReport) -> dict[str, Status]:
    return {one.rule: one.status for one in found.results}


def machine(*entries: dict[str, Any], **sensors: Any) -> dict[str, Any]:
    documents = logged(*entries)
    documents["/redfish/v1/Managers/1/LogServices/Sel"]["MaxNumberOfRecords"] = 1
    documents["/redfish/v1/Managers/1"]["DateTime"] = "2026-11-22T00:00:00Z"
    documents["/redfish/v1/Chassis/1"]["Thermal"] = ref("T")
    documents["/redfish/v1/T"] = {"Temperatures": [{"Name": "Inlet", "ReadingCelsius": 24, **sensors}]}
    return documents


def test_the_rules_are_those_of_the_node_itself(rules: list[Rule]) -> None:
    assert {rule.id for rule in rules} == {
        "bmc-sel-critical", "bmc-sel-full", "bmc-power-supply", "bmc-sensors", "bmc-fan"}


def test_what_is_well_passes_and_what_is_not_names_its_owner(rules: list[Rule]) -> None:
    well = report(rules, machine())
    assert statuses(well) == {"bmc-sel-critical": Status.PASS, "bmc-power-supply": Status.PASS,
                              "bmc-sensors": Status.PASS, "bmc-fan": Status.PASS,
                              "bmc-sel-full": Status.PASS}
    found = report(
        rules,
        machine({
            "Message": "Multi-bit memory errors detected on a memory device at location(s) DIMM_A1.",
            "Severity": "Critical", "Created": TIME}, UpperThresholdCritical=20))
    assert found.state is NodeState.UNHEALTHY
    assert statuses(found)["bmc-sel-full"] is Status.FAIL       # 1 of 1
    error_text = lines(found)
    assert error_text[0].startswith(
        "critical  bmc-sel-critical  BMC: Uncorrectable ECC: Multi-bit memory errors")
    assert error_text[1].startswith("  vendor: ")
    assert any(line.startswith("critical  bmc-sensors  Inlet: 24 degrees C (ucr)") for line in error_text)


def test_what_the_controller_calls_critical_and_no_rule_knows_does_not_pass(rules: list[Rule]) -> None:
    strange = {"Message": "The frobnicator is gone.", "Severity": "Critical", "Created": TIME}
    found = report(rules, machine(strange))
    assert statuses(found)["bmc-sel-critical"] is Status.UNKNOWN
    assert statuses(found)["bmc-power-supply"] is Status.PASS
    assert any("the controller reports it as critical, and no rule covers it: The frobnicator is gone" in line
               for line in lines(found))
    assert statuses(report(rules, machine({**strange, "Created": "2026-01-20T03:10:11Z"})))[
        "bmc-sel-critical"] is Status.PASS


def test_what_is_not_told_of_is_skipped_and_what_could_not_be_read_is_unknown(rules: list[Rule]) -> None:
    nothing = machine()
    del nothing["/redfish/v1/Managers/1"]["LogServices"]
    nothing["/redfish/v1/T"] = "no object"
    found = statuses(report(rules, nothing))
    assert {found["bmc-sel-critical"], found["bmc-power-supply"], found["bmc-sel-full"]} == {Status.SKIPPED}
    assert {found["bmc-sensors"], found["bmc-fan"]} == {Status.UNKNOWN}


def test_a_controller_that_cannot_be_asked_is_one_unknown_line(rules: list[Rule]) -> None:
    found = judged(NODE, rules, BmcError(BmcErrorReason.UNREACHABLE, "Connection refused"))
    assert found.state is NodeState.UNKNOWN
    assert lines(found) == ["unknown  nothing is judged: unreachable: Connection refused"]


class Scheduler:
    """A back end that says what it is told to."""

    name = "slurmish"

    def __init__(self, held: Mapping[str, NodeHold] | None) -> None:
        self._held = held

    def held(self, nodes: Collection[str]) -> Mapping[str, NodeHold]:
        if self._held is None:
            raise ActionError("scontrol is not there")
        return {node: self._held.get(node, NodeHold(Holder.NO_ONE, busy=False)) for node in nodes}


def why(
    monkeypatch: pytest.MonkeyPatch, state: LifecycleState, held: NodeHold | None, *, off: bool = True,
    cordon: bool = True,
) -> str:
    node = Node("gpu001", lifecycle=Lifecycle(state))
    scheduler = Scheduler({"gpu001": held} if held is not None else None)
    monkeypatch.setattr(permission, "backend", lambda inventory: scheduler)
    monkeypatch.setattr("shutil.which", lambda name: None)
    inventory = Inventory(
        {"gpu001": node}, {}, "m.yaml", CordonBy(IsolationBackend.SLURM) if cordon else None)
    return permission.why_not(inventory, [node], off=off).get("gpu001", "")


OURS, PERSONS, FREE = NodeHold(
    Holder.US, busy=False), NodeHold(Holder.OTHERS, busy=False), NodeHold(Holder.NO_ONE, busy=False)
NOT_REPORTED, ABSENT = NodeHold(Holder.US, busy=None), NodeHold(Holder.ABSENT)
SERVICE, BRINGUP, MAINTENANCE, RMA = (
    LifecycleState.SERVICE, LifecycleState.BRINGUP, LifecycleState.MAINTENANCE, LifecycleState.RMA)


@pytest.mark.parametrize(
    ("state", "held", "said"),
    [(SERVICE, OURS, ""), (SERVICE, FREE, "we do not hold it"), (SERVICE, PERSONS, "we do not hold it"),
     (SERVICE, ABSENT, "we do not hold it"), (SERVICE, NodeHold(Holder.US, busy=True), "a job is on it"),
     (SERVICE, NOT_REPORTED, "cannot say whether a job is there"),
     (SERVICE, None, "it is not known whether a job is there: scontrol is not there"), (BRINGUP, ABSENT, ""),
     (BRINGUP, FREE, ""), (BRINGUP, NodeHold(Holder.NO_ONE, busy=True), "a job is on it"),
     (BRINGUP, NOT_REPORTED, ""), (MAINTENANCE, PERSONS, ""), (MAINTENANCE, ABSENT, ""),
     (MAINTENANCE, NOT_REPORTED, "cannot say"), (RMA, NOT_REPORTED, ""),
     (RMA, NodeHold(Holder.OTHERS, busy=True), "a job is on it")])
def test_who_may_be_turned_off_where_a_scheduler_is(
    monkeypatch: pytest.MonkeyPatch, state: LifecycleState, held: NodeHold | None, said: str,
) -> None:
    found = why(monkeypatch, state, held)
    assert said in found
    assert bool(found) == bool(said)


@pytest.mark.parametrize(
    ("state", "may_be"),
    [(SERVICE, False), (MAINTENANCE, False), (BRINGUP, True), (LifecycleState.PLANNED, True), (RMA, True)])
def test_without_a_scheduler_a_lifecycle_is_the_proof_or_nothing_is(
    monkeypatch: pytest.MonkeyPatch, state: LifecycleState, may_be: bool,
) -> None:
    assert (why(monkeypatch, state, None, cordon=False) == "") is may_be


@pytest.mark.parametrize(
    ("state", "held", "may_be"),
    [(SERVICE, FREE, False), (SERVICE, NodeHold(Holder.US, busy=True), True), (MAINTENANCE, FREE, True)])
def test_what_only_the_next_boot_notices_needs_no_proof_that_nothing_runs(
    monkeypatch: pytest.MonkeyPatch, state: LifecycleState, held: NodeHold, may_be: bool,
) -> None:
    assert (why(monkeypatch, state, held, off=False) == "") is may_be
