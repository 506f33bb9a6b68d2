"""The steps checks and kernel: what keeps a machine; and a real look at this machine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.config.rulesfolder import packaged
from healthcheck.model.outcome import Finding, NodeReport, Origin, Owner, Result, Severity, Status, state_of
from healthcheck.ruleset.ruleset import load_ruleset
from healthcheck.store.file import opened
from healthcheck.store.readings import Component, NodeReadings
from provisioning.bringup.engine.model import StepState
from provisioning.bringup.steps.checks import Checks
from provisioning.bringup.steps.kernel import Kernel, of_log
from provisioning.bringup.steps.sweeps import judged
from tests.provisioning.bringup.afteros import after, context, machines, step

GPU = Component("gpu", "0000:3b:00.0", "1320920000001", "GPU 3")
KNOWN = NodeReadings((GPU,), (), frozenset({"gpu"}))


def report(*results: Result) -> NodeReport:
    return NodeReport("n1", state_of(results), "", results)


def result(status: Status, severity: Severity = Severity.CRITICAL, **more: object) -> Result:
    return replace(Result("gpu-row-remap-failed", "gpu.row_remap_failed", status, severity),
                   **more)  # type: ignore[arg-type]


def test_a_fail_is_trouble_of_the_rule_s_owner_with_the_part_s_slot_and_serial() -> None:
    finding = Finding("failed", "not failed", "GPU 3")
    seen = judged(
        report(result(Status.FAIL, findings=(finding,), remedy="Exchange it.", owner=Owner.VENDOR)), KNOWN)
    (trouble,) = seen.troubles
    assert seen.stand is StepState.TROUBLE
    assert (trouble.owner, trouble.hand, trouble.part, trouble.slot, trouble.serial) == (
        Owner.VENDOR, "Exchange it.", "gpu", "0000:3b:00.0", "1320920000001")
    assert trouble.what == "gpu-row-remap-failed: GPU 3: failed, expected not failed"


def test_what_a_finding_says_of_itself_goes_before_its_rule() -> None:
    finding = Finding("down", "up", "mlx5_0", remedy="Look at the cable.", owner=Owner.NETWORK)
    (trouble,) = judged(report(result(Status.FAIL, findings=(finding,), remedy="Exchange it.",
                                      owner=Owner.VENDOR)), KNOWN).troubles
    assert (trouble.owner, trouble.hand, trouble.slot) == (Owner.NETWORK, "Look at the cable.", "mlx5_0")


@pytest.mark.parametrize("severity", [Severity.WARNING, Severity.CRITICAL])
def test_what_was_not_measured_is_looked_at_again_and_is_no_pass(severity: Severity) -> None:
    seen = judged(
        report(result(Status.PASS),
               result(Status.UNKNOWN, severity, reason="nvidia-smi is not there", origin=Origin.NODE)), None)
    assert seen.stand is StepState.UNKNOWN and "nvidia-smi is not there" in seen.message


def test_info_keeps_no_one_and_nothing_judged_is_no_pass() -> None:
    assert judged(report(result(Status.PASS), result(Status.FAIL, Severity.INFO)), None).stand is StepState.SO
    assert judged(report(result(Status.SKIPPED)), None).stand is StepState.UNKNOWN
    assert (judged(NodeReport("n1", state_of(()), "no one answers", (), stage="connect"), None).message
            == "connect: no one answers")


@given(st.lists(st.tuples(st.sampled_from(Status), st.sampled_from(Severity))))
def test_it_is_so_only_where_something_passed_and_nothing_that_counts_did_not(
    message: list[tuple[Status, Severity]],
) -> None:
    stand = judged(report(*(result(status, severity) for status, severity in message)), None).stand
    counted = {status for status, severity in message if severity is not Severity.INFO}
    assert (stand is StepState.SO) == (Status.PASS in counted and not counted & {Status.FAIL, Status.UNKNOWN})
    assert (stand is StepState.TROUBLE) == (Status.FAIL in counted)


def test_hostile_words_of_a_node_are_bounded_and_hold_no_escape() -> None:
    finding = Finding("x" * 9000 + "\x1b]0;", "\n\n", "GPU \x1b[31m3")
    seen = judged(report(result(Status.FAIL, findings=(finding,) * 500, remedy="", owner=None)), KNOWN)
    assert len(
        seen.troubles) == 40 and all(len(one.what) < 600 and one.what.isprintable() for one in seen.troubles)
    assert {one.owner for one in seen.troubles} == {Owner.OPERATOR}


def test_a_real_look_must_be_well_as_often_in_a_row_as_the_policy_says_and_is_kept_in_the_store(
    tmp_path: Path,
) -> None:
    (tmp_path / "muster.yaml").write_text(
        json.dumps({"version": 1, "nodes": {"n1": {"sku": "cpu-only", "lifecycle": "bringup"}}}))
    rules = load_ruleset([packaged()])
    of = context(tmp_path,
                 replace(rules,
                         rules=tuple(rule for rule in rules.rules
                                     if rule.id in ("filesystem-read-only", "kernel-fault"))))
    checks = Checks(step("checks"), of, "bringup", 2, 7.0)
    (machine,) = machines(of, "n1")
    ((_, seen),) = checks.observe([machine])
    assert (seen.stand, seen.again_s, seen.message) == (StepState.WAIT, 7.0, "1 rule passed, snapshot 1 of 2")
    ((_, seen),) = checks.observe([after(machine, seen)])
    assert seen.stand is StepState.SO and seen.message == "1 rule passed, snapshot 2 of 2"
    with opened(of.folder) as store:
        assert [row[0] for row in store.rows("SELECT source FROM sweep")] == ["muster bringup"] * 2


def novel(status: Status, reason: str = "") -> Result:
    return Result("kernel-novel", "kernel.novel", status, Severity.INFO, reason=reason)


def test_a_kernel_log_without_a_baseline_is_trouble_that_names_what_to_type() -> None:
    for one in ((novel(Status.SKIPPED, "no baseline for H100, driver 550"),),
                (novel(Status.UNKNOWN, "no baseline for it"),), ()):
        on_event = report(result(Status.PASS), *one)
        seen, node = of_log(on_event, None), on_event.node
        (trouble,) = seen.troubles
        assert (seen.stand is StepState.TROUBLE and "muster baseline learn" in trouble.hand
                and f"muster bringup retry {node}" in trouble.hand and trouble.owner is Owner.OPERATOR)
        assert (one[0].reason if one else "not judged") in trouble.what


def test_a_line_that_is_merely_new_keeps_no_one_and_a_known_fault_does() -> None:
    assert of_log(report(result(Status.PASS), novel(Status.FAIL)), None).stand is StepState.SO
    assert of_log(report(result(Status.FAIL), novel(Status.PASS)), None).stand is StepState.TROUBLE
    assert of_log(report(result(Status.UNKNOWN), novel(Status.PASS)), None).stand is StepState.UNKNOWN


def test_the_kernel_s_log_is_looked_at_by_its_own_rules_alone(tmp_path: Path) -> None:
    (tmp_path / "muster.yaml").write_text(
        json.dumps({"version": 1, "nodes": {"n1": {"sku": "cpu-only", "lifecycle": "bringup"}}}))
    of = context(tmp_path)
    ((name, seen),) = Kernel(step("kernel"), of, "bringup").observe(machines(of, "n1"))
    assert name == "n1" and seen.stand is not StepState.SO      # no one has learnt a baseline of this machine
    with opened(of.folder) as store:
        assert {row[0].partition("-")[0] for row in store.rows("SELECT rule FROM problem")} <= {"kernel"}
