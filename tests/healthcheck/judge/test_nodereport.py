"""The one line that says why a node has its state."""

from __future__ import annotations

from dataclasses import replace

from healthcheck.judge.nodereport import reason_of, summary_line, unreached, worst_first
from healthcheck.model.outcome import Finding, NodeReport, NodeState, Result, Severity, Status, Unjudged
from healthcheck.model.recording import Recording
from inventory.model import Node
from inventory.transport.base import Failure, Stage

DEAD = Finding("does not answer", "answers", "GPU 5")


def result(rule: str, status: Status, severity: Severity = Severity.WARNING,
           reason: str = "not read") -> Result:
    findings = (Finding(1, 2, "GPU 0"),) if status is Status.FAIL else ()
    return Result(rule, "c", status, severity, findings, reason if status is Status.UNKNOWN else "")


def test_a_node_that_was_not_reached_is_unknown_for_the_stage_and_the_reason_in_a_bounded_line() -> None:
    lost = Recording("n1", 1.0, None, Failure(Stage.AUTH, "x" * 5000))
    report = unreached(Node("n1"), lost)
    assert (report.state, report.stage, report.results) == (NodeState.UNKNOWN, "auth", ())
    assert report.reason.startswith("auth: xxx") and len(report.reason) == 1000


def test_what_is_only_informative_is_no_reason() -> None:
    found = [result("a-info", Status.FAIL, Severity.INFO), result("b-warning", Status.FAIL)]
    assert reason_of(NodeState.DEGRADED, found) == "b-warning: GPU 0: 1, expected 2"
    assert reason_of(NodeState.UNKNOWN, found[:1]) == "nothing was measured: every rule was skipped"
    assert reason_of(NodeState.HEALTHY, found) == ""


def test_what_is_unknown_stands_in_the_line_where_it_makes_the_state_and_warnings_make_it_too() -> None:
    found = [result("a-warning", Status.UNKNOWN), result("b-info", Status.UNKNOWN, Severity.INFO)]
    assert reason_of(NodeState.UNKNOWN, found) == "a-warning: not read"
    failed = [*found, result("c-critical", Status.FAIL, Severity.CRITICAL)]
    assert reason_of(NodeState.UNHEALTHY, failed) == "c-critical: GPU 0: 1, expected 2"
    assert [one.rule for one in worst_first(failed)] == ["c-critical", "a-warning", "b-info"]


def test_a_summary_of_nothing_wrong_says_the_reports_reason_or_that_nothing_is_wrong() -> None:
    well = NodeReport("n1", NodeState.HEALTHY, "", (result("a", Status.PASS),))
    assert summary_line(well, 200) == "healthy: nothing is wrong (1 passed)"
    assert summary_line(replace(well, reason="by its agent"), 200) == "healthy: by its agent (1 passed)"


def test_each_rule_shows_the_causes_that_are_its_own_findings() -> None:
    dead = Result("gpu-answers", "c", Status.FAIL, Severity.CRITICAL, (DEAD,))
    hot = Result("gpu-hot", "c", Status.FAIL, Severity.CRITICAL, (Finding(99, 90, "GPU 0"),))
    part = Unjudged("GPU 5: hung", ("GPU 5",), cause="GPU 5", rule="gpu-answers")
    unjudged = replace(result("gpu-ecc", Status.UNKNOWN, Severity.CRITICAL), unjudged=(part,))
    line = reason_of(NodeState.UNHEALTHY, [dead, hot, unjudged])
    assert line == ("gpu-answers: GPU 5: does not answer; 1 rule cannot be judged for it; "
                    "gpu-hot: GPU 0: 99, expected 90")
